"""Tables and views that exist as files already: a name is put on them, or moved to other metadata of theirs."""

from __future__ import annotations

from uuid import uuid4

from lakebed.core.errors import CommitConflict, InvalidInput, NotFound, PointerMoved
from lakebed.governance.rbac import OPERATIONS, namespace_securable
from lakebed.objects.facilities import Facilities
from lakebed.objects.model import Caller

from .cache import MetadataCache
from .committing import Committed
from .entries import Entries, Found, name_taken
from .external import check_own
from .files import FileFacts, TableFiles, unpack_metadata
from .gate import CREATE_OR_MOVE, Action, Gate, Privileges
from .idempotency import Answer, Mutation
from .identifiers import Identifier
from .locations import check_location, check_path_properties
from .metadata import TableMetadata, ViewMetadata, parse_table, parse_view
from .metadata.builder import check_uuid
from .model import EntryKind
from .publishing import COMMITTED, Also, Pointer, Publisher
from .validation.commit import CommitValidator

REGISTERED = "Registered"


class Registration:
    """Registers metadata files."""

    def __init__(
        self,
        facilities: Facilities,
        gate: Gate,
        entries: Entries,
        files: TableFiles,
        publisher: Publisher,
        validator: CommitValidator,
        cache: MetadataCache,
    ) -> None:
        self._f = facilities
        self._gate = gate
        self._entries = entries
        self._files = files
        self._publisher = publisher
        self._validator = validator
        self._cache = cache

    async def register_table(
        self,
        mutation: Mutation,
        warehouse_name: str,
        identifier: Identifier,
        metadata_at: str,
        *,
        overwrite: bool = False,
        expected_token: str | None = None,
        operation: str = "register",
        commit_id: str = "",
        also: Also | None = None,
        follows: bool = False,
    ) -> Committed:
        """Give a table's metadata file a name; with `overwrite`, also one that a table has already.

        The file may be in any bucket whose objects the caller may read; the table's directories must be in the
        warehouse. Raises AlreadyExists, LocationTaken, InvalidInput, also when there is no such file; PointerMoved when
        one of the table's files, or its metadata file, changed while it was checked. With an `expected_token` the
        pointer moves from that version of the table to another of the same table: CommitConflict when the table moved
        on, before anything else is looked at. `also` commits with it. `follows` says that the catalog which moves the
        table's pointer has told of it: in an external catalog nobody else may.
        """
        caller = mutation.caller
        found = await self._admitted(
            caller, warehouse_name, identifier, EntryKind.TABLE, overwrite=overwrite, follows=follows
        )
        entry = found.live
        if expected_token is not None and (entry is None or entry.version_token != expected_token):
            raise CommitConflict(f"the table is not at the version that the change expects: {identifier}")
        document, observed = await self._read(caller, metadata_at)
        metadata = parse_table(document)
        if metadata.uuid is not None:
            check_uuid(metadata.uuid)
        if expected_token is not None and entry is not None and (metadata.uuid or "").lower() != entry.uuid.lower():
            raise InvalidInput(
                f"the metadata is that of another table. uuid={metadata.uuid} expected={entry.uuid}",
                argument="metadata-location",
            )
        check_location(found.warehouse, metadata.location)
        check_path_properties(found.warehouse, metadata.location, metadata.properties)
        base: TableMetadata | None = None
        if entry is not None and entry.uuid == metadata.uuid:
            base = (await self._entries.metadata(entry)).table
        checked = await self._validator.check(base, metadata, adopted=base is None)
        pointer = Pointer(
            found=found,
            identifier=identifier,
            kind=EntryKind.TABLE,
            entry_id=uuid4().hex if entry is None else entry.id,
            uuid=metadata.uuid or "",
            format_version=metadata.format_version,
            location=metadata.location,
            properties=metadata.properties,
            metadata_at=metadata_at,
            event=REGISTERED if entry is None else COMMITTED,
            operation=operation,
            commit_id=commit_id,
            snapshot=metadata.current_snapshot_id or 0,
            observed={**checked.observed, **observed},
            also=also,
        )
        (published,) = await self._publisher.publish(mutation, [pointer], Answer(200, pointer.entry_id))
        return Committed(found, published, self._cache.keep(published.version_token, document, metadata))

    async def register_view(
        self, mutation: Mutation, warehouse_name: str, identifier: Identifier, metadata_at: str
    ) -> Committed:
        """Give a view's metadata file a name."""
        caller = mutation.caller
        found = await self._admitted(caller, warehouse_name, identifier, EntryKind.VIEW, overwrite=False)
        document, observed = await self._read(caller, metadata_at)
        metadata: ViewMetadata = parse_view(document)
        check_uuid(metadata.uuid)
        check_location(found.warehouse, metadata.location)
        pointer = Pointer(
            found=found,
            identifier=identifier,
            kind=EntryKind.VIEW,
            entry_id=uuid4().hex,
            uuid=metadata.uuid,
            format_version=metadata.format_version,
            location=metadata.location,
            properties=metadata.properties,
            metadata_at=metadata_at,
            event=REGISTERED,
            operation="register",
            observed=observed,
        )
        (published,) = await self._publisher.publish(mutation, [pointer], Answer(200, pointer.entry_id))
        return Committed(found, published, self._cache.keep(published.version_token, document))

    async def _admitted(
        self,
        caller: Caller,
        warehouse_name: str,
        identifier: Identifier,
        kind: EntryKind,
        *,
        overwrite: bool,
        follows: bool = False,
    ) -> Found:
        sought = await self._entries.seek(self._f.meta, warehouse_name, identifier)
        await self._gate.check(
            caller,
            sought.warehouse,
            Action.CREATE_TABLE if sought.live is None else Action.UPDATE_METADATA_LOCATION,
            namespace=identifier.namespace,
            name=identifier.name,
            entry=sought.live,
            told_as=CREATE_OR_MOVE,
            kind=kind,
            # Who only makes names is told that this one is taken. To move one takes what moving pointers takes.
            privileges=OPERATIONS["registerTable overwrite"].target if overwrite else _making(kind),
            securable=None if overwrite else namespace_securable(sought.warehouse.id, identifier.namespace),
        )
        if not follows:
            check_own(sought.warehouse, f"register a {kind}")
        found = sought.found
        there = found.entry
        if there is not None and (not overwrite or there.dropped_ms is not None or there.kind is not kind):
            raise name_taken(there, identifier, kind)
        if there is not None:
            await self._entries.restrictions.refuse(
                caller.principal, identifier.namespace, there, "who does not see all of it does not move its pointer"
            )
        return found

    async def _read(self, caller: Caller, metadata_at: str) -> tuple[bytes, dict[str, FileFacts]]:
        """The metadata, and the state of the file that it was read from: no pointer goes to another."""
        facts = (await self._files.stat([metadata_at]))[metadata_at]
        try:
            document = unpack_metadata(await self._files.read_for(caller, metadata_at))
        except NotFound as error:
            raise InvalidInput(
                f"there is no metadata file at the location. metadata-location={metadata_at}",
                argument="metadata-location",
            ) from error
        if facts is None:
            raise PointerMoved(f"the metadata file was written while it was sought. metadata-location={metadata_at}")
        return document, {metadata_at: facts}


def _making(kind: EntryKind) -> Privileges:
    return OPERATIONS["registerTable" if kind is EntryKind.TABLE else "registerView"].target
