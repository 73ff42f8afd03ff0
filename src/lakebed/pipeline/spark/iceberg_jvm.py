"""Iceberg's own objects in Spark's Java, for what its SQL does not offer.

Spark Connect has its Java elsewhere: there, jobs do without, or say that they cannot.
"""

from __future__ import annotations

from collections.abc import Callable, Iterator, Mapping
from typing import TYPE_CHECKING, Any, ClassVar

from lakebed.core.errors import NotSupported

from ..table_ref import CatalogTable
from .session import has_java

if TYPE_CHECKING:
    from pyspark.sql import SparkSession

# Any, here and where these are used: objects of Java have no types in Python.


def java_of(spark: SparkSession, purpose: str) -> Any:
    """Java's packages. Raises NotSupported on Spark Connect; `purpose` is what cannot be done there."""
    if not has_java(spark):
        raise NotSupported(
            f"{purpose} is not possible over Spark Connect: run it with pipeline.master set to local[*], or to the"
            " cluster itself"
        )
    return spark._jvm


def load_table(spark: SparkSession, table: CatalogTable, purpose: str) -> Any:
    """The table as Iceberg has it, as it is now. Raises NotSupported on Spark Connect."""
    java = java_of(spark, purpose)
    return java.org.apache.iceberg.spark.Spark3Util.loadIcebergTable(spark._jsparkSession, table.sql)


def catalog_of(spark: SparkSession, table: CatalogTable, purpose: str) -> Any:
    """The table's catalog as Iceberg has it. Raises NotSupported on Spark Connect."""
    java_of(spark, purpose)
    return spark._jsparkSession.sessionState().catalogManager().catalog(table.catalog).icebergCatalog()


def identifier_of(spark: SparkSession, *parts: str) -> Any:
    """A table's name as Iceberg has it. Raises NotSupported on Spark Connect."""
    java = java_of(spark, "naming a table")
    gateway: Any = spark.sparkContext._gateway
    names = gateway.new_array(java.java.lang.String, len(parts))
    for index, part in enumerate(parts):
        names[index] = part
    return java.org.apache.iceberg.catalog.TableIdentifier.of(names)


def java_map(spark: SparkSession, values: Mapping[str, str]) -> Any:
    """A map of Java's."""
    made = java_of(spark, "this").java.util.HashMap()
    for name, value in values.items():
        made.put(name, value)
    return made


def consumer_of(spark: SparkSession, accept: Callable[[Any], None]) -> Any:
    """A function as Java calls one that gives nothing back."""
    from pyspark.java_gateway import ensure_callback_server_started

    java_of(spark, "this")
    ensure_callback_server_started(spark.sparkContext._gateway)  # type: ignore[no-untyped-call]
    return _Consumer(accept)


class _Consumer:
    """What Java sees of it."""

    def __init__(self, accept: Callable[[Any], None]) -> None:
        self.accept = accept

    class Java:
        """Read by Py4J."""

        implements: ClassVar = ["java.util.function.Consumer"]


def each(iterable: Any) -> Iterator[Any]:
    """The items of something that Java can go through."""
    iterator = iterable.iterator()
    while iterator.hasNext():
        yield iterator.next()


def closing_each(iterable: Any) -> Iterator[Any]:
    """The same of something that holds files open."""
    iterator = iterable.iterator()
    try:
        while iterator.hasNext():
            yield iterator.next()
    finally:
        iterator.close()
        iterable.close()
