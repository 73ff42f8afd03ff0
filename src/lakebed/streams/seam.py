"""What the parts of streams are to each other: a bucket's log, and a bucket's keys over that log.

The log knows nothing of keys: it is given batches and gives them back by offset. The keys know the log as anyone does
who appends to it. Edges know both, and neither's files.
"""

from __future__ import annotations

from collections.abc import Callable, Sequence
from dataclasses import dataclass
from enum import IntEnum
from typing import Protocol

from lakebed.fluss.errors import FlussError

__all__ = [
    "Acks",
    "Appended",
    "BucketKv",
    "BucketLog",
    "Fetched",
    "KvPut",
    "KvScan",
    "MergeMode",
    "RemoteSegment",
    "TableBucket",
]


@dataclass(frozen=True, slots=True, order=True)
class TableBucket:
    """The unit that is stored, and the name of its log."""

    table_id: int
    partition_id: int | None
    bucket: int


class Acks(IntEnum):
    """When an append is answered."""

    NONE = 0
    """At once."""

    LEADER = 1
    """When it is written."""

    ALL = -1
    """When it is on stable storage."""


@dataclass(frozen=True, slots=True)
class Appended:
    """Where records are in the log."""

    base_offset: int
    end_offset: int
    """The one after the last of them."""

    is_repeated: bool = False
    """They were there already, by the sequence number of their writer."""


@dataclass(frozen=True, slots=True)
class RemoteSegment:
    """A part of a log that lies in the byte store, where readers that can fetch it themselves."""

    segment_id: str
    start_offset: int
    end_offset: int
    """Exclusive."""

    size_bytes: int
    max_timestamp_ms: int


@dataclass(frozen=True, slots=True)
class Fetched:
    """What a read found."""

    records: bytes | bytearray | memoryview
    """Whole batches, the first of which has the offset that was asked for; empty at the end of the log."""

    next_offset: int
    """Where to read on."""

    remote: Sequence[RemoteSegment] = ()
    """Where the offset is instead, if it was to be located; then `records` is empty."""

    remote_start: int = 0
    """The position in the first of these."""

    remote_folder: str = ""
    """Where these are, as readers who fetch them find it: `{segment id}/{start offset, of 20 digits}.log` is in it."""


class BucketLog(Protocol):
    """One bucket's log: batches by offset. Every method may raise FlussError."""

    @property
    def start_offset(self) -> int:
        """The first that can be read."""
        ...

    @property
    def end_offset(self) -> int:
        """The one after the last that was written."""
        ...

    @property
    def stable_offset(self) -> int:
        """The one after the last that is on stable storage. Readers see no further."""
        ...

    def enqueue(self, records: bytes | memoryview) -> Appended:
        """Give batches their places and let go of them: they are written and synced from here on, in this order.

        Nobody reads them before that, and if it fails they never were there: `settle` says. The bytes may not change
        until then. Error codes: as of `append`.
        """
        ...

    async def settle(self, offset: int) -> None:
        """Return when all before `offset` is on stable storage. Error codes: LOG_STORAGE, NOT_LEADER_OR_FOLLOWER."""
        ...

    async def append(self, records: bytes | memoryview, acks: Acks) -> Appended:
        """Append batches as their writer sent them, once their checksums and sequences were looked at.

        Error codes: CORRUPT_RECORD, OUT_OF_ORDER_SEQUENCE, UNKNOWN_WRITER_ID, RECORD_TOO_LARGE, SCHEMA_NOT_EXIST,
        LOG_STORAGE, NOT_LEADER_OR_FOLLOWER.
        """
        ...

    async def read(self, offset: int, max_bytes: int, columns: Sequence[int] | None = None) -> Fetched:
        """Batches from the one with `offset` on, at least one if there is one; of these columns (ascending) alone.

        Error codes: LOG_OFFSET_OUT_OF_RANGE, INVALID_COLUMN_PROJECTION, LOG_STORAGE.
        """
        ...

    async def read_stored(self, offset: int, max_bytes: int) -> Fetched:
        """The same as they were appended, in whatever form readers get them: for who follows what it wrote itself.

        Error codes: as of `read`.
        """
        ...

    async def locate(self, offset: int, columns: Sequence[int] | None = None) -> Fetched | None:
        """Where in the byte store `offset` is, for who reads there itself; None if it is here, or nobody reads there.

        `read` has it all the same. Error codes: INVALID_COLUMN_PROJECTION, LOG_STORAGE, STORAGE.
        """
        ...

    async def wait_for(self, offset: int) -> None:
        """Return when a record at `offset` or later can be read, or the log is closed. Cancel it to stop waiting."""
        ...

    def watch(self, offset: int, told: Callable[[], None]) -> Callable[[], None]:
        """Have `told` called once, from the loop, when `wait_for` would return; returns what stops that.

        It may be called at once, as it always is of a log that is closed.
        """
        ...

    @property
    def is_closed(self) -> bool:
        """Whether it was closed: then nothing comes any more."""
        ...

    async def find_time(self, timestamp_ms: int) -> int:
        """The offset of the first batch that was committed then or later; the end of the log if there is none."""
        ...

    @property
    def failure(self) -> FlussError | None:
        """Why it takes no more: its disk refused. Then it is to be opened anew."""
        ...

    async def close(self) -> None:
        """Sync what was appended, let go of all who wait and of the files. Idempotent."""
        ...

    async def remove(self) -> None:
        """Close it, and remove what was stored of it here. What is in the byte store is the chores' to remove."""
        ...


