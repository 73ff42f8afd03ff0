"""How buckets are: one colour for all of them, by what keeps any of them from its work."""

from __future__ import annotations

import asyncio
from collections.abc import AsyncIterator
from pathlib import Path
from typing import cast

import pytest

from lakebed.core.errors import AccessDenied, Unavailable
from lakebed.fluss.errors import ErrorCode, FlussError
from lakebed.meta.seam import Reader
from lakebed.storage.memory import MemoryStorage
from lakebed.storage.seam import ByteSource, Key, Metadata, ObjectVersion
from lakebed.streams.admin.stats import ClusterHealth, ClusterHealthCheck, ClusterHealthStatus, TableStats
from lakebed.streams.buckets.log_maintenance import RETRY_SECONDS
from lakebed.streams.buckets.open_buckets import OpenBuckets
from lakebed.streams.log.remote.log_rows import LogRows
from lakebed.streams.seam import TableBucket
from lakebed.wire.fluss import messages_pb2 as pb
from lakebed.wire.fluss.calls import Call
from lakebed.wire.fluss.handlers.cluster import stats_calls
from tests.streams.buckets.test_log_maintenance import SERVER, LogShelf, Server, begun, claim_tail, written
from tests.streams.buckets.test_open_buckets import RefusingLog, Shelf
from tests.streams.world import StreamWorld

HEALTH_CALL = 1062


class Checked:
    """Buckets on a shelf, and how they are found to be."""

    def __init__(self, world: StreamWorld) -> None:
        self.shelf = Shelf()
        self.is_leader = True
        self.not_uploaded: set[TableBucket] = set()
        self.buckets = OpenBuckets(self.shelf, world.tables, world.partitions)
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

    async def colour(self) -> ClusterHealthStatus:
        return (await self.check.take()).status


@pytest.fixture
def checked(light_world: StreamWorld) -> Checked:
    return Checked(light_world)


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
def test_colours(health: ClusterHealth, status: ClusterHealthStatus) -> None:
    assert health.status is status


async def test_green_whether_or_not_a_bucket_was_asked_for(light_world: StreamWorld, checked: Checked) -> None:
    table = await light_world.table(bucket_count=3)
    parts = await light_world.table("parts", partition_key=["name"], bucket_count=2)
    for name in ("a", "b"):
        await light_world.partitions.add(light_world.root, parts, name)
    assert await checked.check.take() == ClusterHealth(7, 7, 7)
    await checked.buckets.get(table, None, 1)
    assert await checked.stats.health(light_world.root) == ClusterHealth(7, 7, 7)
    assert await checked.colour() is ClusterHealthStatus.GREEN


async def test_red_while_another_server_has_the_newest_records_alone(
    light_world: StreamWorld, checked: Checked
) -> None:
    table = await light_world.table(bucket_count=3)
    for number, server in enumerate(("here", "there")):
        await claim_tail(checked.rows, TableBucket(table.id, None, number), server)
    await checked.rows.claim(TableBucket(table.id, None, 2), "folder", "there")
    assert await checked.check.take() == ClusterHealth(3, 2, 2)
    assert await checked.colour() is ClusterHealthStatus.RED
    await checked.rows.release_tail(TableBucket(table.id, None, 1))
    assert await checked.colour() is ClusterHealthStatus.GREEN


async def test_red_from_an_opening_that_failed_until_one_does_not(light_world: StreamWorld, checked: Checked) -> None:
    table = await light_world.table(bucket_count=2)
    checked.shelf.refuses = True
    with pytest.raises(FlussError):
        await checked.buckets.get(table, None, 0)
    assert await checked.check.take() == ClusterHealth(2, 1, 1)
    assert await checked.colour() is ClusterHealthStatus.RED
    checked.shelf.refuses = False
    await checked.buckets.get(table, None, 0)
    assert await checked.colour() is ClusterHealthStatus.GREEN


async def test_red_while_a_bucket_is_open_whose_disk_refused(light_world: StreamWorld, checked: Checked) -> None:
    table = await light_world.table()
    opened = await checked.buckets.get(table, None, 0)
    cast(RefusingLog, opened.log).is_broken = True
    assert await checked.check.take() == ClusterHealth(1, 0, 0)


async def test_red_where_the_home_is_not(light_world: StreamWorld, checked: Checked) -> None:
    await light_world.table(bucket_count=2)
    checked.is_leader = False
    assert await checked.check.take() == ClusterHealth(2, 0, 0)
    assert await checked.colour() is ClusterHealthStatus.RED


async def test_what_was_dropped_does_not_count(light_world: StreamWorld, checked: Checked) -> None:
    table = await light_world.table(bucket_count=2)
    gone = TableBucket(table.id, None, 1)
    await claim_tail(checked.rows, gone, "there")
    checked.not_uploaded.add(gone)
    assert await checked.colour() is ClusterHealthStatus.RED
    await light_world.tables.drop(light_world.root, *table.path)
    assert await checked.check.take() == ClusterHealth(0, 0, 0)


