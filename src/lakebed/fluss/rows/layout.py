"""Splits rows into their encoded fields, and joins fields to rows.

A partial update copies encoded fields from one row to another of the same format.
"""

from __future__ import annotations

import struct
from collections.abc import Sequence
from typing import Any

from lakebed.fluss.types import DataType

from .fields import RowFormat, corrupt, decode_field, encode_field, field_end, fixed_width

__all__ = ["RowLayout"]


class RowLayout:
    """The positions of fields in rows of these types and format."""

    def __init__(self, format_: RowFormat, types: Sequence[DataType]) -> None:
        self.format = format_
        self.types = tuple(types)
        self._bitmap_bytes = (len(self.types) + 7) // 8
        self._widths = [fixed_width(type_) for type_ in self.types]
        self._lengths_bytes = 4 * self._widths.count(None) if format_ is RowFormat.INDEXED else 0

    def split(self, row: bytes) -> list[bytes | None]:
        """The bytes of each field, None for null. Raises CORRUPT_RECORD for a malformed row."""
        position = self._bitmap_bytes + self._lengths_bytes
        if len(row) < position:
            raise corrupt(f"row is too short. length={len(row)} columns={len(self.types)}")
        is_indexed = self.format is RowFormat.INDEXED
        lengths = self._bitmap_bytes
        fields: list[bytes | None] = []
        for index, type_ in enumerate(self.types):
            if row[index >> 3] >> (index & 7) & 1:
                fields.append(None)
                continue
            if is_indexed:
                width = self._widths[index]
                if width is None:
                    width = int.from_bytes(row[lengths : lengths + 4], "little")
                    lengths += 4
                end = position + width
            else:
                end = field_end(type_, row, position)
            if end > len(row):
                raise corrupt(f"field extends beyond its row. column={index} length={len(row)}")
            fields.append(row[position:end])
            position = end
        return fields

    def join(self, fields: Sequence[bytes | None]) -> bytes:
        """The row of these fields."""
        bitmap = bytearray(self._bitmap_bytes)
        lengths = []
        for index, field in enumerate(fields):
            if field is None:
                bitmap[index >> 3] |= 1 << (index & 7)
            elif self._widths[index] is None:
                lengths.append(len(field))
        present = b"".join(field for field in fields if field is not None)
        if self.format is RowFormat.COMPACTED:
            return bytes(bitmap) + present
        # Nulls have no length, so the end of the list can be unused.
        head = struct.pack(f"<{len(lengths)}i", *lengths).ljust(self._lengths_bytes, b"\0")
        return bytes(bitmap) + head + present

    def decode(self, row: bytes) -> tuple[Any, ...]:
        """Decode a row to values."""
        return tuple(
            None if field is None else decode_field(self.format, type_, field)
            for type_, field in zip(self.types, self.split(row), strict=True)
        )

    def encode(self, values: Sequence[Any]) -> bytes:
        """Encode values to a row."""
        return self.join(
            [
                None if value is None else encode_field(self.format, type_, value)
                for type_, value in zip(self.types, values, strict=True)
            ]
        )
