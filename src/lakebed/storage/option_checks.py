"""Checks of the options that all remote stores have: key prefix, endpoint, concurrency, timeouts.

Each raises InvalidSetting, starting with the option's name.
"""

from __future__ import annotations

from typing import Final
from urllib.parse import urlsplit

from ..core.errors import InvalidSetting

__all__ = ["check_endpoint", "check_limits", "check_prefix", "invalid_option", "joined_prefix"]

_MAX_PREFIX_BYTES: Final = 512


def invalid_option(name: str, reason: str) -> InvalidSetting:
    """The error for an invalid option."""
    return InvalidSetting(f"{name}: {reason}", argument=name)


def check_prefix(prefix: str) -> None:
    """Check a prefix of all keys of a store."""
    segments = prefix.strip("/").split("/") if prefix.strip("/") else []
    if any(segment in ("", ".", "..") or "\0" in segment for segment in segments):
        raise invalid_option("prefix", f"segments must not be empty, . or .. found={prefix!r}")
    if len(prefix.encode("utf-8", "surrogatepass")) > _MAX_PREFIX_BYTES:
        raise invalid_option("prefix", f"is too long. maximum={_MAX_PREFIX_BYTES}")


def joined_prefix(prefix: str) -> str:
    """The prefix with exactly one `/` at its end, or nothing."""
    trimmed = prefix.strip("/")
    return f"{trimmed}/" if trimmed else ""


def check_endpoint(endpoint: str, *, allow_http: bool, name: str = "endpoint") -> None:
    """Check the URL of a service: without user, query or fragment, and with TLS unless `allow_http`."""
    try:
        parts = urlsplit(endpoint)
        host, _ = parts.hostname, parts.port
    except ValueError:
        raise invalid_option(name, "expected a URL") from None
    if parts.scheme not in ("http", "https") or not host:
        raise invalid_option(name, "expected a URL such as https://s3.example.org")
    if parts.username is not None or parts.query or parts.fragment:
        # Errors show the endpoint, and would show a password in it.
        raise invalid_option(name, "must not contain user, query or fragment")
    if parts.scheme == "http" and not allow_http:
        raise invalid_option(name, "is plain http: use https, or set allow_http")


def check_limits(*, max_concurrency: int, connect_timeout_seconds: float, read_timeout_seconds: float) -> None:
    """Check the concurrency and the timeouts of requests."""
    if max_concurrency < 1:
        raise invalid_option("max_concurrency", f"must be at least 1. found={max_concurrency}")
    for name, seconds in (
        ("connect_timeout_seconds", connect_timeout_seconds),
        ("read_timeout_seconds", read_timeout_seconds),
    ):
        if not seconds > 0:
            raise invalid_option(name, f"must be more than 0. found={seconds}")
