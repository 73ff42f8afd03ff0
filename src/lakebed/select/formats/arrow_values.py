"""Converts columns of typed formats to the types of queries, one for each kind."""

from __future__ import annotations

from typing import Final

import pyarrow as pa
from pyarrow import compute as pc

from ..dialect.paths import FieldName, Index, Path
from ..errors import SelectCode, failure
from ..execution.relation import SqlKind
from .value_columns import to_json

_TIME_FORMAT: Final = "%Y-%m-%dT%H:%M:%SZ"
TYPES: Final = {SqlKind.BOOL: pa.bool_(), SqlKind.INT: pa.int64(), SqlKind.FLOAT: pa.float64()}
"""Arrow types of kinds that are not text. Decimals keep their type."""


def kind_of(type_: pa.DataType) -> SqlKind:
    """The kind of an Arrow type. Raises SelectError (UnsupportedParquetType)."""
    t = pa.types
    if t.is_dictionary(type_):
        return kind_of(type_.value_type)
    if t.is_boolean(type_):
        return SqlKind.BOOL
    if t.is_integer(type_):
        return SqlKind.DECIMAL if t.is_uint64(type_) else SqlKind.INT
    if t.is_floating(type_):
        return SqlKind.FLOAT
    if t.is_decimal(type_) and type_.precision <= 38:
        return SqlKind.DECIMAL
    if t.is_timestamp(type_) or t.is_date(type_):
        return SqlKind.TIMESTAMP
    if t.is_nested(type_):
        return SqlKind.JSON
    if t.is_null(type_) or _is_text(type_) or t.is_time(type_) or _is_bytes(type_):
        return SqlKind.TEXT
    raise failure(SelectCode.UNSUPPORTED_PARQUET_TYPE, f"column type is not supported. type={type_}")


def normalized_type(type_: pa.DataType) -> pa.DataType:
    """The type that a column of this type is converted to."""
    kind = kind_of(type_)
    if kind is SqlKind.DECIMAL:
        plain = type_.value_type if pa.types.is_dictionary(type_) else type_
        return pa.decimal128(20, 0) if pa.types.is_uint64(plain) else pa.decimal128(plain.precision, plain.scale)
    return TYPES.get(kind, pa.string())


def normalized(column: pa.Array) -> pa.Array:
    """A column converted to the type of its kind. Raises SelectError (InvalidTextEncoding)."""
    if pa.types.is_dictionary(column.type):
        column = column.dictionary_decode()
    kind = kind_of(column.type)
    match kind:
        case SqlKind.TIMESTAMP:
            return _timestamps(column)
        case SqlKind.JSON:
            return pa.array([None if value is None else to_json(value) for value in column.to_pylist()], pa.string())
        case SqlKind.DECIMAL:
            return column.cast(normalized_type(column.type))
        case SqlKind.TEXT:
            return _text(column)
        case _:
            return column.cast(TYPES[kind])


def _text(column: pa.Array) -> pa.Array:
    """Text, validated as UTF-8: neither Arrow nor DataFusion checks it."""
    try:
        text = column.cast(pa.string())
        text.validate(full=True)
    except pa.ArrowInvalid as error:
        raise failure(SelectCode.INVALID_TEXT_ENCODING, "a column is not valid UTF-8") from error
    return text


def _timestamps(column: pa.Array) -> pa.Array:
    """Timestamps in S3 Select's text form."""
    if pa.types.is_date(column.type):
        return pc.strftime(column.cast(pa.timestamp("s")), format="%Y-%m-%dT")
    return pc.strftime(column.cast(pa.timestamp(column.type.unit)), format=_TIME_FORMAT)


def inner_type(type_: pa.DataType, path: Path) -> pa.DataType | None:
    """The type at a path inside a nested type, or None."""
    for step in path:
        if isinstance(step, FieldName) and pa.types.is_struct(type_):
            found = [number for number in range(type_.num_fields) if step.matches(type_.field(number).name)]
            if not found:
                return None
            type_ = type_.field(found[0]).type
        elif isinstance(step, Index) and (pa.types.is_list(type_) or pa.types.is_large_list(type_)):
            type_ = type_.value_type
        else:
            return None
    return type_


def _is_text(type_: pa.DataType) -> bool:
    t = pa.types
    return bool(t.is_string(type_) or t.is_large_string(type_) or t.is_string_view(type_))


def _is_bytes(type_: pa.DataType) -> bool:
    t = pa.types
    kinds = (t.is_binary, t.is_large_binary, t.is_fixed_size_binary, t.is_binary_view)
    return any(is_kind(type_) for is_kind in kinds)
