"""Cluster configs, server tags, rebalancing and producer offsets."""

from __future__ import annotations

import pytest

from lakebed.core.errors import AccessDenied
from lakebed.fluss.errors import ErrorCode, FlussError
from lakebed.streams.admin.cluster import RebalanceStatus, ServerTag
from lakebed.streams.admin.producer_offsets import BucketOffset
from lakebed.streams.cluster_configs import DYNAMIC, INITIAL, ClusterConfig
from lakebed.streams.schema_evolution import AlterConfigOp, OptionChange
from lakebed.streams.seam import TableBucket
from tests.streams.world import StreamWorld

DEFAULT_BUCKETS = "default.bucket.number"


def refused(reason: ErrorCode) -> pytest.RaisesExc[FlussError]:
    return pytest.RaisesExc(FlussError, check=lambda failure: failure.code is reason)


def setting(name: str, value: str | None, operation: int = AlterConfigOp.SET) -> OptionChange:
    return OptionChange(name, operation, value)


async def test_altered_configs_take_effect_at_once(world: StreamWorld) -> None:
    assert (await world.table("one", bucket_count=None)).bucket_count == 1
    await world.configs.alter(world.root, [setting(DEFAULT_BUCKETS, "3"), setting("max.bucket.num", "4")])
    assert (await world.table("three", bucket_count=None)).bucket_count == 3
    with refused(ErrorCode.BUCKET_MAX_NUM):
        await world.table("five", bucket_count=5)
    found = {config.name: config for config in await world.configs.describe(world.root)}
    assert found[DEFAULT_BUCKETS] == ClusterConfig(DEFAULT_BUCKETS, "3", DYNAMIC)
    assert found["bind.listeners"].source == INITIAL
    await world.configs.alter(world.root, [setting(DEFAULT_BUCKETS, None, AlterConfigOp.DELETE)])
    found = {config.name: config for config in await world.configs.describe(world.root)}
    assert found[DEFAULT_BUCKETS] == ClusterConfig(DEFAULT_BUCKETS, "1", INITIAL)
    assert [event.facts for _, event in await world.events("StreamConfigAltered")] == [
        {DEFAULT_BUCKETS: "3", "max.bucket.num": "4"},
        {DEFAULT_BUCKETS: ""},
    ]


@pytest.mark.parametrize(
    ("change", "reason"),
    [
        (setting("bind.listeners", "x"), ErrorCode.CONFIG),
        (setting("nonsense", "x"), ErrorCode.CONFIG),
        (setting(DEFAULT_BUCKETS, None), ErrorCode.CONFIG),
        (setting(DEFAULT_BUCKETS, "0"), ErrorCode.INVALID_CONFIG),
        (setting(DEFAULT_BUCKETS, "many"), ErrorCode.INVALID_CONFIG),
        (setting("auto-partition.check.interval", "soon"), ErrorCode.INVALID_CONFIG),
    ],
)
async def test_invalid_configs_are_rejected_as_a_whole(
    light_world: StreamWorld, change: OptionChange, reason: ErrorCode
) -> None:
    world = light_world
    with refused(reason):
        await world.configs.alter(world.root, [setting("max.partition.num", "7"), change])
    assert await world.configs.number("max.partition.num") == 1000


async def test_server_tags(world: StreamWorld) -> None:
    with refused(ErrorCode.SERVER_NOT_EXIST):
        await world.servers.tag(world.root, [0, 7], ServerTag.PERMANENT_OFFLINE)
    with refused(ErrorCode.SERVER_TAG_NOT_EXIST):
        await world.servers.untag(world.root, [0], ServerTag.PERMANENT_OFFLINE)
    with refused(ErrorCode.INVALID_CONFIG):
        await world.servers.tag(world.root, [0], 5)
    await world.servers.tag(world.root, [0], ServerTag.PERMANENT_OFFLINE)
    with refused(ErrorCode.SERVER_TAG_ALREADY_EXIST):
        await world.servers.tag(world.root, [0], ServerTag.TEMPORARY_OFFLINE)
    with refused(ErrorCode.REBALANCE_FAILURE):
        await world.servers.rebalance(world.root, [0])
    with refused(ErrorCode.SERVER_TAG_NOT_EXIST):
        await world.servers.untag(world.root, [0], ServerTag.TEMPORARY_OFFLINE)
    await world.servers.untag(world.root, [0], ServerTag.PERMANENT_OFFLINE)
    assert [kind for kind, _ in await world.events("StreamServerTagged", "StreamServerUntagged")] == [
        "StreamServerTagged",
        "StreamServerUntagged",
    ]


