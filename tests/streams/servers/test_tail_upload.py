"""A server that does not lead uploads what only its disk has; one that leads, or has a bucket open, does not."""

from __future__ import annotations

import asyncio
from collections.abc import AsyncIterator
from pathlib import Path

import pytest

from lakebed.core.errors import Unavailable
from lakebed.storage.memory import MemoryStorage
from lakebed.storage.seam import ByteSource, Key, Metadata, ObjectVersion
from lakebed.streams.buckets.open_buckets import OpenBuckets
from lakebed.streams.log.reading.read_format import AS_STORED
from lakebed.streams.log.remote.manifest import LogLocation
from lakebed.streams.log.remote.opening import upload_local_tail
from lakebed.streams.partitions import StreamPartition
from lakebed.streams.seam import TableBucket
from lakebed.streams.servers.tail_upload import TailUpload
from lakebed.streams.table import StreamTable
from tests.streams.buckets.test_log_maintenance import SERVER, LogShelf, written
from tests.streams.world import StreamWorld


class Store(MemoryStorage):
    """An object store that is away now and then."""

    is_away = False

    async def put(self, key: Key, body: ByteSource, *, metadata: Metadata | None = None) -> ObjectVersion:
        if self.is_away:
            raise Unavailable("the store is away")
        return await super().put(key, body, metadata=metadata)


class Returned:
    """A server that was started again, and does not lead."""

    def __init__(self, world: StreamWorld, shelf: LogShelf) -> None:
        self.leads = False
        self._shelf = shelf
        self.buckets = OpenBuckets(shelf, world.tables, world.partitions)
        self.tails = TailUpload(self.buckets, shelf.rows, self._return_tail, lambda: self.leads, server=SERVER)

    async def _return_tail(self, table: StreamTable, partition: StreamPartition | None, bucket: TableBucket) -> bool:
        place = LogLocation(bucket, table.path.database, table.path.name)
        logs, remotes, clock = self._shelf.logs, self._shelf.remotes, self._shelf.clock
        return await upload_local_tail(logs, remotes, place, AS_STORED, server=SERVER, clock=clock)


@pytest.fixture
async def shelf(light_world: StreamWorld, tmp_path: Path) -> AsyncIterator[LogShelf]:
    made = LogShelf(light_world, tmp_path / "logs", Store(light_world.clock))
    yield made
    await asyncio.to_thread(made.logs.close)


async def test_all_that_only_its_disk_has_is_uploaded(light_world: StreamWorld, shelf: LogShelf) -> None:
    tables = [await light_world.table(name) for name in ("one", "two")]
    for table in tables:
        await written(light_world, shelf, table)
    server = Returned(light_world, shelf)
    assert len(await shelf.rows.with_tail_on(SERVER)) == 2
    assert await server.tails.upload() == 2
    assert await shelf.rows.with_tail_on(SERVER) == []
    assert await server.tails.upload() == 0
    assert server.tails.failure == ""


async def test_what_is_open_here_is_left_alone(light_world: StreamWorld, shelf: LogShelf) -> None:
    table = await light_world.table()
    await written(light_world, shelf, table)
    server = Returned(light_world, shelf)
    await server.buckets.get(table, None, 0)
    assert await server.tails.upload() == 0
    await server.buckets.close()
    server.leads = True
    assert await server.tails.upload() == 0
    server.leads = False
    assert await server.tails.upload() == 1


async def test_a_bucket_is_not_opened_before_its_upload_is_over(light_world: StreamWorld, shelf: LogShelf) -> None:
    table = await light_world.table()
    await written(light_world, shelf, table)
    server, waits = Returned(light_world, shelf), asyncio.Event()

    async def work(table: StreamTable, partition: StreamPartition | None) -> None:
        opening.append(asyncio.create_task(server.buckets.get(table, None, 0)))
        for _ in range(10):
            await asyncio.sleep(0)
        assert shelf.opened[opened:] == []
        waits.set()

    opening: list[asyncio.Task[object]] = []
    opened = len(shelf.opened)
    assert await server.buckets.while_closed(TableBucket(table.id, None, 0), work)
    await waits.wait()
    await opening[0]
    await server.buckets.close()


async def test_what_one_bucket_fails_with_is_reported_and_tried_again(
    light_world: StreamWorld, shelf: LogShelf
) -> None:
    await written(light_world, shelf, await light_world.table())
    server, store = Returned(light_world, shelf), shelf.storage
    assert isinstance(store, Store)
    store.is_away = True
    assert await server.tails.upload() == 0
    assert "the store is away" in server.tails.failure
    store.is_away = False
    assert await server.tails.upload() == 1
    assert server.tails.failure == ""


async def test_a_table_that_was_dropped_meanwhile_is_no_failure(light_world: StreamWorld, shelf: LogShelf) -> None:
    table = await light_world.table()
    await written(light_world, shelf, table)
    await light_world.tables.drop(light_world.root, *table.path)
    server = Returned(light_world, shelf)
    assert await server.tails.upload() == 0
    assert server.tails.failure == ""
