"""Interfaces between the parts of streams: a bucket's log, and a bucket's KV index over that log.

The log knows nothing of the KV index: it stores batches by offset. The KV index appends changes to the log like any
other writer. The wire depends on both interfaces, and on neither implementation.
"""

from __future__ import annotations

from collections.abc import Callable, Sequence
from dataclasses import dataclass
from enum import IntEnum
from typing import Protocol

from lakebed.fluss.errors import FlussError

__all__ = [
    "Acks",
    "AppendResult",
    "BucketKv",
    "BucketLog",
    "FetchResult",
    "KvPut",
    "KvScan",
    "MergeMode",
    "RemoteSegment",
    "TableBucket",
]


@dataclass(frozen=True, slots=True, order=True)
class TableBucket:
    """A bucket of a table or partition: the unit of storage and of a log."""

    table_id: int
    partition_id: int | None
    bucket: int


class Acks(IntEnum):
    """When an append is acknowledged."""

    NONE = 0
    """Immediately."""

    LEADER = 1
    """After it was written."""

    ALL = -1
    """After it is on stable storage."""


@dataclass(frozen=True, slots=True)
class AppendResult:
    """The offsets of appended records."""

    base_offset: int
    end_offset: int
    """Exclusive."""

    is_duplicate: bool = False
    """They were already in the log, by writer id and batch sequence."""


@dataclass(frozen=True, slots=True)
class RemoteSegment:
    """A log segment in the object store, which clients can read directly."""

    segment_id: str
    start_offset: int
    end_offset: int
    """Exclusive."""

    size_bytes: int
    max_timestamp_ms: int


@dataclass(frozen=True, slots=True)
class FetchResult:
    """The result of a read."""

    records: bytes | bytearray | memoryview
    """Whole batches, the first of which contains the requested offset; empty at the end of the log."""

    next_offset: int
    """The offset of the next read."""

    remote: Sequence[RemoteSegment] = ()
    """The remote segments that contain the offset, if they were requested; then `records` is empty."""

    remote_start: int = 0
    """The position of the batch in the first segment."""

    remote_folder: str = ""
    """The folder of the segments as clients address it; files are `{segment id}/{start offset, of 20 digits}.log`."""


class BucketLog(Protocol):
    """One bucket's log: batches by offset. Every method may raise FlussError."""

    @property
    def start_offset(self) -> int:
        """The first readable offset."""
        ...

    @property
    def end_offset(self) -> int:
        """The offset of the next record to append."""
        ...

    @property
    def high_watermark(self) -> int:
        """The end of the records on stable storage. Readers see no further."""
        ...

    def enqueue(self, records: bytes | memoryview) -> AppendResult:
        """Assign offsets to batches and queue them: they are written and synced in this order.

        They cannot be read before, and are dropped if the write fails: `wait_durable` reports it. The caller must not
        modify the bytes until then. Error codes: as `append`.
        """
        ...

    async def wait_durable(self, offset: int) -> None:
        """Return when all records before `offset` are on stable storage.

        Error codes: LOG_STORAGE, NOT_LEADER_OR_FOLLOWER.
        """
        ...

    async def append(self, records: bytes | memoryview, acks: Acks) -> AppendResult:
        """Append batches from a writer, after checking their checksums and batch sequences.

        Error codes: CORRUPT_RECORD, OUT_OF_ORDER_SEQUENCE, UNKNOWN_WRITER_ID, RECORD_TOO_LARGE, SCHEMA_NOT_EXIST,
        LOG_STORAGE, NOT_LEADER_OR_FOLLOWER.
        """
        ...

    async def read(self, offset: int, max_bytes: int, columns: Sequence[int] | None = None) -> FetchResult:
        """Read batches from the one that contains `offset`, at least one if it exists; only `columns` (ascending).

        Error codes: LOG_OFFSET_OUT_OF_RANGE, INVALID_COLUMN_PROJECTION, LOG_STORAGE.
        """
        ...

    async def read_stored(self, offset: int, max_bytes: int) -> FetchResult:
        """Read batches as stored, without rendering a changelog for readers: for a KV index that replays its log.

        Error codes: as `read`.
        """
        ...

    async def locate(self, offset: int, columns: Sequence[int] | None = None) -> FetchResult | None:
        """The remote segments from `offset` on, for a client that reads them; None if the offset is local, or no client
        reads remote segments. `read` works either way.

        Error codes: INVALID_COLUMN_PROJECTION, LOG_STORAGE, STORAGE.
        """
        ...

    async def wait_for(self, offset: int) -> None:
        """Return when a record at `offset` or later is readable, or the log is closed. Cancel to stop waiting."""
        ...

    def watch(self, offset: int, callback: Callable[[], None]) -> Callable[[], None]:
        """Call `callback` once, in the event loop, when `wait_for` would return; returns a function that cancels it.

        May call it immediately, as it always does for a closed log.
        """
        ...

    @property
    def is_closed(self) -> bool:
        """Whether the log is closed. Then it gets no more records."""
        ...

    async def find_time(self, timestamp_ms: int) -> int:
        """The offset of the first batch committed at this time or later; the end of the log if there is none."""
        ...

    @property
    def failure(self) -> FlussError | None:
        """Why the log cannot be written any more: its disk failed. It must be reopened."""
        ...

    async def close(self) -> None:
        """Sync appended records, release all waiters, and close the files. Idempotent."""
        ...

    async def remove(self) -> None:
        """Close the log and delete its local files. Log maintenance deletes the remote segments."""
        ...