class MergeMode(IntEnum):
    """Whether a write goes through the table's merge engine."""

    MERGE = 0
    OVERWRITE = 1


@dataclass(frozen=True, slots=True)
class KvPut:
    """A batch of keyed records as its writer sent it, and how it is to be taken."""

    records: bytes | memoryview
    target_columns: Sequence[int] = ()
    """Positions of the columns that are written; all, if there are none."""

    mode: MergeMode = MergeMode.MERGE


class KvScan(Protocol):
    """Rows in the order of their keys, as they were at one moment. Not for two readers at once."""

    @property
    def log_offset(self) -> int:
        """Where the changes begin that it does not show."""
        ...

    def next(self, max_bytes: int) -> tuple[list[bytes], bool]:
        """The next rows, at least one, as a batch of values in pieces; and whether there are more."""
        ...

    def close(self) -> None:
        """Let go of the moment. Idempotent."""
        ...


class BucketKv(Protocol):
    """The latest row of every key of a bucket. Every method may raise FlussError."""

    @property
    def row_count(self) -> int | None:
        """How many keys there are, where that is known."""
        ...

    @property
    def failure(self) -> FlussError | None:
        """Why they take no more, if they do not: then the bucket is to be opened anew."""
        ...

    async def put(self, put: KvPut, acks: Acks) -> int:
        """Merge the records, append their changes to the log, and show them to lookups; the log's end after them.

        Error codes: CORRUPT_RECORD, OUT_OF_ORDER_SEQUENCE, UNKNOWN_WRITER_ID, SCHEMA_NOT_EXIST, INVALID_TARGET_COLUMN,
        DELETION_DISABLED, KV_STORAGE, and those of `BucketLog.append`.
        """
        ...

    async def lookup(self, keys: Sequence[bytes]) -> list[bytes | None]:
        """The values of these keys: schema id and row."""
        ...

    async def lookup_or_insert(self, keys: Sequence[bytes]) -> list[bytes | None]:
        """The same, once a row of nothing but its key was put for each that has none. Error codes: as of `put`."""
        ...

    async def lookup_prefixes(self, prefixes: Sequence[bytes], max_bytes: int) -> list[list[bytes]]:
        """The values of all keys that begin so, in the order of keys. RECORD_TOO_LARGE if they have more bytes."""
        ...

    def scan(self, limit: int | None = None) -> KvScan:
        """Begin a scan of the rows as they are now."""
        ...
