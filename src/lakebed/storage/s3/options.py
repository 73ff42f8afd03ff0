"""Options of an S3 store, validated on construction."""

from __future__ import annotations

import re
from dataclasses import dataclass
from typing import Final, Literal, get_args
from urllib.parse import urlsplit

from ...core.errors import InvalidSetting
from ...core.secrets import Secret
from ..credentials.inline import check_key_pair

Checksum = Literal["none", "crc32", "crc32c", "crc64nvme", "sha256"]
"""Checksum sent with bodies in addition to the signature's digest; every store supports `none`."""

_BUCKET: Final = re.compile(r"[A-Za-z0-9][A-Za-z0-9._-]{1,253}[A-Za-z0-9]")
_MAX_PREFIX_BYTES: Final = 512


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
            raise _invalid("bucket", f"expected a bucket name. found={self.bucket!r}")
        segments = self.prefix.strip("/").split("/") if self.prefix.strip("/") else []
        if any(segment in ("", ".", "..") or "\0" in segment for segment in segments):
            raise _invalid("prefix", f"segments must not be empty, . or .. found={self.prefix!r}")
        if len(self.prefix.encode("utf-8", "surrogatepass")) > _MAX_PREFIX_BYTES:
            raise _invalid("prefix", f"is too long. maximum={_MAX_PREFIX_BYTES}")
        if self.region == "":
            raise _invalid("region", "must not be empty")
        if self.endpoint is not None:
            self._check_endpoint(self.endpoint)
        check_key_pair(self.access_key_id, self.secret_access_key)
        if self.session_token and not self.access_key_id:
            raise _invalid("session_token", "set without access_key_id and secret_access_key")
        if self.checksum not in get_args(Checksum):
            raise _invalid("checksum", f"expected one of {', '.join(get_args(Checksum))}. found={self.checksum!r}")
        if self.max_concurrency < 1:
            raise _invalid("max_concurrency", f"must be at least 1. found={self.max_concurrency}")
        for name in ("connect_timeout_seconds", "read_timeout_seconds"):
            if not getattr(self, name) > 0:
                raise _invalid(name, f"must be more than 0. found={getattr(self, name)}")

    def _check_endpoint(self, endpoint: str) -> None:
        try:
            parts = urlsplit(endpoint)
            host, _ = parts.hostname, parts.port
        except ValueError:
            raise _invalid("endpoint", "expected a URL") from None
        if parts.scheme not in ("http", "https") or not host:
            raise _invalid("endpoint", "expected a URL such as https://s3.example.org")
        if parts.username is not None or parts.query or parts.fragment:
            # Errors show the endpoint, and would show a password in it.
            raise _invalid("endpoint", "must not contain user, query or fragment")
        if parts.scheme == "http" and not self.allow_http:
            raise _invalid("endpoint", "is plain http: use https, or set allow_http")

    @property
    def uses_path_style(self) -> bool:
        """Whether requests have the bucket in the path."""
        return self.endpoint is not None if self.path_style is None else self.path_style

    @property
    def key_prefix(self) -> str:
        """The prefix with exactly one `/` at its end, or nothing."""
        trimmed = self.prefix.strip("/")
        return f"{trimmed}/" if trimmed else ""


def _invalid(name: str, reason: str) -> InvalidSetting:
    return InvalidSetting(f"{name}: {reason}", argument=name)
