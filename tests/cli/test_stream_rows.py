from __future__ import annotations

import datetime
from decimal import Decimal

import pyarrow as pa
import pytest

from lakebed.cli.stream_rows import read_rows
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


def test_each_type_is_read_from_what_people_write() -> None:
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


def test_of_rows_that_need_not_be_whole_the_rest_is_left_aside() -> None:
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
def test_what_is_no_row_is_one_line(line: bytes) -> None:
    with pytest.raises(InvalidInput) as raised:
        list(read_rows(line, SCHEMA, is_whole=True))
    assert "\n" not in str(raised.value)
