"""Buckets: opened once, in the order of asking, let go of when they are to, and opened anew when a disk refused."""

from __future__ import annotations

import asyncio
from collections.abc import Awaitable
from typing import cast

import pytest

from lakebed.fluss.errors import ErrorCode, FlussError
from lakebed.streams.buckets import open_buckets as buckets_module
from lakebed.streams.buckets.open_buckets import OpenBucket, OpenBuckets
from lakebed.streams.partitions import StreamPartition
from lakebed.streams.purging import Purger
from lakebed.streams.seam import Acks, TableBucket
from lakebed.streams.table import StreamTable
from tests.contracts.stream_log import plain_batch
from tests.fixtures.memory_log import MemoryLog
from tests.streams.world import StreamWorld


class Shelf:
    """Where buckets are, for tests: in memory, opened when it is let."""

    def __init__(self) -> None:
        self.may_open = asyncio.Event()
        self.may_open.set()
        self.opened: list[TableBucket] = []
        self.closed: list[TableBucket] = []
        self.removed: list[tuple[int, int | None]] = []
        self.refuses = False
        self.is_opening = asyncio.Event()
        self.may_close = asyncio.Event()
        self.may_close.set()
        self.calls: list[str] = []

    async def open(self, table: StreamTable, partition: StreamPartition | None, bucket: TableBucket) -> OpenBucket:
        self.is_opening.set()
        await self.may_open.wait()
        self.calls.append("open")
        if self.refuses:
            raise FlussError(ErrorCode.LOG_STORAGE, "no disk")
        self.opened.append(bucket)
        return OpenBucket(bucket, RefusingLog())

    async def close(self, opened: OpenBucket) -> None:
        await self.may_close.wait()
        self.calls.append("close")
        await opened.log.close()
        self.closed.append(opened.bucket)

    async def remove(self, table_id: int, partition_id: int | None) -> None:
        self.calls.append("remove")
        self.removed.append((table_id, partition_id))


class RefusingLog(MemoryLog):
    """A log whose disk may refuse."""

    is_broken = False

    @property
    def failure(self) -> FlussError | None:
        return FlussError(ErrorCode.LOG_STORAGE) if self.is_broken else None


@pytest.fixture
def shelf() -> Shelf:
    return Shelf()


@pytest.fixture
def buckets(light_world: StreamWorld, shelf: Shelf) -> OpenBuckets:
    return OpenBuckets(shelf, light_world.tables, light_world.partitions)


async def test_a_bucket_is_opened_once_however_many_ask(
    light_world: StreamWorld, shelf: Shelf, buckets: OpenBuckets
) -> None:
    table = await light_world.table(bucket_count=2)
    shelf.may_open.clear()
    order: list[int] = []

    async def ask(number: int) -> OpenBucket:
        found = await buckets.get(table, None, 0)
        order.append(number)
        return found

    asking = [asyncio.create_task(ask(number)) for number in range(5)]
    await asyncio.sleep(0)
    shelf.may_open.set()
    found = await asyncio.gather(*asking)
    assert order == list(range(5))
    assert all(each is found[0] for each in found)
    assert shelf.opened == [TableBucket(table.id, None, 0)]
    assert await buckets.get(table, None, 0) is found[0]


async def test_opening_outlasts_who_asked_and_is_not_begun_again(
    light_world: StreamWorld, shelf: Shelf, buckets: OpenBuckets
) -> None:
    table = await light_world.table()
    shelf.may_open.clear()
    for _ in range(3):
        with pytest.raises(TimeoutError):
            await asyncio.wait_for(buckets.get(table, None, 0), 0.01)
    asking = asyncio.create_task(buckets.get(table, None, 0))
    await asyncio.sleep(0)
    shelf.may_open.set()
    assert await buckets.get(table, None, 0) is await asking
    assert len(shelf.opened) == 1
    assert not buckets._openings


async def test_an_opening_that_fails_with_nobody_there_is_forgotten(
    light_world: StreamWorld, shelf: Shelf, buckets: OpenBuckets
) -> None:
    table = await light_world.table()
    shelf.may_open.clear()
    shelf.refuses = True
    with pytest.raises(TimeoutError):
        await asyncio.wait_for(buckets.get(table, None, 0), 0.01)
    shelf.may_open.set()
    while buckets._openings:
        await asyncio.sleep(0)
    shelf.refuses = False
    await buckets.get(table, None, 0)
    assert len(shelf.opened) == 1


