"""Encodes and decodes single fields of a row.

For code that needs single values (a version, a sum, an auto-increment value) and for nested values. Most writes pass
rows through undecoded; `decoding` decodes rows by the thousand.

In Python a DATE is a number of days, a TIME milliseconds of the day, a TIMESTAMP a pair of milliseconds and
nanoseconds of the millisecond, an ARRAY a list, a MAP a list of pairs, a ROW a tuple.
"""

from __future__ import annotations

import struct
from collections.abc import Sequence
from decimal import Context, Decimal
from enum import StrEnum
from typing import Any, Final

from lakebed.fluss.errors import ErrorCode, FlussError
from lakebed.fluss.types import TEXTS, TIMESTAMPS, DataType, TypeRoot

__all__ = [
    "LONG_DECIMAL_BYTES",
    "NOT_A_VALUE",
    "PACKED",
    "RowFormat",
    "as_signed",
    "corrupt",
    "decode_field",
    "decode_unscaled",
    "encode_field",
    "fixed_width",
    "read_varint",
    "write_varint",
]

LONG_DECIMAL_BYTES: Final = 16
"""Maximum for decimals that do not fit 64 bits."""

_EXACT: Final = Context(prec=60)
PACKED: Final = {
    TypeRoot.BOOLEAN: struct.Struct("<?"),
    TypeRoot.TINYINT: struct.Struct("<b"),
    TypeRoot.SMALLINT: struct.Struct("<h"),
    TypeRoot.INT: struct.Struct("<i"),
    TypeRoot.DATE: struct.Struct("<i"),
    TypeRoot.TIME: struct.Struct("<i"),
    TypeRoot.BIGINT: struct.Struct("<q"),
    TypeRoot.FLOAT: struct.Struct("<f"),
    TypeRoot.DOUBLE: struct.Struct("<d"),
}
"""The forms of types with a fixed width."""

_LONG: Final = struct.Struct("<q")
_LONG_AND_INT: Final = struct.Struct("<qi")
_INTS: Final = frozenset({TypeRoot.INT, TypeRoot.DATE, TypeRoot.TIME})


class RowFormat(StrEnum):
    """Row formats, by the names of the table property."""

    COMPACTED = "compacted"
    """Small: numbers are varints."""

    INDEXED = "indexed"
    """Fast access to fields: numbers have fixed widths, and lengths are in front."""


NOT_A_VALUE: Final = (struct.error, UnicodeDecodeError, IndexError, OverflowError)
"""What reading malformed bytes raises."""


def corrupt(message: str) -> FlussError:
    """The error for malformed bytes."""
    return FlussError(ErrorCode.CORRUPT_RECORD, message)


def write_varint(number: int) -> bytes:
    """Encode the unsigned number, seven bits a byte, low bits first."""
    out = bytearray()
    while number >= 0x80:
        out.append(number & 0x7F | 0x80)
        number >>= 7
    out.append(number)
    return bytes(out)


def read_varint(data: bytes | memoryview, position: int, max_bytes: int = 5) -> tuple[int, int]:
    """The number at `position`, and its end."""
    number = shift = 0
    for at in range(position, min(position + max_bytes, len(data))):
        byte = data[at]
        number |= (byte & 0x7F) << shift
        if byte < 0x80:
            return number, at + 1
        shift += 7
    raise corrupt(f"varint is not terminated. position={position}")


def fixed_width(type_: DataType) -> int | None:
    """The width of a field in an indexed row, or None if it varies."""
    root = type_.root
    if root in PACKED:
        return PACKED[root].size
    if root in (TypeRoot.CHAR, TypeRoot.BINARY):
        return type_.length
    if root is TypeRoot.DECIMAL:
        return 8 if type_.is_compact_decimal else None
    if root in TIMESTAMPS:
        return 8 if type_.is_compact_timestamp else 12
    return None


def field_end(type_: DataType, row: bytes | memoryview, position: int) -> int:
    """The end of the field that begins at `position` of a compacted row."""
    root = type_.root
    if root in _INTS:
        return read_varint(row, position)[1]
    if root is TypeRoot.BIGINT or (root is TypeRoot.DECIMAL and type_.is_compact_decimal):
        return read_varint(row, position, 10)[1]
    if root in TIMESTAMPS:
        end = read_varint(row, position, 10)[1]
        return end if type_.is_compact_timestamp else read_varint(row, end)[1]
    if root in PACKED:
        return position + PACKED[root].size
    length, start = read_varint(row, position)
    return start + length


def decode_field(format_: RowFormat, type_: DataType, field: bytes) -> Any:
    """Decode a field that is not null."""
    try:
        return _decode(format_, type_, field)
    except NOT_A_VALUE as error:
        raise corrupt(f"invalid field. type={type_.root.name} length={len(field)}") from error


