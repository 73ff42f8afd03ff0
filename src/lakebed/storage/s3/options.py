"""Options of an S3 store, validated on construction."""

from __future__ import annotations

import re
from dataclasses import dataclass
from typing import Final, Literal, get_args

from ...core.secrets import Secret
from ..credentials.inline import check_key_pair
from ..option_checks import check_endpoint, check_limits, check_prefix, invalid_option, joined_prefix

Checksum = Literal["none", "crc32", "crc32c", "crc64nvme", "sha256"]
"""Checksum sent with bodies in addition to the signature's digest; every store supports `none`."""

_BUCKET: Final = re.compile(r"[A-Za-z0-9][A-Za-z0-9._-]{1,253}[A-Za-z0-9]")


@dataclass(frozen=True, slots=True)
class S3Options:
    """One bucket of an S3 store. Raises InvalidSetting, starting with the field's name, for an invalid value."""

    bucket: str
    prefix: str = ""
    """Prepended to every key, joined with one `/`."""

    region: str | None = None
    """None: from the environment or the profile; with an endpoint, `us-east-1`."""

    endpoint: str | None = None
    """None: AWS."""

    path_style: bool | None = None
    """None: path style exactly when an endpoint is set."""

    allow_http: bool = False
    """Allow an endpoint without TLS."""

    access_key_id: str | None = None
    """None: from the credential chain."""

    secret_access_key: Secret | None = None
    session_token: Secret | None = None
    imdsv1_fallback: bool = False
    max_concurrency: int = 64
    """Concurrent requests: threads, and pooled connections."""

    connect_timeout_seconds: float = 5.0
    read_timeout_seconds: float = 60.0
    checksum: Checksum = "none"
    unsigned_payload: bool = False
    """Leave the body out of the signature: cheaper, but only TLS protects it."""

    conditional_writes: bool = True
    """False: the store does not support them, and operations that require one are rejected."""

    bulk_delete: bool = True
    """False: delete objects one by one."""

    def __post_init__(self) -> None:
        if not _BUCKET.fullmatch(self.bucket):
            raise invalid_option("bucket", f"expected a bucket name. found={self.bucket!r}")
        check_prefix(self.prefix)
        if self.region == "":
            raise invalid_option("region", "must not be empty")
        if self.endpoint is not None:
            check_endpoint(self.endpoint, allow_http=self.allow_http)
        check_key_pair(self.access_key_id, self.secret_access_key)
        if self.session_token and not self.access_key_id:
            raise invalid_option("session_token", "set without access_key_id and secret_access_key")
        if self.checksum not in get_args(Checksum):
            raise invalid_option(
                "checksum", f"expected one of {', '.join(get_args(Checksum))}. found={self.checksum!r}"
            )
        check_limits(
            max_concurrency=self.max_concurrency,
            connect_timeout_seconds=self.connect_timeout_seconds,
            read_timeout_seconds=self.read_timeout_seconds,
        )

    @property
    def uses_path_style(self) -> bool:
        """Whether requests have the bucket in the path."""
        return self.endpoint is not None if self.path_style is None else self.path_style

    @property
    def key_prefix(self) -> str:
        """The prefix with exactly one `/` at its end, or nothing."""
        return joined_prefix(self.prefix)
