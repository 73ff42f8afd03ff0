"""The KV index of one bucket over its log: merges puts in order, syncs them together, then makes them visible.

A put is decided against the results of earlier puts, durable or not: pending values are in an overlay. The changes are
appended to the log, which syncs them with other appends. Only then are they applied to the index, so the index never
contains changes that the log could lose in a crash. One task per bucket does that for all puts that became durable
meanwhile. The index buffers them in memory; puts do not wait until they are written to disk.
"""

from __future__ import annotations

import asyncio
from collections import deque
from collections.abc import Awaitable, Callable, Iterator, Sequence
from contextlib import contextmanager
from dataclasses import dataclass, field
from typing import Final

from lakebed.fluss.errors import ErrorCode, FlussError
from lakebed.fluss.kv_batches import KvRecordBatch, ValueRecordBatch, read_kv_batch, write_kv_batch
from lakebed.fluss.log_batches import iterate_batches
from lakebed.fluss.rows.decoding import check_rows
from lakebed.fluss.schema import Schema
from lakebed.streams.seam import Acks, BucketLog, KvPut, KvScan

from .auto_increment import AutoIncrement
from .changelog import ChangeType, read_changes, write_changes
from .index.batched_reads import BatchedReads
from .index.seam import KvIndex, KvIndexSnapshot
from .key_only_rows import KeyOnlyRows
from .merge_engines import row_merger
from .put_decision import PutDecision, decide, keys_to_read
from .table import ChangelogImage, KvTable

__all__ = ["FindSchema", "KvBucket", "open_kv_bucket"]

FindSchema = Callable[[int], Awaitable[Schema]]
"""Finds a schema of the table by its id. Raises SCHEMA_NOT_EXIST."""

MAX_PENDING_BYTES: Final = 64 * 1024 * 1024
"""Maximum size of puts in one bucket that are not applied to the index yet; later puts wait."""

FLUSH_SECONDS: Final = 60.0
"""After this the index is flushed to disk, so that it does not depend on records that the retention deletes."""

_INSERT: Final = int(ChangeType.INSERT)
_BEFORE: Final = int(ChangeType.UPDATE_BEFORE)
_DELETE: Final = int(ChangeType.DELETE)

_REPLAY_BYTES: Final = 8 * 1024 * 1024
_PORTION_BYTES: Final = 128 * 1024
"""Rows of a scan are read and written in portions that fit the CPU caches."""

_FEW: Final = 64
"""Maximum number of keys to look up on the event loop: a thread would cost more than the lookup."""


@dataclass(slots=True)
class _Pending:
    """A put that is appended to the log and not yet applied to the index."""

    values: dict[bytes, bytes | None]
    end_offset: int
    size_bytes: int
    row_count: int | None
    done: asyncio.Future[None] = field(repr=False)


