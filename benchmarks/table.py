"""A table of results: rich on a terminal, Markdown in a file or a pipe."""

from __future__ import annotations

import sys
from collections.abc import Sequence
from dataclasses import dataclass

from rich.console import Console
from rich.table import Table as RichTable

from benchmarks.samples import Cost


@dataclass(frozen=True, slots=True)
class Table:
    """A table of text."""

    title: str
    columns: Sequence[str]
    rows: Sequence[Sequence[str]]
    notes: Sequence[str] = ()
    """Printed below the table."""

    def markdown(self) -> str:
        """Format as GitHub Markdown; all columns but the first are right-aligned."""
        rule = ["---", *("--:" for _ in self.columns[1:])]
        lines = [f"| {' | '.join(cells)} |" for cells in (self.columns, rule, *self.rows)]
        below = ["", *(f"- {note}" for note in self.notes)] if self.notes else []
        return "\n".join([*lines, *below]) + "\n"

    def show(self) -> None:
        """Print the table, in colour on a terminal."""
        if not sys.stdout.isatty():
            print(f"\n{self.title}\n\n{self.markdown()}", end="")
            return
        table = RichTable(title=self.title)
        for index, column in enumerate(self.columns):
            table.add_column(column, justify="right" if index else "left")
        for cells in self.rows:
            table.add_row(*(_coloured(cell) for cell in cells))
        console = Console()
        console.print(table)
        for note in self.notes:
            console.print(f"- {note}", markup=False)


def _coloured(cell: str) -> str:
    colour = {"yes": "green", "no": "red"}.get(cell)
    return f"[{colour}]{cell}[/]" if colour else cell


def cost_cell(cost: Cost) -> str:
    """Format processor time and speed of an operation."""
    failed = f" ({cost.errors} errors)" if cost.errors else ""
    return f"{cost.server_cpu_seconds * 1e6:,.0f} µs, {cost.operations_a_second:,.0f} op/s{failed}"
