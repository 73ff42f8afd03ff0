"""Snappy's framing format, which Arrow does not read: chunks of at most 64 KiB, each with its kind and its length."""

from __future__ import annotations

from typing import Final, Protocol

import cramjam

_IDENTIFIER: Final = 0xFF
_COMPRESSED: Final = 0x00
_PLAIN: Final = 0x01
_FIRST_SKIPPABLE: Final = 0x80
_MAX_CHUNK_BYTES: Final = 65536 + 4 + 1024 * 16
"""Of a compressed chunk; what does not compress grows a little."""


class ByteReader(Protocol):
    """A stream that is read from front to back."""

    def read(self, length: int) -> bytes:
        """The next bytes: at most `length`, empty only at the end. Blocks."""
        ...


class SnappyStream:
    """Frames, decompressed as they are asked for. Checksums of chunks are passed over: the object has its own."""

    def __init__(self, source: ByteReader) -> None:
        self._source = source
        self._ready = b""

    def read(self, length: int) -> bytes:
        """The next bytes, as many as are at hand. Raises OSError for what is no frame, EOFError for a cut one."""
        while not self._ready:
            header = self._source.read(4)
            if not header:
                return b""
            self._ready = self._chunk(header)
        part, self._ready = self._ready[:length], self._ready[length:]
        return part

    def _chunk(self, header: bytes) -> bytes:
        if len(header) < 4:
            raise EOFError("a frame is cut")
        kind, size = header[0], int.from_bytes(header[1:4], "little")
        if kind in (_COMPRESSED, _PLAIN) and not 4 <= size <= _MAX_CHUNK_BYTES:
            raise OSError("a chunk is too large")
        body = self._source.read(size)
        if len(body) < size:
            raise EOFError("a frame is cut")
        if kind == _COMPRESSED:
            try:
                return bytes(cramjam.snappy.decompress_raw(body[4:]))
            except cramjam.DecompressionError as error:
                raise OSError("a chunk cannot be decompressed") from error
        if kind == _PLAIN:
            return body[4:]
        if kind == _IDENTIFIER or kind >= _FIRST_SKIPPABLE:
            return b""
        raise OSError("a chunk of an unknown kind")
