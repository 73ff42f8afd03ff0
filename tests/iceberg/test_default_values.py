from __future__ import annotations

from contextlib import suppress
from typing import Any

import msgspec
import pytest
from hypothesis import given
from hypothesis import strategies as st

from lakebed.core.errors import InvalidInput
from lakebed.iceberg.default_values import check_default
from lakebed.iceberg.types import NestedType

from .samples import column, list_of, map_of, struct
from .test_documents import values


def kind_of(written: object) -> str | NestedType:
    return msgspec.convert(written, type=str | NestedType)


GOOD: list[tuple[Any, Any]] = [  # Any: JSON
    ("boolean", True),
    ("int", -(2**31)),
    ("long", 2**63 - 1),
    ("float", 1),
    ("double", 1.5),
    ("decimal(9,2)", "14.20"),
    ("decimal(9,2)", "-0.05"),
    ("decimal(9,0)", "14"),
    ("date", "2007-12-03"),
    ("time", "22:31:08.123456"),
    ("timestamp", "2007-12-03T10:15:30.123456"),
    ("timestamp", "2007-12-03T10:15:30"),
    ("timestamptz", "2007-12-03T10:15:30.123456+00:00"),
    ("timestamptz", "2007-12-03T10:15:30Z"),
    ("timestamp_ns", "2007-12-03T10:15:30.123456789"),
    ("timestamptz_ns", "2007-12-03T10:15:30.123456789+00:00"),
    ("string", ""),
    ("uuid", "eb26bdb1-a1d8-4aa6-990e-da940875492c"),
    ("fixed[3]", "78797A"),
    ("binary", ""),
    (struct(column(1, "a", "int")), {}),
    (list_of(1, "int"), [1, 2]),
    (list_of(1, "int", required=False), [None]),
    (list_of(1, struct(column(2, "a", "int"))), [{"2": 1}]),
    (list_of(1, struct(column(2, "a", "int"))), [{}]),
    (map_of(1, "string", 2, "int"), {"keys": ["a"], "values": [None]}),
]

BAD: list[tuple[Any, Any]] = [  # Any: JSON
    ("boolean", 1),
    ("int", True),
    ("int", 2**31),
    ("int", 1.0),
    ("long", "1"),
    ("long", 2**63),
    ("float", "1.0"),
    ("decimal(9,2)", "14.2"),
    ("decimal(9,2)", 14.2),
    ("decimal(9,2)", "NaN"),
    ("decimal(9,2)", "x"),
    ("date", "2007-02-30"),
    ("date", "20071203"),
    ("date", 13850),
    ("time", "25:00:00"),
    ("time", "10:15:30+00:00"),
    ("timestamp", "2007-12-03 10:15:30"),
    ("timestamp", "2007-12-03T10:15:30+00:00"),
    ("timestamptz", "2007-12-03T10:15:30"),
    ("timestamptz", "2007-12-03T10:15:30+01:00"),
    ("uuid", "eb26bdb1a1d84aa6990eda940875492c"),
    ("fixed[3]", "7879"),
    ("binary", "7"),
    ("binary", "zz"),
    ("string", 1),
    ("unknown", "x"),
    ("variant", {}),
    ("geometry", "POINT (1 1)"),
    ("geography", "POINT (1 1)"),
    (struct(column(1, "a", "int")), {"1": 1}),
    (struct(column(1, "a", "int")), []),
    (list_of(1, "int"), [None]),
    (list_of(1, "int"), {}),
    (list_of(1, struct(column(2, "a", "int", required=True))), [{}]),
    (list_of(1, struct(column(2, "a", "int"))), [{"3": 1}]),
    (map_of(1, "string", 2, "int"), {"keys": ["a"], "values": []}),
    (map_of(1, "string", 2, "int"), {"keys": [None], "values": [1]}),
    (map_of(1, "string", 2, "int"), {"a": 1}),
]


@pytest.mark.parametrize(("written", "value"), GOOD)
def test_matching_values_are_accepted(written: object, value: object) -> None:
    check_default(kind_of(written), value, "c", "write-default")


@pytest.mark.parametrize(("written", "value"), BAD)
def test_other_values_are_rejected(written: object, value: object) -> None:
    with pytest.raises(InvalidInput, match="write-default of column c is not a value of its type"):
        check_default(kind_of(written), value, "c", "write-default")


@given(st.sampled_from([written for written, _ in GOOD + BAD]), values)
def test_no_value_crashes_the_check(written: object, value: object) -> None:
    with suppress(InvalidInput):
        check_default(kind_of(written), value, "c", "initial-default")
