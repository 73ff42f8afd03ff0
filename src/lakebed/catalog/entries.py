"""Resolves names of tables and views in one statement, and authorizes the caller before it reports a missing part.

A caller without permission gets AccessDenied in every case, so that the error does not reveal which names exist.
"""

from __future__ import annotations

from collections.abc import Awaitable, Callable, Sequence
from dataclasses import dataclass
from functools import partial
from typing import NamedTuple

from lakebed.core.errors import (
    AccessDenied,
    AlreadyExists,
    Corrupted,
    NoSuchCatalog,
    NoSuchTable,
    NoSuchView,
    NotFound,
)
from lakebed.iceberg.metadata import TableMetadata, ViewMetadata
from lakebed.meta.seam import MetaStore, Reader, Row
from lakebed.objects.model import Caller

from . import rows
from .access.authorization import Action, CatalogAuthorizer, Privileges
from .access.granted_listing import GrantedEntries
from .commits.metadata_cache import CachedMetadata, MetadataCache
from .commits.shared_history import DocumentSource
from .external.checks import check_internal_catalog, reject_federated
from .identifiers import Identifier, Levels, check_namespace, path_of
from .locations.claims import EntryLocations
from .model import Catalog, Entry, EntryKind, Namespace
from .namespaces import no_such_namespace
from .restrictions import Restrictions
from .rows import CATALOG_COLUMNS, NAMESPACE_COLUMNS, catalog_from, entry_from, namespace_from
from .tables.files import CatalogFiles

_ENTRY_AT = CATALOG_COLUMNS + NAMESPACE_COLUMNS


class ResolvedName(NamedTuple):
    """A name whose namespace exists."""

    catalog: Catalog
    namespace: Namespace
    entry: Entry | None
    """None if the name is free."""

    @property
    def live(self) -> Entry | None:
        """The table or view, unless it was dropped."""
        return None if self.entry is None or self.entry.dropped_ms is not None else self.entry

    def locations(self, kind: EntryKind, entry_id: str, metadata: TableMetadata | ViewMetadata) -> EntryLocations:
        """The directories that the metadata of a table or view with this name states."""
        return EntryLocations(self.catalog, self.namespace, kind, entry_id, metadata.location, metadata.properties)

    def loaded(self, entry: Entry, metadata: CachedMetadata) -> LoadedEntry:
        """The table or view after a change."""
        return LoadedEntry(self.catalog, self.namespace, entry, metadata)


class NameLookup(NamedTuple):
    """The result of a lookup before authorization. Which part is missing may be reported only after it."""

    identifier: Identifier
    catalog: Catalog
    namespace: Namespace | None
    entry: Entry | None

    @property
    def live(self) -> Entry | None:
        """The table or view, unless it was dropped."""
        return None if self.entry is None or self.entry.dropped_ms is not None else self.entry

    @property
    def found(self) -> ResolvedName:
        """The same with its namespace. Raises NoSuchNamespace."""
        if self.namespace is None:
            raise no_such_namespace(self.identifier.namespace)
        return ResolvedName(self.catalog, self.namespace, self.entry)


class LiveEntry(NamedTuple):
    """A live table or view, found by its id."""

    catalog: Catalog
    namespace: Namespace
    entry: Entry

    @property
    def identifier(self) -> Identifier:
        """Its name."""
        return Identifier(self.namespace.levels, self.entry.name)


class LoadedEntry(NamedTuple):
    """A table or view with its current metadata."""

    catalog: Catalog
    namespace: Namespace
    entry: Entry
    metadata: CachedMetadata

    @property
    def identifier(self) -> Identifier:
        """Its name."""
        return Identifier(self.namespace.levels, self.entry.name)


@dataclass(frozen=True, slots=True)
class NamePage:
    """One page of names."""

    namespace: Levels
    names: list[str]
    truncated: bool


