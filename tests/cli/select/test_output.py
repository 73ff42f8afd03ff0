"""Output formats of records."""

from __future__ import annotations

import pytest

from lakebed.cli.select.output import write_records


def test_table_has_the_columns_of_all_records(capsys: pytest.CaptureFixture[str]) -> None:
    pieces = [b'{"name":"ann","n":1}\n{"na', b'me":"bob","tags":["x"],"n":null}\n']
    write_records(pieces, "pretty")
    assert [line.split() for line in capsys.readouterr().out.splitlines()] == [
        ["name", "n", "tags"],
        ["ann", "1"],
        ["bob", '["x"]'],
    ]


def test_records_are_printed_in_pages(capsys: pytest.CaptureFixture[str]) -> None:
    write_records((b'{"n":%d}\n' % number for number in range(2001)), "pretty")
    lines = capsys.readouterr().out.split()
    assert [number for number, line in enumerate(lines) if line == "n"] == [0, 1001, 2002]
    assert lines[-1] == "2000"


def test_empty_result_prints_no_table(capsys: pytest.CaptureFixture[str]) -> None:
    write_records([], "pretty")
    assert capsys.readouterr().out == ""


@pytest.mark.parametrize("output", ["csv", "json"])
def test_csv_and_json_records_are_printed_unchanged(output: str, capsysbinary: pytest.CaptureFixture[bytes]) -> None:
    write_records([b"\xff1,2\n", b"3"], output)
    assert capsysbinary.readouterr().out == b"\xff1,2\n3"
