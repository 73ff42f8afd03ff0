"""The rules that keys and metadata names obey, checked before a byte store looks at them."""

from __future__ import annotations

import re
from collections.abc import Mapping
from typing import Final

from ..core.errors import InvalidInput, InvalidName, TooLarge
from .seam import Metadata

__all__ = ["MAX_KEY_BYTES", "MAX_METADATA_BYTES", "check_key", "check_metadata", "encode_text"]

MAX_KEY_BYTES: Final = 1024
"""S3's longest key."""

MAX_METADATA_BYTES: Final = 2048
"""S3's most user metadata of one object: names and values together."""

_ORDINARY = re.compile(r"[A-Za-z0-9_-][A-Za-z0-9_.-]*(?:/[A-Za-z0-9_-][A-Za-z0-9_.-]*)*")
"""Most keys. Matching these costs a third of looking at the segments one by one."""

_METADATA_NAME = re.compile(r"[a-z0-9]+")
_METADATA_VALUE = re.compile(r"[!-~](?:[ -~]*[!-~])?|")
"""Printable ASCII without spaces at the ends: what an HTTP header hands on unchanged."""


def check_key(key: str) -> bytes:
    """The key as UTF-8. Raises InvalidName when it breaks the rules of `Key`."""
    if not key:
        raise InvalidName("key is empty", argument="key", value=key)
    encoded = encode_text(key)
    if len(encoded) > MAX_KEY_BYTES:
        raise InvalidName(f"key too long. bytes={len(encoded)} maximum={MAX_KEY_BYTES}", argument="key", value=key)
    if _ORDINARY.fullmatch(key) is not None:
        return encoded
    if b"\0" in encoded:
        raise InvalidName("key holds a NUL", argument="key", value=key)
    for segment in encoded.split(b"/"):
        if segment in (b"", b".", b".."):
            raise InvalidName(
                f"key has a segment that is empty or stands for a folder. key={key!r}", argument="key", value=key
            )
    return encoded


def encode_text(text: str) -> bytes:
    """A key, prefix or position as UTF-8. Raises InvalidName for lone surrogates, which UTF-8 does not have."""
    try:
        return text.encode()
    except UnicodeEncodeError as error:
        raise InvalidName(f"text cannot be written as UTF-8. text={text!r}", argument="key") from error


def check_metadata(metadata: Metadata | None) -> Mapping[str, str]:
    """A private copy of the metadata. Raises InvalidName, InvalidInput or TooLarge when a store might alter it."""
    if not metadata:
        return {}
    total = 0
    for name, value in metadata.items():
        if _METADATA_NAME.fullmatch(name) is None:
            raise InvalidName(f"metadata name is not lower-case letters and digits. name={name!r}", argument=name)
        if _METADATA_VALUE.fullmatch(value) is None:
            raise InvalidInput(f"metadata value is not plain printable ASCII. name={name}", argument=name)
        total += len(name) + len(value)
    if total > MAX_METADATA_BYTES:
        raise TooLarge(f"metadata too large. bytes={total} maximum={MAX_METADATA_BYTES}")
    return dict(metadata)
