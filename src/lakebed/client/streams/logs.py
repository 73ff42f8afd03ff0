"""Reads and appends to logs of stream tables, in Arrow record batches.

The table's log format decides whether batches in the log hold Arrow or rows. Batches do not state it, and the server
does not check it: a writer in the wrong format makes the log unreadable.
"""

from __future__ import annotations

from collections.abc import Iterator, Mapping, Sequence
from dataclasses import dataclass, replace
from typing import Final

import numpy as np
import pyarrow as pa

from lakebed.fluss.arrow_messages import read_rows
from lakebed.fluss.arrow_types import arrow_schema, arrow_type
from lakebed.fluss.errors import ErrorCode, FlussError
from lakebed.fluss.log_batches import APPEND_ONLY, LogRecordBatch, iterate_batches, write_batch
from lakebed.fluss.rows.decoding import PADDING, RowBuffer, decode_columns
from lakebed.fluss.rows.encoding import conform_rows, encode_rows
from lakebed.fluss.rows.fields import RowFormat
from lakebed.fluss.schema import Schema

from .connection import failure_of
from .kv_scans import PhysicalTable, StreamCalls, load_schema
from .messages import Fields, content, messages, number, text, write_fields
from .partitions import check_partition

__all__ = ["CHANGES", "LogRecords", "StreamLog", "StreamLogWriter"]

PRODUCE_LOG: Final = 1014
FETCH_LOG: Final = 1015
LIST_OFFSETS: Final = 1021
INIT_WRITER: Final = 1026

CHANGES: Final = ("+A", "+I", "-U", "+U", "-D")
"""Change types by number."""

EARLIEST, LATEST = 0, 1
_FETCH_BYTES: Final = 16 * 1024 * 1024
_BUCKET_BYTES: Final = 1024 * 1024
_TIMEOUT_MS: Final = 30_000
_ALL_ACKS: Final = -1
_CLIENT: Final = -1
_END_MARK_BYTES: Final = 8
"""Arrow's end-of-stream marker, which batches in a log omit."""

_LENGTH_BYTES: Final = 4
_CHANGE: Final = 0x0F
"""The change type in a record's attributes."""


@dataclass(frozen=True, slots=True)
class LogRecords:
    """A batch of records of one bucket. It may be empty and still advance the offset."""

    bucket: int
    base_offset: int
    next_offset: int
    """The offset of the next fetch."""

    timestamp_ms: int
    changes: bytes
    """The change type of each record, an index of `CHANGES`."""

    rows: pa.RecordBatch
    """The selected columns."""

    def within(self, start: int, end: int) -> LogRecords:
        """The records from offset `start` to `end`."""
        first = max(start - self.base_offset, 0)
        last = max(min(end - self.base_offset, len(self.changes)), first)
        if last - first == len(self.changes):
            return self
        rows, changes = self.rows.slice(first, last - first), self.changes[first:last]
        return replace(self, base_offset=self.base_offset + first, changes=changes, rows=rows)


