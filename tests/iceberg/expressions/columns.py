"""A column of every type, with few values so that they collide: for planning, JSON, bounds and PyIceberg.

Independent of the code under test: values are encoded and compared by plain Python.
"""

from __future__ import annotations

import struct
from collections.abc import Callable
from dataclasses import dataclass, replace
from datetime import UTC, date, datetime, timedelta
from decimal import Decimal
from typing import Any
from uuid import UUID

import msgspec
from hypothesis import strategies as st
from pyiceberg.schema import Schema as PySchema

from lakebed.iceberg.schema import Schema, parse_schema

Value = Any
"""Values in planning's form: ints for numbers, decimals and times, bytes for uuids."""

EPOCH = datetime(1970, 1, 1)
NAN = float("nan")
DAY_US = 86_400_000_000


@dataclass(frozen=True)
class ColumnSample:
    """One column, with the encodings of its values."""

    id: int
    name: str
    type: str
    values: st.SearchStrategy[Value]
    json: Callable[[Value], Any]
    """As the REST specification serializes a single value."""
    bound: Callable[[Value], bytes]
    py: Callable[[Value], Any]
    """As a literal of PyIceberg."""
    required: bool = False

    @property
    def after_1970(self) -> ColumnSample:
        """The same with values whose time units are positive."""
        return replace(self, values=self.values.filter(lambda value: value >= 17_486))

    @property
    def document(self) -> dict[str, Any]:
        return {"id": self.id, "name": self.name, "type": self.type, "required": self.required}


def _same(value: Value) -> Any:
    return value


def _int(value: int) -> bytes:
    return struct.pack("<i", value)


def _long(value: int) -> bytes:
    return struct.pack("<q", value)


def _micros(value: int) -> datetime:
    return EPOCH + timedelta(microseconds=value)


def _iso(value: int) -> str:
    return _micros(value).isoformat(timespec="microseconds")


def _decimal(value: int) -> Decimal:
    return Decimal(value).scaleb(-2)


def _unscaled_bytes(value: int) -> bytes:
    size = 1
    while not -(1 << (8 * size - 1)) <= value < 1 << (8 * size - 1):
        size += 1
    return value.to_bytes(size, "big", signed=True)


DAYS = st.sampled_from([-800, -366, -365, -31, -1, 0, 1, 30, 31, 364, 365, 366, 17_486, 17_487])
MICROS = st.builds(
    lambda day, moment: day * DAY_US + moment,
    st.sampled_from([-366, -1, 0, 1, 365, 17_486]),
    st.sampled_from([0, 1, 3_599_999_999, 3_600_000_000, DAY_US - 1]),
)
FLOATS = st.sampled_from([-1.5, -0.5, 0.0, 0.5, 1.0, 2.25, NAN, float("inf")])
UUIDS = st.sampled_from(
    [bytes(16), b"\x7f" + bytes(15), b"\x80" + bytes(15), b"\xff" * 16, bytes(8) + b"\x90" + bytes(7)]
)
TEXTS = st.sampled_from(["", "a", "ab", "abc", "abcd", "abd", "b", "ba", "é", "\U0001f600", "￿", "zz"])

COLUMNS = (
    ColumnSample(1, "i", "int", st.integers(-25, 25), _same, _int, _same),
    ColumnSample(2, "l", "long", st.integers(-25, 25), _same, _long, _same, required=True),
    ColumnSample(3, "s", "string", TEXTS, _same, str.encode, _same),
    ColumnSample(4, "f", "float", FLOATS, _same, lambda value: struct.pack("<f", value), _same),
    ColumnSample(5, "d", "double", FLOATS, _same, lambda value: struct.pack("<d", value), _same),
    ColumnSample(6, "b", "boolean", st.booleans(), _same, lambda value: b"\x01" if value else b"\x00", _same),
    ColumnSample(
        7, "dt", "date", DAYS, lambda value: (date(1970, 1, 1) + timedelta(value)).isoformat(), _int,
        lambda value: date(1970, 1, 1) + timedelta(value),
    ),
    ColumnSample(8, "ts", "timestamp", MICROS, _iso, _long, _micros),
    ColumnSample(
        9, "tz", "timestamptz", MICROS, lambda value: _iso(value) + "+00:00", _long,
        lambda value: _micros(value).replace(tzinfo=UTC),
    ),
    ColumnSample(
        10, "tns", "timestamp_ns", MICROS.map(lambda value: value * 1000 + 7),
        lambda value: _iso(value // 1000) + f"{value % 1000:03}", _long, _same,
    ),
    ColumnSample(
        11, "dec", "decimal(9,2)", st.integers(-1200, 1200), lambda value: f"{_decimal(value):.2f}", _unscaled_bytes,
        _decimal,
    ),
    ColumnSample(12, "u", "uuid", UUIDS, lambda value: str(UUID(bytes=value)), bytes, lambda value: UUID(bytes=value)),
    ColumnSample(13, "bin", "binary", st.sampled_from([b"", b"\x00", b"\x00\x01", b"\x7f", b"\xff\x00"]),
                 lambda value: value.hex().upper(), bytes, _same),
    ColumnSample(14, "fx", "fixed[2]", st.sampled_from([b"\x00\x00", b"\x00\xff", b"\x80\x00"]),
                 lambda value: value.hex().upper(), bytes, _same),
    ColumnSample(
        15, "tm", "time", st.sampled_from([0, 1, 81_068_000_000, DAY_US - 1]),
        lambda value: _iso(value).partition("T")[2], _long, lambda value: _micros(value).time(),
    ),
)  # fmt: skip
BY_NAME = {column.name: column for column in COLUMNS}
FIELDS = [column.document for column in COLUMNS]


def a_schema(fields: list[dict[str, Any]], schema_id: int = 0) -> Schema:
    return parse_schema(msgspec.json.encode({"type": "struct", "schema-id": schema_id, "fields": fields}), "schema")


def py_schema_of(fields: list[dict[str, Any]]) -> PySchema:
    return PySchema.model_validate({"type": "struct", "schema-id": 0, "fields": fields})


SCHEMA = a_schema(FIELDS)
PY_SCHEMA = py_schema_of(FIELDS)
