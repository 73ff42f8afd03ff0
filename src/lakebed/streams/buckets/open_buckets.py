"""Open buckets: each is opened once, at its first request, and closed when its table is dropped.

Requests for a bucket that is being opened wait, and continue in order of arrival: batches of a writer that overtook
each other would be rejected. Maintenance opens closed buckets temporarily (`visit`).
"""

from __future__ import annotations

import asyncio
from collections.abc import AsyncIterator, Awaitable, Callable, Iterator, Mapping
from contextlib import asynccontextmanager
from dataclasses import dataclass
from typing import Final, Protocol

from lakebed.core.errors import LakebedError
from lakebed.fluss.errors import ErrorCode, FlussError

from ..partitions import StreamPartition, StreamPartitions
from ..seam import BucketKv, BucketLog, TableBucket
from ..table import StreamTable
from ..tables import StreamTables

__all__ = ["BucketStore", "OpenBucket", "OpenBuckets"]


@dataclass(frozen=True, slots=True)
class OpenBucket:
    """A bucket's log, and its KV index if the table has a primary key."""

    bucket: TableBucket
    log: BucketLog
    kv: BucketKv | None = None

    @property
    def has_failed(self) -> bool:
        """Whether its disk failed. Then it must be reopened."""
        return self.failure is not None

    @property
    def failure(self) -> FlussError | None:
        """Why it failed, or None."""
        return self.log.failure or (None if self.kv is None else self.kv.failure)


class BucketStore(Protocol):
    """Opens and removes the files of buckets."""

    async def open(self, table: StreamTable, partition: StreamPartition | None, bucket: TableBucket) -> OpenBucket:
        """Open a bucket, create it if it is new, and recover it after a crash. Raises FlussError."""
        ...

    async def close(self, opened: OpenBucket) -> None:
        """Close a bucket. Acknowledged records are on stable storage."""
        ...

    async def remove(self, table_id: int, partition_id: int | None) -> None:
        """Remove the files of a table or partition whose buckets are closed. Idempotent."""
        ...


_Key = tuple[int, int | None, int]
_REOPENING_SECONDS: Final = 1.0

_NOT_RECORDED: Final = frozenset(
    {ErrorCode.NOT_LEADER_OR_FOLLOWER, ErrorCode.LEADER_NOT_AVAILABLE, ErrorCode.UNKNOWN_TABLE_OR_BUCKET}
)
"""Errors of an opening that say nothing about the bucket's files, so they are not recorded. The log row states which
other server has the newest records; the others mean that the bucket does not exist, or that this server is not the
leader."""


class _Opening:
    """The requests that wait for a bucket, in order, and the task that opens it, which outlives cancelled requests."""

    __slots__ = ("lock", "task", "waiting")

    def __init__(self) -> None:
        self.lock = asyncio.Lock()
        self.task: asyncio.Task[OpenBucket] | None = None
        """Opens the bucket for all waiting requests."""
        self.waiting = 0


