"""Messages of the stream protocol, field by field: a handful of small ones, for which the standard library will do.

A message is the numbers of its fields and their values. Whole numbers and bytes are all that is needed here; a message
within a message is bytes. What is read is not copied on the way: records are megabytes, three messages deep.
"""

from __future__ import annotations

from collections.abc import Iterator, Mapping
from typing import TypeAlias

__all__ = ["Fields", "content", "messages", "number", "read_fields", "text", "write_fields"]

Fields: TypeAlias = Mapping[int, list[int | memoryview]]
"""Values by number, in the order they came."""

_VARINT, _EIGHT, _BYTES, _FOUR = 0, 1, 2, 5


def write_fields(fields: Mapping[int, int | bool | str | bytes | None]) -> bytes:
    """A message of these fields; those that are None are left out."""
    out = bytearray()
    for key, value in fields.items():
        if value is None:
            continue
        if isinstance(value, int):
            out += _varint(key << 3 | _VARINT) + _varint(value & 0xFFFFFFFFFFFFFFFF)
        else:
            content = value.encode() if isinstance(value, str) else value
            out += _varint(key << 3 | _BYTES) + _varint(len(content)) + content
    return bytes(out)


def read_fields(message: bytes | memoryview) -> Fields:
    """The fields of a message; raises ValueError for what is none."""
    found: dict[int, list[int | memoryview]] = {}
    for key, value in _walk(memoryview(message)):
        found.setdefault(key, []).append(value)
    return found


def number(fields: Fields, key: int, default: int = 0) -> int:
    """The whole number of a field."""
    value = fields.get(key, [default])[-1]
    if not isinstance(value, int):
        raise ValueError(f"field is no number. field={key}")
    return value - (1 << 64) if value >> 63 else value


def text(fields: Fields, key: int) -> bytes:
    """The bytes of a field; none if it is not there."""
    return bytes(content(fields, key))


def content(fields: Fields, key: int) -> memoryview:
    """The same where it is in the message, which is held for as long as this is."""
    value = fields.get(key, [memoryview(b"")])[-1]
    if not isinstance(value, memoryview):
        raise ValueError(f"field is no text. field={key}")
    return value


def messages(fields: Fields, key: int) -> Iterator[Fields]:
    """The messages of a field, one after the other."""
    for each in fields.get(key, []):
        if not isinstance(each, memoryview):
            raise ValueError(f"field is no message. field={key}")
        yield read_fields(each)


def _walk(message: memoryview) -> Iterator[tuple[int, int | memoryview]]:
    position = 0
    while position < len(message):
        tag, position = _read_varint(message, position)
        kind = tag & 7
        if kind == _VARINT:
            value, position = _read_varint(message, position)
            yield tag >> 3, value
            continue
        if kind == _BYTES:
            size, position = _read_varint(message, position)
        elif kind in (_EIGHT, _FOUR):
            size = 8 if kind == _EIGHT else 4
        else:
            raise ValueError(f"field is of no known kind. kind={kind}")
        if position + size > len(message):
            raise ValueError("message is cut off")
        yield tag >> 3, message[position : position + size]
        position += size


def _varint(value: int) -> bytes:
    out = bytearray()
    while value >= 0x80:
        out.append(value & 0x7F | 0x80)
        value >>= 7
    out.append(value)
    return bytes(out)


def _read_varint(message: memoryview, position: int) -> tuple[int, int]:
    value = shift = 0
    while True:
        if position >= len(message) or shift > 63:
            raise ValueError("number has no end")
        byte = message[position]
        position += 1
        value |= (byte & 0x7F) << shift
        if byte < 0x80:
            return value, position
        shift += 7
