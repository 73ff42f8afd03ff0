"""Calls on tables and partitions."""

from __future__ import annotations

import msgspec

from lakebed.objects.model import Caller
from lakebed.streams.partitions import StreamPartitions
from lakebed.streams.tables import StreamTables

from .. import messages_pb2 as pb
from ..calls import AnyCall, Call

__all__ = ["partition_calls", "table_calls"]


def table_calls(tables: StreamTables) -> tuple[AnyCall, ...]:
    """The calls on tables."""

    async def create(caller: Caller, request: pb.CreateTableRequest) -> pb.CreateTableResponse:
        path = request.table_path
        await tables.create(
            caller, path.database_name, path.table_name, request.table_json, ignore_if_exists=request.ignore_if_exists
        )
        return pb.CreateTableResponse()

    async def drop(caller: Caller, request: pb.DropTableRequest) -> pb.DropTableResponse:
        path = request.table_path
        await tables.drop(
            caller, path.database_name, path.table_name, ignore_if_not_exists=request.ignore_if_not_exists
        )
        return pb.DropTableResponse()

    async def info(caller: Caller, request: pb.GetTableInfoRequest) -> pb.GetTableInfoResponse:
        table = await tables.get(caller, request.table_path.database_name, request.table_path.table_name)
        return pb.GetTableInfoResponse(
            table_id=table.id,
            schema_id=table.schema_id,
            table_json=table.definition.document,
            created_time=table.created_ms,
            modified_time=table.modified_ms,
        )

    async def exists(caller: Caller, request: pb.TableExistsRequest) -> pb.TableExistsResponse:
        path = request.table_path
        return pb.TableExistsResponse(exists=await tables.exists(caller, path.database_name, path.table_name))

    async def schema(caller: Caller, request: pb.GetTableSchemaRequest) -> pb.GetTableSchemaResponse:
        table = await tables.get(caller, request.table_path.database_name, request.table_path.table_name)
        schema_id = request.schema_id if request.HasField("schema_id") else table.schema_id
        found = await tables.schema(table, schema_id)
        return pb.GetTableSchemaResponse(schema_id=schema_id, schema_json=msgspec.json.encode(found.document()))

    return (
        Call(1005, "CREATE_TABLE", pb.CreateTableRequest, create),
        Call(1006, "DROP_TABLE", pb.DropTableRequest, drop),
        Call(1007, "GET_TABLE_INFO", pb.GetTableInfoRequest, info),
        Call(1010, "TABLE_EXISTS", pb.TableExistsRequest, exists),
        Call(1011, "GET_TABLE_SCHEMA", pb.GetTableSchemaRequest, schema),
    )


def partition_calls(partitions: StreamPartitions) -> tuple[AnyCall, ...]:
    """The calls on partitions."""

    async def create(caller: Caller, request: pb.CreatePartitionRequest) -> pb.CreatePartitionResponse:
        path = request.table_path
        await partitions.create(
            caller,
            path.database_name,
            path.table_name,
            _values(request.partition_spec),
            ignore_if_exists=request.ignore_if_exists,
        )
        return pb.CreatePartitionResponse()

    async def drop(caller: Caller, request: pb.DropPartitionRequest) -> pb.DropPartitionResponse:
        path = request.table_path
        await partitions.drop(
            caller,
            path.database_name,
            path.table_name,
            _values(request.partition_spec),
            ignore_if_not_exists=request.ignore_if_not_exists,
        )
        return pb.DropPartitionResponse()

    async def list_all(caller: Caller, request: pb.ListPartitionInfosRequest) -> pb.ListPartitionInfosResponse:
        path = request.table_path
        table, found = await partitions.list(
            caller, path.database_name, path.table_name, _values(request.partial_partition_spec)
        )
        response = pb.ListPartitionInfosResponse()
        for each in found:
            info = response.partitions_info.add(partition_id=each.id)
            info.partition_spec.SetInParent()
            for key, value in each.values(table).items():
                info.partition_spec.values.add(key=key, value=value)
        return response

    return (
        Call(1009, "LIST_PARTITION_INFOS", pb.ListPartitionInfosRequest, list_all),
        Call(1036, "CREATE_PARTITION", pb.CreatePartitionRequest, create),
        Call(1037, "DROP_PARTITION", pb.DropPartitionRequest, drop),
    )


def _values(spec: pb.PartitionSpec) -> dict[str, str]:
    return {pair.key: pair.value for pair in spec.values}
