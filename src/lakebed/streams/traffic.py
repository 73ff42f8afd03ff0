"""Traffic counters by table: plain numbers added by calls, taken at intervals for metrics.

Each per-bucket part of a call counts once, as answered or as failed. Callers look the table up each time, because the
counters may have been taken while the call waited.
"""

from __future__ import annotations

from collections import defaultdict
from collections.abc import Mapping

__all__ = ["TableTraffic", "Traffic"]


class TableTraffic:
    """The counters of one table."""

    __slots__ = ("answered", "bytes_in", "bytes_out", "failed", "records_in", "records_out")

    def __init__(self) -> None:
        self.bytes_in = self.records_in = 0
        """Of successful writes, repeated ones included."""
        self.bytes_out = self.records_out = 0
        """Bytes of records, rows and values. Records are log records that a reader fetched or skipped."""
        self.answered: defaultdict[str, int] = defaultdict(int)
        self.failed: defaultdict[str, int] = defaultdict(int)
        """Parts by call name."""


class Traffic:
    """The counters of all tables since the last `take`."""

    def __init__(self) -> None:
        self._tables: defaultdict[int | None, TableTraffic] = defaultdict(TableTraffic)

    def record_write(self, table_id: int, call: str, size_bytes: int, records: int) -> None:
        """Count a write to a bucket."""
        table = self._tables[table_id]
        table.answered[call] += 1
        table.bytes_in += size_bytes
        table.records_in += records

    def record_read(self, table_id: int | None, call: str, size_bytes: int, records: int = 0) -> None:
        """Count a read from a bucket; `table_id` is None if it is not known."""
        table = self._tables[table_id]
        table.answered[call] += 1
        table.bytes_out += size_bytes
        table.records_out += records

    def record_failure(self, table_id: int | None, call: str, parts: int = 1) -> None:
        """Count failed parts; `table_id` is None if the table does not exist."""
        self._tables[table_id].failed[call] += parts

    def take(self) -> Mapping[int | None, TableTraffic]:
        """Return and reset the counters."""
        taken, self._tables = self._tables, defaultdict(TableTraffic)
        return taken
