"""Creates tables: at once, or staged for a later commit."""

from __future__ import annotations

from typing import NamedTuple
from uuid import uuid4

from lakebed.iceberg.commits import CreateTable, new_table
from lakebed.iceberg.metadata import TableMetadata, serialize_table
from lakebed.objects.context import ObjectContext
from lakebed.objects.model import Caller

from ..commits.metadata_cache import MetadataCache
from ..commits.metadata_naming import metadata_address
from ..commits.publishing import CREATED, PointerUpdate, Publisher
from ..entries import Entries, LoadedEntry, ResolvedName
from ..idempotency import Mutation, StoredResponse
from ..identifiers import Identifier, Levels, check_identifier
from ..locations.claims import EntryLocations, LocationClaims, check_locations
from ..locations.directories import default_location
from ..model import EntryKind
from .files import CatalogFiles


class StagedTable(NamedTuple):
    """A table before its first commit. When it is staged, only the reservation of its directories is stored."""

    found: ResolvedName
    identifier: Identifier
    entry_id: str
    metadata: TableMetadata
    document: bytes
    locations: EntryLocations


class Creation:
    """Creates tables."""

    def __init__(
        self,
        object_context: ObjectContext,
        entries: Entries,
        files: CatalogFiles,
        publisher: Publisher,
        cache: MetadataCache,
        claims: LocationClaims,
    ) -> None:
        self._f = object_context
        self._claims = claims
        self._entries = entries
        self._files = files
        self._publisher = publisher
        self._cache = cache

    async def stage(self, mutation: Mutation, catalog_name: str, levels: Levels, request: CreateTable) -> StagedTable:
        """The metadata of a table to commit with `assert-create`. Its directories are reserved for the caller.

        Raises what `create` raises.
        """
        staged = await self._draft(mutation.caller, catalog_name, levels, request)
        await self._claims.reserve(mutation.caller, staged.identifier, staged.locations)
        return staged

    async def create(self, mutation: Mutation, catalog_name: str, levels: Levels, request: CreateTable) -> LoadedEntry:
        """Create a table without data. Raises AlreadyExists, NoSuchNamespace, LocationTaken, InvalidInput."""
        draft = await self._draft(mutation.caller, catalog_name, levels, request)
        metadata = draft.metadata
        claim = await self._claims.prepare(mutation.caller, draft.locations)
        address = metadata_address(metadata, None)
        pointer = PointerUpdate(
            found=draft.found,
            identifier=draft.identifier,
            kind=EntryKind.TABLE,
            entry_id=draft.entry_id,
            metadata=metadata,
            metadata_at=str(address),
            claim=claim,
            file=await self._files.of(draft.found.catalog).prepare(address, draft.document),
            event=CREATED,
            operation="create",
        )
        (entry,) = await self._publisher.publish(mutation, [pointer], StoredResponse(200, draft.entry_id))
        return draft.found.loaded(entry, self._cache.keep(entry.version_token, draft.document, metadata))

    async def _draft(self, caller: Caller, catalog_name: str, levels: Levels, request: CreateTable) -> StagedTable:
        identifier = check_identifier(levels, request.name)
        found = await self._entries.free_name(caller, catalog_name, identifier, EntryKind.TABLE)
        uuid = uuid4()
        location = request.location or default_location(found.catalog, EntryKind.TABLE, uuid.hex)
        locations = EntryLocations(
            found.catalog, found.namespace, EntryKind.TABLE, uuid.hex, location, request.properties or {}
        )
        check_locations(locations)
        metadata = new_table(request, location=location.rstrip("/"), uuid=str(uuid), now_ms=self._f.clock.now_ms())
        return StagedTable(found, identifier, uuid.hex, metadata, serialize_table(metadata), locations)
