"""Encodes and decodes nested values: arrays, maps and rows inside fields.

An array is a count, a bitmap of nulls in words of four bytes, a slot for each element, and a variable-length part,
aligned to eight, for what does not fit a slot; such a slot holds `offset << 32 | size`. Text of up to seven bytes is
in the slot itself, with `0x80 | size` in its last byte. A map is the array of its keys, prefixed with its size, and the
array of its values.
"""

from __future__ import annotations

import struct
from collections.abc import Callable, Mapping
from typing import Any, Final

from lakebed.fluss.types import BYTE_STRINGS, TEXTS, TIMESTAMPS, DataType, TypeRoot

from .fields import LONG_DECIMAL_BYTES, PACKED, RowFormat, corrupt, decode_field, encode_field, types_of
from .layout import RowLayout

__all__ = ["INLINE_MAX", "aligned", "decode_nested", "element_reader", "encode_element", "encode_nested", "slot_bytes"]

_WORD: Final = struct.Struct("<Q")
_LONG: Final = struct.Struct("<q")
_COUNT: Final = struct.Struct("<i")
INLINE_MAX: Final = 7
"""Maximum bytes of text that are stored in the slot."""


def encode_nested(format_: RowFormat, type_: DataType, value: Any) -> bytes:
    """Encode an ARRAY, MAP or ROW."""
    match type_:
        case DataType(root=TypeRoot.ARRAY, element=DataType() as element):
            return _encode_array(format_, element, list(value))
        case DataType(root=TypeRoot.MAP, key=DataType() as key, value=DataType() as of):
            pairs = list(value.items() if isinstance(value, Mapping) else value)
            keys = _encode_array(format_, key, [pair[0] for pair in pairs])
            return _COUNT.pack(len(keys)) + keys + _encode_array(format_, of, [pair[1] for pair in pairs])
        case _:
            return RowLayout(format_, types_of(type_)).encode(value)


def decode_nested(format_: RowFormat, type_: DataType, field: bytes) -> Any:
    """Decode an ARRAY, MAP or ROW."""
    match type_:
        case DataType(root=TypeRoot.ARRAY, element=DataType() as element):
            return _decode_array(format_, element, field)
        case DataType(root=TypeRoot.MAP, key=DataType() as key, value=DataType() as of):
            (length,) = _COUNT.unpack_from(field)
            if not 0 <= length <= len(field) - 4:
                raise corrupt(f"keys extend beyond their map. keys={length} map={len(field)}")
            keys = _decode_array(format_, key, field[4 : 4 + length])
            values = _decode_array(format_, of, field[4 + length :])
            if len(keys) != len(values):
                raise corrupt(f"a map has different numbers of keys and values. keys={len(keys)} values={len(values)}")
            return list(zip(keys, values, strict=True))
        case _:
            return RowLayout(format_, types_of(type_)).decode(field)


def _encode_array(format_: RowFormat, type_: DataType, elements: list[Any]) -> bytes:
    head = 4 + (len(elements) + 31) // 32 * 4
    slot = slot_bytes(type_)
    out = bytearray(aligned(head + slot * len(elements)))
    _COUNT.pack_into(out, 0, len(elements))
    for index, element in enumerate(elements):
        if element is None:
            out[4 + (index >> 3)] |= 1 << (index & 7)
        else:
            at = head + slot * index
            out[at : at + slot] = encode_element(format_, type_, element, out)
    return bytes(out)


def encode_element(format_: RowFormat, type_: DataType, element: Any, out: bytearray) -> bytes:
    """Encode the slot of an element; appends what does not fit to `out`."""

    def behind(content: bytes, size: int, room: int) -> bytes:
        offset = len(out)
        out.extend(content.ljust(room, b"\0"))
        return _WORD.pack(offset << 32 | size)

    root = type_.root
    if root in PACKED:
        return PACKED[root].pack(element)
    if root in TIMESTAMPS:
        millis = _LONG.pack(element[0])
        return millis if type_.is_compact_timestamp else behind(millis, element[1], 8)
    if root is TypeRoot.DECIMAL:
        content = encode_field(RowFormat.INDEXED, type_, element)
        return content if type_.is_compact_decimal else behind(content, len(content), LONG_DECIMAL_BYTES)
    if root in BYTE_STRINGS:
        content = element.encode() if isinstance(element, str) else bytes(element)
        if len(content) <= INLINE_MAX:
            return content.ljust(INLINE_MAX, b"\0") + bytes([0x80 | len(content)])
    else:
        content = encode_nested(format_, type_, element)
    return behind(content, len(content), aligned(len(content)))


def _decode_array(format_: RowFormat, type_: DataType, array: bytes) -> list[Any]:
    (count,) = _COUNT.unpack_from(array)
    slot = slot_bytes(type_)
    head = 4 + (count + 31) // 32 * 4
    if count < 0 or head + slot * count > len(array):
        raise corrupt(f"array is shorter than its element count. count={count} length={len(array)}")
    read = element_reader(format_, type_, array)
    return [None if array[4 + (index >> 3)] >> (index & 7) & 1 else read(head + slot * index) for index in range(count)]


def element_reader(format_: RowFormat, type_: DataType, array: bytes) -> Callable[[int], Any]:
    """Returns a function that reads the element of a slot. It raises CORRUPT_RECORD, or one of `NOT_A_VALUE`."""
    root = type_.root
    if root in PACKED:
        packed = PACKED[root]
        return lambda at: packed.unpack_from(array, at)[0]

    def content(at: int) -> tuple[int, int]:
        (word,) = _WORD.unpack_from(array, at)
        return word >> 32, word & 0xFFFFFFFF

    left = len(array)

    def behind(at: int) -> bytes:
        nonlocal left
        offset, size = content(at)
        # Elements must not share bytes: otherwise a small array could expand to any size.
        left -= size
        if offset + size > len(array) or left < 0:
            raise corrupt(f"element extends beyond its array. offset={offset} size={size} length={len(array)}")
        return array[offset : offset + size]

    def timestamp(at: int) -> tuple[int, int]:
        if type_.is_compact_timestamp:
            return _LONG.unpack_from(array, at)[0], 0
        offset, nanos = content(at)
        return _LONG.unpack_from(array, offset)[0], nanos

    def decimal(at: int) -> Any:
        field = array[at : at + 8] if type_.is_compact_decimal else behind(at)
        return decode_field(RowFormat.INDEXED, type_, field)

    def text(at: int) -> Any:
        mark = array[at + INLINE_MAX]
        if mark > 0x80 | INLINE_MAX:
            raise corrupt(f"inline element is too long for its slot. size={mark & 0x7F} maximum={INLINE_MAX}")
        found = array[at : at + (mark & 0x7F)] if mark & 0x80 else behind(at)
        return found.decode() if root in TEXTS else bytes(found)

    if root in TIMESTAMPS:
        return timestamp
    if root is TypeRoot.DECIMAL:
        return decimal
    if root in BYTE_STRINGS:
        return text
    return lambda at: decode_nested(format_, type_, behind(at))


def slot_bytes(type_: DataType) -> int:
    """The width of an element's slot."""
    return PACKED[type_.root].size if type_.root in PACKED else 8


def aligned(size: int) -> int:
    """Round up to a multiple of eight."""
    return (size + 7) // 8 * 8
