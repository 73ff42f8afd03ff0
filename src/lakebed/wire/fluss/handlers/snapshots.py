"""Calls on KV snapshots, and on the leases that keep them.

Clients that can read the object store get the latest snapshot of each bucket: a folder that any RocksDB opens. Other
clients get none and read the log from its start, which fails if the log no longer has its first records (ADR 37).
"""

from __future__ import annotations

from lakebed.fluss.errors import ErrorCode, FlussError
from lakebed.objects.model import Caller
from lakebed.streams.authorization import StreamOperation
from lakebed.streams.buckets.open_buckets import OpenBuckets
from lakebed.streams.file_access import FileAccess
from lakebed.streams.kv.snapshots import KvSnapshots
from lakebed.streams.partitions import StreamPartitions
from lakebed.streams.seam import TableBucket
from lakebed.streams.table import StreamTable
from lakebed.streams.tables import StreamTables

from .. import messages_pb2 as pb
from ..calls import AnyCall, Call
from ..transport.clients import client_of

__all__ = ["SnapshotCalls"]


class SnapshotCalls:
    """The calls on KV snapshots."""

    def __init__(
        self,
        tables: StreamTables,
        partitions: StreamPartitions,
        buckets: OpenBuckets,
        snapshots: KvSnapshots,
        files: FileAccess,
    ) -> None:
        self._tables = tables
        self._partitions = partitions
        self._buckets = buckets
        self._snapshots = snapshots
        self._files = files

    def calls(self) -> tuple[AnyCall, ...]:
        """The table entries of the calls."""
        return (
            Call(1023, "GET_LATEST_KV_SNAPSHOTS", pb.GetLatestKvSnapshotsRequest, self.latest),
            Call(1024, "GET_KV_SNAPSHOT_METADATA", pb.GetKvSnapshotMetadataRequest, self.metadata),
            Call(1056, "ACQUIRE_KV_SNAPSHOT_LEASE", pb.AcquireKvSnapshotLeaseRequest, self.acquire),
            Call(1057, "RELEASE_KV_SNAPSHOT_LEASE", pb.ReleaseKvSnapshotLeaseRequest, self.release),
            Call(1058, "DROP_KV_SNAPSHOT_LEASE", pb.DropKvSnapshotLeaseRequest, self.drop),
            Call(1064, "LIST_KV_SNAPSHOTS", pb.ListKvSnapshotsRequest, self.listed),
        )

    async def latest(self, caller: Caller, request: pb.GetLatestKvSnapshotsRequest) -> pb.GetLatestKvSnapshotsResponse:
        """Where readers of each bucket start: at a snapshot, or at the start of the log.

        Error codes: TABLE_NOT_EXIST, NON_PRIMARY_KEY_TABLE, PARTITION_NOT_EXISTS; KV_SNAPSHOT_NOT_EXIST if neither is
        possible.
        """
        table = await self._tables.get(caller, request.table_path.database_name, request.table_path.table_name)
        _require_primary_key(table)
        response = pb.GetLatestKvSnapshotsResponse(table_id=table.id)
        partition_id = None
        if table.is_partitioned:
            response.partition_id = partition_id = (await self._partitions.by_name(table, request.partition_name)).id
        tokens = client_of(caller).takes_session_tokens
        is_reached = await self._files.covers(caller, table.id, sends_tokens=tokens)
        for number in range(table.bucket_count):
            bucket = TableBucket(table.id, partition_id, number)
            found = await self._snapshots.latest(bucket) if is_reached else None
            if found is not None:
                response.latest_snapshots.add(bucket_id=number, snapshot_id=found.id, log_offset=found.log_offset)
                continue
            if (await self._buckets.get(table, partition_id, number)).log.start_offset > 0:
                raise FlussError(
                    ErrorCode.KV_SNAPSHOT_NOT_EXIST,
                    "the log no longer has its first records and the client cannot read snapshots: use "
                    f"client.scanner.kv.batch-strategy=server-scan. table={table.path} bucket={number}",
                )
            response.latest_snapshots.add(bucket_id=number)
        return response

    async def metadata(
        self, caller: Caller, request: pb.GetKvSnapshotMetadataRequest
    ) -> pb.GetKvSnapshotMetadataResponse:
        """The files of a snapshot. Error codes: UNKNOWN_TABLE_OR_BUCKET, KV_SNAPSHOT_NOT_EXIST."""
        await self._tables.authorized(caller, StreamOperation.DESCRIBE, request.table_id)
        partition_id = request.partition_id if request.HasField("partition_id") else None
        found = await self._snapshots.get(
            TableBucket(request.table_id, partition_id, request.bucket_id), request.snapshot_id
        )
        location = self._files.location
        before = "" if location is None else f"{location.address}/"
        files = [pb.SnapshotFile(remote_path=before + file.key, local_file_name=file.name) for file in found.files]
        return pb.GetKvSnapshotMetadataResponse(log_offset=found.log_offset, snapshot_files=files)

    async def listed(self, caller: Caller, request: pb.ListKvSnapshotsRequest) -> pb.ListKvSnapshotsResponse:
        """The snapshots of a table or partition. Error codes: UNKNOWN_TABLE_OR_BUCKET, NON_PRIMARY_KEY_TABLE."""
        _require_primary_key(await self._tables.authorized(caller, StreamOperation.DESCRIBE, request.table_id))
        partition_id = request.partition_id if request.HasField("partition_id") else None
        response = pb.ListKvSnapshotsResponse(table_id=request.table_id, partition_id=partition_id)
        for each in await self._snapshots.listed(request.table_id, partition_id):
            response.active_snapshots.add(bucket_id=each.bucket.bucket, snapshot_id=each.id, log_offset=each.log_offset)
        return response

    async def acquire(
        self, caller: Caller, request: pb.AcquireKvSnapshotLeaseRequest
    ) -> pb.AcquireKvSnapshotLeaseResponse:
        """Lease snapshots; the response has the unavailable ones.

        Error codes: UNKNOWN_TABLE_OR_BUCKET, INVALID_CONFIG.
        """
        requested = []
        for table in request.snapshots_to_lease:
            await self._tables.authorized(caller, StreamOperation.READ, table.table_id)
            for each in table.bucket_snapshots:
                partition_id = each.partition_id if each.HasField("partition_id") else None
                requested.append((TableBucket(table.table_id, partition_id, each.bucket_id), each.snapshot_id))
        response = pb.AcquireKvSnapshotLeaseResponse()
        tables: dict[int, pb.LeasedTable] = {}
        for bucket, snapshot_id in await self._snapshots.lease(request.lease_id, request.lease_duration_ms, requested):
            if bucket.table_id not in tables:
                tables[bucket.table_id] = response.unavailable_snapshots.add(table_id=bucket.table_id)
            tables[bucket.table_id].bucket_snapshots.add(
                bucket_id=bucket.bucket, partition_id=bucket.partition_id, snapshot_id=snapshot_id
            )
        return response

    async def release(
        self, caller: Caller, request: pb.ReleaseKvSnapshotLeaseRequest
    ) -> pb.ReleaseKvSnapshotLeaseResponse:
        """Release the snapshots of buckets from a lease. Idempotent. Error codes: UNKNOWN_TABLE_OR_BUCKET."""
        buckets = []
        for each in request.buckets_to_release:
            await self._tables.authorized(caller, StreamOperation.READ, each.table_id)
            partition_id = each.partition_id if each.HasField("partition_id") else None
            buckets.append(TableBucket(each.table_id, partition_id, each.bucket_id))
        await self._snapshots.release(request.lease_id, buckets)
        return pb.ReleaseKvSnapshotLeaseResponse()

    async def drop(self, caller: Caller, request: pb.DropKvSnapshotLeaseRequest) -> pb.DropKvSnapshotLeaseResponse:
        """End a lease. Idempotent. Needs no permission but the lease id."""
        await self._snapshots.drop_lease(request.lease_id)
        return pb.DropKvSnapshotLeaseResponse()


def _require_primary_key(table: StreamTable) -> None:
    if not table.has_primary_key:
        raise FlussError(ErrorCode.NON_PRIMARY_KEY_TABLE, f"the table has no primary key. table={table.path}")
