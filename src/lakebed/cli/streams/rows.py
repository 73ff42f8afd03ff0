"""Reads and prints rows of stream tables as JSON lines: dates and times are text, maps are objects."""

from __future__ import annotations

import datetime
import json
from collections.abc import Iterator
from decimal import Decimal
from typing import Any

import msgspec
import pyarrow as pa
import pyarrow.json

from lakebed.core.errors import InvalidInput


def read_rows(lines: bytes, schema: pa.Schema, *, is_whole: bool) -> Iterator[pa.RecordBatch]:
    """Parse JSON lines; whole rows have no unknown columns. Raises InvalidInput."""
    nested = [field for field in schema if pa.types.is_nested(field.type)]
    plain = pa.schema([field for field in schema if field not in nested])
    try:
        columns: dict[str, Any] = {}
        if nested:
            lines, columns = _split_nested(lines, nested)
        columns |= _read_plain(lines, plain, is_whole=is_whole)
        found = pa.table([columns[field.name] for field in schema], schema=schema)
        yield from found.combine_chunks().to_batches()
    except (ValueError, TypeError, ArithmeticError, msgspec.MsgspecError, pa.ArrowNotImplementedError) as error:
        reason = str(error).splitlines()[0]
        raise InvalidInput(f"expected one JSON object with the table's columns per line. reason={reason}") from error


def shown_rows(rows: pa.RecordBatch) -> list[dict[str, Any]]:
    """The rows as JSON values."""
    found: list[dict[str, Any]] = rows.to_pylist()
    for field in rows.schema:
        if pa.types.is_nested(field.type):
            for row in found:
                row[field.name] = _shown(field.type, row[field.name])
    return found


def _read_plain(lines: bytes, schema: pa.Schema, *, is_whole: bool) -> dict[str, pa.ChunkedArray]:
    # Arrow's reader takes dates and times as numbers; input and `tail` have them as text.
    read_as = pa.schema([field.with_type(pa.string()) if _is_text(field.type) else field for field in schema])
    options = pyarrow.json.ParseOptions(
        explicit_schema=read_as, unexpected_field_behavior="error" if is_whole else "ignore"
    )
    found = pyarrow.json.read_json(pa.BufferReader(lines), parse_options=options)
    return {field.name: _typed(found.column(field.name), field.type) for field in schema}


def _is_text(type_: pa.DataType) -> bool:
    return bool(pa.types.is_date(type_) or pa.types.is_time(type_))


def _typed(column: pa.ChunkedArray, type_: pa.DataType) -> pa.ChunkedArray:
    if not pa.types.is_time(type_):
        return column.cast(type_)
    times = [None if value is None else datetime.time.fromisoformat(value) for value in column.to_pylist()]
    return pa.chunked_array([pa.array(times, type_)])


def _split_nested(lines: bytes, nested: list[pa.Field]) -> tuple[bytes, dict[str, pa.Array]]:
    """The lines without nested columns, and these columns: Arrow's reader supports no maps and no nested times."""
    rest: list[bytes] = []
    values: dict[str, list[Any]] = {field.name: [] for field in nested}
    for line in lines.splitlines():
        if not line.strip():
            continue
        value = msgspec.json.decode(line, type=dict[str, msgspec.Raw])
        for field in nested:
            found = json.loads(bytes(value.pop(field.name, msgspec.Raw(b"null"))), parse_float=Decimal)
            values[field.name].append(_within(field, found))
        rest.append(msgspec.json.encode(value))
    return b"\n".join(rest), {field.name: pa.array(values[field.name], field.type) for field in nested}


def _within(field: pa.Field, value: Any) -> Any:
    if value is None and not field.nullable:
        raise ValueError(f"a value is missing. field={field.name}")
    return None if value is None else _value(field.type, value)


def _value(type_: pa.DataType, value: Any) -> Any:
    """Convert a JSON value to what pyarrow takes for a nested value."""
    if pa.types.is_list(type_):
        return [_within(type_.value_field, each) for each in _of(list, value)]
    if pa.types.is_map(type_):
        return [(_key(type_.key_type, key), _within(type_.item_field, each)) for key, each in _of(dict, value).items()]
    if pa.types.is_struct(type_):
        if unknown := sorted(set(_of(dict, value)) - {field.name for field in type_}):
            raise ValueError(f"no such fields. fields={unknown}")
        return {field.name: _within(field, value.get(field.name)) for field in type_}
    if pa.types.is_boolean(type_):
        return _of(bool, value)
    if pa.types.is_integer(type_):
        return int(_of(int, value))
    if pa.types.is_floating(type_):
        return float(_of((int, Decimal), value))
    if pa.types.is_decimal(type_):
        return Decimal(_of((str, int, Decimal), value))
    if pa.types.is_date(type_):
        return datetime.date.fromisoformat(_of(str, value))
    if pa.types.is_time(type_):
        return datetime.time.fromisoformat(_of(str, value))
    if pa.types.is_timestamp(type_):
        # As a number: Python's datetime has no nanoseconds.
        return pa.scalar(_of(str, value)).cast(type_).value
    return _of(str, value)


def _key(type_: pa.DataType, value: str) -> Any:
    """Convert a map key, which is text in JSON."""
    if pa.types.is_boolean(type_) or pa.types.is_integer(type_) or pa.types.is_floating(type_):
        return _value(type_, json.loads(value, parse_float=Decimal))
    return _value(type_, value)


def _of(kinds: Any, value: Any) -> Any:  # Any: types, and JSON values
    if not isinstance(value, kinds) or (isinstance(value, bool) and kinds is not bool):
        raise ValueError(f"not a value of its type. value={value!r}")
    return value


def _shown(type_: pa.DataType, value: Any) -> Any:
    if value is None:
        return None
    if pa.types.is_list(type_):
        return [_shown(type_.value_type, each) for each in value]
    if pa.types.is_map(type_):
        return {_shown_key(key): _shown(type_.item_type, each) for key, each in value}
    if pa.types.is_struct(type_):
        return {field.name: _shown(field.type, value[field.name]) for field in type_}
    return value


def _shown_key(key: Any) -> str:
    return key if isinstance(key, str) else json.dumps(key, default=str, ensure_ascii=False).strip('"')
