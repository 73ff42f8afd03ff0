"""Arrow types of Fluss types: the layout of Arrow log batches, which contain no schema."""

from __future__ import annotations

from typing import Final

import pyarrow as pa

from .schema import Schema
from .types import DataType, TypeRoot

__all__ = ["arrow_schema", "arrow_type"]

_PLAIN: Final = {
    TypeRoot.BOOLEAN: pa.bool_(),
    TypeRoot.TINYINT: pa.int8(),
    TypeRoot.SMALLINT: pa.int16(),
    TypeRoot.INT: pa.int32(),
    TypeRoot.BIGINT: pa.int64(),
    TypeRoot.FLOAT: pa.float32(),
    TypeRoot.DOUBLE: pa.float64(),
    TypeRoot.CHAR: pa.utf8(),
    TypeRoot.STRING: pa.utf8(),
    TypeRoot.DATE: pa.date32(),
    TypeRoot.BYTES: pa.binary(),
}


def arrow_type(type_: DataType) -> pa.DataType:
    """The Arrow type of a Fluss type."""
    plain = _PLAIN.get(type_.root)
    if plain is not None:
        return plain
    match type_:
        case DataType(root=TypeRoot.DECIMAL):
            return pa.decimal128(type_.precision, type_.scale)
        case DataType(root=TypeRoot.TIME):
            unit = _unit(type_)
            return pa.time32(unit) if unit in ("s", "ms") else pa.time64(unit)
        case DataType(root=TypeRoot.TIMESTAMP):
            return pa.timestamp(_unit(type_))
        case DataType(root=TypeRoot.TIMESTAMP_LTZ):
            return pa.timestamp(_unit(type_), "UTC")
        case DataType(root=TypeRoot.BINARY):
            return pa.binary(type_.length)
        case DataType(root=TypeRoot.ARRAY, element=DataType() as element):
            return pa.list_(pa.field("element", arrow_type(element), element.is_nullable))
        case DataType(root=TypeRoot.MAP, key=DataType() as key, value=DataType() as value):
            return pa.map_(
                pa.field("key", arrow_type(key), nullable=False),
                pa.field("value", arrow_type(value), value.is_nullable),
            )
        case _:
            return pa.struct(
                [pa.field(each.name, arrow_type(each.type), each.type.is_nullable) for each in type_.fields]
            )


def arrow_schema(schema: Schema) -> pa.Schema:
    """The Arrow schema of whole rows."""
    return pa.schema(
        [pa.field(column.name, arrow_type(column.type), column.type.is_nullable) for column in schema.columns]
    )


def _unit(type_: DataType) -> str:
    precision = type_.precision or 0
    if precision == 0:
        return "s"
    return "ms" if precision <= 3 else "us" if precision <= 6 else "ns"
