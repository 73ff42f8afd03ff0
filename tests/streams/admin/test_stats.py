"""Cluster health: green, yellow or red by the worst bucket."""

from __future__ import annotations

import asyncio
from collections.abc import AsyncIterator
from pathlib import Path
from typing import cast

import pytest

from lakebed.core.errors import AccessDenied
from lakebed.fluss.errors import ErrorCode, FlussError
from lakebed.meta.seam import Reader
from lakebed.storage.seam import Key
from lakebed.streams.admin.stats import ClusterHealth, ClusterHealthCheck, ClusterHealthStatus, TableStats
from lakebed.streams.buckets.log_maintenance import RETRY_SECONDS
from lakebed.streams.buckets.open_buckets import OpenBuckets
from lakebed.streams.log.remote.log_rows import LogRows
from lakebed.streams.seam import TableBucket
from lakebed.wire.fluss import messages_pb2 as pb
from lakebed.wire.fluss.calls import Call
from lakebed.wire.fluss.handlers.cluster import stats_calls
from tests.streams.buckets.test_log_maintenance import SERVER, LogOpener, Server, claim_tail, running_server, write_log
from tests.streams.buckets.test_open_buckets import FailingLog, FakeOpener
from tests.streams.log.log_cluster import FlakyStorage
from tests.streams.world import StreamWorld

HEALTH_CALL = 1062


class HealthSetup:
    """Buckets and the health check over them."""

    def __init__(self, world: StreamWorld) -> None:
        self.opener = FakeOpener()
        self.is_leader = True
        self.not_uploaded: set[TableBucket] = set()
        self.buckets = OpenBuckets(self.opener, world.tables, world.partitions)
        self.rows = LogRows(world.store, self._epoch)
        self.check = ClusterHealthCheck(
            world.tables,
            world.partitions,
            self.buckets,
            self.rows,
            lambda: self.not_uploaded,
            lambda: self.is_leader,
            server="here",
        )
        self.stats = TableStats(world.authorizer, world.tables, self.buckets, self.check)

    async def _epoch(self, reader: Reader) -> int:
        return 1

    async def status(self) -> ClusterHealthStatus:
        return (await self.check.take()).status


@pytest.fixture
def setup(light_world: StreamWorld) -> HealthSetup:
    return HealthSetup(light_world)


@pytest.mark.parametrize(
    ("health", "status"),
    [
        (ClusterHealth(0, 0, 0), ClusterHealthStatus.GREEN),
        (ClusterHealth(3, 3, 3), ClusterHealthStatus.GREEN),
        (ClusterHealth(3, 3, 2), ClusterHealthStatus.YELLOW),
        (ClusterHealth(3, 2, 2), ClusterHealthStatus.RED),
        (ClusterHealth(3, 2, 1), ClusterHealthStatus.RED),
    ],
)
def test_health_status(health: ClusterHealth, status: ClusterHealthStatus) -> None:
    assert health.status is status


async def test_unopened_buckets_are_healthy(light_world: StreamWorld, setup: HealthSetup) -> None:
    table = await light_world.table(bucket_count=3)
    parts = await light_world.table("parts", partition_key=["name"], bucket_count=2)
    for name in ("a", "b"):
        await light_world.partitions.add(light_world.root, parts, name)
    assert await setup.check.take() == ClusterHealth(7, 7, 7)
    await setup.buckets.get(table, None, 1)
    assert await setup.stats.health(light_world.root) == ClusterHealth(7, 7, 7)
    assert await setup.status() is ClusterHealthStatus.GREEN


async def test_red_while_another_server_alone_has_the_newest_records(
    light_world: StreamWorld, setup: HealthSetup
) -> None:
    table = await light_world.table(bucket_count=3)
    for number, server in enumerate(("here", "there")):
        await claim_tail(setup.rows, TableBucket(table.id, None, number), server)
    await setup.rows.claim(TableBucket(table.id, None, 2), "folder", "there")
    assert await setup.check.take() == ClusterHealth(3, 2, 2)
    assert await setup.status() is ClusterHealthStatus.RED
    await setup.rows.release_tail(TableBucket(table.id, None, 1))
    assert await setup.status() is ClusterHealthStatus.GREEN


async def test_red_from_a_failed_opening_until_a_successful_one(light_world: StreamWorld, setup: HealthSetup) -> None:
    table = await light_world.table(bucket_count=2)
    setup.opener.fails = True
    with pytest.raises(FlussError):
        await setup.buckets.get(table, None, 0)
    assert await setup.check.take() == ClusterHealth(2, 1, 1)
    assert await setup.status() is ClusterHealthStatus.RED
    setup.opener.fails = False
    await setup.buckets.get(table, None, 0)
    assert await setup.status() is ClusterHealthStatus.GREEN


async def test_red_while_the_disk_of_an_open_bucket_fails(light_world: StreamWorld, setup: HealthSetup) -> None:
    table = await light_world.table()
    opened = await setup.buckets.get(table, None, 0)
    cast(FailingLog, opened.log).is_broken = True
    assert await setup.check.take() == ClusterHealth(1, 0, 0)


