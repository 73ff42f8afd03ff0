"""Drops and restores tables and views.

A catalog with an undrop window keeps dropped entries, invisible and with their name in use, until they are restored or
the window ends; without one a drop is immediate. Files are removed only if a purge was requested, by a task; no other
table can use their directory before it ends.
"""

from __future__ import annotations

from collections.abc import Awaitable, Callable, Sequence
from dataclasses import dataclass
from typing import Final

import msgspec

from lakebed.core.access import root_of
from lakebed.core.errors import AlreadyExists, NoSuchNamespace, NoSuchTable, PointerMoved, TableProtected
from lakebed.governance.rbac import OPERATIONS, Privilege
from lakebed.governance.rbac.grant_cleanup import invalidate_entry_grants
from lakebed.meta.seam import Transaction
from lakebed.meta.tasks import TaskQueue
from lakebed.objects.context import ObjectContext
from lakebed.objects.model import Caller

from .. import rows
from ..access.authorization import Action, CatalogAuthorizer
from ..catalogs.service import CatalogService, undrop_window_ms
from ..entries import Entries, LiveEntry, no_such_entry
from ..events import append_catalog_event
from ..external.checks import check_internal_catalog
from ..idempotency import IdempotencyKeys, Mutation, StoredResponse
from ..identifiers import Identifier, Levels, levels_of
from ..locations.claims import retain
from ..model import Catalog, Entry, EntryKind, Page
from ..rows import ENTRY_COLUMNS, entry_from

PURGE_KIND: Final = "purge-table"
"""The kind of tasks that remove a dropped table's files."""

PURGING: Final = OPERATIONS["dropTable purge"].target
"""The privileges for dropping a table with its files."""

RenderTable = Callable[[Entry, bytes], bytes]
"""Renders the response with a table and its metadata document."""

DropStep = Callable[[Transaction], Awaitable[None]]
"""A further step of the transaction that drops a table; if it raises, the table is not dropped."""

_ATTEMPTS: Final = 5
_EXPIRED_A_RUN: Final = 100
_RESTRICTED: Final = "restricted principals cannot drop it"
"""The files may remain, without the policy."""


class PurgePayload(msgspec.Struct, frozen=True, kw_only=True):
    """The payload of a purge task."""

    catalog: str = msgspec.field(name="warehouse")
    bucket: int
    namespace: tuple[str, ...]
    name: str
    entry: str
    prefixes: tuple[str, ...]
    metadata_at: str
    bucket_name: str = ""
    """Empty in tasks from when it was the catalog's name."""


encode_purge = msgspec.json.Encoder().encode
decode_purge = msgspec.json.Decoder(PurgePayload).decode


@dataclass(frozen=True, slots=True)
class DroppedEntry:
    """A dropped table or view that can be restored."""

    namespace: Levels
    entry: Entry


