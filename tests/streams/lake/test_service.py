from __future__ import annotations

import pytest

from lakebed.core.errors import AccessDenied
from lakebed.fluss.errors import ErrorCode, FlussError
from lakebed.streams.lake.schedule import HEARTBEAT_TIMEOUT_MS, TieringStats
from lakebed.streams.lake.service import LakeSnapshot, TieringReport
from lakebed.streams.schema_evolution import AlterConfigOp, OptionChange
from tests.streams.world import StreamWorld

LAKE = {"table.datalake.enabled": "true", "table.datalake.freshness": "1 min"}


def refused(reason: ErrorCode) -> pytest.RaisesExc[FlussError]:
    return pytest.RaisesExc(FlussError, check=lambda failure: failure.code is reason)


async def latest(world: StreamWorld, *, readable: bool = False) -> LakeSnapshot:
    return (await world.lake.snapshot(world.root, "fluss", "orders", readable=readable))[1]


async def test_tiering_ends_with_a_snapshot(world: StreamWorld) -> None:
    table = await world.table(properties=LAKE, bucket_count=3)
    given = await world.lake.next_table(world.root)
    assert given is not None
    assert (given[0].id, given[1]) == (table.id, 1)
    assert await world.lake.next_table(world.root) is None
    with refused(ErrorCode.LAKE_SNAPSHOT_NOT_EXIST):
        await latest(world)
    name = await world.lake.prepare(world.root, table.id, {(None, 0): 10, (None, 1): 7})
    with refused(ErrorCode.LAKE_SNAPSHOT_NOT_EXIST):
        await latest(world)
    await world.lake.commit(world.root, table.id, 4711, name)
    await world.lake.commit(world.root, table.id, 4711, name)
    assert await latest(world) == LakeSnapshot(4711, {(None, 0): 10, (None, 1): 7})
    with refused(ErrorCode.LAKE_SNAPSHOT_NOT_EXIST):
        await latest(world, readable=True)
    ended = TieringReport(table.id, world.leader_epoch, 1, TieringStats(100, 17))
    assert await world.lake.report(world.root, finished=[ended]) == ([], [(table.id, None)], [])
    assert {event.facts["snapshot_id"] for _, event in await world.events("StreamTableTiered")} == {"4711"}


async def test_offsets_are_merged_with_earlier_ones(world: StreamWorld) -> None:
    table = await world.table(properties=LAKE, bucket_count=3)
    first = await world.lake.prepare(world.root, table.id, {(None, 0): 10, (None, 1): 7})
    await world.lake.commit(world.root, table.id, 9, first, first)
    second = await world.lake.prepare(world.root, table.id, {(None, 1): 8, (None, 2): 1})
    await world.lake.commit(world.root, table.id, 3, second, keep_from=9)
    assert (await latest(world)).offsets == {(None, 0): 10, (None, 1): 8, (None, 2): 1}
    # The latest snapshot is the last commit, whatever its id. The readable one is the last marked readable.
    assert (await latest(world)).snapshot_id == 3
    assert await latest(world, readable=True) == LakeSnapshot(9, {(None, 0): 10, (None, 1): 7})
    _, by_id = await world.lake.snapshot(world.root, "fluss", "orders", 9)
    assert by_id.offsets == {(None, 0): 10, (None, 1): 7}
    fresh = await world.lake.prepare(world.root, table.id, {(None, 0): 1}, from_nothing=True)
    await world.lake.commit(world.root, table.id, 12, fresh, fresh)
    assert (await latest(world)).offsets == {(None, 0): 1}
    with refused(ErrorCode.LAKE_SNAPSHOT_NOT_EXIST):
        await world.lake.snapshot(world.root, "fluss", "orders", 9)


async def test_commit_requires_prepared_offsets_of_the_table(light_world: StreamWorld) -> None:
    world = light_world
    table, other = await world.table(), await world.table("other")
    name = await world.lake.prepare(world.root, other.id, {(None, 0): 1})
    for wrong in (name, "nothing"):
        with refused(ErrorCode.LAKE_SNAPSHOT_NOT_EXIST):
            await world.lake.commit(world.root, table.id, 1, wrong)
    with refused(ErrorCode.UNKNOWN_TABLE_OR_BUCKET):
        await world.lake.prepare(world.root, 999, {})
    with refused(ErrorCode.INVALID_CONFIG):
        await world.lake.snapshot(world.root, "fluss", "orders", 1, readable=True)


