"""Measures a table by its metadata, for the `before` and `after` of job reports."""

from __future__ import annotations

from typing import TYPE_CHECKING

import msgspec

from ..spark.iceberg_jvm import load_table
from ..spark.procedures import rows
from ..spark.session import has_java
from ..table_ref import CatalogTable

if TYPE_CHECKING:
    from pyspark.sql import SparkSession

_DATA, _POSITIONS, _EQUALITIES = 0, 1, 2


class TableShape(msgspec.Struct, frozen=True, kw_only=True, rename="kebab"):
    """Measurements of a table, named as in table health."""

    snapshot: int | None = None
    """The current snapshot."""
    snapshots: int = 0
    data_files: int = 0
    data_bytes: int = 0
    rows: int = 0
    """In data files, including rows that delete files delete."""
    delete_files: int = 0
    position_deletes: int = 0
    equality_deletes: int = 0
    deletion_vectors: int = 0
    """Numbers of delete files by kind."""
    deleted_rows: int = 0
    """Rows in delete files. An equality delete counts once, however many rows it deletes."""
    manifests: int = 0
    manifest_bytes: int = 0
    specs_in_use: int = 0
    """Number of partition specs of live data files."""

    @property
    def delete_ratio(self) -> float:
        """Deleted rows per row."""
        return self.deleted_rows / self.rows if self.rows else 0.0


def measure(spark: SparkSession, table: CatalogTable) -> TableShape:
    """Measure the current table. Reads manifests, no data files."""
    files = rows(
        spark,
        "SELECT content, upper(file_format) = 'PUFFIN' AS is_vector, spec_id, count(*) AS files,"
        " coalesce(sum(file_size_in_bytes), 0) AS bytes, coalesce(sum(record_count), 0) AS records"
        f" FROM {table.inside('files')} GROUP BY ALL",
    )
    (manifests,) = rows(
        spark, f"SELECT count(*) AS files, coalesce(sum(length), 0) AS bytes FROM {table.inside('manifests')}"
    )
    data = [row for row in files if row["content"] == _DATA]
    deletes = [row for row in files if row["content"] != _DATA]
    return TableShape(
        snapshot=current_snapshot(spark, table),
        snapshots=len(snapshot_ids(spark, table)),
        data_files=sum(row["files"] for row in data),
        data_bytes=sum(row["bytes"] for row in data),
        rows=sum(row["records"] for row in data),
        delete_files=sum(row["files"] for row in deletes),
        position_deletes=sum(row["files"] for row in deletes if row["content"] == _POSITIONS and not row["is_vector"]),
        equality_deletes=sum(row["files"] for row in deletes if row["content"] == _EQUALITIES),
        deletion_vectors=sum(row["files"] for row in deletes if row["is_vector"]),
        deleted_rows=sum(row["records"] for row in deletes),
        manifests=manifests["files"],
        manifest_bytes=manifests["bytes"],
        specs_in_use=len({row["spec_id"] for row in data}),
    )


def current_snapshot(spark: SparkSession, table: CatalogTable) -> int | None:
    """The id of the current snapshot; None for an empty table."""
    if has_java(spark):
        current = load_table(spark, table, "reading the current snapshot").currentSnapshot()
        return None if current is None else int(current.snapshotId())
    # Only without a JVM: a query is a Spark job of about 0.1 s.
    found = rows(spark, f"SELECT snapshot_id FROM {table.inside('refs')} WHERE name = 'main'")
    return found[0]["snapshot_id"] if found else None


def snapshot_ids(spark: SparkSession, table: CatalogTable) -> set[int]:
    """The ids of all snapshots."""
    return {row["snapshot_id"] for row in rows(spark, f"SELECT snapshot_id FROM {table.inside('snapshots')}")}


def properties_of(spark: SparkSession, table: CatalogTable) -> dict[str, str]:
    """The table's properties, including `format-version`, which Spark adds."""
    return {row["key"]: row["value"] for row in rows(spark, f"SHOW TBLPROPERTIES {table.sql}")}


def location_of(spark: SparkSession, table: CatalogTable) -> str:
    """The table's location."""
    if has_java(spark):
        return str(load_table(spark, table, "reading the location").location())
    # Only without a JVM: Spark measures the table for this.
    described = rows(spark, f"DESCRIBE TABLE EXTENDED {table.sql}")
    return next(str(row["data_type"]) for row in described if row["col_name"] == "Location")
