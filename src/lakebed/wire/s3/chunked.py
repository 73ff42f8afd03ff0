"""Decodes aws-chunked bodies without copying, and verifies their signatures.

`x-amz-content-sha256` names one of three kinds:

    signed            SIZE;chunk-signature=SIG CRLF bytes CRLF … 0;chunk-signature=SIG CRLF CRLF
    signed, trailer   … 0;chunk-signature=SIG CRLF name:value CRLF … x-amz-trailer-signature:SIG CRLF CRLF
    unsigned, trailer SIZE CRLF bytes CRLF … 0 CRLF name:value CRLF … CRLF

Each signature covers its chunk and the previous signature; the first previous signature is that of the request. The
decoder returns bytes of a chunk before it can verify them, so nothing may become visible before `finish` returns.
"""

from __future__ import annotations

import hashlib
import hmac
import re
from collections.abc import Iterable, Mapping
from enum import Enum, auto
from typing import TYPE_CHECKING, Final

from lakebed.core.errors import Incomplete, InvalidInput, LakebedError, Unauthenticated
from lakebed.wire.aws.chunk_signing import ChunkSigner, StreamingKind

if TYPE_CHECKING:
    from hashlib import _Hash  # the type of hashlib's objects has no public name

__all__ = [
    "MIN_CHUNK_BYTES",
    "AwsChunkedDecoder",
    "ChunkSignatureMismatch",
    "ChunkTooSmall",
    "MalformedChunk",
    "MalformedTrailer",
    "TruncatedBody",
]

MIN_CHUNK_BYTES: Final = 8 * 1024
"""Minimum size of all chunks but the last, as in S3."""

_MAX_LINE_BYTES: Final = 8 * 1024
_MAX_TRAILER_BYTES: Final = 8 * 1024
_USUAL_LINE_BYTES: Final = 128
"""Longer than the chunk headers of all known clients: searched first for the end of a line."""

_EMPTY_SHA256: Final = hashlib.sha256(b"").hexdigest()
_SIGNED_HEADER: Final = re.compile(rb"([0-9A-Fa-f]{1,16});chunk-signature=([0-9a-f]{64})")
_UNSIGNED_HEADER: Final = re.compile(rb"([0-9A-Fa-f]{1,16})(?:;[!-~]*)?")
_TRAILER_LINE: Final = re.compile(rb"([A-Za-z0-9-]+):[ \t]*([\t -~]*)")
_TRAILER_SIGNATURE: Final = "x-amz-trailer-signature"


class MalformedChunk(InvalidInput):
    """The framing is malformed, or a chunk exceeds the declared length."""


class ChunkTooSmall(MalformedChunk):
    """A chunk other than the last is smaller than the minimum."""

    def __init__(self, number: int, size: int, minimum: int) -> None:
        super().__init__(f"chunk is too small. chunk={number} size={size} minimum={minimum}")
        self.number = number
        self.size = size


class TruncatedBody(Incomplete):
    """The body ended within its framing."""


class MalformedTrailer(InvalidInput):
    """The trailer is malformed, or does not match the headers that were declared."""


class ChunkSignatureMismatch(Unauthenticated):
    """The signature of a chunk or of the trailer does not match."""


class _State(Enum):
    HEADER = auto()
    PAYLOAD = auto()
    PAYLOAD_END = auto()
    TRAILER = auto()
    END = auto()  # after the last chunk or the trailer, before its closing CRLF
    DONE = auto()
    FAILED = auto()


