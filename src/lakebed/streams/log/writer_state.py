"""Deduplicates batches by writer id and batch sequence.

The last five batches of each writer are remembered, as many as a client has in flight. If one of them is sent again,
the response has its original offsets; the batch after the newest is appended; any other is out of order. Sequences
start at 0 and wrap to 0 after the largest 32-bit integer. Writers that wrote nothing for a week are forgotten.
"""

from __future__ import annotations

import struct
from dataclasses import dataclass, field
from typing import Final

from lakebed.fluss.errors import ErrorCode, FlussError
from lakebed.fluss.log_batches import LogRecordBatch

__all__ = ["FORGET_WRITERS_AFTER_MS", "REMEMBERED_BATCHES", "WriterStates", "WrittenBatch"]

REMEMBERED_BATCHES: Final = 5
FORGET_WRITERS_AFTER_MS: Final = 7 * 24 * 3600 * 1000

_GREATEST: Final = 2**31 - 1
_WRITER: Final = struct.Struct("<qqi")
_BATCH: Final = struct.Struct("<iqq")


@dataclass(frozen=True, slots=True)
class WrittenBatch:
    """A batch of a writer in the log."""

    sequence: int
    base_offset: int
    next_offset: int


@dataclass(slots=True)
class _Writer:
    timestamp_ms: int
    batches: list[WrittenBatch] = field(default_factory=list)


class WriterStates:
    """The writers of one log."""

    __slots__ = ("_writers",)

    def __init__(self) -> None:
        self._writers: dict[int, _Writer] = {}

    def __len__(self) -> int:
        return len(self._writers)

    def find_duplicate(self, batch: LogRecordBatch, now_ms: int) -> WrittenBatch | None:
        """The batch in the log that this one duplicates; None if it is new.

        Raises OUT_OF_ORDER_SEQUENCE for a gap, UNKNOWN_WRITER_ID for a first batch whose sequence is not 0.
        """
        if batch.writer_id < 0:
            return None
        writer = self._writers.get(batch.writer_id)
        if writer is not None and now_ms - writer.timestamp_ms > FORGET_WRITERS_AFTER_MS:
            writer = None
        if writer is None:
            if batch.sequence != 0:
                raise FlussError(
                    ErrorCode.UNKNOWN_WRITER_ID,
                    f"first batch sequence of a writer is not 0. writer={batch.writer_id} sequence={batch.sequence}",
                )
            return None
        expected = _after(writer.batches[-1].sequence)
        if batch.sequence == expected:
            return None
        for written in writer.batches:
            if written.sequence == batch.sequence:
                return written
        raise _out_of_order(batch, expected)

    def record(self, batch: LogRecordBatch, base_offset: int, timestamp_ms: int) -> None:
        """Record that the batch is in the log at `base_offset`."""
        if batch.writer_id < 0:
            return
        writer = self._writers.get(batch.writer_id)
        if writer is None:
            writer = self._writers[batch.writer_id] = _Writer(timestamp_ms)
        writer.timestamp_ms = timestamp_ms
        writer.batches.append(WrittenBatch(batch.sequence, base_offset, base_offset + batch.last_offset_delta + 1))
        del writer.batches[:-REMEMBERED_BATCHES]

    def forget_idle(self, now_ms: int) -> None:
        """Forget writers that wrote nothing for a week."""
        idle = [key for key, writer in self._writers.items() if now_ms - writer.timestamp_ms > FORGET_WRITERS_AFTER_MS]
        for key in idle:
            del self._writers[key]

    def copy(self) -> WriterStates:
        """An independent copy."""
        return WriterStates.parse(self.document())

    def document(self) -> bytes:
        """The state as bytes, to be stored beside the log."""
        pieces = []
        for key, writer in self._writers.items():
            pieces.append(_WRITER.pack(key, writer.timestamp_ms, len(writer.batches)))
            pieces += [_BATCH.pack(it.sequence, it.base_offset, it.next_offset) for it in writer.batches]
        return b"".join(pieces)

    @classmethod
    def parse(cls, document: bytes) -> WriterStates:
        """Parse the bytes of `document`. Raises ValueError."""
        writers = cls()
        position = 0
        try:
            while position < len(document):
                key, timestamp_ms, count = _WRITER.unpack_from(document, position)
                position += _WRITER.size
                writer = _Writer(timestamp_ms)
                for _ in range(count):
                    writer.batches.append(WrittenBatch(*_BATCH.unpack_from(document, position)))
                    position += _BATCH.size
                if not writer.batches:
                    raise ValueError(f"writer without batches. writer={key}")
                writers._writers[key] = writer
        except struct.error as error:
            raise ValueError(f"writer state is truncated. bytes={len(document)}") from error
        return writers


def _out_of_order(batch: LogRecordBatch, expected: int) -> FlussError:
    return FlussError(
        ErrorCode.OUT_OF_ORDER_SEQUENCE,
        f"batch sequence is out of order. writer={batch.writer_id} sequence={batch.sequence} expected={expected}",
    )


def _after(sequence: int) -> int:
    return 0 if sequence == _GREATEST else sequence + 1
