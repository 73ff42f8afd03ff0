"""Merges two values of an aggregated column.

Fields that a function does not have to decode are copied as bytes. Integers wrap around on overflow, as in Fluss.
Decimals are exact: products are rounded to the scale, half up as in Java; a result with more digits than the precision
is null.
"""

from __future__ import annotations

import struct
from collections.abc import Callable
from decimal import ROUND_HALF_UP, Context, Decimal
from typing import TYPE_CHECKING, Any, Final, TypeAlias

from lakebed.fluss.errors import ErrorCode, FlussError
from lakebed.fluss.rows.fields import RowFormat, decode_field, encode_field
from lakebed.fluss.schema import Aggregation, AggregationFunction, TableColumn
from lakebed.fluss.types import DataType, TypeRoot

if TYPE_CHECKING:
    from .bitmaps import Bitmaps

__all__ = ["BITMAP_FUNCTIONS", "FieldMerge", "field_merge"]

FieldMerge: TypeAlias = Callable[[bytes | None, bytes | None], bytes | None]
"""Merges the existing field and the written field."""

BITMAP_FUNCTIONS: Final = frozenset({AggregationFunction.RBM32, AggregationFunction.RBM64})
_EXACT: Final = Context(prec=80, rounding=ROUND_HALF_UP)
"""Precise enough for products of decimals with 38 digits each."""

_BITS: Final = {TypeRoot.TINYINT: 8, TypeRoot.SMALLINT: 16, TypeRoot.INT: 32, TypeRoot.BIGINT: 64}


def field_merge(format_: RowFormat, column: TableColumn) -> FieldMerge:
    """The merge function of a column, for fields of this row format."""
    chosen = column.aggregation or Aggregation(AggregationFunction.LAST_VALUE_IGNORE_NULLS)
    match chosen.function:
        case AggregationFunction.LAST_VALUE:
            return lambda old, new: new
        case AggregationFunction.LAST_VALUE_IGNORE_NULLS:
            return lambda old, new: old if new is None else new
        case AggregationFunction.FIRST_VALUE:
            return lambda old, new: old
        case AggregationFunction.FIRST_VALUE_IGNORE_NULLS:
            return lambda old, new: new if old is None else old
        case AggregationFunction.RBM32 | AggregationFunction.RBM64:
            return _of_bitmaps(format_, column.type, _bitmaps(chosen.function, column.name))
        case function:
            combine = _combination(function, column.type, chosen.delimiter)
            merge = _computed(format_, column.type, combine)
            return merge if column.type.is_nullable else _never_null(column, merge)


def _bitmaps(function: AggregationFunction, column: str) -> Bitmaps:
    from .bitmaps import bitmaps_32, bitmaps_64

    return bitmaps_32(column) if function is AggregationFunction.RBM32 else bitmaps_64(column)


def _of_bitmaps(format_: RowFormat, type_: DataType, bitmaps: Bitmaps) -> FieldMerge:
    """The union of bitmaps. Validates the first one too: an invalid bitmap would block all later merges."""

    def merge(old: bytes | None, new: bytes | None) -> bytes | None:
        if new is None:
            return old
        written = decode_field(format_, type_, new)
        if old is None:
            bitmaps.check(written)
            return new
        return encode_field(format_, type_, bitmaps.union(decode_field(format_, type_, old), written))

    return merge


def _never_null(column: TableColumn, merge: FieldMerge) -> FieldMerge:
    """The same for a column that is not nullable: overflow raises instead of returning null."""

    def checked(old: bytes | None, new: bytes | None) -> bytes | None:
        found = merge(old, new)
        if found is None:
            raise FlussError(
                ErrorCode.INVALID_TARGET_COLUMN,
                f"result exceeds the precision of its column. column={column.name} type={column.type}",
            )
        return found

    return checked


def _combination(function: AggregationFunction, type_: DataType, delimiter: str | None) -> Callable[[Any, Any], Any]:
    match function:
        case AggregationFunction.SUM:
            return lambda old, new: _fit(type_, _EXACT.add(old, new) if type_.root is TypeRoot.DECIMAL else old + new)
        case AggregationFunction.PRODUCT:
            return lambda old, new: _fit(
                type_, _EXACT.multiply(old, new) if type_.root is TypeRoot.DECIMAL else old * new
            )
        case AggregationFunction.MAX:
            return lambda old, new: max(old, new, key=_order)
        case AggregationFunction.MIN:
            return lambda old, new: min(old, new, key=_order)
        case AggregationFunction.BOOL_AND:
            return lambda old, new: old and new
        case AggregationFunction.BOOL_OR:
            return lambda old, new: old or new
        case _:
            between = "," if delimiter is None else delimiter
            return lambda old, new: old + between + new


def _computed(format_: RowFormat, type_: DataType, combine: Callable[[Any, Any], Any]) -> FieldMerge:
    """Merge decoded values; null is ignored."""

    def merge(old: bytes | None, new: bytes | None) -> bytes | None:
        if old is None or new is None:
            return new if old is None else old
        found = combine(decode_field(format_, type_, old), decode_field(format_, type_, new))
        return None if found is None else encode_field(format_, type_, found)

    return merge


def _order(value: Any) -> Any:
    return value.encode() if isinstance(value, str) else value  # text is compared by its bytes


def _fit(type_: DataType, value: Any) -> Any:
    bits = _BITS.get(type_.root)
    if bits is not None:
        wrapped = value & ((1 << bits) - 1)
        return wrapped - (1 << bits) if wrapped >> (bits - 1) else wrapped
    if type_.root is TypeRoot.DECIMAL:
        rounded = value.quantize(Decimal(1).scaleb(-(type_.scale or 0)), context=_EXACT)
        return rounded if len(rounded.as_tuple().digits) <= (type_.precision or 0) else None
    if type_.root is TypeRoot.FLOAT:
        try:
            return struct.unpack("<f", struct.pack("<f", value))[0]
        except OverflowError:
            return float("inf") if value > 0 else float("-inf")
    return value
