"""Decodes single values of Avro's binary encoding.

Each function takes a buffer and a start position, and returns the value and its end position. Reading past the end
raises IndexError; the record reader turns it into an error that names the file.
"""

from __future__ import annotations

import struct
from typing import Final

from lakebed.core.errors import InvalidInput

__all__ = ["read_boolean", "read_bytes", "read_count", "read_double", "read_float", "read_long", "read_string"]

_FLOAT: Final = struct.Struct("<f")
_DOUBLE: Final = struct.Struct("<d")
_LONG_BYTES: Final = 10


def read_long(data: bytes, at: int) -> tuple[int, int]:
    """Read a zig-zag encoded `long` of at most 64 bits; `int` has the same encoding."""
    byte = data[at]
    at += 1
    if byte < 0x80:
        return (byte >> 1) ^ -(byte & 1), at
    bits = byte & 0x7F
    for shift in range(7, 7 * _LONG_BYTES, 7):
        byte = data[at]
        at += 1
        bits |= (byte & 0x7F) << shift
        if byte < 0x80:
            break
    else:
        raise InvalidInput("avro number is longer than 64 bits")
    if bits >> 64:
        raise InvalidInput("avro number is longer than 64 bits")
    return (bits >> 1) ^ -(bits & 1), at


def read_bytes(data: bytes, at: int) -> tuple[bytes, int]:
    """Read length-prefixed bytes."""
    size, at = read_long(data, at)
    end = at + size
    if size < 0:
        raise InvalidInput(f"avro value has a negative length. length={size}")
    if end > len(data):
        raise IndexError
    return data[at:end], end


def read_string(data: bytes, at: int) -> tuple[str, int]:
    """Read length-prefixed UTF-8. Raises UnicodeDecodeError, a ValueError, if it is invalid."""
    text, at = read_bytes(data, at)
    return text.decode(), at


def read_boolean(data: bytes, at: int) -> tuple[bool, int]:
    """Read one byte, 0 or 1."""
    byte = data[at]
    if byte > 1:
        raise InvalidInput(f"avro boolean is neither 0 nor 1. value={byte}")
    return byte == 1, at + 1


def read_float(data: bytes, at: int) -> tuple[float, int]:
    """Read four bytes, little-endian."""
    if at + _FLOAT.size > len(data):
        raise IndexError
    (value,) = _FLOAT.unpack_from(data, at)
    return value, at + _FLOAT.size


def read_double(data: bytes, at: int) -> tuple[float, int]:
    """Read eight bytes, little-endian."""
    if at + _DOUBLE.size > len(data):
        raise IndexError
    (value,) = _DOUBLE.unpack_from(data, at)
    return value, at + _DOUBLE.size


def read_count(data: bytes, at: int) -> tuple[int, int]:
    """Read the number of items in the next block of an array or map: at most the number of bytes left."""
    count, at = read_long(data, at)
    if count < 0:  # the block's size in bytes follows, for readers that skip
        count = -count
        _, at = read_long(data, at)
    if count > len(data) - at:
        raise IndexError
    return count, at
