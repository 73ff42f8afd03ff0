"""Decodes and encodes the protobuf messages that carry records, without copying the records.

Generated classes copy a bytes field twice in each direction, so they are used only for the other messages.

A message is decoded before the caller is authorized, because it names the table. Decoding blocks the event loop, at a
cost per field: messages without records are bounded in bytes, others in fields.
"""

from __future__ import annotations

from collections.abc import Iterator
from typing import Final, TypeVar

from google.protobuf.message import DecodeError, Message

from lakebed.fluss.errors import ErrorCode, FlussError

__all__ = [
    "BYTES",
    "MAX_FIELDS",
    "MAX_MESSAGE_BYTES",
    "VARINT",
    "fields",
    "read_message",
    "signed_32",
    "signed_64",
    "varint",
]

M = TypeVar("M", bound=Message)

VARINT: Final = 0
BYTES: Final = 2
_FIXED_64: Final = 1
_FIXED_32: Final = 5
_MAX_SHIFT: Final = 63

MAX_MESSAGE_BYTES: Final = 1024 * 1024
"""Longest message without records: room for the offsets of about 30,000 buckets."""

MAX_FIELDS: Final = 20_000
"""Most fields of a message with records, which has one per bucket."""


def read_message(kind: type[M], body: memoryview, *, max_bytes: int = MAX_MESSAGE_BYTES) -> M:
    """Decode a message with its generated class. Raises DecodeError, also for a missing required field.

    Raises FlussError for a message that is too long, before decoding it.
    """
    if len(body) > max_bytes:
        raise FlussError(
            ErrorCode.RECORD_TOO_LARGE, f"message too long: split the request. bytes={len(body)} limit={max_bytes}"
        )
    message = kind()
    message.ParseFromString(body)  # type: ignore[arg-type]  # accepts buffers
    if not message.IsInitialized():
        raise DecodeError("a required field is missing")
    return message


def fields(data: memoryview, most: int = MAX_FIELDS) -> Iterator[tuple[int, int | memoryview]]:
    """The fields of a message in order: varints as numbers; strings, bytes and messages as views.

    Raises DecodeError for an invalid message, or one with more than `most` fields. Skips fields of fixed width: no
    message with records has one.
    """
    at, end = 0, len(data)
    while at < end:
        most -= 1
        if most < 0:
            raise DecodeError("a message has too many fields")
        tag = data[at]
        at += 1
        if tag >= 0x80:
            tag, at = _long(data, at - 1, end)
        kind = tag & 7
        if kind > _FIXED_32:
            raise DecodeError("unknown wire type")
        if kind in (VARINT, BYTES):
            if at >= end:
                raise DecodeError("a message ends within a field")
            value = data[at]
            at += 1
            if value >= 0x80:
                value, at = _long(data, at - 1, end)
            if kind == VARINT:
                yield tag >> 3, value
                continue
            stop = at + value
            if stop > end:
                raise DecodeError("a message ends within a field")
            yield tag >> 3, data[at:stop]
            at = stop
        elif kind in (_FIXED_64, _FIXED_32):
            at += 8 if kind == _FIXED_64 else 4
            if at > end:
                raise DecodeError("a message ends within a field")
        else:
            raise DecodeError("groups are not supported")


def _long(data: memoryview, at: int, end: int) -> tuple[int, int]:
    value = shift = 0
    while at < end:
        byte = data[at]
        at += 1
        value |= (byte & 0x7F) << shift
        if byte < 0x80:
            return value, at
        shift += 7
        if shift > _MAX_SHIFT:
            raise DecodeError("a varint is too long")
    raise DecodeError("a message ends within a varint")


def varint(value: int) -> bytes:
    """An encoded varint; negative numbers as 64 bits."""
    if 0 <= value < 0x80:
        return _SHORT[value]
    if value < 0:
        value += 1 << 64
    pieces = bytearray()
    while value >= 0x80:
        pieces.append(value & 0x7F | 0x80)
        value >>= 7
    pieces.append(value)
    return bytes(pieces)


def signed_32(value: int | memoryview) -> int:
    """A decoded varint as an int32. Raises DecodeError for other fields."""
    if not isinstance(value, int):
        raise DecodeError("a field is not a varint")
    value &= 0xFFFFFFFF
    return value - (1 << 32) if value >> 31 else value


def signed_64(value: int | memoryview) -> int:
    """A decoded varint as an int64. Raises DecodeError for other fields."""
    if not isinstance(value, int):
        raise DecodeError("a field is not a varint")
    value &= 0xFFFFFFFFFFFFFFFF
    return value - (1 << 64) if value >> 63 else value


_SHORT: Final = tuple(bytes((value,)) for value in range(0x80))
