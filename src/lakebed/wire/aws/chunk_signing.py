"""Chunk signatures of `aws-chunked` bodies."""

from __future__ import annotations

import hashlib
from collections.abc import Callable
from enum import StrEnum
from typing import Final

_EMPTY_SHA256: Final = hashlib.sha256(b"").hexdigest()


class StreamingKind(StrEnum):
    """The streaming values of `x-amz-content-sha256`."""

    SIGNED = "STREAMING-AWS4-HMAC-SHA256-PAYLOAD"
    SIGNED_TRAILER = "STREAMING-AWS4-HMAC-SHA256-PAYLOAD-TRAILER"
    UNSIGNED_TRAILER = "STREAMING-UNSIGNED-PAYLOAD-TRAILER"

    @property
    def is_signed(self) -> bool:
        """Whether each chunk has a signature."""
        return self is not StreamingKind.UNSIGNED_TRAILER

    @property
    def has_trailer(self) -> bool:
        """Whether trailing headers follow the last chunk."""
        return self is not StreamingKind.SIGNED


class ChunkSigner:
    """Computes the signatures of one request's chunks."""

    __slots__ = ("_payload", "_sign", "_trailer")

    def __init__(self, sign: Callable[[str], str], timestamp: str, scope: str) -> None:
        """`sign` is `SigningKey.sign`; `timestamp` and `scope` are those of the request's string to sign."""
        self._sign = sign
        self._payload = f"AWS4-HMAC-SHA256-PAYLOAD\n{timestamp}\n{scope}\n"
        self._trailer = f"AWS4-HMAC-SHA256-TRAILER\n{timestamp}\n{scope}\n"

    def chunk_signature(self, previous: str, payload_sha256: str) -> str:
        """The signature of a chunk, from its hash and the previous signature."""
        return self._sign(f"{self._payload}{previous}\n{_EMPTY_SHA256}\n{payload_sha256}")

    def trailer_signature(self, previous: str, trailer_sha256: str) -> str:
        """The signature of a trailer, from the hash of its canonical text and the last chunk's signature."""
        return self._sign(f"{self._trailer}{previous}\n{trailer_sha256}")
