"""Bucketing: assigns rows to buckets and encodes their keys.

All writers of a table must agree on it; the server does not check it. The table's lake format decides, so that rows are
in the same bucket in the lake.
"""

from __future__ import annotations

from collections import defaultdict
from collections.abc import Callable, Mapping, Sequence
from typing import Any, Final, NamedTuple

import pyarrow as pa

from lakebed.fluss.bucketing import fluss_bucket, iceberg_bucket, paimon_bucket
from lakebed.fluss.errors import ErrorCode, FlussError
from lakebed.fluss.key_encoding import KeyEncoding, check_key_types, choose_encoding, encode_key
from lakebed.fluss.rows.encoding import column_values
from lakebed.fluss.schema import TableColumn

from .tables import TableInfo

__all__ = ["BucketAssigner", "KeyEncoder"]

_FORMAT_VERSION: Final = "table.kv.format-version"


class _Rules(NamedTuple):
    """Key encoding and bucketing function of a lake format."""

    form: KeyEncoding
    bucket: Callable[[bytes, int], int]


_FLUSS: Final = _Rules(KeyEncoding.COMPACTED, fluss_bucket)
_LAKES: Final[Mapping[str, _Rules]] = {
    "": _FLUSS,
    "lance": _FLUSS,
    "iceberg": _Rules(KeyEncoding.ICEBERG, iceberg_bucket),
    "paimon": _Rules(KeyEncoding.PAIMON, paimon_bucket),
}


class KeyEncoder:
    """Encodes keys from columns of rows."""

    def __init__(self, table: TableInfo, names: Sequence[str], form: KeyEncoding = KeyEncoding.COMPACTED) -> None:
        """Error codes: INVALID_TABLE for columns that this encoding does not support."""
        self._columns: list[TableColumn] = []
        for name in names:
            column = table.schema.column(name)
            if column is None:
                raise FlussError(ErrorCode.INVALID_TABLE, f"no such column. table={table.path} column={name}")
            self._columns.append(column)
        self._types = [column.type for column in self._columns]
        self._form = form
        check_key_types(form, self._types)

    def keys(self, rows: pa.RecordBatch) -> list[bytes]:
        """The key of each row. Raises INVALID_TARGET_COLUMN for null."""
        values = [_key_values(column, rows.column(column.name)) for column in self._columns]
        return [encode_key(self._form, self._types, row) for row in zip(*values, strict=True)]


class BucketAssigner:
    """Assigns the rows of a table to buckets, and encodes their keys."""

    def __init__(self, table: TableInfo) -> None:
        """Error codes: INVALID_TABLE for an unsupported lake format."""
        lake = table.properties.get("table.datalake.format", "").lower()
        rules = _LAKES.get(lake)
        if rules is None:
            raise FlussError(
                ErrorCode.INVALID_TABLE,
                f"bucketing of this lake format is not supported: use a Fluss client. table={table.path} lake={lake}",
            )
        # Keys are unique in a partition: partition columns are not part of them.
        own = [name for name in table.schema.primary_key if name not in table.partition_keys]
        bucket_key = list(table.bucket_key) or own
        form = choose_encoding(lake, int(table.properties.get(_FORMAT_VERSION, "1")), own, bucket_key)
        self._bucket = rules.bucket
        self._count = table.bucket_count
        self._bucket_key = KeyEncoder(table, bucket_key, rules.form)
        self._key = KeyEncoder(table, own, form) if own else None

    def buckets(self, rows: pa.RecordBatch) -> list[int]:
        """The bucket of each row. Error codes: INVALID_TARGET_COLUMN."""
        return [self._bucket(key, self._count) for key in self._bucket_key.keys(rows)]

    def keys(self, rows: pa.RecordBatch) -> list[bytes]:
        """The primary key of each row. Error codes: NON_PRIMARY_KEY_TABLE, INVALID_TARGET_COLUMN."""
        if self._key is None:
            raise FlussError(ErrorCode.NON_PRIMARY_KEY_TABLE)
        return self._key.keys(rows)

    def by_bucket(self, rows: pa.RecordBatch) -> Mapping[int, Sequence[int]]:
        """Row numbers by bucket."""
        found = defaultdict(list)
        for number, bucket in enumerate(self.buckets(rows)):
            found[bucket].append(number)
        return found


def _key_values(column: TableColumn, array: pa.Array) -> list[Any]:
    if array.null_count:
        raise FlussError(ErrorCode.INVALID_TARGET_COLUMN, f"null in a key column. column={column.name}")
    return column_values(column.type, array)
