"""A table for a job: its name in the catalog and in Spark, and the server's address."""

from __future__ import annotations

from dataclasses import dataclass

from lakebed.client.access import ServerAccess
from lakebed.client.tables import TableRef

from .spark.config import CATALOG


@dataclass(frozen=True, slots=True)
class CatalogTable:
    """A table of a warehouse that is a catalog of the Spark session."""

    ref: TableRef
    access: ServerAccess
    catalog: str = CATALOG
    """The name of the catalog in the session."""

    @property
    def sql(self) -> str:
        """The full name, quoted for SQL."""
        return quoted_name(self.catalog, *self.ref.namespace, self.ref.table)

    @property
    def namespace_sql(self) -> str:
        """The full name of the namespace, quoted for SQL."""
        return quoted_name(self.catalog, *self.ref.namespace)

    @property
    def parts(self) -> tuple[str, ...]:
        """The name within the catalog."""
        return (*self.ref.namespace, self.ref.table)

    def inside(self, name: str) -> str:
        """A metadata table such as `files` or `snapshots`, quoted for SQL."""
        return f"{self.sql}.{name}"

    def __str__(self) -> str:
        return str(self.ref)


def quoted_name(*parts: str) -> str:
    """A name of several parts, quoted for SQL."""
    return ".".join("`" + part.replace("`", "``") + "`" for part in parts)
