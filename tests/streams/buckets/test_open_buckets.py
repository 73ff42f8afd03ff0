"""Buckets are opened once, served in request order, closed on drops, and reopened after disk failures."""

from __future__ import annotations

import asyncio
from collections.abc import Awaitable
from typing import cast

import pytest

from lakebed.fluss.errors import ErrorCode, FlussError
from lakebed.streams.buckets import open_buckets as open_buckets_module
from lakebed.streams.buckets.open_buckets import OpenBucket, OpenBuckets
from lakebed.streams.partitions import StreamPartition
from lakebed.streams.purging import Purger
from lakebed.streams.seam import Acks, TableBucket
from lakebed.streams.table import StreamTable
from tests.contracts.stream_log import plain_batch
from tests.fixtures.memory_log import MemoryLog
from tests.streams.world import StreamWorld


class FakeOpener:
    """Opens buckets in memory. Tests can delay and fail opening and closing."""

    def __init__(self) -> None:
        self.may_open = asyncio.Event()
        self.may_open.set()
        self.opened: list[TableBucket] = []
        self.closed: list[TableBucket] = []
        self.removed: list[tuple[int, int | None]] = []
        self.fails = False
        self.is_opening = asyncio.Event()
        self.may_close = asyncio.Event()
        self.may_close.set()
        self.calls: list[str] = []

    async def open(self, table: StreamTable, partition: StreamPartition | None, bucket: TableBucket) -> OpenBucket:
        self.is_opening.set()
        await self.may_open.wait()
        self.calls.append("open")
        if self.fails:
            raise FlussError(ErrorCode.LOG_STORAGE, "no disk")
        self.opened.append(bucket)
        return OpenBucket(bucket, FailingLog())

    async def close(self, opened: OpenBucket) -> None:
        await self.may_close.wait()
        self.calls.append("close")
        await opened.log.close()
        self.closed.append(opened.bucket)

    async def remove(self, table_id: int, partition_id: int | None) -> None:
        self.calls.append("remove")
        self.removed.append((table_id, partition_id))


class FailingLog(MemoryLog):
    """A log whose disk can fail."""

    is_broken = False

    @property
    def failure(self) -> FlussError | None:
        return FlussError(ErrorCode.LOG_STORAGE) if self.is_broken else None


@pytest.fixture
def opener() -> FakeOpener:
    return FakeOpener()


@pytest.fixture
def buckets(light_world: StreamWorld, opener: FakeOpener) -> OpenBuckets:
    return OpenBuckets(opener, light_world.tables, light_world.partitions)


async def test_concurrent_requests_open_a_bucket_once_and_are_served_in_order(
    light_world: StreamWorld, opener: FakeOpener, buckets: OpenBuckets
) -> None:
    table = await light_world.table(bucket_count=2)
    opener.may_open.clear()
    order: list[int] = []

    async def request(number: int) -> OpenBucket:
        found = await buckets.get(table, None, 0)
        order.append(number)
        return found

    requests = [asyncio.create_task(request(number)) for number in range(5)]
    await asyncio.sleep(0)
    opener.may_open.set()
    found = await asyncio.gather(*requests)
    assert order == list(range(5))
    assert all(each is found[0] for each in found)
    assert opener.opened == [TableBucket(table.id, None, 0)]
    assert await buckets.get(table, None, 0) is found[0]


async def test_opening_continues_after_its_request_is_cancelled(
    light_world: StreamWorld, opener: FakeOpener, buckets: OpenBuckets
) -> None:
    table = await light_world.table()
    opener.may_open.clear()
    for _ in range(3):
        with pytest.raises(TimeoutError):
            await asyncio.wait_for(buckets.get(table, None, 0), 0.01)
    requests = asyncio.create_task(buckets.get(table, None, 0))
    await asyncio.sleep(0)
    opener.may_open.set()
    assert await buckets.get(table, None, 0) is await requests
    assert len(opener.opened) == 1
    assert not buckets._openings


