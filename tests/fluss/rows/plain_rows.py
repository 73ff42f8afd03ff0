"""A simple, slow conversion of rows to Arrow: the reference for the fast one."""

from __future__ import annotations

from collections.abc import Sequence
from typing import Any

import pyarrow as pa

from lakebed.fluss.arrow_types import arrow_type
from lakebed.fluss.rows.fields import RowFormat
from lakebed.fluss.rows.layout import RowLayout
from lakebed.fluss.types import DataType, TypeRoot


def arrow_columns(format_: RowFormat, types: Sequence[DataType], rows: Sequence[bytes]) -> list[pa.Array]:
    layout = RowLayout(format_, types)
    decoded = [layout.decode(row) for row in rows]
    return [
        pa.array([_value(type_, row[index]) for row in decoded], arrow_type(type_)) for index, type_ in enumerate(types)
    ]


def _value(type_: DataType, value: Any) -> Any:
    if value is None:
        return None
    precision = type_.precision or 0
    match type_.root:
        case TypeRoot.TIME:
            return value // 1000 if precision == 0 else value * (1, 1000, 1_000_000)[(precision - 1) // 3]
        case TypeRoot.TIMESTAMP | TypeRoot.TIMESTAMP_LTZ:
            nanos = value[0] * 1_000_000 + value[1]
            return nanos // (10**9 if precision == 0 else (10**6, 10**3, 1)[(precision - 1) // 3])
        case TypeRoot.BINARY:
            return value + bytes((type_.length or 0) - len(value))
        case TypeRoot.ARRAY:
            assert type_.element is not None
            return [_value(type_.element, each) for each in value]
        case TypeRoot.MAP:
            assert type_.key is not None
            assert type_.value is not None
            return [(_value(type_.key, key), _value(type_.value, each)) for key, each in value]
        case TypeRoot.ROW:
            return {field.name: _value(field.type, each) for field, each in zip(type_.fields, value, strict=True)}
    return value
