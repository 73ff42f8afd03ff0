"""The changelog of a primary-key table, as stored and as read.

Changes are stored with their keys, and with values as in the KV index: nothing has to be computed for a write or a
replay. Readers get rows or Arrow, which is rendered from the stored batch when it is first read (`BatchRenderer`).

Stored body: a change type byte for each record, `uint32` lengths of keys, `uint32` lengths of values, keys, values.
The UPDATE_BEFORE record has no key: the UPDATE_AFTER record, which always follows, has it.
"""

from __future__ import annotations

from collections.abc import Callable, Sequence
from dataclasses import dataclass, field
from enum import IntEnum, StrEnum
from itertools import pairwise
from typing import Any, Final

import numpy as np
import pyarrow as pa

from lakebed.fluss.arrow_types import arrow_schema
from lakebed.fluss.log_batches import LogRecordBatch, read_header, with_body, write_batch
from lakebed.fluss.rows.decoding import PADDING, RowBuffer, decode_columns
from lakebed.fluss.rows.fields import RowFormat, corrupt
from lakebed.fluss.rows.layout import RowLayout
from lakebed.fluss.schema import Schema

__all__ = ["ChangeType", "ChangelogFormat", "ChangelogRecords", "ChangelogRenderer", "read_changes", "write_changes"]

_END_MARK_BYTES: Final = 8
_SCHEMA_ID_BYTES: Final = 2


class ChangeType(IntEnum):
    """The change type of a log record."""

    APPEND = 0
    INSERT = 1
    UPDATE_BEFORE = 2
    UPDATE_AFTER = 3
    DELETE = 4


class ChangelogFormat(StrEnum):
    """The format for readers of the log, by the names of the table option."""

    ARROW = "arrow"
    INDEXED = "indexed"
    COMPACTED = "compacted"


@dataclass(slots=True)
class ChangelogRecords:
    """Records in log order. The three lists have the same length."""

    types: bytearray = field(default_factory=bytearray)
    keys: list[bytes] = field(default_factory=list)
    values: list[bytes] = field(default_factory=list)


def write_changes(changes: ChangelogRecords, schema_id: int, writer_id: int, sequence: int) -> bytes:
    """The batch to append. Without changes it is empty; it still advances the writer's sequence."""
    count = len(changes.types)
    lengths = [
        np.fromiter(map(len, part), np.uint32, count).astype("<u4").tobytes() for part in (changes.keys, changes.values)
    ]
    body = b"".join((bytes(changes.types), *lengths, *changes.keys, *changes.values))
    return write_batch(body, count, schema_id=schema_id, attributes=0, writer_id=writer_id, sequence=sequence)


def read_changes(batch: LogRecordBatch) -> ChangelogRecords:
    """Parse a stored batch."""
    types, key_ends, values = _parts(batch)
    data = bytes(batch.body)
    return ChangelogRecords(bytearray(types), _cut(data, key_ends), _cut(data, values))


