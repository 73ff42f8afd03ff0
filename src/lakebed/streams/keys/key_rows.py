"""A row made of nothing but its key: what a lookup that may insert writes for a key that is not there."""

from __future__ import annotations

import datetime
from collections.abc import Mapping
from typing import Any, Final

from lakebed.streams.failures import Reason, StreamFailure
from lakebed.streams.keys.fields import RowFormat, corrupt, decode_field, encode_field, field_end
from lakebed.streams.keys.table import KeyedTable
from lakebed.streams.types import DataType, Root

__all__ = ["KeyRows"]

_EPOCH: Final = datetime.date(1970, 1, 1)
_PARTITION_INTEGERS: Final = frozenset({Root.TINYINT, Root.SMALLINT, Root.INT, Root.BIGINT})


class KeyRows:
    """Rows of keys of one bucket. A key is the fields of its columns one after the other, as compacted rows have them.

    Columns that the partition is by are not in the key: all rows of the partition have the same, `constants`, in the
    words of its name.
    """

    def __init__(self, table: KeyedTable, constants: Mapping[str, str] | None = None) -> None:
        self._table = table
        self._constants = dict(constants or {})

    def row(self, key: bytes) -> bytes:
        """The row of this key in the latest schema, with null in all other columns; raises CORRUPT_RECORD."""
        schema, format_ = self._table.latest, self._table.settings.row_format
        fields: list[bytes | None] = [None] * len(schema.columns)
        position = 0
        for name, at in zip(schema.primary_key, schema.key_positions, strict=True):
            type_ = schema.columns[at].type
            if name in self._constants:
                fields[at] = encode_field(format_, type_, _partition_value(type_, self._constants[name]))
                continue
            end = field_end(type_, key, position)
            field = key[position:end]
            if end > len(key):
                raise corrupt(f"key is too short. column={name} length={len(key)}")
            value: Any = decode_field(RowFormat.COMPACTED, type_, field)
            fields[at] = field if format_ is RowFormat.COMPACTED else encode_field(format_, type_, value)
            position = end
        if position != len(key):
            raise corrupt(f"key goes on after its columns. length={len(key)} read={position}")
        return self._table.layout(self._table.latest_id).join(fields)


def _partition_value(type_: DataType, text: str) -> Any:
    root = type_.root
    if root in (Root.STRING, Root.CHAR):
        return text
    if root in _PARTITION_INTEGERS:
        return int(text)
    if root is Root.BOOLEAN:
        return text == "true"
    if root is Root.DATE:
        return (datetime.date.fromisoformat(text) - _EPOCH).days
    if root in (Root.BYTES, Root.BINARY):
        return bytes.fromhex(text)
    raise StreamFailure(Reason.INVALID_TARGET_COLUMN, f"rows of such a partition are not made of keys. type={type_}")
