"""In which bucket a row is: what all who write to a table must agree on, and no server looks at."""

from __future__ import annotations

from collections import defaultdict
from collections.abc import Mapping, Sequence
from typing import Any, Final

import pyarrow as pa

from lakebed.streams.failures import Reason, StreamFailure
from lakebed.streams.keys.fields import RowFormat, encode_field
from lakebed.streams.schema import Column

from .stream_tables import KnownTable
from .stream_values import values_of

__all__ = ["KeyEncoder", "bucket_of", "check_placing", "place_rows"]

_MASK: Final = 0xFFFFFFFF
_SEED: Final = 42
_WORD_BYTES: Final = 4
_OWN: Final = frozenset({"", "lance"})
"""Formats of a lake that leave it to streams which bucket a row is in. Others have rules of their own."""


def bucket_of(key: bytes, count: int) -> int:
    """The bucket of a row whose bucket key is this, of so many."""
    return abs(_signed(_mixed(_hash(key)))) % count


def check_placing(table: KnownTable) -> None:
    """Raises INVALID_TABLE unless it is known here which bucket a row of the table is in."""
    lake = table.properties.get("table.datalake.format", "").lower()
    if lake not in _OWN:
        raise StreamFailure(
            Reason.INVALID_TABLE,
            f"rows are in buckets by the rules of a lake: write with a client of Fluss. table={table.path} lake={lake}",
        )


def place_rows(table: KnownTable, rows: pa.RecordBatch) -> Mapping[int, Sequence[int]]:
    """The numbers of the rows by the bucket that they belong to, for a table that says by which columns."""
    found = defaultdict(list)
    for number, key in enumerate(KeyEncoder(table, table.bucket_key).keys(rows)):
        found[bucket_of(key, table.bucket_count)].append(number)
    return found


class KeyEncoder:
    """Keys of rows by some of their columns: their fields one after the other, as compacted rows have them."""

    def __init__(self, table: KnownTable, names: Sequence[str]) -> None:
        self._columns: list[Column] = []
        for name in names:
            column = table.schema.column(name)
            if column is None:
                raise StreamFailure(Reason.INVALID_TABLE, f"no such column. table={table.path} column={name}")
            self._columns.append(column)

    def keys(self, rows: pa.RecordBatch) -> list[bytes]:
        """The key of each row. Raises INVALID_TARGET_COLUMN for one that has null in it."""
        fields = [_fields(column, values_of(column.type, rows.column(column.name))) for column in self._columns]
        return [b"".join(row) for row in zip(*fields, strict=True)]


def _fields(column: Column, values: Sequence[Any]) -> list[bytes]:
    if None in values:
        raise StreamFailure(Reason.INVALID_TARGET_COLUMN, f"a row has a value in its key. column={column.name}")
    return [encode_field(RowFormat.COMPACTED, column.type, value) for value in values]


def _hash(data: bytes) -> int:
    """Murmur3, but with each byte behind the last whole word taken for a word."""
    found = _SEED
    whole = len(data) - len(data) % _WORD_BYTES
    words = [int.from_bytes(data[at : at + _WORD_BYTES], "little") for at in range(0, whole, _WORD_BYTES)]
    for word in (*words, *data[whole:]):
        found = _rotated(found ^ _scrambled(word), 13) * 5 + 0xE6546B64 & _MASK
    return _finished(found ^ len(data))


def _mixed(number: int) -> int:
    """The same once more, of one word and no seed."""
    return _finished((_rotated(_scrambled(number), 13) * 5 + 0xE6546B64 & _MASK) ^ _WORD_BYTES)


def _scrambled(word: int) -> int:
    return _rotated(word * 0xCC9E2D51 & _MASK, 15) * 0x1B873593 & _MASK


def _finished(number: int) -> int:
    number = (number ^ number >> 16) * 0x85EBCA6B & _MASK
    number = (number ^ number >> 13) * 0xC2B2AE35 & _MASK
    return number ^ number >> 16


def _rotated(number: int, bits: int) -> int:
    return (number << bits | number >> 32 - bits) & _MASK


def _signed(number: int) -> int:
    """As 32 bits with a sign; of the least one, which has no positive twin, nothing."""
    return 0 if number == 1 << 31 else number - (number >> 31 << 32)