@pytest.mark.parametrize(("partition_id", "number"), [(None, 2), (None, -1), (7, 0)])
async def test_buckets_that_there_are_not(
    light_world: StreamWorld, buckets: OpenBuckets, partition_id: int | None, number: int
) -> None:
    table = await light_world.table(bucket_count=2)
    with pytest.raises(FlussError) as raised:
        await buckets.get(table, partition_id, number)
    assert raised.value.code is ErrorCode.UNKNOWN_TABLE_OR_BUCKET


async def test_a_partition_has_buckets_of_its_own(light_world: StreamWorld, shelf: Shelf, buckets: OpenBuckets) -> None:
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
    assert shelf.closed == [TableBucket(table.id, partition.id, 0)]
    with pytest.raises(FlussError) as raised:
        await buckets.get(table, partition.id, 0)
    assert raised.value.code is ErrorCode.UNKNOWN_TABLE_OR_BUCKET


async def test_who_is_not_the_home_has_no_buckets(light_world: StreamWorld, shelf: Shelf) -> None:
    table = await light_world.table()
    is_leader = False
    buckets = OpenBuckets(shelf, light_world.tables, light_world.partitions, lambda: is_leader)
    with pytest.raises(FlussError) as raised:
        await buckets.get(table, None, 0)
    assert raised.value.code is ErrorCode.NOT_LEADER_OR_FOLLOWER


async def test_a_table_dropped_meanwhile_leaves_nothing_open(
    light_world: StreamWorld, shelf: Shelf, buckets: OpenBuckets
) -> None:
    table = await light_world.table()
    shelf.may_open.clear()
    asking = asyncio.create_task(buckets.get(table, None, 0))
    await asyncio.sleep(0.01)
    await light_world.tables.drop(light_world.root, *table.path)
    shelf.may_open.set()
    with pytest.raises(FlussError) as raised:
        await asking
    assert raised.value.code is ErrorCode.UNKNOWN_TABLE_OR_BUCKET
    assert shelf.closed == shelf.opened
    assert list(buckets) == []


async def test_what_a_disk_refused_is_opened_anew(
    light_world: StreamWorld, shelf: Shelf, buckets: OpenBuckets, monkeypatch: pytest.MonkeyPatch
) -> None:
    monkeypatch.setattr(buckets_module, "_REOPENING_SECONDS", 0.0)
    table = await light_world.table()
    first = await buckets.get(table, None, 0)
    told: list[TableBucket] = []
    buckets.on_closed(told.append)
    cast(RefusingLog, first.log).is_broken = True
    shelf.refuses = True
    with pytest.raises(FlussError) as raised:
        await buckets.get(table, None, 0)
    assert raised.value.code is ErrorCode.LOG_STORAGE
    assert told == shelf.closed == [first.bucket]
    shelf.refuses = False
    second = await buckets.get(table, None, 0)
    assert second is not first
    assert await buckets.get(table, None, 0) is second


async def test_an_opening_that_failed_is_known_until_one_succeeds_or_the_table_is_dropped(
    light_world: StreamWorld, shelf: Shelf, buckets: OpenBuckets
) -> None:
    table = await light_world.table(bucket_count=2)
    parts = await light_world.table("parts", partition_key=["name"])
    await light_world.partitions.add(light_world.root, parts, "EU")
    partition = await light_world.partitions.by_name(parts, "EU")
    first, second = TableBucket(table.id, None, 0), TableBucket(table.id, None, 1)
    of_part = TableBucket(parts.id, partition.id, 0)
    shelf.refuses = True
    for wanted, partition_id, number in ((table, None, 0), (table, None, 1), (parts, partition.id, 0)):
        with pytest.raises(FlussError):
            await buckets.get(wanted, partition_id, number)
    assert buckets.broken() == dict.fromkeys((first, second, of_part), "no disk")
    shelf.refuses = False
    await buckets.get(table, None, 0)
    assert set(buckets.broken()) == {second, of_part}
    await light_world.partitions.remove(light_world.root, parts, "EU")
    assert set(buckets.broken()) == {second}
    await light_world.tables.drop(light_world.root, *table.path)
    assert buckets.broken() == {}


