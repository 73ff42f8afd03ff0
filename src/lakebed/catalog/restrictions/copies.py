"""Restricted copies: filtered, masked copies of tables that restricted principals read in place of the original.

A copy is a separate table, in a namespace to which only workers have access. Planning a scan creates it empty, with its
definition as a property, and queues a task in which Spark writes it. It is ready with its first snapshot. Principals
with equal restrictions share a copy. Copies without use expire.
"""

from __future__ import annotations

from contextlib import suppress
from typing import Final, NamedTuple
from uuid import uuid4

from lakebed.core.access import root_of
from lakebed.core.errors import AlreadyExists, NamespaceNotEmpty, NoSuchNamespace, NotFound, Throttled
from lakebed.core.jobs import COPY_PROPERTY, CopySpec, JobKind, TaskSpec, encode_copy
from lakebed.governance.policies import Restriction
from lakebed.iceberg.commits.builder import build_table
from lakebed.iceberg.commits.updates import LAST_ADDED, parse_table_updates
from lakebed.iceberg.documents import encode
from lakebed.iceberg.metadata import TableMetadata, serialize_table
from lakebed.iceberg.metadata.snapshots import Snapshot
from lakebed.meta.outbox import OutboxEvent
from lakebed.meta.seam import Transaction
from lakebed.meta.tasks import TaskQueue, TaskState
from lakebed.objects.context import ObjectContext
from lakebed.objects.model import Caller

from ..commits.metadata_cache import MetadataCache
from ..commits.metadata_naming import metadata_address
from ..commits.publishing import CREATED, PointerUpdate, Publisher
from ..entries import Entries, LiveEntry
from ..idempotency import Mutation, StoredResponse
from ..identifiers import Identifier
from ..locations.claims import ChosenBy, LocationClaims
from ..maintenance.tasks.events import append_events
from ..maintenance.tasks.queue import TaskSubmissions
from ..model import Catalog, Entry, EntryKind
from ..namespaces import Namespaces
from ..tables.drops import Dropping
from ..tables.files import CatalogFiles
from . import copy_rows
from .caller_restrictions import COPIES_NAMESPACE
from .copy_definition import CopyDefinition, define_copy
from .copy_rows import CopyRow, copy_from, find_copy

__all__ = ["Copies", "Copy"]

KEPT_MS: Final = 3 * 3_600_000
"""How long an unused copy is kept: longer than the lifetime of a plan plus the lifetime of its vended credentials."""

MAX_COPIES: Final = 32
"""Maximum number of copies of a table for one restriction, as clients can request one per snapshot."""

_TOUCHED_MS: Final = 300_000
"""The resolution of the time of last use."""
_DISCARDED_A_RUN: Final = 100
_COPIES_LEVELS: Final = (COPIES_NAMESPACE,)
_DIRECTORY: Final = "restricted"


class Copy(NamedTuple):
    """A copy, complete or not."""

    row: CopyRow
    entry: Entry
    table: TableMetadata
    failure: str = ""
    """Why the copy failed; empty if it did not."""

    @property
    def is_ready(self) -> bool:
        """Whether it can be read."""
        return self.table.current_snapshot is not None


