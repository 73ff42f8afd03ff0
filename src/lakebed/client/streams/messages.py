"""Encodes and decodes Fluss protocol messages (Protocol Buffers), without generated code.

The client needs only integers and bytes; a nested message is bytes. Decoding does not copy: records are megabytes,
three messages deep.
"""

from __future__ import annotations

from collections.abc import Iterator, Mapping
from typing import TypeAlias

__all__ = ["Fields", "content", "messages", "number", "read_fields", "text", "write_fields"]

Fields: TypeAlias = Mapping[int, list[int | memoryview]]
"""Values by field number, in the order of the message."""

_VARINT, _EIGHT, _BYTES, _FOUR = 0, 1, 2, 5


def write_fields(fields: Mapping[int, int | bool | str | bytes | None]) -> bytes:
    """Encode fields; None omits a field."""
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
    """Decode a message. Raises ValueError."""
    found: dict[int, list[int | memoryview]] = {}
    for key, value in _walk(memoryview(message)):
        found.setdefault(key, []).append(value)
    return found


def number(fields: Fields, key: int, default: int = 0) -> int:
    """The integer of a field."""
    value = fields.get(key, [default])[-1]
    if not isinstance(value, int):
        raise ValueError(f"field is not an integer. field={key}")
    return value - (1 << 64) if value >> 63 else value


def text(fields: Fields, key: int) -> bytes:
    """The bytes of a field, copied; empty if absent."""
    return bytes(content(fields, key))


def content(fields: Fields, key: int) -> memoryview:
    """The bytes of a field, as a view of the message."""
    value = fields.get(key, [memoryview(b"")])[-1]
    if not isinstance(value, memoryview):
        raise ValueError(f"field is not bytes. field={key}")
    return value


def messages(fields: Fields, key: int) -> Iterator[Fields]:
    """The messages of a repeated field."""
    for each in fields.get(key, []):
        if not isinstance(each, memoryview):
            raise ValueError(f"field is not a message. field={key}")
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
            raise ValueError(f"unknown wire type. type={kind}")
        if position + size > len(message):
            raise ValueError("truncated message")
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
            raise ValueError("truncated integer")
        byte = message[position]
        position += 1
        value |= (byte & 0x7F) << shift
        if byte < 0x80:
            return value, position
        shift += 7
