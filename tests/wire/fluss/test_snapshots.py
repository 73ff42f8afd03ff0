"""Readers of keys begin where they find all of them, or are told that they would not."""

from __future__ import annotations

from collections.abc import Callable

import pytest

from lakebed.fluss.errors import ErrorCode, FlussError
from lakebed.meta.seam import Transaction
from lakebed.streams.buckets.open_buckets import OpenBucket, OpenBuckets
from lakebed.streams.file_access import FileAccess, FileLocation
from lakebed.streams.kv.snapshots import KvSnapshot, KvSnapshots, SnapshotFile
from lakebed.streams.partitions import StreamPartition
from lakebed.streams.seam import TableBucket
from lakebed.streams.table import StreamTable
from lakebed.wire.fluss import messages_pb2 as pb
from lakebed.wire.fluss.handlers.snapshots import SnapshotCalls
from tests.fixtures.memory_log import MemoryLog
from tests.streams.world import StreamWorld


class Shelf:
    """Where buckets are, with logs that begin where it is said."""

    start = 0

    async def open(self, table: StreamTable, partition: StreamPartition | None, bucket: TableBucket) -> OpenBucket:
        class Log(MemoryLog):
            start_offset = self.start

        return OpenBucket(bucket, Log())

    async def close(self, opened: OpenBucket) -> None:
        """Nothing is open."""

    async def remove(self, table_id: int, partition_id: int | None) -> None:
        """Nothing is stored."""


@pytest.fixture
def shelf() -> Shelf:
    return Shelf()


@pytest.fixture
def calls(light_world: StreamWorld, shelf: Shelf) -> Callable[[str | None], SnapshotCalls]:
    buckets = OpenBuckets(shelf, light_world.tables, light_world.partitions)
    snapshots = KvSnapshots(light_world.store, light_world.clock)

    def made(address: str | None) -> SnapshotCalls:
        place = None if address is None else FileLocation(address, "lake", "streams", "us-east-1", None, False)
        files = FileAccess(light_world.clock, light_world.authorizer, light_world.tables, place)
        return SnapshotCalls(
            light_world.authorizer, light_world.tables, light_world.partitions, buckets, snapshots, files
        )

    return made


async def fence(tx: Transaction) -> None:
    """Nobody else is the home."""


async def take(world: StreamWorld, table: StreamTable, bucket: int) -> None:
    files = (SnapshotFile("CURRENT", f"streams/kv/{table.id}/{bucket}/snap-1/CURRENT", 16),)
    snapshot = KvSnapshot(TableBucket(table.id, None, bucket), 1, 40, 7, "line", files)
    await KvSnapshots(world.store, world.clock).add(snapshot, fence)


def latest(table: StreamTable) -> pb.GetLatestKvSnapshotsRequest:
    path = pb.TablePath(database_name=table.path.database, table_name=table.path.name)
    return pb.GetLatestKvSnapshotsRequest(table_path=path)


async def test_who_reaches_the_byte_store_begins_with_snapshots(
    light_world: StreamWorld, calls: Callable[[str | None], SnapshotCalls]
) -> None:
    table = await light_world.table(key=["id"], bucket_count=2)
    await take(light_world, table, 1)
    answer = await calls("s3://lake").latest(light_world.root, latest(table))
    first, second = answer.latest_snapshots
    assert (first.bucket_id, first.HasField("snapshot_id"), first.HasField("log_offset")) == (0, False, False)
    assert (second.bucket_id, second.snapshot_id, second.log_offset) == (1, 1, 40)
    asked = pb.GetKvSnapshotMetadataRequest(table_id=table.id, bucket_id=1, snapshot_id=1)
    found = await calls("s3://lake").metadata(light_world.root, asked)
    (file,) = found.snapshot_files
    assert (file.remote_path, file.local_file_name) == (
        f"s3://lake/streams/kv/{table.id}/1/snap-1/CURRENT",
        "CURRENT",
    )


async def test_who_does_not_begins_at_the_start_of_the_log(
    light_world: StreamWorld, calls: Callable[[str | None], SnapshotCalls]
) -> None:
    table = await light_world.table(key=["id"], bucket_count=1)
    await take(light_world, table, 0)
    (only,) = (await calls(None).latest(light_world.root, latest(table))).latest_snapshots
    assert (only.bucket_id, only.HasField("snapshot_id")) == (0, False)


async def test_nobody_is_sent_to_a_log_that_has_lost_its_start(
    light_world: StreamWorld, shelf: Shelf, calls: Callable[[str | None], SnapshotCalls]
) -> None:
    table = await light_world.table(key=["id"], bucket_count=2)
    shelf.start = 30
    await take(light_world, table, 0)
    for address in (None, "s3://lake"):
        with pytest.raises(FlussError) as raised:
            await calls(address).latest(light_world.root, latest(table))
        assert raised.value.code is ErrorCode.KV_SNAPSHOT_NOT_EXIST
        assert "server-scan" in str(raised.value)
    await take(light_world, table, 1)
    assert len((await calls("s3://lake").latest(light_world.root, latest(table))).latest_snapshots) == 2
