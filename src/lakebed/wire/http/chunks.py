"""Decodes the chunked transfer coding (RFC 9112 §7.1), and finds the end of the body.

The parser of request heads could do this, but it would continue into the next request and attribute its headers to the
current one.
"""

from __future__ import annotations

import re
from enum import Enum, auto
from typing import Final

MAX_LINE_BYTES: Final = 8 * 1024
"""Longest line: a chunk size with its extensions, or a trailer field."""

MAX_TRAILER_BYTES: Final = 16 * 1024

_SIZE: Final = re.compile(rb"([0-9A-Fa-f]{1,15})[ \t]*(?:;[^\r\n]*)?")


class MalformedChunks(ValueError):
    """The framing is malformed: the start of the next request is unknown."""


class _State(Enum):
    SIZE = auto()
    DATA = auto()
    DATA_END = auto()
    TRAILER = auto()
    DONE = auto()


class ChunkDecoder:
    """Decodes one body. Trailer fields are discarded."""

    __slots__ = ("_left", "_line", "_state", "_trailer_bytes")

    def __init__(self) -> None:
        self._state = _State.SIZE
        self._left = 0
        self._line = b""
        self._trailer_bytes = 0

    @property
    def is_done(self) -> bool:
        """Whether the end of the body was reached."""
        return self._state is _State.DONE

    def feed(self, data: bytes) -> tuple[list[bytes], int]:
        """Decode bytes: the pieces of the body in them, and how many bytes were consumed. Raises MalformedChunks."""
        pieces: list[bytes] = []
        position = 0
        while position < len(data) and self._state is not _State.DONE:
            if self._state is _State.DATA:
                piece = data[position : position + self._left]
                position += len(piece)
                self._left -= len(piece)
                pieces.append(piece)
                if not self._left:
                    self._state = _State.DATA_END
            else:
                position = self._take_line(data, position)
        return pieces, position

    def _take_line(self, data: bytes, position: int) -> int:
        end = data.find(b"\n", position, position + MAX_LINE_BYTES)
        stop = end + 1 if end >= 0 else min(len(data), position + MAX_LINE_BYTES)
        self._line += data[position:stop]
        if len(self._line) > MAX_LINE_BYTES or (end < 0 and len(self._line) == MAX_LINE_BYTES):
            raise MalformedChunks(f"line of a chunked body is too long. limit={MAX_LINE_BYTES}")
        if end >= 0:
            line, self._line = self._line, b""
            if not line.endswith(b"\r\n"):
                raise MalformedChunks("line of a chunked body does not end with CRLF")
            self._on_line(line[:-2])
        return stop

    def _on_line(self, line: bytes) -> None:
        if self._state is _State.SIZE:
            found = _SIZE.fullmatch(line)
            if found is None:
                raise MalformedChunks("chunk size is not a hexadecimal number")
            self._left = int(found[1], 16)
            self._state = _State.DATA if self._left else _State.TRAILER
        elif self._state is _State.DATA_END:
            if line:
                raise MalformedChunks("chunk is longer than its size")
            self._state = _State.SIZE
        elif not line:
            self._state = _State.DONE
        else:
            self._trailer_bytes += len(line)
            if self._trailer_bytes > MAX_TRAILER_BYTES:
                raise MalformedChunks(f"trailer is too long. limit={MAX_TRAILER_BYTES}")
