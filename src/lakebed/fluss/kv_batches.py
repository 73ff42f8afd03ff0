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
    """What one writer wrote at once to one bucket."""

    schema_id: int
    writer_id: int
    sequence: int
    keys: list[bytes]
    values: list[bytes | None]
    """The row of each key as it is stored, with its schema before it; none for a delete."""

    rows: RowBuffer
    """All rows there are, where they lie."""


def read_kv_batch(records: bytes | memoryview) -> KvRecordBatch:
    """The batch; raises CORRUPT_RECORD unless it is one, whole, with the checksum that it should have."""
    size = len(records)
    if size < _HEADER.size:
        raise corrupt(f"batch of keys is too short. length={size}")
    data = b"".join((records, PADDING))
    length, magic, checksum, schema_id, _, writer_id, sequence, count = _HEADER.unpack_from(data)
    if magic != 0 or length != size - _LENGTH.size:
        raise corrupt(f"batch of keys has another length. magic={magic} said={length} found={size - 4}")
    if crc32c(memoryview(data)[_CHECKED_FROM:size]) != checksum:
        raise corrupt("checksum of a batch of keys does not match")
    found = scan_records(data, _HEADER.size, size, count, schema_id) or _read_records(data, size, count, schema_id)
    return KvRecordBatch(
        schema_id, writer_id, sequence, found.keys, found.values, RowBuffer(data, found.starts, found.ends)
    )


def declared_count(records: bytes | memoryview) -> int:
    """How many records a batch says that it has; true of one that was read. Costs no look at them."""
    return int(_HEADER.unpack_from(records)[-1])


def _read_records(data: bytes, size: int, count: int, schema_id: int) -> KvRecords:
    """The records up to `size`; raises CORRUPT_RECORD unless there are just so many."""
    keys: list[bytes] = []
    values: list[bytes | None] = []
    starts: list[int] = []
    ends: list[int] = []
    prefix = _SCHEMA.pack(schema_id)
    position = _HEADER.size
    unpack = _LENGTH.unpack_from
    for _ in range(count):
        if position + 5 > size:
            raise corrupt(f"batch of keys ends before its records. count={count} read={len(keys)}")
        start = position + 4
        end = start + unpack(data, position)[0]
        key_bytes, start = read_varint(data, start)
        row = start + key_bytes
        if row > end or end > size:
            raise corrupt(f"record of a key is longer than its batch. record={len(keys)}")
        keys.append(data[start:row])
        if row == end:
            values.append(None)
        else:
            values.append(prefix + data[row:end])
            starts.append(row)
            ends.append(end)
        position = end
    if position != size:
        raise corrupt(f"batch of keys goes on after its records. length={size} read={position}")
    return KvRecords(keys, values, np.array(starts, np.int64), np.array(ends, np.int64))


def write_kv_batch(
    records: Sequence[tuple[bytes, bytes | None]], schema_id: int, writer_id: int = -1, sequence: int = -1
) -> bytes:
    """A batch as a writer makes it, of keys and their rows."""
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
    """A batch of stored values, put together portion by portion."""

    def __init__(self) -> None:
        self.size_bytes = 0
        """Of all values so far, with the four bytes of each length."""
        self._count = 0
        self._portions: list[bytes] = []

    def add(self, values: Sequence[bytes]) -> None:
        """Have these, too."""
        portion = join_values(values)
        if portion is None:
            portion = b"".join(piece for value in values for piece in (_LENGTH.pack(len(value)), value))
        self.size_bytes += len(portion)
        self._count += len(values)
        self._portions.append(portion)

    def pieces(self) -> list[bytes]:
        """The batch: its head and its portions, of which nobody has to make one."""
        return [_VALUES.pack(_VALUES.size - _LENGTH.size + self.size_bytes, 0, self._count), *self._portions]
