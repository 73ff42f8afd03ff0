"""Where an S3 store is and how to speak to it: plain values, checked when they are made."""

from __future__ import annotations

import re
from dataclasses import dataclass
from typing import Final, Literal, get_args
from urllib.parse import urlsplit

from ...core.errors import InvalidSetting
from ...core.secrets import Secret
from ..credentials.inline import check_key_pair

Checksum = Literal["none", "crc32", "crc32c", "crc64nvme", "sha256"]
"""What is sent along with bodies beyond the digest in the signature; `none` is what every store understands."""

_BUCKET: Final = re.compile(r"[A-Za-z0-9][A-Za-z0-9._-]{1,253}[A-Za-z0-9]")
_MAX_PREFIX_BYTES: Final = 512


@dataclass(frozen=True, slots=True)
class S3Options:
    """One bucket of an S3 store. Raises InvalidSetting, starting with the field's name, if a value cannot be."""

    bucket: str
    prefix: str = ""
    """Put before every key, joined with one `/`."""

    region: str | None = None
    """None: as the environment or the profile says; with an endpoint, `us-east-1`."""

    endpoint: str | None = None
    """None: AWS."""

    path_style: bool | None = None
    """None: path style exactly when an endpoint is set."""

    allow_http: bool = False
    """Allow an endpoint without TLS."""

    access_key_id: str | None = None
    """None: the credential chain goes on to the environment and the rest."""

    secret_access_key: Secret | None = None
    session_token: Secret | None = None
    imdsv1_fallback: bool = False
    max_concurrency: int = 64
    """Requests under way at once: threads, and connections kept."""

    connect_timeout_seconds: float = 5.0
    read_timeout_seconds: float = 60.0
    checksum: Checksum = "none"
    unsigned_payload: bool = False
    """Leave the body out of the signature: cheaper, and only TLS then guards it."""

    conditional_writes: bool = True
    """False: the store has none, and whatever needs one is refused."""

    bulk_delete: bool = True
    """False: delete one by one without asking the store for more."""

    def __post_init__(self) -> None:
        if not _BUCKET.fullmatch(self.bucket):
            raise _wrong("bucket", f"expected a bucket's name. found={self.bucket!r}")
        segments = self.prefix.strip("/").split("/") if self.prefix.strip("/") else []
        if any(segment in ("", ".", "..") or "\0" in segment for segment in segments):
            raise _wrong("prefix", f"segments must not be empty, . or .. found={self.prefix!r}")
        if len(self.prefix.encode("utf-8", "surrogatepass")) > _MAX_PREFIX_BYTES:
            raise _wrong("prefix", f"too long. maximum={_MAX_PREFIX_BYTES}")
        if self.region == "":
            raise _wrong("region", "must not be empty")
        if self.endpoint is not None:
            self._check_endpoint(self.endpoint)
        check_key_pair(self.access_key_id, self.secret_access_key)
        if self.session_token and not self.access_key_id:
            raise _wrong("session_token", "set without access_key_id and secret_access_key")
        if self.checksum not in get_args(Checksum):
            raise _wrong("checksum", f"expected one of {', '.join(get_args(Checksum))}. found={self.checksum!r}")
        if self.max_concurrency < 1:
            raise _wrong("max_concurrency", f"must be at least 1. found={self.max_concurrency}")
        for name in ("connect_timeout_seconds", "read_timeout_seconds"):
            if not getattr(self, name) > 0:
                raise _wrong(name, f"must be more than 0. found={getattr(self, name)}")

    def _check_endpoint(self, endpoint: str) -> None:
        try:
            parts = urlsplit(endpoint)
            host, _ = parts.hostname, parts.port
        except ValueError:
            raise _wrong("endpoint", "expected a URL") from None
        if parts.scheme not in ("http", "https") or not host:
            raise _wrong("endpoint", "expected a URL such as https://s3.example.org")
        if parts.username is not None or parts.query or parts.fragment:
            # It is shown in errors, and a password in it would be too.
            raise _wrong("endpoint", "must hold no user, query or fragment")
        if parts.scheme == "http" and not self.allow_http:
            raise _wrong("endpoint", "is plain http: use https, or set allow_http")

    @property
    def uses_path_style(self) -> bool:
        """Whether the bucket goes into the path."""
        return self.endpoint is not None if self.path_style is None else self.path_style

    @property
    def key_prefix(self) -> str:
        """What is put before keys: nothing, or the prefix with exactly one `/` at its end."""
        trimmed = self.prefix.strip("/")
        return f"{trimmed}/" if trimmed else ""


def _wrong(name: str, why: str) -> InvalidSetting:
    return InvalidSetting(f"{name}: {why}", argument=name)
