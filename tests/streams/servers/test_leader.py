"""Who the home of streams is, of servers that share a metadata store."""

from __future__ import annotations

from collections.abc import AsyncIterator, Callable
from pathlib import Path

import pytest_asyncio

from lakebed.core.clock import ManualClock
from lakebed.core.settings import HostPort
from lakebed.meta.leases import Lease, Leases
from lakebed.meta.seam import MetaStore
from lakebed.streams.servers.leader import Leadership
from tests.meta.stores import open_migrated_file


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
    await first.begin()
    await second.begin()
    assert (first.is_leader, second.is_leader) == (True, False)
    assert second.lease is None
    for leadership in (first, second):
        node = await leadership.node("10.0.0.7")
        assert (str(node.address), node.epoch, node.number) == ("first:1", 1, ord("a"))


async def test_a_home_that_gives_no_sign_is_followed_by_another_with_a_greater_epoch(meta: MetaStore) -> None:
    clock = ManualClock()
    first, second = server(meta, clock, "a"), server(meta, clock, "b")
    told, told_second = Told(first), Told(second)
    await first.begin()
    clock.advance(61.0)
    assert not first.is_leader
    await second.begin()
    assert second.is_leader
    assert (told.epochs, told_second.epochs) == ([1], [2])
    await first._step()
    assert told.ends == 1


async def test_a_server_that_starts_again_takes_back_at_once_what_it_held(meta: MetaStore) -> None:
    clock = ManualClock()
    await server(meta, clock, "a").begin()
    again = server(meta, clock, "a")
    told = Told(again)
    await again.begin()
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
    await leadership.begin()
    seen.append(await leadership.node("10.0.0.7"))
    assert [(str(node.address), node.epoch) for node in seen] == [("first:1", 0), ("first:1", 1)]


async def test_an_address_that_nobody_set_is_the_one_that_was_reached(meta: MetaStore) -> None:
    leadership = server(meta, ManualClock(), "a")
    assert str((await leadership.node("192.168.0.1")).address) == "192.168.0.1:9123"
    await leadership.begin()
    assert str((await leadership.node("192.168.0.2")).address) == "192.168.0.2:9123"


async def test_clients_of_another_server_are_sent_to_the_address_that_was_derived(meta: MetaStore) -> None:
    clock = ManualClock()
    first, second = server(meta, clock, "a"), server(meta, clock, "b", "second:2")
    await first.begin()
    assert str((await second.node("10.0.0.7")).address) == "a:9123"
    assert str((await first.node("10.0.0.7")).address) == "10.0.0.7:9123", "its own stay where they have reached it"


async def test_clients_are_not_sent_to_a_server_whose_lease_is_over(meta: MetaStore) -> None:
    clock = ManualClock()
    first, second = server(meta, clock, "a", "first:1"), server(meta, clock, "b", "second:2")
    await first.begin()
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
    await first.begin()
    clock.advance(61.0)
    await second.begin()
    await first._step()
    assert held == [(False, True)]
    assert not first.holds_lease


async def test_a_server_that_starts_again_at_another_address_takes_back_at_once_what_it_held(meta: MetaStore) -> None:
    clock = ManualClock()
    before, again = server(meta, clock, "a", "first:1"), server(meta, clock, "a", "second:2")
    await before.begin()
    await again.begin()
    assert again.is_leader
    await before._step()
    assert not before.is_leader
    assert str((await server(meta, clock, "b").node("10.0.0.7")).address) == "second:2"
