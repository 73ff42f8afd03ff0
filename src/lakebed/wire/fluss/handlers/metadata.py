"""The metadata call: clients find servers, tables and bucket leaders with it."""

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
"""Tables per call. The response has the whole definition of each."""

MAX_PARTITIONS: Final = 10_000
"""Partitions per call. The response has only the buckets of each."""

_NO_PARTITION_DELAY_SECONDS: Final = 0.1


def metadata_calls(tables: StreamTables, partitions: StreamPartitions, leadership: Leadership) -> tuple[AnyCall, ...]:
    """The metadata call."""

    async def metadata(caller: Caller, request: pb.GetMetadataRequest) -> pb.GetMetadataResponse:
        _check_count("tables", len(request.table_path), MAX_TABLES)
        _check_count("partitions", len(request.partitions_path) + len(request.partitions_id), MAX_PARTITIONS)
        node = await leadership.node(caller.host)
        response = pb.GetMetadataResponse()
        # The leader is coordinator and the only tablet server.
        response.coordinator_server.CopyFrom(_node(node))
        response.tablet_servers.append(_node(node))
        for path in request.table_path:
            _add_table(response, await tables.get(caller, path.database_name, path.table_name), node)
        for partition_path in request.partitions_path:
            table = await tables.get(caller, partition_path.database_name, partition_path.table_name)
            try:
                partition = await partitions.by_name(table, partition_path.partition_name)
            except FlussError:
                # Some clients retry without a pause until the partition exists.
                await asyncio.sleep(_NO_PARTITION_DELAY_SECONDS)
                raise
            _add_partition(response, table, partition, node)
        for partition_id in request.partitions_id:
            table, partition = await _by_id(tables, partitions, partition_id)
            await tables.get(caller, *table.path)  # authorizes the caller
            _add_partition(response, table, partition, node)
        return response

    return (Call(1012, "GET_METADATA", pb.GetMetadataRequest, metadata),)


async def _by_id(
    tables: StreamTables, partitions: StreamPartitions, partition_id: int
) -> tuple[StreamTable, StreamPartition]:
    """A partition and its table. Error codes: PARTITION_NOT_EXISTS.

    Other calls by id raise UNKNOWN_TABLE_OR_BUCKET. In this call clients treat that as an unavailable server and stop
    using it. Scanners ignore PARTITION_NOT_EXISTS and continue with other partitions.
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
        # Clients do not retry after this code.
        raise FlussError(ErrorCode.RECORD_TOO_LARGE, f"too many {what}: split the request. count={count} limit={most}")


def _node(node: LeaderNode) -> pb.ServerNode:
    return pb.ServerNode(node_id=node.number, host=node.address.host, port=node.address.port)


def _add_table(response: pb.GetMetadataResponse, table: StreamTable, node: LeaderNode) -> None:
    added = response.table_metadata.add(
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
    response: pb.GetMetadataResponse, table: StreamTable, partition: StreamPartition, node: LeaderNode
) -> None:
    added = response.partition_metadata.add(table_id=table.id, partition_name=partition.name, partition_id=partition.id)
    _add_buckets(added.buckets.add, table, node)


def _add_buckets(add: Callable[..., pb.BucketMetadata], table: StreamTable, node: LeaderNode) -> None:
    for number in range(table.bucket_count):
        add(bucket_id=number, leader_id=node.number, replica_id=[node.number], leader_epoch=node.epoch)
