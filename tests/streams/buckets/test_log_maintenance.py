"""Logs are looked after whether or not somebody has asked for their bucket since the server began."""

from __future__ import annotations

import asyncio
from collections.abc import AsyncIterator, Iterator
from contextlib import asynccontextmanager
from pathlib import Path

import pytest

from lakebed.meta.seam import Reader
from lakebed.storage.backoff import Retrier, RetryPolicy
from lakebed.storage.memory import MemoryStorage
from lakebed.streams.buckets import log_maintenance as tending_module
from lakebed.streams.buckets.log_maintenance import VISIT_SECONDS, LogMaintenance
from lakebed.streams.buckets.open_buckets import OpenBucket, OpenBuckets
from lakebed.streams.log.local.logs import Logs
from lakebed.streams.log.remote.log_rows import LogRows
from lakebed.streams.log.remote.manifest import LogLocation
from lakebed.streams.log.remote.opening import open_remote_backed_log
from lakebed.streams.log.remote.remote_log import RemoteLogs
from lakebed.streams.log.settings import LogSizes
from lakebed.streams.partitions import StreamPartition
from lakebed.streams.seam import Acks, TableBucket
from lakebed.streams.table import StreamTable
from tests.contracts.stream_log import MAX_BATCH_BYTES, plain_batch
from tests.storage.ownership import ClaimedAtFirstUse
from tests.streams.world import StreamWorld

ONCE = Retrier(RetryPolicy(max_attempts=1))
WEEK = 7 * 24 * 3600.0
SERVER = "one"
SMALL = LogSizes(segment_bytes=5_000, max_batch_bytes=MAX_BATCH_BYTES, group_bytes=1 << 20, checkpoint_bytes=2_000)


class LogShelf:
    """Where buckets are: a real log each, over a byte store in memory."""

    def __init__(self, world: StreamWorld, folder: Path, storage: MemoryStorage | None = None) -> None:
        self.clock, self.storage = world.clock, storage or MemoryStorage(world.clock)
        self.logs = Logs(str(folder), world.clock, SMALL)
        self.rows = LogRows(world.store, self._epoch)
        numbers: Iterator[int] = iter(range(10**6))
        self.remotes = RemoteLogs(
            self.storage,
            ClaimedAtFirstUse(self.storage),
            self.rows,
            self.logs.threads,
            lambda: f"id-{next(numbers)}",
            retrier=ONCE,
        )
        self.opened: list[TableBucket] = []

    async def _epoch(self, reader: Reader) -> int:
        return 1

    async def open(self, table: StreamTable, partition: StreamPartition | None, bucket: TableBucket) -> OpenBucket:
        place = LogLocation(bucket, table.path.database, table.path.name)
        self.opened.append(bucket)
        return OpenBucket(
            bucket, await open_remote_backed_log(self.logs, self.remotes, place, server=SERVER, clock=self.clock)
        )

    async def close(self, opened: OpenBucket) -> None:
        await opened.log.close()

    async def remove(self, table_id: int, partition_id: int | None) -> None:
        await self.remotes.remove(table_id, partition_id)

    async def keys(self) -> list[str]:
        return [head.key async for head in self.storage.list_prefix("")]


class Server:
    """A server that has begun: nothing is open yet."""

    def __init__(self, world: StreamWorld, shelf: LogShelf) -> None:
        self.buckets = OpenBuckets(shelf, world.tables, world.partitions)
        self.log_maintenance = LogMaintenance(
            self.buckets, world.tables, shelf.rows, world.clock, lambda: True, server=SERVER
        )


@pytest.fixture
async def shelf(light_world: StreamWorld, tmp_path: Path) -> AsyncIterator[LogShelf]:
    made = LogShelf(light_world, tmp_path / "logs")
    yield made
    await asyncio.to_thread(made.logs.close)


@asynccontextmanager
async def begun(world: StreamWorld, shelf: LogShelf) -> AsyncIterator[Server]:
    server = Server(world, shelf)
    shelf.opened.clear()
    yield server
    await server.buckets.close()


async def written(world: StreamWorld, shelf: LogShelf, table: StreamTable, batches: int = 12) -> None:
    """Several segments of a bucket, of which none was looked after."""
    async with begun(world, shelf) as server:
        log = (await server.buckets.get(table, None, 0)).log
        for _ in range(batches):
            await log.append(plain_batch(100, b"x" * 1500), Acks.ALL)


