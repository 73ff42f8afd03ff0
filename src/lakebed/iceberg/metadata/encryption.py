"""Encryption keys in table metadata. They are wrapped: the catalog cannot decrypt them."""

from __future__ import annotations

import binascii
from typing import Final

from msgspec import Raw

from lakebed.core.errors import InvalidInput

from ..documents import DocumentElement, check_unique, read, read_list

__all__ = ["ENCRYPTION_SINCE_VERSION", "EncryptedKey", "parse_key", "parse_keys"]

ENCRYPTION_SINCE_VERSION: Final = 3


class EncryptedKey(DocumentElement, frozen=True):
    """A key, encrypted with another."""

    key_id: str
    encrypted_key_metadata: str
    encrypted_by_id: str | None = None
    properties: dict[str, str] | None = None


def parse_key(written: Raw | bytes, where: str) -> EncryptedKey:
    """Parse a key. Raises InvalidInput that names the field."""
    key = read(EncryptedKey, written, where)
    if not key.key_id:
        raise InvalidInput(f"{where}.key-id: must not be empty", argument=where)
    try:
        binascii.a2b_base64(key.encrypted_key_metadata, strict_mode=True)
    except ValueError as error:
        # The message omits the value, which is a wrapped secret.
        raise InvalidInput(f"{where}.encrypted-key-metadata: must be base64", argument=where) from error
    return key


def parse_keys(written: Raw, where: str) -> dict[str, EncryptedKey]:
    """Parse a table's keys, by id."""
    keys = read_list(EncryptedKey, written, where)
    check_unique("key-id", [key.key_id for key in keys], where)
    return {key.key_id: key for key in keys}
