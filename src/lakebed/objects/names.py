"""Validates names of buckets and keys by S3's rules."""

from __future__ import annotations

import re
from typing import Final

from lakebed.core.errors import InvalidName, TooLarge

from .model import MAX_KEY_BYTES

_BUCKET: Final = re.compile(r"[a-z0-9][a-z0-9.-]{1,61}[a-z0-9]")
_IPV4: Final = re.compile(r"\d+\.\d+\.\d+\.\d+")
_RESERVED_PREFIXES: Final = ("xn--", "sthree-", "amzn-s3-demo-")
_RESERVED_SUFFIXES: Final = ("-s3alias", "--ol-s3", ".mrap", "--x-s3", "--table-s3")


def check_bucket_name(name: str) -> None:
    """Raise InvalidName unless `name` is a valid bucket name."""
    if not _BUCKET.fullmatch(name) or ".." in name or ".-" in name or "-." in name or _IPV4.fullmatch(name):
        raise InvalidName("a bucket name is 3 to 63 lower-case letters, digits, dots and hyphens", value=name)
    if name.startswith(_RESERVED_PREFIXES) or name.endswith(_RESERVED_SUFFIXES):
        raise InvalidName("this bucket name's prefix or suffix is reserved", value=name)


def check_key(key: str) -> None:
    """Raise InvalidName or TooLarge unless `key` is a valid object key."""
    if not key:
        raise InvalidName("a key must not be empty", value=key)
    size = len(key) if key.isascii() else _utf8_length(key)
    if size > MAX_KEY_BYTES:
        raise TooLarge(f"a key may have at most {MAX_KEY_BYTES} bytes", argument="key", value=str(size))
    if "\0" in key:
        raise InvalidName("a key must not contain NUL", value=key)


def _utf8_length(key: str) -> int:
    try:
        return len(key.encode())
    except UnicodeEncodeError as error:
        raise InvalidName("a key must be valid UTF-8") from error
