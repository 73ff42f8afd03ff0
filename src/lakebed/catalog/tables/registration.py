"""Registers existing metadata files: under a new name, or as the next metadata of an entry."""

from __future__ import annotations

from collections.abc import Mapping
from typing import NamedTuple
from uuid import uuid4

from lakebed.core.errors import CommitConflict, InvalidInput, NotFound, PointerMoved
from lakebed.governance.rbac import OPERATIONS, namespace_securable
from lakebed.iceberg.commits.builder import check_uuid
from lakebed.iceberg.metadata import TableMetadata, ViewMetadata, parse_table, parse_view
from lakebed.objects.context import ObjectContext
from lakebed.objects.model import Caller

from ..access.authorization import CREATE_OR_MOVE, Action, CatalogAuthorizer, Privileges
from ..commits.metadata_cache import MetadataCache
from ..commits.publishing import COMMITTED, PointerUpdate, Publisher, PublishStep
from ..entries import Entries, LoadedEntry, ResolvedName, name_taken
from ..external.checks import check_internal_catalog
from ..idempotency import Mutation, StoredResponse
from ..identifiers import Identifier
from ..locations.claims import ChosenBy, LocationClaims
from ..locations.directories import check_location
from ..model import Catalog, EntryKind
from ..validation.commit import CommitValidator
from .files import CatalogFiles, FileStat, no_metadata_file, parse_location, unpack_metadata

REGISTERED = "Registered"


class _File(NamedTuple):
    """A table's metadata file, as read."""

    location: str
    document: bytes
    observed: Mapping[str, FileStat]
    metadata: TableMetadata


