"""Encryption at rest: each blob or inline body has its own data key, wrapped by a master key from the settings.

Bytes are encrypted in frames of 64 KiB with AES-256-GCM, so that a range read decrypts only the frames it overlaps. A
frame's nonce is its index: safe, because a data key encrypts one run of bytes only. The index and an end marker are
authenticated, so swapped, repeated or truncated frames are detected.
"""

from __future__ import annotations

import os
from collections.abc import Iterator, Mapping
from typing import Final

from cryptography.exceptions import InvalidTag
from cryptography.hazmat.primitives.ciphers.aead import AESGCM

from lakebed.core.errors import Corrupted, InvalidSetting

FRAME_BYTES: Final = 64 * 1024
TAG_BYTES: Final = 16
SEALED_FRAME_BYTES: Final = FRAME_BYTES + TAG_BYTES

_NONCE_BYTES: Final = 12
_KEY_BYTES: Final = 32


class KeyRing:
    """The master keys that wrap data keys: the active one wraps new data keys, all can unwrap."""

    def __init__(self, keys: Mapping[str, bytes], active: str) -> None:
        if active not in keys:
            raise InvalidSetting(f"encryption.active: no such key. key={active}")
        for name, key in keys.items():
            if len(key) != _KEY_BYTES:
                raise InvalidSetting(f"encryption.keys.{name}: a key must have {_KEY_BYTES} bytes. found={len(key)}")
        self._keys = {name: AESGCM(key) for name, key in keys.items()}
        self._active = active

    def new_data_key(self) -> tuple[bytes, bytes]:
        """A new data key, plain and wrapped."""
        key = os.urandom(_KEY_BYTES)
        nonce = os.urandom(_NONCE_BYTES)
        name = self._active.encode()
        wrapped = self._keys[self._active].encrypt(nonce, key, name)
        return key, bytes([len(name)]) + name + nonce + wrapped

    def unwrap(self, seal: bytes) -> bytes:
        """The data key inside a seal. Raises Corrupted if its master key is unknown or wrong."""
        length = seal[0] if seal else 0
        name = seal[1 : 1 + length]
        nonce = seal[1 + length : 1 + length + _NONCE_BYTES]
        shown = name.decode("utf-8", "replace")
        wrapping = self._keys.get(shown)
        if wrapping is None:
            raise Corrupted(f"the master key of this object is not in the settings. key={shown}")
        try:
            return wrapping.decrypt(nonce, seal[1 + length + _NONCE_BYTES :], name)
        except (InvalidTag, ValueError) as error:  # ValueError: a seal truncated inside its nonce
            raise Corrupted(f"the object's data key does not decrypt with this master key. key={shown}") from error


def sealed_size(size: int) -> int:
    """The encrypted size of `size` bytes."""
    return size + TAG_BYTES * max(1, -(-size // FRAME_BYTES))


class Sealer:
    """Encrypts bytes as they arrive."""

    __slots__ = ("_buffer", "_cipher", "_index")

    def __init__(self, key: bytes) -> None:
        self._cipher = AESGCM(key)
        self._index = 0
        self._buffer = bytearray()

    def update(self, data: bytes | bytearray | memoryview) -> bytes:
        """Encrypted frames that are known not to be the last."""
        self._buffer += data
        out = []
        # One frame is held back, because the last frame is marked.
        while len(self._buffer) > FRAME_BYTES:
            out.append(self._seal(bytes(self._buffer[:FRAME_BYTES]), last=False))
            del self._buffer[:FRAME_BYTES]
        return b"".join(out)

    def finish(self) -> bytes:
        """The last frame, which may be empty."""
        return self._seal(bytes(self._buffer), last=True)

    def _seal(self, frame: bytes, *, last: bool) -> bytes:
        sealed = self._cipher.encrypt(_nonce(self._index), frame, _bound(last=last))
        self._index += 1
        return sealed


def seal_whole(key: bytes, data: bytes) -> bytes:
    """Encrypt a complete body."""
    sealer = Sealer(key)
    return sealer.update(data) + sealer.finish()


class Opener:
    """Decrypts a range of encrypted bytes."""

    __slots__ = ("_cipher", "_last")

    def __init__(self, key: bytes, size: int) -> None:
        self._cipher = AESGCM(key)
        self._last = max(0, -(-size // FRAME_BYTES) - 1)

    def open_frame(self, index: int, sealed: bytes | memoryview) -> bytes:
        """Decrypt one frame. Raises Corrupted."""
        try:
            return self._cipher.decrypt(_nonce(index), bytes(sealed), _bound(last=index == self._last))
        except InvalidTag as error:
            raise Corrupted(f"encrypted frame does not verify. frame={index}") from error

    def open_frames(self, first: int, sealed: bytes | memoryview) -> Iterator[bytes]:
        """Decrypt consecutive frames, starting with index `first`."""
        view = memoryview(sealed)
        for number, start in enumerate(range(0, len(view), SEALED_FRAME_BYTES)):
            yield self.open_frame(first + number, view[start : start + SEALED_FRAME_BYTES])


def open_whole(key: bytes, sealed: bytes, size: int) -> bytes:
    """Decrypt a complete body. Raises Corrupted, also if frames are missing at the end."""
    if len(sealed) != sealed_size(size):
        raise Corrupted(f"encrypted bytes have the wrong length. found={len(sealed)} expected={sealed_size(size)}")
    return b"".join(Opener(key, size).open_frames(0, sealed))


def frame_range(start: int, end: int) -> tuple[int, int, int]:
    """For plain bytes [start, end): the first frame, and the range of encrypted bytes that contains them."""
    first = start // FRAME_BYTES
    last = (end - 1) // FRAME_BYTES
    return first, first * SEALED_FRAME_BYTES, (last + 1) * SEALED_FRAME_BYTES


def _nonce(index: int) -> bytes:
    return index.to_bytes(_NONCE_BYTES)


def _bound(*, last: bool) -> bytes:
    return b"last" if last else b"more"
