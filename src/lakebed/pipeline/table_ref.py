"""A table as a job has it: its name in the catalog, its name in Spark, and how the server is reached."""

from __future__ import annotations

from dataclasses import dataclass

from lakebed.client.access import ServerAccess
from lakebed.client.tables import TableRef

from .spark.config import CATALOG


@dataclass(frozen=True, slots=True)
class CatalogTable:
    """A table of a warehouse that a Spark session has as a catalog."""

    ref: TableRef
    access: ServerAccess
    catalog: str = CATALOG
    """What the warehouse is called in the session."""

    @property
    def sql(self) -> str:
        """Its full name, for SQL."""
        return quoted_name(self.catalog, *self.ref.namespace, self.ref.table)

    @property
    def namespace_sql(self) -> str:
        """The full name of its namespace, for SQL."""
        return quoted_name(self.catalog, *self.ref.namespace)

    @property
    def parts(self) -> tuple[str, ...]:
        """Its name within the catalog."""
        return (*self.ref.namespace, self.ref.table)

    def inside(self, name: str) -> str:
        """One of its metadata tables, for SQL: `files`, `snapshots`, …."""
        return f"{self.sql}.{name}"

    def __str__(self) -> str:
        return str(self.ref)


def quoted_name(*parts: str) -> str:
    """A name of several parts for SQL, whatever characters are in it."""
    return ".".join("`" + part.replace("`", "``") + "`" for part in parts)
