"""Log record batches, on the wire and in files: headers are parsed, checked and written.

A writer sends a batch whole; the server sets where it is (`base_offset`) and when it came (`timestamp_ms`), neither of
which is under the checksum. Of the three layouts in use only the oldest (V0) is stored: there are readers that take
every batch for one of these, and files of batches are read by clients directly. What the later ones have besides,
statistics of columns and an epoch, is left out when a batch is taken in (ADR 30).
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
"""The attribute of batches whose records are all of the kind "append": no change types follow the header."""

_LENGTH_END: Final = 12
"""The length of a batch counts what comes after it."""

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
    """A batch's header, whatever layout it was in, and its bytes."""

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
    """All of it."""

    @property
    def next_offset(self) -> int:
        """The offset after the last of its records."""
        return self.base_offset + self.last_offset_delta + 1

    @property
    def body(self) -> memoryview:
        """What follows the header and the statistics: change types if it is not append only, then records."""
        return self.view[_SIZES[self.magic] + self.statistics_bytes :]


def read_header(view: memoryview, position: int = 0) -> LogRecordBatch:
    """The batch at `position`. Raises CORRUPT_RECORD if there is none that is whole; its checksum is not looked at."""
    left = len(view) - position
    if left < HEADER_BYTES:
        raise _corrupt("batch is cut off", position, left)
    _, length, magic = _FRAME.unpack_from(view, position)
    if not 0 <= magic < len(_SIZES):
        raise _corrupt("batch has an unknown layout", position, magic)
    size = length + _LENGTH_END
    if size < _SIZES[magic] or size > left:
        raise _corrupt("batch has an impossible length", position, length)
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
        raise _corrupt("batch has statistics of an impossible length", position, statistics)
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
    """What the header of a stored batch says of where it is."""

    base_offset: int
    next_offset: int
    size: int
    timestamp_ms: int


def read_position(head: bytes) -> BatchPosition:
    """The place of a stored batch, by its header alone. Raises CORRUPT_RECORD if it is none."""
    if len(head) < HEADER_BYTES:
        raise _corrupt("batch is cut off", 0, len(head))
    base, length, magic, stamp, _, _, _, delta, _, _, _ = _V0.unpack_from(head)
    size = length + _LENGTH_END
    if magic != 0 or size < HEADER_BYTES or delta < 0:
        raise _corrupt("no batch begins here", base, length)
    return BatchPosition(base, base + delta + 1, size, stamp)


def iterate_batches(records: LogBuffer) -> Iterator[LogRecordBatch]:
    """The batches of `records`, whose checksums are not looked at. Raises CORRUPT_RECORD where one is cut off."""
    view = memoryview(records)
    position = 0
    while position < len(view):
        batch = read_header(view, position)
        yield batch
        position += len(batch.view)


def has_valid_checksum(batch: LogRecordBatch) -> bool:
    """Whether the bytes are those that the checksum was made of."""
    start = _CRC_END_V2 if batch.magic == 2 else _CRC_END
    return bool(crc32c(batch.view[start:]) == batch.crc)


def check_batches(records: LogBuffer, max_batch_bytes: int) -> list[LogRecordBatch]:
    """The batches that a writer sent, each with a right checksum, counts that agree and a place in its writer's order.

    Raises CORRUPT_RECORD, RECORD_TOO_LARGE.
    """
    batches = []
    for batch in iterate_batches(records):
        size = len(batch.view)
        if size > max_batch_bytes:
            raise FlussError(ErrorCode.RECORD_TOO_LARGE, f"batch is too large. bytes={size} maximum={max_batch_bytes}")
        if not has_valid_checksum(batch):
            raise FlussError(ErrorCode.CORRUPT_RECORD, f"checksum of a batch does not match. bytes={size}")
        delta, count = batch.last_offset_delta, batch.record_count
        # A batch without records still takes an offset: it is how a writer's sequence is kept when nothing changed.
        if delta < 0 or (count != delta + 1 and (count, delta) != (0, 0)):
            raise FlussError(
                ErrorCode.CORRUPT_RECORD, f"counts of a batch do not agree. records={count} last_offset_delta={delta}"
            )
        if (batch.writer_id >= 0) != (batch.sequence >= 0):
            raise FlussError(
                ErrorCode.CORRUPT_RECORD,
                f"a writer and its sequence come together. writer={batch.writer_id} sequence={batch.sequence}",
            )
        batches.append(batch)
    if not batches:
        raise FlussError(ErrorCode.CORRUPT_RECORD, "no batch was sent")
    return batches


def stored_batch(batch: LogRecordBatch, base_offset: int, timestamp_ms: int) -> tuple[bytes, memoryview]:
    """The batch as it is stored at `base_offset`, in two pieces: what is written anew, and what is the sender's."""
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
    """A batch as a writer sends it; without records it takes one offset all the same."""
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
    """The same batch with another body: at its offsets, of its writer, with the checksum of what it holds now."""
    other = batch._replace(attributes=attributes)
    return b"".join(_header(other, batch.base_offset, batch.timestamp_ms, memoryview(body)))


def stored_header(batch: LogRecordBatch, body_bytes: int) -> bytes:
    """A stored batch's header before a body of another length, with the checksum that it had."""
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
