"""Writers that number their batches: a batch that is sent again is not appended again.

Of each writer the last five batches are known, as many as it may have on the way. One of these sent again is answered
with its first place; the one after the newest is appended; any other is out of order. Numbers run from 0 and begin at 0
again after the greatest of 32 bits. Who wrote nothing for a week is forgotten.
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
    """A batch of a writer that is in the log."""

    sequence: int
    base_offset: int
    next_offset: int


@dataclass(slots=True)
class _Writer:
    timestamp_ms: int
    batches: list[WrittenBatch] = field(default_factory=list)


class WriterStates:
    """What is known of the writers of one log. Decides, and is told what was appended."""

    __slots__ = ("_writers",)

    def __init__(self) -> None:
        self._writers: dict[int, _Writer] = {}

    def __len__(self) -> int:
        return len(self._writers)

    def find_repeated(self, batch: LogRecordBatch, now_ms: int) -> WrittenBatch | None:
        """Where the batch is, if it was appended before; None if it is to be appended now.

        Raises OUT_OF_ORDER_SEQUENCE for a gap, UNKNOWN_WRITER_ID for a first batch that is not number 0.
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
                    f"first batch of a writer is not number 0. writer={batch.writer_id} sequence={batch.sequence}",
                )
            return None
        expected = _after(writer.batches[-1].sequence)
        if batch.sequence == expected:
            return None
        for written in writer.batches:
            if written.sequence == batch.sequence:
                return written
        raise _out_of_order(batch, expected)

    def note(self, batch: LogRecordBatch, base_offset: int, timestamp_ms: int) -> None:
        """The batch is in the log at `base_offset`."""
        if batch.writer_id < 0:
            return
        writer = self._writers.get(batch.writer_id)
        if writer is None:
            writer = self._writers[batch.writer_id] = _Writer(timestamp_ms)
        writer.timestamp_ms = timestamp_ms
        writer.batches.append(WrittenBatch(batch.sequence, base_offset, base_offset + batch.last_offset_delta + 1))
        del writer.batches[:-REMEMBERED_BATCHES]

    def forget_idle(self, now_ms: int) -> None:
        """Let go of those who wrote nothing for a week."""
        idle = [key for key, writer in self._writers.items() if now_ms - writer.timestamp_ms > FORGET_WRITERS_AFTER_MS]
        for key in idle:
            del self._writers[key]

    def copy(self) -> WriterStates:
        """The same, to go on with separately."""
        return WriterStates.parse(self.document())

    def document(self) -> bytes:
        """All of it, to be kept beside the log."""
        pieces = []
        for key, writer in self._writers.items():
            pieces.append(_WRITER.pack(key, writer.timestamp_ms, len(writer.batches)))
            pieces += [_BATCH.pack(it.sequence, it.base_offset, it.next_offset) for it in writer.batches]
        return b"".join(pieces)

    @classmethod
    def parse(cls, document: bytes) -> WriterStates:
        """Read what `document` wrote. Raises ValueError for anything else."""
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
                    raise ValueError(f"a writer without batches. writer={key}")
                writers._writers[key] = writer
        except struct.error as error:
            raise ValueError(f"writers are cut off. bytes={len(document)}") from error
        return writers


def _out_of_order(batch: LogRecordBatch, expected: int) -> FlussError:
    return FlussError(
        ErrorCode.OUT_OF_ORDER_SEQUENCE,
        f"batch is out of order. writer={batch.writer_id} sequence={batch.sequence} expected={expected}",
    )


def _after(sequence: int) -> int:
    return 0 if sequence == _GREATEST else sequence + 1