@pytest.mark.parametrize("reason", [ErrorCode.LEADER_NOT_AVAILABLE, ErrorCode.NOT_LEADER_OR_FOLLOWER])
async def test_who_leads_a_bucket_is_nothing_that_is_remembered_of_an_opening(
    light_world: StreamWorld, shelf: Shelf, buckets: OpenBuckets, monkeypatch: pytest.MonkeyPatch, reason: ErrorCode
) -> None:
    async def refuse(*_: object) -> OpenBucket:
        raise FlussError(reason)

    monkeypatch.setattr(shelf, "open", refuse)
    with pytest.raises(FlussError):
        await buckets.get(await light_world.table(), None, 0)
    assert buckets.broken() == {}


async def test_a_visit_that_could_not_begin_is_known_too_and_forgotten_with_the_home(
    light_world: StreamWorld, shelf: Shelf, buckets: OpenBuckets
) -> None:
    bucket = TableBucket((await light_world.table()).id, None, 0)

    async def work(visited: OpenBucket) -> None:
        raise AssertionError("it cannot be opened")

    shelf.refuses = True
    with pytest.raises(FlussError):
        await buckets.visit(bucket, work)
    assert set(buckets.broken()) == {bucket}
    await buckets.close()  # another server may make it whole
    assert buckets.broken() == {}


async def test_a_bucket_whose_disk_refused_is_known_until_it_is_open_anew(
    light_world: StreamWorld, shelf: Shelf, buckets: OpenBuckets, monkeypatch: pytest.MonkeyPatch
) -> None:
    monkeypatch.setattr(buckets_module, "_REOPENING_SECONDS", 0.0)
    table = await light_world.table()
    opened = await buckets.get(table, None, 0)
    assert buckets.broken() == {}
    cast(RefusingLog, opened.log).is_broken = True
    assert set(buckets.broken()) == {opened.bucket}
    shelf.may_open.clear()
    asking = asyncio.create_task(buckets.get(table, None, 0))
    while not shelf.closed:
        await asyncio.sleep(0)
    assert set(buckets.broken()) == {opened.bucket}  # it is let go of, and not open yet
    shelf.may_open.set()
    await asking
    assert buckets.broken() == {}


async def confirmed() -> None:
    return None


async def test_files_of_what_was_dropped_are_removed_once(
    light_world: StreamWorld, shelf: Shelf, buckets: OpenBuckets
) -> None:
    table = await light_world.table(partition_key=["name"])
    await light_world.partitions.add(light_world.root, table, "EU")
    partition = await light_world.partitions.by_name(table, "EU")
    await light_world.partitions.remove(light_world.root, table, "EU")
    light_world.clock.advance(1.0)
    await light_world.tables.drop(light_world.root, *table.path)
    purging = Purger(light_world.store, buckets, lambda: True, confirmed)
    assert await purging.purge() == 2
    assert shelf.removed == [(table.id, partition.id), (table.id, None)]
    assert await purging.purge() == 0


@pytest.mark.parametrize("dropped", ["partition", "table"])
async def test_files_are_not_removed_under_a_request_that_still_opens_the_bucket(
    light_world: StreamWorld, shelf: Shelf, buckets: OpenBuckets, dropped: str
) -> None:
    table = await light_world.table(partition_key=["name"])
    await light_world.partitions.add(light_world.root, table, "EU")
    partition = await light_world.partitions.by_name(table, "EU")
    shelf.may_open.clear()
    late = asyncio.create_task(buckets.get(table, partition.id, 0))
    await shelf.is_opening.wait()
    if dropped == "partition":
        await light_world.partitions.remove(light_world.root, table, "EU")
    else:
        await light_world.tables.drop(light_world.root, *table.path)
    purging = asyncio.create_task(Purger(light_world.store, buckets, lambda: True, confirmed).purge())
    opening = buckets._openings[table.id, partition.id, 0]
    while opening.waiting < 2 and not purging.done():
        await asyncio.sleep(0)
    shelf.may_open.set()
    with pytest.raises(FlussError) as raised:
        await late
    assert raised.value.code is ErrorCode.UNKNOWN_TABLE_OR_BUCKET
    assert await purging == 1
    assert shelf.calls == ["open", "close", "remove"]
    assert not buckets._openings