class TableRegistration:
    """Registers metadata files."""

    def __init__(
        self,
        object_context: ObjectContext,
        authorizer: CatalogAuthorizer,
        entries: Entries,
        files: CatalogFiles,
        publisher: Publisher,
        validator: CommitValidator,
        cache: MetadataCache,
        claims: LocationClaims,
    ) -> None:
        self._f = object_context
        self._claims = claims
        self._authorizer = authorizer
        self._entries = entries
        self._files = files
        self._publisher = publisher
        self._validator = validator
        self._cache = cache

    async def register_table(
        self,
        mutation: Mutation,
        catalog_name: str,
        identifier: Identifier,
        metadata_at: str,
        *,
        overwrite: bool = False,
        expected_token: str | None = None,
        operation: str = "register",
        commit_id: str = "",
        also: PublishStep | None = None,
        follows: bool = False,
    ) -> LoadedEntry:
        """Register a table's metadata file; with `overwrite`, also under the name of an existing table.

        The file may be in any bucket that the caller can read; the table's directories must be in the catalog. With an
        `expected_token` the pointer moves from that version of the table to another of the same table. `also` commits
        with it. `follows` marks a move reported by the external catalog that owns the table: in an external catalog no
        other is allowed.

        Raises AlreadyExists, LocationTaken; InvalidInput, also if the file does not exist; PointerMoved if the metadata
        file or a file of the table changed during validation; CommitConflict, before anything else, if the table is at
        another version.
        """
        caller = mutation.caller
        found = await self._authorized(
            caller, catalog_name, identifier, EntryKind.TABLE, overwrite=overwrite, follows=follows
        )
        entry = found.live
        if expected_token is not None and (entry is None or entry.version_token != expected_token):
            raise CommitConflict(f"table is not at the expected version. table={identifier}")
        document, observed = await self._read(caller, found.catalog, metadata_at)
        metadata = _parsed(document)
        if expected_token is not None and entry is not None and (metadata.uuid or "").lower() != entry.uuid.lower():
            raise InvalidInput(
                f"metadata file is of another table. uuid={metadata.uuid} expected={entry.uuid}",
                argument="metadata-location",
            )
        return await self._move(
            mutation,
            found,
            identifier,
            _File(metadata_at, document, observed, metadata),
            operation=operation,
            commit_id=commit_id,
            also=also,
            chosen_by=ChosenBy.OTHER_CATALOG if follows else ChosenBy.CLIENT,
        )

    async def adopt_table(
        self,
        mutation: Mutation,
        found: ResolvedName,
        identifier: Identifier,
        metadata_at: str,
        uuid: str,
        *,
        also: PublishStep,
    ) -> LoadedEntry:
        """Register the metadata file in a notification of an external catalog, for an authorized caller.

        The file is read for the catalog, and must be in its directories and in the table's. Raises InvalidInput,
        LocationTaken, PointerMoved; AlreadyExists if the name is in use by another kind of entry. `also` commits with
        it.
        """
        there = found.entry
        if there is not None and (there.dropped_ms is not None or there.kind is not EntryKind.TABLE):
            raise name_taken(there, identifier, EntryKind.TABLE)
        check_location(found.catalog, metadata_at)
        try:
            packed, facts = await self._files.of(found.catalog).fetch(metadata_at)
        except NotFound as error:
            raise no_metadata_file(metadata_at) from error
        document = unpack_metadata(packed)
        metadata = _parsed(document)
        if (metadata.uuid or "").lower() != uuid.lower():
            raise InvalidInput(
                f"metadata file is of another table. uuid={metadata.uuid} expected={uuid}", argument="table-uuid"
            )
        if not parse_location(metadata_at).key.startswith(parse_location(metadata.location).directory):
            raise InvalidInput(
                f"metadata file is outside the table's directory. metadata-location={metadata_at}"
                f" location={metadata.location}",
                argument="metadata-location",
            )
        file = _File(metadata_at, document, {metadata_at: facts}, metadata)
        return await self._move(
            mutation,
            found,
            identifier,
            file,
            operation="notify",
            also=also,
            answer=StoredResponse(204),
            chosen_by=ChosenBy.CATALOG,
        )

    async def _move(
        self,
        mutation: Mutation,
        found: ResolvedName,
        identifier: Identifier,
        file: _File,
        *,
        operation: str,
        commit_id: str = "",
        also: PublishStep | None = None,
        answer: StoredResponse | None = None,
        chosen_by: ChosenBy,
    ) -> LoadedEntry:
        """Validate a table's metadata file, and make it the current one."""
        entry, metadata, metadata_at = found.live, file.metadata, file.location
        entry_id = uuid4().hex if entry is None else entry.id
        locations = found.locations(EntryKind.TABLE, entry_id, metadata)
        # Before validation, whose errors reveal which files exist in the directories.
        claim = await self._claims.prepare(mutation.caller, locations, chosen_by)
        base: TableMetadata | None = None
        if entry is not None and entry.uuid == metadata.uuid:
            before = (await self._entries.metadata(found.catalog, entry)).table
            was = found.locations(EntryKind.TABLE, entry_id, before)
            # A file that was changed since is no valid predecessor.
            base = before if await self._claims.trusts(was, entry.metadata_at) else None
        checked = await self._validator.check(self._files.of(found.catalog), base, metadata, adopted=base is None)
        pointer = PointerUpdate(
            found=found,
            identifier=identifier,
            kind=EntryKind.TABLE,
            entry_id=entry_id,
            metadata=metadata,
            metadata_at=metadata_at,
            claim=claim,
            event=REGISTERED if entry is None else COMMITTED,
            operation=operation,
            commit_id=commit_id,
            snapshot=metadata.current_snapshot_id or 0,
            observed={**checked.observed, **file.observed},
            also=also,
        )
        answer = answer or StoredResponse(200, pointer.entry_id)
        (published,) = await self._publisher.publish(mutation, [pointer], answer)
        return found.loaded(published, self._cache.keep(published.version_token, file.document, metadata))

    async def register_view(
        self, mutation: Mutation, catalog_name: str, identifier: Identifier, metadata_at: str
    ) -> LoadedEntry:
        """Register a view's metadata file."""
        caller = mutation.caller
        found = await self._authorized(caller, catalog_name, identifier, EntryKind.VIEW, overwrite=False)
        document, observed = await self._read(caller, found.catalog, metadata_at)
        metadata: ViewMetadata = parse_view(document)
        check_uuid(metadata.uuid)
        entry_id = uuid4().hex
        claim = await self._claims.prepare(caller, found.locations(EntryKind.VIEW, entry_id, metadata))
        pointer = PointerUpdate(
            found=found,
            identifier=identifier,
            kind=EntryKind.VIEW,
            entry_id=entry_id,
            metadata=metadata,
            metadata_at=metadata_at,
            claim=claim,
            event=REGISTERED,
            operation="register",
            observed=observed,
        )
        (published,) = await self._publisher.publish(mutation, [pointer], StoredResponse(200, pointer.entry_id))
        return found.loaded(published, self._cache.keep(published.version_token, document))

    async def _authorized(
        self,
        caller: Caller,
        catalog_name: str,
        identifier: Identifier,
        kind: EntryKind,
        *,
        overwrite: bool,
        follows: bool = False,
    ) -> ResolvedName:
        lookup = await self._entries.look_up(self._f.meta, catalog_name, identifier)
        await self._authorizer.check(
            caller,
            lookup.catalog,
            Action.CREATE_TABLE if lookup.live is None else Action.UPDATE_METADATA_LOCATION,
            namespace=identifier.namespace,
            name=identifier.name,
            entry=lookup.live,
            reported_action=CREATE_OR_MOVE,
            kind=kind,
            # With only the privilege to create, the error is that the name is taken. Overwriting requires that of
            # pointer moves.
            privileges=OPERATIONS["registerTable overwrite"].target if overwrite else _making(kind),
            securable=None if overwrite else namespace_securable(lookup.catalog.id, identifier.namespace),
        )
        if not follows:
            check_internal_catalog(lookup.catalog, f"register a {kind}")
        found = lookup.found
        there = found.entry
        if there is not None and (not overwrite or there.dropped_ms is not None or there.kind is not kind):
            raise name_taken(there, identifier, kind)
        await self._entries.check_unrestricted(caller, found, "restricted principals cannot move its pointer")
        return found

    async def _read(self, caller: Caller, catalog: Catalog, metadata_at: str) -> tuple[bytes, dict[str, FileStat]]:
        """The metadata, and the state of its file: the pointer moves only if it is unchanged."""
        files = self._files.of(catalog)
        facts = (await files.stat([metadata_at]))[metadata_at]
        document = await files.read_metadata_for(caller, metadata_at)
        if facts is None:
            raise PointerMoved(f"metadata file was written during the lookup. metadata-location={metadata_at}")
        return document, {metadata_at: facts}


def _parsed(document: bytes) -> TableMetadata:
    metadata = parse_table(document)
    if metadata.uuid is not None:
        check_uuid(metadata.uuid)
    return metadata


def _making(kind: EntryKind) -> Privileges:
    return OPERATIONS["registerTable" if kind is EntryKind.TABLE else "registerView"].target
