"""The messages that carry records, read and written without copying these (see `encoding`)."""

from __future__ import annotations

from collections.abc import Sequence
from dataclasses import dataclass, field
from typing import Final, NamedTuple

from google.protobuf.message import DecodeError, Message

from lakebed.streams.kv.scanners import KvScanPage
from lakebed.streams.seam import RemoteSegment

from . import messages_pb2 as pb
from .calls import Chunks
from .encoding import MAX_FIELDS, fields, signed_32, signed_64, varint

__all__ = [
    "FetchedBucket",
    "RecordsFor",
    "WriteRequest",
    "fetch_answer",
    "limit_scan_answer",
    "looked_up",
    "read_produce",
    "read_put",
    "scan_answer",
]


class RecordsFor(NamedTuple):
    """Records for one bucket, where they lie in the frame."""

    partition_id: int | None
    bucket: int
    records: memoryview


@dataclass(slots=True)
class WriteRequest:
    """What ProduceLog and PutKv have in common, and what PutKv says besides."""

    acks: int = 0
    table_id: int = -1
    timeout_ms: int = 0
    buckets: list[RecordsFor] = field(default_factory=list)
    target_columns: list[int] = field(default_factory=list)
    merge_mode: int = 0


_ACKS, _TABLE, _TIMEOUT = 1, 2, 3
_PRODUCE_BUCKETS = 4
_PUT_COLUMNS, _PUT_BUCKETS, _PUT_MODE = 4, 5, 6
_MAX_BUCKET_FIELDS: Final = 16
"""Of the records for one bucket: three, and those of later versions."""


def read_produce(body: memoryview) -> WriteRequest:
    """A ProduceLogRequest. Raises DecodeError."""
    request = WriteRequest()
    for number, value in fields(body):
        if number == _PRODUCE_BUCKETS:
            request.buckets.append(_records(value))
        else:
            _take_common(request, number, value)
    return _whole(request)


def read_put(body: memoryview) -> WriteRequest:
    """A PutKvRequest. Raises DecodeError."""
    request = WriteRequest()
    for number, value in fields(body):
        if number == _PUT_BUCKETS:
            request.buckets.append(_records(value))
        elif number == _PUT_COLUMNS:
            request.target_columns += _packed(value)
            if len(request.target_columns) > MAX_FIELDS:
                raise DecodeError("a message names too many columns")
        elif number == _PUT_MODE:
            request.merge_mode = signed_32(value)
        else:
            _take_common(request, number, value)
    return _whole(request)


def _take_common(request: WriteRequest, number: int, value: int | memoryview) -> None:
    if number == _ACKS:
        request.acks = signed_32(value)
    elif number == _TABLE:
        request.table_id = signed_64(value)
    elif number == _TIMEOUT:
        request.timeout_ms = signed_32(value)


def _whole(request: WriteRequest) -> WriteRequest:
    if request.table_id < 0:
        raise DecodeError("a required field is missing")
    return request


def _records(message: int | memoryview) -> RecordsFor:
    if isinstance(message, int):
        raise DecodeError("a field is not a message")
    partition_id: int | None = None
    bucket = -1
    records: memoryview | None = None
    for number, value in fields(message, _MAX_BUCKET_FIELDS):
        if number == 1:
            partition_id = signed_64(value)
        elif number == 2:
            bucket = signed_32(value)
        elif number == 3 and not isinstance(value, int):
            records = value
    if bucket < 0 or records is None:
        raise DecodeError("a required field is missing")
    return RecordsFor(partition_id, bucket, records)


def _packed(value: int | memoryview) -> list[int]:
    """Numbers that may have been written together or one by one."""
    if isinstance(value, int):
        return [signed_32(value)]
    numbers: list[int] = []
    at = 0
    while at < len(value):
        if len(numbers) == MAX_FIELDS:
            raise DecodeError("a message has too many numbers")
        number = shift = 0
        while True:
            if at >= len(value):
                raise DecodeError("a message ends within a number")
            byte = value[at]
            at += 1
            number |= (byte & 0x7F) << shift
            shift += 7
            if byte < 0x80:
                break
        numbers.append(signed_32(number))
    return numbers


class FetchedBucket(NamedTuple):
    """What a fetch found in one bucket."""

    partition_id: int | None
    bucket: int
    error_code: int = 0
    error_message: str = ""
    high_watermark: int = -1
    start_offset: int = 0
    records: bytes | bytearray | memoryview = b""
    remote: Sequence[RemoteSegment] = ()
    remote_start: int = 0
    remote_folder: str = ""
    partition_name: str = ""
    filtered_end: int = -1
    """How far it looked, where it left out batches that a reader does not want."""