class StreamLog:
    """Reads the log of a table or partition.

    Batches may have any schema version of the table. Columns are matched by id, and null where the version lacks them.
    """

    def __init__(
        self,
        calls: StreamCalls,
        table: PhysicalTable,
        *,
        columns: Sequence[str] | None = None,
        bucket_bytes: int = _BUCKET_BYTES,
    ) -> None:
        """Read these columns, or all of the current schema. Error codes: INVALID_COLUMN_PROJECTION."""
        wanted = [table.schema.column(name) for name in (table.schema.names if columns is None else columns)]
        if None in wanted:
            raise FlussError(
                ErrorCode.INVALID_COLUMN_PROJECTION, f"no such column. table={table.name} columns={columns}"
            )
        self._columns = [column for column in wanted if column is not None]
        self.schema = pa.schema(
            [pa.field(each.name, arrow_type(each.type), each.type.is_nullable) for each in self._columns]
        )
        """Schema of the rows."""
        self._calls = calls
        self._table = table
        self._bucket_bytes = bucket_bytes
        self._schemas = {table.schema_id: table.schema}

    def offsets(self, which: int) -> Mapping[int, int]:
        """The start offset (`EARLIEST`) or end offset (`LATEST`) of each bucket."""
        fields = {1: _CLIENT, 2: which, 3: self._table.id, 4: self._table.partition_id}
        buckets = b"".join(write_fields({5: number}) for number in range(self._table.bucket_count))
        found = {}
        for each in messages(self._calls.call(LIST_OFFSETS, write_fields(fields) + buckets), 1):
            _check(each, 2)
            found[number(each, 1)] = number(each, 4)
        return found

    def read(self, offsets: Mapping[int, int], wait_ms: int = 500) -> Iterator[LogRecords]:
        """Fetch records of each bucket from an offset; empty if there are none within `wait_ms`.

        Error codes: LOG_OFFSET_OUT_OF_RANGE, SCHEMA_NOT_EXIST, and the server's.
        """
        table = self._table
        fetch = write_fields({1: table.id, 2: False})
        for bucket, offset in offsets.items():
            fetch += write_fields(
                {4: write_fields({1: table.partition_id, 2: bucket, 3: offset, 4: self._bucket_bytes})}
            )
        response = self._calls.call(FETCH_LOG, write_fields({1: _CLIENT, 2: _FETCH_BYTES, 3: fetch, 4: wait_ms, 5: 1}))
        for found in messages(response, 1):
            for each in messages(found, 2):
                _check(each, 3)
                yield from self._records(number(each, 2), content(each, 8))

    def _records(self, bucket: int, records: memoryview) -> Iterator[LogRecords]:
        format_ = self._table.log_format
        for batch in iterate_batches(records):
            if not batch.record_count:
                changes, rows = b"", _empty_batch(self.schema)
            elif format_ is None:
                changes, rows = self._from_arrow(batch)
            else:
                changes, rows = self._from_rows(batch, format_)
            yield LogRecords(bucket, batch.base_offset, batch.next_offset, batch.timestamp_ms, changes, rows)

    def _from_arrow(self, batch: LogRecordBatch) -> tuple[bytes, pa.RecordBatch]:
        body, changes = batch.body, bytes(batch.record_count)
        if not batch.attributes & APPEND_ONLY:
            changes, body = bytes(body[: batch.record_count]), body[batch.record_count :]
        schema = self._schema(batch.schema_id)
        return changes, self._select(schema, read_rows(body, arrow_schema(schema)).columns)

    def _from_rows(self, batch: LogRecordBatch, format_: RowFormat) -> tuple[bytes, pa.RecordBatch]:
        data = bytes(batch.body)
        changes, starts, ends = bytearray(), [], []
        position = 0
        for _ in range(batch.record_count):
            start = position + _LENGTH_BYTES
            end = start + int.from_bytes(data[position:start], "little")
            if not start < end <= len(data):
                raise FlussError(ErrorCode.CORRUPT_RECORD, f"truncated records. position={position} end={end}")
            changes.append(data[start] & _CHANGE)
            starts.append(start + 1)
            ends.append(end)
            position = end
        schema = self._schema(batch.schema_id)
        rows = RowBuffer(data + PADDING, np.array(starts, np.int64), np.array(ends, np.int64))
        found = decode_columns(format_, [column.type for column in schema.columns], rows)
        return bytes(changes), self._select(schema, found)

    def _select(self, schema: Schema, found: Sequence[pa.Array]) -> pa.RecordBatch:
        """The selected columns of rows of any schema version, matched by column id."""
        by_id = {column.id: array for column, array in zip(schema.columns, found, strict=True)}
        arrays = [
            pa.nulls(len(found[0]), field.type) if (array := by_id.get(column.id)) is None else array
            for column, field in zip(self._columns, self.schema, strict=True)
        ]
        return pa.RecordBatch.from_arrays(arrays, schema=self.schema)

    def _schema(self, schema_id: int) -> Schema:
        if schema_id not in self._schemas:
            self._schemas[schema_id] = load_schema(self._calls, self._table, schema_id)
        return self._schemas[schema_id]