async def test_rebalance_is_completed_at_once(world: StreamWorld) -> None:
    assert await world.servers.progress(world.root) is None
    with refused(ErrorCode.NO_REBALANCE_IN_PROGRESS):
        await world.servers.progress(world.root, "nothing")
    for goals in ([], [9]):
        with refused(ErrorCode.REBALANCE_FAILURE):
            await world.servers.rebalance(world.root, goals)
    first = await world.servers.rebalance(world.root, [0, 1])
    second = await world.servers.rebalance(world.root, [2])
    found = await world.servers.progress(world.root)
    assert found is not None
    assert (found.id, found.status) == (second, RebalanceStatus.COMPLETED)
    assert await world.servers.progress(world.root, second) == found
    for rebalance_id in (first, second, None):
        with refused(ErrorCode.NO_REBALANCE_IN_PROGRESS):
            await world.servers.cancel(world.root, rebalance_id)
    with refused(ErrorCode.NO_REBALANCE_IN_PROGRESS):
        await world.servers.progress(world.root, first)


async def test_producer_offsets_are_registered_once(world: StreamWorld) -> None:
    table = await world.table()
    offsets = (BucketOffset(TableBucket(table.id, None, 0), 10), BucketOffset(TableBucket(table.id, 5, 1), 0))
    assert await world.producers.register(world.root, "job-1", offsets)
    assert not await world.producers.register(world.root, "job-1", offsets[:1], 5)
    found = await world.producers.get(world.root, "job-1")
    assert found is not None
    assert found.offsets == offsets
    assert found.expires_ms == world.clock.now_ms() + 86_400_000
    await world.producers.delete(world.root, "job-1")
    await world.producers.delete(world.root, "job-1")
    assert await world.producers.get(world.root, "job-1") is None


async def test_expired_producer_id_can_be_registered_again(world: StreamWorld) -> None:
    table = await world.table()
    offsets = [BucketOffset(TableBucket(table.id, None, 0), 10)]
    assert await world.producers.register(world.root, "job-1", offsets, 1000)
    world.clock.advance(1)
    assert await world.producers.get(world.root, "job-1") is None
    assert await world.producers.register(world.root, "job-1", [], 1000)
    world.clock.advance(1)
    assert await world.producers.expire() == 1
    assert await world.producers.expire() == 0


@pytest.mark.parametrize("name", ["", "a/b", "..", "a b", "x" * 256, "ä"])
async def test_invalid_producer_ids_are_rejected(light_world: StreamWorld, name: str) -> None:
    with refused(ErrorCode.INVALID_PRODUCER_ID):
        await light_world.producers.register(light_world.root, name, [])


async def test_producer_offsets_of_missing_tables(light_world: StreamWorld) -> None:
    world = light_world
    missing = [BucketOffset(TableBucket(999, None, 0), 1)]
    with refused(ErrorCode.UNKNOWN_TABLE_OR_BUCKET):
        await world.producers.register(world.root, "job-1", missing)
    with refused(ErrorCode.INVALID_CONFIG):
        await world.producers.register(world.root, "job-1", [], 0)
    table = await world.table()
    await world.producers.register(world.root, "job-1", [BucketOffset(TableBucket(table.id, None, 0), 1)])
    await world.tables.drop(world.root, "fluss", "orders")
    assert await world.producers.get(world.root, "job-1") is not None
    await world.producers.delete(world.root, "job-1")


async def test_cluster_administration_requires_permission(light_world: StreamWorld) -> None:
    world = light_world
    table = await world.table()
    offsets = [BucketOffset(TableBucket(table.id, None, 0), 1)]
    await world.producers.register(world.root, "job-1", offsets)
    caller = await world.caller(await world.user("alice"))
    for call in (
        world.configs.describe(caller),
        world.configs.alter(caller, []),
        world.servers.tag(caller, [0], 0),
        world.servers.untag(caller, [0], 0),
        world.servers.rebalance(caller, [0]),
        world.servers.progress(caller),
        world.servers.cancel(caller),
        world.producers.register(caller, "job-2", offsets),
        world.producers.get(caller, "job-1"),
        world.producers.delete(caller, "job-1"),
    ):
        with pytest.raises(AccessDenied):
            await call