class AwsChunkedDecoder:
    """Decodes one body: `feed` bytes as they arrive, then `finish`. After an error it accepts nothing more.

    Both methods may raise MalformedChunk, MalformedTrailer, ChunkSignatureMismatch and Incomplete.
    """

    __slots__ = (
        "_chunk",
        "_claimed",
        "_expected_trailers",
        "_hash",
        "_kind",
        "_left_in_chunk",
        "_left_in_object",
        "_line",
        "_minimum",
        "_previous",
        "_signer",
        "_small",
        "_state",
        "_touched",
        "_trailer_bytes",
        "_trailers",
    )

    def __init__(
        self,
        kind: StreamingKind,
        decoded_length: int,
        *,
        signer: ChunkSigner | None = None,
        seed_signature: str = "",
        trailers: Iterable[str] = (),
        min_chunk_bytes: int = 1,
    ) -> None:
        """`decoded_length` is `x-amz-decoded-content-length`; `seed_signature` is that of the request.

        `trailers` are the names in `x-amz-trailer`: all are required, and no others are allowed. `min_chunk_bytes`
        applies to all chunks but the last.
        """
        if kind.is_signed and signer is None:
            raise ValueError("a signed body requires a signer")
        self._kind = kind
        self._signer = signer if kind.is_signed else None
        self._previous = seed_signature
        self._claimed = b""
        self._hash: _Hash | None = None
        self._state = _State.HEADER
        self._left_in_chunk = 0
        self._left_in_object = decoded_length
        self._line = bytearray()
        self._touched = False
        self._expected_trailers = frozenset(name.strip().lower() for name in trailers if name.strip())
        self._trailers: dict[str, str] = {}
        self._trailer_bytes = 0
        self._minimum = min_chunk_bytes
        self._chunk = 0
        self._small = 0

    @property
    def trailers(self) -> Mapping[str, str]:
        """The trailer headers by lower-case name; complete and verified once `finish` has returned."""
        return self._trailers

    @property
    def is_done(self) -> bool:
        """Whether the end of the body was reached and everything verified."""
        return self._state is _State.DONE

    def feed(self, data: memoryview) -> list[memoryview]:
        """Decode the next bytes of the body; the pieces of payload in them, as views of `data`."""
        if self._state is _State.FAILED:
            raise MalformedChunk("chunked body was already rejected")
        pieces: list[memoryview] = []
        position, end = 0, len(data)
        self._touched |= end > 0
        try:
            while position < end:
                if self._state is _State.PAYLOAD:
                    piece = data[position : position + self._left_in_chunk]
                    position += len(piece)
                    pieces.append(piece)
                    self._take_payload(piece)
                else:
                    position = self._take_line(data, position, end)
        except LakebedError:
            self._state = _State.FAILED
            raise
        return pieces

    def finish(self) -> Mapping[str, str]:
        """End the body; the trailer headers. Raises Incomplete if the body is truncated.

        The empty line at the end may be missing, since everything before it was verified. So may the whole body of an
        empty object without declared trailers: some clients send none.
        """
        if self._state is _State.DONE:
            if self._line:
                self._state = _State.FAILED
                raise self._surplus()
            return self._trailers
        if not self._line:
            if self._state is _State.END:
                self._state = _State.DONE
                return self._trailers
            if not self._touched and not self._left_in_object and not self._expected_trailers:
                self._state = _State.DONE
                return self._trailers
        raise TruncatedBody(f"chunked body ended early. missing_bytes={self._left_in_object}")

    def _take_payload(self, piece: memoryview) -> None:
        if self._hash is not None:
            self._hash.update(piece)
        self._left_in_chunk -= len(piece)
        if self._left_in_chunk:
            return
        if self._hash is not None:
            self._verify_chunk(self._hash.hexdigest())
            self._hash = None
        self._state = _State.PAYLOAD_END

    def _take_line(self, data: memoryview, position: int, end: int) -> int:
        """Process a line, or buffer its beginning until the rest arrives; the position after it."""
        window = bytes(data[position : position + _USUAL_LINE_BYTES])
        cut = window.find(b"\n")
        if cut < 0 and end - position > _USUAL_LINE_BYTES:
            window = bytes(data[position : position + _MAX_LINE_BYTES + 1])
            cut = window.find(b"\n")
        line = window if cut < 0 else window[:cut]
        if len(self._line) + len(line) > _MAX_LINE_BYTES:
            raise MalformedChunk(f"line of a chunked body is too long. limit={_MAX_LINE_BYTES}")
        if cut < 0:
            self._line += line
            return end
        if self._line:
            line = bytes(self._line) + line
            self._line.clear()
        if line.endswith(b"\r"):
            self._on_line(line[:-1])
        elif self._state in (_State.TRAILER, _State.END, _State.DONE):
            self._on_line(line)  # MinIO's clients end trailer lines with LF and append an empty line
        else:
            raise MalformedChunk("line of a chunked body does not end with CRLF")
        return position + cut + 1

    def _on_line(self, line: bytes) -> None:
        state = self._state
        if state is _State.HEADER:
            self._begin_chunk(line)
        elif state is _State.PAYLOAD_END:
            if line:
                raise MalformedChunk("chunk is longer than its size")
            self._state = _State.HEADER
        elif state is _State.TRAILER:
            self._take_trailer(line)
        elif line:
            raise self._surplus()
        elif state is _State.END:
            self._state = _State.DONE
        else:
            self._count_trailer(line)  # an additional empty line of MinIO's clients

    def _surplus(self) -> InvalidInput:
        kind = MalformedTrailer if self._kind.has_trailer else MalformedChunk
        return kind("bytes after the end of a chunked body")

    def _begin_chunk(self, line: bytes) -> None:
        match = (_SIGNED_HEADER if self._signer is not None else _UNSIGNED_HEADER).fullmatch(line)
        if match is None:
            raise MalformedChunk("chunk header is malformed")
        size = int(match[1], 16)
        if size > self._left_in_object:
            raise MalformedChunk(
                f"chunk exceeds the declared length. size={size} left={self._left_in_object}",
                argument="x-amz-decoded-content-length",
            )
        self._left_in_object -= size
        if self._signer is not None:
            self._claimed = match[2]
        if size:
            if self._small:
                raise ChunkTooSmall(self._chunk, self._small, self._minimum)
            self._chunk += 1
            self._small = size if size < self._minimum else 0
            self._left_in_chunk = size
            self._state = _State.PAYLOAD
            if self._signer is not None:
                self._hash = hashlib.sha256()
            return
        if self._left_in_object:
            raise Incomplete(f"chunked body is shorter than declared. missing_bytes={self._left_in_object}")
        if self._signer is not None:
            self._verify_chunk(_EMPTY_SHA256)
        awaits_trailer = self._kind.has_trailer and (self._kind.is_signed or bool(self._expected_trailers))
        self._state = _State.TRAILER if awaits_trailer else _State.END

    def _verify_chunk(self, payload_sha256: str) -> None:
        signer = self._signer
        if signer is None:
            return
        signature = signer.chunk_signature(self._previous, payload_sha256)
        if not hmac.compare_digest(signature.encode(), self._claimed):
            raise ChunkSignatureMismatch("signature of a chunk does not match")
        self._previous = signature

    def _count_trailer(self, line: bytes) -> None:
        self._trailer_bytes += len(line) + 2
        if self._trailer_bytes > _MAX_TRAILER_BYTES:
            raise MalformedTrailer(f"trailer is too long. limit={_MAX_TRAILER_BYTES}")

    def _take_trailer(self, line: bytes) -> None:
        self._count_trailer(line)
        if not line:
            self._require_trailers()
            return  # the signature follows
        match = _TRAILER_LINE.fullmatch(line)
        if match is None:
            raise MalformedTrailer("trailer header is malformed")
        name, value = match[1].decode("ascii").lower(), match[2].decode("ascii").strip()
        if name == _TRAILER_SIGNATURE and self._signer is not None:
            self._verify_trailer(self._signer, value)
            self._state = _State.END
            return
        if name not in self._expected_trailers or name in self._trailers:
            raise MalformedTrailer(f"trailer header is undeclared or repeated. name={name[:100]}")
        self._trailers[name] = value
        if self._signer is None and len(self._trailers) == len(self._expected_trailers):
            self._state = _State.END

    def _require_trailers(self) -> None:
        missing = self._expected_trailers - self._trailers.keys()
        if missing:
            raise MalformedTrailer(f"declared trailer headers are missing. names={','.join(sorted(missing))}")

    def _verify_trailer(self, signer: ChunkSigner, claimed: str) -> None:
        self._require_trailers()
        canonical = "".join(f"{name}:{value}\n" for name, value in self._trailers.items())
        signature = signer.trailer_signature(self._previous, hashlib.sha256(canonical.encode()).hexdigest())
        if not hmac.compare_digest(signature.encode(), claimed.encode()):
            raise ChunkSignatureMismatch("signature of the trailer does not match")
