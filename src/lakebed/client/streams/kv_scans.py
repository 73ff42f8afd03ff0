"""Scans all rows of a KV table, bucket after bucket, each from one snapshot on the server.

    PENDING ── open: call 0 ──► ACTIVE ── call 1, 2, … ──► DONE
       └─ empty bucket, error that is not retriable ─────────┘

The server keeps the snapshot of an ACTIVE scan. Opening is retried after retriable errors. Later calls are not: a
reopened scan would read a different snapshot.
"""

from __future__ import annotations

import struct
import time
from collections.abc import Callable, Iterator, Sequence
from dataclasses import dataclass
from enum import Enum
from typing import Any, Final, Protocol

import msgspec
import numpy as np
import pyarrow as pa

from lakebed.fluss.arrow_types import arrow_schema
from lakebed.fluss.errors import ErrorCode, FlussError
from lakebed.fluss.rows.decoding import PADDING, RowBuffer, decode_columns
from lakebed.fluss.rows.fields import RowFormat
from lakebed.fluss.schema import Schema

from .connection import failure_of
from .messages import Fields, number, text, write_fields

__all__ = ["KvBatchScanner", "PhysicalTable", "ScanState", "StreamCalls", "load_schema"]

SCAN_KV: Final = 1061
GET_TABLE_SCHEMA: Final = 1011
SCANNER_KV_FETCH_MAX_BYTES: Final = 4 * 1024 * 1024
"""Default bytes of rows in a response."""

OPEN_SECONDS: Final = 60.0
"""Time limit of retries to open a scan."""

_FIRST_PAUSE: Final = 0.1
_LONGEST_PAUSE: Final = 5.0
_LENGTH: Final = struct.Struct("<i")
_VALUES_HEAD_BYTES: Final = 9


class StreamCalls(Protocol):
    """Sends requests to the leader."""

    def call(self, key: int, message: bytes) -> Fields:
        """Send a request and return the response. Raises FlussError."""
        ...

    def refresh_leader(self) -> None:
        """Look up the leader again before the next call."""
        ...


@dataclass(frozen=True, slots=True)
class PhysicalTable:
    """A table without partitions, or one partition, as readers and writers of its buckets need it."""

    database: str
    name: str
    id: int
    schema_id: int
    schema: Schema
    row_format: RowFormat
    bucket_count: int
    partition: str | None = None
    partition_id: int | None = None
    partition_keys: tuple[str, ...] = ()
    log_format: RowFormat | None = None
    """Row format of the log; None is Arrow."""

    compression: str | None = "zstd"
    """Compression of an Arrow log, by Arrow's name."""

    compression_level: int = 3
    """Level of zstd."""


class ScanState(Enum):
    """State of a bucket's scan."""

    PENDING = "pending"
    ACTIVE = "active"
    DONE = "done"


@dataclass(slots=True)
class _BucketScan:
    bucket: int
    state: ScanState = ScanState.PENDING
    scanner_id: bytes = b""
    sequence: int = 0
    log_offset: int | None = None


