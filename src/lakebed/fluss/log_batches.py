"""Log record batches, on the wire and in files: parses, checks and writes headers.

The server sets two fields of a batch: `base_offset` and `timestamp_ms`. The checksum covers neither.
Three layouts are in use; only the oldest (V0) is stored, because some readers accept no other, and clients read log
files directly. The additions of the later layouts, column statistics and an epoch, are dropped on append (ADR 30).
"""

from __future__ import annotations

import struct
from collections.abc import Iterator
from typing import Final, NamedTuple, TypeAlias

from awscrt.checksums import crc32c

from .errors import ErrorCode, FlussError

__all__ = [
    "APPEND_ONLY",
    "HEADER_BYTES",
    "NO_SEQUENCE",
    "NO_WRITER",
    "BatchPosition",
    "LogBuffer",
    "LogRecordBatch",
    "check_batches",
    "has_valid_checksum",
    "iterate_batches",
    "read_header",
    "read_position",
    "stored_batch",
    "stored_header",
    "with_body",
    "write_batch",
]

LogBuffer: TypeAlias = bytes | bytearray | memoryview

NO_WRITER: Final = -1
NO_SEQUENCE: Final = -1

APPEND_ONLY: Final = 1
"""The attribute of batches with append records only: no change types follow the header."""

_LENGTH_END: Final = 12
"""The length field of a batch excludes itself and what precedes it."""

_V0: Final = struct.Struct("<qibqIhBiqii")
_V1: Final = struct.Struct("<qibqIhBiqiii")
_V2: Final = struct.Struct("<qibqiIhBiqiii")
_SIZES: Final = (_V0.size, _V1.size, _V2.size)

_FRAME: Final = struct.Struct("<qib")
_PLACE: Final = struct.Struct("<qibq")
_CHECKED: Final = struct.Struct("<hBiqii")
_CRC_END: Final = 25
_CRC_END_V2: Final = 29

HEADER_BYTES: Final = _V0.size


class LogRecordBatch(NamedTuple):
    """A batch's header, whatever its layout, and its bytes."""

    base_offset: int
    timestamp_ms: int
    crc: int
    schema_id: int
    attributes: int
    last_offset_delta: int
    writer_id: int
    sequence: int
    record_count: int
    magic: int
    statistics_bytes: int
    view: memoryview
    """The whole batch."""

    @property
    def next_offset(self) -> int:
        """The offset after the last record."""
        return self.base_offset + self.last_offset_delta + 1

    @property
    def body(self) -> memoryview:
        """The batch after its header and statistics: change types, unless it is append-only, then records."""
        return self.view[_SIZES[self.magic] + self.statistics_bytes :]


def read_header(view: memoryview, position: int = 0) -> LogRecordBatch:
    """The batch at `position`. Raises CORRUPT_RECORD unless it is complete; does not verify its checksum."""
    left = len(view) - position
    if left < HEADER_BYTES:
        raise _corrupt("batch is truncated", position, left)
    _, length, magic = _FRAME.unpack_from(view, position)
    if not 0 <= magic < len(_SIZES):
        raise _corrupt("unknown batch layout", position, magic)
    size = length + _LENGTH_END
    if size < _SIZES[magic] or size > left:
        raise _corrupt("invalid batch length", position, length)
    statistics = 0
    if magic == 0:
        base, _, _, stamp, crc, schema, attributes, delta, writer, sequence, count = _V0.unpack_from(view, position)
    elif magic == 1:
        (base, _, _, stamp, crc, schema, attributes, delta, writer, sequence, count, statistics) = _V1.unpack_from(
            view, position
        )
    else:
        (base, _, _, stamp, _, crc, schema, attributes, delta, writer, sequence, count, statistics) = _V2.unpack_from(
            view, position
        )
    if not 0 <= statistics <= size - _SIZES[magic]:
        raise _corrupt("invalid length of batch statistics", position, statistics)
    return LogRecordBatch(
        base,
        stamp,
        crc,
        schema,
        attributes,
        delta,
        writer,
        sequence,
        count,
        magic,
        statistics,
        view[position : position + size],
    )


class BatchPosition(NamedTuple):
    """The position of a stored batch, from its header."""

    base_offset: int
    next_offset: int
    size: int
    timestamp_ms: int


def read_position(head: bytes) -> BatchPosition:
    """The position of a stored batch, from its header alone. Raises CORRUPT_RECORD if it is not a batch."""
    if len(head) < HEADER_BYTES:
        raise _corrupt("batch is truncated", 0, len(head))
    base, length, magic, stamp, _, _, _, delta, _, _, _ = _V0.unpack_from(head)
    size = length + _LENGTH_END
    if magic != 0 or size < HEADER_BYTES or delta < 0:
        raise _corrupt("not a batch", base, length)
    return BatchPosition(base, base + delta + 1, size, stamp)