async def test_failed_opening_without_requests_is_repeated(
    light_world: StreamWorld, opener: FakeOpener, buckets: OpenBuckets
) -> None:
    table = await light_world.table()
    opener.may_open.clear()
    opener.fails = True
    with pytest.raises(TimeoutError):
        await asyncio.wait_for(buckets.get(table, None, 0), 0.01)
    opener.may_open.set()
    while buckets._openings:
        await asyncio.sleep(0)
    opener.fails = False
    await buckets.get(table, None, 0)
    assert len(opener.opened) == 1


@pytest.mark.parametrize(("partition_id", "number"), [(None, 2), (None, -1), (7, 0)])
async def test_missing_buckets_are_unknown(
    light_world: StreamWorld, buckets: OpenBuckets, partition_id: int | None, number: int
) -> None:
    table = await light_world.table(bucket_count=2)
    with pytest.raises(FlussError) as raised:
        await buckets.get(table, partition_id, number)
    assert raised.value.code is ErrorCode.UNKNOWN_TABLE_OR_BUCKET


async def test_buckets_belong_to_their_partition(
    light_world: StreamWorld, opener: FakeOpener, buckets: OpenBuckets
) -> None:
    table = await light_world.table(partition_key=["name"])
    other = await light_world.table("other", partition_key=["name"])
    await light_world.partitions.add(light_world.root, table, "EU")
    partition = await light_world.partitions.by_name(table, "EU")
    assert (await buckets.get(table, partition.id, 0)).bucket == TableBucket(table.id, partition.id, 0)
    for wrong_table, partition_id in ((table, None), (other, partition.id)):
        with pytest.raises(FlussError) as raised:
            await buckets.get(wrong_table, partition_id, 0)
        assert raised.value.code is ErrorCode.UNKNOWN_TABLE_OR_BUCKET
    await light_world.partitions.remove(light_world.root, table, "EU")
    assert opener.closed == [TableBucket(table.id, partition.id, 0)]
    with pytest.raises(FlussError) as raised:
        await buckets.get(table, partition.id, 0)
    assert raised.value.code is ErrorCode.UNKNOWN_TABLE_OR_BUCKET


async def test_server_that_does_not_lead_opens_no_buckets(light_world: StreamWorld, opener: FakeOpener) -> None:
    table = await light_world.table()
    is_leader = False
    buckets = OpenBuckets(opener, light_world.tables, light_world.partitions, lambda: is_leader)
    with pytest.raises(FlussError) as raised:
        await buckets.get(table, None, 0)
    assert raised.value.code is ErrorCode.NOT_LEADER_OR_FOLLOWER


async def test_bucket_of_a_table_dropped_during_opening_is_closed(
    light_world: StreamWorld, opener: FakeOpener, buckets: OpenBuckets
) -> None:
    table = await light_world.table()
    opener.may_open.clear()
    requests = asyncio.create_task(buckets.get(table, None, 0))
    await asyncio.sleep(0.01)
    await light_world.tables.drop(light_world.root, *table.path)
    opener.may_open.set()
    with pytest.raises(FlussError) as raised:
        await requests
    assert raised.value.code is ErrorCode.UNKNOWN_TABLE_OR_BUCKET
    assert opener.closed == opener.opened
    assert list(buckets) == []


async def test_bucket_with_a_failed_disk_is_reopened(
    light_world: StreamWorld, opener: FakeOpener, buckets: OpenBuckets, monkeypatch: pytest.MonkeyPatch
) -> None:
    monkeypatch.setattr(open_buckets_module, "_REOPENING_SECONDS", 0.0)
    table = await light_world.table()
    first = await buckets.get(table, None, 0)
    closed: list[TableBucket] = []
    buckets.on_closed(closed.append)
    cast(FailingLog, first.log).is_broken = True
    opener.fails = True
    with pytest.raises(FlussError) as raised:
        await buckets.get(table, None, 0)
    assert raised.value.code is ErrorCode.LOG_STORAGE
    assert closed == opener.closed == [first.bucket]
    opener.fails = False
    second = await buckets.get(table, None, 0)
    assert second is not first
    assert await buckets.get(table, None, 0) is second