class KvBatchScanner:
    """Iterates over the rows in Arrow batches. As a context manager, it closes unfinished scans on the server."""

    def __init__(
        self,
        calls: StreamCalls,
        table: PhysicalTable,
        *,
        buckets: Sequence[int] | None = None,
        columns: Sequence[str] | None = None,
        limit: int | None = None,
        scanner_kv_fetch_max_bytes: int = SCANNER_KV_FETCH_MAX_BYTES,
        sleep: Callable[[float], None] = time.sleep,
        monotonic: Callable[[], float] = time.monotonic,
    ) -> None:
        """Scan these buckets and columns, or all. `limit` applies to each bucket.

        Error codes: NON_PRIMARY_KEY_TABLE, UNKNOWN_TABLE_OR_BUCKET.
        """
        if not table.schema.has_primary_key:
            raise FlussError(
                ErrorCode.NON_PRIMARY_KEY_TABLE, f"table has no primary key. table={table.database}.{table.name}"
            )
        chosen = list(range(table.bucket_count)) if buckets is None else list(buckets)
        for bucket in chosen:
            if not 0 <= bucket < table.bucket_count:
                raise FlussError(
                    ErrorCode.UNKNOWN_TABLE_OR_BUCKET, f"no such bucket. bucket={bucket} buckets={table.bucket_count}"
                )
        names = list(table.schema.names) if columns is None else list(columns)
        positions = [table.schema.position(name) for name in names]
        if None in positions:
            raise FlussError(ErrorCode.INVALID_COLUMN_PROJECTION, f"no such column. columns={names}")
        self._positions = [position for position in positions if position is not None]
        self._calls = calls
        self._table = table
        self._limit = limit
        self._fetch_max_bytes = scanner_kv_fetch_max_bytes
        self._sleep = sleep
        self._monotonic = monotonic
        self._scans = [_BucketScan(bucket) for bucket in chosen]
        self._schemas = {table.schema_id: table.schema}
        whole = arrow_schema(table.schema)
        self.schema = pa.schema([whole.field(position) for position in self._positions])
        """Schema of the batches."""

    def __enter__(self) -> KvBatchScanner:
        return self

    def __exit__(self, *_: object) -> None:
        self.close()

    def __iter__(self) -> Iterator[pa.RecordBatch]:
        while (batch := self.next_batch()) is not None:
            yield batch

    @property
    def states(self) -> dict[int, ScanState]:
        """State of each bucket's scan."""
        return {scan.bucket: scan.state for scan in self._scans}

    @property
    def log_offsets(self) -> dict[int, int]:
        """Log offset of each opened bucket's snapshot: changes from it on are not in the rows."""
        return {scan.bucket: scan.log_offset for scan in self._scans if scan.log_offset is not None}

    def next_batch(self) -> pa.RecordBatch | None:
        """The next rows, at least one; None at the end. Raises FlussError."""
        for scan in self._scans:
            while scan.state is not ScanState.DONE:
                records = self._open(scan) if scan.state is ScanState.PENDING else self._continue(scan)
                if records:
                    return self._decode(records)
        return None

    def close(self) -> None:
        """Close unfinished scans on the server. Idempotent, and never fails."""
        for scan in self._scans:
            if scan.state is ScanState.ACTIVE:
                self._close_one(scan)
            scan.state = ScanState.DONE

    def _open(self, scan: _BucketScan) -> bytes:
        bucket = write_fields({1: self._table.id, 2: self._table.partition_id, 3: scan.bucket, 4: self._limit})
        message = write_fields({2: bucket, 3: 0, 4: self._fetch_max_bytes})
        until = self._monotonic() + OPEN_SECONDS
        pause = _FIRST_PAUSE
        while True:
            try:
                response = self._call(message)
                break
            except FlussError as failure:
                is_retriable = failure.is_retriable or failure.code is ErrorCode.TOO_MANY_SCANNERS
                if not is_retriable or self._monotonic() + pause > until:
                    scan.state = ScanState.DONE
                    raise
                if failure.code is not ErrorCode.TOO_MANY_SCANNERS:
                    self._calls.refresh_leader()
            self._sleep(pause)
            pause = min(pause * 2, _LONGEST_PAUSE)
        scan.log_offset = number(response, 6)
        return self._advance(scan, response)

    def _continue(self, scan: _BucketScan) -> bytes:
        message = write_fields({1: scan.scanner_id, 3: scan.sequence, 4: self._fetch_max_bytes})
        try:
            response = self._call(message)
        except FlussError as failure:
            if failure.code not in (ErrorCode.SCANNER_EXPIRED, ErrorCode.UNKNOWN_SCANNER_ID):
                self._close_one(scan)
            scan.state = ScanState.DONE
            raise
        return self._advance(scan, response)

    def _advance(self, scan: _BucketScan, response: Fields) -> bytes:
        scan.scanner_id = text(response, 3)
        scan.sequence += 1
        scan.state = ScanState.ACTIVE if number(response, 4) else ScanState.DONE
        return text(response, 5)

    def _close_one(self, scan: _BucketScan) -> None:
        try:
            self._calls.call(SCAN_KV, write_fields({1: scan.scanner_id, 5: True}))
        except FlussError:
            return  # the server closes it after a timeout

    def _call(self, message: bytes) -> Fields:
        response = self._calls.call(SCAN_KV, message)
        if code := number(response, 1):
            raise failure_of(code, text(response, 2))
        return response

    def _decode(self, records: bytes) -> pa.RecordBatch:
        starts, ends = _bounds(records)
        view = np.frombuffer(records, np.uint8)
        ids = view[starts].astype(np.int32) | view[starts + 1].astype(np.int32) << 8
        data = records + PADDING
        groups = np.unique(ids)
        where = [np.flatnonzero(ids == group) for group in groups]
        parts = [
            self._columns(int(group), RowBuffer(data, starts[at] + 2, ends[at]))
            for group, at in zip(groups, where, strict=True)
        ]
        if len(parts) == 1:
            return pa.RecordBatch.from_arrays(parts[0], schema=self.schema)
        order = pa.array(np.argsort(np.concatenate(where), kind="stable"))
        columns = [pa.concat_arrays([part[at] for part in parts]).take(order) for at in range(len(self.schema))]
        return pa.RecordBatch.from_arrays(columns, schema=self.schema)

    def _columns(self, schema_id: int, rows: RowBuffer) -> list[pa.Array]:
        """The selected columns of rows of any schema version, matched by column id."""
        schema = self._schema(schema_id)
        found = decode_columns(self._table.row_format, [column.type for column in schema.columns], rows)
        by_id = {column.id: array for column, array in zip(schema.columns, found, strict=True)}
        columns = []
        for position, field in zip(self._positions, self.schema, strict=True):
            array = by_id.get(self._table.schema.columns[position].id)
            columns.append(pa.nulls(len(rows.starts), field.type) if array is None else array)
        return columns

    def _schema(self, schema_id: int) -> Schema:
        if schema_id not in self._schemas:
            self._schemas[schema_id] = load_schema(self._calls, self._table, schema_id)
        return self._schemas[schema_id]


def load_schema(calls: StreamCalls, table: PhysicalTable, schema_id: int) -> Schema:
    """A schema version of a table. Error codes: SCHEMA_NOT_EXIST."""
    path = write_fields({1: table.database, 2: table.name})
    response = calls.call(GET_TABLE_SCHEMA, write_fields({1: path, 2: schema_id}))
    return Schema.parse(msgspec.json.decode(text(response, 2)))


def _bounds(records: bytes) -> tuple[Any, Any]:
    """Start and end of each value in a batch."""
    starts, ends = [], []
    position = _VALUES_HEAD_BYTES
    unpack = _LENGTH.unpack_from
    while position < len(records):
        start = position + 4
        position = start + unpack(records, position)[0]
        starts.append(start)
        ends.append(position)
    if position != len(records):
        raise FlussError(ErrorCode.CORRUPT_RECORD, f"truncated values. length={len(records)} expected={position}")
    return np.array(starts, np.int64), np.array(ends, np.int64)