async def test_what_a_crash_left_uncopied_is_copied_though_nobody_asks(
    light_world: StreamWorld, shelf: LogShelf
) -> None:
    table = await light_world.table()
    await written(light_world, shelf, table)
    assert not [key for key in await shelf.keys() if key.endswith(".log")]
    async with begun(light_world, shelf) as server:
        assert await server.log_maintenance.maintain() == 0
        assert len([key for key in await shelf.keys() if key.endswith(".log")]) > 1
        assert list(server.buckets) == []  # and nothing stays open for it


async def test_what_is_too_old_goes_though_nobody_asks(light_world: StreamWorld, shelf: LogShelf) -> None:
    table = await light_world.table()
    await written(light_world, shelf, table)
    async with begun(light_world, shelf) as server:
        await server.log_maintenance.maintain()
        light_world.clock.advance(WEEK + 60)
        await server.log_maintenance.maintain()
        await server.log_maintenance.maintain()
        assert [key for key in await shelf.keys() if key.endswith(".log")] == []
        log = (await server.buckets.get(table, None, 0)).log
        assert log.start_offset == log.end_offset == 1200


async def test_a_bucket_is_visited_once_in_a_while_and_not_at_every_round(
    light_world: StreamWorld, shelf: LogShelf
) -> None:
    table = await light_world.table()
    await written(light_world, shelf, table, batches=1)
    async with begun(light_world, shelf) as server:
        for _ in range(3):
            await server.log_maintenance.maintain()
        assert len(shelf.opened) == 1
        light_world.clock.advance(VISIT_SECONDS)
        await server.log_maintenance.maintain()
        assert len(shelf.opened) == 2
        await server.buckets.get(table, None, 0)
        light_world.clock.advance(VISIT_SECONDS)
        await server.log_maintenance.maintain()
        assert len(shelf.opened) == 3  # by who asked


async def test_a_server_that_has_begun_visits_a_few_at_a_time(
    light_world: StreamWorld, shelf: LogShelf, monkeypatch: pytest.MonkeyPatch
) -> None:
    monkeypatch.setattr(tending_module, "VISITS", 2)
    for number in range(5):
        await written(light_world, shelf, await light_world.table(f"t{number}"), batches=1)
    async with begun(light_world, shelf) as server:
        counts = []
        for _ in range(4):
            await server.log_maintenance.maintain()
            counts.append(len(shelf.opened))
        assert counts == [2, 4, 5, 5]


async def test_a_table_that_was_dropped_is_no_failure(light_world: StreamWorld, shelf: LogShelf) -> None:
    table = await light_world.table()
    await written(light_world, shelf, table, batches=1)
    await light_world.tables.drop(light_world.root, *table.path)
    async with begun(light_world, shelf) as server:
        assert await server.log_maintenance.maintain() == 0
        assert shelf.opened == []


async def test_what_is_only_here_is_handed_over_though_nobody_asked(light_world: StreamWorld, shelf: LogShelf) -> None:
    table = await light_world.table()
    await written(light_world, shelf, table, batches=3)
    assert [tail for _, tail in await shelf.rows.all()] == [SERVER]
    async with begun(light_world, shelf) as server:
        assert await server.log_maintenance.hand_over() == 0
        assert [tail for _, tail in await shelf.rows.all()] == [""]
        assert [end for _, _, end in await shelf.remotes.ends(table.id, None)] == [300]


async def claim_tail(rows: LogRows, bucket: TableBucket, server: str) -> None:
    """Have a server open a log of which its disk alone has the newest records from now on."""
    await rows.claim(bucket, "folder", server)
    await rows.keep_tail(bucket, server, 0, 0)


async def test_how_far_a_log_reaches_that_only_this_disk_has_is_recorded(
    light_world: StreamWorld, shelf: LogShelf
) -> None:
    table = await light_world.table()
    bucket = TableBucket(table.id, None, 0)
    async with begun(light_world, shelf) as server:
        log = (await server.buckets.get(table, None, 0)).log
        assert (await shelf.rows.find(bucket)).recorded_end == 0
        await log.append(plain_batch(100), Acks.ALL)
        await server.log_maintenance.maintain()
        assert (await shelf.rows.find(bucket)).recorded_end == 100
