"""Prints records of queries as CSV, JSON or tables."""

from __future__ import annotations

import json
import sys
from collections.abc import Iterable, Iterator, Mapping
from typing import Final

from lakebed.client.selects import Words
from lakebed.select.model import CsvOutput, JsonOutput

from ..output import print_rows

OUTPUTS: Final = ("pretty", "csv", "json")

_PAGE: Final = 1000
"""Records per table; column widths are computed for each table."""


def target_words(output: str) -> Words:
    """The OutputSerialization for the server."""
    return {"CSV": {}} if output == "csv" else {"JSON": {}}


def local_output(output: str) -> CsvOutput | JsonOutput:
    """The output format of a local query."""
    return CsvOutput() if output == "csv" else JsonOutput()


def write_records(pieces: Iterable[bytes], output: str) -> None:
    """Print records as they arrive; tables page by page."""
    if output == "pretty":
        _print_tables(pieces)
        return
    sys.stdout.flush()
    for piece in pieces:
        sys.stdout.buffer.write(piece)
    sys.stdout.buffer.flush()


def _print_tables(pieces: Iterable[bytes]) -> None:
    page: list[Mapping[str, object]] = []
    for record in _records(pieces):
        page.append(record)
        if len(page) == _PAGE:
            _print_table(page)
            page = []
    if page:
        _print_table(page)


def _records(pieces: Iterable[bytes]) -> Iterator[Mapping[str, object]]:
    held = b""
    for piece in pieces:
        *lines, held = (held + piece).split(b"\n")
        yield from (json.loads(line) for line in lines if line)
    if held:
        yield json.loads(held)


def _print_table(page: list[Mapping[str, object]]) -> None:
    columns = list(dict.fromkeys(name for record in page for name in record))
    rows = [[_cell(record.get(name)) for name in columns] for record in page]
    print_rows(columns, rows, as_json=False)


def _cell(value: object) -> str:
    if value is None:
        return ""
    return value if isinstance(value, str) else json.dumps(value, ensure_ascii=False)
