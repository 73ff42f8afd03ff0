"""Avro object container files: parses the header and decompresses one block at a time within a limit.

A block is decompressed to at most the remaining decoded limit, so decompression bombs use no more memory than other
files.
"""

from __future__ import annotations

import zlib
from collections.abc import Callable, Iterator, Mapping
from dataclasses import dataclass
from typing import Final, NamedTuple

import cramjam
import zstandard

from lakebed.core.errors import InvalidInput, TooLarge

from .binary import read_bytes, read_long
from .limits import DEFAULT_LIMITS, ReadLimits

__all__ = ["SYNC_SIZE", "AvroBlock", "AvroContainer", "decompress_block", "open_container"]

_MAGIC: Final = b"Obj\x01"
SYNC_SIZE: Final = 16
_MAX_WINDOW_BYTES: Final = 128 * 1024 * 1024


class AvroBlock(NamedTuple):
    """A decompressed block of records."""

    records: int
    content: bytes


@dataclass(slots=True)
class AvroContainer:
    """An open container file: the header is read, the blocks are not."""

    data: bytes
    metadata: Mapping[str, bytes]
    sync: bytes
    body_at: int
    limits: ReadLimits
    decoded_bytes: int = 0
    """The number of bytes decompressed so far."""

    @property
    def schema(self) -> bytes:
        """The writer's schema, as JSON."""
        return self.metadata["avro.schema"]

    @property
    def codec(self) -> bytes:
        """The codec of its blocks, one that `decompress_block` supports."""
        return self.metadata.get("avro.codec", b"null")

    def blocks(self) -> Iterator[AvroBlock]:
        """Decompress one block after another. Raises InvalidInput for an invalid file, TooLarge above the limits."""
        data, at = self.data, self.body_at
        codec = self.codec
        records = self.decoded_bytes = 0
        while at < len(data):
            try:
                count, at = read_long(data, at)
                packed, at = read_bytes(data, at)
            except IndexError:
                raise InvalidInput("avro file ends within a block") from None
            if count < 0:
                raise InvalidInput(f"avro block has a negative number of records. records={count}")
            if data[at : at + SYNC_SIZE] != self.sync:
                raise InvalidInput("avro block does not end with the file's sync marker")
            at += SYNC_SIZE
            records += count
            if records > self.limits.records:
                raise TooLarge(f"avro file has too many records. maximum={self.limits.records}")
            content = decompress_block(codec, packed, self.limits.decoded_bytes - self.decoded_bytes)
            self.decoded_bytes += len(content)
            yield AvroBlock(count, content)


def open_container(data: bytes, limits: ReadLimits = DEFAULT_LIMITS) -> AvroContainer:
    """Read the header. Raises InvalidInput if the file is invalid, TooLarge above the limits."""
    if len(data) > limits.encoded_bytes:
        raise TooLarge(f"avro file is too large. size={len(data)} maximum={limits.encoded_bytes}")
    if not data.startswith(_MAGIC):
        raise InvalidInput("not an avro object container file")
    metadata: dict[str, bytes] = {}
    at = len(_MAGIC)
    try:
        while True:
            count, at = read_long(data, at)
            if count == 0:
                break
            if count < 0:  # the block's size in bytes follows, for readers that skip
                count = -count
                _, at = read_long(data, at)
            if len(metadata) + count > limits.header_entries:
                raise TooLarge(f"avro header has too many entries. maximum={limits.header_entries}")
            for _ in range(count):
                key, at = read_bytes(data, at)
                value, at = read_bytes(data, at)
                metadata[key.decode()] = value
    except IndexError:
        raise InvalidInput("avro file ends within its header") from None
    except UnicodeDecodeError:
        raise InvalidInput("avro header has a key that is not text") from None
    sync = data[at : at + SYNC_SIZE]
    if len(sync) != SYNC_SIZE:
        raise InvalidInput("avro file ends within its header")
    if "avro.schema" not in metadata:
        raise InvalidInput("avro header has no schema")
    if len(metadata["avro.schema"]) > limits.schema_bytes:
        raise TooLarge(f"avro schema is too large. maximum={limits.schema_bytes}")
    codec = metadata.get("avro.codec", b"null")
    if codec not in _CODECS:
        expected = ", ".join(name.decode() for name in _CODECS)
        raise InvalidInput(f"unknown avro codec. expected={expected} codec={codec[:40]!r}")
    return AvroContainer(data, metadata, sync, at + SYNC_SIZE, limits)


def decompress_block(codec: bytes, packed: bytes, limit: int) -> bytes:
    """The content of a block. Raises InvalidInput if it is corrupt, TooLarge if it has more than `limit` bytes."""
    return _CODECS[codec](packed, limit)


def _within(content: bytes, limit: int) -> bytes:
    if len(content) > limit:
        raise TooLarge("avro file decompresses to too many bytes")
    return content


def _stored(packed: bytes, limit: int) -> bytes:
    return _within(packed, limit)


def _inflate(packed: bytes, limit: int) -> bytes:
    stream = zlib.decompressobj(-zlib.MAX_WBITS)
    try:
        content = stream.decompress(packed, limit + 1)
    except zlib.error as broken:
        raise InvalidInput("avro block cannot be decompressed. codec=deflate") from broken
    _within(content, limit)
    if not stream.eof:
        raise InvalidInput("avro block cannot be decompressed. codec=deflate")
    return content


def _decompress_zstd(packed: bytes, limit: int) -> bytes:
    unpacker = zstandard.ZstdDecompressor(max_window_size=_MAX_WINDOW_BYTES)
    try:
        with unpacker.stream_reader(packed, read_across_frames=True) as stream:
            content: bytes = stream.read(limit + 1)
    except (zstandard.ZstdError, MemoryError) as broken:
        raise InvalidInput("avro block cannot be decompressed. codec=zstandard") from broken
    return _within(content, limit)


def _decompress_snappy(packed: bytes, limit: int) -> bytes:
    # Snappy's preamble has the decompressed length; a CRC of the decompressed bytes follows the block (Avro 1.12).
    claimed, shift = 0, 0
    for byte in packed[:5]:
        claimed |= (byte & 0x7F) << shift
        shift += 7
        if byte < 0x80:
            break
    if claimed > limit:
        raise TooLarge("avro file decompresses to too many bytes")
    try:
        content = bytes(cramjam.snappy.decompress_raw(packed[:-4]))
    except cramjam.DecompressionError as broken:
        raise InvalidInput("avro block cannot be decompressed. codec=snappy") from broken
    if zlib.crc32(content) != int.from_bytes(packed[-4:], "big"):
        raise InvalidInput("avro block has a wrong checksum. codec=snappy")
    return _within(content, limit)


_CODECS: Final[Mapping[bytes, Callable[[bytes, int], bytes]]] = {
    b"null": _stored,
    b"deflate": _inflate,
    b"zstandard": _decompress_zstd,
    b"snappy": _decompress_snappy,
}