class Dropping:
    """Drops, restores and protects tables and views."""

    def __init__(
        self,
        object_context: ObjectContext,
        authorizer: CatalogAuthorizer,
        catalogs: CatalogService,
        entries: Entries,
        keys: IdempotencyKeys,
        tasks: TaskQueue,
    ) -> None:
        self._f = object_context
        self._authorizer = authorizer
        self._catalogs = catalogs
        self._entries = entries
        self._keys = keys
        self._tasks = tasks

    async def drop(
        self, mutation: Mutation, catalog_name: str, identifier: Identifier, kind: EntryKind, *, purge: bool = False
    ) -> Entry:
        """Drop a table or view. Raises NoSuchTable, NoSuchView, TableProtected."""
        found = await self._entries.get(
            mutation.caller,
            catalog_name,
            identifier,
            kind,
            Action.DELETE_TABLE,
            privileges=PURGING if purge and kind is EntryKind.TABLE else None,
        )
        if purge:
            check_internal_catalog(found.catalog, f"purge a {kind}")
        await self._entries.check_unrestricted(mutation.caller, found, _RESTRICTED)
        return await self._drop(mutation, catalog_name, identifier, kind, StoredResponse(204), purge=purge)

    async def forget(
        self, mutation: Mutation, catalog_name: str, identifier: Identifier, *, also: DropStep
    ) -> Entry | None:
        """Drop a table that an external catalog dropped, for an authorized caller; None if the name is unknown.

        Immediately: a name that stays in use would block the external catalog's next table of that name. `also` commits
        with it, and runs also if there is nothing to drop. Raises TableProtected.
        """
        try:
            return await self._drop(
                mutation, catalog_name, identifier, EntryKind.TABLE, StoredResponse(204), restorable=False, also=also
            )
        except (NoSuchTable, NoSuchNamespace):

            async def work(tx: Transaction) -> None:
                await self._keys.keep(tx, mutation.key, StoredResponse(204))
                await also(tx)

            await self._f.meta.transact(work)
            return None

    async def unregister(
        self, mutation: Mutation, catalog_name: str, identifier: Identifier, show: RenderTable
    ) -> bytes:
        """Remove a table's entry and return its last state. Raises NoSuchTable, TableProtected.

        The response is stored for the request's idempotency key: the table cannot be loaded again.
        """
        for attempt in range(1, _ATTEMPTS + 1):
            found = await self._entries.load(
                mutation.caller, catalog_name, identifier, EntryKind.TABLE, Action.DELETE_TABLE
            )
            entry, document = found.entry, show(found.entry, found.metadata.document)
            await self._entries.check_unrestricted(mutation.caller, found, _RESTRICTED)
            try:
                await self._drop(
                    mutation, catalog_name, identifier, entry.kind, StoredResponse(200, body=document), last_seen=entry
                )
            except PointerMoved:
                if attempt == _ATTEMPTS:
                    raise
            else:
                return document
        raise AssertionError("unreachable")

    async def _drop(
        self,
        mutation: Mutation,
        catalog_name: str,
        identifier: Identifier,
        kind: EntryKind,
        answer: StoredResponse,
        *,
        purge: bool = False,
        last_seen: Entry | None = None,
        restorable: bool = True,
        also: DropStep | None = None,
    ) -> Entry:
        f, caller = self._f, mutation.caller
        now_ms = f.clock.now_ms()

        async def work(tx: Transaction) -> Entry:
            await self._keys.keep(tx, mutation.key, answer)
            found = await self._entries.find(tx, catalog_name, identifier)
            entry = found.live
            if entry is None or entry.kind is not kind:
                raise no_such_entry(identifier, kind)
            if entry.protected:
                raise TableProtected(
                    f"{kind} is protected from deletion; disable the protection first. name={identifier}"
                )
            if last_seen is not None and (entry.id, entry.version_token) != (last_seen.id, last_seen.version_token):
                raise PointerMoved(f"{kind} changed while it was read. name={identifier}")
            if also is not None:
                await also(tx)
            window_ms = undrop_window_ms(found.catalog) if restorable else 0
            if window_ms:
                await tx.run(rows.MARK_DROPPED, now_ms, now_ms + window_ms, int(purge), entry.id)
            else:
                await self._remove(tx, found.catalog, identifier, entry, caller, now_ms, purge=purge)
            facts = {"purge": "true" if purge else "false", "restorable": "true" if window_ms else "false"}
            await self._append_event(tx, "Dropped", caller, now_ms, catalog_name, identifier, entry, facts)
            return entry

        return await f.meta.transact(work)

    async def dropped(self, caller: Caller, catalog_name: str, *, after: str, limit: int) -> Page[DroppedEntry]:
        """Dropped entries that can be restored, by id."""
        catalog = await self._catalogs.find(self._f.meta, catalog_name)
        await self._authorizer.check(
            caller, catalog, Action.LIST_TABLES, privileges=(Privilege.TABLE_LIST, Privilege.VIEW_LIST)
        )
        found = await self._f.meta.rows(rows.DROPPED_IN, catalog.id, after, limit + 1)
        return Page.of([DroppedEntry(levels_of(row[ENTRY_COLUMNS]), entry_from(row)) for row in found], limit)

    async def restore(self, mutation: Mutation, catalog_name: str, identifier: Identifier) -> Entry:
        """Restore a dropped entry. Raises NoSuchTable if none of that name was dropped, AlreadyExists if it is live."""
        f, caller = self._f, mutation.caller
        lookup = await self._entries.look_up(f.meta, catalog_name, identifier)
        await self._authorizer.check(
            caller,
            lookup.catalog,
            Action.CREATE_TABLE,
            namespace=identifier.namespace,
            name=identifier.name,
            kind=None if lookup.entry is None else lookup.entry.kind,
        )
        now_ms = f.clock.now_ms()

        async def work(tx: Transaction) -> Entry:
            entry = (await self._entries.find(tx, catalog_name, identifier)).entry
            if entry is None:
                raise NoSuchTable(f"no dropped table or view has this name, or its window has ended. name={identifier}")
            await self._keys.keep(tx, mutation.key, StoredResponse(200, entry.id))
            if entry.dropped_ms is None:
                raise AlreadyExists(f"table or view is not dropped. name={identifier}")
            await tx.run(rows.RESTORE_ENTRY, now_ms, entry.id)
            restored = entry._replace(dropped_ms=None, expires_ms=None, purge=False, updated_ms=now_ms)
            await self._append_event(tx, "Restored", caller, now_ms, catalog_name, identifier, restored)
            return restored

        return await f.meta.transact(work)

    async def purge_now(self, mutation: Mutation, catalog_name: str, identifier: Identifier, *, files: bool) -> None:
        """Remove a dropped entry before its window ends; with `files`, a task removes its files."""
        f, caller = self._f, mutation.caller
        lookup = await self._entries.look_up(f.meta, catalog_name, identifier)
        kind = EntryKind.TABLE if lookup.entry is None else lookup.entry.kind
        await self._authorizer.check(
            caller,
            lookup.catalog,
            Action.DELETE_TABLE,
            namespace=identifier.namespace,
            name=identifier.name,
            kind=kind,
            privileges=None if kind is EntryKind.VIEW or not files else PURGING,
        )
        if files:
            check_internal_catalog(lookup.catalog, f"purge a {kind}")
        if lookup.entry is not None:
            await self._entries.check_unrestricted(caller, lookup.found, _RESTRICTED)
        now_ms = f.clock.now_ms()

        async def work(tx: Transaction) -> None:
            await self._keys.keep(tx, mutation.key, StoredResponse(204))
            found = await self._entries.find(tx, catalog_name, identifier)
            entry = found.entry
            if entry is None or entry.dropped_ms is None:
                raise NoSuchTable(f"no dropped table or view has this name. name={identifier}")
            await self._remove(tx, found.catalog, identifier, entry, caller, now_ms, purge=files or entry.purge)
            await self._append_event(tx, "Expired", caller, now_ms, catalog_name, identifier, entry)

        await f.meta.transact(work)

    async def protect(
        self, mutation: Mutation, catalog_name: str, identifier: Identifier, kind: EntryKind, *, protected: bool
    ) -> Entry:
        """Enable or disable deletion protection."""
        f, caller = self._f, mutation.caller
        before = (await self._entries.get(caller, catalog_name, identifier, kind, Action.DELETE_TABLE)).entry
        now_ms = f.clock.now_ms()

        async def work(tx: Transaction) -> Entry:
            await self._keys.keep(tx, mutation.key, StoredResponse(200, before.id))
            entry = (await self._entries.find(tx, catalog_name, identifier)).live
            if entry is None or entry.kind is not kind:
                raise no_such_entry(identifier, kind)
            await tx.run(rows.PROTECT_ENTRY, int(protected), entry.id)
            changed = entry._replace(protected=protected)
            change = "Protected" if protected else "Unprotected"
            await self._append_event(tx, change, caller, now_ms, catalog_name, identifier, changed)
            return changed

        return await f.meta.transact(work)

    async def expire_dropped(self) -> int:
        """Remove dropped entries whose window has ended. Returns their number."""
        f = self._f
        now_ms = f.clock.now_ms()

        async def work(tx: Transaction) -> int:
            expired = await tx.rows(rows.EXPIRED, now_ms, _EXPIRED_A_RUN)
            for row in expired:
                entry, catalog = entry_from(row), rows.catalog_from(row[ENTRY_COLUMNS + 1 :])
                system = Caller(root_of(catalog.bucket.owner))
                identifier = Identifier(levels_of(row[ENTRY_COLUMNS]), entry.name)
                await self._remove(tx, catalog, identifier, entry, system, now_ms, purge=entry.purge)
                await self._append_event(tx, "Expired", system, now_ms, catalog.name, identifier, entry)
            return len(expired)

        return await f.meta.transact(work)

    async def discard(self, known: LiveEntry) -> None:
        """Remove a table of the server with its files, regardless of the undrop window."""
        now_ms = self._f.clock.now_ms()
        catalog, _, entry = known
        system = Caller(root_of(catalog.bucket.owner))

        async def work(tx: Transaction) -> None:
            await self._remove(tx, catalog, known.identifier, entry, system, now_ms, purge=True)
            facts = {"purge": "true", "restorable": "false"}
            await self._append_event(tx, "Dropped", system, now_ms, catalog.name, known.identifier, entry, facts)

        await self._f.meta.transact(work)

    async def _remove(
        self,
        tx: Transaction,
        catalog: Catalog,
        identifier: Identifier,
        entry: Entry,
        caller: Caller,
        now_ms: int,
        *,
        purge: bool,
    ) -> None:
        await invalidate_entry_grants(tx, entry.id)
        await tx.run(rows.DELETE_ENTRY, entry.id)
        if not purge:
            await retain(tx, caller.principal, catalog, identifier, entry.id, now_ms)
            return
        prefixes: Sequence[tuple[str]] = await tx.rows(rows.LOCATIONS_OF, entry.id)
        purge_task = PurgePayload(
            catalog=catalog.name,
            bucket=catalog.bucket.id,
            bucket_name=catalog.bucket.name,
            namespace=identifier.namespace,
            name=entry.name,
            entry=entry.id,
            prefixes=tuple(row[0] for row in prefixes),
            metadata_at=entry.metadata_at,
        )
        await self._tasks.enqueue(tx, PURGE_KIND, encode_purge(purge_task), dedupe=entry.id)

    async def _append_event(
        self,
        tx: Transaction,
        change: str,
        caller: Caller,
        now_ms: int,
        catalog_name: str,
        identifier: Identifier,
        entry: Entry,
        facts: dict[str, str] | None = None,
    ) -> None:
        kind, namespace = f"{entry.kind.noun}{change}", identifier.namespace
        await append_catalog_event(
            self._f.outbox, tx, kind, caller, now_ms, catalog_name, namespace, entry, facts=facts
        )