def encode_field(format_: RowFormat, type_: DataType, value: Any) -> bytes:
    """Encode a value that is not null."""
    if format_ is RowFormat.INDEXED:
        return _encode_plain(format_, type_, value)
    root = type_.root
    if root in _INTS:
        return write_varint(value & 0xFFFFFFFF)
    if root is TypeRoot.BIGINT:
        return write_varint(value & 0xFFFFFFFFFFFFFFFF)
    if root is TypeRoot.DECIMAL and type_.is_compact_decimal:
        return write_varint(_unscaled(type_, value) & 0xFFFFFFFFFFFFFFFF)
    if root in TIMESTAMPS:
        millis = write_varint(value[0] & 0xFFFFFFFFFFFFFFFF)
        return millis if type_.is_compact_timestamp else millis + write_varint(value[1] & 0xFFFFFFFF)
    if root in PACKED:
        return PACKED[root].pack(value)
    if root in TEXTS:
        content: bytes = value.encode()
    elif root in (TypeRoot.BYTES, TypeRoot.BINARY):
        content = bytes(value)
    else:
        content = _encode_plain(format_, type_, value)
    return write_varint(len(content)) + content


def _decode(format_: RowFormat, type_: DataType, field: bytes) -> Any:
    if format_ is RowFormat.INDEXED:
        return _decode_plain(format_, type_, field)
    root = type_.root
    if root in _INTS:
        return as_signed(read_varint(field, 0)[0], 32)
    if root is TypeRoot.BIGINT:
        return as_signed(read_varint(field, 0, 10)[0], 64)
    if root is TypeRoot.DECIMAL and type_.is_compact_decimal:
        return _scaled(type_, as_signed(read_varint(field, 0, 10)[0], 64))
    if root in TIMESTAMPS:
        millis, end = read_varint(field, 0, 10)
        nanos = 0 if type_.is_compact_timestamp else as_signed(read_varint(field, end)[0], 32)
        return as_signed(millis, 64), nanos
    if root in PACKED:
        return PACKED[root].unpack(field)[0]
    length, start = read_varint(field, 0)
    content = bytes(field[start : start + length])
    if root in TEXTS:
        return content.decode()
    return content if root in (TypeRoot.BYTES, TypeRoot.BINARY) else _decode_plain(format_, type_, content)


def _encode_plain(format_: RowFormat, type_: DataType, value: Any) -> bytes:
    """Content without its length: as in an indexed row, and as in a compacted row after the length."""
    root = type_.root
    if root in PACKED:
        return PACKED[root].pack(value)
    if root in TIMESTAMPS:
        return _LONG.pack(value[0]) if type_.is_compact_timestamp else _LONG_AND_INT.pack(*value)
    match root:
        case TypeRoot.STRING:
            return bytes(value.encode())
        case TypeRoot.CHAR:
            return _padded(type_, value.encode())
        case TypeRoot.BINARY:
            return _padded(type_, bytes(value))
        case TypeRoot.BYTES:
            return bytes(value)
        case TypeRoot.DECIMAL:
            unscaled = _unscaled(type_, value)
            if type_.is_compact_decimal:
                return _LONG.pack(unscaled)
            # As few bytes as keep the sign, as Fluss clients write it.
            return unscaled.to_bytes((unscaled + (unscaled < 0)).bit_length() // 8 + 1, "big", signed=True)
        case _:
            from .nested import encode_nested  # circular: nested values contain fields

            return encode_nested(format_, type_, value)


def _decode_plain(format_: RowFormat, type_: DataType, field: bytes) -> Any:
    root = type_.root
    if root in PACKED:
        return PACKED[root].unpack(field)[0]
    if root in TIMESTAMPS:
        return (_LONG.unpack(field)[0], 0) if type_.is_compact_timestamp else _LONG_AND_INT.unpack(field)
    match root:
        case TypeRoot.STRING:
            return field.decode()
        case TypeRoot.CHAR:
            return field.rstrip(b"\0").decode()
        case TypeRoot.BYTES | TypeRoot.BINARY:
            return bytes(field)
        case TypeRoot.DECIMAL:
            if type_.is_compact_decimal:
                return _scaled(type_, _LONG.unpack(field)[0])
            return decode_unscaled(type_, field)
        case _:
            from .nested import decode_nested  # circular, as above

            return decode_nested(format_, type_, field)


def decode_unscaled(type_: DataType, content: bytes) -> Decimal:
    """The decimal with this unscaled value, big-endian."""
    if not 1 <= len(content) <= LONG_DECIMAL_BYTES:
        raise corrupt(f"invalid decimal length. minimum=1 maximum={LONG_DECIMAL_BYTES} length={len(content)}")
    return _scaled(type_, int.from_bytes(content, "big", signed=True))


def _padded(type_: DataType, content: bytes) -> bytes:
    """Pad to the width of the type."""
    width = type_.length or 0
    if len(content) > width:
        raise FlussError(
            ErrorCode.INVALID_TARGET_COLUMN, f"value too long for its type. type={type_} length={len(content)}"
        )
    return content.ljust(width, b"\0")


def as_signed(number: int, bits: int) -> int:
    """Interpret the lowest `bits` bits as a signed number."""
    number &= (1 << bits) - 1
    return number - (1 << bits) if number >> (bits - 1) else number


def _unscaled(type_: DataType, value: Decimal) -> int:
    return int(value.scaleb(type_.scale or 0, _EXACT))


def _scaled(type_: DataType, unscaled: int) -> Decimal:
    return Decimal(unscaled).scaleb(-(type_.scale or 0), _EXACT)


def types_of(type_: DataType) -> Sequence[DataType]:
    """The types of the fields of a ROW."""
    return [field.type for field in type_.fields]
