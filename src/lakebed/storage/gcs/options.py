"""Options of a GCS store, validated on construction."""

from __future__ import annotations

import re
from dataclasses import dataclass
from typing import Final

from ...core.secrets import Secret
from ..option_checks import check_endpoint, check_limits, check_prefix, invalid_option, joined_prefix

_BUCKET: Final = re.compile(r"[a-z0-9][a-z0-9._-]{1,220}[a-z0-9]")


def is_bucket_name(name: str) -> bool:
    """Whether the name has the form of a bucket's."""
    return _BUCKET.fullmatch(name) is not None


@dataclass(frozen=True, slots=True)
class GcsOptions:
    """One bucket of Google Cloud Storage. Raises InvalidSetting, starting with the field's name, for an invalid value.

    Credentials are the key file of a service account, or an access token; without either, the application default
    credentials.
    """

    bucket: str
    prefix: str = ""
    """Prepended to every key, joined with one `/`."""

    endpoint: str | None = None
    """None: Google's."""

    allow_http: bool = False
    """Allow an endpoint without TLS."""

    service_account_json: Secret | None = None
    """The content of the key file."""

    token: Secret | None = None
    """An OAuth 2.0 access token, which is not refreshed."""

    max_concurrency: int = 32
    """Concurrent requests: threads, and pooled connections."""

    connect_timeout_seconds: float = 5.0
    read_timeout_seconds: float = 60.0

    def __post_init__(self) -> None:
        if not is_bucket_name(self.bucket):
            raise invalid_option("bucket", f"expected a bucket name. found={self.bucket!r}")
        check_prefix(self.prefix)
        if self.endpoint is not None:
            check_endpoint(self.endpoint, allow_http=self.allow_http)
        for name, value in (("service_account_json", self.service_account_json), ("token", self.token)):
            if value is not None and not value:
                raise invalid_option(name, "must not be empty")
        if self.service_account_json is not None and self.token is not None:
            raise invalid_option("token", "set together with service_account_json: use one of them")
        check_limits(
            max_concurrency=self.max_concurrency,
            connect_timeout_seconds=self.connect_timeout_seconds,
            read_timeout_seconds=self.read_timeout_seconds,
        )

    @property
    def key_prefix(self) -> str:
        """The prefix with exactly one `/` at its end, or nothing."""
        return joined_prefix(self.prefix)
