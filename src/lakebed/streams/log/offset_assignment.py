"""What becomes of batches that arrive: looked at, put in order, given their offsets and their time.

Pure, and the same for every log wherever its bytes are: it knows where the next record goes, and who wrote what.
"""

from __future__ import annotations

from collections.abc import Callable
from dataclasses import dataclass

from lakebed.core.clock import Clock
from lakebed.fluss.errors import ErrorCode, FlussError
from lakebed.fluss.log_batches import LogBuffer, LogRecordBatch, check_batches, stored_batch
from lakebed.streams.seam import Appended

from .writer_state import WriterStates

__all__ = ["AssignedBatches", "OffsetAssigner"]


@dataclass(frozen=True, slots=True)
class AssignedBatches:
    """Batches that have their place, and are not stored yet."""

    appended: Appended
    pieces: list[LogBuffer]
    """Their bytes, to be written one after the other. None if they were there already."""

    entries: list[tuple[int, int]]
    """Of each batch its offset and its size in bytes."""

    timestamp_ms: int


class OffsetAssigner:
    """Where the next record goes. Two calls of `admit` never give one place twice."""

    __slots__ = ("_clock", "_has_schema", "_max_batch_bytes", "end_offset", "timestamp_ms", "writers")

    def __init__(self, clock: Clock, max_batch_bytes: int, has_schema: Callable[[int], bool]) -> None:
        """`has_schema` tells of an id whether the table has such a schema."""
        self._clock = clock
        self._has_schema = has_schema
        self._max_batch_bytes = max_batch_bytes
        self.end_offset = 0
        self.timestamp_ms = -1
        """Of the last batch. Those of a log never go back, whatever the clock does: they are searched by it."""
        self.writers = WriterStates()

    def admit(self, records: LogBuffer) -> AssignedBatches:
        """Look at batches and give them their places: all of them or, if one cannot be taken, none.

        Raises CORRUPT_RECORD, RECORD_TOO_LARGE, SCHEMA_NOT_EXIST, OUT_OF_ORDER_SEQUENCE, UNKNOWN_WRITER_ID.
        """
        batches = check_batches(records, self._max_batch_bytes)
        for batch in batches:
            # Whoever reads asks for the schema by its id, and would ask for ever.
            if not self._has_schema(batch.schema_id):
                raise FlussError(
                    ErrorCode.SCHEMA_NOT_EXIST, f"the table has no such schema. schema_id={batch.schema_id}"
                )
        now_ms = max(self._clock.now_ms(), self.timestamp_ms)
        if len(batches) > 1 and any(batch.writer_id >= 0 for batch in batches):
            self._check_order(batches, now_ms)
        first: int | None = None
        last = self.end_offset
        pieces: list[LogBuffer] = []
        entries: list[tuple[int, int]] = []
        for batch in batches:
            found = self.writers.find_repeated(batch, now_ms)
            base, last = (found.base_offset, found.next_offset) if found else self._place(batch, now_ms)
            first = base if first is None else first
            if found is None:
                header, rest = stored_batch(batch, base, now_ms)
                pieces += (header, rest)
                entries.append((base, len(header) + len(rest)))
        return AssignedBatches(Appended(first or 0, last, is_repeated=not entries), pieces, entries, now_ms)

    def replay(self, batch: LogRecordBatch) -> None:
        """A batch that is in the log already comes next."""
        self.writers.note(batch, batch.base_offset, batch.timestamp_ms)
        self.end_offset = batch.next_offset
        self.timestamp_ms = max(self.timestamp_ms, batch.timestamp_ms)

    def _place(self, batch: LogRecordBatch, now_ms: int) -> tuple[int, int]:
        base = self.end_offset
        self.writers.note(batch, base, now_ms)
        self.timestamp_ms = now_ms
        self.end_offset = base + batch.last_offset_delta + 1
        return base, self.end_offset

    def _check_order(self, batches: list[LogRecordBatch], now_ms: int) -> None:
        """Raise what a later batch would be refused for before an earlier one has its place."""
        trial = self.writers.copy()
        for batch in batches:
            if trial.find_repeated(batch, now_ms) is None:
                trial.note(batch, self.end_offset, now_ms)
