"""Bodies in chunked transfer coding (RFC 9112 §7.1): a push decoder that knows where a body ends.

The parser of heads could decode them too, but it would go on into the request behind the body, and take its headers
for those of the request in hand.
"""

from __future__ import annotations

import re
from enum import Enum, auto
from typing import Final

MAX_LINE_BYTES: Final = 8 * 1024
"""Longest line: a chunk's size with its extensions, or a header of the trailer."""

MAX_TRAILER_BYTES: Final = 16 * 1024

_SIZE: Final = re.compile(rb"([0-9A-Fa-f]{1,15})[ \t]*(?:;[^\r\n]*)?")


class MalformedChunks(ValueError):
    """The framing is broken: where the next request begins is unknown."""


class _State(Enum):
    SIZE = auto()
    DATA = auto()
    DATA_END = auto()
    TRAILER = auto()
    DONE = auto()


class ChunkDecoder:
    """Decodes one body. A trailer is read and dropped: nothing that was said of the body is taken from there."""

    __slots__ = ("_left", "_line", "_state", "_trailer_bytes")

    def __init__(self) -> None:
        self._state = _State.SIZE
        self._left = 0
        self._line = b""
        self._trailer_bytes = 0

    @property
    def is_done(self) -> bool:
        """Whether the body's end was reached."""
        return self._state is _State.DONE

    def feed(self, data: bytes) -> tuple[list[bytes], int]:
        """Take in bytes: the pieces of the body among them, and how many belong to it. Raises MalformedChunks."""
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
            raise MalformedChunks(f"a line of a chunked body is too long. limit={MAX_LINE_BYTES}")
        if end >= 0:
            line, self._line = self._line, b""
            if not line.endswith(b"\r\n"):
                raise MalformedChunks("a line of a chunked body does not end with CRLF")
            self._on_line(line[:-2])
        return stop

    def _on_line(self, line: bytes) -> None:
        if self._state is _State.SIZE:
            found = _SIZE.fullmatch(line)
            if found is None:
                raise MalformedChunks("a chunk's size is not a number")
            self._left = int(found[1], 16)
            self._state = _State.DATA if self._left else _State.TRAILER
        elif self._state is _State.DATA_END:
            if line:
                raise MalformedChunks("a chunk is longer than its size says")
            self._state = _State.SIZE
        elif not line:
            self._state = _State.DONE
        else:
            self._trailer_bytes += len(line)
            if self._trailer_bytes > MAX_TRAILER_BYTES:
                raise MalformedChunks(f"a trailer is too long. limit={MAX_TRAILER_BYTES}")