async def test_failed_opening_is_remembered_until_success_or_drop(
    light_world: StreamWorld, opener: FakeOpener, buckets: OpenBuckets
) -> None:
    table = await light_world.table(bucket_count=2)
    parts = await light_world.table("parts", partition_key=["name"])
    await light_world.partitions.add(light_world.root, parts, "EU")
    partition = await light_world.partitions.by_name(parts, "EU")
    first, second = TableBucket(table.id, None, 0), TableBucket(table.id, None, 1)
    of_part = TableBucket(parts.id, partition.id, 0)
    opener.fails = True
    for wanted, partition_id, number in ((table, None, 0), (table, None, 1), (parts, partition.id, 0)):
        with pytest.raises(FlussError):
            await buckets.get(wanted, partition_id, number)
    assert buckets.broken() == dict.fromkeys((first, second, of_part), "no disk")
    opener.fails = False
    await buckets.get(table, None, 0)
    assert set(buckets.broken()) == {second, of_part}
    await light_world.partitions.remove(light_world.root, parts, "EU")
    assert set(buckets.broken()) == {second}
    await light_world.tables.drop(light_world.root, *table.path)
    assert buckets.broken() == {}


@pytest.mark.parametrize("reason", [ErrorCode.LEADER_NOT_AVAILABLE, ErrorCode.NOT_LEADER_OR_FOLLOWER])
async def test_leadership_errors_are_not_remembered(
    light_world: StreamWorld,
    opener: FakeOpener,
    buckets: OpenBuckets,
    monkeypatch: pytest.MonkeyPatch,
    reason: ErrorCode,
) -> None:
    async def refuse(*_: object) -> OpenBucket:
        raise FlussError(reason)

    monkeypatch.setattr(opener, "open", refuse)
    with pytest.raises(FlussError):
        await buckets.get(await light_world.table(), None, 0)
    assert buckets.broken() == {}


async def test_failed_visit_is_remembered_until_leadership_ends(
    light_world: StreamWorld, opener: FakeOpener, buckets: OpenBuckets
) -> None:
    bucket = TableBucket((await light_world.table()).id, None, 0)

    async def work(visited: OpenBucket) -> None:
        raise AssertionError("it cannot be opened")

    opener.fails = True
    with pytest.raises(FlussError):
        await buckets.visit(bucket, work)
    assert set(buckets.broken()) == {bucket}
    await buckets.close()  # leadership ends
    assert buckets.broken() == {}


async def test_bucket_with_a_failed_disk_is_remembered_until_reopened(
    light_world: StreamWorld, opener: FakeOpener, buckets: OpenBuckets, monkeypatch: pytest.MonkeyPatch
) -> None:
    monkeypatch.setattr(open_buckets_module, "_REOPENING_SECONDS", 0.0)
    table = await light_world.table()
    opened = await buckets.get(table, None, 0)
    assert buckets.broken() == {}
    cast(FailingLog, opened.log).is_broken = True
    assert set(buckets.broken()) == {opened.bucket}
    opener.may_open.clear()
    requests = asyncio.create_task(buckets.get(table, None, 0))
    while not opener.closed:
        await asyncio.sleep(0)
    assert set(buckets.broken()) == {opened.bucket}  # closed, and not open again yet
    opener.may_open.set()
    await requests
    assert buckets.broken() == {}


async def confirmed() -> None:
    return None


