"""The rows of the tables, made by Spark from their numbers: the same on every site and in every run."""

from __future__ import annotations

from typing import TYPE_CHECKING, Any, Final

import msgspec

from benchmarks.pipeline.site import Site
from lakebed.pipeline.jobs.verification import row_hash
from lakebed.pipeline.table_ref import CatalogTable

if TYPE_CHECKING:
    from pyspark.sql import DataFrame

_SALT: Final = {"customer": 1, "amount": 2, "kind": 3}
_NAMES: Final = "array('view', 'basket', 'order', 'return')"

ROWS_A_MIB: Final = 13_350
"""Rows that take one MiB in a Parquet file, as Iceberg writes it."""


class Sums(msgspec.Struct, frozen=True):
    """What the rows of a table come to, in whatever order and files they are."""

    rows: int
    ids: int
    hashes: int


class Files(msgspec.Struct, frozen=True):
    """The data files of a table."""

    count: int
    bytes: int


def numbered(site: Site, first: int, count: int, files: int, *, version: int = 0, step: int = 1) -> DataFrame:
    """`count` rows, from number `first` on, in so many parts; rows of another version have other contents."""
    numbers = site.spark.range(first, first + count * step, step, files)

    def chance(column: str, below: int) -> str:
        return f"pmod(xxhash64(id, {_SALT[column]}, {version}), {below})"

    return numbers.selectExpr(
        "id",
        "timestamp_micros(1767225600000000 + id * 250000) AS happened",
        f"cast({chance('customer', 250_000)} AS int) AS customer",
        f"cast({chance('amount', 1_000_000)} / 100 AS decimal(12, 2)) AS amount",
        f"element_at({_NAMES}, cast({chance('kind', 4)} AS int) + 1) AS kind",
        # What compression can make little of, as with keys, addresses and free text.
        f"base64(unhex(sha2(concat(id, ' ', {version}), 512))) AS detail",
    )


def write(rows: DataFrame, table: CatalogTable) -> None:
    """Make a table of the rows: a file for each part."""
    made: Any = rows.writeTo(table.sql).using("iceberg").tableProperty("write.distribution-mode", "none")
    made.create()


def sums(rows: DataFrame) -> Sums:
    """Add up all rows."""
    hashed = f"sum(cast({row_hash(rows.schema)} AS decimal(38, 0))) AS hashes"
    (found,) = rows.selectExpr("count(*) AS rows", "sum(id) AS ids", hashed).collect()
    return Sums(found["rows"], found["ids"], int(found["hashes"]))


def files(site: Site, table: CatalogTable) -> Files:
    """Count a table's data files."""
    (found,) = site.sql(f"SELECT count(*) AS count, sum(file_size_in_bytes) AS bytes FROM {table.inside('data_files')}")
    return Files(found["count"], found["bytes"])


def sizes(site: Site, table: CatalogTable) -> list[tuple[int, int]]:
    """Rows and bytes of each data file, sorted."""
    found = site.sql(f"SELECT record_count, file_size_in_bytes FROM {table.inside('data_files')}")
    return sorted((row["record_count"], row["file_size_in_bytes"]) for row in found)
