"""Calls on lake tiering: tiered offsets of tables, and the coordination of tiering jobs."""

from __future__ import annotations

from collections.abc import Iterable

from lakebed.core.errors import LakebedError
from lakebed.objects.model import Caller
from lakebed.streams.lake.schedule import TieringStats
from lakebed.streams.lake.service import LakeTiering, ReportResult, TieringReport
from lakebed.streams.partitions import StreamPartitions

from .. import messages_pb2 as pb
from ..calls import AnyCall, Call
from ..errors import failure_message, set_failure

__all__ = ["lake_calls"]


def lake_calls(lake: LakeTiering, partitions: StreamPartitions) -> tuple[AnyCall, ...]:
    """The calls on lake tiering."""

    async def snapshot(caller: Caller, request: pb.GetLakeSnapshotRequest) -> pb.GetLakeSnapshotResponse:
        table, found = await lake.snapshot(
            caller,
            request.table_path.database_name,
            request.table_path.table_name,
            request.snapshot_id if request.HasField("snapshot_id") else None,
            readable=request.readable,
        )
        names: dict[int | None, str] = {}
        if table.is_partitioned:
            names |= {each.id: each.name for each in await partitions.of(table)}
        response = pb.GetLakeSnapshotResponse(table_id=table.id, snapshot_id=found.snapshot_id)
        for (partition_id, bucket), offset in found.offsets.items():
            response.bucket_snapshots.add(
                bucket_id=bucket, log_offset=offset, partition_id=partition_id, partition_name=names.get(partition_id)
            )
        return response

    async def prepare(
        caller: Caller, request: pb.PrepareLakeTableSnapshotRequest
    ) -> pb.PrepareLakeTableSnapshotResponse:
        await lake.authorize(caller)
        response = pb.PrepareLakeTableSnapshotResponse()
        for table in request.tables:
            added = response.tables.add(table_id=table.table_id)
            try:
                added.lake_table_offsets_path = await lake.prepare(
                    caller,
                    table.table_id,
                    _offsets(table.bucket_offsets),
                    from_nothing=request.ignore_previous_table_offsets,
                )
            except LakebedError as error:
                set_failure(added, error)
        return response

    async def commit(caller: Caller, request: pb.CommitLakeTableSnapshotRequest) -> pb.CommitLakeTableSnapshotResponse:
        await lake.authorize(caller)
        response = pb.CommitLakeTableSnapshotResponse()
        committed = {each.table_id for each in request.snapshots}
        for each in request.snapshots:
            added = response.tables.add(table_id=each.table_id)
            try:
                await lake.commit(
                    caller,
                    each.table_id,
                    each.snapshot_id,
                    each.tiered_offsets_path,
                    each.readable_offsets_path if each.HasField("readable_offsets_path") else None,
                    each.earliest_snapshot_id_to_keep if each.HasField("earliest_snapshot_id_to_keep") else None,
                )
            except LakebedError as error:
                set_failure(added, error)
        for old in request.tables:
            # The fields of older jobs; newer jobs send both.
            if old.table_id in committed:
                continue
            added = response.tables.add(table_id=old.table_id)
            try:
                name = await lake.prepare(caller, old.table_id, _offsets(old.buckets))
                await lake.commit(caller, old.table_id, old.snapshot_id, name, name)
            except LakebedError as error:
                set_failure(added, error)
        return response

    async def heartbeat(caller: Caller, request: pb.LakeTieringHeartbeatRequest) -> pb.LakeTieringHeartbeatResponse:
        tiering, finished, failed = await lake.report(
            caller,
            _reports(request.tiering_tables),
            _reports(request.finished_tables),
            _reports(request.failed_tables),
            request.force_finished_tables,
        )
        assigned = await lake.next_table(caller) if request.request_table else None
        response = pb.LakeTieringHeartbeatResponse(
            coordinator_epoch=lake.coordinator_epoch,
            tiering_tables=_report_results(tiering),
            finished_tables=_report_results(finished),
            failed_tables=_report_results(failed),
        )
        if assigned is not None:
            table, epoch = assigned
            path = pb.TablePath(database_name=table.path.database, table_name=table.path.name)
            response.tiering_table.CopyFrom(pb.TableToTier(table_id=table.id, table_path=path, tiering_epoch=epoch))
        return response

    return (
        Call(1030, "COMMIT_LAKE_TABLE_SNAPSHOT", pb.CommitLakeTableSnapshotRequest, commit),
        Call(1032, "GET_LAKE_SNAPSHOT", pb.GetLakeSnapshotRequest, snapshot),
        Call(1042, "LAKE_TIERING_HEARTBEAT", pb.LakeTieringHeartbeatRequest, heartbeat),
        Call(1052, "PREPARE_LAKE_TABLE_SNAPSHOT", pb.PrepareLakeTableSnapshotRequest, prepare),
    )


def _offsets(messages: Iterable[pb.BucketOffset | pb.CommittedOffset]) -> dict[tuple[int | None, int], int]:
    return {
        (each.partition_id if each.HasField("partition_id") else None, each.bucket_id): each.log_end_offset
        for each in messages
        if each.HasField("log_end_offset")
    }


def _reports(messages: Iterable[pb.TieredTable]) -> list[TieringReport]:
    return [
        TieringReport(
            each.table_id,
            each.coordinator_epoch,
            each.tiering_epoch,
            TieringStats(
                each.stats.file_size if each.stats.HasField("file_size") else None,
                each.stats.record_count if each.stats.HasField("record_count") else None,
            ),
        )
        for each in messages
    ]


def _report_results(results: Iterable[ReportResult]) -> list[pb.TieringTableResult]:
    return [
        pb.TieringTableResult(table_id=table_id, error=None if failure is None else failure_message(failure))
        for table_id, failure in results
    ]