class ChangelogRenderer:
    """Renders stored changes for readers of the log."""

    def __init__(
        self,
        schemas: Callable[[int], Schema],
        row_format: RowFormat,
        log_format: ChangelogFormat = ChangelogFormat.ARROW,
        compression: str | None = "zstd",
        zstd_level: int = 1,
    ) -> None:
        """`schemas` returns a schema by its id, or raises SCHEMA_NOT_EXIST; `compression` is a codec of Arrow."""
        self._schemas = schemas
        self._row_format = row_format
        self._log_format = log_format
        codec = None
        if compression is not None:
            codec = pa.Codec(compression, zstd_level if compression == "zstd" else None)
        self._options = pa.ipc.IpcWriteOptions(compression=codec)

    def render(self, stored: memoryview) -> bytes:
        """The batch in read format, at the same offsets."""
        batch = read_header(stored)
        if batch.record_count == 0:
            return with_body(batch, b"", 0)
        types, _, ends = _parts(batch)
        data = b"".join((batch.body, PADDING))
        if self._log_format is ChangelogFormat.ARROW:
            body = bytes(types) + self._arrow(batch.schema_id, data, ends)
        else:
            body = self._rows(batch.schema_id, types, _cut(data, ends))
        return with_body(batch, body, 0)

    def _arrow(self, schema_id: int, data: bytes, ends: Any) -> bytes:
        schema = arrow_schema(self._schemas(schema_id))
        starts = ends[:-1]
        view = np.frombuffer(data, np.uint8)
        ids = view[starts].astype(np.int32) | view[starts + 1].astype(np.int32) << 8
        rows = RowBuffer(data, starts + _SCHEMA_ID_BYTES, ends[1:])
        groups = np.unique(ids)
        if len(groups) == 1:
            columns = self._columns(int(groups[0]), schema, rows)
        else:
            # Several schemas: decode the rows of each at once, then restore the order.
            where = [np.flatnonzero(ids == group) for group in groups]
            parts = [
                self._columns(int(group), schema, RowBuffer(data, rows.starts[at], rows.ends[at]))
                for group, at in zip(groups, where, strict=True)
            ]
            order = pa.array(np.argsort(np.concatenate(where), kind="stable"))
            columns = [pa.concat_arrays([part[index] for part in parts]).take(order) for index in range(len(schema))]
        return self._message(pa.RecordBatch.from_arrays(columns, schema=schema))

    def _columns(self, schema_id: int, schema: pa.Schema, rows: RowBuffer) -> list[pa.Array]:
        """Decode rows of a schema that may be older: added columns are null."""
        types = [column.type for column in self._schemas(schema_id).columns]
        found = decode_columns(self._row_format, types, rows)[: len(schema)]
        return found + [pa.nulls(len(rows.starts), field.type) for field in list(schema)[len(found) :]]

    def _message(self, batch: pa.RecordBatch) -> bytes:
        """The record batch message alone, without the schema message and the end marker of the stream."""
        sink = pa.BufferOutputStream()
        with pa.ipc.new_stream(sink, batch.schema, options=self._options) as writer:
            writer.write_batch(batch)
        return bytes(sink.getvalue()[batch.schema.serialize().size : -_END_MARK_BYTES])

    def _rows(self, schema_id: int, types: Any, values: Sequence[bytes]) -> bytes:
        parts = []
        for type_, value in zip(types.tolist(), values, strict=True):
            row = self.row_in(schema_id, value)
            parts += [(1 + len(row)).to_bytes(4, "little"), bytes((type_,)), row]
        return b"".join(parts)

    def row_in(self, schema_id: int, value: bytes) -> bytes:
        """Convert a stored value to a row of another, later schema: added columns are null."""
        own = int.from_bytes(value[:_SCHEMA_ID_BYTES], "little")
        if own == schema_id:
            return value[_SCHEMA_ID_BYTES:]
        later = self._layout(schema_id)
        fields = self._layout(own).split(value[_SCHEMA_ID_BYTES:])
        return later.join((fields + [None] * len(later.types))[: len(later.types)])

    def _layout(self, schema_id: int) -> RowLayout:
        return RowLayout(self._row_format, [column.type for column in self._schemas(schema_id).columns])


def _parts(batch: LogRecordBatch) -> tuple[Any, Any, Any]:
    """Change types, and the boundaries of keys and of values in the body (one more than there are records)."""
    body, count = batch.body, batch.record_count
    head = 9 * count
    if len(body) < head:
        raise corrupt(f"changelog batch is truncated. records={count} bytes={len(body)}")
    types = np.frombuffer(body, np.uint8, count)
    bounds = np.zeros(2 * count + 1, np.int64)
    np.cumsum(np.frombuffer(body, "<u4", 2 * count, count), out=bounds[1:])
    bounds += head
    if bounds[-1] != len(body):
        raise corrupt(f"changelog batch length does not match. declared={bounds[-1]} found={len(body)}")
    return types, bounds[: count + 1], bounds[count:]


def _cut(data: bytes, bounds: Any) -> list[bytes]:
    places = bounds.tolist()
    return [data[start:end] for start, end in pairwise(places)]