class Entries:
    """Looks up tables and views by name or id, with or without their metadata."""

    def __init__(
        self, meta: MetaStore, files: CatalogFiles, authorizer: CatalogAuthorizer, cache: MetadataCache
    ) -> None:
        self._meta = meta
        self._files = files
        self._authorizer = authorizer
        self._cache = cache
        self.restrictions = Restrictions(meta)
        """Row filters and column masks, for operations that return or change more than a restricted caller sees."""

    async def look_up(self, reader: Reader, catalog_name: str, identifier: Identifier) -> NameLookup:
        """Look a name up before the caller is authorized.

        Raises NoSuchCatalog; NotSupported for a federated catalog.
        """
        row = await reader.row(rows.FIND_ENTRY, path_of(identifier.namespace), identifier.name, catalog_name)
        if row is None:
            raise NoSuchCatalog(f"no such catalog. catalog={catalog_name}")
        return NameLookup(
            identifier,
            reject_federated(catalog_from(row)),
            None if row[CATALOG_COLUMNS] is None else namespace_from(row, CATALOG_COLUMNS),
            None if row[_ENTRY_AT] is None else entry_from(row, _ENTRY_AT),
        )

    async def find(self, reader: Reader, catalog_name: str, identifier: Identifier) -> ResolvedName:
        """Look a name up for a caller that is already authorized. Raises NoSuchCatalog, NoSuchNamespace."""
        return (await self.look_up(reader, catalog_name, identifier)).found

    async def get(
        self,
        caller: Caller,
        catalog_name: str,
        identifier: Identifier,
        kind: EntryKind,
        action: Action,
        *,
        privileges: Privileges | None = None,
    ) -> LiveEntry:
        """The table or view, if the caller has the permission for `action`.

        `privileges` replaces the privileges that the action requires of callers with grants. Raises AccessDenied,
        NoSuchTable, NoSuchView.
        """
        lookup = await self.look_up(self._meta, catalog_name, identifier)
        return await self.authorize_entry(caller, lookup, kind, action, privileges=privileges)

    async def free_name(
        self, caller: Caller, catalog_name: str, identifier: Identifier, kind: EntryKind
    ) -> ResolvedName:
        """A free name, if the caller has the permission to create a table or view with it.

        Raises AccessDenied, NoSuchNamespace, AlreadyExists; InvalidInput in an external catalog.
        """
        lookup = await self.look_up(self._meta, catalog_name, identifier)
        namespace, name = identifier
        # Without the existing entry: the permission does not depend on whether the name is in use.
        await self._authorizer.check(
            caller, lookup.catalog, Action.CREATE_TABLE, namespace=namespace, name=name, kind=kind
        )
        check_internal_catalog(lookup.catalog, f"create a {kind}")
        found = lookup.found
        if found.entry is not None:
            raise name_taken(found.entry, identifier, kind)
        return found

    async def load(
        self,
        caller: Caller,
        catalog_name: str,
        identifier: Identifier,
        kind: EntryKind,
        action: Action,
        *,
        privileges: Privileges | None = None,
    ) -> LoadedEntry:
        """The same with its metadata."""
        return await self.with_metadata(
            await self.get(caller, catalog_name, identifier, kind, action, privileges=privileges)
        )

    async def by_id(self, entry_id: str) -> LiveEntry:
        """The live table or view with an id, under its current name, without authorization. Raises NotFound."""
        row = await self._meta.row(rows.ENTRY_BY_ID, entry_id)
        if row is None:
            raise NotFound(f"the table or view no longer exists. id={entry_id}")
        return live_entry_from(row)

    async def with_metadata(self, known: LiveEntry) -> LoadedEntry:
        """A live table or view with its current metadata."""
        return LoadedEntry(*known, await self.metadata(known.catalog, known.entry))

    async def metadata(self, catalog: Catalog, entry: Entry) -> CachedMetadata:
        """The current metadata of an entry. Raises Corrupted if the metadata file is missing."""
        kept = self._cache.get(entry.version_token)
        if kept is not None:
            return kept
        document, origin = await self._document(catalog, entry)
        return self._cache.keep(entry.version_token, document, origin=origin, of=entry.id)

    async def peek_metadata(self, catalog: Catalog, entry: Entry) -> CachedMetadata:
        """The same for passes over many tables: it adds nothing to the cache."""
        kept = self._cache.get(entry.version_token)
        return CachedMetadata((await self._document(catalog, entry))[0]) if kept is None else kept

    async def _document(self, catalog: Catalog, entry: Entry) -> tuple[bytes, DocumentSource | None]:
        try:
            return await self._files.of(catalog).load(entry.metadata_at)
        except NotFound as error:
            raise Corrupted(
                f"metadata file is missing; run the table's diagnostics. location={entry.metadata_at}"
            ) from error

    async def authorize_entry(
        self,
        caller: Caller,
        lookup: NameLookup,
        kind: EntryKind,
        action: Action,
        *,
        privileges: Privileges | None = None,
    ) -> LiveEntry:
        """The live entry of that kind, if the caller has the permission for `action`.

        Raises AccessDenied, NoSuchTable, NoSuchView; the latter two also if the namespace is missing. Engines write
        `ns.t.snapshots` and `ns.t.branch_b` for metadata tables and branches of `ns.t`: they request a table in the
        namespace `ns.t`, and fall back to the table `ns.t` only after NoSuchTable.
        """
        await self.authorize(caller, lookup, action, kind, privileges=privileges)
        entry = lookup.live
        if entry is None or entry.kind is not kind:
            raise no_such_entry(lookup.identifier, kind)
        found = lookup.found
        return LiveEntry(found.catalog, found.namespace, entry)

    async def authorize(
        self,
        caller: Caller,
        lookup: NameLookup,
        action: Action,
        kind: EntryKind = EntryKind.TABLE,
        *,
        privileges: Privileges | None = None,
    ) -> None:
        """Check the permission for `action` on the entry with that name, or on the name if it is free.

        Grants are checked for the requested kind, whatever kind the existing entry has: an error does not reveal it.
        Raises AccessDenied.
        """
        namespace, name = lookup.identifier
        await self._authorizer.check(
            caller,
            lookup.catalog,
            action,
            namespace=namespace,
            name=name,
            entry=lookup.live,
            kind=kind,
            privileges=privileges,
        )

    async def check_unrestricted(
        self, caller: Caller, found: ResolvedName | LiveEntry | LoadedEntry, reason: str
    ) -> None:
        """Return if the caller is not restricted on the table, if there is one. Raises AccessDenied with `reason`."""
        if found.entry is not None:
            await self.restrictions.check_unrestricted(
                caller.principal, found.catalog, found.namespace.levels, found.entry, reason
            )

    async def list(
        self, caller: Caller, catalog_name: str, levels: Sequence[str], kind: EntryKind, *, after: str, limit: int
    ) -> NamePage:
        """The tables or views of a namespace, by name; only granted ones for callers that may not list the namespace.

        Raises NoSuchNamespace, AccessDenied.
        """
        name = check_namespace(levels)
        lookup = await self.look_up(self._meta, catalog_name, Identifier(name, ""))
        names_after: Callable[[str, int], Awaitable[Sequence[str]]]
        try:
            await self._authorizer.check(caller, lookup.catalog, Action.LIST_TABLES, namespace=name, kind=kind)
        except AccessDenied:
            held = await self._held(caller, lookup, kind)
            if held is None:
                raise
            names_after = held.names
        else:
            names_after = partial(self._names, lookup.found.namespace, kind)
        visible: list[str] = []
        while True:
            names = await names_after(after, limit + 1)
            visible += await self._authorizer.visible_names(caller, lookup.catalog, name, names)
            # A second query is needed only if some names are not visible to the caller.
            if len(visible) > limit or len(names) <= limit:
                return NamePage(name, visible[:limit], len(visible) > limit)
            after = names[-1]

    async def _names(self, namespace: Namespace, kind: EntryKind, after: str, size: int) -> Sequence[str]:
        return [str(row[0]) for row in await self._meta.rows(rows.ENTRY_NAMES_AFTER, namespace.id, kind, after, size)]

    async def _held(self, caller: Caller, lookup: NameLookup, kind: EntryKind) -> GrantedEntries | None:
        """The entries granted to a caller that may not list the namespace; None without any. Raises AccessDenied."""
        if caller.principal.grants is None or lookup.namespace is None:
            return None
        held = GrantedEntries(self._meta, caller, lookup.catalog, lookup.namespace, kind)
        one = await held.one()
        if one is None:
            return None
        await self._authorizer.check(
            caller,
            lookup.catalog,
            Action.LIST_TABLES,
            namespace=lookup.identifier.namespace,
            kind=kind,
            securable=one,
        )
        return held


