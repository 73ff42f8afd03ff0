"""Calls that alter tables and databases."""

from __future__ import annotations

from collections.abc import Iterable

from lakebed.fluss.errors import ErrorCode, FlussError
from lakebed.fluss.schema import Aggregation
from lakebed.fluss.types import parse_type
from lakebed.objects.model import Caller
from lakebed.streams.admin.altering import TableAlterations
from lakebed.streams.json_documents import read_json
from lakebed.streams.schema_evolution import AddColumn, OptionChange

from .. import messages_pb2 as pb
from ..calls import AnyCall, Call

__all__ = ["altering_calls", "option_changes"]


def altering_calls(altering: TableAlterations) -> tuple[AnyCall, ...]:
    """The calls that alter tables and databases."""

    async def table(caller: Caller, request: pb.AlterTableRequest) -> pb.AlterTableResponse:
        if request.drop_columns or request.rename_columns or request.modify_columns:
            raise FlussError(
                ErrorCode.INVALID_ALTER_TABLE, "columns can only be added, not dropped, renamed or modified"
            )
        path = request.table_path
        await altering.authorize(caller, path.database_name, path.table_name)
        await altering.table(
            caller,
            path.database_name,
            path.table_name,
            [_column(each) for each in request.add_columns],
            option_changes(request.config_changes),
            ignore_if_not_exists=request.ignore_if_not_exists,
        )
        return pb.AlterTableResponse()

    async def database(caller: Caller, request: pb.AlterDatabaseRequest) -> pb.AlterDatabaseResponse:
        await altering.database(
            caller,
            request.database_name,
            option_changes(request.config_changes),
            request.comment if request.HasField("comment") else None,
            ignore_if_not_exists=request.ignore_if_not_exists,
        )
        return pb.AlterDatabaseResponse()

    return (
        Call(1044, "ALTER_TABLE", pb.AlterTableRequest, table),
        Call(1060, "ALTER_DATABASE", pb.AlterDatabaseRequest, database),
    )


def option_changes(changes: Iterable[pb.ConfigChange]) -> list[OptionChange]:
    """Changes of table options or cluster configs."""
    return [OptionChange(each.key, each.operation, each.value if each.HasField("value") else None) for each in changes]


def _column(message: pb.AddColumn) -> AddColumn:
    try:
        type_ = parse_type(read_json(message.data_type_json, ErrorCode.INVALID_ALTER_TABLE, "the type of a column"))
        aggregation = None
        if message.HasField("aggregation"):
            parameters = {pair.key: pair.value for pair in message.aggregation_parameters}
            aggregation = Aggregation.parse({"type": message.aggregation, "parameters": parameters})
    except FlussError as failure:
        raise FlussError(ErrorCode.INVALID_ALTER_TABLE, f"{failure}. column={message.column_name}") from failure
    comment = message.comment if message.HasField("comment") else None
    return AddColumn(message.column_name, type_, message.position, comment, aggregation)
