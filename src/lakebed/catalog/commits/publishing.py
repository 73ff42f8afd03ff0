"""Publishes commits: the one transaction in which tables and views are created and changed.

It commits entirely or not at all: the pointers of any number of tables, their metadata files (which are ordinary
objects), the commit log, the response for the idempotency key and the events. So a crash leaves nothing to recover, and
no pointer to a missing file.
"""

from __future__ import annotations

from collections.abc import Awaitable, Callable, Mapping, Sequence
from dataclasses import dataclass, field
from typing import Final
from uuid import uuid4

from lakebed.core.errors import AlreadyExists, LakebedError, PointerMoved
from lakebed.iceberg.metadata import TableMetadata, ViewMetadata
from lakebed.meta.seam import Reader, Transaction
from lakebed.objects.context import ObjectContext
from lakebed.objects.publishing import NewGarbage

from .. import rows
from ..entries import Entries, ResolvedName, name_taken
from ..events import append_catalog_event
from ..idempotency import IdempotencyKeys, Mutation, StoredResponse
from ..identifiers import Identifier
from ..locations.claims import LocationClaim, LocationClaims
from ..model import Entry, EntryKind
from ..rows import entry_columns
from ..tables.files import CatalogFiles, FileStat, PreparedFile

CREATED: Final = "Created"
COMMITTED: Final = "Committed"

PublishStep = Callable[[Transaction, Entry], Awaitable[None]]
"""A further step of the transaction that moves a pointer; if it raises, the pointer stays."""


@dataclass(frozen=True, slots=True, kw_only=True)
class PointerUpdate:
    """One pointer move to publish."""

    found: ResolvedName
    """The entry when the change was prepared: the pointer moves only from that state."""
    identifier: Identifier
    kind: EntryKind
    entry_id: str
    """The id of the existing or new entry."""
    metadata: TableMetadata | ViewMetadata
    metadata_at: str
    file: PreparedFile | None = None
    """The metadata file, unless it exists already."""
    claim: LocationClaim | None
    """The directories that it claims; None to keep the current ones."""
    event: str = COMMITTED
    operation: str = ""
    commit_id: str = ""
    writer: str = ""
    digest: str = ""
    requirements: bytes = b"[]"
    snapshot: int = 0
    observed: Mapping[str, FileStat] = field(default_factory=dict)
    """The files that validation read: the commit is valid only if they are unchanged."""
    also: PublishStep | None = None
    """A further step of the transaction."""


async def check_unused(reader: Reader, entry_id: str) -> None:
    """Raise AlreadyExists if the id of a new entry is in use.

    Clients choose the UUID of tables that they stage. An id in use, even one that only waits for its purge, has
    directories that must not get another owner.
    """
    if await reader.row(rows.LOCATIONS_OF, entry_id) is not None:
        raise AlreadyExists(
            f"uuid is in use by another table, or by a dropped table that is not purged yet. uuid={entry_id}"
        )


