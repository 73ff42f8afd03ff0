from __future__ import annotations

from typing import Any

import pytest
from hypothesis import given, settings
from hypothesis import strategies as st

from lakebed.core.errors import InvalidInput
from lakebed.iceberg.expressions.literals import OutOfRange, convert_literal
from lakebed.iceberg.expressions.unbound import Literal
from lakebed.iceberg.types import parse_primitive
from lakebed.iceberg.values import to_json
from tests.iceberg.expressions.columns import COLUMNS, ColumnSample
from tests.iceberg.expressions.filters import is_nan

ALL_KINDS = [column.type for column in COLUMNS] + ["timestamptz_ns", "decimal(38,0)", "variant", "unknown"]


def convert(value: Any, kind: str, said: str | None = None) -> Any:
    return convert_literal(Literal(value, None if said is None else parse_primitive(said)), parse_primitive(kind))


@pytest.mark.slow
@pytest.mark.parametrize("column", COLUMNS, ids=lambda column: column.type)
@settings(max_examples=30)
@given(st.data())
def test_json_values_round_trip(column: ColumnSample, data: st.DataObject) -> None:
    value = data.draw(column.values.filter(lambda value: not is_nan(value)))
    written: Any = to_json(parse_primitive(column.type), value)
    assert convert(written, column.type) == value
    assert convert(written, column.type, said=column.type) == value


@pytest.mark.parametrize(
    ("value", "kind", "expected"),
    [
        (5, "double", 5.0),
        (5.0, "int", 5),
        (0.1, "float", 0.10000000149011612),
        (1e300, "float", 1e300),
        (10**400, "double", float("inf")),
        (-(10**400), "float", float("-inf")),
        ("-Infinity", "double", float("-inf")),
        (3, "decimal(9,2)", 300),
        (1.25, "decimal(9,2)", 125),
        ("1e3", "decimal(9,2)", 100_000),
        ("-.5", "decimal(9,2)", -50),
        ("1.500", "decimal(9,2)", 150),
        (17_486, "date", 17_486),
        (1_000_000, "time", 1_000_000),
        (1_000_000, "timestamp", 1_000_000),
        (1_000_000, "timestamptz", 1_000_000),
        (1_000_000, "timestamp_ns", 1_000_000_000),
        ("1970-01-01T00:00:00.000000001", "timestamp_ns", 1),
        ("1970-01-01T01:00:00+01:00", "timestamptz", 0),
        ("1970-01-01T00:00", "timestamptz", 0),
        ("F79C3E09-677c-4bbd-a479-3f349cb785e7", "uuid", bytes.fromhex("f79c3e09677c4bbda4793f349cb785e7")),
        ("00fF", "binary", b"\x00\xff"),
        ("", "binary", b""),
    ],
)
def test_literals_are_converted_to_the_column_type(value: Any, kind: str, expected: Any) -> None:
    assert convert(value, kind) == expected


@pytest.mark.parametrize(
    ("value", "kind", "expected"),
    [
        (2**31, "int", OutOfRange.ABOVE),
        (-(2**31) - 1, "int", OutOfRange.BELOW),
        (2**63, "long", OutOfRange.ABOVE),
        (2**31, "date", OutOfRange.ABOVE),
        ("+999999999-01-01", "date", OutOfRange.ABOVE),
        (2**63, "timestamp", OutOfRange.ABOVE),
        (86_400_000_000, "time", OutOfRange.ABOVE),
        (-1, "time", OutOfRange.BELOW),
        ("1e40", "decimal(9,2)", OutOfRange.ABOVE),
        (-1e40, "decimal(9,2)", OutOfRange.BELOW),
        (-(2**62), "timestamp_ns", OutOfRange.BELOW),
        ("9999-01-01T00:00:00", "timestamp_ns", OutOfRange.ABOVE),
    ],
)
def test_numbers_out_of_range_are_distinguished(value: Any, kind: str, expected: OutOfRange) -> None:
    assert convert(value, kind) is expected


