"""Transforms by the test vectors of the specification, and compared with PyIceberg's."""

from __future__ import annotations

from typing import Any
from uuid import UUID

import pytest
from hypothesis import given, settings
from hypothesis import strategies as st
from pyiceberg.conversions import to_bytes
from pyiceberg.transforms import parse_transform as py_transform

from lakebed.iceberg.temporal import parse_date, parse_time, parse_timestamp
from lakebed.iceberg.transform_functions import TransformFunction, function_of, preserves_order, result_type, width_of
from lakebed.iceberg.transforms import parse_transform
from lakebed.iceberg.types import parse_primitive
from tests.iceberg.expressions.columns import BY_NAME, COLUMNS, PY_SCHEMA, Value

MANY = 2**31 - 1


def function(transform: str, kind: str) -> TransformFunction:
    made = function_of(parse_transform(transform), parse_primitive(kind))
    assert made is not None
    return made


@pytest.mark.parametrize(
    ("kind", "value", "hashed"),
    [
        ("int", 34, 2017239379),
        ("long", 34, 2017239379),
        ("decimal(9,2)", 1420, -500754589),
        ("date", parse_date("2017-11-16"), -653330422),
        ("time", parse_time("22:31:08") // 1000, -662762989),
        ("timestamp", parse_timestamp("2017-11-16T22:31:08", zoned=False) // 1000, -2047944441),
        ("timestamp", parse_timestamp("2017-11-16T22:31:08.000001", zoned=False) // 1000, -1207196810),
        ("timestamptz", parse_timestamp("2017-11-16T14:31:08-08:00", zoned=True) // 1000, -2047944441),
        ("timestamp_ns", parse_timestamp("2017-11-16T22:31:08", zoned=False), -2047944441),
        ("timestamp_ns", parse_timestamp("2017-11-16T22:31:08.000001001", zoned=False), -1207196810),
        ("timestamptz_ns", parse_timestamp("2017-11-16T14:31:08.000001001-08:00", zoned=True), -1207196810),
        ("string", "iceberg", 1210000089),
        ("uuid", UUID("f79c3e09-677c-4bbd-a479-3f349cb785e7").bytes, 1488055340),
        ("fixed[4]", b"\x00\x01\x02\x03", -188683207),
        ("binary", b"\x00\x01\x02\x03", -188683207),
    ],
)
def test_buckets_use_the_hashes_of_the_specification(kind: str, value: Value, hashed: int) -> None:
    for count in (1, 2, 16, 100, MANY):
        assert function(f"bucket[{count}]", kind)(value) == (hashed & 0x7FFFFFFF) % count


@pytest.mark.parametrize(
    ("transform", "kind", "value", "expected"),
    [
        ("truncate[10]", "int", 1, 0),
        ("truncate[10]", "int", -1, -10),
        ("truncate[10]", "long", -10, -10),
        ("truncate[50]", "decimal(9,2)", 1065, 1050),
        ("truncate[3]", "string", "iceberg", "ice"),
        ("truncate[1]", "string", "\U0001f600x", "\U0001f600"),
        ("truncate[3]", "binary", b"\x01\x02\x03\x04\x05", b"\x01\x02\x03"),
        ("year", "date", -1, -1),
        ("month", "date", -1, -1),
        ("day", "timestamp", -1, -1),
        ("hour", "timestamp", -1, -1),
        ("hour", "timestamp_ns", 3_600_000_000_000, 1),
        ("year", "timestamptz_ns", 1_510_871_468_000_001_001, 47),
        ("month", "timestamptz", 1_510_871_468_000_001, 574),
        ("identity", "string", "x", "x"),
    ],
)
def test_values_are_rounded_down(transform: str, kind: str, value: Value, expected: Value) -> None:
    assert function(transform, kind)(value) == expected


PAIRS = [
    (transform, column.name)
    for transform in ("identity", "bucket[7]", "truncate[2]", "truncate[10]", "year", "month", "day", "hour")
    for column in COLUMNS
    if py_transform(transform).can_transform(PY_SCHEMA.find_type(column.name))
]


@pytest.mark.slow
@pytest.mark.parametrize(("transform", "name"), PAIRS)
@settings(max_examples=30)
@given(st.data())
def test_transforms_agree_with_pyiceberg(transform: str, name: str, data: st.DataObject) -> None:
    column, kind = BY_NAME[name], PY_SCHEMA.find_type(name)
    value = data.draw(column.values)
    ours = function(transform, column.type)(value)
    theirs: Any = py_transform(transform).transform(kind)(_for_pyiceberg(column.type, value, column.py))
    result: Any = py_transform(transform).result_type(kind)
    assert _encoded(column.type, transform, ours) == to_bytes(result, theirs)


def _for_pyiceberg(kind: str, value: Value, py: Any) -> Any:
    return py(value) if kind.startswith(("decimal", "uuid")) else value


def _encoded(kind: str, transform: str, value: Value) -> bytes:
    same = transform == "identity" or transform.startswith("truncate")
    return BY_NAME[next(c.name for c in COLUMNS if c.type == kind) if same else "i"].bound(value)


@given(st.sampled_from([pair for pair in PAIRS if not pair[0].startswith("bucket")]), st.data())
def test_order_preserving_transforms_preserve_order(pair: tuple[str, str], data: st.DataObject) -> None:
    column = BY_NAME[pair[1]]
    comparable = column.values.filter(lambda value: value == value)
    low, high = sorted([data.draw(comparable), data.draw(comparable)])
    made = function(pair[0], column.type)
    assert preserves_order(parse_transform(pair[0]))
    assert made(low) <= made(high)  # type: ignore[operator]


def test_hashing_does_not_preserve_order() -> None:
    assert not preserves_order(parse_transform("bucket[16]"))
    assert not preserves_order(parse_transform("void"))
    assert not preserves_order(parse_transform("zorder[3]"))


@pytest.mark.parametrize(
    ("transform", "kind", "expected"),
    [
        ("day", "timestamp", "date"),
        ("hour", "timestamp", "int"),
        ("bucket[3]", "string", "int"),
        ("truncate[3]", "string", "string"),
        ("identity", "uuid", "uuid"),
        ("void", "long", "long"),
    ],
)
def test_results_have_a_type(transform: str, kind: str, expected: str) -> None:
    assert result_type(parse_transform(transform), parse_primitive(kind)).name == expected


@pytest.mark.parametrize(
    ("transform", "kind"),
    [("hour", "date"), ("year", "string"), ("bucket[3]", "double"), ("truncate[3]", "date"), ("void", "int"),
     ("identity", "variant"), ("zorder[2]", "int")],
)  # fmt: skip
def test_unsupported_source_types_have_no_function(transform: str, kind: str) -> None:
    assert function_of(parse_transform(transform), parse_primitive(kind)) is None


def test_width_is_the_transform_parameter() -> None:
    assert width_of(parse_transform("truncate[12]")) == 12
