"""Selects without a server, over batches."""

from __future__ import annotations

from collections.abc import Iterator
from pathlib import Path

import pyarrow as pa
import pytest

from lakebed.core.errors import SelectError, Unavailable
from lakebed.select.dialect.statement import read_statement
from lakebed.select.errors import SelectCode
from lakebed.select.execution.local import select_batches
from lakebed.select.model import CsvOutput, JsonOutput

SCHEMA = pa.schema([("id", pa.int64()), ("name", pa.large_string()), ("tags", pa.list_(pa.string()))])
BATCHES = [
    pa.record_batch({"id": [1, 2], "name": ["a", "b"], "tags": [["x"], []]}, schema=SCHEMA),
    pa.record_batch({"id": [3], "name": [None], "tags": [None]}, schema=SCHEMA),
]


class Reader:
    """A reader that records the requested columns."""

    def __init__(self) -> None:
        self.requested: list[list[str]] = []

    def __call__(self, columns: list[str]) -> Iterator[pa.RecordBatch]:
        self.requested.append(columns)
        for batch in BATCHES:
            yield batch.select(columns or ["id"])


@pytest.mark.parametrize(
    ("expression", "expected"),
    [
        ("SELECT s.id, s.name FROM S3Object s WHERE s.id >= 2", b"2,b\n3,\n"),
        ("SELECT COUNT(*) FROM S3Object", b"3\n"),
        ("SELECT SUM(s.id), MAX(s.name) FROM S3Object s", b"6,b\n"),
        ("SELECT s.id FROM S3Object s ORDER BY s.id DESC LIMIT 2", b"3\n2\n"),
        ("SELECT s.tags[0] FROM S3Object s LIMIT 1", b"x\n"),
    ],
)
def test_batches_are_queried(expression: str, expected: bytes, tmp_path: Path) -> None:
    assert (
        b"".join(select_batches(read_statement(expression), SCHEMA, Reader(), CsvOutput(), spill=tmp_path)) == expected
    )


def test_only_requested_columns_are_read(tmp_path: Path) -> None:
    reader = Reader()
    list(select_batches(read_statement("SELECT s.name FROM S3Object s"), SCHEMA, reader, JsonOutput(), spill=tmp_path))
    assert reader.requested == [["name"]]


def test_error_of_the_reader_is_raised(tmp_path: Path) -> None:
    def read(columns: list[str]) -> Iterator[pa.RecordBatch]:
        yield BATCHES[0].select(columns)
        raise Unavailable("the store is down")

    with pytest.raises(Unavailable, match="the store is down"):
        list(select_batches(read_statement("SELECT s.id FROM S3Object s"), SCHEMA, read, CsvOutput(), spill=tmp_path))


def test_unknown_columns_and_paths_are_rejected(tmp_path: Path) -> None:
    for expression, code in (
        ("SELECT s.absent FROM S3Object s", SelectCode.EVALUATOR_BINDING_DOES_NOT_EXIST),
        ("SELECT s.a FROM S3Object[*].rows[*] s", SelectCode.DATA_SOURCE_PATH_UNSUPPORTED),
    ):
        with pytest.raises(SelectError) as caught:
            list(select_batches(read_statement(expression), SCHEMA, Reader(), CsvOutput(), spill=tmp_path))
        assert caught.value.code == code
