"""Rows with only a key: a lookup with insert-if-not-exists writes them for missing keys."""

from __future__ import annotations

import datetime
from collections.abc import Mapping, Sequence
from typing import Any, Final

from lakebed.fluss.errors import ErrorCode, FlussError
from lakebed.fluss.key_encoding import choose_encoding, decode_key
from lakebed.fluss.rows.fields import encode_field
from lakebed.fluss.types import DataType, TypeRoot

from .table import KvTable

__all__ = ["KeyOnlyRows"]

_EPOCH: Final = datetime.date(1970, 1, 1)
_PARTITION_INTEGERS: Final = frozenset({TypeRoot.TINYINT, TypeRoot.SMALLINT, TypeRoot.INT, TypeRoot.BIGINT})


class KeyOnlyRows:
    """Builds rows from the keys of one bucket, in the table's key encoding (`key_encoding`).

    Partition columns are not in the key. All rows of a partition have the same values for them, `constants`, parsed
    from the partition name.
    """

    def __init__(
        self, table: KvTable, constants: Mapping[str, str] | None = None, bucket_key: Sequence[str] | None = None
    ) -> None:
        """`bucket_key` has the columns of the bucket key, if they are not all columns of the key."""
        self._table = table
        self._constants = dict(constants or {})
        schema, settings = table.latest, table.settings
        self._names = [name for name in schema.primary_key if name not in self._constants]
        self._encoding = choose_encoding(settings.lake, settings.key_version, self._names, bucket_key or self._names)

    def row(self, key: bytes) -> bytes:
        """The row of this key in the latest schema, with all other columns null. Raises CORRUPT_RECORD."""
        schema, format_ = self._table.latest, self._table.settings.row_format
        types = {
            name: schema.columns[at].type for name, at in zip(schema.primary_key, schema.key_positions, strict=True)
        }
        values: dict[str, Any] = {name: _partition_value(types[name], text) for name, text in self._constants.items()}
        written = decode_key(self._encoding, [types[name] for name in self._names], key)
        values.update(zip(self._names, written, strict=True))
        fields: list[bytes | None] = [None] * len(schema.columns)
        for name, at in zip(schema.primary_key, schema.key_positions, strict=True):
            fields[at] = encode_field(format_, types[name], values[name])
        return self._table.layout(self._table.latest_id).join(fields)


def _partition_value(type_: DataType, text: str) -> Any:
    root = type_.root
    if root in (TypeRoot.STRING, TypeRoot.CHAR):
        return text
    if root in _PARTITION_INTEGERS:
        return int(text)
    if root is TypeRoot.BOOLEAN:
        return text == "true"
    if root is TypeRoot.DATE:
        return (datetime.date.fromisoformat(text) - _EPOCH).days
    if root in (TypeRoot.BYTES, TypeRoot.BINARY):
        return bytes.fromhex(text)
    raise FlussError(
        ErrorCode.INVALID_TARGET_COLUMN, f"insert-if-not-exists does not support this partition key type. type={type_}"
    )
