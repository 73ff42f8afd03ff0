"""Values of Arrow columns in the form in which rows of keys are written (`streams.keys.fields`)."""

from __future__ import annotations

from collections.abc import Iterator
from typing import Any, Final

import pyarrow as pa

from lakebed.streams.failures import Reason, StreamFailure
from lakebed.streams.types import DataType, Root

__all__ = ["values_of"]

_PER_SECOND: Final = {"s": 1, "ms": 10**3, "us": 10**6, "ns": 10**9}
_NANOS_PER_MILLI: Final = 10**6


def values_of(type_: DataType, array: pa.Array) -> list[Any]:
    """The value of each row, None for null. Reasons: INVALID_TARGET_COLUMN for a type that is not written here."""
    match type_:
        case DataType(root=Root.DATE):
            return list(array.cast(pa.int32()).to_pylist())
        case DataType(root=Root.TIME):
            per_second = _PER_SECOND[array.type.unit]
            integers = array.cast(pa.int32() if pa.types.is_time32(array.type) else pa.int64()).to_pylist()
            return [None if value is None else value * 1000 // per_second for value in integers]
        case DataType(root=Root.TIMESTAMP | Root.TIMESTAMP_LTZ):
            nanos = 10**9 // _PER_SECOND[array.type.unit]
            integers = array.cast(pa.int64()).to_pylist()
            return [None if value is None else divmod(value * nanos, _NANOS_PER_MILLI) for value in integers]
        case DataType(root=Root.ARRAY, element=DataType() as element):
            inner = iter(values_of(element, array.flatten()))
            return [None if size is None else _next(inner, size) for size in array.value_lengths().to_pylist()]
        case DataType(root=Root.ROW):
            parts = [values_of(field.type, part) for field, part in zip(type_.fields, array.flatten(), strict=True)]
            rows = zip(*parts, strict=True)
            return [row if is_there else None for row, is_there in zip(rows, array.is_valid().to_pylist(), strict=True)]
        case DataType(root=Root.MAP):
            raise StreamFailure(Reason.INVALID_TARGET_COLUMN, "maps are written with a client of Fluss")
    return list(array.to_pylist())


def _next(values: Iterator[Any], count: int) -> list[Any]:
    return [next(values) for _ in range(count)]