class KvBucket:
    """The current row of each key of a bucket. Implements `BucketKv`."""

    def __init__(
        self,
        table: KvTable,
        log: BucketLog,
        index: KvIndex,
        find_schema: FindSchema,
        auto_increment: AutoIncrement | None = None,
        rows: KeyOnlyRows | None = None,
    ) -> None:
        """`index` contains all changes of the log (`open_kv_bucket`)."""
        self._rows = rows or KeyOnlyRows(table)
        self._table = table
        self._log = log
        self._index = index
        self._find_schema = find_schema
        self._auto_increment = auto_increment
        self._reads = BatchedReads(index.get_many)
        self._order = asyncio.Lock()
        self._space = asyncio.Condition()
        self._pending: deque[_Pending] = deque()
        self._pending_bytes = 0
        self._overlay: dict[bytes, bytes | None] = {}
        self._count = index.row_count
        self._applying: asyncio.Task[None] | None = None
        self._failure: FlussError | None = None
        self._flush: asyncio.TimerHandle | None = None
        self._flushing: asyncio.Task[None] | None = None
        self._spilling: asyncio.Task[None] | None = None

    @property
    def row_count(self) -> int | None:
        """The number of keys; None if the changelog is written without reading previous rows."""
        return self._index.row_count

    @property
    def failure(self) -> FlussError | None:
        """Why it cannot be written any more, or None."""
        return self._failure

    async def put(self, put: KvPut, acks: Acks) -> int:
        """Merge records, append the changes to the log, and make them visible to lookups. Returns the log's end."""
        batch = read_kv_batch(put.records)
        async with self._order:
            await self._wait_for_space()
            self._check_open()
            await self._ensure_schema(batch.schema_id)
            merging = row_merger(self._table, put.target_columns, put.mode)
            check_rows(self._table.settings.row_format, self._table.layout(batch.schema_id).types, batch.rows)
            olds = await self._values(keys_to_read(self._table, batch, merging))
            if self._auto_increment is not None:
                await self._auto_increment.reserve(len(batch.keys))
            decision = decide(self._table, batch, merging, olds, self._auto_increment)
            pending = self._append_changes(batch, decision)
        if isinstance(pending, int):
            return await self._wait_for_original(pending, acks)
        if acks is Acks.ALL:
            # If the caller is cancelled, the put continues, and a retry waits for the same result.
            await asyncio.shield(pending.done)
        return pending.end_offset

    async def lookup(self, keys: Sequence[bytes]) -> list[bytes | None]:
        """The values of keys: schema id and row."""
        self._check_open()
        with self._reading():
            found = self._index.get_cached(keys)
            if found is not None:
                return found
            if len(keys) <= _FEW:
                return self._index.get_many(keys)
            return await self._reads.get(keys)

    async def lookup_or_insert(self, keys: Sequence[bytes]) -> list[bytes | None]:
        """Look up keys, after inserting a row with only the key for each missing one."""
        found = await self.lookup(keys)
        missing = dict.fromkeys(key for key, value in zip(keys, found, strict=True) if value is None)
        if not missing:
            return found
        # Does not change a row that was written meanwhile: it sets only the key columns.
        batch = write_kv_batch([(key, self._rows.row(key)) for key in missing], self._table.latest_id)
        await self.put(KvPut(batch, self._table.latest.key_positions), Acks.ALL)
        return await self.lookup(keys)

    async def lookup_prefixes(self, prefixes: Sequence[bytes], max_bytes: int) -> list[list[bytes]]:
        """The values of keys by prefix, in key order. Error codes: RECORD_TOO_LARGE beyond `max_bytes`."""
        self._check_open()
        with self._reading():
            return await asyncio.to_thread(self._get_prefixed, prefixes, max_bytes)

    def _get_prefixed(self, prefixes: Sequence[bytes], max_bytes: int) -> list[list[bytes]]:
        left = max_bytes
        found: list[list[bytes]] = []
        for prefix in prefixes:
            found.append([])
            for value in self._index.get_prefixed(prefix):
                left -= len(value)
                if left < 0:
                    more = f"too many rows for a prefix lookup: scan the table instead. max_bytes={max_bytes}"
                    raise FlussError(ErrorCode.RECORD_TOO_LARGE, more)
                found[-1].append(value)
        return found

    def scan(self, limit: int | None = None) -> KvScan:
        """Begin a scan of the current rows."""
        self._check_open()
        return _Scan(self._index.view(), limit if limit is not None and limit > 0 else None)

    async def close(self) -> None:
        """Apply durable puts and close the index. Idempotent. The caller closes the log."""
        async with self._order:
            if self._failure is None:
                self._failure = FlussError(ErrorCode.NOT_LEADER_OR_FOLLOWER, "bucket is closed")
        if self._flush is not None:
            self._flush.cancel()
        for task in (self._applying, self._flushing, self._spilling):  # in this order: each may start the next
            if task is not None:
                await asyncio.wait({task})
        await asyncio.to_thread(self._index.close)

    @contextmanager
    def _reading(self) -> Iterator[None]:
        """Convert errors of an index that cannot be read, or was closed meanwhile, to FlussError."""
        try:
            yield
        except FlussError:
            raise
        except Exception as error:
            self._check_open()
            raise FlussError(ErrorCode.KV_STORAGE, f"KV index cannot be read. error={error}") from error

    def _check_open(self) -> None:
        if self._failure is not None:
            raise FlussError(self._failure.code, str(self._failure)) from self._failure

    async def _wait_for_space(self) -> None:
        """Wait while too much is pending. The caller holds `_order`, so later puts wait behind it."""
        if self._pending_bytes > MAX_PENDING_BYTES:
            async with self._space:
                await self._space.wait_for(lambda: self._pending_bytes <= MAX_PENDING_BYTES)

    async def _ensure_schema(self, schema_id: int) -> None:
        if not self._table.has_schema(schema_id):
            self._table.add_schema(schema_id, await self._find_schema(schema_id))

    async def _values(self, keys: Sequence[bytes]) -> list[bytes | None]:
        """Current values, including pending ones. The caller holds `_order`, so no others are added meanwhile."""
        # Read the overlay first: while the index is read, pending values may be applied and removed from it.
        overlay = self._overlay
        pending = [(at, overlay[key]) for at, key in enumerate(keys) if key in overlay] if overlay else ()
        found = await self.lookup(keys)
        for at, value in pending:
            found[at] = value
        return found

    def _append_changes(self, batch: KvRecordBatch, decision: PutDecision) -> _Pending | int:
        """Queue the changes to the log. Returns the pending put, or the end offset of the batch that it duplicates."""
        stored = write_changes(decision.changes, self._table.latest_id, batch.writer_id, batch.sequence)
        appended = self._log.enqueue(stored)
        if appended.is_duplicate:
            return appended.end_offset
        if self._count is not None:
            self._count = None if self._table.settings.image is ChangelogImage.WAL else self._count + decision.added
        end = appended.end_offset
        done = asyncio.get_running_loop().create_future()
        done.add_done_callback(_retrieve_exception)
        pending = _Pending(decision.values, end, len(stored), self._count, done)
        self._pending.append(pending)
        self._pending_bytes += pending.size_bytes
        self._overlay.update(decision.values)
        if self._applying is None:
            self._applying = asyncio.create_task(self._apply())
        return pending

    async def _wait_for_original(self, end_offset: int, acks: Acks) -> int:
        """Acknowledge a duplicate when the original batch can be acknowledged."""
        if acks is Acks.ALL:
            waiting = next((each for each in self._pending if each.end_offset >= end_offset), None)
            if waiting is not None:
                await asyncio.shield(waiting.done)
        return end_offset

    async def _apply(self) -> None:
        """Apply pending puts to the index when the log has synced them."""
        try:
            while self._pending:
                await self._log.wait_durable(self._pending[0].end_offset)
                stable = self._log.high_watermark
                ready = [each for each in self._pending if each.end_offset <= stable] or [self._pending[0]]
                values, *later = (each.values for each in ready)
                for more in later:
                    values.update(more)
                last = ready[-1]
                self._index.apply(values, last.end_offset, last.row_count)
                await self._complete(ready)
                if self._index.is_full:
                    await self._begin_spill()
        except Exception as error:
            self._fail(error)
            async with self._space:
                self._space.notify_all()
        finally:
            self._applying = None

    async def _complete(self, ready: Sequence[_Pending]) -> None:
        for each in ready:
            self._pending.popleft()
            self._pending_bytes -= each.size_bytes
            if not each.done.done():
                each.done.set_result(None)
        # Rebuilt: few puts remain, and removing the others one by one costs more.
        self._overlay.clear()
        for each in self._pending:
            self._overlay.update(each.values)
        async with self._space:
            self._space.notify_all()
        if self._flush is None:
            self._flush = asyncio.get_running_loop().call_later(FLUSH_SECONDS, self._begin_flush)

    async def _begin_spill(self) -> None:
        """Write the index's buffer to disk. Waits for the previous write, so that at most two buffers are in memory."""
        if self._spilling is not None:
            await asyncio.wait({self._spilling})
        self._spilling = asyncio.create_task(self._run_spill())

    async def _run_spill(self) -> None:
        try:
            await asyncio.to_thread(self._index.spill)
        except Exception as error:
            self._fail(error)

    def _begin_flush(self) -> None:
        self._flush = None
        if self._failure is None:
            self._flushing = asyncio.create_task(self._run_flush())

    async def _run_flush(self) -> None:
        try:
            await asyncio.to_thread(self._index.flush)
        except Exception as error:
            self._fail(error)

    def _fail(self, error: Exception) -> None:
        """Fail pending puts. They may or may not be in the log; a replay at the next opening decides."""
        failure = error if isinstance(error, FlussError) else FlussError(ErrorCode.KV_STORAGE, str(error))
        self._failure = failure
        for each in self._pending:
            if not each.done.done():
                each.done.set_exception(FlussError(failure.code, str(failure)))
        self._pending.clear()
        self._pending_bytes = 0  # `_apply` notifies those that wait for space