class OpenBuckets:
    """All open buckets of this process."""

    def __init__(
        self,
        store: BucketStore,
        tables: StreamTables,
        partitions: StreamPartitions,
        is_leader: Callable[[], bool] = lambda: True,
    ) -> None:
        """While `is_leader` returns False, requests fail with NOT_LEADER_OR_FOLLOWER."""
        self._store = store
        self._tables = tables
        self._partitions = partitions
        self._open: dict[_Key, OpenBucket] = {}
        self._visited: dict[_Key, OpenBucket] = {}
        self._openings: dict[_Key, _Opening] = {}
        self._unopened: dict[TableBucket, str] = {}
        self._closing: dict[asyncio.Future[None], TableBucket] = {}
        self._is_leader = is_leader
        self._on_closed: list[Callable[[TableBucket], None]] = []
        tables.on_dropped(self._table_dropped)
        partitions.on_dropped(self._partition_dropped)

    def on_closed(self, callback: Callable[[TableBucket], None]) -> None:
        """Call `callback` before a bucket is closed."""
        self._on_closed.append(callback)

    def __iter__(self) -> Iterator[OpenBucket]:
        return iter(list(self._open.values()))

    def broken(self) -> Mapping[TableBucket, str]:
        """Buckets that cannot be written to, and why: their last opening failed, or their disk failed since."""
        found = dict(self._unopened)
        for each in (*self._open.values(), *self._visited.values()):
            if each.failure is not None:
                found[each.bucket] = str(each.failure)
        return found

    async def get(self, table: StreamTable, partition_id: int | None, number: int) -> OpenBucket:
        """The bucket, opened if necessary.

        Error codes: NOT_LEADER_OR_FOLLOWER, UNKNOWN_TABLE_OR_BUCKET, and those of opening.
        """
        key = (table.id, partition_id, number)
        self._check_leader()
        found = self._open.get(key)
        if found is not None and key not in self._openings and not found.has_failed:
            return found
        opening = self._openings.setdefault(key, _Opening())
        if opening.task is None:
            opening.task = asyncio.create_task(self._open_locked(key, table, partition_id, number))
            opening.task.add_done_callback(
                lambda done: done.cancelled() or done.exception()
            )  # retrieved, though all waiters may be cancelled
        # Opening can outlast the timeout of requests. Restarted for each of them, it would never finish.
        return await asyncio.shield(opening.task)

    @asynccontextmanager
    async def using(self, table: StreamTable, partition_id: int | None, number: int) -> AsyncIterator[OpenBucket]:
        """The bucket, for one request. Does not suspend if the bucket is open, so requests keep their order.

        A request that fails because the bucket was dropped under it fails with UNKNOWN_TABLE_OR_BUCKET. Error codes: as
        `get`.
        """
        opened = await self.get(table, partition_id, number)
        try:
            yield opened
        except LakebedError as error:
            if opened.log.is_closed and (dropped := await self.why_dropped(opened.bucket)) is not None:
                raise dropped from error
            if isinstance(error, FlussError) and error.code is ErrorCode.UNKNOWN_WRITER_ID:
                await self._refuse_unknown_writer(opened.bucket, error)
            raise

    async def _refuse_unknown_writer(self, bucket: TableBucket, failure: FlussError) -> None:
        """Raise OUT_OF_ORDER_SEQUENCE, unless the partition replaces a dropped one of its name (ADR 47).

        After OUT_OF_ORDER_SEQUENCE clients retry the batch, since earlier batches may be late. After UNKNOWN_WRITER_ID
        they fail it and restart their numbering. Without that, batches that they numbered for the dropped partition
        would be retried for ever.
        """
        if bucket.partition_id is not None:
            partition = await self._partitions.by_id(bucket.partition_id)
            if partition.predecessor_dropped_ms is not None:
                return
        raise FlussError(ErrorCode.OUT_OF_ORDER_SEQUENCE, str(failure)) from failure

    async def why_dropped(self, bucket: TableBucket) -> FlussError | None:
        """UNKNOWN_TABLE_OR_BUCKET if the table or the partition of a bucket that was closed is dropped; else None.

        None on a server that does not lead: it may not reach the metadata store, and its clients need the new leader.
        """
        if not self._is_leader():
            return None
        try:
            await self._tables.by_id(bucket.table_id)
            if bucket.partition_id is not None:
                await self._partitions.by_id(bucket.partition_id)
        except FlussError as failure:
            return failure
        except LakebedError:
            return None  # the request's own error is more informative than an unavailable metadata store
        return None

    async def _open_locked(self, key: _Key, table: StreamTable, partition_id: int | None, number: int) -> OpenBucket:
        async with self._locked(key) as opening:
            try:
                found = self._open.get(key) or self._adopt(key)
                if found is not None and found.failure is not None:
                    self._unopened[found.bucket] = str(found.failure)
                    await self._close(key, found)
                    # Writers retry at once. Limits the attempts on a failing disk.
                    await asyncio.sleep(_REOPENING_SECONDS)
                    found = None
                if found is None:
                    found = await self._opened(table, partition_id, number)
                    self._open[key] = found
                return found
            finally:
                opening.task = None

    async def visit(self, bucket: TableBucket, work: Callable[[OpenBucket], Awaitable[None]]) -> None:
        """Run `work` with a closed bucket, then close it, unless it was requested meanwhile.

        Does nothing if it is open. Error codes: as `get`, and those of `work`.
        """
        key = (bucket.table_id, bucket.partition_id, bucket.bucket)
        self._check_leader()
        async with self._locked(key):
            if key in self._open:
                return
            table = await self._tables.by_id(bucket.table_id)
            self._visited[key] = visited = await self._opened(table, bucket.partition_id, bucket.bucket)
        try:
            await work(visited)
        finally:
            async with self._locked(key):
                if self._visited.pop(key, None) is not None:
                    await self._store.close(visited)

    async def while_closed(
        self, bucket: TableBucket, work: Callable[[StreamTable, StreamPartition | None], Awaitable[None]]
    ) -> bool:
        """Run `work` on the files of a closed bucket, also without leading. The bucket cannot be opened meanwhile.

        Returns False, and does nothing, if it is open. Error codes: UNKNOWN_TABLE_OR_BUCKET, PARTITION_NOT_EXISTS, and
        those of `work`.
        """
        key = (bucket.table_id, bucket.partition_id, bucket.bucket)
        async with self._locked(key):
            if key in self._open or key in self._visited:
                return False
            table = await self._tables.by_id(bucket.table_id)
            await work(table, await self._partition(table, bucket.partition_id, bucket.bucket))
            return True

    def _adopt(self, key: _Key) -> OpenBucket | None:
        """Keep a visited bucket open."""
        found = self._visited.pop(key, None)
        if found is not None:
            self._open[key] = found
        return found

    @asynccontextmanager
    async def _locked(self, key: _Key) -> AsyncIterator[_Opening]:
        opening = self._openings.setdefault(key, _Opening())
        opening.waiting += 1
        try:
            async with opening.lock:
                yield opening
        finally:
            opening.waiting -= 1
            if not opening.waiting:
                del self._openings[key]

    async def _opened(self, table: StreamTable, partition_id: int | None, number: int) -> OpenBucket:
        partition = await self._partition(table, partition_id, number)
        # The table may have been dropped while we waited.
        table = await self._tables.by_id(table.id)
        bucket = TableBucket(table.id, partition_id, number)
        try:
            opened = await self._store.open(table, partition, bucket)
        except Exception as error:
            if not (isinstance(error, FlussError) and error.code in _NOT_RECORDED):
                self._unopened[bucket] = str(error)
            raise
        self._unopened.pop(bucket, None)
        try:
            # Or during the opening, which can take long; and another server may lead by now.
            await self._tables.by_id(table.id)
            if partition is not None:
                await self._partitions.by_id(partition.id)
            self._check_leader()
        except FlussError:
            await self._store.close(opened)
            raise
        return opened

    async def _partition(self, table: StreamTable, partition_id: int | None, number: int) -> StreamPartition | None:
        """The partition of a bucket, if its table is partitioned.

        Error codes: UNKNOWN_TABLE_OR_BUCKET, PARTITION_NOT_EXISTS.
        """
        if not 0 <= number < table.bucket_count or table.is_partitioned != (partition_id is not None):
            raise _unknown(table, partition_id, number)
        if partition_id is None:
            return None
        partition = await self._partitions.by_id(partition_id)
        if partition.table_id != table.id:
            raise _unknown(table, partition_id, number)
        return partition

    def _check_leader(self) -> None:
        if not self._is_leader():
            raise FlussError(ErrorCode.NOT_LEADER_OR_FOLLOWER, "another server is the stream leader")

    async def remove(self, table_id: int, partition_id: int | None) -> None:
        """Remove the files of a dropped table or partition. Idempotent.

        First waits for openings by requests from before the drop and for buckets that are closing. Both would create
        the files again.
        """

        def is_dropped(bucket: TableBucket) -> bool:
            return bucket.table_id == table_id and partition_id in (None, bucket.partition_id)

        for key in [each for each in self._openings if is_dropped(TableBucket(*each))]:
            async with self._locked(key):
                pass
        await self._close_where(is_dropped)
        if closing := [done for done, bucket in self._closing.items() if is_dropped(bucket)]:
            await asyncio.wait(closing)
        await self._store.remove(table_id, partition_id)

    async def close(self) -> None:
        """Close all buckets."""
        await self._close_where(lambda bucket: True)

    async def _table_dropped(self, table_id: int) -> None:
        self._partitions.forget_table(table_id)
        await self._close_where(lambda bucket: bucket.table_id == table_id)

    async def _partition_dropped(self, table_id: int, partition_id: int) -> None:
        await self._close_where(lambda bucket: (bucket.table_id, bucket.partition_id) == (table_id, partition_id))

    async def _close_where(self, is_selected: Callable[[TableBucket], bool]) -> None:
        for key, opened in [*self._open.items(), *self._visited.items()]:
            if is_selected(opened.bucket):
                await self._close(key, opened)
        # Last: buckets can fail while the others are closed.
        self._unopened = {bucket: reason for bucket, reason in self._unopened.items() if not is_selected(bucket)}

    async def _close(self, key: _Key, opened: OpenBucket) -> None:
        if self._open.pop(key, None) is None and self._visited.pop(key, None) is None:
            return
        for callback in self._on_closed:
            callback(opened.bucket)
        done = asyncio.get_running_loop().create_future()
        self._closing[done] = opened.bucket
        try:
            await self._store.close(opened)
        finally:
            del self._closing[done]
            done.set_result(None)


def _unknown(table: StreamTable, partition_id: int | None, number: int) -> FlussError:
    return FlussError(
        ErrorCode.UNKNOWN_TABLE_OR_BUCKET,
        f"no such bucket. table={table.path} partition_id={partition_id} bucket={number}",
    )
