"""In which bucket a row is, and what its key is in bytes: what all who write to a table must agree on.

No server looks at it. The lake that a table goes to has the say: rows are in the buckets there that they are in here.
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
    """How a lake has its keys, and how it counts buckets."""

    form: KeyEncoding
    bucket: Callable[[bytes, int], int]


_OWN: Final = _Rules(KeyEncoding.COMPACTED, fluss_bucket)
_LAKES: Final[Mapping[str, _Rules]] = {
    "": _OWN,
    "lance": _OWN,
    "iceberg": _Rules(KeyEncoding.ICEBERG, iceberg_bucket),
    "paimon": _Rules(KeyEncoding.PAIMON, paimon_bucket),
}


class KeyEncoder:
    """Keys of rows by some of their columns."""

    def __init__(self, table: TableInfo, names: Sequence[str], form: KeyEncoding = KeyEncoding.COMPACTED) -> None:
        """Error codes: INVALID_TABLE for columns that there are no keys of in this form."""
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
        """The key of each row. Raises INVALID_TARGET_COLUMN for one that has null in it."""
        values = [_present(column, rows.column(column.name)) for column in self._columns]
        return [encode_key(self._form, self._types, row) for row in zip(*values, strict=True)]


class BucketAssigner:
    """Keys and buckets of the rows of one table."""

    def __init__(self, table: TableInfo) -> None:
        """Error codes: INVALID_TABLE where rows are in buckets by rules that are not known here."""
        lake = table.properties.get("table.datalake.format", "").lower()
        rules = _LAKES.get(lake)
        if rules is None:
            raise FlussError(
                ErrorCode.INVALID_TABLE,
                "rows are in buckets by the rules of a lake that are not known here: write with a client of Fluss. "
                f"table={table.path} lake={lake}",
            )
        # All rows of a partition have the same in the columns that it is by: they are not in the key.
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
        """The key of each row of a table that has some. Error codes: NON_PRIMARY_KEY_TABLE, INVALID_TARGET_COLUMN."""
        if self._key is None:
            raise FlussError(ErrorCode.NON_PRIMARY_KEY_TABLE)
        return self._key.keys(rows)

    def by_bucket(self, rows: pa.RecordBatch) -> Mapping[int, Sequence[int]]:
        """The numbers of the rows by the bucket that they belong to."""
        found = defaultdict(list)
        for number, bucket in enumerate(self.buckets(rows)):
            found[bucket].append(number)
        return found


def _present(column: TableColumn, array: pa.Array) -> list[Any]:
    if array.null_count:
        raise FlussError(ErrorCode.INVALID_TARGET_COLUMN, f"a row has a value in its key. column={column.name}")
    return column_values(column.type, array)