class Copies:
    """Creates and removes copies."""

    def __init__(
        self,
        object_context: ObjectContext,
        namespaces: Namespaces,
        entries: Entries,
        files: CatalogFiles,
        publisher: Publisher,
        cache: MetadataCache,
        dropping: Dropping,
        queue: TaskQueue,
        claims: LocationClaims,
    ) -> None:
        self._f = object_context
        self._claims = claims
        self._namespaces = namespaces
        self._entries = entries
        self._files = files
        self._publisher = publisher
        self._cache = cache
        self._dropping = dropping
        self._queue = queue
        self._submissions = TaskSubmissions(object_context.outbox, object_context.clock, queue)

    async def ensure(
        self, caller: Caller, source: LiveEntry, table: TableMetadata, snapshot: Snapshot, restriction: Restriction
    ) -> Copy:
        """The copy of a snapshot for a restriction, created if necessary.

        Raises AccessDenied if the restriction cannot be applied to the table, Throttled if it has too many copies.
        """
        definition = define_copy(table, snapshot, restriction)
        lookup = source.entry.id, snapshot.snapshot_id, restriction.key, definition.digest
        row = copy_from(await self._f.meta.row(copy_rows.BY_SOURCE, *lookup))
        if row is None:
            row = await self._create(source, table, snapshot, restriction, definition)
        if row.task is None:
            row = await self._submit(caller, source, row)
        return await self.use(row)

    async def find(self, copy_id: str) -> CopyRow | None:
        """The copy with an id, if it exists."""
        return await find_copy(self._f.meta, copy_id)

    async def use(self, row: CopyRow) -> Copy:
        """The current state of a copy; postpones its expiry. Raises NotFound if it was removed."""
        # Read the task first: if it ended by now, its commit is visible in the metadata read after it.
        failure = "" if row.task is None else await self._failure(row.task)
        loaded = await self._entries.with_metadata(await self._entries.by_id(row.id))
        await self._touch(row)
        copy = Copy(row, loaded.entry, loaded.metadata.table)
        return copy if copy.is_ready else copy._replace(failure=failure)

    async def discard(self, row: CopyRow) -> bool:
        """Remove a copy with its files; False if it does not exist."""
        try:
            known = await self._entries.by_id(row.id)
        except NotFound:
            return False
        await self._dropping.discard(known)
        return True

    async def discard_unneeded(self) -> int:
        """Remove expired copies and copies of removed tables; returns their number. A periodic job calls this."""
        now_ms = self._f.clock.now_ms()
        found = await self._f.meta.rows(copy_rows.UNNEEDED, now_ms - KEPT_MS, _DISCARDED_A_RUN)
        discarded = 0
        for row in map(CopyRow._make, found):
            if await self.discard(row):
                discarded += 1
            else:
                # The copy was dropped, and can still be restored: try again later.
                await self._touch(row)
        return discarded

    async def discard_orphans(self, catalog: Catalog) -> None:
        """Remove the copies of removed tables, and the namespace of copies if that leaves it empty.

        Called before a catalog is deleted: tables of the server do not count as its content.
        """
        try:
            namespace = await self._namespaces.find(self._f.meta, catalog, _COPIES_LEVELS)
        except NoSuchNamespace:
            return
        for row in map(CopyRow._make, await self._f.meta.rows(copy_rows.ORPHANS, namespace.id)):
            await self.discard(row)
        with suppress(NoSuchNamespace, NamespaceNotEmpty):
            await self._namespaces.drop(_system(catalog), catalog.name, _COPIES_LEVELS)

    # -- steps ----------------------------------------------------------------------------------------------------

    async def _create(
        self,
        source: LiveEntry,
        table: TableMetadata,
        snapshot: Snapshot,
        restriction: Restriction,
        definition: CopyDefinition,
    ) -> CopyRow:
        counted = await self._f.meta.row(copy_rows.COUNT, source.entry.id, restriction.key)
        if counted is not None and counted[0] >= MAX_COPIES:
            raise Throttled(
                f"too many snapshots of the table were read under this restriction lately. maximum={MAX_COPIES}"
            )
        catalog, now_ms = source.catalog, self._f.clock.now_ms()
        system = _system(catalog)
        uuid = uuid4()
        identifier = Identifier(_COPIES_LEVELS, uuid.hex)
        metadata = _new_copy(source, table, snapshot, definition, str(uuid), now_ms)
        await self._ensure_namespace(system, catalog)
        address = metadata_address(metadata, None)
        document = serialize_table(metadata)
        lookup = source.entry.id, snapshot.snapshot_id, restriction.key, definition.digest

        async def record(tx: Transaction, entry: Entry) -> None:
            if await tx.row(copy_rows.INSERT, entry.id, *lookup, now_ms, now_ms) is None:
                raise AlreadyExists("the copy was created concurrently")

        found = await self._entries.find(self._f.meta, catalog.name, identifier)
        place = found.locations(EntryKind.TABLE, uuid.hex, metadata)
        pointer = PointerUpdate(
            found=found,
            identifier=identifier,
            kind=EntryKind.TABLE,
            entry_id=uuid.hex,
            metadata=metadata,
            metadata_at=str(address),
            claim=await self._claims.prepare(system.caller, place, ChosenBy.CATALOG),
            file=await self._files.of(catalog).prepare(address, document),
            event=CREATED,
            operation="create",
            also=record,
        )
        try:
            (entry,) = await self._publisher.publish(system, [pointer], StoredResponse(200, uuid.hex))
        except AlreadyExists:
            row = copy_from(await self._f.meta.row(copy_rows.BY_SOURCE, *lookup))
            if row is None:
                raise
            return row
        self._cache.keep(entry.version_token, document, metadata)
        return CopyRow(entry.id, *lookup, None, now_ms)

    async def _ensure_namespace(self, system: Mutation, catalog: Catalog) -> None:
        try:
            await self._namespaces.find(self._f.meta, catalog, _COPIES_LEVELS)
        except NoSuchNamespace:
            with suppress(AlreadyExists):
                await self._namespaces.create(system, catalog.name, _COPIES_LEVELS, {})

    async def _submit(self, caller: Caller, source: LiveEntry, row: CopyRow) -> CopyRow:
        """Submit the task that writes the copy. Idempotent."""
        spec = TaskSpec(
            job=JobKind.COPY_RESTRICTED,
            warehouse=source.catalog.name,
            namespace=_COPIES_LEVELS,
            table=row.id,
            entry=row.id,
            reason=f"a restricted principal planned a scan of {source.identifier}",
            requested_by=caller.principal.name,
        )

        async def work(tx: Transaction) -> int:
            known = copy_from(await tx.row(copy_rows.BY_ID, row.id))
            if known is not None and known.task is not None:
                return known.task
            events: list[OutboxEvent] = []
            placed = await self._submissions.submit(tx, spec, events)
            await tx.run(copy_rows.SET_TASK, placed.task_id, row.id)
            await append_events(self._f.outbox, tx, events)
            return placed.task_id

        return row._replace(task=await self._f.meta.transact(work))

    async def _failure(self, task_id: int) -> str:
        """Why a copy failed; empty while its task is open."""
        try:
            task = await self._queue.find(self._f.meta, task_id)
        except NotFound:
            return "its task no longer exists"
        if task.state in (TaskState.READY, TaskState.CLAIMED):
            return ""
        # The task's error may contain values or the policy: only callers with permission to read tasks get it.
        return f"its task ended without a commit. task={task_id}"

    async def _touch(self, row: CopyRow) -> None:
        now_ms = self._f.clock.now_ms()
        if row.used_ms >= now_ms - _TOUCHED_MS:
            return

        async def work(tx: Transaction) -> None:
            await tx.run(copy_rows.SET_USED, now_ms, row.id, now_ms)

        await self._f.meta.transact(work)


