"""Answers requests that are too large to be held in memory, while their bytes are discarded.

A write gets an error per bucket: Rust and Python clients treat a failed request as a network failure and repeat it
forever. So the bucket ids are parsed from the message as it arrives, and its records are skipped.
"""

from __future__ import annotations

from collections.abc import Mapping
from typing import Final, NamedTuple

from google.protobuf.message import DecodeError, Message

from lakebed.fluss.errors import FlussError

from .. import messages_pb2 as pb
from ..encoding import BYTES, VARINT, signed_32, signed_64
from ..errors import error_code

__all__ = ["OversizedRequest"]

MAX_BUCKETS: Final = 10_000
"""Buckets with an error each. A request with more of them fails as a whole."""

_FIXED: Final = {1: 8, 5: 4}
_MAX_VARINT_BYTES: Final = 10
_PARTITION, _BUCKET = 1, 2


class _Write(NamedTuple):
    buckets_field: int
    response: type[pb.ProduceLogResponse | pb.PutKvResponse]


_WRITES: Final[Mapping[int, _Write]] = {
    1014: _Write(4, pb.ProduceLogResponse),
    1016: _Write(5, pb.PutKvResponse),
}


class OversizedRequest:
    """A request that is refused for its size."""

    __slots__ = ("_buckets", "_failure", "_write", "request_id")

    def __init__(self, key: int, request_id: int, body_bytes: int, failure: FlussError) -> None:
        self.request_id = request_id
        self._failure = failure
        self._write = _WRITES.get(key)
        self._buckets = None if self._write is None else _BucketParser(self._write.buckets_field, body_bytes)

    def feed(self, data: memoryview) -> Message | None:
        """Parse more bytes; the response once it is complete. Raises the failure if the request fails as a whole."""
        if self._write is None or self._buckets is None:
            raise self._failure
        try:
            if not self._buckets.feed(data):
                return None
        except DecodeError:
            raise self._failure from None
        response = self._write.response()
        for partition_id, bucket in self._buckets.found:
            response.buckets.add(
                bucket_id=bucket,
                partition_id=partition_id,
                error_code=error_code(self._failure),
                error_message=str(self._failure),
            )
        return response


class _BucketParser:
    """Parses the bucket ids of a message incrementally, holding only a few bytes at a time."""

    __slots__ = ("_bucket", "_bucket_end", "_field", "_kept", "_next", "_partition_id", "_size", "_start", "found")

    def __init__(self, field: int, size: int) -> None:
        self.found: list[tuple[int | None, int]] = []
        self._field = field
        self._size = size
        self._kept = b""
        self._start = 0  # position in the message of the kept bytes, or of the next data
        self._next = 0  # position of the next field
        self._bucket_end: int | None = None
        self._partition_id: int | None = None
        self._bucket = -1

    def feed(self, data: memoryview) -> bool:
        """Parse more bytes; True when the message is complete. Raises DecodeError."""
        data = data[: self._size - self._start - len(self._kept)]
        if self._kept:
            data = memoryview(self._kept + bytes(data))
            self._kept = b""
        end = self._start + len(data)
        while self._next < end:
            begin = self._next - self._start
            tag, at = _varint(data, begin)
            value = 0
            if at and tag & 7 in (VARINT, BYTES):
                value, at = _varint(data, at)
            if not at:
                self._kept = bytes(data[begin:])
                break
            self._take_field(tag, value, self._start + at)
        self._start = end - len(self._kept)
        if end < self._size:
            return False
        if self._next != end or self._bucket_end is not None:
            raise DecodeError("a message ends within a field")
        return True

    def _take_field(self, tag: int, value: int, after: int) -> None:
        number, kind = tag >> 3, tag & 7
        if kind not in (VARINT, BYTES) and kind not in _FIXED:
            raise DecodeError("unknown wire type")
        self._next = after + (value if kind == BYTES else _FIXED.get(kind, 0))
        if self._bucket_end is None:
            if number == self._field and kind == BYTES:
                self._bucket_end, self._next = self._next, after
                self._partition_id, self._bucket = None, -1
        elif kind == VARINT and number == _PARTITION:
            self._partition_id = signed_64(value)
        elif kind == VARINT and number == _BUCKET:
            self._bucket = signed_32(value)
        if self._next > (self._size if self._bucket_end is None else self._bucket_end):
            raise DecodeError("a message ends within a field")
        if self._next == self._bucket_end:
            self._bucket_end = None
            self.found.append((self._partition_id, self._bucket))
            if self._bucket < 0 or len(self.found) > MAX_BUCKETS:
                raise DecodeError("too many buckets, or a bucket without a valid id")


def _varint(data: memoryview, at: int) -> tuple[int, int]:
    """A varint and its end position; 0 if it is incomplete. Raises DecodeError."""
    value = 0
    for count, byte in enumerate(data[at : at + _MAX_VARINT_BYTES]):
        value |= (byte & 0x7F) << 7 * count
        if byte < 0x80:
            return value, at + count + 1
    if len(data) - at >= _MAX_VARINT_BYTES:
        raise DecodeError("a varint is too long")
    return 0, 0
