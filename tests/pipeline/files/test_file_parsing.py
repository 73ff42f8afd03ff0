from __future__ import annotations

import io

import pyarrow as pa
import pytest
from pyarrow import parquet

from lakebed.pipeline.files.file_parsing import UnreadableFile, fit_columns, read_file

SCHEMA = pa.schema([("id", pa.int64()), ("name", pa.string()), ("price", pa.float64())])


def a_parquet(table: pa.Table) -> bytes:
    buffer = io.BytesIO()
    parquet.write_table(table, buffer)
    return buffer.getvalue()


ROWS = [{"id": 1, "name": "a", "price": 1.5}, {"id": 2, "name": "b", "price": 2.0}]


@pytest.mark.parametrize(
    ("body", "format"),
    [
        (a_parquet(pa.Table.from_pylist(ROWS, SCHEMA)), "parquet"),
        (b"id,name,price\n1,a,1.5\n2,b,2\n", "csv"),
        (b'{"id": 1, "name": "a", "price": 1.5}\n{"price": 2, "name": "b", "id": 2}\n', "json"),
    ],
)
def test_rows_are_read_in_the_table_schema(body: bytes, format: str) -> None:
    assert fit_columns(read_file(body, format, None), SCHEMA).to_pylist() == ROWS
    assert fit_columns(read_file(body, format, SCHEMA), SCHEMA).to_pylist() == ROWS


def test_missing_columns_are_null() -> None:
    assert fit_columns(read_file(b"id\n7\n", "csv", SCHEMA), SCHEMA).to_pylist() == [
        {"id": 7, "name": None, "price": None}
    ]


@pytest.mark.parametrize(
    ("body", "format", "why"),
    [
        (b"noise", "parquet", "cannot be read as parquet"),
        (b"", "csv", "cannot be read as csv"),
        (b"{", "json", "cannot be read as json"),
        (b"id,name,price\nx,a,1\n", "csv", "cannot be read as csv"),
        (b"id,colour\n1,red\n", "csv", "no column colour"),
        (a_parquet(pa.table({"id": ["x"]})), "parquet", "column id cannot be cast to int64"),
        (b"", "xml", "unknown format"),
    ],
)
def test_values_that_do_not_fit_are_reported(body: bytes, format: str, why: str) -> None:
    with pytest.raises(UnreadableFile, match=why):
        fit_columns(read_file(body, format, SCHEMA), SCHEMA)
