"""Commits: checks requirements, applies updates, validates new snapshots, then moves all pointers together.

A concurrent pointer move is not a conflict by itself: the commit is retried on the new state, and fails only if its
requirements do not hold there. A commit that fails with a conflict was certainly not committed.
"""

from __future__ import annotations

import hashlib
from collections.abc import Callable, Mapping, Sequence
from contextlib import suppress
from dataclasses import dataclass
from typing import Final, NamedTuple
from uuid import uuid4

import msgspec

from lakebed.core.errors import CommitConflict, InvalidInput, LakebedError, PointerMoved
from lakebed.governance.rbac import OPERATIONS, commit_privileges
from lakebed.iceberg.commits.builder import build_table
from lakebed.iceberg.commits.requirements import Requirement, check_table, is_create, parse_table_requirements
from lakebed.iceberg.commits.updates import Update, kind_of, parse_table_updates
from lakebed.iceberg.metadata.serialization import TableText, write_table
from lakebed.iceberg.metadata.table import TableMetadata
from lakebed.objects.context import ObjectContext
from lakebed.objects.model import Caller

from .. import rows
from ..access.authorization import Action, Privileges
from ..entries import Entries, LoadedEntry, ResolvedName, created_concurrently, no_such_entry
from ..external.checks import check_internal_catalog
from ..idempotency import Mutation, StoredResponse
from ..identifiers import Identifier
from ..locations.claims import LocationClaim, LocationClaims, check_locations
from ..locations.directories import stated_paths, table_directories
from ..model import Catalog, Entry, EntryKind
from ..tables.files import CatalogFiles, FileStat, PreparedFile
from ..validation.commit import CommitValidator
from .conflict_backoff import ConflictBackoff
from .metadata_cache import CachedMetadata, MetadataCache
from .metadata_naming import metadata_address
from .publishing import COMMITTED, CREATED, PointerUpdate, Publisher, check_unused
from .shared_history import base_file_of
from .table_locks import TableLocks

MAX_CHANGES: Final = 1024
"""Maximum number of requirements, and of updates, of one change."""

_ATTEMPTS: Final = 5
_DELETE_OLD_METADATA: Final = "write.metadata.delete-after-commit.enabled"


@dataclass(frozen=True, slots=True)
class TableChange:
    """The requirements and updates of a commit to one table."""

    identifier: Identifier
    requirements: tuple[Requirement, ...]
    updates: tuple[Update, ...]
    written: bytes
    """The request text, to recognize repeated commits."""


class CommitOptions(NamedTuple):
    """Commit options that extend the Iceberg specification."""

    commit_id: str = ""
    """Identifies the commit: a repeated one gets the same response."""
    operation: str = ""
    writer: str = ""
    expected_token: str = ""
    """The version that the table must have; any if empty."""


NO_OPTIONS: Final = CommitOptions()


class _Prepared(NamedTuple):
    change: TableChange
    found: ResolvedName
    kept: CachedMetadata | None
    """The metadata before."""
    base: TableMetadata | None
    new: TableMetadata
    text: TableText | None
    """The document to write; None without changes."""
    entry_id: str
    observed: Mapping[str, FileStat]
    claim: LocationClaim | None = None
    """The directories that it claims, if they change."""


RequiredPrivileges = Callable[[TableChange], Privileges]
"""The privileges that a change requires of callers with grants."""


def _change_needs(change: TableChange) -> Privileges:
    """The privileges for the kinds of its updates, or for creating a table."""
    if is_create(change.requirements):
        return OPERATIONS["updateTable create"].target
    return commit_privileges(map(kind_of, change.updates))


def _transaction_needs(change: TableChange) -> Privileges:
    return OPERATIONS["commitTransaction"].target


def read_change(identifier: Identifier, requirements: bytes, updates: bytes) -> TableChange:
    """Read the change of one table from two JSON lists. Raises InvalidInput."""
    change = TableChange(
        identifier,
        parse_table_requirements(requirements),
        parse_table_updates(updates),
        requirements + b"\n" + updates,
    )
    if max(len(change.requirements), len(change.updates)) > MAX_CHANGES:
        raise InvalidInput(f"too many requirements or updates. maximum={MAX_CHANGES} of each")
    return change


