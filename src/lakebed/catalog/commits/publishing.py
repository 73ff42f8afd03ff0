"""Moves pointers: the one transaction in which tables and views come into being and change.

All of it commits or none: the pointers of any number of tables, their metadata files (which are objects as any other),
the log of commits, the answer under the idempotency key and the events. So there is nothing to recover after a crash,
and no pointer to a file that is not there.
"""

from __future__ import annotations

from collections.abc import Awaitable, Callable, Mapping, Sequence
from dataclasses import dataclass, field
from typing import Final
from uuid import uuid4

from lakebed.core.errors import AlreadyExists, LakebedError, PointerMoved
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
from ..tables.files import FileStat, PreparedFile, TableFiles

CREATED: Final = "Created"
COMMITTED: Final = "Committed"

PublishStep = Callable[[Transaction, Entry], Awaitable[None]]
"""A further step of the transaction that moves a pointer; what it raises leaves the pointer where it was."""


@dataclass(frozen=True, slots=True, kw_only=True)
class PointerUpdate:
    """Where one pointer is to go."""

    found: ResolvedName
    """What was there when the change was prepared: the pointer moves only from there."""
    identifier: Identifier
    kind: EntryKind
    entry_id: str
    """Of the entry that is there, or of the one that will be."""
    uuid: str
    format_version: int
    location: str
    properties: Mapping[str, str]
    metadata_at: str
    file: PreparedFile | None = None
    """The metadata file, unless it is there already."""
    claim: LocationClaim | None
    """The directories that it takes; None where it keeps those that it has."""
    event: str = COMMITTED
    operation: str = ""
    commit_id: str = ""
    writer: str = ""
    digest: str = ""
    requirements: bytes = b"[]"
    snapshot: int = 0
    facts: Mapping[str, str] | None = None
    observed: Mapping[str, FileStat] = field(default_factory=dict)
    """The files that were found good when the change was checked: it stands only on these."""
    also: PublishStep | None = None
    """What else is recorded with the move, if something is."""


async def check_unused(reader: Reader, entry_id: str) -> None:
    """Return if an id is free for a new entry. Raises AlreadyExists.

    Clients choose the identity of tables that they stage. One that is in use, if only by a purge that is to come, has
    directories that must not change hands.
    """
    if await reader.row(rows.LOCATIONS_OF, entry_id) is not None:
        raise AlreadyExists(f"another table has this uuid, or had it and is not purged yet. uuid={entry_id}")


class Publisher:
    """Moves pointers."""

    def __init__(
        self,
        object_context: ObjectContext,
        files: TableFiles,
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
        """Move them all, or none. Raises PointerMoved, AlreadyExists, LocationConflict, NoSuchNamespace.

        The entries come back in the order of the pointers; `answer` is what the request's key keeps. Those in
        `staying` must be where they were, as those that move, and files that were observed as they were seen. If
        nothing was committed, no file is left behind.
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
                    raise PointerMoved(f"the {entry.kind} changed while the commit was prepared: {entry.name}")
            for pointer in pointers:
                # A client of the store may have deleted or replaced them since: then the commit is checked again.
                await self._files.confirm(tx, pointer.observed)
            for pointer in pointers:
                if pointer.file is not None:
                    await self._files.place(tx, caller, pointer.file, now_ms, displaced)
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
                    facts=dict(pointer.facts or {}),
                )
            return entries

        try:
            entries = await f.meta.transact(work)
        except Exception as error:
            # After an unknown outcome the files stay: a pointer may name them.
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
                uuid=pointer.uuid,
                format_version=pointer.format_version,
                location=pointer.location,
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
                raise PointerMoved(f"the {pointer.kind} changed while the commit was prepared: {pointer.identifier}")
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
        # As it is inside the transaction: the namespace may have been dropped meanwhile.
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
            pointer.uuid,
            pointer.format_version,
            pointer.location,
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
                    await self._files.discard(pointer.file)
                except LakebedError:
                    # The sweeper finds it: nothing refers to it.
                    continue
