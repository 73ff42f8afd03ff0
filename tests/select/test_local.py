"""Selects where the caller is: over batches, and over records that were gathered."""

from __future__ import annotations

from collections.abc import Iterator
from pathlib import Path

import pyarrow as pa
import pytest

from lakebed.core.errors import SelectFailure, Unavailable
from lakebed.select.failures import SelectCode
from lakebed.select.local import records_of, select_batches, select_gathered
from lakebed.select.model import CsvOutput, JsonOutput

SCHEMA = pa.schema([("id", pa.int64()), ("name", pa.large_string()), ("tags", pa.list_(pa.string()))])
BATCHES = [
    pa.record_batch({"id": [1, 2], "name": ["a", "b"], "tags": [["x"], []]}, schema=SCHEMA),
    pa.record_batch({"id": [3], "name": [None], "tags": [None]}, schema=SCHEMA),
]


class Reader:
    """Gives the batches, and remembers which columns were asked for."""

    def __init__(self) -> None:
        self.asked: list[list[str]] = []

    def __call__(self, columns: list[str]) -> Iterator[pa.RecordBatch]:
        self.asked.append(columns)
        for batch in BATCHES:
            yield batch.select(columns or ["id"])


@pytest.mark.parametrize(
    ("expression", "expected"),
    [
        ("SELECT COUNT(*) FROM S3Object", "SELECT * FROM S3Object"),
        ("select sum(s.a) from S3Object s where s.b = 'x' limit 3;", "SELECT * from S3Object s where s.b = 'x'"),
        (
            "SELECT s.a, COUNT(*)\nFROM S3Object[*].rows[*] s\nWHERE (s.c > 1) GROUP BY s.a ORDER BY s.a",
            "SELECT * FROM S3Object[*].rows[*] s\nWHERE (s.c > 1)",
        ),
        (
            "SELECT EXTRACT(year FROM s.t) AS y, COUNT(*) FROM S3Object s GROUP BY EXTRACT(year FROM s.t)",
            "SELECT * FROM S3Object s",
        ),
        (
            "SELECT 'from' FROM S3Object s WHERE s.x <> ' LIMIT 1' ORDER BY 1",
            "SELECT * FROM S3Object s WHERE s.x <> ' LIMIT 1'",
        ),
    ],
)
def test_the_records_that_a_statement_is_about(expression: str, expected: str) -> None:
    assert records_of(expression) == expected


def test_what_is_no_statement_has_no_records() -> None:
    with pytest.raises(SelectFailure):
        records_of("SELECT FROM WHERE")


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
def test_batches_are_asked(expression: str, expected: bytes, tmp_path: Path) -> None:
    assert b"".join(select_batches(expression, SCHEMA, Reader(), CsvOutput(), spill=tmp_path)) == expected


def test_no_more_columns_are_read_than_are_asked_for(tmp_path: Path) -> None:
    reader = Reader()
    list(select_batches("SELECT s.name FROM S3Object s", SCHEMA, reader, JsonOutput(), spill=tmp_path))
    assert reader.asked == [["name"]]


def test_a_condition_that_was_seen_to_is_not_asked_again(tmp_path: Path) -> None:
    expression = "SELECT COUNT(*) FROM S3Object s WHERE s.id > 100"
    found = select_batches(expression, SCHEMA, Reader(), CsvOutput(), spill=tmp_path, filtered=True)
    assert b"".join(found) == b"3\n"


def test_a_reader_that_fails_tells_why(tmp_path: Path) -> None:
    def read(columns: list[str]) -> Iterator[pa.RecordBatch]:
        yield BATCHES[0].select(columns)
        raise Unavailable("the store is gone")

    with pytest.raises(Unavailable, match="the store is gone"):
        list(select_batches("SELECT s.id FROM S3Object s", SCHEMA, read, CsvOutput(), spill=tmp_path))


def test_columns_that_are_not_there_and_paths_are_refused(tmp_path: Path) -> None:
    for expression, code in (
        ("SELECT s.absent FROM S3Object s", SelectCode.EVALUATOR_BINDING_DOES_NOT_EXIST),
        ("SELECT s.a FROM S3Object[*].rows[*] s", SelectCode.DATA_SOURCE_PATH_UNSUPPORTED),
    ):
        with pytest.raises(SelectFailure) as caught:
            list(select_batches(expression, SCHEMA, Reader(), CsvOutput(), spill=tmp_path))
        assert caught.value.code == code


@pytest.mark.parametrize(
    ("expression", "expected"),
    [
        ("SELECT COUNT(*) FROM S3Object", b"3\n"),
        ("SELECT SUM(r.n) FROM S3Object[*].rows[*] r WHERE r.n > 1000", b"6\n"),
        ("SELECT MAX(rows.n) FROM S3Object[*].rows", b"3\n"),
        ("SELECT s.k, COUNT(*) FROM S3Object s GROUP BY s.k ORDER BY s.k", b"a,2\nb,1\n"),
    ],
)
def test_gathered_records_are_asked_without_what_gathered_them(
    expression: str, expected: bytes, tmp_path: Path
) -> None:
    gathered = tmp_path / "records.json"
    gathered.write_bytes(b'{"n":1,"k":"a"}\n{"n":2,"k":"b"}\n{"n":3,"k":"a"}\n')
    assert b"".join(select_gathered(expression, gathered, CsvOutput(), spill=tmp_path)) == expected


def test_nothing_gathered_is_no_records(tmp_path: Path) -> None:
    gathered = tmp_path / "records.json"
    gathered.write_bytes(b"")
    assert b"".join(select_gathered("SELECT COUNT(*) FROM S3Object", gathered, CsvOutput(), spill=tmp_path)) == b"0\n"