def _system(catalog: Catalog) -> Mutation:
    return Mutation(Caller(root_of(catalog.bucket.owner)))


def _new_copy(
    source: LiveEntry, table: TableMetadata, snapshot: Snapshot, definition: CopyDefinition, uuid: str, now_ms: int
) -> TableMetadata:
    """The metadata of an empty copy."""
    spec = CopySpec(
        namespace=source.namespace.levels,
        table=source.entry.name,
        snapshot=snapshot.snapshot_id,
        columns=definition.columns,
        condition=definition.condition,
    )
    no_fields: dict[str, object] = {"fields": []}
    updates: list[dict[str, object]] = [
        {"action": "assign-uuid", "uuid": uuid},
        {"action": "upgrade-format-version", "format-version": max(2, table.format_version)},
        {"action": "add-schema", "schema": definition.schema},
        {"action": "set-current-schema", "schema-id": LAST_ADDED},
        {"action": "add-spec", "spec": no_fields},
        {"action": "set-default-spec", "spec-id": LAST_ADDED},
        {"action": "add-sort-order", "sort-order": no_fields},
        {"action": "set-default-sort-order", "sort-order-id": LAST_ADDED},
        {"action": "set-location", "location": f"{source.catalog.base_location}{_DIRECTORY}/{uuid.replace('-', '')}"},
        {
            "action": "set-properties",
            "updates": {
                COPY_PROPERTY: encode_copy(spec),
                "write.parquet.compression-codec": "zstd",
            },
        },
    ]
    return build_table(None, parse_table_updates(encode(updates)), now_ms=now_ms, new_uuid=uuid)
