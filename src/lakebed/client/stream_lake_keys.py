"""Keys of rows in the bytes that lakes have them in, so that a row is in the same bucket here and there.

Iceberg has keys of one column, and its bytes are what its hashes are of. Paimon's are rows of its own: a byte and a
bitmap of nulls in words of eight bytes, a slot of eight for each field, and behind these what does not fit a slot.
"""

from __future__ import annotations

import struct
from collections.abc import Sequence
from typing import Any, Final

from lakebed.streams.failures import Reason, StreamFailure
from lakebed.streams.keys.fields import RowFormat, encode_field
from lakebed.streams.types import DataType, Root

__all__ = ["check_iceberg_key", "iceberg_key", "paimon_key"]

_LONG: Final = struct.Struct("<q")
_WORD: Final = struct.Struct("<Q")
_SLOT_BYTES: Final = 8
_INLINE_BYTES: Final = 7
_LONG_DECIMAL_BYTES: Final = 16
_TEXTS: Final = frozenset({Root.STRING, Root.CHAR, Root.BYTES, Root.BINARY})
_TIMESTAMPS: Final = frozenset({Root.TIMESTAMP, Root.TIMESTAMP_LTZ})
_NOT_OF_ICEBERG: Final = frozenset({Root.BOOLEAN, Root.TINYINT, Root.SMALLINT, Root.TIMESTAMP_LTZ})


def check_iceberg_key(types: Sequence[DataType]) -> None:
    """Raises INVALID_TABLE unless Iceberg has keys of such columns."""
    if len(types) != 1 or types[0].root in _NOT_OF_ICEBERG or types[0].is_nested:
        raise StreamFailure(
            Reason.INVALID_TABLE,
            "a bucket key that goes to Iceberg is one column, and of no BOOLEAN, TINYINT, SMALLINT or TIMESTAMP_LTZ. "
            f"types={', '.join(map(str, types))}",
        )


def iceberg_key(types: Sequence[DataType], values: Sequence[Any]) -> bytes:
    """The key of a column that `check_iceberg_key` lets pass."""
    ((type_, value),) = zip(types, values, strict=True)
    match type_.root:
        case Root.INT | Root.DATE | Root.BIGINT:
            return _LONG.pack(value)
        case Root.TIME:
            return _LONG.pack(value * 1000)
        case Root.TIMESTAMP:
            millis, nanos = value
            return _LONG.pack(millis * 1000 + nanos // 1000)
        case Root.DECIMAL:
            return _decimal(type_, value)
        case root if root in _TEXTS:
            return _text(value)
    return encode_field(RowFormat.INDEXED, type_, value)


def paimon_key(types: Sequence[DataType], values: Sequence[Any]) -> bytes:
    """The key of columns that have no null."""
    head = (len(types) + 63 + 8) // 64 * 8
    out = bytearray(head + _SLOT_BYTES * len(types))
    for index, (type_, value) in enumerate(zip(types, values, strict=True)):
        at = head + _SLOT_BYTES * index
        out[at : at + _SLOT_BYTES] = _slot(type_, value, out)
    return bytes(out)


def _slot(type_: DataType, value: Any, out: bytearray) -> bytes:
    """What stands for a value in its place; what does not fit there goes to the end of `out`."""

    def behind(content: bytes, size: int, room: int) -> bytes:
        offset = len(out)
        out.extend(content.ljust(room, b"\0"))
        return _WORD.pack(offset << 32 | size)

    root = type_.root
    if root in _TEXTS:
        content = _text(value)
        if len(content) <= _INLINE_BYTES:
            return content.ljust(_INLINE_BYTES, b"\0") + bytes([0x80 | len(content)])
        return behind(content, len(content), -(-len(content) // _SLOT_BYTES) * _SLOT_BYTES)
    if root is Root.DECIMAL and not type_.is_compact_decimal:
        content = _decimal(type_, value)
        return behind(content, len(content), _LONG_DECIMAL_BYTES)
    if root in _TIMESTAMPS and not type_.is_compact_timestamp:
        millis, nanos = value
        return behind(_LONG.pack(millis), nanos, _SLOT_BYTES)
    return encode_field(RowFormat.INDEXED, type_, value).ljust(_SLOT_BYTES, b"\0")


def _text(value: str | bytes) -> bytes:
    return value.encode() if isinstance(value, str) else bytes(value)


def _decimal(type_: DataType, value: Any) -> bytes:
    """The unscaled value, the high bytes first and as few as keep the sign, whatever its precision."""
    wide = DataType(Root.DECIMAL, precision=38, scale=type_.scale)
    return encode_field(RowFormat.INDEXED, wide, value)
