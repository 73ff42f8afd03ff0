"""Examines a table: its entry, its commit log, its metadata file and unreferenced files. Nothing is cached."""

from __future__ import annotations

from collections.abc import Sequence
from dataclasses import dataclass
from typing import Final

from lakebed.core.errors import Corrupted, InvalidInput, NoSuchBucket, NotFound, WriteConflict
from lakebed.iceberg.metadata.parsing import parse_table
from lakebed.iceberg.metadata.table import TableMetadata
from lakebed.meta.seam import Reader, Transaction
from lakebed.objects.context import ObjectContext
from lakebed.objects.model import Caller

from .. import rows as table_rows
from ..access.authorization import Action
from ..commits.commit_log import CommitRecord
from ..entries import Entries, NameLookup, no_such_entry
from ..identifiers import Identifier
from ..locations.directories import table_directories
from ..model import Catalog, Entry, EntryKind, Namespace
from ..tables.files import MAX_METADATA_BYTES, CatalogFiles, FileAddress, parse_location, unpack_metadata
from ..tables.imports import ImportOrigin, import_origin
from . import rows
from .commit_chain import CommitChain, TableVersion, check_chain
from .recovery_status import MetadataStatus, RecoveryAction, RecoveryStatus, recommended_actions, recovery_status

MAX_RECORDS: Final = 1000
"""Maximum number of commit records to check, the newest first."""

MAX_LISTED: Final = 1000
"""Maximum number of files in a report."""

_MAX_SCANNED_KEYS: Final = 200_000
_PAGE_KEYS: Final = 1000
_METADATA_ENDINGS: Final = (".metadata.json", ".metadata.json.gz")
_ATTEMPTS: Final = 3


@dataclass(frozen=True, slots=True)
class CommitCounts:
    """Statistics of a table's commit log."""

    records: int
    writers: int
    """The number of distinct writer names."""
    first_ms: int | None
    last_ms: int | None


@dataclass(frozen=True, slots=True)
class RecordedState:
    """The state of a table in the metadata store, at one time."""

    catalog: Catalog
    namespace: Namespace
    namespace_created_ms: int
    identifier: Identifier
    entry: Entry
    line: CommitChain
    commits: CommitCounts
    directories: tuple[str, ...]
    origin: ImportOrigin | None
    lease_holders: tuple[str, ...]
    """Processes that currently run periodic jobs of the catalog."""
    store: str
    """The kind of the metadata store."""


@dataclass(frozen=True, slots=True)
class MetadataReport:
    """The check of the current metadata file."""

    status: MetadataStatus
    reason: str = ""
    size_bytes: int = 0
    snapshots: int = 0
    log_entries: int = 0
    missing_log_files: tuple[str, ...] = ()
    """Missing files of its metadata log."""
    disagreements: tuple[str, ...] = ()
    """Differences from the table's entry."""
    missing_directories: tuple[str, ...] = ()
    """Directories of the table that are not recorded."""


@dataclass(frozen=True, slots=True)
class Diagnosis:
    """The complete diagnosis of a table."""

    recorded: RecordedState
    metadata: MetadataReport
    orphans: tuple[str, ...]
    """Metadata files in the table's folder that neither its pointer nor any of its logs refers to."""
    orphans_complete: bool
    """Whether the whole folder was scanned, and all orphans are listed."""

    @property
    def status(self) -> RecoveryStatus:
        """The table's recovery status."""
        return recovery_status(self.recorded.line, self.metadata.status, self.metadata.missing_directories)

    @property
    def actions(self) -> list[RecoveryAction]:
        """The recommended actions."""
        return recommended_actions(self.recorded.line, self.metadata.status, self.metadata.missing_directories)


