"""Access to Iceberg's Java API in Spark's JVM, for operations without SQL.

With Spark Connect the JVM is remote: jobs avoid these calls there, or refuse to run.
"""

from __future__ import annotations

from collections.abc import Callable, Iterator, Mapping
from typing import TYPE_CHECKING, Any, ClassVar

from lakebed.core.errors import NotSupported

from ..table_ref import CatalogTable
from .session import has_java

if TYPE_CHECKING:
    from pyspark.sql import SparkSession

# Any, here and in callers: Java objects have no Python types.


def java_of(spark: SparkSession, purpose: str) -> Any:
    """The JVM's packages. Raises NotSupported on Spark Connect, naming `purpose`."""
    if not has_java(spark):
        raise NotSupported(
            f"{purpose} is not possible over Spark Connect; set pipeline.master to local[*] or to the cluster itself"
        )
    return spark._jvm


def load_table(spark: SparkSession, table: CatalogTable, purpose: str) -> Any:
    """The current Iceberg table. Raises NotSupported on Spark Connect."""
    java = java_of(spark, purpose)
    return java.org.apache.iceberg.spark.Spark3Util.loadIcebergTable(spark._jsparkSession, table.sql)


def catalog_of(spark: SparkSession, table: CatalogTable, purpose: str) -> Any:
    """The Iceberg catalog of the table. Raises NotSupported on Spark Connect."""
    java_of(spark, purpose)
    return spark._jsparkSession.sessionState().catalogManager().catalog(table.catalog).icebergCatalog()


def identifier_of(spark: SparkSession, *parts: str) -> Any:
    """A table's Iceberg TableIdentifier. Raises NotSupported on Spark Connect."""
    java = java_of(spark, "naming a table")
    gateway: Any = spark.sparkContext._gateway
    names = gateway.new_array(java.java.lang.String, len(parts))
    for index, part in enumerate(parts):
        names[index] = part
    return java.org.apache.iceberg.catalog.TableIdentifier.of(names)


def java_map(spark: SparkSession, values: Mapping[str, str]) -> Any:
    """A `java.util.HashMap` of strings."""
    entries = java_of(spark, "this").java.util.HashMap()
    for name, value in values.items():
        entries.put(name, value)
    return entries


def consumer_of(spark: SparkSession, accept: Callable[[Any], None]) -> Any:
    """A Python function as `java.util.function.Consumer`."""
    from pyspark.java_gateway import ensure_callback_server_started

    java_of(spark, "this")
    ensure_callback_server_started(spark.sparkContext._gateway)  # type: ignore[no-untyped-call]
    return _Consumer(accept)


class _Consumer:
    """The Python side of the consumer."""

    def __init__(self, accept: Callable[[Any], None]) -> None:
        self.accept = accept

    class Java:
        """Interfaces, read by Py4J."""

        implements: ClassVar = ["java.util.function.Consumer"]


def each(iterable: Any) -> Iterator[Any]:
    """The items of a Java Iterable."""
    iterator = iterable.iterator()
    while iterator.hasNext():
        yield iterator.next()


def closing_each(iterable: Any) -> Iterator[Any]:
    """The items of a CloseableIterable, which is closed at the end."""
    iterator = iterable.iterator()
    try:
        while iterator.hasNext():
            yield iterator.next()
    finally:
        iterator.close()
        iterable.close()
