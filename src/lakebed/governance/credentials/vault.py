"""Encryption of secrets with the server's master keys.

Each purpose has its own key, derived from the master key by HKDF, so that data encrypted for one purpose does not
decrypt for another. Encrypted data names its master key: after a change of the active key, older keys still decrypt.

Layout: version 1, length of the key id, key id, 12-byte nonce, AES-256-GCM ciphertext with tag. The bytes before the
nonce, and the caller's context, are authenticated.
"""

from __future__ import annotations

import os
from collections.abc import Callable, Mapping
from functools import lru_cache
from typing import Final

from cryptography.exceptions import InvalidTag
from cryptography.hazmat.primitives.ciphers.aead import AESGCM
from cryptography.hazmat.primitives.hashes import SHA256
from cryptography.hazmat.primitives.kdf.hkdf import HKDF

from lakebed.core.errors import Corrupted, InvalidSetting

_VERSION: Final = 1
_NONCE_BYTES: Final = 12
_TAG_BYTES: Final = 16
_KEY_BYTES: Final = 32
_FINGERPRINT: Final = "fingerprint"
"""A purpose that encrypts nothing, so that a fingerprint reveals no key in use."""


class MasterKeys:
    """The server's master keys by id. The active one encrypts; all decrypt."""

    __slots__ = ("_derive", "_ids", "active")

    def __init__(self, keys: Mapping[str, bytes], active: str) -> None:
        for key_id, key in keys.items():
            if len(key) != _KEY_BYTES:
                raise InvalidSetting(f"encryption.keys.{key_id}: a key has {_KEY_BYTES} bytes. found={len(key)}")
            if not 0 < len(key_id.encode()) < 256:
                raise InvalidSetting(f"encryption.keys.{key_id}: an id has 1 to 255 bytes")
        if active not in keys:
            raise InvalidSetting(f"encryption.active: no such key. key={active}")
        masters = dict(keys)
        self.active = active
        self._ids = frozenset(masters)
        self._derive = lru_cache(maxsize=64)(lambda key_id, purpose: _derive(masters[key_id], purpose))

    def __contains__(self, key_id: str) -> bool:
        return key_id in self._ids

    def derive(self, purpose: str, key_id: str | None = None) -> bytes:
        """A 32-byte key for one purpose, from the active or the named master key, which must exist."""
        derived: bytes = self._derive(key_id or self.active, purpose)
        return derived

    def fingerprint(self, key_id: str) -> bytes:
        """Identifies a key without revealing it or a key derived from it."""
        return self.derive(_FINGERPRINT, key_id)


def _derive(master: bytes, purpose: str) -> bytes:
    return HKDF(algorithm=SHA256(), length=_KEY_BYTES, salt=None, info=b"lakebed/1/" + purpose.encode()).derive(master)


class Vault:
    """Encrypts and decrypts for one purpose."""

    __slots__ = ("_entropy", "_keys", "_purpose")

    def __init__(self, keys: MasterKeys, purpose: str, entropy: Callable[[int], bytes] = os.urandom) -> None:
        self._keys = keys
        self._purpose = purpose
        self._entropy = entropy

    def seal(self, plain: bytes, context: bytes) -> bytes:
        """Encrypt `plain`. Decryption requires the same context, such as the row that it belongs to."""
        name = self._keys.active.encode()
        header = bytes((_VERSION, len(name))) + name
        nonce = self._entropy(_NONCE_BYTES)
        return header + nonce + self._cipher(self._keys.active).encrypt(nonce, plain, header + context)

    def open(self, sealed: bytes, context: bytes) -> bytes:
        """Decrypt. Raises Corrupted if the data is damaged, has another context, or its master key is missing."""
        key_id = self.key_id(sealed)
        start = 2 + sealed[1]
        nonce, body = sealed[start : start + _NONCE_BYTES], sealed[start + _NONCE_BYTES :]
        try:
            return self._cipher(key_id).decrypt(nonce, body, sealed[:start] + context)
        except InvalidTag as error:
            raise Corrupted(f"decryption failed. purpose={self._purpose} key={key_id}") from error

    def key_id(self, sealed: bytes) -> str:
        """The id of the master key that encrypted the data. Raises Corrupted for data of another format."""
        if len(sealed) < 2 or sealed[0] != _VERSION or len(sealed) < 2 + sealed[1] + _NONCE_BYTES + _TAG_BYTES:
            raise Corrupted(f"not encrypted by this server. purpose={self._purpose}")
        key_id = sealed[2 : 2 + sealed[1]].decode("utf-8", "replace")
        if key_id not in self._keys:
            raise Corrupted(f"master key of encrypted data is missing. purpose={self._purpose} key={key_id}")
        return key_id

    def _cipher(self, key_id: str) -> AESGCM:
        return AESGCM(self._keys.derive(self._purpose, key_id))
