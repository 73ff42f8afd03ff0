"""Prepares appends: creates tables, writes their files, and builds the commits in order.

The number of appends to one table is bounded. Commits cost more as snapshots accumulate; without the bound a fast
server would be measured on longer tables than a slow one.
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
    """Empty tables, and the written files of their appends."""

    tables: Sequence[Table]
    depth: int
    """Appends for each table."""

    def __len__(self) -> int:
        return len(self.tables) * self.depth

    def requests(self, site: Site) -> list[Request]:
        """Return all commits, table after table."""
        # Commits must have ascending timestamps close to the current time.
        now_ms = time.time_ns() // 1_000_000
        numbers = range(1, self.depth + 1)
        return [site.append_request(table, number, now_ms + number) for table in self.tables for number in numbers]

    def check(self, site: Site, committed: int) -> None:
        """Raise RuntimeError unless exactly the first `committed` appends are in the tables."""
        for index, table in enumerate(self.tables):
            expected = min(self.depth, committed - index * self.depth)
            if expected <= 0:
                break
            site.check_appended(table, expected)


def prepare(site: Site, namespace: str, label: str, appends: int, depth: int) -> Series:
    """Prepare at least `appends` appends."""
    tables = [site.create_table(namespace, f"{label}-{index}") for index in range(-(-appends // depth))]
    write_files(site, tables, depth)
    return Series(tables, depth)


def write_files(site: Site, tables: Sequence[Table], depth: int) -> None:
    """Write the files of the first `depth` appends to each table."""
    for table in tables:
        site.store.put(files_of_appends(table.location, range(1, depth + 1)))
