"""Where what is: the call that clients find servers, tables and buckets by."""

from __future__ import annotations

import asyncio
from collections.abc import Callable
from typing import Final

from lakebed.fluss.errors import ErrorCode, FlussError
from lakebed.objects.model import Caller
from lakebed.streams.partitions import StreamPartition, StreamPartitions
from lakebed.streams.servers.leader import LeaderNode, Leadership
from lakebed.streams.table import StreamTable
from lakebed.streams.tables import StreamTables

from .. import messages_pb2 as pb
from ..calls import AnyCall, Call

__all__ = ["metadata_calls"]

MAX_TABLES: Final = 1000
"""Named by one call. Its answer has the whole definition of each."""

MAX_PARTITIONS: Final = 10_000
"""The same of partitions, of which it has the buckets."""

_NO_PARTITION_PAUSE_SECONDS: Final = 0.1


def metadata_calls(tables: StreamTables, partitions: StreamPartitions, leadership: Leadership) -> tuple[AnyCall, ...]:
    """The call, on these use cases."""

    async def metadata(caller: Caller, request: pb.GetMetadataRequest) -> pb.GetMetadataResponse:
        _check_count("tables", len(request.table_path), MAX_TABLES)
        _check_count("partitions", len(request.partitions_path) + len(request.partitions_id), MAX_PARTITIONS)
        node = await leadership.node(caller.host)
        answer = pb.GetMetadataResponse()
        # The home is both, and there is no other.
        answer.coordinator_server.CopyFrom(_node(node))
        answer.tablet_servers.append(_node(node))
        for path in request.table_path:
            _add_table(answer, await tables.get(caller, path.database_name, path.table_name), node)
        for asked in request.partitions_path:
            table = await tables.get(caller, asked.database_name, asked.table_name)
            try:
                partition = await partitions.by_name(table, asked.partition_name)
            except FlussError:
                # Writers of some clients ask again at once, until somebody has made the partition.
                await asyncio.sleep(_NO_PARTITION_PAUSE_SECONDS)
                raise
            _add_partition(answer, table, partition, node)
        for partition_id in request.partitions_id:
            table, partition = await _by_id(tables, partitions, partition_id)
            await tables.get(caller, *table.path)  # whether the caller may see it
            _add_partition(answer, table, partition, node)
        return answer

    return (Call(1012, "GET_METADATA", pb.GetMetadataRequest, metadata),)


async def _by_id(
    tables: StreamTables, partitions: StreamPartitions, partition_id: int
) -> tuple[StreamTable, StreamPartition]:
    """A partition and its table. Error codes: PARTITION_NOT_EXISTS.

    Not UNKNOWN_TABLE_OR_BUCKET, as for other calls by id: here clients take that for a server that is away, and ask no
    more of it. PARTITION_NOT_EXISTS they ignore while they scan, and go on with other partitions.
    """
    try:
        partition = await partitions.by_id(partition_id)
        return await tables.by_id(partition.table_id), partition
    except FlussError as failure:
        if failure.code is not ErrorCode.UNKNOWN_TABLE_OR_BUCKET:
            raise
        message = f"The partition id '{partition_id}' does not exist or you don't have permission to access it."
        raise FlussError(ErrorCode.PARTITION_NOT_EXISTS, message) from failure


def _check_count(what: str, count: int, most: int) -> None:
    if count > most:
        # Of the numbers that there are, this is one that clients do not ask again after.
        raise FlussError(
            ErrorCode.RECORD_TOO_LARGE, f"one call names too many {what}: ask in several. count={count} limit={most}"
        )


def _node(node: LeaderNode) -> pb.ServerNode:
    return pb.ServerNode(node_id=node.number, host=node.address.host, port=node.address.port)


def _add_table(answer: pb.GetMetadataResponse, table: StreamTable, node: LeaderNode) -> None:
    added = answer.table_metadata.add(
        table_path=pb.TablePath(database_name=table.path.database, table_name=table.path.name),
        table_id=table.id,
        schema_id=table.schema_id,
        table_json=table.definition.document,
        created_time=table.created_ms,
        modified_time=table.modified_ms,
    )
    if not table.is_partitioned:
        _add_buckets(added.buckets.add, table, node)


def _add_partition(
    answer: pb.GetMetadataResponse, table: StreamTable, partition: StreamPartition, node: LeaderNode
) -> None:
    added = answer.partition_metadata.add(table_id=table.id, partition_name=partition.name, partition_id=partition.id)
    _add_buckets(added.buckets.add, table, node)


def _add_buckets(add: Callable[..., pb.BucketMetadata], table: StreamTable, node: LeaderNode) -> None:
    for number in range(table.bucket_count):
        add(bucket_id=number, leader_id=node.number, replica_id=[node.number], leader_epoch=node.epoch)
