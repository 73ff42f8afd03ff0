"""The stream leader, among servers that share a metadata store."""

from __future__ import annotations

from collections.abc import AsyncIterator, Callable
from pathlib import Path

import pytest
import pytest_asyncio

from lakebed.core.clock import ManualClock
from lakebed.core.errors import Fenced
from lakebed.core.settings import HostPort
from lakebed.fluss.errors import FlussError
from lakebed.meta.leases import Lease, Leases
from lakebed.meta.seam import MetaStore, Transaction
from lakebed.streams.servers.leader import Leadership, LeaderStore
from tests.meta.stores import open_migrated_file
from tests.streams.world import StreamWorld


@pytest_asyncio.fixture
async def meta(tmp_path: Path) -> AsyncIterator[MetaStore]:
    store = await open_migrated_file(tmp_path / "meta.db")
    yield store
    await store.close()


class Told:
    """What a server was told of its being the home."""

    def __init__(self, leadership: Leadership) -> None:
        self.epochs: list[int] = []
        self.ends = 0
        leadership.on_acquired(self.begun)
        leadership.on_lost(self.ended)

    async def begun(self, lease: Lease) -> None:
        self.epochs.append(lease.token)

    async def ended(self) -> None:
        self.ends += 1


def server(meta: MetaStore, clock: ManualClock, name: str, address: str = "") -> Leadership:
    advertised = HostPort.parse(address or f"{name}:9123")
    return Leadership(
        meta,
        Leases(meta, clock),
        clock,
        server=name,
        number=ord(name),
        advertised=advertised,
        as_reached=not address,
        ttl_seconds=60.0,
    )


async def test_one_is_the_home_and_the_others_say_where(meta: MetaStore) -> None:
    clock = ManualClock()
    first, second = server(meta, clock, "a", "first:1"), server(meta, clock, "b", "second:2")
    await first.acquire()
    await second.acquire()
    assert (first.is_leader, second.is_leader) == (True, False)
    assert second.lease is None
    for leadership in (first, second):
        node = await leadership.node("10.0.0.7")
        assert (str(node.address), node.epoch, node.number) == ("first:1", 1, ord("a"))


async def test_a_home_that_gives_no_sign_is_followed_by_another_with_a_greater_epoch(meta: MetaStore) -> None:
    clock = ManualClock()
    first, second = server(meta, clock, "a"), server(meta, clock, "b")
    told, told_second = Told(first), Told(second)
    await first.acquire()
    clock.advance(61.0)
    assert not first.is_leader
    await second.acquire()
    assert second.is_leader
    assert (told.epochs, told_second.epochs) == ([1], [2])
    await first._step()
    assert told.ends == 1


async def test_a_server_that_starts_again_takes_back_at_once_what_it_held(meta: MetaStore) -> None:
    clock = ManualClock()
    await server(meta, clock, "a").acquire()
    again = server(meta, clock, "a")
    told = Told(again)
    await again.acquire()
    assert again.is_leader
    assert told.epochs == [2]


class SlowLeases(Leases):
    """To take one takes a time: somebody's transaction is in the way."""

    def __init__(self, meta: MetaStore, clock: ManualClock, seconds: float) -> None:
        super().__init__(meta, clock)
        self._manual = clock
        self.seconds = seconds

    async def acquire(
        self, name: str, holder: str, ttl_seconds: float, *, is_own: Callable[[str], bool] | None = None
    ) -> Lease | None:
        taken = await super().acquire(name, holder, ttl_seconds, is_own=is_own)
        self._manual.advance(self.seconds)
        return taken


async def test_a_lease_that_was_over_when_it_was_had_makes_nobody_the_home(meta: MetaStore) -> None:
    clock = ManualClock()
    leadership = server(meta, clock, "a", "first:1")
    leadership._leases = leases = SlowLeases(meta, clock, 61.0)
    told = Told(leadership)
    await leadership._step()
    assert (leadership.is_leader, told.epochs) == (False, [])
    leases.seconds = 0.0
    await leadership._step()
    assert (leadership.is_leader, told.epochs, told.ends) == (True, [2], 0)


