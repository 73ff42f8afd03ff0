"""The buckets that are open: each opened when it is first asked for, once, and let go of when its table is dropped.

Whoever asks for a bucket that is being opened waits in turn, and goes on in the order of asking: writers number what
they send, and what overtook would be refused. Who only looks after a bucket that nobody has asked for visits it.
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
    """A bucket's log, and its keys if its table has a primary key."""

    bucket: TableBucket
    log: BucketLog
    keys: BucketKv | None = None

    @property
    def has_failed(self) -> bool:
        """Whether its disk refused: then it is of no use before it is opened anew."""
        return self.failure is not None

    @property
    def failure(self) -> FlussError | None:
        """Why it is of no use, if that is so."""
        return self.log.failure or (None if self.keys is None else self.keys.failure)


class BucketStore(Protocol):
    """Where buckets are."""

    async def open(self, table: StreamTable, partition: StreamPartition | None, bucket: TableBucket) -> OpenBucket:
        """Open a bucket, making it if it is new, with all that a crash left undone. Raises FlussError."""
        ...

    async def close(self, opened: OpenBucket) -> None:
        """Let go of it; what was acknowledged is on stable storage."""
        ...

    async def remove(self, table_id: int, partition_id: int | None) -> None:
        """Remove all that is stored of a table, or of one of its partitions, whose buckets are closed. Idempotent."""
        ...


_Key = tuple[int, int | None, int]
_REOPENING_SECONDS: Final = 1.0

_NOT_ITS_OWN: Final = frozenset(
    {ErrorCode.NOT_LEADER_OR_FOLLOWER, ErrorCode.LEADER_NOT_AVAILABLE, ErrorCode.UNKNOWN_TABLE_OR_BUCKET}
)
"""Of an opening that failed for these nothing is remembered. That another server has the newest records is in the row
of the log, which also tells when that is over; the others are of a bucket that is not, or of no bucket of ours."""