class _Scan:
    """Values in batches. Implements `KvScan`."""

    def __init__(self, view: KvIndexSnapshot, limit: int | None) -> None:
        self._view = view
        self._left = limit

    @property
    def log_offset(self) -> int:
        return self._view.log_offset

    def next(self, max_bytes: int) -> tuple[list[bytes], bool]:
        batch = ValueRecordBatch()
        has_more = True
        while has_more and batch.size_bytes < max_bytes:
            values, has_more = self._view.take(min(max_bytes - batch.size_bytes, _PORTION_BYTES), self._left)
            batch.add(values)
            if self._left is not None:
                self._left -= len(values)
                has_more = has_more and self._left > 0
        return batch.pieces(), has_more

    def close(self) -> None:
        self._view.close()


async def open_kv_bucket(
    table: KvTable,
    log: BucketLog,
    index: KvIndex,
    find_schema: FindSchema,
    auto_increment: AutoIncrement | None = None,
    rows: KeyOnlyRows | None = None,
) -> KvBucket:
    """Open a bucket's KV index and replay the log on it. Raises KV_STORAGE if that is not possible."""
    offset = index.log_offset
    if offset > log.end_offset:
        raise FlussError(ErrorCode.KV_STORAGE, f"KV index is ahead of its log. index={offset} log={log.end_offset}")
    if offset < log.start_offset:
        raise FlussError(
            ErrorCode.KV_STORAGE,
            f"log no longer has the changes that the KV index lacks. index={offset} log={log.start_offset}",
        )
    while offset < log.end_offset:
        fetched = await log.read_stored(offset, _REPLAY_BYTES)
        if fetched.next_offset <= offset:
            raise FlussError(ErrorCode.KV_STORAGE, f"log cannot be replayed. offset={offset} end={log.end_offset}")
        await asyncio.to_thread(_replay, table, index, bytes(fetched.records), offset)
        offset = fetched.next_offset
    return KvBucket(table, log, index, find_schema, auto_increment, rows)


def _replay(table: KvTable, index: KvIndex, records: bytes, offset: int) -> None:
    """Apply the changes of these batches from `offset` on."""
    values: dict[bytes, bytes | None] = {}
    # In a WAL image, an insert may be of an existing key, so rows cannot be counted.
    count = None if table.settings.image is ChangelogImage.WAL else index.row_count
    end = offset
    for batch in iterate_batches(records):
        if batch.next_offset <= offset:
            continue
        changes = read_changes(batch)
        for type_, key, value in zip(changes.types, changes.keys, changes.values, strict=True):
            if type_ != _BEFORE:
                values[key] = None if type_ == _DELETE else value
        if count is not None:
            count += changes.types.count(_INSERT) - changes.types.count(_DELETE)
        end = batch.next_offset
    index.apply(values, end, count)
    if index.is_full:
        index.spill()


def _retrieve_exception(done: asyncio.Future[None]) -> None:
    """Prevent a warning for a put without acknowledgement: its failure is stored in the bucket."""
    if not done.cancelled():
        done.exception()
