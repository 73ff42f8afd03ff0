"""Sealed bytes: secrets that must come back as they were, closed with the server's master key.

Every purpose has a key of its own, derived from the master key by HKDF, so that nothing sealed for one purpose opens
for another. Sealed bytes name the master key that closed them: after a change of the active key, the old ones open
what they closed.

Layout: version 1, length of the key's id, the id, a nonce of 12 bytes, AES-256-GCM ciphertext with its tag. All that
comes before the nonce, and the caller's context, are authenticated with it.
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
"""A purpose that nothing is sealed for: what is derived for it opens nothing."""


class MasterKeys:
    """The server's master keys by id. One is active; the others still open what they closed."""

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
        """A key of 32 bytes for one purpose, from the active master key or the one named, which must be there."""
        derived: bytes = self._derive(key_id or self.active, purpose)
        return derived

    def fingerprint(self, key_id: str) -> bytes:
        """What tells a key from others where the key itself must not be. Neither the key nor a derived one follows."""
        return self.derive(_FINGERPRINT, key_id)


def _derive(master: bytes, purpose: str) -> bytes:
    return HKDF(algorithm=SHA256(), length=_KEY_BYTES, salt=None, info=b"lakebed/1/" + purpose.encode()).derive(master)


class Vault:
    """Seals and opens bytes for one purpose."""

    __slots__ = ("_entropy", "_keys", "_purpose")

    def __init__(self, keys: MasterKeys, purpose: str, entropy: Callable[[int], bytes] = os.urandom) -> None:
        self._keys = keys
        self._purpose = purpose
        self._entropy = entropy

    def seal(self, plain: bytes, context: bytes) -> bytes:
        """Close `plain`. Only who gives the same context, such as the row it belongs to, can open it."""
        name = self._keys.active.encode()
        header = bytes((_VERSION, len(name))) + name
        nonce = self._entropy(_NONCE_BYTES)
        return header + nonce + self._cipher(self._keys.active).encrypt(nonce, plain, header + context)

    def open(self, sealed: bytes, context: bytes) -> bytes:
        """What was sealed with this context. Raises Corrupted if it is damaged, foreign, or its key is not here."""
        key_id = self.key_id(sealed)
        start = 2 + sealed[1]
        nonce, body = sealed[start : start + _NONCE_BYTES], sealed[start + _NONCE_BYTES :]
        try:
            return self._cipher(key_id).decrypt(nonce, body, sealed[:start] + context)
        except InvalidTag as error:
            raise Corrupted(f"sealed bytes do not open. purpose={self._purpose} key={key_id}") from error

    def key_id(self, sealed: bytes) -> str:
        """The master key that closed these bytes. Raises Corrupted if they cannot be sealed bytes of this server."""
        if len(sealed) < 2 or sealed[0] != _VERSION or len(sealed) < 2 + sealed[1] + _NONCE_BYTES + _TAG_BYTES:
            raise Corrupted(f"these are not sealed bytes. purpose={self._purpose}")
        key_id = sealed[2 : 2 + sealed[1]].decode("utf-8", "replace")
        if key_id not in self._keys:
            raise Corrupted(f"the master key of sealed bytes is not here. purpose={self._purpose} key={key_id}")
        return key_id

    def _cipher(self, key_id: str) -> AESGCM:
        return AESGCM(self._keys.derive(self._purpose, key_id))
