"""Partitions of stream tables as writers see them: what the one of a row is called, which id it has, and its making."""

from __future__ import annotations

import datetime
from collections.abc import Sequence
from typing import Any, Final

import pyarrow as pa

from lakebed.fluss.errors import ErrorCode, FlussError
from lakebed.fluss.rows.encoding import column_values
from lakebed.fluss.schema import Schema
from lakebed.fluss.types import DataType, TypeRoot

from .kv_scans import ScannedTable, StreamCalls
from .messages import messages, number, text, write_fields

__all__ = ["check_partition", "create_partition", "find_partition", "partition_values"]

GET_METADATA: Final = 1012
CREATE_PARTITION: Final = 1036
_EPOCH: Final = datetime.datetime(1970, 1, 1)
_MILLIS: Final = 1000


def partition_values(schema: Schema, keys: Sequence[str], rows: pa.RecordBatch) -> list[tuple[str, ...]]:
    """What the partition of each row has for each key, as text: its name is these with `$` between them.

    Error codes: PARTITION_SPEC_INVALID for null and for types that no partition is named by.
    """
    return list(zip(*(_texts(schema, key, rows.column(key)) for key in keys), strict=True))


def check_partition(table: ScannedTable, rows: pa.RecordBatch) -> None:
    """Raises PARTITION_SPEC_INVALID unless all rows are of the partition: the server would have them without a look."""
    if not table.partition_keys:
        return
    for values in dict.fromkeys(partition_values(table.schema, table.partition_keys, rows)):
        if "$".join(values) != table.partition:
            raise FlussError(
                ErrorCode.PARTITION_SPEC_INVALID,
                f"a row is of another partition. partition={table.partition} of_the_row={'$'.join(values)}",
            )


def find_partition(calls: StreamCalls, database: str, table: str, name: str) -> int:
    """The id of a partition. Error codes: PARTITION_NOT_EXISTS."""
    answer = calls.call(GET_METADATA, write_fields({2: write_fields({1: database, 2: table, 3: name})}))
    for each in messages(answer, 4):
        if text(each, 2).decode() == name:
            return number(each, 3)
    raise FlussError(ErrorCode.PARTITION_NOT_EXISTS, f"no such partition. table={database}.{table} partition={name}")


def create_partition(calls: StreamCalls, database: str, table: str, keys: Sequence[str], values: Sequence[str]) -> None:
    """Make a partition unless there is one. Error codes: PARTITION_SPEC_INVALID, PARTITION_MAX_NUM, AUTHORIZATION."""
    spec = b"".join(
        write_fields({1: write_fields({1: key, 2: value})}) for key, value in zip(keys, values, strict=True)
    )
    path = write_fields({1: database, 2: table})
    calls.call(CREATE_PARTITION, write_fields({1: path, 2: spec, 3: True}))


def _texts(schema: Schema, key: str, array: pa.Array) -> list[str]:
    column = schema.column(key)
    if column is None:
        raise FlussError(ErrorCode.PARTITION_SPEC_INVALID, f"no such column. column={key}")
    if array.null_count:
        raise FlussError(ErrorCode.PARTITION_SPEC_INVALID, f"a row has a value for its partition. column={key}")
    values = column_values(column.type, array)
    # There are few of them, however many rows.
    said = {value: _text(key, column.type, value) for value in set(values)}
    return [said[value] for value in values]


def _text(key: str, type_: DataType, value: Any) -> str:
    match type_.root:
        case TypeRoot.STRING | TypeRoot.CHAR:
            return str(value)
        case TypeRoot.BOOLEAN:
            return "true" if value else "false"
        case TypeRoot.TINYINT | TypeRoot.SMALLINT | TypeRoot.INT | TypeRoot.BIGINT:
            return str(value)
        case TypeRoot.DATE:
            return (_EPOCH.date() + datetime.timedelta(days=value)).isoformat()
        case TypeRoot.BYTES | TypeRoot.BINARY:
            return bytes(value).hex()
        case TypeRoot.TIME:
            seconds, millis = divmod(value, _MILLIS)
            return f"{seconds // 3600:02}-{seconds // 60 % 60:02}-{seconds % 60:02}_{millis:03}"
        case TypeRoot.TIMESTAMP | TypeRoot.TIMESTAMP_LTZ:
            seconds, millis = divmod(value[0], _MILLIS)
            moment = f"{_EPOCH + datetime.timedelta(seconds=seconds):%Y-%m-%d-%H-%M-%S}_"
            # Of parts of a second as pyfluss has them. The Java client leaves zeros at the end away.
            return moment + (f"{millis:03}{value[1]:06}" if value[1] else f"{millis:03}" if millis else "")
    # Of fractions each client has names of its own.
    raise FlussError(
        ErrorCode.PARTITION_SPEC_INVALID, f"no partition is named by such a column. column={key} type={type_}"
    )
