"""Generic tables: tables of other formats, with a name, a format and a base location. Their contents are not read.

They are entries like tables and views: names are unique, directories do not overlap, grants use the privileges of
tables, and dropped ones can be restored. They have no commits and no metadata in the catalog.
"""

from __future__ import annotations

from collections.abc import Mapping, Sequence
from dataclasses import dataclass, field
from typing import Final
from uuid import uuid4

from lakebed.core.errors import AccessDenied, Corrupted, InvalidInput
from lakebed.meta.seam import Reader, Transaction
from lakebed.objects.context import ObjectContext
from lakebed.objects.model import Caller

from .. import rows
from ..access.authorization import Action, CatalogAuthorizer
from ..catalogs.properties import check_properties
from ..entries import Entries, ResolvedName, name_taken, no_such_entry
from ..events import append_catalog_event
from ..idempotency import IdempotencyKeys, Mutation, StoredResponse
from ..identifiers import Identifier, check_identifier
from ..locations.claims import EntryLocations, LocationClaims
from ..locations.directories import check_location
from ..model import Catalog, Entry, EntryKind, pack_properties, unpack_properties
from ..rows import entry_columns

MAX_FORMAT_CHARS: Final = 128
MAX_DOC_BYTES: Final = 4096


@dataclass(frozen=True, slots=True)
class NewGenericTable:
    """A generic table to create."""

    name: str
    format: str
    base_location: str | None = None
    """The location of its files; None if its clients manage it."""
    doc: str | None = None
    properties: Mapping[str, str] = field(default_factory=dict)


@dataclass(frozen=True, slots=True)
class GenericTable:
    """A generic table."""

    catalog: Catalog
    identifier: Identifier
    entry: Entry
    format: str
    doc: str | None
    properties: Mapping[str, str]

    @property
    def base_location(self) -> str | None:
        """The location of its files, if it has one."""
        return self.entry.location or None