async def test_files_are_not_removed_under_a_bucket_that_is_still_closing(
    light_world: StreamWorld, shelf: Shelf, buckets: OpenBuckets
) -> None:
    """A database is dropped with all its tables, whose buckets are closed one after the other."""
    table = await light_world.table()
    await buckets.get(table, None, 0)
    shelf.may_close.clear()
    dropping = asyncio.create_task(light_world.tables.drop(light_world.root, *table.path))
    while list(buckets):
        await asyncio.sleep(0)
    purging = asyncio.create_task(Purger(light_world.store, buckets, lambda: True, confirmed).purge())
    await asyncio.wait({purging}, timeout=0.1)  # long enough to show that files are removed too early, if they are
    shelf.may_close.set()
    await dropping
    assert await purging == 1
    assert shelf.calls == ["open", "close", "remove"]


async def test_a_request_fails_as_unknown_if_its_bucket_is_dropped_under_it_and_as_not_leader_if_the_leader_moves(
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


async def test_a_server_that_lost_the_lead_answers_not_leader_without_the_metadata_store(
    light_world: StreamWorld, shelf: Shelf, monkeypatch: pytest.MonkeyPatch
) -> None:
    """The store may be out of its reach, and clients are to go to the new leader at once."""
    is_leader = True
    buckets = OpenBuckets(shelf, light_world.tables, light_world.partitions, lambda: is_leader)
    table = await light_world.table()
    opened = await buckets.get(table, None, 0)
    light_world.tables.forget_all()
    is_leader = False
    await buckets.close()

    async def away(*_: object) -> None:
        raise AssertionError("the metadata store is out of reach")

    monkeypatch.setattr(light_world.store, "row", away)
    assert await buckets.why_dropped(opened.bucket) is None


async def test_a_first_batch_with_a_later_number_is_out_of_order_until_the_partition_replaces_a_dropped_one(
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


async def test_a_visited_bucket_is_let_go_of_again(
    light_world: StreamWorld, shelf: Shelf, buckets: OpenBuckets
) -> None:
    table = await light_world.table(bucket_count=2)
    bucket = TableBucket(table.id, None, 0)
    seen: list[OpenBucket] = []

    async def work(visited: OpenBucket) -> None:
        assert list(buckets) == []
        seen.append(visited)

    await buckets.visit(bucket, work)
    assert [each.bucket for each in seen] == shelf.opened == shelf.closed == [bucket]
    await buckets.get(table, None, 0)
    await buckets.visit(bucket, work)
    assert len(seen) == 1  # it is open: whoever looks after those comes to it
    assert shelf.opened == [bucket, bucket]


async def test_who_asks_for_a_visited_bucket_has_it_at_once_and_keeps_it(
    light_world: StreamWorld, shelf: Shelf, buckets: OpenBuckets
) -> None:
    table = await light_world.table()
    found: list[OpenBucket] = []

    async def work(visited: OpenBucket) -> None:
        found.append(await asyncio.wait_for(buckets.get(table, None, 0), 10))
        assert found == [visited]

    await buckets.visit(TableBucket(table.id, None, 0), work)
    assert list(buckets) == found
    assert shelf.closed == []
    assert await buckets.get(table, None, 0) is found[0]


async def test_a_visit_that_fails_lets_go_of_the_bucket(
    light_world: StreamWorld, shelf: Shelf, buckets: OpenBuckets
) -> None:
    table = await light_world.table()

    async def work(visited: OpenBucket) -> None:
        raise FlussError(ErrorCode.STORAGE, "away")

    with pytest.raises(FlussError):
        await buckets.visit(TableBucket(table.id, None, 0), work)
    assert len(shelf.closed) == 1
    await buckets.get(table, None, 0)


async def test_a_table_that_is_dropped_during_a_visit_is_closed_once(
    light_world: StreamWorld, shelf: Shelf, buckets: OpenBuckets
) -> None:
    table = await light_world.table()

    async def work(visited: OpenBucket) -> None:
        await light_world.tables.drop(light_world.root, *table.path)
        assert shelf.closed == [visited.bucket]

    await buckets.visit(TableBucket(table.id, None, 0), work)
    assert len(shelf.closed) == 1
    with pytest.raises(FlussError) as raised:
        await buckets.visit(TableBucket(table.id, None, 0), work)
    assert raised.value.code is ErrorCode.UNKNOWN_TABLE_OR_BUCKET