async def test_unused_offsets_are_deleted_in_time(light_world: StreamWorld) -> None:
    world = light_world
    table = await world.table()
    used = await world.lake.prepare(world.root, table.id, {(None, 0): 1})
    await world.lake.prepare(world.root, table.id, {(None, 0): 2})
    await world.lake.commit(world.root, table.id, 1, used)
    count = "SELECT COUNT(*) FROM stream_lake_offsets"
    assert await world.store.row(count) == (2,)
    world.clock.advance(8 * 86_400)
    late = await world.lake.prepare(world.root, table.id, {(None, 0): 3})
    await world.lake.commit(world.root, table.id, 2, late)
    # A commit deletes the offsets of the previous snapshot, and those that were never used.
    assert await world.store.row(count) == (1,)


async def test_tiering_epochs_survive_a_restart(world: StreamWorld) -> None:
    table = await world.table(properties=LAKE)
    assert await world.lake.next_table(world.root) is not None
    restarted = world.new_lake_tiering()
    given = await restarted.next_table(world.root)
    assert given is not None
    assert given[1] == 2
    old = TieringReport(table.id, world.leader_epoch, 1)
    (_, failure), *_ = (await restarted.report(world.root, in_progress=[old]))[0]
    assert failure is not None
    assert failure.code is ErrorCode.FENCED_TIERING_EPOCH


async def test_reports_with_the_epoch_of_a_former_leader_are_fenced(light_world: StreamWorld) -> None:
    world = light_world
    table = await world.table(properties=LAKE)
    await world.lake.next_table(world.root)
    stale = TieringReport(table.id, world.leader_epoch - 1, 1)
    reported = await world.lake.report(world.root, [stale], [stale], [stale])
    assert [failure.code for ((_, failure),) in reported if failure is not None] == [ErrorCode.FENCED_TIERING_EPOCH] * 3


async def test_table_is_reassigned_when_due_after_silence_and_after_failure(light_world: StreamWorld) -> None:
    world = light_world
    table = await world.table(properties=LAKE)
    assert await world.lake.next_table(world.root) is not None
    await world.lake.report(world.root, finished=[TieringReport(table.id, world.leader_epoch, 1)])
    assert await world.lake.next_table(world.root) is None
    world.clock.advance(60)
    assert (await world.lake.next_table(world.root) or ())[1:] == (2,)
    world.clock.advance(HEARTBEAT_TIMEOUT_MS / 1000)
    assert (await world.lake.next_table(world.root) or ())[1:] == (3,)
    failed = TieringReport(table.id, world.leader_epoch, 3)
    await world.lake.report(world.root, failed=[failed])
    assert (await world.lake.next_table(world.root) or ())[1:] == (4,)
    cut = TieringReport(table.id, world.leader_epoch, 4)
    await world.lake.report(world.root, finished=[cut], incomplete=[table.id])
    assert (await world.lake.next_table(world.root) or ())[1:] == (5,)


async def test_only_lake_enabled_tables_are_assigned(light_world: StreamWorld) -> None:
    world = light_world
    table = await world.table()
    assert await world.lake.next_table(world.root) is None
    await world.altering.table(
        world.root, "fluss", "orders", changes=[OptionChange("table.datalake.enabled", AlterConfigOp.SET, "true")]
    )
    assert await world.lake.next_table(world.root) is not None
    await world.tables.drop(world.root, "fluss", "orders")
    reported = await world.lake.report(world.root, in_progress=[TieringReport(table.id, world.leader_epoch, 1)])
    assert [failure.code for _, failure in reported[0] if failure is not None] == [ErrorCode.UNKNOWN_TABLE_OR_BUCKET]


async def test_tiering_requires_permission(light_world: StreamWorld) -> None:
    world = light_world
    table = await world.table(properties=LAKE)
    caller = await world.caller(await world.user("alice"))
    for refused_call in (
        world.lake.report(caller),
        world.lake.next_table(caller),
        world.lake.prepare(caller, table.id, {}),
        world.lake.commit(caller, table.id, 1, "x"),
        world.lake.snapshot(caller, "fluss", "orders"),
    ):
        with pytest.raises(AccessDenied):
            await refused_call