class _Opening:
    """Those who wait for a bucket to be open, in order; and what they wait for, which lasts though they leave."""

    __slots__ = ("lock", "task", "waiting")

    def __init__(self) -> None:
        self.lock = asyncio.Lock()
        self.task: asyncio.Task[OpenBucket] | None = None
        """Who opens it for all that ask."""
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
        """Whenever `is_leader` says no, NOT_LEADER_OR_FOLLOWER is the answer."""
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
        """Have `callback` called before a bucket is let go of."""
        self._on_closed.append(callback)

    def __iter__(self) -> Iterator[OpenBucket]:
        return iter(list(self._open.values()))

    def broken(self) -> Mapping[TableBucket, str]:
        """Those that nobody can write to before they are opened anew, and why.

        That is: whose last opening failed, or whose disk has refused since.
        """
        found = dict(self._unopened)
        for each in (*self._open.values(), *self._visited.values()):
            if each.failure is not None:
                found[each.bucket] = str(each.failure)
        return found

    async def get(self, table: StreamTable, partition_id: int | None, number: int) -> OpenBucket:
        """The bucket, opened if it is not.

        Error codes: NOT_LEADER_OR_FOLLOWER, UNKNOWN_TABLE_OR_BUCKET, and what keeps it from being opened.
        """
        key = (table.id, partition_id, number)
        self._check_home()
        found = self._open.get(key)
        if found is not None and key not in self._openings and not found.has_failed:
            return found
        opening = self._openings.setdefault(key, _Opening())
        if opening.task is None:
            opening.task = asyncio.create_task(self._open_in_turn(key, table, partition_id, number))
            opening.task.add_done_callback(
                lambda done: done.cancelled() or done.exception()
            )  # seen, should all have left
        # Opening can take longer than a caller waits. Begun again for each of them it would never end.
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

        Clients send a batch again after OUT_OF_ORDER_SEQUENCE: the batches before it may be late. After
        UNKNOWN_WRITER_ID they fail it and begin to number again. Batches that they numbered for the dropped partition
        would be late for ever.
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
            return None  # what the request failed with says more than that the metadata store is away
        return None

    async def _open_in_turn(self, key: _Key, table: StreamTable, partition_id: int | None, number: int) -> OpenBucket:
        async with self._turn(key) as opening:
            try:
                found = self._open.get(key) or self._adopt(key)
                if found is not None and found.failure is not None:
                    self._unopened[found.bucket] = str(found.failure)
                    await self._close(key, found)
                    # Whoever writes asks again at once: a disk that refuses is not to be asked as often.
                    await asyncio.sleep(_REOPENING_SECONDS)
                    found = None
                if found is None:
                    found = await self._opened(table, partition_id, number)
                    self._open[key] = found
                return found
            finally:
                opening.task = None

    async def visit(self, bucket: TableBucket, work: Callable[[OpenBucket], Awaitable[None]]) -> None:
        """Do something with a bucket that is not open; it is let go of again, unless somebody asked for it meanwhile.

        Nothing is done if it is open. Error codes: as `get`, and those of `work`.
        """
        key = (bucket.table_id, bucket.partition_id, bucket.bucket)
        self._check_home()
        async with self._turn(key):
            if key in self._open:
                return
            table = await self._tables.by_id(bucket.table_id)
            self._visited[key] = visited = await self._opened(table, bucket.partition_id, bucket.bucket)
        try:
            await work(visited)
        finally:
            async with self._turn(key):
                if self._visited.pop(key, None) is not None:
                    await self._store.close(visited)

    async def while_closed(
        self, bucket: TableBucket, work: Callable[[StreamTable, StreamPartition | None], Awaitable[None]]
    ) -> bool:
        """Work on the files of a bucket that is not open, also where another server leads; it is not opened meanwhile.

        False, and nothing is done, if it is open. Error codes: UNKNOWN_TABLE_OR_BUCKET, PARTITION_NOT_EXISTS, and those
        of `work`.
        """
        key = (bucket.table_id, bucket.partition_id, bucket.bucket)
        async with self._turn(key):
            if key in self._open or key in self._visited:
                return False
            table = await self._tables.by_id(bucket.table_id)
            await work(table, await self._partition(table, bucket.partition_id, bucket.bucket))
            return True

    def _adopt(self, key: _Key) -> OpenBucket | None:
        """The bucket that somebody visits, as one that is open."""
        found = self._visited.pop(key, None)
        if found is not None:
            self._open[key] = found
        return found

    @asynccontextmanager
    async def _turn(self, key: _Key) -> AsyncIterator[_Opening]:
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
            if not (isinstance(error, FlussError) and error.code in _NOT_ITS_OWN):
                self._unopened[bucket] = str(error)
            raise
        self._unopened.pop(bucket, None)
        try:
            # Or while it was opened, which can take long; and others may be the home by now.
            await self._tables.by_id(table.id)
            if partition is not None:
                await self._partitions.by_id(partition.id)
            self._check_home()
        except FlussError:
            await self._store.close(opened)
            raise
        return opened

    async def _partition(self, table: StreamTable, partition_id: int | None, number: int) -> StreamPartition | None:
        """The partition of a bucket, if its table has some.

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

    def _check_home(self) -> None:
        if not self._is_leader():
            raise FlussError(ErrorCode.NOT_LEADER_OR_FOLLOWER, "another server is the home of streams")

    async def remove(self, table_id: int, partition_id: int | None) -> None:
        """Remove all that is stored of a dropped table, or of one of its dropped partitions. Idempotent.

        A request that began before the drop may still be opening a bucket, and a bucket may still be closing. Both
        finish first: they would create again what is removed.
        """

        def is_meant(bucket: TableBucket) -> bool:
            return bucket.table_id == table_id and partition_id in (None, bucket.partition_id)

        for key in [each for each in self._openings if is_meant(TableBucket(*each))]:
            async with self._turn(key):
                pass
        await self._close_where(is_meant)
        if closing := [done for done, bucket in self._closing.items() if is_meant(bucket)]:
            await asyncio.wait(closing)
        await self._store.remove(table_id, partition_id)

    async def close(self) -> None:
        """Let go of all."""
        await self._close_where(lambda bucket: True)

    async def _table_dropped(self, table_id: int) -> None:
        self._partitions.forget_table(table_id)
        await self._close_where(lambda bucket: bucket.table_id == table_id)

    async def _partition_dropped(self, table_id: int, partition_id: int) -> None:
        await self._close_where(lambda bucket: (bucket.table_id, bucket.partition_id) == (table_id, partition_id))

    async def _close_where(self, meant: Callable[[TableBucket], bool]) -> None:
        for key, opened in [*self._open.items(), *self._visited.items()]:
            if meant(opened.bucket):
                await self._close(key, opened)
        # Last: one that failed meanwhile is forgotten with the others.
        self._unopened = {bucket: why for bucket, why in self._unopened.items() if not meant(bucket)}

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