async def test_who_is_about_to_be_the_home_tells_no_epoch(meta: MetaStore) -> None:
    clock = ManualClock()
    leadership = server(meta, clock, "a", "first:1")
    seen = []

    async def begun(lease: Lease) -> None:
        seen.append(await leadership.node("10.0.0.7"))

    leadership.on_acquired(begun)
    await leadership.acquire()
    seen.append(await leadership.node("10.0.0.7"))
    assert [(str(node.address), node.epoch) for node in seen] == [("first:1", 0), ("first:1", 1)]


async def test_an_address_that_nobody_set_is_the_one_that_was_reached(meta: MetaStore) -> None:
    leadership = server(meta, ManualClock(), "a")
    assert str((await leadership.node("192.168.0.1")).address) == "192.168.0.1:9123"
    await leadership.acquire()
    assert str((await leadership.node("192.168.0.2")).address) == "192.168.0.2:9123"


async def test_clients_of_another_server_are_sent_to_the_address_that_was_derived(meta: MetaStore) -> None:
    clock = ManualClock()
    first, second = server(meta, clock, "a"), server(meta, clock, "b", "second:2")
    await first.acquire()
    assert str((await second.node("10.0.0.7")).address) == "a:9123"
    assert str((await first.node("10.0.0.7")).address) == "10.0.0.7:9123", "its own stay where they have reached it"


async def test_clients_are_not_sent_to_a_server_whose_lease_is_over(meta: MetaStore) -> None:
    clock = ManualClock()
    first, second = server(meta, clock, "a", "first:1"), server(meta, clock, "b", "second:2")
    await first.acquire()
    clock.advance(61.0)
    node = await second.node("10.0.0.7")
    assert (str(node.address), node.epoch) == ("second:2", 0)


async def test_the_lease_counts_as_held_until_all_that_was_open_is_closed(meta: MetaStore) -> None:
    clock = ManualClock()
    first, second = server(meta, clock, "a"), server(meta, clock, "b")
    held = []

    async def ended() -> None:
        held.append((first.is_leader, first.holds_lease))

    first.on_lost(ended)
    await first.acquire()
    clock.advance(61.0)
    await second.acquire()
    await first._step()
    assert held == [(False, True)]
    assert not first.holds_lease


async def test_a_server_that_starts_again_at_another_address_takes_back_at_once_what_it_held(meta: MetaStore) -> None:
    clock = ManualClock()
    before, again = server(meta, clock, "a", "first:1"), server(meta, clock, "a", "second:2")
    await before.acquire()
    await again.acquire()
    assert again.is_leader
    await before._step()
    assert not before.is_leader
    assert str((await server(meta, clock, "b").node("10.0.0.7")).address) == "second:2"


async def test_who_is_not_the_home_reads_and_changes_nothing(light_world: StreamWorld) -> None:
    is_leader = True

    async def fence(tx: Transaction) -> int:
        if not is_leader:
            raise Fenced("not the home")
        return 1

    store = LeaderStore(light_world.store, fence)

    async def work(tx: Transaction) -> int:
        return await tx.run("UPDATE stream_tables SET modified_ms = 5")

    await light_world.table()
    assert await store.transact(work) == 1
    is_leader = False
    with pytest.raises(Fenced):
        await store.transact(work)
    assert await store.row("SELECT modified_ms FROM stream_tables") == (5,)
    assert await store.rows("SELECT modified_ms FROM stream_tables") == [(5,)]


async def test_who_is_not_the_home_looks_tables_up_each_time(light_world: StreamWorld) -> None:
    is_leader = True
    light_world.tables.cache_while(lambda: is_leader)
    light_world.partitions.cache_while(lambda: is_leader)
    table = await light_world.table(partition_key=["name"])
    await light_world.partitions.add(light_world.root, table, "EU")
    partition = await light_world.partitions.by_name(table, "EU")
    await light_world.partitions.by_id(partition.id)

    async def drop(tx: Transaction) -> None:
        """As another server does it: nobody here is told."""
        await tx.run("DELETE FROM stream_partitions")
        await tx.run("DELETE FROM stream_schemas")
        await tx.run("DELETE FROM stream_tables")

    await light_world.store.transact(drop)
    assert await light_world.tables.by_id(table.id) is table
    assert await light_world.partitions.by_id(partition.id) == partition
    is_leader = False
    for looked_up in (
        light_world.tables.by_id(table.id),
        light_world.tables.by_path(*table.path),
        light_world.partitions.by_id(partition.id),
    ):
        with pytest.raises(FlussError):
            await looked_up