def live_entry_from(row: Row) -> LiveEntry:
    """A live table or view, from a row with its catalog, its namespace and itself."""
    return LiveEntry(catalog_from(row), namespace_from(row, CATALOG_COLUMNS), entry_from(row, _ENTRY_AT))


def no_such_entry(identifier: Identifier, kind: EntryKind) -> NotFound:
    """The error for a table or view that does not exist."""
    if kind is EntryKind.VIEW:
        return NoSuchView(f"View does not exist: {identifier}")
    return NoSuchTable(f"Table does not exist: {identifier}")


def name_taken(entry: Entry, identifier: Identifier, wanted: EntryKind) -> AlreadyExists:
    """The error for a name that is in use."""
    if entry.dropped_ms is not None:
        return AlreadyExists(f"name is in use by a dropped {entry.kind}; restore or purge it first. name={identifier}")
    # The wording of the reference implementation, as above: engines print these messages and match them.
    other = "" if entry.kind is wanted else "with same name "
    return AlreadyExists(f"{entry.kind.words} {other}already exists: {identifier}")


def created_concurrently(entry: Entry, identifier: Identifier) -> AlreadyExists:
    """The error for a commit that creates a table whose name was taken in the meantime."""
    if entry.dropped_ms is None and entry.kind is EntryKind.TABLE:
        return AlreadyExists(f"Requirement failed: table already exists: {identifier}")
    return name_taken(entry, identifier, EntryKind.TABLE)
