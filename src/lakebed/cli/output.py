"""Output of commands: tables or JSON. Rich is used only on a terminal."""

from __future__ import annotations

import json
import sys
from collections.abc import Mapping, Sequence
from typing import TYPE_CHECKING

if TYPE_CHECKING:
    from rich.console import Console


def print_json(value: object) -> None:
    """Print a JSON document, indented."""
    print(json.dumps(value, indent=2, ensure_ascii=False))


def print_rows(columns: Sequence[str], rows: Sequence[Sequence[str]], *, as_json: bool) -> None:
    """Print rows under column names; as JSON, a list of objects."""
    if as_json:
        print_json([dict(zip(columns, row, strict=True)) for row in rows])
    elif sys.stdout.isatty():
        _draw(columns, rows)
    else:
        widths = [max(len(row[index]) for row in (columns, *rows)) for index in range(len(columns))]
        for row in (columns, *rows):
            print("  ".join(cell.ljust(width) for cell, width in zip(row, widths, strict=True)).rstrip())


def print_facts(facts: Mapping[str, str], *, as_json: bool) -> None:
    """Print `name  value` lines; as JSON, an object."""
    if as_json:
        print_json(dict(facts))
        return
    width = max(map(len, facts))
    for name, value in facts.items():
        print(f"{name.replace('_', ' ').ljust(width)}  {value}")


def console() -> Console:
    """The console for progress: styled on a terminal, plain lines elsewhere."""
    from rich.console import Console

    return Console(soft_wrap=True)


def _draw(columns: Sequence[str], rows: Sequence[Sequence[str]]) -> None:
    from rich.console import Console
    from rich.table import Table
    from rich.text import Text

    table = Table(box=None, header_style="bold", pad_edge=False)
    for column in columns:
        table.add_column(column, overflow="fold")
    for row in rows:
        table.add_row(*(Text(cell) for cell in row))  # as text: names may contain markup of Rich
    Console(file=sys.stdout).print(table)