class StreamLogWriter:
    """Appends to a log table or partition. Batch sequences make repeated requests idempotent."""

    def __init__(self, calls: StreamCalls, table: PhysicalTable) -> None:
        """Open a writer.

        Error codes: INVALID_TABLE for a KV table, PARTITION_NOT_EXISTS for a partitioned table without a partition.
        """
        if table.schema.has_primary_key:
            raise FlussError(ErrorCode.INVALID_TABLE, f"cannot append to a primary-key table. table={table.name}")
        if table.partition_keys and table.partition is None:
            raise FlussError(
                ErrorCode.PARTITION_NOT_EXISTS,
                f"partitioned table: expected the name of a partition. table={table.name}",
            )
        self._calls = calls
        self._table = table
        self._sequences = [0] * table.bucket_count
        self._count = 0
        codec = table.compression and pa.Codec(
            table.compression, table.compression_level if table.compression == "zstd" else None
        )
        self._options = pa.ipc.IpcWriteOptions(compression=codec)
        path = write_fields({1: table.database, 2: table.name})
        self._writer_id = number(calls.call(INIT_WRITER, write_fields({1: path})), 1)

    @property
    def schema(self) -> pa.Schema:
        """Schema of the rows."""
        return arrow_schema(self._table.schema)

    def append(self, rows: pa.RecordBatch, bucket: int | None = None) -> tuple[int, int]:
        """Append rows; returns bucket and base offset once they are on stable storage. Raises FlussError.

        Without `bucket`, buckets are used round-robin. Rows that do not fit the table (INVALID_TARGET_COLUMN) or the
        partition (PARTITION_SPEC_INVALID) are not sent.
        """
        table = self._table
        rows = conform_rows(rows, self.schema)
        check_partition(table, rows)
        if bucket is None:
            bucket = self._count % table.bucket_count
        records = write_batch(
            self._arrow_body(rows) if table.log_format is None else self._row_body(rows, table.log_format),
            rows.num_rows,
            schema_id=table.schema_id,
            writer_id=self._writer_id,
            sequence=self._sequences[bucket],
        )
        bucket_request = write_fields({1: table.partition_id, 2: bucket, 3: records})
        message = write_fields({1: _ALL_ACKS, 2: table.id, 3: _TIMEOUT_MS, 4: bucket_request})
        response = next(messages(self._calls.call(PRODUCE_LOG, message), 1))
        _check(response, 3)
        self._sequences[bucket] += 1
        self._count += 1
        return bucket, number(response, 5)

    def _arrow_body(self, rows: pa.RecordBatch) -> bytes:
        """The Arrow record batch message, without the schema message and the end marker."""
        sink = pa.BufferOutputStream()
        with pa.ipc.new_stream(sink, rows.schema, options=self._options) as writer:
            writer.write_batch(rows)
        return bytes(sink.getvalue()[rows.schema.serialize().size : -_END_MARK_BYTES])

    def _row_body(self, rows: pa.RecordBatch, format_: RowFormat) -> bytes:
        """Each row after its length and its attributes, which are 0 for an append."""
        encoded = encode_rows(format_, self._table.schema.columns, rows)
        return b"".join((1 + len(row)).to_bytes(_LENGTH_BYTES, "little") + b"\0" + row for row in encoded)


def _empty_batch(schema: pa.Schema) -> pa.RecordBatch:
    return pa.RecordBatch.from_arrays([pa.nulls(0, field.type) for field in schema], schema=schema)


def _check(response: Fields, key: int) -> None:
    """Raise the error of a bucket's response: code in field `key`, message in the next."""
    if code := number(response, key):
        raise failure_of(code, text(response, key + 1))
