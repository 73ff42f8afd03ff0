"""Adopts existing Iceberg tables: finds them by their metadata files and registers them. Nothing is copied.

A repeated adoption continues: tables that are registered with the same metadata file are recognized.
"""

from __future__ import annotations

from collections.abc import Callable, Iterator
from concurrent.futures import ThreadPoolExecutor
from contextlib import suppress
from enum import StrEnum
from typing import Final, NamedTuple

import msgspec

from lakebed.core.errors import AlreadyExists, InvalidInput, LakebedError, NoSuchNamespace, NoSuchTable

from .connection import ServerConnection
from .names import path

_DATABASE_SUFFIX: Final = ".db"
"""Hive and PyIceberg name the directory of a namespace `NAME.db`."""


class AdoptionOutcome(StrEnum):
    """What happened to a table."""

    REGISTERED = "registered"
    PRESENT = "already registered"
    WOULD_REGISTER = "would register"
    CONFLICT = "conflict"
    FAILED = "failed"


class DiscoveredTable(msgspec.Struct, frozen=True, rename="kebab"):
    """A directory with metadata files."""

    location: str
    metadata_location: str | None = None
    """The current metadata file; None if it is not known."""
    problem: str | None = None
    """Why it is not known."""


class _Page(msgspec.Struct):
    tables: list[DiscoveredTable]
    after: str | None = None


class _Loaded(msgspec.Struct, rename="kebab"):
    metadata_location: str | None = None


class AdoptedTable(NamedTuple):
    """A discovered table, its name in the catalog and what happened to it."""

    found: DiscoveredTable
    namespace: tuple[str, ...]
    name: str
    outcome: AdoptionOutcome
    reason: str = ""


class TableAdoption:
    """Finds and registers the tables below a location."""

    def __init__(self, connection: ServerConnection) -> None:
        self._connection = connection

    def discover(self, catalog: str, location: str, after: str = "") -> Iterator[DiscoveredTable]:
        """The tables below a location, by location. Raises InvalidInput, AccessDenied."""
        query = {"location": location}
        position: str | None = after
        while position is not None:
            page = self._connection.read(
                _Page, "GET", path("iceberg", "v1", catalog, "discovery"), query=query | {"after": position}
            )
            yield from page.tables
            position = page.after

    def adopt(
        self,
        catalog: str,
        location: str,
        *,
        namespace: tuple[str, ...] = (),
        dry_run: bool = False,
        concurrency: int = 8,
        on_table: Callable[[AdoptedTable], None] = lambda table: None,
    ) -> list[AdoptedTable]:
        """Register the tables below a location, or with `dry_run` report what would be registered.

        A table's name is the last segment of its location; its namespace is `namespace`, followed by the segments
        between the location and the table without the suffix `.db`. `on_table` is called for each table.
        """
        adopted: list[AdoptedTable] = []
        made: set[tuple[str, ...]] = set()

        def one(found: DiscoveredTable) -> AdoptedTable:
            return self._adopt(catalog, location, found, namespace, made, dry_run=dry_run)

        with ThreadPoolExecutor(concurrency) as threads:
            for table in threads.map(one, self.discover(catalog, location)):
                adopted.append(table)
                on_table(table)
        return adopted

    def _adopt(
        self,
        catalog: str,
        location: str,
        found: DiscoveredTable,
        namespace: tuple[str, ...],
        made: set[tuple[str, ...]],
        *,
        dry_run: bool,
    ) -> AdoptedTable:
        try:
            levels, name = name_of(location, found.location, namespace)
        except InvalidInput as error:
            return AdoptedTable(found, (), "", AdoptionOutcome.FAILED, str(error))
        if found.metadata_location is None:
            return AdoptedTable(found, levels, name, AdoptionOutcome.FAILED, found.problem or "no metadata file")
        try:
            current = self._current(catalog, levels, name)
            if current is not None:
                is_same = current == found.metadata_location
                outcome = AdoptionOutcome.PRESENT if is_same else AdoptionOutcome.CONFLICT
                reason = "" if is_same else f"name is in use. metadata-location={current}"
            elif dry_run:
                outcome, reason = AdoptionOutcome.WOULD_REGISTER, ""
            else:
                self._create_namespaces(catalog, levels, made)
                document = {"name": name, "metadata-location": found.metadata_location}
                self._connection.call("POST", _path(catalog, levels, "register"), document=document, repeatable=False)
                outcome, reason = AdoptionOutcome.REGISTERED, ""
        except AlreadyExists as error:
            outcome, reason = AdoptionOutcome.CONFLICT, str(error)
        except LakebedError as error:
            outcome, reason = AdoptionOutcome.FAILED, str(error)
        return AdoptedTable(found, levels, name, outcome, reason)

    def _current(self, catalog: str, levels: tuple[str, ...], name: str) -> str | None:
        """The current metadata file of a table; None if the name is free."""
        try:
            loaded = self._connection.read(_Loaded, "GET", _path(catalog, levels, "tables", name))
        except (NoSuchTable, NoSuchNamespace):
            return None
        return loaded.metadata_location

    def _create_namespaces(self, catalog: str, levels: tuple[str, ...], made: set[tuple[str, ...]]) -> None:
        for count in range(1, len(levels) + 1):
            some = levels[:count]
            if some in made:
                continue
            with suppress(AlreadyExists):
                self._connection.call(
                    "POST", path("iceberg", "v1", catalog, "namespaces"), document={"namespace": list(some)}
                )
            made.add(some)


def name_of(root: str, location: str, namespace: tuple[str, ...] = ()) -> tuple[tuple[str, ...], str]:
    """Namespace and name of a table at a location below the root. Raises InvalidInput without a namespace."""
    below = location.removeprefix(root.rstrip("/")).strip("/")
    *folders, name = below.split("/")
    levels = (*namespace, *(folder.removesuffix(_DATABASE_SUFFIX) or folder for folder in folders))
    if not levels:
        raise InvalidInput(f"table has no namespace: name one (--namespace). location={location}", argument="namespace")
    return levels, name or location.rstrip("/").rpartition("/")[2]


def _path(catalog: str, levels: tuple[str, ...], *rest: str) -> str:
    return path("iceberg", "v1", catalog, "namespaces", levels, *rest)
