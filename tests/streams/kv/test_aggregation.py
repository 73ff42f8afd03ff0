from __future__ import annotations

from decimal import Decimal
from typing import Any

import pytest

from lakebed.fluss.errors import ErrorCode, FlussError
from lakebed.fluss.rows.fields import RowFormat, decode_field, encode_field
from lakebed.fluss.schema import Aggregation, AggregationFunction, TableColumn
from lakebed.fluss.types import DataType, TypeRoot
from lakebed.streams.kv.aggregation import field_merge

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
    merge = field_merge(format_, TableColumn("c", type_, 1, aggregation=aggregation))
    fields = [None if each is None else encode_field(format_, type_, each) for each in (old, new)]
    found = merge(fields[0], fields[1])
    return None if found is None else decode_field(format_, type_, found)


INT, LONG, TEXT = DataType(TypeRoot.INT), DataType(TypeRoot.BIGINT), DataType(TypeRoot.STRING)
MONEY = DataType(TypeRoot.DECIMAL, precision=5, scale=2)
WIDE = DataType(TypeRoot.DECIMAL, precision=30, scale=2)
WIDEST = DataType(TypeRoot.DECIMAL, precision=38, scale=2)
SMALLEST = DataType(TypeRoot.DECIMAL, precision=38, scale=38)
BOOL = DataType(TypeRoot.BOOLEAN)


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
        (F.SUM, DataType(TypeRoot.TINYINT), 127, 1, -128),
        (F.SUM, MONEY, Decimal("1.25"), Decimal("2.50"), Decimal("3.75")),
        (F.SUM, MONEY, Decimal("999.99"), Decimal("0.01"), None),
        (F.SUM, WIDE, Decimal("1234567890123456789.01"), Decimal("0.99"), Decimal("1234567890123456790.00")),
        (F.SUM, WIDEST, Decimal("9" * 27 + ".50"), Decimal("0.50"), Decimal("1" + "0" * 27 + ".00")),
        (F.SUM, WIDEST, Decimal("9" * 35 + ".98"), Decimal("0.01"), Decimal("9" * 35 + ".99")),
        (F.SUM, WIDEST, Decimal("-" + "9" * 36 + ".98"), Decimal("-0.01"), Decimal("-" + "9" * 36 + ".99")),
        (F.SUM, WIDEST, Decimal("9" * 36 + ".99"), Decimal("0.01"), None),
        (F.SUM, WIDEST, Decimal("-" + "9" * 36 + ".99"), Decimal("-0.01"), None),
        (F.SUM, SMALLEST, Decimal("0." + "4" * 38), Decimal("0." + "5" * 38), Decimal("0." + "9" * 38)),
        (F.SUM, DataType(TypeRoot.DOUBLE), 0.5, 0.25, 0.75),
        (F.PRODUCT, INT, 6, 7, 42),
        (F.PRODUCT, MONEY, Decimal("1.50"), Decimal("1.50"), Decimal("2.25")),
        (F.PRODUCT, MONEY, Decimal("0.05"), Decimal("0.50"), Decimal("0.03")),
        (F.PRODUCT, MONEY, Decimal("0.25"), Decimal("0.50"), Decimal("0.13")),
        (F.PRODUCT, MONEY, Decimal("-0.25"), Decimal("0.50"), Decimal("-0.13")),
        (F.PRODUCT, MONEY, Decimal("0.01"), Decimal("0.49"), Decimal("0.00")),
        (F.PRODUCT, MONEY, Decimal("999.99"), Decimal("1.01"), None),
        (F.PRODUCT, WIDEST, Decimal("1" + "0" * 30), Decimal("1234.56"), Decimal("123456" + "0" * 28)),
        (F.PRODUCT, WIDEST, Decimal("9" * 36 + ".99"), Decimal("9" * 36 + ".99"), None),
        (F.PRODUCT, SMALLEST, Decimal("0." + "9" * 38), Decimal("0." + "9" * 38), Decimal("0." + "9" * 37 + "8")),
        (F.MAX, WIDEST, Decimal("9" * 36 + ".99"), Decimal("9" * 36 + ".98"), Decimal("9" * 36 + ".99")),
        (F.MAX, TEXT, "é", "z", "é"),
        (F.MIN, TEXT, "é", "z", "z"),
        (F.MAX, DataType(TypeRoot.TIMESTAMP), (5, 7000), (5, 6000), (5, 7000)),
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
def test_values_are_aggregated(
    format_: RowFormat, function: AggregationFunction | None, type_: DataType, old: Any, new: Any, expected: Any
) -> None:
    assert merged(function, type_, old, new, format_) == expected


def test_listagg_uses_its_delimiter() -> None:
    assert merged(F.LISTAGG, TEXT, "a", "b", delimiter=" | ") == "a | b"
    assert merged(F.LISTAGG, TEXT, "a", "b", delimiter="") == "ab"


def test_float_overflow_is_infinite() -> None:
    assert merged(F.PRODUCT, DataType(TypeRoot.FLOAT), 3e38, 10.0) == float("inf")


@pytest.mark.parametrize("function", [F.SUM, F.PRODUCT])
def test_decimal_overflow_in_a_not_null_column_is_rejected(function: AggregationFunction) -> None:
    with pytest.raises(FlussError, match="column=c") as failed:
        merged(function, MONEY.of(is_nullable=False), Decimal("999.99"), Decimal("999.99"))
    assert failed.value.code is ErrorCode.INVALID_TARGET_COLUMN


def test_text_too_long_for_an_indexed_row_is_rejected() -> None:
    short = DataType(TypeRoot.CHAR, length=4)
    assert merged(F.LISTAGG, short, "a", "b", RowFormat.INDEXED) == "a,b"
    with pytest.raises(FlussError) as failed:
        merged(F.LISTAGG, short, "ab", "cd", RowFormat.INDEXED)
    assert failed.value.code is ErrorCode.INVALID_TARGET_COLUMN
