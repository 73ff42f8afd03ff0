from __future__ import annotations

import struct
from decimal import Decimal
from typing import Any
from uuid import UUID

import msgspec
import pytest
from hypothesis import given, settings
from hypothesis import strategies as st
from pyiceberg.conversions import to_bytes

from lakebed.core.errors import InvalidInput
from lakebed.iceberg.types import parse_primitive
from lakebed.iceberg.values import canonical, decode_bound, is_nan, to_json, unscaled
from tests.iceberg.expressions.columns import COLUMNS, PY_SCHEMA, ColumnSample, Value


@pytest.mark.parametrize("column", COLUMNS, ids=lambda column: column.type)
@settings(max_examples=30)
@given(st.data())
def test_bounds_of_pyiceberg_are_decoded(column: ColumnSample, data: st.DataObject) -> None:
    value = data.draw(column.values)
    kind: Any = PY_SCHEMA.find_type(column.name)
    written = to_bytes(kind, column.py(value))
    assert written == column.bound(value)
    read = decode_bound(parse_primitive(column.type), written)
    assert read == value or (is_nan(read) and is_nan(value))


@pytest.mark.parametrize("column", COLUMNS, ids=lambda column: column.type)
@settings(max_examples=30)
@given(st.data())
def test_single_values_are_serialized_by_the_specification(column: ColumnSample, data: st.DataObject) -> None:
    value = data.draw(column.values)
    document = to_json(parse_primitive(column.type), value)
    words = {float("inf"): "Infinity"} if isinstance(value, float) else {}
    assert document == ("NaN" if is_nan(value) else words.get(value, column.json(value)))
    assert msgspec.json.decode(msgspec.json.encode(document)) == document


@pytest.mark.parametrize(
    ("kind", "data", "expected"),
    [
        ("long", struct.pack("<i", -5), -5),
        ("double", struct.pack("<f", 1.5), 1.5),
        ("timestamp", struct.pack("<i", -2), -2 * 86_400_000_000),
        ("timestamp_ns", struct.pack("<i", 3), 3 * 86_400_000_000_000),
        ("decimal(30,2)", b"\xff", -1),
        ("decimal(30,2)", b"\x00\xff", 255),
        ("boolean", b"\x07", True),
        ("string", b"", ""),
    ],
)
def test_bounds_before_a_type_promotion_are_decoded(kind: str, data: bytes, expected: Value) -> None:
    assert decode_bound(parse_primitive(kind), data) == expected


@pytest.mark.parametrize(
    ("kind", "data"),
    [
        ("int", b"\x00" * 8), ("long", b"\x00" * 5), ("float", b"\x00" * 8), ("double", b""), ("boolean", b""),
        ("boolean", b"\x00\x00"), ("date", b"\x00"), ("time", b"\x00" * 3), ("decimal(9,2)", b""), ("string", b"\xff"),
        ("uuid", b"\x00" * 15), ("variant", b"\x00"), ("geometry", b"\x00" * 16), ("unknown", b""),
    ],
)  # fmt: skip
def test_invalid_bounds_are_rejected(kind: str, data: bytes) -> None:
    with pytest.raises(ValueError, match=r"not the bytes|cannot be compared|utf-8"):
        decode_bound(parse_primitive(kind), data)


@pytest.mark.parametrize(
    ("kind", "value", "expected"),
    [
        ("decimal(9,2)", 1420, "14.20"),
        ("decimal(9,2)", -5, "-0.05"),
        ("decimal(9,0)", 2, "2"),
        ("decimal(38,10)", 10**37, "1000000000000000000000000000.0000000000"),
        ("timestamptz_ns", 1_510_871_468_123_456_789, "2017-11-16T22:31:08.123456789+00:00"),
        ("timestamp", 2**62, "+148108-07-06T14:00:27.387904"),
        ("double", float("-inf"), "-Infinity"),
        ("string", None, None),
    ],
)
def test_single_value_edge_cases(kind: str, value: Value | None, expected: object) -> None:
    assert to_json(parse_primitive(kind), value) == expected


def test_values_of_a_dropped_column_can_be_serialized() -> None:
    assert to_json(None, canonical(None, Decimal("1.50"))) == "1.50"
    assert to_json(None, canonical(None, UUID(int=7))) == "00000000-0000-0000-0000-000000000007"
    assert to_json(None, canonical(None, b"\xab")) == "AB"
    assert to_json(None, canonical(None, None)) is None


def test_partition_values_are_converted_to_planning_form() -> None:
    assert canonical(parse_primitive("decimal(9,2)"), Decimal("-1.5")) == -150
    assert canonical(parse_primitive("decimal(38,2)"), Decimal("1E+30")) == 10**32
    assert canonical(parse_primitive("uuid"), UUID(int=7)) == bytes(15) + b"\x07"
    assert canonical(parse_primitive("date"), 5) == 5


@given(st.integers(-(10**38), 10**38), st.integers(0, 38))
def test_decimal_is_unscaled(digits: int, scale: int) -> None:
    number = Decimal((digits < 0, tuple(map(int, str(abs(digits)))), -scale))
    assert unscaled(number, scale) == digits
    assert unscaled(number, scale + 3) == digits * 1000


@pytest.mark.parametrize("text", ["1.005", "NaN", "Infinity"])
def test_decimal_that_does_not_fit_is_rejected(text: str) -> None:
    with pytest.raises(InvalidInput):
        unscaled(Decimal(text), 2)
