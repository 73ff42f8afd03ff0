"""The Iceberg table of a stream table: columns, partition spec, and statements that create and fill it. Pure.

Columns of the stream come first, then `__bucket`, `__offset` and `__timestamp`. The table is partitioned by the
partition keys of the stream and by bucket: by Iceberg's bucket transform where that computes the same buckets.
"""

from __future__ import annotations

from collections.abc import Sequence
from typing import TYPE_CHECKING, Final

from lakebed.client.streams.tables import TableInfo

from ..table_ref import quoted_name
from .columns import BUCKET, CHANGE, OFFSET, ORIGIN, spark_schema

if TYPE_CHECKING:
    import pyarrow as pa

__all__ = ["create_statement", "merge_statement", "missing_columns"]

_PROPERTIES: Final = {
    "write.spark.fanout.enabled": "true",
    f"write.metadata.metrics.column.{BUCKET}": "full",
    f"write.metadata.metrics.column.{OFFSET}": "full",
}
_LOG_TABLE: Final = {"write.distribution-mode": "none"}
"""A task reads one bucket of one partition, and writes one file without a shuffle."""
_KV_TABLE: Final = {
    "write.merge.mode": "merge-on-read",
    "write.update.mode": "merge-on-read",
    "write.delete.mode": "merge-on-read",
}
"""A round changes few rows in many files (ADR 33)."""

_NUMBER: Final = "_number"


def create_statement(name: str, source: TableInfo) -> str:
    """Creates the table unless it exists."""
    fields = [*spark_schema(source.arrow), *ORIGIN]
    columns = ", ".join(f"{_column(field)}{'' if field.nullable else ' NOT NULL'}" for field in fields)
    kind = _KV_TABLE if source.schema.has_primary_key else _LOG_TABLE
    properties = ", ".join(f"'{key}' = '{value}'" for key, value in (_PROPERTIES | kind).items())
    parts = ", ".join([*(quoted_name(key) for key in source.partition_keys), _bucket_part(source)])
    return (
        f"CREATE TABLE IF NOT EXISTS {name} ({columns}) USING iceberg PARTITIONED BY ({parts})"
        f" TBLPROPERTIES ({properties})"
    )


def missing_columns(source: TableInfo, existing: Sequence[str]) -> list[str]:
    """Columns of the stream that the table lacks, as column definitions in the order of the stream."""
    added, before = [], ""
    for field in spark_schema(source.arrow):
        if field.name not in existing:
            added.append(f"{_column(field)} {f'AFTER {quoted_name(before)}' if before else 'FIRST'}")
        before = field.name
    return added


def merge_statement(name: str, changes: str, source: TableInfo) -> str:
    """Applies the last change of each key. `changes` is a view of a changelog with origin columns."""
    keys = [quoted_name(key) for key in (*source.schema.primary_key, BUCKET)]
    columns = [quoted_name(field.name) for field in (*source.arrow, *ORIGIN)]
    last = (
        f"SELECT * FROM (SELECT *, row_number() OVER (PARTITION BY {', '.join(keys)} ORDER BY {OFFSET} DESC)"
        f" AS {_NUMBER} FROM {changes} WHERE {CHANGE} <> '-U') WHERE {_NUMBER} = 1"
    )
    return (
        f"MERGE INTO {name} AS t USING ({last}) AS s ON {' AND '.join(f't.{key} = s.{key}' for key in keys)}"
        f" WHEN MATCHED AND s.{CHANGE} = '-D' THEN DELETE"
        f" WHEN MATCHED THEN UPDATE SET {', '.join(f't.{column} = s.{column}' for column in columns)}"
        f" WHEN NOT MATCHED AND s.{CHANGE} <> '-D' THEN INSERT ({', '.join(columns)})"
        f" VALUES ({', '.join(f's.{column}' for column in columns)})"
    )


def _bucket_part(source: TableInfo) -> str:
    is_iceberg = source.properties.get("table.datalake.format", "").lower() == "iceberg"
    if is_iceberg and len(source.bucket_key) == 1:
        return f"bucket({source.bucket_count}, {quoted_name(source.bucket_key[0])})"
    return quoted_name(BUCKET)


def _column(field: pa.Field) -> str:
    from pyspark.sql.pandas.types import from_arrow_type

    kind = from_arrow_type(field.type, prefer_timestamp_ntz=True)
    return f"{quoted_name(field.name)} {kind.simpleString()}"