class GenericTables:
    """Creates and loads generic tables. They are listed and dropped like tables."""

    def __init__(
        self,
        object_context: ObjectContext,
        authorizer: CatalogAuthorizer,
        entries: Entries,
        keys: IdempotencyKeys,
        claims: LocationClaims,
    ) -> None:
        self._f = object_context
        self._claims = claims
        self._authorizer = authorizer
        self._entries = entries
        self._keys = keys

    async def create(
        self,
        mutation: Mutation,
        catalog_name: str,
        levels: Sequence[str],
        request: NewGenericTable,
        *,
        with_data: bool = False,
    ) -> GenericTable:
        """Create a generic table. Raises NoSuchNamespace, AlreadyExists, LocationTaken, InvalidInput.

        `with_data` also requires permission to read its files, for a caller that requests vended credentials.
        """
        f, caller = self._f, mutation.caller
        identifier = check_identifier(levels, request.name)
        _check(request)
        identity = uuid4()
        lookup = await self._entries.look_up(f.meta, catalog_name, identifier)
        await self._authorizer.check(
            caller,
            lookup.catalog,
            Action.CREATE_TABLE,
            namespace=identifier.namespace,
            name=identifier.name,
            kind=EntryKind.GENERIC_TABLE,
        )
        if with_data:
            check_has_files(request.base_location)
            await self._check_data(caller, lookup.catalog, identifier, identity.hex)
        found = lookup.found
        location = _location(found.catalog, request.base_location)
        now_ms = f.clock.now_ms()
        claim = None
        if location:
            locations = EntryLocations(found.catalog, found.namespace, EntryKind.GENERIC_TABLE, identity.hex, location)
            claim = await self._claims.prepare(caller, locations)

        async def work(tx: Transaction) -> Entry:
            await self._keys.keep(tx, mutation.key, StoredResponse(200, identity.hex))
            there = await self._entries.find(tx, catalog_name, identifier)
            if there.entry is not None:
                raise name_taken(there.entry, identifier, EntryKind.GENERIC_TABLE)
            entry = Entry(
                id=identity.hex,
                kind=EntryKind.GENERIC_TABLE,
                catalog=there.catalog.id,
                namespace=there.namespace.id,
                name=identifier.name,
                uuid=str(identity),
                format_version=0,
                location=location,
                metadata_at="",
                version_token=uuid4().hex,
                generation=1,
                created_ms=now_ms,
                updated_ms=now_ms,
                protected=False,
            )
            await tx.row(rows.INSERT_ENTRY, *entry_columns(entry))
            properties = pack_properties(dict(request.properties))
            await tx.run(rows.INSERT_GENERIC_TABLE, entry.id, request.format, request.doc, properties)
            if claim is not None:
                await self._claims.take(tx, claim)
            await append_catalog_event(
                f.outbox,
                tx,
                f"{entry.kind.noun}Created",
                caller,
                now_ms,
                catalog_name,
                identifier.namespace,
                entry,
                facts={"format": request.format, **({"location": location} if location else {})},
            )
            return entry

        entry = await f.meta.transact(work)
        return GenericTable(found.catalog, identifier, entry, request.format, request.doc, dict(request.properties))

    async def get(self, caller: Caller, catalog_name: str, identifier: Identifier) -> GenericTable:
        """The generic table. Raises NoSuchTable, AccessDenied."""
        kind = EntryKind.GENERIC_TABLE
        known = await self._entries.get(caller, catalog_name, identifier, kind, Action.GET_TABLE)
        return await self.described(self._f.meta, ResolvedName(*known), identifier)

    async def described(self, reader: Reader, found: ResolvedName, identifier: Identifier) -> GenericTable:
        """The generic table of a lookup, without authorization. Raises NoSuchTable, Corrupted."""
        entry = found.live
        if entry is None or entry.kind is not EntryKind.GENERIC_TABLE:
            raise no_such_entry(identifier, EntryKind.GENERIC_TABLE)
        row = await reader.row(rows.GENERIC_TABLE, entry.id)
        if row is None:
            raise Corrupted(f"generic table has no record beside its entry. table={entry.id}")
        return GenericTable(found.catalog, identifier, entry, row[0], row[1], unpack_properties(row[2]))

    async def _check_data(self, caller: Caller, catalog: Catalog, identifier: Identifier, entry_id: str) -> None:
        """Check permission to read the files of a table that is about to be created. Raises AccessDenied."""
        namespace, name = identifier
        try:
            await self._authorizer.check(
                caller, catalog, Action.PUT_TABLE_DATA, namespace=namespace, name=name, entry_id=entry_id
            )
        except AccessDenied:
            await self._authorizer.check(
                caller, catalog, Action.GET_TABLE_DATA, namespace=namespace, name=name, entry_id=entry_id
            )


def check_has_files(base_location: str | None) -> None:
    """Raise InvalidInput without a location that credentials could be vended for."""
    if not base_location:
        raise InvalidInput("table has no base-location, so no credentials can be vended", argument="base-location")


def _location(catalog: Catalog, base_location: str | None) -> str:
    """The base location to store; empty without one. Raises InvalidInput."""
    if base_location is None:
        return ""
    check_location(catalog, base_location)
    return base_location.rstrip("/")


def _check(request: NewGenericTable) -> None:
    """Raise InvalidInput for invalid fields."""
    if not 1 <= len(request.format) <= MAX_FORMAT_CHARS or not request.format.isprintable():
        raise InvalidInput(
            f"invalid format: expected 1 to {MAX_FORMAT_CHARS} printable characters, such as delta", argument="format"
        )
    check_properties(request.properties)
    if request.doc is None:
        return
    try:
        size = len(request.doc.encode())
    except UnicodeEncodeError as error:
        raise InvalidInput("doc is not valid UTF-8", argument="doc") from error
    if size > MAX_DOC_BYTES or "\0" in request.doc:
        raise InvalidInput(f"doc is too long or contains a NUL. maximum={MAX_DOC_BYTES} bytes", argument="doc")
