"""What goes into tables and out of them: plain numbers that calls add to, taken away by who tells of them.

Every part of a call that is about one bucket is counted once: as answered, or as failed. Adding costs a few additions;
whoever adds looks the table up each time, because the numbers may have been taken while its call waited.
"""

from __future__ import annotations

from collections import defaultdict
from collections.abc import Mapping

__all__ = ["TableTraffic", "Traffic"]


class TableTraffic:
    """That of one table, in some time."""

    __slots__ = ("answered", "bytes_in", "bytes_out", "failed", "records_in", "records_out")

    def __init__(self) -> None:
        self.bytes_in = self.records_in = 0
        """Of writes that were answered without a failure, those that repeated an earlier one among them."""
        self.bytes_out = self.records_out = 0
        """Bytes of records, rows and values. Records are those of logs that a reader was brought past."""
        self.answered: defaultdict[str, int] = defaultdict(int)
        self.failed: defaultdict[str, int] = defaultdict(int)
        """Parts, by the name of their call."""


class Traffic:
    """That of all tables since it was last taken."""

    def __init__(self) -> None:
        self._tables: defaultdict[int | None, TableTraffic] = defaultdict(TableTraffic)

    def came(self, table_id: int, call: str, size_bytes: int, records: int) -> None:
        """A bucket took what a call brought."""
        table = self._tables[table_id]
        table.answered[call] += 1
        table.bytes_in += size_bytes
        table.records_in += records

    def went(self, table_id: int | None, call: str, size_bytes: int, records: int = 0) -> None:
        """A bucket gave what a call asked for. Without a table if that is not known there."""
        table = self._tables[table_id]
        table.answered[call] += 1
        table.bytes_out += size_bytes
        table.records_out += records

    def failed(self, table_id: int | None, call: str, parts: int = 1) -> None:
        """So many parts of a call were answered with a failure. Without a table if there is none of that id."""
        self._tables[table_id].failed[call] += parts

    def take(self) -> Mapping[int | None, TableTraffic]:
        """All of it by table, which is then nothing."""
        taken, self._tables = self._tables, defaultdict(TableTraffic)
        return taken