def iterate_batches(records: LogBuffer) -> Iterator[LogRecordBatch]:
    """Iterate over batches without verifying checksums. Raises CORRUPT_RECORD for a truncated batch."""
    view = memoryview(records)
    position = 0
    while position < len(view):
        batch = read_header(view, position)
        yield batch
        position += len(batch.view)


def has_valid_checksum(batch: LogRecordBatch) -> bool:
    """Whether the checksum matches the bytes."""
    start = _CRC_END_V2 if batch.magic == 2 else _CRC_END
    return bool(crc32c(batch.view[start:]) == batch.crc)


def check_batches(records: LogBuffer, max_batch_bytes: int) -> list[LogRecordBatch]:
    """Check batches from a writer: checksums, record counts, writer ids and batch sequences.

    Raises CORRUPT_RECORD, RECORD_TOO_LARGE.
    """
    batches = []
    for batch in iterate_batches(records):
        size = len(batch.view)
        if size > max_batch_bytes:
            raise FlussError(ErrorCode.RECORD_TOO_LARGE, f"batch too large. bytes={size} maximum={max_batch_bytes}")
        if not has_valid_checksum(batch):
            raise FlussError(ErrorCode.CORRUPT_RECORD, f"batch checksum does not match. bytes={size}")
        delta, count = batch.last_offset_delta, batch.record_count
        # A batch without records takes one offset: it advances the writer's sequence when nothing changed.
        if delta < 0 or (count != delta + 1 and (count, delta) != (0, 0)):
            raise FlussError(
                ErrorCode.CORRUPT_RECORD,
                f"record count does not match the offsets of the batch. records={count} last_offset_delta={delta}",
            )
        if (batch.writer_id >= 0) != (batch.sequence >= 0):
            raise FlussError(
                ErrorCode.CORRUPT_RECORD,
                "batch has only one of writer id and batch sequence. "
                f"writer={batch.writer_id} sequence={batch.sequence}",
            )
        batches.append(batch)
    if not batches:
        raise FlussError(ErrorCode.CORRUPT_RECORD, "request contains no batch")
    return batches


def stored_batch(batch: LogRecordBatch, base_offset: int, timestamp_ms: int) -> tuple[bytes, memoryview]:
    """The batch as it is stored at `base_offset`, in two pieces: a new header, and the bytes of the sender."""
    if batch.magic == 0:
        size = len(batch.view) - _LENGTH_END
        return _PLACE.pack(base_offset, size, 0, timestamp_ms), batch.view[_PLACE.size :]
    header, body = _header(batch, base_offset, timestamp_ms, batch.body)
    return header, body


def write_batch(
    body: LogBuffer,
    record_count: int,
    *,
    schema_id: int,
    attributes: int = APPEND_ONLY,
    writer_id: int = NO_WRITER,
    sequence: int = NO_SEQUENCE,
) -> bytes:
    """A batch as a writer sends it. Without records it still takes one offset."""
    batch = LogRecordBatch(
        0,
        0,
        0,
        schema_id,
        attributes,
        max(record_count - 1, 0),
        writer_id,
        sequence,
        record_count,
        0,
        0,
        memoryview(b""),
    )
    return b"".join(_header(batch, 0, 0, memoryview(body)))


def with_body(batch: LogRecordBatch, body: LogBuffer, attributes: int) -> bytes:
    """The batch with another body and checksum; offsets and writer are kept."""
    other = batch._replace(attributes=attributes)
    return b"".join(_header(other, batch.base_offset, batch.timestamp_ms, memoryview(body)))


def stored_header(batch: LogRecordBatch, body_bytes: int) -> bytes:
    """The header of a stored batch for a body of another length. Keeps the original checksum."""
    size = HEADER_BYTES + body_bytes - _LENGTH_END
    return _PLACE.pack(batch.base_offset, size, 0, batch.timestamp_ms) + bytes(batch.view[_PLACE.size : HEADER_BYTES])


def _header(batch: LogRecordBatch, base_offset: int, timestamp_ms: int, body: memoryview) -> tuple[bytes, memoryview]:
    checked = _CHECKED.pack(
        batch.schema_id,
        batch.attributes,
        batch.last_offset_delta,
        batch.writer_id,
        batch.sequence,
        batch.record_count,
    )
    crc = crc32c(body, crc32c(checked))
    size = _PLACE.size + 4 + len(checked) + len(body) - _LENGTH_END
    return b"".join((_PLACE.pack(base_offset, size, 0, timestamp_ms), crc.to_bytes(4, "little"), checked)), body


def _corrupt(message: str, position: int, found: int) -> FlussError:
    return FlussError(ErrorCode.CORRUPT_RECORD, f"{message}. position={position} found={found}")
