from __future__ import annotations

from decimal import Decimal
from typing import Any

import pytest

from lakebed.streams.keys.aggregation import field_merge
from lakebed.streams.keys.fields import RowFormat, decode_field, encode_field
from lakebed.streams.schema import Aggregation, AggregationFunction, Column
from lakebed.streams.types import DataType, Root

F = AggregationFunction


def merged(
    function: AggregationFunction | None,
    type_: DataType,
    old: Any,
    new: Any,
    format_: RowFormat = RowFormat.COMPACTED,
    delimiter: str | None = None,
) -> Any:
    aggregation = None if function is None else Aggregation(function, delimiter)
    merge = field_merge(format_, Column("c", type_, 1, aggregation=aggregation))
    fields = [None if each is None else encode_field(format_, type_, each) for each in (old, new)]
    found = merge(fields[0], fields[1])
    return None if found is None else decode_field(format_, type_, found)


INT, LONG, TEXT = DataType(Root.INT), DataType(Root.BIGINT), DataType(Root.STRING)
MONEY = DataType(Root.DECIMAL, precision=5, scale=2)
WIDE = DataType(Root.DECIMAL, precision=30, scale=2)
BOOL = DataType(Root.BOOLEAN)


@pytest.mark.parametrize("format_", list(RowFormat))
@pytest.mark.parametrize(
    ("function", "type_", "old", "new", "expected"),
    [
        (F.SUM, INT, 2, 3, 5),
        (F.SUM, INT, None, 3, 3),
        (F.SUM, INT, 2, None, 2),
        (F.SUM, INT, None, None, None),
        (F.SUM, INT, 2**31 - 1, 1, -(2**31)),
        (F.SUM, LONG, -1, -(2**63), 2**63 - 1),
        (F.SUM, DataType(Root.TINYINT), 127, 1, -128),
        (F.SUM, MONEY, Decimal("1.25"), Decimal("2.50"), Decimal("3.75")),
        (F.SUM, MONEY, Decimal("999.99"), Decimal("0.01"), None),
        (F.SUM, WIDE, Decimal("1234567890123456789.01"), Decimal("0.99"), Decimal("1234567890123456790.00")),
        (F.SUM, DataType(Root.DOUBLE), 0.5, 0.25, 0.75),
        (F.PRODUCT, INT, 6, 7, 42),
        (F.PRODUCT, MONEY, Decimal("1.50"), Decimal("1.50"), Decimal("2.25")),
        (F.MAX, TEXT, "é", "z", "é"),
        (F.MIN, TEXT, "é", "z", "z"),
        (F.MAX, DataType(Root.TIMESTAMP), (5, 7000), (5, 6000), (5, 7000)),
        (F.MIN, INT, None, 3, 3),
        (F.LAST_VALUE, INT, 1, None, None),
        (F.LAST_VALUE_IGNORE_NULLS, INT, 1, None, 1),
        (F.FIRST_VALUE, INT, None, 1, None),
        (F.FIRST_VALUE_IGNORE_NULLS, INT, None, 1, 1),
        (F.FIRST_VALUE_IGNORE_NULLS, INT, 2, 1, 2),
        (None, INT, 1, None, 1),
        (None, INT, 1, 2, 2),
        (F.LISTAGG, TEXT, "a", "b", "a,b"),
        (F.STRING_AGG, TEXT, None, "b", "b"),
        (F.BOOL_AND, BOOL, True, False, False),
        (F.BOOL_OR, BOOL, True, False, True),
    ],
)
def test_two_values_become_one(
    format_: RowFormat, function: AggregationFunction | None, type_: DataType, old: Any, new: Any, expected: Any
) -> None:
    assert merged(function, type_, old, new, format_) == expected


def test_a_list_has_its_own_delimiter() -> None:
    assert merged(F.LISTAGG, TEXT, "a", "b", delimiter=" | ") == "a | b"
    assert merged(F.LISTAGG, TEXT, "a", "b", delimiter="") == "ab"


def test_a_float_that_is_too_large_is_infinite() -> None:
    assert merged(F.PRODUCT, DataType(Root.FLOAT), 3e38, 10.0) == float("inf")
