"""Fetches that wait: for records, for their deadline, or until a bucket is closed."""

from __future__ import annotations

import asyncio
from collections.abc import Callable
from types import SimpleNamespace
from typing import Any

import pytest

from lakebed.core.errors import LakebedError
from lakebed.streams.buckets.open_buckets import OpenBucket, OpenBuckets
from lakebed.streams.partitions import StreamPartition
from lakebed.streams.seam import Acks, TableBucket
from lakebed.streams.table import StreamTable
from lakebed.wire.fluss import messages_pb2 as pb
from lakebed.wire.fluss.errors import UNKNOWN
from lakebed.wire.fluss.handlers.logs import LogCalls
from tests.contracts.stream_log import plain_batch
from tests.fixtures.memory_log import MemoryLog
from tests.streams.world import StreamWorld

NOT_LEADER, UNKNOWN_TABLE_OR_BUCKET = 12, 21
LONGER_THAN_A_TEST_MS = 60_000


class WatchedLog(MemoryLog):
    """A log that records when a fetch waits for it."""

    def __init__(self) -> None:
        super().__init__()
        self.is_watched = asyncio.Event()

    def watch(self, offset: int, changed: Callable[[], None]) -> Callable[[], None]:
        self.is_watched.set()
        return super().watch(offset, changed)


class LogsInMemory:
    """A `BucketStore` of empty logs."""

    def __init__(self) -> None:
        self.logs: dict[TableBucket, WatchedLog] = {}

    async def open(self, table: StreamTable, partition: StreamPartition | None, bucket: TableBucket) -> OpenBucket:
        self.logs[bucket] = WatchedLog()
        return OpenBucket(bucket, self.logs[bucket])

    async def close(self, opened: OpenBucket) -> None:
        await opened.log.close()

    async def remove(self, table_id: int, partition_id: int | None) -> None:
        """Nothing is stored."""


class Rig:
    """The calls on logs in memory."""

    def __init__(self, world: StreamWorld) -> None:
        async def never_wait(*_: object) -> None:
            """Backpressure that never waits."""

        self.store = LogsInMemory()
        self.buckets = OpenBuckets(self.store, world.tables, world.partitions)
        self._world = world
        self._backpressure: Any = SimpleNamespace(acquire_large=never_wait, wait_until_read=never_wait)
        unused: Any = None
        self._calls = LogCalls(world.tables, world.partitions, self.buckets, world.authorizer, unused, world.clock)

    async def fetch(self, table: StreamTable, *buckets: tuple[int | None, int], wait_ms: int) -> list[pb.FetchedBucket]:
        """Fetch from buckets, given by partition id and bucket id."""
        request = pb.FetchLogRequest(follower_server_id=-1, max_bytes=1 << 20, min_bytes=1, max_wait_ms=wait_ms)
        fetched = request.tables.add(table_id=table.id, projection_pushdown_enabled=False)
        for partition_id, number in buckets:
            bucket = fetched.buckets.add(bucket_id=number, fetch_offset=0, max_fetch_bytes=1 << 20)
            if partition_id is not None:
                bucket.partition_id = partition_id
        caller: Any = SimpleNamespace(principal=self._world.root.principal, request_id="r", connection=None)
        response: Any = await self._calls.fetch(caller, memoryview(request.SerializeToString()), 0, self._backpressure)
        return list(pb.FetchLogResponse.FromString(b"".join(response)).tables[0].buckets)

    async def waiting(
        self, table: StreamTable, *buckets: tuple[int | None, int]
    ) -> asyncio.Task[list[pb.FetchedBucket]]:
        """A fetch that waits for the buckets."""
        for partition_id, number in buckets:
            await self.buckets.get(table, partition_id, number)
        fetching = asyncio.create_task(self.fetch(table, *buckets, wait_ms=LONGER_THAN_A_TEST_MS))
        for log in self.store.logs.values():
            await log.is_watched.wait()
        return fetching


@pytest.fixture
def rig(light_world: StreamWorld) -> Rig:
    return Rig(light_world)


async def test_closed_bucket_ends_a_waiting_fetch_with_not_leader(light_world: StreamWorld, rig: Rig) -> None:
    fetching = await rig.waiting(await light_world.table(), (None, 0))
    await rig.buckets.close()
    (bucket,) = await asyncio.wait_for(fetching, 30)
    assert bucket.error_code == NOT_LEADER


async def test_internal_errors_of_a_bucket_are_logged_and_not_described(
    light_world: StreamWorld, rig: Rig, monkeypatch: pytest.MonkeyPatch, caplog: pytest.LogCaptureFixture
) -> None:
    async def fail(*_: object) -> OpenBucket:
        raise LakebedError("a secret detail")

    monkeypatch.setattr(rig.store, "open", fail)
    (bucket,) = await rig.fetch(await light_world.table(), (None, 0), wait_ms=0)
    assert (bucket.error_code, bucket.error_message) == (UNKNOWN, "internal error")
    assert "a secret detail" in caplog.text


async def test_fetch_returns_records_of_open_buckets_with_the_error_of_a_closed_one(
    light_world: StreamWorld, rig: Rig
) -> None:
    table = await light_world.table(bucket_count=2)
    fetching = await rig.waiting(table, (None, 0), (None, 1))
    closed, other = (rig.store.logs[TableBucket(table.id, None, number)] for number in range(2))
    await closed.close()
    await other.append(plain_batch(3), Acks.ALL)
    first, second = await asyncio.wait_for(fetching, 30)
    assert (first.error_code, second.error_code, second.high_watermark) == (NOT_LEADER, 0, 3)
    assert second.records


async def test_dropped_partition_ends_a_waiting_fetch_with_unknown_table_or_bucket(
    light_world: StreamWorld, rig: Rig
) -> None:
    table = await light_world.table(partition_key=["name"])
    for name in ("EU", "US"):
        await light_world.partitions.add(light_world.root, table, name)
    eu, us = [each.id for each in await light_world.partitions.of(table)]
    fetching = await rig.waiting(table, (eu, 0), (us, 0))
    await light_world.partitions.remove(light_world.root, table, "EU")
    dropped, other = await asyncio.wait_for(fetching, 30)
    assert (dropped.partition_id, dropped.error_code) == (eu, UNKNOWN_TABLE_OR_BUCKET)
    assert (other.partition_id, other.error_code) == (us, 0)


async def test_dropped_table_ends_a_waiting_fetch_with_unknown_table_or_bucket(
    light_world: StreamWorld, rig: Rig
) -> None:
    table = await light_world.table()
    fetching = await rig.waiting(table, (None, 0))
    await light_world.tables.drop(light_world.root, *table.path)
    (bucket,) = await asyncio.wait_for(fetching, 30)
    assert bucket.error_code == UNKNOWN_TABLE_OR_BUCKET


async def test_error_of_a_fetch_of_a_dropped_partition_waits_for_the_deadline(
    light_world: StreamWorld, rig: Rig
) -> None:
    """Released clients retry without a pause."""
    table = await light_world.table(partition_key=["name"])
    await light_world.partitions.add(light_world.root, table, "EU")
    partition = await light_world.partitions.by_name(table, "EU")
    await light_world.partitions.remove(light_world.root, table, "EU")
    loop = asyncio.get_running_loop()
    started = loop.time()
    (bucket,) = await rig.fetch(table, (partition.id, 0), wait_ms=50)
    assert bucket.error_code == UNKNOWN_TABLE_OR_BUCKET
    assert loop.time() - started >= 0.05
