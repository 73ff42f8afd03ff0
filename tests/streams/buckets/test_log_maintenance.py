"""Logs are maintained whether or not a client has opened their bucket since the start."""

from __future__ import annotations

import asyncio
from collections.abc import AsyncIterator, Iterator
from contextlib import asynccontextmanager
from pathlib import Path

import pytest

from lakebed.meta.seam import Reader
from lakebed.storage.backoff import Retrier, RetryPolicy
from lakebed.storage.memory import MemoryStorage
from lakebed.streams.buckets import log_maintenance as maintenance_module
from lakebed.streams.buckets.log_maintenance import VISIT_SECONDS, LogMaintenance
from lakebed.streams.buckets.open_buckets import OpenBucket, OpenBuckets
from lakebed.streams.log.local.logs import Logs
from lakebed.streams.log.remote.log_rows import LogRows
from lakebed.streams.log.remote.manifest import LogLocation
from lakebed.streams.log.remote.opening import open_remote_backed_log
from lakebed.streams.log.remote.remote_log import RemoteLogs
from lakebed.streams.partitions import StreamPartition
from lakebed.streams.seam import Acks, TableBucket
from lakebed.streams.table import StreamTable
from tests.contracts.stream_log import plain_batch
from tests.storage.ownership import ClaimedAtFirstUse
from tests.streams.log.log_cluster import SMALL
from tests.streams.world import StreamWorld

ONCE = Retrier(RetryPolicy(max_attempts=1))
WEEK = 7 * 24 * 3600.0
SERVER = "one"


class LogOpener:
    """Opens buckets with a local log over an object store in memory."""

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
        location = LogLocation(bucket, table.path.database, table.path.name)
        self.opened.append(bucket)
        return OpenBucket(
            bucket, await open_remote_backed_log(self.logs, self.remotes, location, server=SERVER, clock=self.clock)
        )

    async def close(self, opened: OpenBucket) -> None:
        await opened.log.close()

    async def remove(self, table_id: int, partition_id: int | None) -> None:
        await self.remotes.remove(table_id, partition_id)

    async def keys(self) -> list[str]:
        return [head.key async for head in self.storage.list_prefix("")]


class Server:
    """A started server without open buckets."""

    def __init__(self, world: StreamWorld, opener: LogOpener) -> None:
        self.buckets = OpenBuckets(opener, world.tables, world.partitions)
        self.log_maintenance = LogMaintenance(
            self.buckets, world.tables, opener.rows, world.clock, lambda: True, server=SERVER
        )


@pytest.fixture
async def opener(light_world: StreamWorld, tmp_path: Path) -> AsyncIterator[LogOpener]:
    log_opener = LogOpener(light_world, tmp_path / "logs")
    yield log_opener
    await asyncio.to_thread(log_opener.logs.close)


@asynccontextmanager
async def running_server(world: StreamWorld, opener: LogOpener) -> AsyncIterator[Server]:
    server = Server(world, opener)
    opener.opened.clear()
    yield server
    await server.buckets.close()


async def write_log(world: StreamWorld, opener: LogOpener, table: StreamTable, batches: int = 12) -> None:
    """Write several segments of a bucket without maintaining them."""
    async with running_server(world, opener) as server:
        log = (await server.buckets.get(table, None, 0)).log
        for _ in range(batches):
            await log.append(plain_batch(100, b"x" * 1500), Acks.ALL)


async def test_segments_left_by_a_crash_are_uploaded_without_requests(
    light_world: StreamWorld, opener: LogOpener
) -> None:
    table = await light_world.table()
    await write_log(light_world, opener, table)
    assert not [key for key in await opener.keys() if key.endswith(".log")]
    async with running_server(light_world, opener) as server:
        assert await server.log_maintenance.maintain() == 0
        assert len([key for key in await opener.keys() if key.endswith(".log")]) > 1
        assert list(server.buckets) == []  # the bucket is closed again


async def test_expired_segments_are_deleted_without_requests(light_world: StreamWorld, opener: LogOpener) -> None:
    table = await light_world.table()
    await write_log(light_world, opener, table)
    async with running_server(light_world, opener) as server:
        await server.log_maintenance.maintain()
        light_world.clock.advance(WEEK + 60)
        await server.log_maintenance.maintain()
        await server.log_maintenance.maintain()
        assert [key for key in await opener.keys() if key.endswith(".log")] == []
        log = (await server.buckets.get(table, None, 0)).log
        assert log.start_offset == log.end_offset == 1200


async def test_closed_bucket_is_visited_at_an_interval(light_world: StreamWorld, opener: LogOpener) -> None:
    table = await light_world.table()
    await write_log(light_world, opener, table, batches=1)
    async with running_server(light_world, opener) as server:
        for _ in range(3):
            await server.log_maintenance.maintain()
        assert len(opener.opened) == 1
        light_world.clock.advance(VISIT_SECONDS)
        await server.log_maintenance.maintain()
        assert len(opener.opened) == 2
        await server.buckets.get(table, None, 0)
        light_world.clock.advance(VISIT_SECONDS)
        await server.log_maintenance.maintain()
        assert len(opener.opened) == 3  # opened by the request


async def test_visits_per_round_are_limited(
    light_world: StreamWorld, opener: LogOpener, monkeypatch: pytest.MonkeyPatch
) -> None:
    monkeypatch.setattr(maintenance_module, "VISITS", 2)
    for number in range(5):
        await write_log(light_world, opener, await light_world.table(f"t{number}"), batches=1)
    async with running_server(light_world, opener) as server:
        counts = []
        for _ in range(4):
            await server.log_maintenance.maintain()
            counts.append(len(opener.opened))
        assert counts == [2, 4, 5, 5]


async def test_dropped_table_is_no_failure(light_world: StreamWorld, opener: LogOpener) -> None:
    table = await light_world.table()
    await write_log(light_world, opener, table, batches=1)
    await light_world.tables.drop(light_world.root, *table.path)
    async with running_server(light_world, opener) as server:
        assert await server.log_maintenance.maintain() == 0
        assert opener.opened == []


async def test_shutdown_uploads_tails_of_closed_buckets(light_world: StreamWorld, opener: LogOpener) -> None:
    table = await light_world.table()
    await write_log(light_world, opener, table, batches=3)
    assert [tail for _, tail in await opener.rows.all()] == [SERVER]
    async with running_server(light_world, opener) as server:
        assert await server.log_maintenance.hand_over() == 0
        assert [tail for _, tail in await opener.rows.all()] == [""]
        assert [end for _, _, end in await opener.remotes.ends(table.id, None)] == [300]


async def claim_tail(rows: LogRows, bucket: TableBucket, server: str) -> None:
    """Record that only this server has the newest records of a bucket."""
    await rows.claim(bucket, "folder", server)
    await rows.keep_tail(bucket, server, 0, 0)


async def test_end_of_a_local_tail_is_recorded(light_world: StreamWorld, opener: LogOpener) -> None:
    table = await light_world.table()
    bucket = TableBucket(table.id, None, 0)
    async with running_server(light_world, opener) as server:
        log = (await server.buckets.get(table, None, 0)).log
        assert (await opener.rows.find(bucket)).recorded_end == 0
        await log.append(plain_batch(100), Acks.ALL)
        await server.log_maintenance.maintain()
        assert (await opener.rows.find(bucket)).recorded_end == 100
