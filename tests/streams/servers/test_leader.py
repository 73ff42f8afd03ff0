"""Election, epochs and fencing of the stream leader."""

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


class Observed:
    """Records when a server acquires and loses leadership."""

    def __init__(self, leadership: Leadership) -> None:
        self.epochs: list[int] = []
        self.ends = 0
        leadership.on_acquired(self.acquired)
        leadership.on_lost(self.lost)

    async def acquired(self, lease: Lease) -> None:
        self.epochs.append(lease.token)

    async def lost(self) -> None:
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


async def test_one_server_leads_and_others_name_it(meta: MetaStore) -> None:
    clock = ManualClock()
    first, second = server(meta, clock, "a", "first:1"), server(meta, clock, "b", "second:2")
    await first.acquire()
    await second.acquire()
    assert (first.is_leader, second.is_leader) == (True, False)
    assert second.lease is None
    for leadership in (first, second):
        node = await leadership.node("10.0.0.7")
        assert (str(node.address), node.epoch, node.number) == ("first:1", 1, ord("a"))


async def test_expired_leader_is_succeeded_with_a_greater_epoch(meta: MetaStore) -> None:
    clock = ManualClock()
    first, second = server(meta, clock, "a"), server(meta, clock, "b")
    observed, observed_second = Observed(first), Observed(second)
    await first.acquire()
    clock.advance(61.0)
    assert not first.is_leader
    await second.acquire()
    assert second.is_leader
    assert (observed.epochs, observed_second.epochs) == ([1], [2])
    await first._step()
    assert observed.ends == 1


async def test_restarted_server_reacquires_its_lease_at_once(meta: MetaStore) -> None:
    clock = ManualClock()
    await server(meta, clock, "a").acquire()
    again = server(meta, clock, "a")
    observed = Observed(again)
    await again.acquire()
    assert again.is_leader
    assert observed.epochs == [2]


class SlowLeases(Leases):
    """Acquiring a lease takes time, as when another transaction blocks it."""

    def __init__(self, meta: MetaStore, clock: ManualClock, seconds: float) -> None:
        super().__init__(meta, clock)
        self._manual = clock
        self.seconds = seconds

    async def acquire(
        self, name: str, holder: str, ttl_seconds: float, *, is_own: Callable[[str], bool] | None = None
    ) -> Lease | None:
        acquired = await super().acquire(name, holder, ttl_seconds, is_own=is_own)
        self._manual.advance(self.seconds)
        return acquired


async def test_lease_that_expired_during_its_acquisition_is_not_used(meta: MetaStore) -> None:
    clock = ManualClock()
    leadership = server(meta, clock, "a", "first:1")
    leadership._leases = leases = SlowLeases(meta, clock, 61.0)
    observed = Observed(leadership)
    await leadership._step()
    assert (leadership.is_leader, observed.epochs) == (False, [])
    leases.seconds = 0.0
    await leadership._step()
    assert (leadership.is_leader, observed.epochs, observed.ends) == (True, [2], 0)


async def test_epoch_is_announced_only_after_the_callbacks(meta: MetaStore) -> None:
    clock = ManualClock()
    leadership = server(meta, clock, "a", "first:1")
    seen = []

    async def acquired(lease: Lease) -> None:
        seen.append(await leadership.node("10.0.0.7"))

    leadership.on_acquired(acquired)
    await leadership.acquire()
    seen.append(await leadership.node("10.0.0.7"))
    assert [(str(node.address), node.epoch) for node in seen] == [("first:1", 0), ("first:1", 1)]


async def test_without_a_configured_address_clients_stay_on_the_reached_host(meta: MetaStore) -> None:
    leadership = server(meta, ManualClock(), "a")
    assert str((await leadership.node("192.168.0.1")).address) == "192.168.0.1:9123"
    await leadership.acquire()
    assert str((await leadership.node("192.168.0.2")).address) == "192.168.0.2:9123"


async def test_other_servers_send_clients_to_the_derived_address(meta: MetaStore) -> None:
    clock = ManualClock()
    first, second = server(meta, clock, "a"), server(meta, clock, "b", "second:2")
    await first.acquire()
    assert str((await second.node("10.0.0.7")).address) == "a:9123"
    assert str((await first.node("10.0.0.7")).address) == "10.0.0.7:9123", (
        "its own clients stay on the host that they reached"
    )


async def test_clients_are_not_sent_to_a_server_with_an_expired_lease(meta: MetaStore) -> None:
    clock = ManualClock()
    first, second = server(meta, clock, "a", "first:1"), server(meta, clock, "b", "second:2")
    await first.acquire()
    clock.advance(61.0)
    node = await second.node("10.0.0.7")
    assert (str(node.address), node.epoch) == ("second:2", 0)


async def test_lease_counts_as_held_until_all_buckets_are_closed(meta: MetaStore) -> None:
    clock = ManualClock()
    first, second = server(meta, clock, "a"), server(meta, clock, "b")
    held = []

    async def lost() -> None:
        held.append((first.is_leader, first.holds_lease))

    first.on_lost(lost)
    await first.acquire()
    clock.advance(61.0)
    await second.acquire()
    await first._step()
    assert held == [(False, True)]
    assert not first.holds_lease


async def test_server_restarted_at_another_address_reacquires_its_lease_at_once(meta: MetaStore) -> None:
    clock = ManualClock()
    before, again = server(meta, clock, "a", "first:1"), server(meta, clock, "a", "second:2")
    await before.acquire()
    await again.acquire()
    assert again.is_leader
    await before._step()
    assert not before.is_leader
    assert str((await server(meta, clock, "b").node("10.0.0.7")).address) == "second:2"


async def test_fenced_server_changes_nothing(light_world: StreamWorld) -> None:
    is_leader = True

    async def fence(tx: Transaction) -> int:
        if not is_leader:
            raise Fenced("not the leader")
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


async def test_server_that_does_not_lead_caches_no_tables(light_world: StreamWorld) -> None:
    is_leader = True
    light_world.tables.cache_while(lambda: is_leader)
    light_world.partitions.cache_while(lambda: is_leader)
    table = await light_world.table(partition_key=["name"])
    await light_world.partitions.add(light_world.root, table, "EU")
    partition = await light_world.partitions.by_name(table, "EU")
    await light_world.partitions.by_id(partition.id)

    async def drop(tx: Transaction) -> None:
        """Drop everything as another server would, without invalidating caches here."""
        await tx.run("DELETE FROM stream_partitions")
        await tx.run("DELETE FROM stream_schemas")
        await tx.run("DELETE FROM stream_tables")

    await light_world.store.transact(drop)
    assert await light_world.tables.by_id(table.id) is table
    assert await light_world.partitions.by_id(partition.id) == partition
    is_leader = False
    for lookup in (
        light_world.tables.by_id(table.id),
        light_world.tables.by_path(*table.path),
        light_world.partitions.by_id(partition.id),
    ):
        with pytest.raises(FlussError):
            await lookup