class TableDiagnostics:
    """Diagnoses tables."""

    def __init__(self, object_context: ObjectContext, entries: Entries, files: CatalogFiles) -> None:
        self._f = object_context
        self._entries = entries
        self._files = files

    async def recorded(self, caller: Caller, catalog_name: str, identifier: Identifier) -> RecordedState:
        """The state of a table in the metadata store. Raises NoSuchTable."""
        lookup_before = await self.authorize(caller, catalog_name, identifier, Action.GET_METADATA_LOCATION)

        async def work(tx: Transaction) -> RecordedState:
            # One transaction: between two reads the pointer could move past a record.
            return await self.read(tx, catalog_name, lookup_before)

        return await self._f.meta.transact(work)

    async def authorize(self, caller: Caller, catalog_name: str, identifier: Identifier, action: Action) -> NameLookup:
        """The lookup of a name, if the caller has the permission for `action`. Raises NoSuchCatalog, AccessDenied.

        Before the transaction, because an external authorizer may decide (ADR 23).
        """
        lookup = await self._entries.look_up(self._f.meta, catalog_name, identifier)
        await self._entries.authorize(caller, lookup, action)
        return lookup

    async def read(self, reader: Reader, catalog_name: str, lookup_before: NameLookup) -> RecordedState:
        """The state of an authorized table, as a step of a transaction.

        Raises NoSuchTable; WriteConflict if the name belongs to another table by now.
        """
        identifier = lookup_before.identifier
        lookup = await self._entries.look_up(reader, catalog_name, identifier)
        if lookup.live is not None and (lookup_before.live is None or lookup_before.live.id != lookup.live.id):
            raise WriteConflict(f"table was recreated concurrently. table={identifier}")
        found = lookup.found
        entry = found.live
        if entry is None or entry.kind is not EntryKind.TABLE:
            raise no_such_entry(identifier, EntryKind.TABLE)
        log = await reader.rows(table_rows.COMMITS_OF, entry.id, MAX_RECORDS)
        counts = await reader.row(rows.COMMIT_COUNTS, entry.id)
        created = await reader.row(rows.NAMESPACE_CREATED, found.namespace.id)
        if counts is None or created is None:
            raise RuntimeError("a count returned no row")
        current = TableVersion(entry.metadata_at, entry.version_token)
        holders = await reader.rows(rows.LEASE_HOLDERS, self._f.clock.now_ms())
        return RecordedState(
            catalog=found.catalog,
            namespace=found.namespace,
            namespace_created_ms=int(created[0]),
            identifier=identifier,
            entry=entry,
            line=check_chain(current, entry.generation, [CommitRecord(*row) for row in log]),
            commits=CommitCounts(*counts),
            directories=tuple(str(row[0]) for row in await reader.rows(table_rows.LOCATIONS_OF, entry.id)),
            origin=await import_origin(reader, entry.id),
            lease_holders=tuple(str(row[0]) for row in holders),
            store=self._f.meta.dialect,
        )

    async def diagnose(self, caller: Caller, catalog_name: str, identifier: Identifier) -> Diagnosis:
        """The complete diagnosis of a table. Raises NoSuchTable. Reads its metadata file and lists its folder."""
        for attempt in range(1, _ATTEMPTS + 1):
            recorded = await self.recorded(caller, catalog_name, identifier)
            metadata, parsed = await self.metadata(recorded)
            if metadata.status is MetadataStatus.VALID or attempt == _ATTEMPTS:
                break
            again = await self.recorded(caller, catalog_name, identifier)
            if again.entry.version_token == recorded.entry.version_token:
                # Not a file that was removed because the table advanced: the problem is real.
                break
        orphans, complete = await self._orphans(recorded, parsed)
        return Diagnosis(recorded, metadata, tuple(orphans[:MAX_LISTED]), complete and len(orphans) <= MAX_LISTED)

    async def metadata(self, recorded: RecordedState) -> tuple[MetadataReport, TableMetadata | None]:
        """The check of the current metadata file, read from the store, never from a cache."""
        entry = recorded.entry
        try:
            parse_location(entry.metadata_at)
        except InvalidInput as error:
            return MetadataReport(MetadataStatus.INVALID_LOCATION, str(error)), None
        try:
            data = await self._files.of(recorded.catalog).read(entry.metadata_at, MAX_METADATA_BYTES)
        except InvalidInput as error:
            return MetadataReport(MetadataStatus.INVALID_JSON, str(error)), None
        except (NotFound, Corrupted) as error:
            return MetadataReport(MetadataStatus.MISSING_OBJECT, str(error)), None
        try:
            parsed = parse_table(unpack_metadata(data))
        except InvalidInput as error:
            return MetadataReport(MetadataStatus.INVALID_JSON, str(error), size_bytes=len(data)), None
        facts = MetadataReport(
            MetadataStatus.VALID,
            size_bytes=len(data),
            snapshots=len(parsed.snapshots),
            log_entries=len(parsed.metadata_log),
            missing_log_files=await self._missing(recorded, [one.metadata_file for one in parsed.metadata_log]),
            disagreements=tuple(_disagreements(entry, parsed)),
            missing_directories=tuple(_missing_directories(recorded, parsed)),
        )
        return facts, parsed

    async def _missing(self, recorded: RecordedState, locations: Sequence[str]) -> tuple[str, ...]:
        # The writer of a registered file chose these names: the existence of other files is not reported.
        here = [location for location in locations if _is_own(recorded, location)]
        found = await self._files.of(recorded.catalog).stat(here)
        return tuple(location for location in here if found.get(location) is None)[:MAX_LISTED]

    # -- files that nothing names ---------------------------------------------------------------------------------

    async def _orphans(self, recorded: RecordedState, metadata: TableMetadata | None) -> tuple[list[str], bool]:
        folder = _metadata_folder(recorded.entry, metadata)
        if not _is_own(recorded, folder):
            return [], False
        address = parse_location(folder)
        known = {_key(recorded.entry.metadata_at)}
        for pair in await self._f.meta.rows(rows.COMMITTED_FILES, recorded.entry.id):
            known.update(_key(location) for location in pair if location is not None)
        if metadata is not None:
            known.update(_key(one.metadata_file) for one in metadata.metadata_log)
        orphans: list[str] = []
        scanned = 0
        try:
            async for file in self._files.of(recorded.catalog).list(address):
                if scanned == _MAX_SCANNED_KEYS:
                    return orphans, False
                scanned += 1
                location = str(FileAddress(address.bucket, file.key))
                if location.endswith(_METADATA_ENDINGS) and _key(location) not in known:
                    orphans.append(location)
        except NoSuchBucket:
            return [], False
        return orphans, True