async def test_one_that_is_offline_and_not_copied_counts_once(light_world: StreamWorld, checked: Checked) -> None:
    table = await light_world.table(bucket_count=3)
    offline, not_uploaded = TableBucket(table.id, None, 0), TableBucket(table.id, None, 1)
    await claim_tail(checked.rows, offline, "there")
    checked.not_uploaded |= {offline, not_uploaded}
    assert await checked.check.take() == ClusterHealth(3, 2, 1)


async def test_clients_are_told_the_numbers_and_the_colour(light_world: StreamWorld, checked: Checked) -> None:
    table = await light_world.table(bucket_count=3)
    checked.not_uploaded.add(TableBucket(table.id, None, 0))
    (call,) = (call for call in stats_calls(checked.stats) if call.key == HEALTH_CALL)
    assert isinstance(call, Call)
    told = await call.handle(light_world.root, pb.GetClusterHealthRequest())
    assert told == pb.GetClusterHealthResponse(
        num_replicas=3,
        in_sync_replicas=2,
        num_leader_replicas=3,
        active_leader_replicas=3,
        status=ClusterHealthStatus.YELLOW,
    )
    with pytest.raises(AccessDenied):
        await call.handle(await light_world.caller(await light_world.user("alice")), pb.GetClusterHealthRequest())


# -- with logs, and a byte store that is away ---------------------------------------------------------------------


class Away(MemoryStorage):
    """A byte store that takes nothing while it is away."""

    is_away = False

    async def put(self, key: Key, body: ByteSource, *, metadata: Metadata | None = None) -> ObjectVersion:
        if self.is_away:
            raise Unavailable("the store is away")
        return await super().put(key, body, metadata=metadata)


@pytest.fixture
async def logs(light_world: StreamWorld, tmp_path: Path) -> AsyncIterator[LogShelf]:
    made = LogShelf(light_world, tmp_path / "logs", Away(light_world.clock))
    yield made
    await asyncio.to_thread(made.logs.close)


def check_of(world: StreamWorld, logs: LogShelf, server: Server) -> ClusterHealthCheck:
    return ClusterHealthCheck(
        world.tables,
        world.partitions,
        server.buckets,
        logs.rows,
        lambda: server.log_maintenance.not_uploaded,
        lambda: True,
        server=SERVER,
    )


async def test_yellow_while_a_log_cannot_be_copied_and_what_is_copied_is_counted(
    light_world: StreamWorld, logs: LogShelf
) -> None:
    table = await light_world.table(bucket_count=2)
    await written(light_world, logs, table)
    storage = cast(Away, logs.storage)
    async with begun(light_world, logs) as server:
        check = check_of(light_world, logs, server)
        await server.buckets.get(table, None, 0)
        assert (await check.take()).status is ClusterHealthStatus.GREEN
        storage.is_away = True
        assert await server.log_maintenance.maintain() == 1
        assert await check.take() == ClusterHealth(2, 2, 1)
        assert (await check.take()).status is ClusterHealthStatus.YELLOW
        assert server.log_maintenance.take_upload_counts() == (0, 0, 1)
        storage.is_away = False
        assert await server.log_maintenance.maintain() == 0
        assert (await check.take()).status is ClusterHealthStatus.GREEN
        copied = server.log_maintenance.take_upload_counts()
        sizes = [len(await storage.get(Key(key))) for key in await logs.keys() if key.endswith(".log")]
        assert copied == (len(sizes), sum(sizes), 0)
        assert sum(sizes) > 0
        assert server.log_maintenance.take_upload_counts() == (0, 0, 0)


async def test_a_log_that_could_not_be_opened_in_passing_is_soon_looked_at_again(
    light_world: StreamWorld, logs: LogShelf, monkeypatch: pytest.MonkeyPatch
) -> None:
    table = await light_world.table()
    await written(light_world, logs, table, batches=1)

    async def refuse(*_: object) -> None:
        raise FlussError(ErrorCode.STORAGE, "away")

    async with begun(light_world, logs) as server:
        check = check_of(light_world, logs, server)
        with monkeypatch.context() as patch:
            patch.setattr(logs, "open", refuse)
            assert await server.log_maintenance.maintain() == 1
        assert (await check.take()).status is ClusterHealthStatus.RED
        await server.log_maintenance.maintain()
        assert (await check.take()).status is ClusterHealthStatus.RED  # not at every round
        light_world.clock.advance(RETRY_SECONDS)
        assert await server.log_maintenance.maintain() == 0
        assert (await check.take()).status is ClusterHealthStatus.GREEN
