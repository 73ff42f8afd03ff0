"""Tables and views that exist as files already: a name is put on them, or moved to other metadata of theirs."""

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
from ..commits.service import Committed
from ..entries import Entries, ResolvedName, name_taken
from ..external.checks import check_internal_catalog
from ..idempotency import Mutation, StoredResponse
from ..identifiers import Identifier
from ..locations.claims import ChosenBy, EntryLocations, LocationClaims
from ..locations.directories import check_location
from ..model import EntryKind
from ..validation.commit import CommitValidator
from .files import FileStat, TableFiles, parse_location, unpack_metadata

REGISTERED = "Registered"


class _File(NamedTuple):
    """A table's metadata file that was read."""

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
        files: TableFiles,
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
    ) -> Committed:
        """Give a table's metadata file a name; with `overwrite`, also one that a table has already.

        The file may be in any bucket whose objects the caller may read; the table's directories must be in the
        warehouse. Raises AlreadyExists, LocationConflict; InvalidInput, also for a missing file; PointerMoved when
        one of the table's files, or its metadata file, changed while it was checked. With an `expected_token` the
        pointer moves from that version of the table to another of the same table: CommitConflict when the table moved
        on, before anything else is looked at. `also` commits with it. `follows` says that the catalog which moves the
        table's pointer has told of it: in an external catalog nobody else may.
        """
        caller = mutation.caller
        found = await self._admitted(
            caller, catalog_name, identifier, EntryKind.TABLE, overwrite=overwrite, follows=follows
        )
        entry = found.live
        if expected_token is not None and (entry is None or entry.version_token != expected_token):
            raise CommitConflict(f"the table is not at the version that the change expects: {identifier}")
        document, observed = await self._read(caller, metadata_at)
        metadata = _parsed(document)
        if expected_token is not None and entry is not None and (metadata.uuid or "").lower() != entry.uuid.lower():
            raise InvalidInput(
                f"the metadata is that of another table. uuid={metadata.uuid} expected={entry.uuid}",
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
    ) -> Committed:
        """Give the metadata file that another catalog tells of the name that was found, for who may tell of it.

        It is read on the catalog's own behalf, and must lie in its directories and in the table's own. Raises
        InvalidInput, LocationConflict, PointerMoved; AlreadyExists if the name is not a table's. `also` commits too.
        """
        there = found.entry
        if there is not None and (there.dropped_ms is not None or there.kind is not EntryKind.TABLE):
            raise name_taken(there, identifier, EntryKind.TABLE)
        check_location(found.catalog, metadata_at)
        try:
            packed, facts = await self._files.fetch(metadata_at)
        except NotFound as error:
            raise _no_file(metadata_at) from error
        document = unpack_metadata(packed)
        metadata = _parsed(document)
        if (metadata.uuid or "").lower() != uuid.lower():
            raise InvalidInput(
                f"the metadata is that of another table. uuid={metadata.uuid} told={uuid}", argument="table-uuid"
            )
        if not parse_location(metadata_at).key.startswith(parse_location(metadata.location).directory):
            raise InvalidInput(
                f"the metadata file is not in the table's directory. metadata-location={metadata_at}"
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
    ) -> Committed:
        """Check what a table's metadata file says, and make it the current one."""
        entry, metadata, metadata_at = found.live, file.metadata, file.location
        entry_id = uuid4().hex if entry is None else entry.id
        locations = EntryLocations(
            found.catalog, found.namespace, EntryKind.TABLE, entry_id, metadata.location, metadata.properties
        )
        # Before the check, which says of files in the directories whether they are there.
        claim = await self._claims.prepare(mutation.caller, locations, chosen_by)
        base: TableMetadata | None = None
        if entry is not None and entry.uuid == metadata.uuid:
            before = (await self._entries.metadata(entry)).table
            was = locations._replace(location=before.location, properties=before.properties)
            # A file that was changed since is nothing that the next one could follow.
            base = before if await self._claims.trusts(was, entry.metadata_at) else None
        checked = await self._validator.check(base, metadata, adopted=base is None)
        pointer = PointerUpdate(
            found=found,
            identifier=identifier,
            kind=EntryKind.TABLE,
            entry_id=entry_id,
            uuid=metadata.uuid or "",
            format_version=metadata.format_version,
            location=metadata.location,
            properties=metadata.properties,
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
        return Committed(found, published, self._cache.keep(published.version_token, file.document, metadata))

    async def register_view(
        self, mutation: Mutation, catalog_name: str, identifier: Identifier, metadata_at: str
    ) -> Committed:
        """Give a view's metadata file a name."""
        caller = mutation.caller
        found = await self._admitted(caller, catalog_name, identifier, EntryKind.VIEW, overwrite=False)
        document, observed = await self._read(caller, metadata_at)
        metadata: ViewMetadata = parse_view(document)
        check_uuid(metadata.uuid)
        entry_id = uuid4().hex
        locations = EntryLocations(
            found.catalog, found.namespace, EntryKind.VIEW, entry_id, metadata.location, metadata.properties
        )
        claim = await self._claims.prepare(caller, locations)
        pointer = PointerUpdate(
            found=found,
            identifier=identifier,
            kind=EntryKind.VIEW,
            entry_id=entry_id,
            uuid=metadata.uuid,
            format_version=metadata.format_version,
            location=metadata.location,
            properties=metadata.properties,
            metadata_at=metadata_at,
            claim=claim,
            event=REGISTERED,
            operation="register",
            observed=observed,
        )
        (published,) = await self._publisher.publish(mutation, [pointer], StoredResponse(200, pointer.entry_id))
        return Committed(found, published, self._cache.keep(published.version_token, document))

    async def _admitted(
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
            # Who only makes names is told that this one is taken. To move one takes what moving pointers takes.
            privileges=OPERATIONS["registerTable overwrite"].target if overwrite else _making(kind),
            securable=None if overwrite else namespace_securable(lookup.catalog.id, identifier.namespace),
        )
        if not follows:
            check_internal_catalog(lookup.catalog, f"register a {kind}")
        found = lookup.found
        there = found.entry
        if there is not None and (not overwrite or there.dropped_ms is not None or there.kind is not kind):
            raise name_taken(there, identifier, kind)
        if there is not None:
            await self._entries.restrictions.refuse(
                caller.principal,
                lookup.catalog,
                identifier.namespace,
                there,
                "who does not see all of it does not move its pointer",
            )
        return found

    async def _read(self, caller: Caller, metadata_at: str) -> tuple[bytes, dict[str, FileStat]]:
        """The metadata, and the state of the file that it was read from: no pointer goes to another."""
        facts = (await self._files.stat([metadata_at]))[metadata_at]
        try:
            document = unpack_metadata(await self._files.read_for(caller, metadata_at))
        except NotFound as error:
            raise _no_file(metadata_at) from error
        if facts is None:
            raise PointerMoved(f"the metadata file was written while it was sought. metadata-location={metadata_at}")
        return document, {metadata_at: facts}


def _parsed(document: bytes) -> TableMetadata:
    metadata = parse_table(document)
    if metadata.uuid is not None:
        check_uuid(metadata.uuid)
    return metadata


def _no_file(metadata_at: str) -> InvalidInput:
    return InvalidInput(
        f"there is no metadata file at the location. metadata-location={metadata_at}", argument="metadata-location"
    )


def _making(kind: EntryKind) -> Privileges:
    return OPERATIONS["registerTable" if kind is EntryKind.TABLE else "registerView"].target