class Commits:
    """Commits changes to tables."""

    def __init__(
        self,
        object_context: ObjectContext,
        entries: Entries,
        files: CatalogFiles,
        publisher: Publisher,
        validator: CommitValidator,
        cache: MetadataCache,
        claims: LocationClaims,
    ) -> None:
        self._f = object_context
        self._claims = claims
        self._entries = entries
        self._files = files
        self._publisher = publisher
        self._validator = validator
        self._cache = cache
        self._locks = TableLocks()
        self._backoff = ConflictBackoff()

    async def commit(
        self, mutation: Mutation, catalog_name: str, change: TableChange, options: CommitOptions = NO_OPTIONS
    ) -> LoadedEntry:
        """Commit to one table, or create one that was staged. Raises CommitConflict, InvalidInput, NoSuchTable."""
        try:
            (committed,) = await self._commit(mutation, catalog_name, [change], options, status=200)
        except CommitConflict:
            await self._backoff.wait(catalog_name, change.identifier)
            raise
        return committed

    async def commit_all(self, mutation: Mutation, catalog_name: str, changes: Sequence[TableChange]) -> None:
        """Commit to many tables, entirely or not at all. Several changes of one table are merged."""
        await self._commit(mutation, catalog_name, _merged(changes), NO_OPTIONS, status=204, needs=_transaction_needs)

    async def parsed(self, catalog: Catalog, entry: Entry) -> TableMetadata:
        """A table's current metadata."""
        return (await self._entries.metadata(catalog, entry)).table

    # -- the commit -----------------------------------------------------------------------------------------------

    async def _commit(
        self,
        mutation: Mutation,
        catalog_name: str,
        changes: Sequence[TableChange],
        options: CommitOptions,
        *,
        status: int,
        needs: RequiredPrivileges = _change_needs,
    ) -> list[LoadedEntry]:
        async with self._locks.hold(catalog_name, (change.identifier for change in changes)):
            for attempt in range(1, _ATTEMPTS + 1):
                # In each attempt: this very commit, sent to another worker, may have moved the pointer.
                repeated = await self._repeated(mutation.caller, catalog_name, changes, options)
                if repeated is not None:
                    return [repeated]
                prepared = [
                    await self._prepare(mutation.caller, catalog_name, change, needs, options.expected_token)
                    for change in changes
                ]
                try:
                    committed = await self._publish(mutation, prepared, options, status=status)
                except PointerMoved:
                    if attempt == _ATTEMPTS:
                        raise
                    for one in prepared:
                        if one.kept is not None:
                            # The base file may be gone: then the new file is written whole.
                            one.kept.base_file = None
                else:
                    for change in changes:
                        self._backoff.committed(catalog_name, change.identifier)
                    return committed
        raise AssertionError("unreachable")

    async def _prepare(
        self,
        caller: Caller,
        catalog_name: str,
        change: TableChange,
        needs: RequiredPrivileges,
        expected_token: str = "",
    ) -> _Prepared:
        """The table after the change, validated but not published. Raises CommitConflict, InvalidInput."""
        identifier = change.identifier
        lookup = await self._entries.look_up(self._f.meta, catalog_name, identifier)
        creates = is_create(change.requirements)
        entry = lookup.live
        privileges = None if caller.principal.grants is None else needs(change)
        for action in (Action.CREATE_TABLE,) if creates else (Action.UPDATE_METADATA_LOCATION, Action.PUT_TABLE_DATA):
            await self._entries.authorize(caller, lookup, action, EntryKind.TABLE, privileges=privileges)
        check_internal_catalog(lookup.catalog, "commit to a table")
        found = lookup.found
        if entry is not None and not creates:
            await self._entries.check_unrestricted(caller, found, "restricted principals cannot commit to it")
        if creates and found.entry is not None:
            raise created_concurrently(found.entry, identifier)
        if not creates and (entry is None or entry.kind is not EntryKind.TABLE):
            raise no_such_entry(identifier, EntryKind.TABLE)
        if expected_token and (entry is None or entry.version_token != expected_token):
            raise PointerMoved(f"table is not at the expected version. table={identifier}")
        kept = None if entry is None else await self._entries.metadata(lookup.catalog, entry)
        base = None if kept is None else kept.table
        if entry is not None and base is not None:
            await self._claims.check_trusted(found.locations(EntryKind.TABLE, entry.id, base), entry.metadata_at)
        check_table(change.requirements, base)
        new_id = str(uuid4())
        new = build_table(
            base,
            change.updates,
            now_ms=self._f.clock.now_ms(),
            new_uuid=new_id,
            previous_location=None if entry is None else entry.metadata_at,
        )
        entry_id = entry.id if entry is not None else (new.uuid or new_id).replace("-", "")
        if new is base:
            return _Prepared(change, found, kept, base, new, None, entry_id, {})
        if entry is None:
            await check_unused(self._f.meta, entry_id)
        locations = found.locations(EntryKind.TABLE, entry_id, new)
        # Also if they are unchanged: the catalog's allowed locations may have changed.
        check_locations(locations)
        moves = base is None or stated_paths(base) != stated_paths(new)
        # Before validation, whose errors reveal which files exist in the directories.
        claim = await self._claims.prepare(caller, locations) if moves else None
        checked = await self._validator.check(self._files.of(lookup.catalog), base, new)
        if kept is not None:
            kept.recall()
        text = write_table(new, base=base, before=None if kept is None else kept.text)
        return _Prepared(change, found, kept, base, new, text, entry_id, checked.observed, claim)

    async def _publish(
        self, mutation: Mutation, prepared: Sequence[_Prepared], options: CommitOptions, *, status: int
    ) -> list[LoadedEntry]:
        moving = [one for one in prepared if one.new is not one.base]
        # Requirements on a table without changes must hold when the others move.
        staying = [one.found.live for one in prepared if one.new is one.base and one.found.live is not None]
        pointers = [await self._pointer(one, options) for one in moving]
        # The response to a transaction has no body.
        answer = StoredResponse(status, prepared[0].entry_id if status == 200 else "")
        entries = await self._publisher.publish(mutation, pointers, answer, staying)
        moved = dict(zip((one.entry_id for one in moving), zip(entries, pointers, strict=True), strict=True))
        committed = []
        for one in prepared:
            if one.entry_id in moved:
                entry, pointer = moved[one.entry_id]
                metadata = self._keep(one, entry, pointer.file)
                await self._remove_old(one)
            else:
                assert one.found.live is not None  # noqa: S101  # a table without changes exists
                entry = one.found.live
                metadata = await self._entries.metadata(one.found.catalog, entry)
            committed.append(one.found.loaded(entry, metadata))
        return committed

    def _keep(self, one: _Prepared, entry: Entry, file: PreparedFile | None) -> CachedMetadata:
        """Cache the committed metadata, and the base file for the next one."""
        assert one.text is not None and file is not None  # noqa: S101,PT018  # what moves was written
        text, base_content, base_file = one.text, file.base_content, None
        if base_content is not None:
            text = text.whole()
            base_file = base_file_of(text, base_content)
        elif file.shares_history and one.kept is not None:
            base_file = one.kept.base_file
        if one.found.live is not None:
            self._cache.forget(one.found.live.version_token)
        return self._cache.keep(entry.version_token, text, one.new, base_file, of=entry.id)

    async def _pointer(self, one: _Prepared, options: CommitOptions) -> PointerUpdate:
        assert one.text is not None  # noqa: S101  # what moves is written
        new, base, entry = one.new, one.base, one.found.live
        files = self._files.of(one.found.catalog)
        address = metadata_address(new, None if entry is None else entry.metadata_at)
        added = new.snapshots_since(base)
        operation = options.operation or (added[-1].operation if added else "") or "commit"
        return PointerUpdate(
            found=one.found,
            identifier=one.change.identifier,
            kind=EntryKind.TABLE,
            entry_id=one.entry_id,
            metadata=new,
            metadata_at=str(address),
            file=await files.prepare_table(address, one.text, None if one.kept is None else one.kept.base_file),
            claim=one.claim,
            event=CREATED if base is None else COMMITTED,
            operation=operation,
            commit_id=options.commit_id,
            writer=options.writer,
            digest=_digest(one.change),
            requirements=msgspec.json.encode([requirement.written for requirement in one.change.requirements]),
            snapshot=new.current_snapshot_id or 0,
            observed=one.observed,
        )

    # -- repeated commits, and what is left behind ----------------------------------------------------------------

    async def _repeated(
        self, caller: Caller, catalog_name: str, changes: Sequence[TableChange], options: CommitOptions
    ) -> LoadedEntry | None:
        """The response to an earlier commit with this id. Raises CommitConflict if that was a different commit."""
        if not options.commit_id:
            return None
        (change,) = changes
        lookup = await self._entries.look_up(self._f.meta, catalog_name, change.identifier)
        entry = lookup.live
        if entry is None:
            return None
        row = await self._f.meta.row(rows.COMMIT_BY_ID, entry.id, options.commit_id)
        if row is None:
            return None
        known = await self._entries.authorize_entry(
            caller, lookup, EntryKind.TABLE, Action.UPDATE_METADATA_LOCATION, privileges=_change_needs(change)
        )
        if row[9] != _digest(change):
            raise CommitConflict(f"commit id was used for a different commit. commit-id={options.commit_id}")
        return await self._entries.with_metadata(known)

    async def _remove_old(self, one: _Prepared) -> None:
        """Delete metadata files that left the metadata log, if the table is configured so.

        The commit succeeds in any case: files that remain are unreferenced.
        """
        if one.base is None or one.new.properties.get(_DELETE_OLD_METADATA, "false").lower() != "true":
            return
        kept = {entry.metadata_file for entry in one.new.metadata_log}
        removed = [entry.metadata_file for entry in one.base.metadata_log if entry.metadata_file not in kept]
        catalog = one.found.catalog
        own = table_directories(catalog, one.new.location, one.new.properties)
        prefixes = tuple(f"s3://{address.bucket}/{address.directory}" for address in own)
        with suppress(LakebedError):
            # Locations with our scheme. Others are in another store, or from before the table was registered.
            await self._files.of(catalog).remove([location for location in removed if location.startswith(prefixes)])


def _merged(changes: Sequence[TableChange]) -> list[TableChange]:
    folded: dict[Identifier, TableChange] = {}
    for change in changes:
        before = folded.get(change.identifier)
        if before is not None:
            change = TableChange(
                change.identifier,
                before.requirements + change.requirements,
                before.updates + change.updates,
                before.written + change.written,
            )
        folded[change.identifier] = change
    return list(folded.values())


def _digest(change: TableChange) -> str:
    return hashlib.sha256(change.written).hexdigest()
