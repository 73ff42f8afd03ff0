from __future__ import annotations

import datetime
from typing import Any

import pyarrow as pa
import pytest

from lakebed.fluss.arrow_types import arrow_schema, arrow_type
from lakebed.fluss.errors import ErrorCode, FlussError
from lakebed.fluss.rows.decoding import RowBuffer, decode_columns
from lakebed.fluss.rows.encoding import column_values, conform_rows, encode_rows
from lakebed.fluss.rows.fields import RowFormat
from lakebed.fluss.schema import Schema
from lakebed.fluss.types import DataType, RowField, TypeRoot

INT, TEXT, DAY = DataType(TypeRoot.INT), DataType(TypeRoot.STRING), DataType(TypeRoot.DATE)
MAP = DataType(TypeRoot.MAP, key=TEXT, value=INT)
DEEP = DataType(TypeRoot.MAP, key=DAY, value=DataType(TypeRoot.ARRAY, element=MAP))
ROW = DataType(TypeRoot.ROW, fields=(RowField("name", DataType(TypeRoot.CHAR, length=3)), RowField("marks", MAP)))
SCHEMA = Schema.of([("id", INT), ("marks", MAP), ("deep", DEEP), ("row", ROW)])
ROWS: list[dict[str, Any]] = [
    {"id": 1, "marks": [("a", 1), ("b", None)], "deep": None, "row": {"name": "abc", "marks": None}},
    {"id": 2, "marks": None, "deep": [(datetime.date(1969, 12, 31), [[("x", 1)], None])], "row": None},
    {"id": 3, "marks": [], "deep": [], "row": {"name": None, "marks": [("long enough to be behind", -1)]}},
]


def batch(rows: list[dict[str, Any]] = ROWS) -> pa.RecordBatch:
    return pa.RecordBatch.from_pylist(rows, arrow_schema(SCHEMA))


def test_maps_are_lists_of_pairs() -> None:
    array = pa.array([[("a", 1), ("b", None)], None, [], [("c", 3)]], arrow_type(MAP))
    assert column_values(MAP, array) == [[("a", 1), ("b", None)], None, [], [("c", 3)]]


def test_slice_of_maps_excludes_other_rows() -> None:
    array = pa.array([[("a", 1)], [("b", 2)], None, [("c", 3)]], arrow_type(MAP))
    assert column_values(MAP, array.slice(1, 2)) == [[("b", 2)], None]


@pytest.mark.parametrize("format_", list(RowFormat))
def test_rows_with_maps_survive_encoding(format_: RowFormat) -> None:
    written = encode_rows(format_, SCHEMA.columns, batch())
    found = decode_columns(format_, [column.type for column in SCHEMA.columns], RowBuffer.of(written))
    assert pa.RecordBatch.from_arrays(found, schema=arrow_schema(SCHEMA)).to_pylist() == ROWS


def test_text_longer_than_its_indexed_field_is_rejected() -> None:
    rows = batch([ROWS[0] | {"row": {"name": "abcd", "marks": None}}])
    assert encode_rows(RowFormat.COMPACTED, SCHEMA.columns, rows)
    with pytest.raises(FlussError) as failed:
        encode_rows(RowFormat.INDEXED, SCHEMA.columns, rows)
    assert failed.value.code is ErrorCode.INVALID_TARGET_COLUMN


def test_rows_are_conformed_to_the_columns_of_the_table() -> None:
    schema = pa.schema([("id", pa.int32()), ("name", pa.string())])
    rows = pa.record_batch({"name": ["x"], "id": pa.array([7], pa.int64()), "more": [1]})
    wanted = pa.record_batch({"id": pa.array([7], pa.int32()), "name": ["x"]}, schema=schema)
    assert conform_rows(rows.select(["name", "id"]), schema) == wanted
    assert conform_rows(rows, schema, is_whole=False) == wanted


@pytest.mark.parametrize(
    "rows",
    [
        pa.record_batch({"id": [1]}),
        pa.record_batch({"id": [1], "name": ["x"], "more": [1]}),
        pa.record_batch({"id": [1], "more": [1]}),
        pa.record_batch({"id": [2**40], "name": ["x"]}),
        pa.record_batch({"id": ["x"], "name": ["x"]}),
        pa.record_batch({"id": pa.array([None], pa.int32()), "name": ["x"]}),
    ],
)
def test_rows_that_do_not_fit_the_table_are_rejected(rows: pa.RecordBatch) -> None:
    with pytest.raises(FlussError) as failed:
        conform_rows(rows, pa.schema([pa.field("id", pa.int32(), nullable=False), ("name", pa.string())]))
    assert failed.value.code is ErrorCode.INVALID_TARGET_COLUMN
