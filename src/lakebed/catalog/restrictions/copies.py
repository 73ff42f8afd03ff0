"""Filtered, masked copies of tables: asked for when somebody reads who does not see all, made by Spark, gone some time
after the last reader.

A copy is a table of its own, in a namespace that is for workers alone. The server makes it empty, with what is to be
selected in its properties, and puts a task for it into the queue; it is there for its readers from its first snapshot
on. Those whom the same policies restrict share one.
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
from ..locations.claims import ChosenBy, EntryLocations, LocationClaims
from ..maintenance.tasks.events import append_events
from ..maintenance.tasks.queue import TaskSubmissions
from ..model import Catalog, Entry, EntryKind
from ..namespaces import Namespaces
from ..tables.drops import Dropping
from ..tables.files import TableFiles
from . import copy_rows
from .caller_restrictions import COPIES_NAMESPACE
from .copy_definition import CopyDefinition, define_copy
from .copy_rows import CopyRow, copy_from, find_copy

__all__ = ["Copies", "Copy"]

KEPT_MS: Final = 3 * 3_600_000
"""How long a copy stays that nobody plans with: longer than a plan is good, and then the keys that came with it."""

MAX_COPIES: Final = 32
"""Most snapshots of a table that are copied for one restriction: else whoever sees a part of a table could have it
written as often as its history is long."""

_TOUCHED_MS: Final = 300_000
"""How exactly it is known when a copy was used last."""
_DISCARDED_A_RUN: Final = 100
_HOME: Final = (COPIES_NAMESPACE,)
_DIRECTORY: Final = "restricted"


class Copy(NamedTuple):
    """A copy, as far as it is made."""

    row: CopyRow
    entry: Entry
    table: TableMetadata
    failure: str = ""
    """Why there will be none, if it cannot be made."""

    @property
    def is_ready(self) -> bool:
        """Whether it can be read."""
        return self.table.current_snapshot is not None


class Copies:
    """Keeps the copies."""

    def __init__(
        self,
        object_context: ObjectContext,
        namespaces: Namespaces,
        entries: Entries,
        files: TableFiles,
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
        """The copy of a snapshot for a restriction; asked for, if there is none yet.

        Raises AccessDenied if the restriction cannot be applied to the table, Throttled if there are too many already.
        """
        recipe = define_copy(table, snapshot, restriction)
        lookup = source.entry.id, snapshot.snapshot_id, restriction.key, recipe.digest
        row = copy_from(await self._f.meta.row(copy_rows.BY_SOURCE, *lookup))
        if row is None:
            row = await self._make(source, table, snapshot, restriction, recipe)
        if row.task is None:
            row = await self._ask(caller, source, row)
        return await self.look(row)

    async def find(self, copy_id: str) -> CopyRow | None:
        """The copy of an id; None if there is none, or none any more."""
        return await find_copy(self._f.meta, copy_id)

    async def look(self, row: CopyRow) -> Copy:
        """How far a copy is. Who looks uses it. Raises NotFound if it is gone."""
        # The task first: one that ended before the copy was looked at has had its commit by then.
        failure = "" if row.task is None else await self._failure(row.task)
        entry = (await self._entries.by_id(row.id)).entry
        await self._touch(row)
        copy = Copy(row, entry, (await self._entries.metadata(entry)).table)
        return copy if copy.is_ready else copy._replace(failure=failure)

    async def discard(self, row: CopyRow) -> bool:
        """Remove a copy with its files; whether it was there."""
        try:
            known = await self._entries.by_id(row.id)
        except NotFound:
            return False
        await self._dropping.discard(known)
        return True

    async def discard_unneeded(self) -> int:
        """Remove copies that nobody has used for long, and those of tables that are gone for good; how many.

        For the server's clock to call.
        """
        now_ms = self._f.clock.now_ms()
        found = await self._f.meta.rows(copy_rows.UNNEEDED, now_ms - KEPT_MS, _DISCARDED_A_RUN)
        discarded = 0
        for row in map(CopyRow._make, found):
            if await self.discard(row):
                discarded += 1
            else:
                # Somebody has dropped it, and it can be restored: it is looked at again when it cannot.
                await self._touch(row)
        return discarded

    async def leave(self, catalog: Catalog) -> None:
        """Remove the copies of tables that are gone for good, and with the last copy the namespace they are in.

        For who deletes a catalog: what the server has put there by itself does not keep it.
        """
        try:
            home = await self._namespaces.find(self._f.meta, catalog, _HOME)
        except NoSuchNamespace:
            return
        for row in map(CopyRow._make, await self._f.meta.rows(copy_rows.ORPHANS, home.id)):
            await self.discard(row)
        with suppress(NoSuchNamespace, NamespaceNotEmpty):
            await self._namespaces.drop(_system(catalog), catalog.name, _HOME)

    # -- steps ----------------------------------------------------------------------------------------------------

    async def _make(
        self,
        source: LiveEntry,
        table: TableMetadata,
        snapshot: Snapshot,
        restriction: Restriction,
        recipe: CopyDefinition,
    ) -> CopyRow:
        counted = await self._f.meta.row(copy_rows.COUNT, source.entry.id, restriction.key)
        if counted is not None and counted[0] >= MAX_COPIES:
            raise Throttled(
                f"so many snapshots of the table are shown to the caller at once, and no more. maximum={MAX_COPIES}"
            )
        catalog, now_ms = source.catalog, self._f.clock.now_ms()
        system = _system(catalog)
        uuid = uuid4()
        identifier = Identifier(_HOME, uuid.hex)
        metadata = _new_copy(source, table, snapshot, recipe, str(uuid), now_ms)
        await self._make_home(system, catalog)
        address = metadata_address(metadata, None)
        document = serialize_table(metadata)
        lookup = source.entry.id, snapshot.snapshot_id, restriction.key, recipe.digest

        async def record(tx: Transaction, entry: Entry) -> None:
            if await tx.row(copy_rows.INSERT, entry.id, *lookup, now_ms, now_ms) is None:
                raise AlreadyExists("there is such a copy by now")

        found = await self._entries.find(self._f.meta, catalog.name, identifier)
        place = EntryLocations(
            catalog, found.namespace, EntryKind.TABLE, uuid.hex, metadata.location, metadata.properties
        )
        pointer = PointerUpdate(
            found=found,
            identifier=identifier,
            kind=EntryKind.TABLE,
            entry_id=uuid.hex,
            uuid=str(uuid),
            format_version=metadata.format_version,
            location=metadata.location,
            properties=metadata.properties,
            metadata_at=str(address),
            claim=await self._claims.prepare(system.caller, place, ChosenBy.CATALOG),
            file=await self._files.prepare(address, document),
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

    async def _make_home(self, system: Mutation, catalog: Catalog) -> None:
        try:
            await self._namespaces.find(self._f.meta, catalog, _HOME)
        except NoSuchNamespace:
            try:
                await self._namespaces.create(system, catalog.name, _HOME, {})
            except AlreadyExists:
                return

    async def _ask(self, caller: Caller, source: LiveEntry, row: CopyRow) -> CopyRow:
        """Have a worker make the copy. It may be asked for twice, and is in the queue once."""
        spec = TaskSpec(
            job=JobKind.COPY_RESTRICTED,
            warehouse=source.catalog.name,
            namespace=_HOME,
            table=row.id,
            entry=row.id,
            reason=f"a scan of {source.identifier} was planned for somebody whom policies restrict",
            requested_by=caller.principal.name,
        )

        async def work(tx: Transaction) -> int:
            known = copy_from(await tx.row(copy_rows.BY_ID, row.id))
            if known is not None and known.task is not None:
                return known.task
            told: list[OutboxEvent] = []
            placed = await self._submissions.submit(tx, spec, told)
            await tx.run(copy_rows.SET_TASK, placed.task_id, row.id)
            await append_events(self._f.outbox, tx, told)
            return placed.task_id

        return row._replace(task=await self._f.meta.transact(work))

    async def _failure(self, task_id: int) -> str:
        """Why a copy that is not there will not come; empty if it may come yet."""
        try:
            task = await self._queue.find(self._f.meta, task_id)
        except NotFound:
            return "its task is not there any more"
        if task.state in (TaskState.READY, TaskState.CLAIMED):
            return ""
        # What went wrong may tell of values or of the policy: it is for who may look at tasks.
        return f"its task ended without it. task={task_id}"

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
    source: LiveEntry, table: TableMetadata, snapshot: Snapshot, recipe: CopyDefinition, uuid: str, now_ms: int
) -> TableMetadata:
    """The metadata of a copy without rows."""
    spec = CopySpec(
        namespace=source.namespace.levels,
        table=source.entry.name,
        snapshot=snapshot.snapshot_id,
        columns=recipe.columns,
        condition=recipe.condition,
    )
    bare: dict[str, object] = {"fields": []}
    updates: list[dict[str, object]] = [
        {"action": "assign-uuid", "uuid": uuid},
        {"action": "upgrade-format-version", "format-version": max(2, table.format_version)},
        {"action": "add-schema", "schema": recipe.schema},
        {"action": "set-current-schema", "schema-id": LAST_ADDED},
        {"action": "add-spec", "spec": bare},
        {"action": "set-default-spec", "spec-id": LAST_ADDED},
        {"action": "add-sort-order", "sort-order": bare},
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
