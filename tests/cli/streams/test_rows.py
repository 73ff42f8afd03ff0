from __future__ import annotations

import datetime
import json
from decimal import Decimal

import pyarrow as pa
import pytest

from lakebed.cli.streams.rows import read_rows, shown_rows
from lakebed.core.errors import InvalidInput

SCHEMA = pa.schema(
    [
        pa.field("id", pa.int32(), nullable=False),
        ("day", pa.date32()),
        ("at", pa.time32("ms")),
        ("moment", pa.timestamp("us", "UTC")),
        ("price", pa.decimal128(30, 4)),
        ("raw", pa.binary()),
    ]
)


def test_every_type_is_parsed_from_json() -> None:
    line = b'{"id":1,"day":"1969-12-31","at":"10:11:12.5","moment":"2026-01-02T03:04:05Z","price":"-1.25","raw":"x"}\n'
    (rows,) = read_rows(line + b'{"id":2}\n', SCHEMA, is_whole=True)
    assert rows.schema == SCHEMA
    assert rows.to_pylist() == [
        {
            "id": 1,
            "day": datetime.date(1969, 12, 31),
            "at": datetime.time(10, 11, 12, 500_000),
            "moment": datetime.datetime(2026, 1, 2, 3, 4, 5, tzinfo=datetime.UTC),
            "price": Decimal("-1.2500"),
            "raw": b"x",
        },
        {"id": 2, "day": None, "at": None, "moment": None, "price": None, "raw": None},
    ]


def test_partial_rows_ignore_other_columns() -> None:
    (rows,) = read_rows(b'{"id":1,"more":[1]}\n', SCHEMA.remove(1), is_whole=False)
    assert rows.column("id").to_pylist() == [1]


@pytest.mark.parametrize(
    "line",
    [
        b"what\n",
        b"[1]\n",
        b'{"nope":1}\n',
        b'{"id":"x"}\n',
        b'{"id":null}\n',
        b'{"id":1.5}\n',
        b'{"id":1,"day":"soon"}\n',
        b'{"id":1,"at":"noon"}\n',
        b'{"id":1,"price":"much"}\n',
    ],
)
def test_invalid_row_is_one_line(line: bytes) -> None:
    with pytest.raises(InvalidInput) as raised:
        list(read_rows(line, SCHEMA, is_whole=True))
    assert "\n" not in str(raised.value)


NESTED = pa.schema(
    [
        pa.field("id", pa.int32(), nullable=False),
        ("tags", pa.list_(pa.field("element", pa.string(), nullable=False))),
        ("marks", pa.map_(pa.string(), pa.int32())),
        (
            "row",
            pa.struct(
                [
                    pa.field("n", pa.int64(), nullable=False),
                    ("day", pa.date32()),
                    ("at", pa.time32("ms")),
                    ("moment", pa.timestamp("ns")),
                    ("price", pa.decimal128(10, 2)),
                    ("score", pa.float64()),
                    ("yes", pa.bool_()),
                    ("raw", pa.binary()),
                ]
            ),
        ),
        ("deep", pa.map_(pa.int32(), pa.list_(pa.map_(pa.bool_(), pa.date32())))),
        ("days", pa.map_(pa.date32(), pa.float64())),
    ]
)


def test_nested_values_round_trip() -> None:
    row = {
        "id": 1,
        "tags": ["a", "b"],
        "marks": {"x": 1, "y": None},
        "row": {
            "n": 2**60,
            "day": "1969-12-31",
            "at": "10:11:12.500000",
            "moment": "2026-01-02 03:04:05",
            "price": "-1.25",
            "score": 0.5,
            "yes": True,
            "raw": None,
        },
        "deep": {"-7": [{"true": "2024-02-29"}, None]},
        "days": {"2024-02-29": 1.0},
    }
    none = {"id": 2, "tags": None, "marks": None, "row": None, "deep": None, "days": None}
    lines = [json.dumps(row), "", '{"id":2}', '{"id":3,"tags":[],"marks":{}}']
    (rows,) = read_rows("\n".join(lines).encode(), NESTED, is_whole=True)
    assert rows.schema == NESTED
    first, second, third = shown_rows(rows)
    assert json.loads(json.dumps(first, default=str)) == row
    assert (second, third) == (none, none | {"id": 3, "tags": [], "marks": {}})


def test_fractions_of_seconds_are_kept_in_nested_values() -> None:
    line = b'{"row":{"n":1,"moment":"2026-01-02T03:04:05.123456789","price":1.25,"score":3,"raw":"x"}}\n'
    (rows,) = read_rows(line, pa.schema([NESTED.field("row")]), is_whole=True)
    found = rows.column("row").flatten()
    assert found[3].cast(pa.int64()).to_pylist() == [1767323045123456789]
    assert (found[4][0].as_py(), found[5][0].as_py(), found[7][0].as_py()) == (Decimal("1.25"), 3.0, b"x")


@pytest.mark.parametrize(
    "json_fields",
    [
        '"tags":"a"',
        '"tags":[null]',
        '"tags":[1]',
        '"marks":[["a",1]]',
        '"marks":{"a":"1"}',
        '"marks":{"a":1.5}',
        '"marks":{"a":true}',
        '"row":{"day":null}',
        '"row":{"n":1,"nope":1}',
        '"row":{"n":1,"day":"soon"}',
        '"row":{"n":1,"price":"much"}',
        '"row":{"n":1,"price":"1.234"}',
        '"row":{"n":1,"yes":1}',
        '"deep":{"x":[]}',
        '"nope":{}',
        '"row":{"n":1',
    ],
)
def test_invalid_nested_value_is_one_line(json_fields: str) -> None:
    with pytest.raises(InvalidInput) as raised:
        list(read_rows(b'{"id":1,' + json_fields.encode() + b"}\n", NESTED, is_whole=True))
    assert "\n" not in str(raised.value)
