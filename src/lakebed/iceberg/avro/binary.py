"""Decodes single values of Avro's binary encoding.

Every reader takes the bytes and where to begin, and gives the value and where it ended. Reading past the end raises
IndexError, which who reads a whole record turns into an error that tells of the file.
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
    """A zig-zag encoded number of at most 64 bits; `int` is encoded alike."""
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
    """A length and as many bytes."""
    size, at = read_long(data, at)
    end = at + size
    if size < 0:
        raise InvalidInput(f"avro value has a negative length. length={size}")
    if end > len(data):
        raise IndexError
    return data[at:end], end


def read_string(data: bytes, at: int) -> tuple[str, int]:
    """A length and as many bytes of UTF-8. Raises UnicodeDecodeError, a ValueError, for others."""
    size, at = read_long(data, at)
    end = at + size
    if size < 0:
        raise InvalidInput(f"avro value has a negative length. length={size}")
    if end > len(data):
        raise IndexError
    return data[at:end].decode(), end


def read_boolean(data: bytes, at: int) -> tuple[bool, int]:
    """One byte, 0 or 1."""
    byte = data[at]
    if byte > 1:
        raise InvalidInput(f"avro boolean is neither 0 nor 1. value={byte}")
    return byte == 1, at + 1


def read_float(data: bytes, at: int) -> tuple[float, int]:
    """Four bytes, little-endian."""
    if at + _FLOAT.size > len(data):
        raise IndexError
    (value,) = _FLOAT.unpack_from(data, at)
    return value, at + _FLOAT.size


def read_double(data: bytes, at: int) -> tuple[float, int]:
    """Eight bytes, little-endian."""
    if at + _DOUBLE.size > len(data):
        raise IndexError
    (value,) = _DOUBLE.unpack_from(data, at)
    return value, at + _DOUBLE.size


def read_count(data: bytes, at: int) -> tuple[int, int]:
    """How many items of a collection follow: no more than there are bytes left, since each takes one at least."""
    count, at = read_long(data, at)
    if count < 0:  # the size in bytes follows, for readers that skip
        count = -count
        _, at = read_long(data, at)
    if count > len(data) - at:
        raise IndexError
    return count, at
