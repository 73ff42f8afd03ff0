"""Appends that only have to be committed: tables made, files written, requests built in the order they follow.

A table takes a bounded number of appends, then the next table's turn comes. So a fast server works on tables as long
as a slow one does: what a commit costs grows with the snapshots that a table keeps.
"""

from __future__ import annotations

import time
from collections.abc import Sequence
from dataclasses import dataclass

from benchmarks.catalog.files import files_of_appends
from benchmarks.catalog.site import Site, Table
from benchmarks.endpoint import Request


@dataclass(frozen=True, slots=True)
class Series:
    """Tables without data, and the files of the appends to come."""

    tables: Sequence[Table]
    depth: int
    """Appends a table."""

    def __len__(self) -> int:
        return len(self.tables) * self.depth

    def requests(self, site: Site) -> list[Request]:
        """All commits, table after table."""
        # Snapshots are as old as their requests; engines read the time off them, and refuse to go back in it.
        now_ms = time.time_ns() // 1_000_000
        numbers = range(1, self.depth + 1)
        return [site.append_request(table, number, now_ms + number) for table in self.tables for number in numbers]

    def check(self, site: Site, committed: int) -> None:
        """Raise RuntimeError unless the first so many appends are in the tables, and no others."""
        for index, table in enumerate(self.tables):
            expected = min(self.depth, committed - index * self.depth)
            if expected <= 0:
                break
            site.check_appended(table, expected)


def prepare(site: Site, namespace: str, label: str, appends: int, depth: int) -> Series:
    """A series of at least so many appends."""
    tables = [site.create_table(namespace, f"{label}-{index}") for index in range(-(-appends // depth))]
    write_files(site, tables, depth)
    return Series(tables, depth)


def write_files(site: Site, tables: Sequence[Table], depth: int) -> None:
    """Write what the first appends to each table add."""
    for table in tables:
        site.store.put(files_of_appends(table.location, range(1, depth + 1)))