class MergeMode(IntEnum):
    """Whether a write goes through the table's merge engine."""

    MERGE = 0
    OVERWRITE = 1


@dataclass(frozen=True, slots=True)
class KvPut:
    """A batch of KV records from a writer, and how to apply it."""

    records: bytes | memoryview
    target_columns: Sequence[int] = ()
    """Positions of the columns to write; empty: all."""

    mode: MergeMode = MergeMode.MERGE


class KvScan(Protocol):
    """Rows in key order, as of one time. Not for concurrent use."""

    @property
    def log_offset(self) -> int:
        """The log offset of the first change that the scan does not include."""
        ...

    def next(self, max_bytes: int) -> tuple[list[bytes], bool]:
        """The next rows, at least one, as a value record batch in pieces; and whether there are more."""
        ...

    def close(self) -> None:
        """Release the RocksDB snapshot. Idempotent."""
        ...


class BucketKv(Protocol):
    """A bucket's KV index: the current row of each key. Every method may raise FlussError."""

    @property
    def row_count(self) -> int | None:
        """The number of keys, if known."""
        ...

    @property
    def failure(self) -> FlussError | None:
        """Why it cannot be written any more. The bucket must be reopened."""
        ...

    async def put(self, put: KvPut, acks: Acks) -> int:
        """Merge records, append the changes to the log, and make them visible to lookups. Returns the log's end.

        Error codes: CORRUPT_RECORD, OUT_OF_ORDER_SEQUENCE, UNKNOWN_WRITER_ID, SCHEMA_NOT_EXIST, INVALID_TARGET_COLUMN,
        DELETION_DISABLED, KV_STORAGE, and those of `BucketLog.append`.
        """
        ...

    async def lookup(self, keys: Sequence[bytes]) -> list[bytes | None]:
        """The values of these keys: schema id and row."""
        ...

    async def lookup_or_insert(self, keys: Sequence[bytes]) -> list[bytes | None]:
        """Look up keys, after inserting a row with only the key for each missing one. Error codes: as `put`."""
        ...

    async def lookup_prefixes(self, prefixes: Sequence[bytes], max_bytes: int) -> list[list[bytes]]:
        """The values of keys by prefix, in key order. Error codes: RECORD_TOO_LARGE beyond `max_bytes`."""
        ...

    def scan(self, limit: int | None = None) -> KvScan:
        """Begin a scan of the current rows."""
        ...
