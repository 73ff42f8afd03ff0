"""Validates incoming batches, deduplicates them, and assigns offsets and timestamps.

Pure, and independent of where the log is stored.
"""

from __future__ import annotations

from collections.abc import Callable
from dataclasses import dataclass

from lakebed.core.clock import Clock
from lakebed.fluss.errors import ErrorCode, FlussError
from lakebed.fluss.log_batches import LogBuffer, LogRecordBatch, check_batches, stored_batch
from lakebed.streams.seam import AppendResult

from .writer_state import WriterStates

__all__ = ["AssignedBatches", "OffsetAssigner"]


@dataclass(frozen=True, slots=True)
class AssignedBatches:
    """Batches with offsets, not yet stored."""

    appended: AppendResult
    pieces: list[LogBuffer]
    """Their bytes in order; empty for duplicates."""

    entries: list[tuple[int, int]]
    """Offset and size in bytes of each batch."""

    timestamp_ms: int


class OffsetAssigner:
    """Assigns offsets. Each offset is assigned once."""

    __slots__ = ("_clock", "_has_schema", "_max_batch_bytes", "end_offset", "timestamp_ms", "writers")

    def __init__(self, clock: Clock, max_batch_bytes: int, has_schema: Callable[[int], bool]) -> None:
        """`has_schema` returns whether the table has a schema with this id."""
        self._clock = clock
        self._has_schema = has_schema
        self._max_batch_bytes = max_batch_bytes
        self.end_offset = 0
        self.timestamp_ms = -1
        """Of the last batch. Timestamps of a log never decrease, even if the clock does: they are searched."""
        self.writers = WriterStates()

    def assign(self, records: LogBuffer) -> AssignedBatches:
        """Validate batches and assign their offsets: all or, if one is invalid, none.

        Raises CORRUPT_RECORD, RECORD_TOO_LARGE, SCHEMA_NOT_EXIST, OUT_OF_ORDER_SEQUENCE, UNKNOWN_WRITER_ID.
        """
        batches = check_batches(records, self._max_batch_bytes)
        for batch in batches:
            # Readers look the schema up by its id, and would retry for ever.
            if not self._has_schema(batch.schema_id):
                raise FlussError(ErrorCode.SCHEMA_NOT_EXIST, f"unknown schema. schema_id={batch.schema_id}")
        now_ms = max(self._clock.now_ms(), self.timestamp_ms)
        if len(batches) > 1 and any(batch.writer_id >= 0 for batch in batches):
            self._check_order(batches, now_ms)
        first: int | None = None
        last = self.end_offset
        pieces: list[LogBuffer] = []
        entries: list[tuple[int, int]] = []
        for batch in batches:
            found = self.writers.find_duplicate(batch, now_ms)
            base, last = (found.base_offset, found.next_offset) if found else self._advance(batch, now_ms)
            first = base if first is None else first
            if found is None:
                header, rest = stored_batch(batch, base, now_ms)
                pieces += (header, rest)
                entries.append((base, len(header) + len(rest)))
        return AssignedBatches(AppendResult(first or 0, last, is_duplicate=not entries), pieces, entries, now_ms)

    def replay(self, batch: LogRecordBatch) -> None:
        """Update the state by a batch that is already in the log."""
        self.writers.record(batch, batch.base_offset, batch.timestamp_ms)
        self.end_offset = batch.next_offset
        self.timestamp_ms = max(self.timestamp_ms, batch.timestamp_ms)

    def _advance(self, batch: LogRecordBatch, now_ms: int) -> tuple[int, int]:
        base = self.end_offset
        self.writers.record(batch, base, now_ms)
        self.timestamp_ms = now_ms
        self.end_offset = base + batch.last_offset_delta + 1
        return base, self.end_offset

    def _check_order(self, batches: list[LogRecordBatch], now_ms: int) -> None:
        """Raise the error of a later batch before an earlier one gets an offset."""
        trial = self.writers.copy()
        for batch in batches:
            if trial.find_duplicate(batch, now_ms) is None:
                trial.record(batch, self.end_offset, now_ms)