async def test_red_on_a_server_that_does_not_lead(light_world: StreamWorld, setup: HealthSetup) -> None:
    await light_world.table(bucket_count=2)
    setup.is_leader = False
    assert await setup.check.take() == ClusterHealth(2, 0, 0)
    assert await setup.status() is ClusterHealthStatus.RED


async def test_dropped_tables_do_not_count(light_world: StreamWorld, setup: HealthSetup) -> None:
    table = await light_world.table(bucket_count=2)
    dropped = TableBucket(table.id, None, 1)
    await claim_tail(setup.rows, dropped, "there")
    setup.not_uploaded.add(dropped)
    assert await setup.status() is ClusterHealthStatus.RED
    await light_world.tables.drop(light_world.root, *table.path)
    assert await setup.check.take() == ClusterHealth(0, 0, 0)


async def test_bucket_that_is_offline_and_not_uploaded_counts_once(
    light_world: StreamWorld, setup: HealthSetup
) -> None:
    table = await light_world.table(bucket_count=3)
    offline, not_uploaded = TableBucket(table.id, None, 0), TableBucket(table.id, None, 1)
    await claim_tail(setup.rows, offline, "there")
    setup.not_uploaded |= {offline, not_uploaded}
    assert await setup.check.take() == ClusterHealth(3, 2, 1)


async def test_clients_receive_the_numbers_and_the_status(light_world: StreamWorld, setup: HealthSetup) -> None:
    table = await light_world.table(bucket_count=3)
    setup.not_uploaded.add(TableBucket(table.id, None, 0))
    (call,) = (call for call in stats_calls(setup.stats) if call.key == HEALTH_CALL)
    assert isinstance(call, Call)
    response = await call.handle(light_world.root, pb.GetClusterHealthRequest())
    assert response == pb.GetClusterHealthResponse(
        num_replicas=3,
        in_sync_replicas=2,
        num_leader_replicas=3,
        active_leader_replicas=3,
        status=ClusterHealthStatus.YELLOW,
    )
    with pytest.raises(AccessDenied):
        await call.handle(await light_world.caller(await light_world.user("alice")), pb.GetClusterHealthRequest())


# -- with logs and an unavailable object store -------------------------------------------------------------------------


@pytest.fixture
async def logs(light_world: StreamWorld, tmp_path: Path) -> AsyncIterator[LogOpener]:
    made = LogOpener(light_world, tmp_path / "logs", FlakyStorage(light_world.clock))
    yield made
    await asyncio.to_thread(made.logs.close)


def check_of(world: StreamWorld, logs: LogOpener, server: Server) -> ClusterHealthCheck:
    return ClusterHealthCheck(
        world.tables,
        world.partitions,
        server.buckets,
        logs.rows,
        lambda: server.log_maintenance.not_uploaded,
        lambda: True,
        server=SERVER,
    )


async def test_yellow_while_a_log_cannot_be_uploaded(light_world: StreamWorld, logs: LogOpener) -> None:
    table = await light_world.table(bucket_count=2)
    await write_log(light_world, logs, table)
    storage = cast(FlakyStorage, logs.storage)
    async with running_server(light_world, logs) as server:
        check = check_of(light_world, logs, server)
        await server.buckets.get(table, None, 0)
        assert (await check.take()).status is ClusterHealthStatus.GREEN
        storage.is_down = True
        assert await server.log_maintenance.maintain() == 1
        assert await check.take() == ClusterHealth(2, 2, 1)
        assert (await check.take()).status is ClusterHealthStatus.YELLOW
        assert server.log_maintenance.take_upload_counts() == (0, 0, 1)
        storage.is_down = False
        assert await server.log_maintenance.maintain() == 0
        assert (await check.take()).status is ClusterHealthStatus.GREEN
        uploads = server.log_maintenance.take_upload_counts()
        sizes = [len(await storage.get(Key(key))) for key in await logs.keys() if key.endswith(".log")]
        assert uploads == (len(sizes), sum(sizes), 0)
        assert sum(sizes) > 0
        assert server.log_maintenance.take_upload_counts() == (0, 0, 0)


async def test_maintenance_soon_retries_a_log_that_failed_to_open(
    light_world: StreamWorld, logs: LogOpener, monkeypatch: pytest.MonkeyPatch
) -> None:
    table = await light_world.table()
    await write_log(light_world, logs, table, batches=1)

    async def refuse(*_: object) -> None:
        raise FlussError(ErrorCode.STORAGE, "away")

    async with running_server(light_world, logs) as server:
        check = check_of(light_world, logs, server)
        with monkeypatch.context() as patch:
            patch.setattr(logs, "open", refuse)
            assert await server.log_maintenance.maintain() == 1
        assert (await check.take()).status is ClusterHealthStatus.RED
        await server.log_maintenance.maintain()
        assert (await check.take()).status is ClusterHealthStatus.RED  # not retried in every round
        light_world.clock.advance(RETRY_SECONDS)
        assert await server.log_maintenance.maintain() == 0
        assert (await check.take()).status is ClusterHealthStatus.GREEN
