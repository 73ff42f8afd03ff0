"""Rows that the tests write and read back."""

from __future__ import annotations

from datetime import date
from typing import Any, Final

import pyarrow as pa
from pyiceberg.schema import Schema
from pyiceberg.table import Table
from pyiceberg.types import DateType, LongType, NestedField, StringType

SCHEMA: Final = Schema(
    NestedField(1, "id", LongType()), NestedField(2, "name", StringType()), NestedField(3, "day", DateType())
)
ARROW_SCHEMA: Final = pa.schema([("id", pa.int64()), ("name", pa.string()), ("day", pa.date32())])


def people(*ids: int, name: str | None = None, day: date = date(2026, 1, 1)) -> Any:  # Any: pyarrow has no types
    """One row per id; its name is derived from the id unless given."""
    return pa.table(
        {"id": list(ids), "name": [name or f"name-{one}" for one in ids], "day": [day] * len(ids)}, schema=ARROW_SCHEMA
    )


def ids_of(table: Table, **scan: Any) -> list[int]:  # Any: options of a scan
    """The sorted ids that a scan returns, with duplicates."""
    return sorted(table.scan(**scan).to_arrow()["id"].to_pylist())


def rows_of(table: Table, **scan: Any) -> list[dict[str, Any]]:  # Any: likewise
    """The rows that a scan returns, ordered by id."""
    found: list[dict[str, Any]] = table.scan(**scan).to_arrow().sort_by("id").to_pylist()
    return found
