"""Readers of KV tables start at a snapshot or at the start of the log, or get an error if both are impossible."""

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


class LogsFromOffset:
    """A bucket store with logs that start at the offset `start`."""

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
def logs() -> LogsFromOffset:
    return LogsFromOffset()


@pytest.fixture
def calls(light_world: StreamWorld, logs: LogsFromOffset) -> Callable[[str | None], SnapshotCalls]:
    buckets = OpenBuckets(logs, light_world.tables, light_world.partitions)
    snapshots = KvSnapshots(light_world.store, light_world.clock)

    def make(address: str | None) -> SnapshotCalls:
        location = None if address is None else FileLocation(address, "lake", "streams", "us-east-1", None, False)
        files = FileAccess(light_world.clock, light_world.authorizer, light_world.tables, location)
        return SnapshotCalls(light_world.tables, light_world.partitions, buckets, snapshots, files)

    return make


async def fence(tx: Transaction) -> None:
    """Never fenced."""


async def add_snapshot(world: StreamWorld, table: StreamTable, bucket: int) -> None:
    files = (SnapshotFile("CURRENT", f"streams/kv/{table.id}/{bucket}/snap-1/CURRENT", 16),)
    snapshot = KvSnapshot(TableBucket(table.id, None, bucket), 1, 40, 7, "line", files)
    await KvSnapshots(world.store, world.clock).add(snapshot, fence)


def latest(table: StreamTable) -> pb.GetLatestKvSnapshotsRequest:
    path = pb.TablePath(database_name=table.path.database, table_name=table.path.name)
    return pb.GetLatestKvSnapshotsRequest(table_path=path)


async def test_client_with_file_access_starts_at_the_latest_snapshot(
    light_world: StreamWorld, calls: Callable[[str | None], SnapshotCalls]
) -> None:
    table = await light_world.table(key=["id"], bucket_count=2)
    await add_snapshot(light_world, table, 1)
    response = await calls("s3://lake").latest(light_world.root, latest(table))
    first, second = response.latest_snapshots
    assert (first.bucket_id, first.HasField("snapshot_id"), first.HasField("log_offset")) == (0, False, False)
    assert (second.bucket_id, second.snapshot_id, second.log_offset) == (1, 1, 40)
    request = pb.GetKvSnapshotMetadataRequest(table_id=table.id, bucket_id=1, snapshot_id=1)
    found = await calls("s3://lake").metadata(light_world.root, request)
    (file,) = found.snapshot_files
    assert (file.remote_path, file.local_file_name) == (
        f"s3://lake/streams/kv/{table.id}/1/snap-1/CURRENT",
        "CURRENT",
    )


async def test_client_without_file_access_starts_at_the_start_of_the_log(
    light_world: StreamWorld, calls: Callable[[str | None], SnapshotCalls]
) -> None:
    table = await light_world.table(key=["id"], bucket_count=1)
    await add_snapshot(light_world, table, 0)
    (only,) = (await calls(None).latest(light_world.root, latest(table))).latest_snapshots
    assert (only.bucket_id, only.HasField("snapshot_id")) == (0, False)


async def test_truncated_log_without_a_readable_snapshot_is_an_error(
    light_world: StreamWorld, logs: LogsFromOffset, calls: Callable[[str | None], SnapshotCalls]
) -> None:
    table = await light_world.table(key=["id"], bucket_count=2)
    logs.start = 30
    await add_snapshot(light_world, table, 0)
    for address in (None, "s3://lake"):
        with pytest.raises(FlussError) as raised:
            await calls(address).latest(light_world.root, latest(table))
        assert raised.value.code is ErrorCode.KV_SNAPSHOT_NOT_EXIST
        assert "server-scan" in str(raised.value)
    await add_snapshot(light_world, table, 1)
    assert len((await calls("s3://lake").latest(light_world.root, latest(table))).latest_snapshots) == 2
