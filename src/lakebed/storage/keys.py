"""Validates keys and metadata before they reach an object store, and joins keys to a store's prefix."""

from __future__ import annotations

import re
from collections.abc import Mapping
from typing import Final

from ..core.errors import InvalidInput, InvalidName, TooLarge
from .seam import Key, Metadata

__all__ = ["MAX_KEY_BYTES", "MAX_METADATA_BYTES", "check_key", "check_metadata", "encode_text", "full_key", "own_key"]

MAX_KEY_BYTES: Final = 1024
"""S3's limit."""

MAX_METADATA_BYTES: Final = 2048
"""S3's limit for the user metadata of an object: names and values together."""

_ORDINARY = re.compile(r"[A-Za-z0-9_-][A-Za-z0-9_.-]*(?:/[A-Za-z0-9_-][A-Za-z0-9_.-]*)*")
"""Most keys. Matching them costs a third of checking each segment."""

_METADATA_NAME = re.compile(r"[a-z0-9]+")
_METADATA_VALUE = re.compile(r"[!-~](?:[ -~]*[!-~])?|")
"""Printable ASCII without spaces at the ends: HTTP headers pass it unchanged."""


def check_key(key: str) -> bytes:
    """The key as UTF-8. Raises InvalidName if it breaks the rules of `Key`."""
    if not key:
        raise InvalidName("key is empty", argument="key", value=key)
    encoded = encode_text(key)
    if len(encoded) > MAX_KEY_BYTES:
        raise InvalidName(f"key is too long. bytes={len(encoded)} maximum={MAX_KEY_BYTES}", argument="key", value=key)
    if _ORDINARY.fullmatch(key) is not None:
        return encoded
    if b"\0" in encoded:
        raise InvalidName("key contains NUL", argument="key", value=key)
    for segment in encoded.split(b"/"):
        if segment in (b"", b".", b".."):
            raise InvalidName(f"key has a segment that is empty, . or .. key={key!r}", argument="key", value=key)
    return encoded


def full_key(prefix: str, key: Key) -> str:
    """The key in a store whose keys begin with `prefix`. Raises InvalidName."""
    encoded = check_key(key)
    # The limit is in bytes of the whole key.
    if len(encoded) + len(prefix.encode()) > MAX_KEY_BYTES:
        raise InvalidName(f"key with prefix is too long. maximum={MAX_KEY_BYTES}", argument="key", value=key)
    return prefix + key


def own_key(prefix: str, found: str) -> Key | None:
    """The key without the prefix; None for other keys, such as folder markers of other tools."""
    if not found.startswith(prefix):
        return None
    key = found[len(prefix) :]
    try:
        check_key(key)
    except InvalidName:
        return None
    return Key(key)


def encode_text(text: str) -> bytes:
    """A key, prefix or marker as UTF-8. Raises InvalidName for lone surrogates."""
    try:
        return text.encode()
    except UnicodeEncodeError as error:
        raise InvalidName(f"text is not valid UTF-8. text={text!r}", argument="key") from error


def check_metadata(metadata: Metadata | None) -> Mapping[str, str]:
    """A copy of the metadata. Raises InvalidName, InvalidInput or TooLarge if a store might alter it."""
    if not metadata:
        return {}
    total = 0
    for name, value in metadata.items():
        if _METADATA_NAME.fullmatch(name) is None:
            raise InvalidName(f"metadata name must be lower-case letters and digits. name={name!r}", argument=name)
        if _METADATA_VALUE.fullmatch(value) is None:
            raise InvalidInput(f"metadata value must be printable ASCII. name={name}", argument=name)
        total += len(name) + len(value)
    if total > MAX_METADATA_BYTES:
        raise TooLarge(f"metadata is too large. bytes={total} maximum={MAX_METADATA_BYTES}")
    return dict(metadata)
