"""Decodes Snappy's framing format, which Arrow does not support: chunks of at most 64 KiB with kind and length."""

from __future__ import annotations

from typing import Final, Protocol

import cramjam

_IDENTIFIER: Final = 0xFF
_COMPRESSED: Final = 0x00
_PLAIN: Final = 0x01
_FIRST_SKIPPABLE: Final = 0x80
_MAX_CHUNK_BYTES: Final = 65536 + 4 + 1024 * 16
"""Limit of a compressed chunk; incompressible data grows a little."""


class ByteReader(Protocol):
    """A stream that is read sequentially."""

    def read(self, length: int) -> bytes:
        """The next bytes: at most `length`, empty only at the end. Blocks."""
        ...


class SnappyStream:
    """Decompresses frames on demand. Ignores chunk checksums: the object has its own."""

    def __init__(self, source: ByteReader) -> None:
        self._source = source
        self._ready = b""

    def read(self, length: int) -> bytes:
        """The next available bytes. Raises OSError for an invalid frame, EOFError for a truncated one."""
        while not self._ready:
            header = self._source.read(4)
            if not header:
                return b""
            self._ready = self._chunk(header)
        part, self._ready = self._ready[:length], self._ready[length:]
        return part

    def _chunk(self, header: bytes) -> bytes:
        if len(header) < 4:
            raise EOFError("frame is truncated")
        kind, size = header[0], int.from_bytes(header[1:4], "little")
        if kind in (_COMPRESSED, _PLAIN) and not 4 <= size <= _MAX_CHUNK_BYTES:
            raise OSError("chunk is too large")
        body = self._source.read(size)
        if len(body) < size:
            raise EOFError("frame is truncated")
        if kind == _COMPRESSED:
            try:
                return bytes(cramjam.snappy.decompress_raw(body[4:]))
            except cramjam.DecompressionError as error:
                raise OSError("chunk cannot be decompressed") from error
        if kind == _PLAIN:
            return body[4:]
        if kind == _IDENTIFIER or kind >= _FIRST_SKIPPABLE:
            return b""
        raise OSError("unknown kind of chunk")