def _metadata_folder(entry: Entry, metadata: TableMetadata | None) -> str:
    stated = None if metadata is None else metadata.properties.get("write.metadata.path")
    return stated or f"{entry.location.rstrip('/')}/metadata"


def _is_own(recorded: RecordedState, location: str) -> bool:
    """Whether a file or folder is in the table's recorded directories."""
    try:
        address = parse_location(location)
    except InvalidInput:
        return False
    return address.bucket == recorded.catalog.bucket_name and address.directory.startswith(recorded.directories)


def _key(location: str) -> str:
    """A location without its scheme."""
    return location.partition("://")[2]


def _disagreements(entry: Entry, metadata: TableMetadata) -> list[str]:
    compared = (
        ("table-uuid", entry.uuid, metadata.uuid or ""),
        ("format-version", str(entry.format_version), str(metadata.format_version)),
        ("location", entry.location, metadata.location),
    )
    return [f"{name}: recorded={here} metadata={there}" for name, here, there in compared if here != there]


def _missing_directories(recorded: RecordedState, metadata: TableMetadata) -> list[str]:
    try:
        wanted = table_directories(recorded.catalog, metadata.location, metadata.properties)
    except InvalidInput:
        # It could not be created like this today, and there is nothing to record.
        return []
    return [address.directory for address in wanted if address.directory not in recorded.directories]
