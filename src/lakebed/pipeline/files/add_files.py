"""Creates an Iceberg table over existing Parquet files, without copying them."""

from __future__ import annotations

import tempfile
import uuid
from collections.abc import Iterator, Mapping, Sequence
from concurrent.futures import ThreadPoolExecutor
from contextlib import contextmanager
from dataclasses import dataclass
from typing import TYPE_CHECKING, Any, Final

from lakebed.core.errors import InvalidInput

from ..report import FileTotals
from ..spark.config import CATALOG_CLASS, under_catalog
from ..spark.iceberg_jvm import catalog_of, identifier_of, java_map, java_of
from ..table_ref import CatalogTable, quoted_name
from .hive_layout import HiveLayout, PartitionedFile, column_types, read_layout
from .listing import listed
from .parquet_footers import merged_schema, read_footers

if TYPE_CHECKING:
    from pyspark.sql import SparkSession
    from pyspark.sql.types import StructType

PURPOSE: Final = "importing a folder"
NAME_MAPPING: Final = "schema.name-mapping.default"
_AT_ONCE: Final = 8

# Any, below: Java objects.


@dataclass(frozen=True, slots=True)
class ParquetFolder:
    """An inspected folder of Parquet files."""

    location: str
    files: Any
    """An Iceberg FileIO that reads it."""
    layout: HiveLayout
    schema: StructType
    others: tuple[PartitionedFile, ...]
    """Files that are not Parquet files."""

    @property
    def amount(self) -> FileTotals:
        """Total size of the import."""
        return FileTotals(len(self.layout.files), sum(file.bytes for file in self.layout.files))


def inspect_folder(files: Any, location: str, stated: Sequence[str]) -> ParquetFolder:
    """Inspect a folder. Raises InvalidInput if it has no Parquet files, or their layouts or schemas conflict."""
    layout = read_layout(location, listed(files, location))
    footers, others = read_footers(files, layout.files)
    if not footers:
        raise InvalidInput(f"folder has no Parquet files. source={location}", argument="source")
    layout = HiveLayout(layout.columns, tuple(footer.file for footer in footers), layout.hidden)
    schema = _with_partitions(merged_schema(footers), column_types(layout, stated))
    return ParquetFolder(location.rstrip("/"), files, layout, schema, tuple(others))


def create_over_files(
    spark: SparkSession,
    table: CatalogTable,
    folder: ParquetFolder,
    properties: Mapping[str, str],
    summary: Mapping[str, str],
) -> int:
    """Create a table at the folder with its files, in one commit; the snapshot id."""
    transaction = _begin(
        spark,
        catalog_of(spark, table, PURPOSE),
        identifier_of(spark, *table.parts),
        folder,
        folder.location,
        properties,
    )
    _append(spark, transaction, folder, summary)
    transaction.commitTransaction()
    return int(transaction.table().currentSnapshot().snapshotId())


@contextmanager
def temporary_table(spark: SparkSession, folder: ParquetFolder) -> Iterator[str]:
    """A temporary Iceberg table over the folder, for Spark to read; its name.

    The table is in a catalog on the local disk. The folder itself is only read.
    """
    catalog = f"folder_{uuid.uuid4().hex}"
    with tempfile.TemporaryDirectory(prefix="lakebed-import-") as scratch:
        properties = {
            **{str(name): str(value) for name, value in dict(folder.files.properties()).items()},
            # Last, because the FileIO's properties may be of a staged table and name its catalog.
            "type": "hadoop",
            "warehouse": f"file://{scratch}",
            "io-impl": "org.apache.iceberg.io.ResolvingFileIO",
        }
        spark.conf.set(f"spark.sql.catalog.{catalog}", CATALOG_CLASS)
        for name, value in under_catalog(catalog, properties).items():
            spark.conf.set(name, value)
        try:
            found = spark._jsparkSession.sessionState().catalogManager().catalog(catalog).icebergCatalog()
            identifier = identifier_of(spark, "folder", "files")
            # Its manifests are on this disk, so the scan is planned here.
            transaction = _begin(spark, found, identifier, folder, None, {"read.data-planning-mode": "local"})
            _append(spark, transaction, folder, {})
            transaction.commitTransaction()
            yield quoted_name(catalog, "folder", "files")
        finally:
            for name in (f"spark.sql.catalog.{catalog}", *under_catalog(catalog, properties)):
                spark.conf.unset(name)


def _begin(
    spark: SparkSession,
    catalog: Any,
    identifier: Any,
    folder: ParquetFolder,
    location: str | None,
    properties: Mapping[str, str],
) -> Any:
    java = java_of(spark, PURPOSE)
    kind = java.org.apache.spark.sql.types.DataType.fromJson(folder.schema.json())
    schema = java.org.apache.iceberg.spark.SparkSchemaUtil.convert(kind)
    spec = java.org.apache.iceberg.PartitionSpec.builderFor(schema)
    for column in folder.layout.columns:
        spec = spec.identity(column)
    builder = catalog.buildTable(identifier, schema).withPartitionSpec(spec.build())
    if location is not None:
        builder = builder.withLocation(location)
    return builder.withProperties(java_map(spark, properties)).createTransaction()


def _append(spark: SparkSession, transaction: Any, folder: ParquetFolder, summary: Mapping[str, str]) -> None:
    java = java_of(spark, PURPOSE)
    table = transaction.table()
    # The files have column names and no field ids: the table needs a name mapping.
    mapping = java.org.apache.iceberg.mapping.MappingUtil.create(table.schema())
    written = java.org.apache.iceberg.mapping.NameMappingParser.toJson(mapping)
    transaction.updateProperties().set(NAME_MAPPING, written).commit()
    metrics = java.org.apache.iceberg.MetricsConfig.forTable(table)

    def data_file(file: PartitionedFile) -> Any:
        stored = folder.files.newInputFile(file.path, file.bytes)
        builder = (
            java.org.apache.iceberg.DataFiles.builder(table.spec())
            .withPath(file.path)
            .withFormat("parquet")
            .withFileSizeInBytes(file.bytes)
            .withMetrics(java.org.apache.iceberg.parquet.ParquetUtil.fileMetrics(stored, metrics, mapping))
        )
        if file.values:
            values = java.java.util.ArrayList()
            for value in file.values:
                values.add(value if value is not None else "__HIVE_DEFAULT_PARTITION__")
            builder = builder.withPartitionValues(values)
        return builder.build()

    append = transaction.newAppend()
    with ThreadPoolExecutor(_AT_ONCE) as threads:
        for built in threads.map(data_file, folder.layout.files):
            append.appendFile(built)
    for name, value in summary.items():
        append.set(name, value)
    append.commit()


def _with_partitions(schema: StructType, types: Mapping[str, str]) -> StructType:
    """The schema with the partition columns of the folders, which replace columns of the same name."""
    from pyspark.sql.types import DataType, StructField, StructType

    kept = [field for field in schema.fields if field.name not in types]
    return StructType([*kept, *(StructField(name, DataType.fromDDL(kind), True) for name, kind in types.items())])
