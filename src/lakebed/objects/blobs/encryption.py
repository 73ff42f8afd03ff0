"""Encryption at rest: each run of bytes has a key of its own, wrapped by a key from the settings.

Bytes are sealed in frames of 64 KiB with AES-256-GCM, so that a range can be read by opening the frames it touches. The
nonce of a frame is its index: safe, because no data key ever seals two runs of bytes. The frame's index and whether it
is the last are authenticated, so frames cannot be swapped, repeated or cut off unnoticed.
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
    """The keys that wrap data keys: one is used for new bytes, all can open old ones."""

    def __init__(self, keys: Mapping[str, bytes], active: str) -> None:
        if active not in keys:
            raise InvalidSetting(f"encryption.active: no such key. key={active}")
        for name, key in keys.items():
            if len(key) != _KEY_BYTES:
                raise InvalidSetting(f"encryption.keys.{name}: a key has {_KEY_BYTES} bytes. found={len(key)}")
        self._keys = {name: AESGCM(key) for name, key in keys.items()}
        self._active = active

    def new_data_key(self) -> tuple[bytes, bytes]:
        """A fresh data key, plain and wrapped."""
        key = os.urandom(_KEY_BYTES)
        nonce = os.urandom(_NONCE_BYTES)
        name = self._active.encode()
        wrapped = self._keys[self._active].encrypt(nonce, key, name)
        return key, bytes([len(name)]) + name + nonce + wrapped

    def unwrap(self, seal: bytes) -> bytes:
        """The data key inside a seal. Raises Corrupted if its wrapping key is unknown or does not fit."""
        length = seal[0] if seal else 0
        name = seal[1 : 1 + length]
        nonce = seal[1 + length : 1 + length + _NONCE_BYTES]
        shown = name.decode("utf-8", "replace")
        wrapping = self._keys.get(shown)
        if wrapping is None:
            raise Corrupted(f"the key that encrypts this object is not in the settings. key={shown}")
        try:
            return wrapping.decrypt(nonce, seal[1 + length + _NONCE_BYTES :], name)
        except (InvalidTag, ValueError) as error:  # ValueError: a seal that was cut off inside its nonce
            raise Corrupted(f"the object's key does not open with the key in the settings. key={shown}") from error


def sealed_size(size: int) -> int:
    """How many bytes `size` bytes become."""
    return size + TAG_BYTES * max(1, -(-size // FRAME_BYTES))


class Sealer:
    """Seals a run of bytes as it arrives."""

    __slots__ = ("_buffer", "_cipher", "_index")

    def __init__(self, key: bytes) -> None:
        self._cipher = AESGCM(key)
        self._index = 0
        self._buffer = bytearray()

    def update(self, data: bytes | bytearray | memoryview) -> bytes:
        """Sealed frames, as far as they are surely not the last."""
        self._buffer += data
        out = []
        # One frame is held back: only `finish` knows which is the last.
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
    """Seal a run of bytes that is all here."""
    sealer = Sealer(key)
    return sealer.update(data) + sealer.finish()


class Opener:
    """Opens a range of a sealed run."""

    __slots__ = ("_cipher", "_last")

    def __init__(self, key: bytes, size: int) -> None:
        self._cipher = AESGCM(key)
        self._last = max(0, -(-size // FRAME_BYTES) - 1)

    def open_frame(self, index: int, sealed: bytes | memoryview) -> bytes:
        """The plain bytes of one frame. Raises Corrupted."""
        try:
            return self._cipher.decrypt(_nonce(index), bytes(sealed), _bound(last=index == self._last))
        except InvalidTag as error:
            raise Corrupted(f"an encrypted frame does not verify. frame={index}") from error

    def open_frames(self, first: int, sealed: bytes | memoryview) -> Iterator[bytes]:
        """Consecutive frames, the first of which has index `first`."""
        view = memoryview(sealed)
        for number, start in enumerate(range(0, len(view), SEALED_FRAME_BYTES)):
            yield self.open_frame(first + number, view[start : start + SEALED_FRAME_BYTES])


def open_whole(key: bytes, sealed: bytes, size: int) -> bytes:
    """Open a sealed run that is all here. Raises Corrupted, also when whole frames are missing at its end."""
    if len(sealed) != sealed_size(size):
        raise Corrupted(f"encrypted bytes have a wrong length. found={len(sealed)} expected={sealed_size(size)}")
    return b"".join(Opener(key, size).open_frames(0, sealed))


def frame_range(start: int, end: int) -> tuple[int, int, int]:
    """For plain bytes [start, end): the first frame, and the range of sealed bytes that holds them."""
    first = start // FRAME_BYTES
    last = (end - 1) // FRAME_BYTES
    return first, first * SEALED_FRAME_BYTES, (last + 1) * SEALED_FRAME_BYTES


def _nonce(index: int) -> bytes:
    return index.to_bytes(_NONCE_BYTES)


def _bound(*, last: bool) -> bytes:
    return b"last" if last else b"more"
