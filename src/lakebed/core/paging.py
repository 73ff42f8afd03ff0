"""Page tokens: the position at which a listing continues.

A token is urlsafe base64 of a version byte, a checksum of four bytes and a msgpack payload. The checksum covers the
listing's kind, so that noise, truncated tokens and tokens of another listing are rejected. It is not a signature: each
page is authorized on its own, so a forged token gains nothing.
"""

from __future__ import annotations

import binascii
import zlib
from base64 import urlsafe_b64encode
from typing import Final, Generic, TypeVar

import msgspec

from .errors import InvalidInput

T = TypeVar("T")

MAX_TOKEN_CHARS: Final = 4096
"""The longest token accepted: a key of 1,024 bytes and a version fit several times over."""

_VERSION: Final = b"\x01"
_URLSAFE_TO_PLAIN: Final = str.maketrans("-_", "+/")


class PageTokens(Generic[T]):
    """Tokens of one kind of listing. `position` is the type a token holds: a `msgspec.Struct` or any type of msgspec.

    The kind is part of every token: renaming it, or changing the position's fields, invalidates old tokens.
    """

    __slots__ = ("_decoder", "_encoder", "_seed", "kind")

    def __init__(self, kind: str, position: type[T]) -> None:
        self.kind = kind
        self._seed = zlib.crc32(_VERSION + kind.encode() + b"\x00")
        self._encoder = msgspec.msgpack.Encoder()
        self._decoder = msgspec.msgpack.Decoder(position)

    def encode(self, position: T) -> str:
        """The token of `position`."""
        payload = self._encoder.encode(position)
        checksum = zlib.crc32(payload, self._seed).to_bytes(4)
        return urlsafe_b64encode(_VERSION + checksum + payload).rstrip(b"=").decode()

    def decode(self, token: str) -> T:
        """The position that made `token`. Raises InvalidInput for everything that `encode` did not return."""
        if len(token) > MAX_TOKEN_CHARS:
            raise self._refused(token)
        raw = _from_urlsafe(token)
        if raw is None or raw[:1] != _VERSION or zlib.crc32(raw[5:], self._seed).to_bytes(4) != raw[1:5]:
            raise self._refused(token)
        try:
            return self._decoder.decode(raw[5:])
        except (msgspec.DecodeError, UnicodeDecodeError, RecursionError) as error:
            raise self._refused(token) from error

    def _refused(self, token: str) -> InvalidInput:
        return InvalidInput(
            f"invalid page token, or a token of a different listing: restart without one. listing={self.kind}",
            argument="token",
            value=token[:80],
        )


def _from_urlsafe(token: str) -> bytes | None:
    """Bytes of unpadded urlsafe base64 in its one canonical spelling, or None."""
    try:
        plain = token.translate(_URLSAFE_TO_PLAIN).encode("ascii")
        raw = binascii.a2b_base64(plain + b"=" * (-len(plain) % 4), strict_mode=True)
    except (UnicodeEncodeError, binascii.Error):
        return None
    # Unused bits of the last character, and plain `+` or `/`, would give one position several tokens.
    return raw if urlsafe_b64encode(raw).rstrip(b"=").decode() == token else None
