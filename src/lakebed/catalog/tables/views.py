"""Views: create and replace. They are looked up, listed, renamed and dropped like tables."""

from __future__ import annotations

from typing import Final
from uuid import uuid4

from lakebed.core.errors import PointerMoved
from lakebed.iceberg.commits import CreateView, Requirement, Update, build_view, check_view, new_view
from lakebed.iceberg.metadata import ViewMetadata, parse_view, serialize_view
from lakebed.objects.context import ObjectContext

from ..access.authorization import Action
from ..commits.metadata_cache import MetadataCache
from ..commits.metadata_naming import metadata_address
from ..commits.publishing import COMMITTED, CREATED, PointerUpdate, Publisher
from ..commits.table_locks import TableLocks
from ..entries import Entries, LoadedEntry, ResolvedName
from ..external.checks import check_internal_catalog
from ..idempotency import Mutation, StoredResponse
from ..identifiers import Identifier, Levels, check_identifier
from ..locations.claims import LocationClaims, check_locations
from ..locations.directories import default_location, stated_paths
from ..model import EntryKind
from .files import CatalogFiles

_ATTEMPTS: Final = 5


class Views:
    """Creates and replaces views."""

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
        self._locks = TableLocks()

    async def create(self, mutation: Mutation, catalog_name: str, levels: Levels, request: CreateView) -> LoadedEntry:
        """Create a view. Raises AlreadyExists, NoSuchNamespace, LocationTaken, InvalidInput."""
        identifier = check_identifier(levels, request.name)
        found = await self._entries.free_name(mutation.caller, catalog_name, identifier, EntryKind.VIEW)
        uuid = uuid4()
        location = request.location or default_location(found.catalog, EntryKind.VIEW, uuid.hex)
        metadata = new_view(request, location=location.rstrip("/"), uuid=str(uuid), now_ms=self._f.clock.now_ms())
        return await self._publish(mutation, found, identifier, None, metadata, uuid.hex)

    async def replace(
        self,
        mutation: Mutation,
        catalog_name: str,
        identifier: Identifier,
        requirements: tuple[Requirement, ...],
        updates: tuple[Update, ...],
    ) -> LoadedEntry:
        """Commit to a view. Raises CommitConflict, NoSuchView, InvalidInput."""
        async with self._locks.hold(catalog_name, [identifier]):
            for attempt in range(1, _ATTEMPTS + 1):
                try:
                    return await self._replace(mutation, catalog_name, identifier, requirements, updates)
                except PointerMoved:
                    if attempt == _ATTEMPTS:
                        raise
        raise AssertionError("unreachable")

    async def _replace(
        self,
        mutation: Mutation,
        catalog_name: str,
        identifier: Identifier,
        requirements: tuple[Requirement, ...],
        updates: tuple[Update, ...],
    ) -> LoadedEntry:
        known = await self._entries.get(
            mutation.caller, catalog_name, identifier, EntryKind.VIEW, Action.UPDATE_METADATA_LOCATION
        )
        check_internal_catalog(known.catalog, "replace a view")
        loaded = await self._entries.with_metadata(known)
        found, entry, base = ResolvedName(*known), known.entry, parse_view(loaded.metadata.document)
        await self._claims.check_trusted(found.locations(EntryKind.VIEW, entry.id, base), entry.metadata_at)
        check_view(requirements, base)
        new = build_view(base, updates, now_ms=self._f.clock.now_ms(), new_uuid=str(uuid4()))
        if new is base:
            return loaded
        return await self._publish(mutation, found, identifier, base, new, entry.id)

    async def _publish(
        self,
        mutation: Mutation,
        found: ResolvedName,
        identifier: Identifier,
        base: ViewMetadata | None,
        metadata: ViewMetadata,
        entry_id: str,
    ) -> LoadedEntry:
        locations = found.locations(EntryKind.VIEW, entry_id, metadata)
        check_locations(locations)
        moves = base is None or stated_paths(base) != stated_paths(metadata)
        claim = await self._claims.prepare(mutation.caller, locations) if moves else None
        document = serialize_view(metadata)
        address = metadata_address(metadata, None if found.live is None else found.live.metadata_at)
        pointer = PointerUpdate(
            found=found,
            identifier=identifier,
            kind=EntryKind.VIEW,
            entry_id=entry_id,
            metadata=metadata,
            metadata_at=str(address),
            file=await self._files.of(found.catalog).prepare(address, document),
            claim=claim,
            event=CREATED if base is None else COMMITTED,
            operation="create" if base is None else "replace",
        )
        (entry,) = await self._publisher.publish(mutation, [pointer], StoredResponse(200, entry_id))
        return found.loaded(entry, self._cache.keep(entry.version_token, document))