def fetch_answer(tables: Sequence[tuple[int, Sequence[FetchedBucket]]]) -> Chunks:
    """A FetchLogResponse in pieces, the records among them as they are."""
    answer: list[bytes | bytearray | memoryview] = []
    for table_id, buckets in tables:
        pieces: list[bytes | bytearray | memoryview] = [b"\x08" + varint(table_id)]
        size = len(pieces[0])
        for bucket in buckets:
            head, records = _head(bucket), bucket.records
            lead = b"\x12" + varint(len(head) + len(records)) + head
            pieces += (lead, records) if records else (lead,)
            size += len(lead) + len(records)
        answer.append(b"\x0a" + varint(size))
        answer += pieces
    return answer


def _head(bucket: FetchedBucket) -> bytes:
    """The fields before the records, and the records' own head. A failure and remote segments come without records."""
    head = bytearray()
    if bucket.partition_id is not None:
        head += b"\x08" + varint(bucket.partition_id)
    head += b"\x10" + varint(bucket.bucket)
    if bucket.error_code:
        head += b"\x18" + varint(bucket.error_code)
        if bucket.error_message:
            text = bucket.error_message.encode()
            head += b"\x22" + varint(len(text)) + text
        return bytes(head)
    head += b"\x28" + varint(bucket.high_watermark) + b"\x30" + varint(bucket.start_offset)
    if bucket.remote:
        remote = _remote(bucket).SerializeToString()
        head += b"\x3a" + varint(len(remote)) + remote
    else:
        if bucket.filtered_end >= 0:
            head += b"\x48" + varint(bucket.filtered_end)
        # Also where there are none: the Java client takes a field that is not there for a broken answer, and says
        # nothing of it.
        head += b"\x42" + varint(len(bucket.records))
    return bytes(head)


def _remote(bucket: FetchedBucket) -> pb.RemoteLogFetch:
    message = pb.RemoteLogFetch(tablet_dir=bucket.remote_folder, first_start_pos=bucket.remote_start)
    if bucket.partition_name:
        message.partition_name = bucket.partition_name
    for segment in bucket.remote:
        message.segments.add(
            segment_id=segment.segment_id,
            start_offset=segment.start_offset,
            end_offset=segment.end_offset,
            size_in_bytes=segment.size_bytes,
            max_timestamp=segment.max_timestamp_ms,
        )
    return message


_SMALL: Final = 120
_VALUE_HEADS: Final = tuple(bytes((0x2A, length + 2, 0x0A, length)) for length in range(_SMALL))
"""The head of a value so short that each length is a byte: that of its message, and its own."""

_NO_VALUE: Final = b"\x2a\x00"


def looked_up(
    partition_id: int | None, bucket: int, values: Sequence[bytes | None], original_partition: str = ""
) -> bytes:
    """One bucket of a LookupResponse."""
    pieces = [
        b"\x10" + varint(bucket) if partition_id is None else b"\x08" + varint(partition_id) + b"\x10" + varint(bucket)
    ]
    for value in values:
        if value is None:
            pieces.append(_NO_VALUE)
        elif len(value) < _SMALL:
            pieces.append(_VALUE_HEADS[len(value)])
            pieces.append(value)
        else:
            length = varint(len(value))
            pieces.append(b"\x2a" + varint(len(value) + len(length) + 1) + b"\x0a" + length)
            pieces.append(value)
    if original_partition:
        text = original_partition.encode()
        pieces.append(b"\x32" + varint(len(text)) + text)
    body = b"".join(pieces)
    return b"\x0a" + varint(len(body)) + body


def limit_scan_answer(records: Chunks, *, is_log: bool) -> Chunks:
    """A LimitScanResponse."""
    return _with_records(pb.LimitScanResponse(is_log_table=is_log), 0x22, records)


def scan_answer(page: KvScanPage) -> Chunks:
    """A ScanKvResponse."""
    answer = pb.ScanKvResponse(scanner_id=page.scanner_id, has_more_results=page.has_more, log_offset=page.log_offset)
    return _with_records(answer, 0x2A, page.records)


def _with_records(message: Message, tag: int, records: Chunks | None) -> Chunks:
    """A message with one more field, behind all others."""
    head = message.SerializeToString()
    return (head,) if records is None else (head + bytes((tag,)) + varint(sum(map(len, records))), *records)
