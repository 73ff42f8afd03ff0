"""The messages that carry records, decoded and encoded without copying the records (see `encoding`)."""

from __future__ import annotations

from collections.abc import Sequence
from dataclasses import dataclass, field
from typing import Final, NamedTuple

from google.protobuf.message import DecodeError, Message

from lakebed.fluss.errors import ErrorCode, FlussError
from lakebed.streams.kv.scanners import KvScanPage
from lakebed.streams.seam import Acks, RemoteSegment

from . import messages_pb2 as pb
from .calls import Chunks
from .encoding import MAX_FIELDS, fields, signed_32, signed_64, varint

__all__ = [
    "BucketRecords",
    "FetchedBucket",
    "WriteRequest",
    "fetch_response",
    "limit_scan_response",
    "lookup_response",
    "read_acks",
    "read_produce",
    "read_put",
    "scan_response",
]


class BucketRecords(NamedTuple):
    """Records for one bucket, as a view of the frame."""

    partition_id: int | None
    bucket: int
    records: memoryview


def read_acks(number: int) -> Acks:
    """When a write is acknowledged. Error codes: INVALID_REQUIRED_ACKS."""
    try:
        return Acks(number)
    except ValueError:
        raise FlussError(ErrorCode.INVALID_REQUIRED_ACKS, f"acks must be 0, 1 or -1. acks={number}") from None


@dataclass(slots=True)
class WriteRequest:
    """A ProduceLog or PutKv request; the last two fields are only in PutKv."""

    acks: int = 0
    table_id: int = -1
    timeout_ms: int = 0
    buckets: list[BucketRecords] = field(default_factory=list)
    target_columns: list[int] = field(default_factory=list)
    merge_mode: int = 0


_ACKS, _TABLE, _TIMEOUT = 1, 2, 3
_PRODUCE_BUCKETS = 4
_PUT_COLUMNS, _PUT_BUCKETS, _PUT_MODE = 4, 5, 6
_MAX_BUCKET_FIELDS: Final = 16
"""Fields per bucket: three, with some room for later versions."""


def read_produce(body: memoryview) -> WriteRequest:
    """Decode a ProduceLogRequest. Raises DecodeError."""
    request = WriteRequest()
    for number, value in fields(body):
        if number == _PRODUCE_BUCKETS:
            request.buckets.append(_records(value))
        else:
            _set_common_field(request, number, value)
    return _check_complete(request)


def read_put(body: memoryview) -> WriteRequest:
    """Decode a PutKvRequest. Raises DecodeError."""
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
            _set_common_field(request, number, value)
    return _check_complete(request)


def _set_common_field(request: WriteRequest, number: int, value: int | memoryview) -> None:
    if number == _ACKS:
        request.acks = signed_32(value)
    elif number == _TABLE:
        request.table_id = signed_64(value)
    elif number == _TIMEOUT:
        request.timeout_ms = signed_32(value)


def _check_complete(request: WriteRequest) -> WriteRequest:
    if request.table_id < 0:
        raise DecodeError("a required field is missing")
    return request


def _records(message: int | memoryview) -> BucketRecords:
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
    return BucketRecords(partition_id, bucket, records)


def _packed(value: int | memoryview) -> list[int]:
    """Repeated numbers, packed or as separate fields."""
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
                raise DecodeError("a message ends within a varint")
            byte = value[at]
            at += 1
            number |= (byte & 0x7F) << shift
            shift += 7
            if byte < 0x80:
                break
        numbers.append(signed_32(number))
    return numbers


class FetchedBucket(NamedTuple):
    """The result of a fetch for one bucket."""

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
    """The offset up to which batches were filtered; -1 without a filter."""


def fetch_response(tables: Sequence[tuple[int, Sequence[FetchedBucket]]]) -> Chunks:
    """A FetchLogResponse in pieces; the records are not copied."""
    response: list[bytes | bytearray | memoryview] = []
    for table_id, buckets in tables:
        pieces: list[bytes | bytearray | memoryview] = [b"\x08" + varint(table_id)]
        size = len(pieces[0])
        for bucket in buckets:
            head, records = _head(bucket), bucket.records
            lead = b"\x12" + varint(len(head) + len(records)) + head
            pieces += (lead, records) if records else (lead,)
            size += len(lead) + len(records)
        response.append(b"\x0a" + varint(size))
        response += pieces
    return response


def _head(bucket: FetchedBucket) -> bytes:
    """The fields before the records, and the tag and length of the records. Errors and remote segments have none."""
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
        # Also without records: the Java client silently treats a missing field as a broken response.
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
"""The header of a value by its length, if both the message and the value have a length of one byte."""

_NO_VALUE: Final = b"\x2a\x00"


def lookup_response(
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


def limit_scan_response(records: Chunks, *, is_log: bool) -> Chunks:
    """A LimitScanResponse."""
    return _with_records(pb.LimitScanResponse(is_log_table=is_log), 0x22, records)


def scan_response(page: KvScanPage) -> Chunks:
    """A ScanKvResponse."""
    message = pb.ScanKvResponse(scanner_id=page.scanner_id, has_more_results=page.has_more, log_offset=page.log_offset)
    return _with_records(message, 0x2A, page.records)


def _with_records(message: Message, tag: int, records: Chunks | None) -> Chunks:
    """A message followed by a field with the records."""
    head = message.SerializeToString()
    return (head,) if records is None else (head + bytes((tag,)) + varint(sum(map(len, records))), *records)
