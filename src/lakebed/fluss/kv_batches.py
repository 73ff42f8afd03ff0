"""KV record batches as writers send them, and value record batches as scans return them."""

from __future__ import annotations

import struct
from collections.abc import Sequence
from dataclasses import dataclass
from typing import Final

import numpy as np
from awscrt.checksums import crc32c

from lakebed.fluss.rows.decoding import PADDING, RowBuffer
from lakebed.fluss.rows.fields import corrupt, read_varint, write_varint

from .kv_records import KvRecords, join_values, scan_records

__all__ = ["KvRecordBatch", "ValueRecordBatch", "declared_count", "read_kv_batch", "write_kv_batch"]

_HEADER: Final = struct.Struct("<ibIhbqii")
_CHECKED_FROM: Final = 9
_VALUES: Final = struct.Struct("<ibi")
_LENGTH: Final = struct.Struct("<i")
_SCHEMA: Final = struct.Struct("<h")


@dataclass(frozen=True, slots=True)
class KvRecordBatch:
    """A batch of a writer for one bucket."""

    schema_id: int
    writer_id: int
    sequence: int
    keys: list[bytes]
    values: list[bytes | None]
    """The row of each key with its schema id in front, as stored; None for a delete."""

    rows: RowBuffer
    """The rows of all records that have one."""


def read_kv_batch(records: bytes | memoryview) -> KvRecordBatch:
    """Read a batch. Raises CORRUPT_RECORD unless it is complete and its checksum matches."""
    size = len(records)
    if size < _HEADER.size:
        raise corrupt(f"KV batch is truncated. length={size}")
    data = b"".join((records, PADDING))
    length, magic, checksum, schema_id, _, writer_id, sequence, count = _HEADER.unpack_from(data)
    if magic != 0 or length != size - _LENGTH.size:
        raise corrupt(f"KV batch length does not match. magic={magic} declared={length} found={size - 4}")
    if crc32c(memoryview(data)[_CHECKED_FROM:size]) != checksum:
        raise corrupt("KV batch checksum does not match")
    found = scan_records(data, _HEADER.size, size, count, schema_id) or _read_records(data, size, count, schema_id)
    return KvRecordBatch(
        schema_id, writer_id, sequence, found.keys, found.values, RowBuffer(data, found.starts, found.ends)
    )


def declared_count(records: bytes | memoryview) -> int:
    """The record count in a batch header. Reliable only for a batch that was read."""
    return int(_HEADER.unpack_from(records)[-1])


def _read_records(data: bytes, size: int, count: int, schema_id: int) -> KvRecords:
    """Read `count` records up to `size`. Raises CORRUPT_RECORD unless they fill it exactly."""
    keys: list[bytes] = []
    values: list[bytes | None] = []
    starts: list[int] = []
    ends: list[int] = []
    prefix = _SCHEMA.pack(schema_id)
    position = _HEADER.size
    unpack = _LENGTH.unpack_from
    for _ in range(count):
        if position + 5 > size:
            raise corrupt(f"KV batch ends before its last record. count={count} read={len(keys)}")
        start = position + 4
        end = start + unpack(data, position)[0]
        key_bytes, start = read_varint(data, start)
        row = start + key_bytes
        if row > end or end > size:
            raise corrupt(f"KV record extends beyond its batch. record={len(keys)}")
        keys.append(data[start:row])
        if row == end:
            values.append(None)
        else:
            values.append(prefix + data[row:end])
            starts.append(row)
            ends.append(end)
        position = end
    if position != size:
        raise corrupt(f"KV batch has data after its last record. length={size} read={position}")
    return KvRecords(keys, values, np.array(starts, np.int64), np.array(ends, np.int64))


def write_kv_batch(
    records: Sequence[tuple[bytes, bytes | None]], schema_id: int, writer_id: int = -1, sequence: int = -1
) -> bytes:
    """Encode a batch of keys and rows as a writer sends it."""
    parts = []
    for key, row in records:
        record = write_varint(len(key)) + key + (row or b"")
        parts += [_LENGTH.pack(len(record)), record]
    body = b"".join(parts)
    head = _HEADER.pack(0, 0, 0, schema_id, 0, writer_id, sequence, len(records))[_CHECKED_FROM:]
    checksum = crc32c(body, crc32c(head))
    length = _HEADER.size - _LENGTH.size + len(body)
    return _HEADER.pack(length, 0, checksum, schema_id, 0, writer_id, sequence, len(records)) + body


class ValueRecordBatch:
    """A batch of stored values, assembled incrementally."""

    def __init__(self) -> None:
        self.size_bytes = 0
        """Size of all values so far, including their length prefixes."""
        self._count = 0
        self._portions: list[bytes] = []

    def add(self, values: Sequence[bytes]) -> None:
        """Append values."""
        portion = join_values(values)
        if portion is None:
            portion = b"".join(piece for value in values for piece in (_LENGTH.pack(len(value)), value))
        self.size_bytes += len(portion)
        self._count += len(values)
        self._portions.append(portion)

    def pieces(self) -> list[bytes]:
        """The header and portions of the batch, not joined."""
        return [_VALUES.pack(_VALUES.size - _LENGTH.size + self.size_bytes, 0, self._count), *self._portions]