class Publisher:
    """Publishes pointer moves."""

    def __init__(
        self,
        object_context: ObjectContext,
        files: CatalogFiles,
        entries: Entries,
        keys: IdempotencyKeys,
        claims: LocationClaims,
    ) -> None:
        self._f = object_context
        self._claims = claims
        self._files = files
        self._entries = entries
        self._keys = keys

    async def publish(
        self,
        mutation: Mutation,
        pointers: Sequence[PointerUpdate],
        answer: StoredResponse,
        staying: Sequence[Entry] = (),
    ) -> list[Entry]:
        """Move all pointers, or none. Raises PointerMoved, AlreadyExists, LocationTaken, NoSuchNamespace.

        Returns the entries in the order of the pointers; `answer` is stored for the idempotency key. The entries in
        `staying` must be unchanged too, as must observed files. If nothing was committed, no file is left behind.
        """
        if not pointers and mutation.key is None:
            return []
        f, caller = self._f, mutation.caller
        now_ms = f.clock.now_ms()
        displaced = NewGarbage(now_ms + f.garbage_grace_ms)

        async def work(tx: Transaction) -> list[Entry]:
            displaced.blobs.clear()
            await self._keys.keep(tx, mutation.key, answer)
            entries = [await self._point(tx, pointer, now_ms) for pointer in pointers]
            for entry in staying:
                if await tx.row(rows.IS_AT_VERSION, entry.id, entry.version_token) is None:
                    raise PointerMoved(f"{entry.kind} changed while the commit was prepared. name={entry.name}")
            for pointer in pointers:
                # An S3 client may have deleted or replaced them since: then the commit is validated again.
                await self._files.of(pointer.found.catalog).confirm(tx, pointer.observed)
            for pointer in pointers:
                if pointer.file is not None:
                    await pointer.file.place(tx, caller, now_ms, displaced)
            for pointer, entry in zip(pointers, entries, strict=True):
                if pointer.also is not None:
                    await pointer.also(tx, entry)
                await append_catalog_event(
                    f.outbox,
                    tx,
                    f"{entry.kind.noun}{pointer.event}",
                    caller,
                    now_ms,
                    pointer.found.catalog.name,
                    pointer.identifier.namespace,
                    entry,
                    operation=pointer.operation,
                    snapshot=pointer.snapshot,
                )
            return entries

        try:
            entries = await f.meta.transact(work)
        except Exception as error:
            # If the outcome is unknown, the files stay: a pointer may refer to them.
            if not getattr(error, "undecided", False):
                await self._discard(pointers)
            raise
        if displaced.blobs:
            f.garbage_collector.wake(displaced.blobs)
        return entries

    async def _point(self, tx: Transaction, pointer: PointerUpdate, now_ms: int) -> Entry:
        base = pointer.found.live
        token = uuid4().hex
        if base is None:
            entry = await self._insert(tx, pointer, token, now_ms)
        else:
            entry = base._replace(
                uuid=pointer.metadata.uuid or "",
                format_version=pointer.metadata.format_version,
                location=pointer.metadata.location,
                metadata_at=pointer.metadata_at,
                version_token=token,
                generation=base.generation + 1,
                updated_ms=now_ms,
            )
            moved = await tx.run(
                rows.MOVE_POINTER,
                entry.uuid,
                entry.format_version,
                entry.location,
                entry.metadata_at,
                entry.version_token,
                entry.generation,
                entry.updated_ms,
                entry.id,
                base.version_token,
            )
            if not moved:
                raise PointerMoved(f"{pointer.kind} changed while the commit was prepared. name={pointer.identifier}")
        if pointer.claim is not None:
            await self._claims.take(tx, pointer.claim)
        await tx.run(
            rows.INSERT_COMMIT,
            entry.id,
            entry.generation,
            pointer.commit_id or token,
            pointer.operation,
            pointer.writer,
            None if base is None else base.metadata_at,
            entry.metadata_at,
            None if base is None else base.version_token,
            entry.version_token,
            pointer.digest,
            pointer.requirements,
            now_ms,
        )
        return entry

    async def _insert(self, tx: Transaction, pointer: PointerUpdate, token: str, now_ms: int) -> Entry:
        # Looked up inside the transaction: the namespace may have been dropped since.
        found = await self._entries.find(tx, pointer.found.catalog.name, pointer.identifier)
        if found.entry is not None:
            raise name_taken(found.entry, pointer.identifier, pointer.kind)
        await check_unused(tx, pointer.entry_id)
        entry = Entry(
            pointer.entry_id,
            pointer.kind,
            found.catalog.id,
            found.namespace.id,
            pointer.identifier.name,
            pointer.metadata.uuid or "",
            pointer.metadata.format_version,
            pointer.metadata.location,
            pointer.metadata_at,
            token,
            1,
            now_ms,
            now_ms,
            protected=False,
        )
        await tx.row(rows.INSERT_ENTRY, *entry_columns(entry))
        return entry

    async def _discard(self, pointers: Sequence[PointerUpdate]) -> None:
        for pointer in pointers:
            if pointer.file is not None:
                try:
                    await pointer.file.discard()
                except LakebedError:
                    # The orphan sweep removes it: it is unreferenced.
                    continue
