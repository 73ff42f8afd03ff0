"""Calls Iceberg's Spark procedures with typed arguments."""

from __future__ import annotations

from collections.abc import Mapping, Sequence
from dataclasses import dataclass
from datetime import UTC, datetime
from typing import TYPE_CHECKING, Any, TypeAlias

from ..table_ref import CatalogTable, quoted_name

if TYPE_CHECKING:
    from pyspark.sql import SparkSession


@dataclass(frozen=True, slots=True)
class TimestampArgument:
    """A timestamp argument, in milliseconds since the epoch."""

    ms: int


Argument: TypeAlias = str | int | bool | TimestampArgument | Mapping[str, str] | Sequence[str] | Sequence[int]

Row: TypeAlias = dict[str, Any]
"""A row by column. Any: values of any type."""


def call(spark: SparkSession, table: CatalogTable, procedure: str, **arguments: Argument | None) -> list[Row]:
    """Call a procedure of the table's catalog on the table; its rows. None arguments are omitted."""
    given = {"table": table.sql, **arguments}
    written = ", ".join(f"{name} => {literal(value)}" for name, value in given.items() if value is not None)
    return rows(spark, f"CALL {quoted_name(table.catalog)}.system.{procedure}({written})")


def rows(spark: SparkSession, query: str) -> list[Row]:
    """All rows of a query."""
    return [row.asDict() for row in spark.sql(query).collect()]


def literal(value: Argument) -> str:
    """A value as an SQL literal."""
    if isinstance(value, bool):
        return "true" if value else "false"
    if isinstance(value, int):
        return f"{value}L" if abs(value) > 2**31 - 1 else str(value)
    if isinstance(value, str):
        return "'" + value.replace("\\", "\\\\").replace("'", "\\'") + "'"
    if isinstance(value, TimestampArgument):
        stamp = datetime.fromtimestamp(value.ms / 1000, UTC).strftime("%Y-%m-%d %H:%M:%S")
        return f"TIMESTAMP '{stamp}.{value.ms % 1000:03d} UTC'"
    if isinstance(value, Mapping):
        return f"map({', '.join(literal(text) for pair in value.items() for text in pair)})"
    return f"array({', '.join(literal(one) for one in value)})"