async def test_files_of_dropped_partitions_and_tables_are_removed_once(
    light_world: StreamWorld, opener: FakeOpener, buckets: OpenBuckets
) -> None:
    table = await light_world.table(partition_key=["name"])
    await light_world.partitions.add(light_world.root, table, "EU")
    partition = await light_world.partitions.by_name(table, "EU")
    await light_world.partitions.remove(light_world.root, table, "EU")
    light_world.clock.advance(1.0)
    await light_world.tables.drop(light_world.root, *table.path)
    purging = Purger(light_world.store, buckets, lambda: True, confirmed)
    assert await purging.purge() == 2
    assert opener.removed == [(table.id, partition.id), (table.id, None)]
    assert await purging.purge() == 0


@pytest.mark.parametrize("dropped", ["partition", "table"])
async def test_files_are_not_removed_while_a_request_opens_the_bucket(
    light_world: StreamWorld, opener: FakeOpener, buckets: OpenBuckets, dropped: str
) -> None:
    table = await light_world.table(partition_key=["name"])
    await light_world.partitions.add(light_world.root, table, "EU")
    partition = await light_world.partitions.by_name(table, "EU")
    opener.may_open.clear()
    late = asyncio.create_task(buckets.get(table, partition.id, 0))
    await opener.is_opening.wait()
    if dropped == "partition":
        await light_world.partitions.remove(light_world.root, table, "EU")
    else:
        await light_world.tables.drop(light_world.root, *table.path)
    purging = asyncio.create_task(Purger(light_world.store, buckets, lambda: True, confirmed).purge())
    opening = buckets._openings[table.id, partition.id, 0]
    while opening.waiting < 2 and not purging.done():
        await asyncio.sleep(0)
    opener.may_open.set()
    with pytest.raises(FlussError) as raised:
        await late
    assert raised.value.code is ErrorCode.UNKNOWN_TABLE_OR_BUCKET
    assert await purging == 1
    assert opener.calls == ["open", "close", "remove"]
    assert not buckets._openings


async def test_files_are_not_removed_while_the_bucket_closes(
    light_world: StreamWorld, opener: FakeOpener, buckets: OpenBuckets
) -> None:
    """Dropping a database closes the buckets of its tables one after the other."""
    table = await light_world.table()
    await buckets.get(table, None, 0)
    opener.may_close.clear()
    dropping = asyncio.create_task(light_world.tables.drop(light_world.root, *table.path))
    while list(buckets):
        await asyncio.sleep(0)
    purging = asyncio.create_task(Purger(light_world.store, buckets, lambda: True, confirmed).purge())
    await asyncio.wait({purging}, timeout=0.1)  # a premature removal would happen within this time
    opener.may_close.set()
    await dropping
    assert await purging == 1
    assert opener.calls == ["open", "close", "remove"]


async def test_error_of_a_running_request_distinguishes_drops_from_leader_changes(
    light_world: StreamWorld, buckets: OpenBuckets
) -> None:
    table = await light_world.table(partition_key=["name"])
    for name in ("EU", "US"):
        await light_world.partitions.add(light_world.root, table, name)
    eu, us = await light_world.partitions.of(table)

    async def append(partition: StreamPartition, meanwhile: Awaitable[object]) -> None:
        async with buckets.using(table, partition.id, 0) as opened:
            await meanwhile
            await opened.log.append(plain_batch(1), Acks.ALL)

    with pytest.raises(FlussError) as raised:
        await append(eu, light_world.partitions.remove(light_world.root, table, "EU"))
    assert raised.value.code is ErrorCode.UNKNOWN_TABLE_OR_BUCKET
    with pytest.raises(FlussError) as raised:
        await append(us, buckets.close())
    assert raised.value.code is ErrorCode.NOT_LEADER_OR_FOLLOWER


