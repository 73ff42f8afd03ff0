"""Tables: listings, health, maintenance plans, and pending files of auto-ingest."""

from __future__ import annotations

from collections.abc import Iterator, Sequence
from typing import Final

import msgspec

from lakebed.core import table_health
from lakebed.core.jobs import JobKind, PolicyOrigin, TaskSpec

from .connection import ServerConnection
from .names import CATALOG_PAGE, TableRef, joined, path

__all__ = [
    "MaintenancePlan",
    "PendingFile",
    "PendingFiles",
    "SkippedPolicy",
    "SubmittedPlan",
    "SubmittedTask",
    "TableHealth",
    "TableRef",
    "Tables",
]

_CATALOG: Final = "/iceberg/v1"
_TABLES: Final = "/lakebed/v1/tables"
_ARRIVALS: Final = "/lakebed/v1/arrivals"


class TableHealth(table_health.TableHealth, frozen=True, kw_only=True, rename="kebab", omit_defaults=True):
    """The health of a table."""

    @property
    def ref(self) -> TableRef:
        """The table."""
        return TableRef(self.warehouse, self.namespace, self.table)


class SkippedPolicy(msgspec.Struct, frozen=True, kw_only=True, rename="kebab"):
    """A policy that leads to no task now, with the reason."""

    policy: PolicyOrigin
    job: JobKind | None = None
    reason: str


class SubmittedTask(msgspec.Struct, frozen=True):
    """An open task of a table."""

    id: int
    """The task's id."""
    spec: TaskSpec = msgspec.field(name="order")


class MaintenancePlan(msgspec.Struct, frozen=True, kw_only=True, rename="kebab"):
    """The tasks that the policies of a table require."""

    planned: list[TaskSpec]
    """Tasks that would be submitted."""
    revised: list[SubmittedTask] = []
    """Waiting tasks that would be revised, as revised."""
    withdrawn: list[SubmittedTask] = []
    """Waiting tasks that would be withdrawn."""
    skipped: list[SkippedPolicy] = msgspec.field(name="quiet", default_factory=list)


class SubmittedPlan(MaintenancePlan, frozen=True, kw_only=True, rename="kebab"):
    """A plan that was submitted."""

    tasks: list[SubmittedTask]
    """All open tasks of the table."""


class _Buckets(msgspec.Struct, rename="kebab"):
    class Bucket(msgspec.Struct, rename="kebab"):
        table_bucket: str

    table_buckets: list[Bucket]
    next_page_token: str | None = None


class _Config(msgspec.Struct):
    class Defaults(msgspec.Struct, rename="kebab"):
        warehouse_location: str

    defaults: Defaults


class _Namespaces(msgspec.Struct, rename="kebab"):
    namespaces: list[tuple[str, ...]]
    next_page_token: str | None = None


class _Identifiers(msgspec.Struct, rename="kebab"):
    class Identifier(msgspec.Struct):
        namespace: tuple[str, ...]
        name: str

    identifiers: list[Identifier]
    next_page_token: str | None = None


class _Healths(msgspec.Struct, rename="kebab"):
    tables: list[TableHealth]
    next_page_token: str | None = None


class Tables:
    """Client of the catalog and of table maintenance."""

    def __init__(self, connection: ServerConnection) -> None:
        self._connection = connection

    def warehouses(self) -> Iterator[str]:
        """The table buckets visible to the caller."""
        for page in self._connection.pages(_Buckets, f"{_CATALOG}/buckets", parameter=CATALOG_PAGE):
            yield from (bucket.table_bucket for bucket in page.table_buckets)

    def location(self, warehouse: str) -> str:
        """Location of a warehouse: a bucket or a directory of one. Raises NoSuchCatalog."""
        found = self._connection.read(_Config, "GET", f"{_CATALOG}/config", query={"warehouse": warehouse})
        return found.defaults.warehouse_location

    def namespaces(self, warehouse: str, parent: Sequence[str] = ()) -> Iterator[tuple[str, ...]]:
        """The child namespaces of a warehouse or namespace."""
        where = _CATALOG + path(warehouse, "namespaces")
        query = {"parent": joined(parent)} if parent else {}
        for page in self._connection.pages(_Namespaces, where, query, parameter=CATALOG_PAGE):
            yield from page.namespaces

    def tables(self, warehouse: str, namespace: Sequence[str]) -> Iterator[TableRef]:
        """The tables of a namespace."""
        where = _CATALOG + path(warehouse, "namespaces", tuple(namespace), "tables")
        for page in self._connection.pages(_Identifiers, where, parameter=CATALOG_PAGE):
            yield from (TableRef(warehouse, one.namespace, one.name) for one in page.identifiers)

    def health(self, table: TableRef) -> TableHealth:
        """Health of a table, measured by its manifests. Raises NoSuchTable."""
        return self._connection.read(TableHealth, "GET", _path(table, "health"))

    def healths(self, warehouse: str | None = None, namespace: Sequence[str] = ()) -> Iterator[TableHealth]:
        """Health of all visible tables, measured by snapshot summaries.

        Of one namespace, one warehouse, or all warehouses.
        """
        for name in self.warehouses() if warehouse is None else (warehouse,):
            query = {"warehouse": name} | ({"namespace": joined(namespace)} if namespace else {})
            for page in self._connection.pages(_Healths, f"{_TABLES}/health", query):
                yield from page.tables

    def plan(self, table: TableRef) -> MaintenancePlan:
        """Preview the tasks that the policies of a table require. Submits nothing."""
        return self._connection.read(MaintenancePlan, "GET", _path(table, "plan"))

    def submit_plan(self, table: TableRef) -> SubmittedPlan:
        """Plan a table and submit its tasks."""
        return self._connection.read(SubmittedPlan, "POST", _path(table, "plan"), repeatable=True)


def _path(table: TableRef, word: str) -> str:
    return _TABLES + path(*table, word)


class PendingFile(msgspec.Struct, frozen=True, kw_only=True):
    """A file to be added to a table by auto-ingest."""

    event: int
    """Number of the event of the file."""
    deployment: str | None = None
    """Deployment of the event; None from servers of earlier versions."""
    source: str
    """`<bucket>/<key>`."""
    version: str = ""
    etag: str = ""
    """ETag at the time of the event."""
    bytes: int = 0
    format: str = ""


class _PendingPage(msgspec.Struct, frozen=True):
    arrivals: list[PendingFile]


class PendingFiles:
    """Pending files of auto-ingest."""

    def __init__(self, connection: ServerConnection) -> None:
        self._connection = connection

    def list(self, table: TableRef, *, after: int = 0, limit: int = 100) -> Sequence[PendingFile]:
        """List the pending files of a table in the order of events."""
        document = {**_document_of(table), "after": after, "limit": limit}
        return self._connection.read(
            _PendingPage, "POST", f"{_ARRIVALS}/list", document=document, repeatable=True
        ).arrivals

    def take(self, table: TableRef, events: Sequence[int]) -> None:
        """Acknowledge files that were added, or cannot be."""
        document = {**_document_of(table), "events": [*events]}
        self._connection.call("POST", f"{_ARRIVALS}/take", document=document, repeatable=True)


def _document_of(table: TableRef) -> dict[str, object]:
    return {"warehouse": table.warehouse, "namespace": list(table.namespace), "table": table.table}