@pytest.mark.parametrize(
    ("value", "said", "kind", "expected"),
    [
        (5, "int", "long", 5),
        (5, "long", "decimal(9,2)", 500),
        (5, "int", "timestamp", 5),
        (1.5, "double", "float", 1.5),
        (0.1, "float", "double", 0.10000000149011612),
        ("1.5", "decimal(3,1)", "double", 1.5),
        ("1.5", "decimal(3,1)", "decimal(9,2)", 150),
        ("1970-01-02", "date", "timestamp", 86_400_000_000),
        ("1970-01-02", "date", "timestamp_ns", 86_400_000_000_000),
        ("1970-01-02T00:00:00", "timestamp", "date", 1),
        ("1970-01-01T00:00:00.000001", "timestamp", "timestamp_ns", 1000),
        ("1970-01-01T00:00:00.000001000", "timestamp_ns", "timestamp", 1),
        ("1970-01-01T00:00:00.000001+00:00", "timestamptz", "timestamptz_ns", 1000),
        ("1970-01-02", "string", "date", 1),
        ("00ff", "binary", "fixed[2]", b"\x00\xff"),
        ("f79c3e09-677c-4bbd-a479-3f349cb785e7", "uuid", "binary", bytes.fromhex("f79c3e09677c4bbda4793f349cb785e7")),
    ],
)
def test_literal_of_another_type_is_converted_without_loss(value: Any, said: str, kind: str, expected: Any) -> None:
    assert convert(value, kind, said) == expected


@pytest.mark.parametrize(
    ("value", "said", "kind"),
    [
        ("1970-01-02T00:00:00.000001", "timestamp", "date"),
        ("1970-01-02T00:00:00.000000001", "timestamp_ns", "timestamp"),
        ("1970-01-02T00:00:00", "timestamp", "timestamptz"),
        ("1970-01-02", "date", "timestamptz"),
        ("12:00:00", "time", "timestamp"),
        ("1.5", "decimal(3,1)", "long"),
        (1.5, "double", "long"),
        (2**31, "int", "long"),
        (True, "boolean", "int"),
        ("00ff", "binary", "fixed[3]"),
        ("00ff", "binary", "string"),
        ("a", "string", "long"),
        (1, "variant", "long"),
    ],
)
def test_lossy_literal_conversion_is_rejected(value: Any, said: str, kind: str) -> None:
    with pytest.raises(InvalidInput):
        convert(value, kind, said)


@pytest.mark.parametrize(
    ("value", "kind"),
    [
        (1, "boolean"), ("true", "boolean"), (True, "int"), ("5", "int"), (5.5, "long"), (True, "double"),
        ("5", "double"), ("NaN", "double"), (float("nan"), "float"), ("1.005", "decimal(9,2)"),
        ("1e1000", "decimal(9,2)"), ("one", "decimal(9,2)"), (True, "decimal(9,2)"), ("2017-11-31", "date"),
        ("2017-11-16T00:00:00", "date"), (1.5, "date"), ("24:00:00", "time"), ("00:00:00.0000001", "time"),
        ("2017-11-16", "timestamp"), ("2017-11-16T00:00:00Z", "timestamp"), (5, "string"), ("\ud800", "string"),
        ("f79c3e09677c4bbda4793f349cb785e7", "uuid"), (5, "uuid"), ("0", "binary"), ("0x00", "binary"),
        ("00 ff", "binary"), ("zz", "binary"), ("00", "fixed[2]"), (1, "fixed[2]"), ("x", "variant"), (1, "unknown"),
    ],
)  # fmt: skip
def test_invalid_literals_are_rejected(value: Any, kind: str) -> None:
    with pytest.raises(InvalidInput):
        convert(value, kind)


@pytest.mark.slow
@given(
    st.booleans() | st.integers() | st.integers(-(2**1024), 2**1024) | st.floats() | st.text(max_size=40),
    st.sampled_from(ALL_KINDS),
    st.none() | st.sampled_from(ALL_KINDS),
)
def test_any_literal_is_converted_or_rejected(value: Any, kind: str, said: str | None) -> None:
    try:
        found = convert(value, kind, said)
    except InvalidInput:
        return
    if not isinstance(found, OutOfRange):
        assert convert(to_json(parse_primitive(kind), found), kind) == found
