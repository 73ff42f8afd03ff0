"""A server that does not lead uploads its local tails, except those of open buckets."""

from __future__ import annotations

import asyncio
from collections.abc import AsyncIterator
from pathlib import Path

import pytest

from lakebed.streams.buckets.open_buckets import OpenBuckets
from lakebed.streams.log.reading.read_format import AS_STORED
from lakebed.streams.log.remote.manifest import LogLocation
from lakebed.streams.log.remote.opening import upload_local_tail
from lakebed.streams.partitions import StreamPartition
from lakebed.streams.seam import TableBucket
from lakebed.streams.servers.tail_upload import TailUpload
from lakebed.streams.table import StreamTable
from tests.streams.buckets.test_log_maintenance import SERVER, LogOpener, write_log
from tests.streams.log.log_cluster import FlakyStorage
from tests.streams.world import StreamWorld


class RestartedServer:
    """A restarted server that does not lead."""

    def __init__(self, world: StreamWorld, opener: LogOpener) -> None:
        self.is_leader = False
        self._shelf = opener
        self.buckets = OpenBuckets(opener, world.tables, world.partitions)
        self.tails = TailUpload(self.buckets, opener.rows, self._upload_tail, lambda: self.is_leader, server=SERVER)

    async def _upload_tail(self, table: StreamTable, partition: StreamPartition | None, bucket: TableBucket) -> bool:
        location = LogLocation(bucket, table.path.database, table.path.name)
        logs, remotes, clock = self._shelf.logs, self._shelf.remotes, self._shelf.clock
        return await upload_local_tail(logs, remotes, location, AS_STORED, server=SERVER, clock=clock)


@pytest.fixture
async def opener(light_world: StreamWorld, tmp_path: Path) -> AsyncIterator[LogOpener]:
    opener = LogOpener(light_world, tmp_path / "logs", FlakyStorage(light_world.clock))
    yield opener
    await asyncio.to_thread(opener.logs.close)


async def test_all_local_tails_are_uploaded(light_world: StreamWorld, opener: LogOpener) -> None:
    tables = [await light_world.table(name) for name in ("one", "two")]
    for table in tables:
        await write_log(light_world, opener, table)
    server = RestartedServer(light_world, opener)
    assert len(await opener.rows.with_tail_on(SERVER)) == 2
    assert await server.tails.upload() == 2
    assert await opener.rows.with_tail_on(SERVER) == []
    assert await server.tails.upload() == 0
    assert server.tails.failure == ""


async def test_open_buckets_and_leaders_upload_no_tails(light_world: StreamWorld, opener: LogOpener) -> None:
    table = await light_world.table()
    await write_log(light_world, opener, table)
    server = RestartedServer(light_world, opener)
    await server.buckets.get(table, None, 0)
    assert await server.tails.upload() == 0
    await server.buckets.close()
    server.is_leader = True
    assert await server.tails.upload() == 0
    server.is_leader = False
    assert await server.tails.upload() == 1


async def test_bucket_is_not_opened_during_its_upload(light_world: StreamWorld, opener: LogOpener) -> None:
    table = await light_world.table()
    await write_log(light_world, opener, table)
    server, has_waited = RestartedServer(light_world, opener), asyncio.Event()

    async def work(table: StreamTable, partition: StreamPartition | None) -> None:
        opening.append(asyncio.create_task(server.buckets.get(table, None, 0)))
        for _ in range(10):
            await asyncio.sleep(0)
        assert opener.opened[opened:] == []
        has_waited.set()

    opening: list[asyncio.Task[object]] = []
    opened = len(opener.opened)
    assert await server.buckets.while_closed(TableBucket(table.id, None, 0), work)
    await has_waited.wait()
    await opening[0]
    await server.buckets.close()


async def test_failed_upload_is_reported_and_retried(light_world: StreamWorld, opener: LogOpener) -> None:
    await write_log(light_world, opener, await light_world.table())
    server, store = RestartedServer(light_world, opener), opener.storage
    assert isinstance(store, FlakyStorage)
    store.is_down = True
    assert await server.tails.upload() == 0
    assert "the store is unavailable" in server.tails.failure
    store.is_down = False
    assert await server.tails.upload() == 1
    assert server.tails.failure == ""


async def test_dropped_table_is_no_failure(light_world: StreamWorld, opener: LogOpener) -> None:
    table = await light_world.table()
    await write_log(light_world, opener, table)
    await light_world.tables.drop(light_world.root, *table.path)
    server = RestartedServer(light_world, opener)
    assert await server.tails.upload() == 0
    assert server.tails.failure == ""
