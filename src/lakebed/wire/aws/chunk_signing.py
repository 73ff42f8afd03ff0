"""Signed `aws-chunked` bodies: the kinds of body and the signatures over their chunks."""

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
        """Whether each chunk carries a signature."""
        return self is not StreamingKind.UNSIGNED_TRAILER

    @property
    def has_trailer(self) -> bool:
        """Whether headers follow the last chunk."""
        return self is not StreamingKind.SIGNED


class ChunkSigner:
    """Signatures over chunks, with all that stays the same within a request calculated once."""

    __slots__ = ("_payload", "_sign", "_trailer")

    def __init__(self, sign: Callable[[str], str], timestamp: str, scope: str) -> None:
        """`sign`: HMAC-SHA256 of a text with the signing key, in hexadecimal: `SigningKey.sign`.

        `timestamp` as in the request's string to sign, `20130524T000000Z`; `scope` likewise,
        `DATE/REGION/SERVICE/aws4_request`.
        """
        self._sign = sign
        self._payload = f"AWS4-HMAC-SHA256-PAYLOAD\n{timestamp}\n{scope}\n"
        self._trailer = f"AWS4-HMAC-SHA256-TRAILER\n{timestamp}\n{scope}\n"

    def chunk_signature(self, previous: str, payload_sha256: str) -> str:
        """The signature of a chunk whose bytes have this hash, after one signed `previous`."""
        return self._sign(f"{self._payload}{previous}\n{_EMPTY_SHA256}\n{payload_sha256}")

    def trailer_signature(self, previous: str, trailer_sha256: str) -> str:
        """The signature of a trailer whose canonical text has this hash, after a last chunk signed `previous`."""
        return self._sign(f"{self._trailer}{previous}\n{trailer_sha256}")
