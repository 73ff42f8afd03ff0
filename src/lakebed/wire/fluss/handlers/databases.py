"""Calls on databases."""

from __future__ import annotations

from lakebed.objects.model import Caller
from lakebed.streams.databases import StreamDatabases

from .. import messages_pb2 as pb
from ..calls import AnyCall, Call

__all__ = ["database_calls"]


def database_calls(databases: StreamDatabases) -> tuple[AnyCall, ...]:
    """The calls on databases."""

    async def create(caller: Caller, request: pb.CreateDatabaseRequest) -> pb.CreateDatabaseResponse:
        await databases.create(
            caller, request.database_name, request.database_json, ignore_if_exists=request.ignore_if_exists
        )
        return pb.CreateDatabaseResponse()

    async def drop(caller: Caller, request: pb.DropDatabaseRequest) -> pb.DropDatabaseResponse:
        await databases.drop(
            caller,
            request.database_name,
            ignore_if_not_exists=request.ignore_if_not_exists,
            cascade=request.cascade,
        )
        return pb.DropDatabaseResponse()

    async def list_all(caller: Caller, request: pb.ListDatabasesRequest) -> pb.ListDatabasesResponse:
        found = await databases.list(caller)
        response = pb.ListDatabasesResponse(database_name=[each.name for each in found])
        if request.include_summary:
            for each in found:
                response.database_summary.add(
                    database_name=each.name, created_time=each.created_ms, table_count=each.table_count
                )
        return response

    async def exists(caller: Caller, request: pb.DatabaseExistsRequest) -> pb.DatabaseExistsResponse:
        return pb.DatabaseExistsResponse(exists=await databases.exists(caller, request.database_name))

    async def info(caller: Caller, request: pb.GetDatabaseInfoRequest) -> pb.GetDatabaseInfoResponse:
        found = await databases.get(caller, request.database_name)
        return pb.GetDatabaseInfoResponse(
            database_json=found.document, created_time=found.created_ms, modified_time=found.modified_ms
        )

    async def list_tables(caller: Caller, request: pb.ListTablesRequest) -> pb.ListTablesResponse:
        return pb.ListTablesResponse(table_name=await databases.list_tables(caller, request.database_name))

    return (
        Call(1001, "CREATE_DATABASE", pb.CreateDatabaseRequest, create),
        Call(1002, "DROP_DATABASE", pb.DropDatabaseRequest, drop),
        Call(1003, "LIST_DATABASES", pb.ListDatabasesRequest, list_all),
        Call(1004, "DATABASE_EXISTS", pb.DatabaseExistsRequest, exists),
        Call(1008, "LIST_TABLES", pb.ListTablesRequest, list_tables),
        Call(1035, "GET_DATABASE_INFO", pb.GetDatabaseInfoRequest, info),
    )