async def test_former_leader_answers_not_leader_without_the_metadata_store(
    light_world: StreamWorld, opener: FakeOpener, monkeypatch: pytest.MonkeyPatch
) -> None:
    """The store can be unreachable, and clients should move to the new leader at once."""
    is_leader = True
    buckets = OpenBuckets(opener, light_world.tables, light_world.partitions, lambda: is_leader)
    table = await light_world.table()
    opened = await buckets.get(table, None, 0)
    light_world.tables.forget_all()
    is_leader = False
    await buckets.close()

    async def unreachable(*_: object) -> None:
        raise AssertionError("the metadata store is unreachable")

    monkeypatch.setattr(light_world.store, "row", unreachable)
    assert await buckets.why_dropped(opened.bucket) is None


async def test_unknown_writer_of_a_recreated_partition_gets_unknown_writer_id(
    light_world: StreamWorld, buckets: OpenBuckets
) -> None:
    table = await light_world.table(partition_key=["name"])

    async def append() -> None:
        partition = await light_world.partitions.by_name(table, "EU")
        async with buckets.using(table, partition.id, 0) as opened:
            await opened.log.append(plain_batch(writer_id=1, sequence=3), Acks.ALL)

    await light_world.partitions.add(light_world.root, table, "EU")
    with pytest.raises(FlussError) as raised:
        await append()
    assert raised.value.code is ErrorCode.OUT_OF_ORDER_SEQUENCE
    await light_world.partitions.remove(light_world.root, table, "EU")
    await light_world.partitions.add(light_world.root, table, "EU")
    with pytest.raises(FlussError) as raised:
        await append()
    assert raised.value.code is ErrorCode.UNKNOWN_WRITER_ID


async def test_visited_bucket_is_closed_again(
    light_world: StreamWorld, opener: FakeOpener, buckets: OpenBuckets
) -> None:
    table = await light_world.table(bucket_count=2)
    bucket = TableBucket(table.id, None, 0)
    seen: list[OpenBucket] = []

    async def work(visited: OpenBucket) -> None:
        assert list(buckets) == []
        seen.append(visited)

    await buckets.visit(bucket, work)
    assert [each.bucket for each in seen] == opener.opened == opener.closed == [bucket]
    await buckets.get(table, None, 0)
    await buckets.visit(bucket, work)
    assert len(seen) == 1  # open buckets are not visited
    assert opener.opened == [bucket, bucket]


async def test_request_during_a_visit_gets_the_bucket_and_keeps_it_open(
    light_world: StreamWorld, opener: FakeOpener, buckets: OpenBuckets
) -> None:
    table = await light_world.table()
    found: list[OpenBucket] = []

    async def work(visited: OpenBucket) -> None:
        found.append(await asyncio.wait_for(buckets.get(table, None, 0), 10))
        assert found == [visited]

    await buckets.visit(TableBucket(table.id, None, 0), work)
    assert list(buckets) == found
    assert opener.closed == []
    assert await buckets.get(table, None, 0) is found[0]


async def test_failed_visit_closes_the_bucket(
    light_world: StreamWorld, opener: FakeOpener, buckets: OpenBuckets
) -> None:
    table = await light_world.table()

    async def work(visited: OpenBucket) -> None:
        raise FlussError(ErrorCode.STORAGE, "away")

    with pytest.raises(FlussError):
        await buckets.visit(TableBucket(table.id, None, 0), work)
    assert len(opener.closed) == 1
    await buckets.get(table, None, 0)


async def test_bucket_of_a_table_dropped_during_a_visit_is_closed_once(
    light_world: StreamWorld, opener: FakeOpener, buckets: OpenBuckets
) -> None:
    table = await light_world.table()

    async def work(visited: OpenBucket) -> None:
        await light_world.tables.drop(light_world.root, *table.path)
        assert opener.closed == [visited.bucket]

    await buckets.visit(TableBucket(table.id, None, 0), work)
    assert len(opener.closed) == 1
    with pytest.raises(FlussError) as raised:
        await buckets.visit(TableBucket(table.id, None, 0), work)
    assert raised.value.code is ErrorCode.UNKNOWN_TABLE_OR_BUCKET
