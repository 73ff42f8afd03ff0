"""Requests that are too large to be held: what they are answered with, while they pass by.

Writes are answered bucket by bucket: clients in Rust and Python take what fails as a whole for a broken network, and
send it again for ever. So the buckets are read out of the message as it comes, and its records are passed over.
"""

from __future__ import annotations

from collections.abc import Mapping
from typing import Final, NamedTuple

from google.protobuf.message import DecodeError, Message

from lakebed.fluss.errors import FlussError

from .. import messages_pb2 as pb
from ..encoding import BYTES, VARINT, signed_32, signed_64
from ..errors import error_code

__all__ = ["Oversized"]

MAX_BUCKETS: Final = 10_000
"""Told of one by one. A request with more of them fails as a whole."""

_FIXED: Final = {1: 8, 5: 4}
_MAX_VARINT_BYTES: Final = 10
_PARTITION, _BUCKET = 1, 2


class _Write(NamedTuple):
    buckets_field: int
    answer: type[pb.ProduceLogResponse | pb.PutKvResponse]


_WRITES: Final[Mapping[int, _Write]] = {
    1014: _Write(4, pb.ProduceLogResponse),
    1016: _Write(5, pb.PutKvResponse),
}


class Oversized:
    """One request that is refused."""

    __slots__ = ("_buckets", "_failure", "_write", "number")

    def __init__(self, key: int, number: int, body_bytes: int, failure: FlussError) -> None:
        self.number = number
        self._failure = failure
        self._write = _WRITES.get(key)
        self._buckets = None if self._write is None else _Buckets(self._write.buckets_field, body_bytes)

    def take(self, data: memoryview) -> Message | None:
        """Read on; the answer, if it is known by now. Raises the failure if that is all there is to say."""
        if self._write is None or self._buckets is None:
            raise self._failure
        try:
            if not self._buckets.take(data):
                return None
        except DecodeError:
            raise self._failure from None
        answer = self._write.answer()
        for partition_id, bucket in self._buckets.found:
            refused = answer.buckets.add(
                bucket_id=bucket, error_code=error_code(self._failure), error_message=str(self._failure)
            )
            if partition_id is not None:
                refused.partition_id = partition_id
        return answer


class _Buckets:
    """The buckets that a message names, of which no more than a few bytes are held at any time."""

    __slots__ = ("_bucket", "_bucket_end", "_field", "_kept", "_next", "_partition_id", "_size", "_start", "found")

    def __init__(self, field: int, size: int) -> None:
        self.found: list[tuple[int | None, int]] = []
        self._field = field
        self._size = size
        self._kept = b""
        self._start = 0  # where what comes next, or was kept of what came, is in the message
        self._next = 0  # where its next field is
        self._bucket_end: int | None = None
        self._partition_id: int | None = None
        self._bucket = -1

    def take(self, data: memoryview) -> bool:
        """Read on; whether that was all. Raises DecodeError for what is no such message."""
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
            raise DecodeError("an unknown kind of field")
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
                raise DecodeError("too many buckets, or one that there cannot be")


def _varint(data: memoryview, at: int) -> tuple[int, int]:
    """A number, and where it ends; 0 if it does not end here. Raises DecodeError for what is none."""
    value = 0
    for count, byte in enumerate(data[at : at + _MAX_VARINT_BYTES]):
        value |= (byte & 0x7F) << 7 * count
        if byte < 0x80:
            return value, at + count + 1
    if len(data) - at >= _MAX_VARINT_BYTES:
        raise DecodeError("a number is too long")
    return 0, 0
