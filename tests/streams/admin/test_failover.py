"""Which buckets are stranded and why, and how an operator forgets a lost server."""

from __future__ import annotations

import pytest

from lakebed.core.errors import AccessDenied, NotFound, StateConflict
from lakebed.meta.leases import Lease, Leases
from lakebed.meta.seam import Reader
from lakebed.streams.admin.failover import Failover, StreamStatus
from lakebed.streams.log.remote.log_rows import LogRows
from lakebed.streams.seam import TableBucket
from lakebed.streams.servers.leader import LEASE_NAME
from lakebed.streams.servers.registry import RegisteredServer, ServerRegistry
from tests.streams.world import StreamWorld

ONE = RegisteredServer("aaaa", 1, "one:9123", acks_after_upload=False)
TWO = RegisteredServer("bbbb", 2, "two:9123", acks_after_upload=False)


class Servers:
    """Servers that share a metadata store, with the failover status."""

    def __init__(self, world: StreamWorld) -> None:
        self.world = world
        self.leases = Leases(world.store, world.clock)
        self.registry = ServerRegistry(world.store, world.clock)
        self.rows = LogRows(world.store, self._fence)
        self.failover = Failover(world.store, world.outbox, world.clock, world.authorizer, self.leases, self.registry)

    async def _fence(self, reader: Reader) -> int:
        return 1

    async def lead(self, server: RegisteredServer) -> Lease | None:
        return await self.leases.acquire(LEASE_NAME, f"{server.name} {server.number} {server.address}", 15.0)

    async def report(self, *servers: RegisteredServer) -> None:
        for each in servers:
            await self.registry.report(each, 15.0)

    async def keep_tail(self, bucket: TableBucket, server: RegisteredServer, start: int, end: int) -> None:
        await self.rows.claim(bucket, "folder", server.name)
        await self.rows.keep_tail(bucket, server.name, start, end)

    async def status(self) -> StreamStatus:
        return await self.failover.status(self.world.root)


@pytest.fixture
def servers(world: StreamWorld) -> Servers:
    return Servers(world)


async def test_bucket_is_stranded_while_only_a_non_leader_has_its_newest_records(
    world: StreamWorld, servers: Servers
) -> None:
    table = await world.table(bucket_count=2)
    await servers.keep_tail(TableBucket(table.id, None, 0), ONE, 100, 100)
    await servers.rows.record_ends([(TableBucket(table.id, None, 0), 140)])
    await servers.keep_tail(TableBucket(table.id, None, 1), TWO, 0, 0)
    await servers.report(ONE)
    world.clock.advance(20)
    await servers.report(TWO)
    await servers.lead(TWO)
    status = await servers.status()
    assert status.leader is not None
    assert (status.leader.server, str(status.leader.address)) == ("bbbb", "two:9123")
    (stranded,) = status.stranded
    assert (stranded.table, stranded.bucket, stranded.server) == (table.path.name, 0, "aaaa")
    assert (stranded.uploaded_end, stranded.recorded_end) == (100, 140)
    assert "down" in stranded.reason
    await servers.report(ONE)
    assert "uploads" in (await servers.status()).stranded[0].reason
    await servers.report(RegisteredServer("aaaa", 1, "one:9123", False, "the disk is full"))
    assert "the disk is full" in (await servers.status()).stranded[0].reason
    await servers.rows.release_tail(TableBucket(table.id, None, 0))
    assert (await servers.status()).stranded == []


async def test_lost_server_is_forgotten_by_name_or_number(world: StreamWorld, servers: Servers) -> None:
    table = await world.table(bucket_count=2)
    bucket = TableBucket(table.id, None, 0)
    await servers.keep_tail(bucket, ONE, 0, 10)
    await servers.report(ONE, TWO)
    with pytest.raises(StateConflict, match="running"):
        await servers.failover.forget(world.root, "aaaa")
    world.clock.advance(20)
    with pytest.raises(NotFound):
        await servers.failover.forget(world.root, "cccc")
    forgotten = await servers.failover.forget(world.root, "1")
    assert (forgotten.server, [each.bucket for each in forgotten.buckets]) == ("aaaa", [0])
    assert (await servers.rows.find(bucket)).tail_server == ""
    assert [each.name for each in (await servers.status()).servers] == ["bbbb"]
    assert [event.facts for _, event in await world.events("StreamServerForgotten")] == [
        {"server": "aaaa", "buckets": "1"}
    ]


async def test_leader_is_not_forgotten(world: StreamWorld, servers: Servers) -> None:
    await servers.report(ONE)
    world.clock.advance(20)
    await servers.lead(ONE)
    with pytest.raises(StateConflict, match="running"):
        await servers.failover.forget(world.root, "aaaa")


async def test_server_that_never_reported_is_forgotten_by_name(world: StreamWorld, servers: Servers) -> None:
    table = await world.table()
    await servers.keep_tail(TableBucket(table.id, None, 0), ONE, 0, 0)
    (stranded,) = (await servers.status()).stranded
    assert "never reported" in stranded.reason
    assert (await servers.failover.forget(world.root, "aaaa")).buckets


async def test_dropped_tables_are_not_stranded(world: StreamWorld, servers: Servers) -> None:
    table = await world.table()
    await servers.keep_tail(TableBucket(table.id, None, 0), ONE, 0, 0)
    await world.tables.drop(world.root, *table.path)
    assert (await servers.status()).stranded == []


async def test_forgetting_a_server_requires_permission(world: StreamWorld, servers: Servers) -> None:
    other = await world.caller(await world.user("other"))
    with pytest.raises(AccessDenied):
        await servers.failover.status(other)
    with pytest.raises(AccessDenied):
        await servers.failover.forget(other, "aaaa")
