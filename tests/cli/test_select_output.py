"""Records on their way to the terminal."""

from __future__ import annotations

import csv
import io
import json

import pytest
from hypothesis import given
from hypothesis import strategies as st

from lakebed.cli.select_output import RecordLimit, limited, write_records

fields = st.text(st.sampled_from('a",\n '), max_size=6)
tables = st.lists(st.lists(fields, min_size=2, max_size=3), max_size=8)


def as_csv(rows: list[list[str]]) -> bytes:
    written = io.StringIO()
    csv.writer(written, lineterminator="\n").writerows(rows)
    return written.getvalue().encode()


def split(data: bytes, sizes: list[int]) -> list[bytes]:
    pieces = []
    for size in sizes:
        pieces.append(data[:size])
        data = data[size:]
    return [*pieces, data]


@given(tables, st.integers(0, 10), st.lists(st.integers(0, 9), max_size=20))
def test_so_many_records_of_csv_are_let_through_wherever_it_is_cut(
    rows: list[list[str]], records: int, sizes: list[int]
) -> None:
    limit = RecordLimit(records, quoted=True)
    assert b"".join(limited(split(as_csv(rows), sizes), limit)) == as_csv(rows[:records])
    assert limit.is_reached == (len(rows) >= records)


@given(tables, st.integers(0, 10), st.lists(st.integers(0, 9), max_size=20))
def test_so_many_records_of_json_are_let_through_wherever_it_is_cut(
    rows: list[list[str]], records: int, sizes: list[int]
) -> None:
    lines = [json.dumps(row).encode() + b"\n" for row in rows]
    limit = RecordLimit(records, quoted=False)
    assert b"".join(limited(split(b"".join(lines), sizes), limit)) == b"".join(lines[:records])


def test_without_a_limit_all_records_are_let_through() -> None:
    assert list(limited([b"a", b"b"], None)) == [b"a", b"b"]


def test_records_become_a_table_with_the_columns_that_any_has(capsys: pytest.CaptureFixture[str]) -> None:
    pieces = [b'{"name":"ann","n":1}\n{"na', b'me":"bob","tags":["x"],"n":null}\n']
    write_records(pieces, "pretty")
    assert [line.split() for line in capsys.readouterr().out.splitlines()] == [
        ["name", "n", "tags"],
        ["ann", "1"],
        ["bob", '["x"]'],
    ]


def test_many_records_are_shown_page_by_page(capsys: pytest.CaptureFixture[str]) -> None:
    write_records((b'{"n":%d}\n' % number for number in range(2001)), "pretty")
    lines = capsys.readouterr().out.split()
    assert [number for number, line in enumerate(lines) if line == "n"] == [0, 1001, 2002]
    assert lines[-1] == "2000"


def test_no_records_are_no_table(capsys: pytest.CaptureFixture[str]) -> None:
    write_records([], "pretty")
    assert capsys.readouterr().out == ""


@pytest.mark.parametrize("output", ["csv", "json"])
def test_records_for_programs_are_as_they_came(output: str, capsysbinary: pytest.CaptureFixture[bytes]) -> None:
    write_records([b"\xff1,2\n", b"3"], output)
    assert capsysbinary.readouterr().out == b"\xff1,2\n3"
