"""Source tables of imports: registered by their metadata, or copied as of a snapshot."""

from __future__ import annotations

from collections.abc import Mapping
from dataclasses import dataclass
from typing import TYPE_CHECKING, Any, Final

from lakebed.core.errors import InvalidInput, NotFound

from ..spark.config import CATALOG_CLASS, bound_name, signing_properties, under_catalog
from ..spark.iceberg_jvm import catalog_of, identifier_of, java_map, java_of
from ..spark.procedures import call, rows
from ..table_ref import CatalogTable, quoted_name
from .listing import PATH_PROPERTIES

if TYPE_CHECKING:
    from pyspark.sql import SparkSession

PURPOSE: Final = "importing a table of another catalog"

_NOT_CARRIED: Final = frozenset({*PATH_PROPERTIES, "schema.name-mapping.default", "owner", "location", "provider"})
"""Properties that depend on the source's location. Lakebed's own properties about its origin are dropped as well."""


@dataclass(frozen=True, slots=True)
class SourceTable:
    """A table of another catalog of the Spark session."""

    catalog: str
    parts: tuple[str, ...]

    @property
    def sql(self) -> str:
        """The full name, quoted for SQL."""
        return quoted_name(self.catalog, *self.parts)

    def __str__(self) -> str:
        return ".".join((self.catalog, *self.parts))


def attach_source(spark: SparkSession, table: CatalogTable, uri: str, warehouse: str) -> str:
    """Attach an Iceberg REST catalog to the session; its name. This server's own catalogs use our credentials.

    Catalogs with credentials of their own are configured in `pipeline.spark` and referred to by name.
    """
    name = bound_name("import", uri, warehouse, table.access.access_key_id)
    properties = {
        "type": "rest",
        "uri": uri,
        "cache-enabled": "false",
        "io-impl": "org.apache.iceberg.aws.s3.S3FileIO",
        "client.region": table.access.region,
        "header.X-Iceberg-Access-Delegation": "vended-credentials",
        **({"warehouse": warehouse} if warehouse else {}),
    }
    if uri.startswith(f"{table.access.endpoint}/"):
        properties |= {
            "rest.sigv4-enabled": "true",
            "rest.signing-name": "s3",
            "rest.signing-region": table.access.region,
            **signing_properties(table.access),
        }
    spark.conf.set(f"spark.sql.catalog.{name}", CATALOG_CLASS)
    for key, value in under_catalog(name, properties).items():
        spark.conf.set(key, value)
    return name


def load_source(spark: SparkSession, source: SourceTable) -> Any:  # Any: Iceberg's table
    """Load the Iceberg table. Raises NotFound, and InvalidInput if it is not an Iceberg table."""
    java = java_of(spark, PURPOSE)
    if not spark.catalog.tableExists(source.sql):
        raise NotFound(f"no such source table. source={source}")
    try:
        return java.org.apache.iceberg.spark.Spark3Util.loadIcebergTable(spark._jsparkSession, source.sql)
    except Exception as error:
        if "is not an Iceberg table" not in str(error) and "ClassCastException" not in str(error):
            raise
        raise InvalidInput(
            f"not an Iceberg table; import the folder of its files instead. source={source}", argument="source-table"
        ) from error


def metadata_of(spark: SparkSession, source: SourceTable) -> str:
    """Location of the table's current metadata file."""
    found = rows(
        spark, f"SELECT file FROM {source.sql}.metadata_log_entries ORDER BY timestamp DESC, file DESC LIMIT 1"
    )
    return str(found[0]["file"])


def register(spark: SparkSession, table: CatalogTable, metadata: str) -> int | None:
    """Register a table by its metadata file; the current snapshot id."""
    (done,) = call(spark, table, "register_table", metadata_file=metadata)
    snapshot = done["current_snapshot_id"]
    return int(snapshot) if snapshot is not None else None


def create_alike(spark: SparkSession, table: CatalogTable, source: Any, more: Mapping[str, str]) -> None:
    """Create an empty table with the schema, partition spec, sort order and properties of another."""
    properties = {
        str(name): str(value)
        for name, value in dict(source.properties()).items()
        if not str(name).startswith("lakebed.") and str(name) not in _NOT_CARRIED
    }
    version = java_of(spark, PURPOSE).org.apache.iceberg.TableUtil.formatVersion(source)
    (
        catalog_of(spark, table, PURPOSE)
        .buildTable(identifier_of(spark, *table.parts), source.schema())
        .withPartitionSpec(source.spec())
        .withSortOrder(source.sortOrder())
        .withProperties(java_map(spark, {**properties, "format-version": str(version), **more}))
        .create()
    )
