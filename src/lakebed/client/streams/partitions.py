"""Partitions for writers: names of rows' partitions, lookup by name, and creation."""

from __future__ import annotations

import datetime
from collections.abc import Sequence
from typing import Any, Final

import pyarrow as pa

from lakebed.fluss.errors import ErrorCode, FlussError
from lakebed.fluss.rows.encoding import column_values
from lakebed.fluss.schema import Schema
from lakebed.fluss.types import DataType, TypeRoot

from .kv_scans import PhysicalTable, StreamCalls
from .messages import messages, number, text, write_fields

__all__ = ["check_partition", "create_partition", "find_partition", "partition_values"]

GET_METADATA: Final = 1012
CREATE_PARTITION: Final = 1036
_EPOCH: Final = datetime.datetime(1970, 1, 1)
_MILLIS: Final = 1000


def partition_values(schema: Schema, keys: Sequence[str], rows: pa.RecordBatch) -> list[tuple[str, ...]]:
    """The partition values of each row as text; joined by `$` they are the partition's name.

    Error codes: PARTITION_SPEC_INVALID for null and for types that cannot be partition keys.
    """
    return list(zip(*(_texts(schema, key, rows.column(key)) for key in keys), strict=True))


def check_partition(table: PhysicalTable, rows: pa.RecordBatch) -> None:
    """Raises PARTITION_SPEC_INVALID unless all rows belong to the partition; the server does not check this."""
    if not table.partition_keys:
        return
    for values in dict.fromkeys(partition_values(table.schema, table.partition_keys, rows)):
        if "$".join(values) != table.partition:
            raise FlussError(
                ErrorCode.PARTITION_SPEC_INVALID,
                f"row of a different partition. partition={table.partition} row={'$'.join(values)}",
            )


def find_partition(calls: StreamCalls, database: str, table: str, name: str) -> int:
    """The id of a partition. Error codes: PARTITION_NOT_EXISTS."""
    response = calls.call(GET_METADATA, write_fields({2: write_fields({1: database, 2: table, 3: name})}))
    for each in messages(response, 4):
        if text(each, 2).decode() == name:
            return number(each, 3)
    raise FlussError(ErrorCode.PARTITION_NOT_EXISTS, f"no such partition. table={database}.{table} partition={name}")


def create_partition(calls: StreamCalls, database: str, table: str, keys: Sequence[str], values: Sequence[str]) -> None:
    """Create a partition unless it exists. Error codes: PARTITION_SPEC_INVALID, PARTITION_MAX_NUM, AUTHORIZATION."""
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
        raise FlussError(ErrorCode.PARTITION_SPEC_INVALID, f"null in a partition column. column={key}")
    values = column_values(column.type, array)
    texts = {value: _text(key, column.type, value) for value in set(values)}  # few distinct values, many rows
    return [texts[value] for value in values]


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
            # Fractions of a second as in pyfluss; the Java client omits trailing zeros.
            return moment + (f"{millis:03}{value[1]:06}" if value[1] else f"{millis:03}" if millis else "")
    # Clients disagree about the names of fractional numbers.
    raise FlussError(ErrorCode.PARTITION_SPEC_INVALID, f"type cannot be a partition key. column={key} type={type_}")
