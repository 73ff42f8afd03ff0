"""Renames tables and views, within a namespace or across: identity and files stay."""

from __future__ import annotations

from lakebed.core.errors import AlreadyExists
from lakebed.governance.rbac import OPERATIONS
from lakebed.meta.seam import Transaction
from lakebed.objects.context import ObjectContext

from .. import rows
from ..access.authorization import Action, CatalogAuthorizer
from ..entries import Entries, name_taken, no_such_entry
from ..events import append_catalog_event
from ..external.bridges.rows import BridgeKey, move_bridge
from ..external.checks import check_internal_catalog
from ..idempotency import IdempotencyKeys, Mutation, StoredResponse
from ..identifiers import Identifier
from ..model import Entry, EntryKind


class Renaming:
    """Renames."""

    def __init__(
        self, object_context: ObjectContext, authorizer: CatalogAuthorizer, entries: Entries, keys: IdempotencyKeys
    ) -> None:
        self._f = object_context
        self._authorizer = authorizer
        self._entries = entries
        self._keys = keys

    async def rename(
        self, mutation: Mutation, catalog_name: str, source: Identifier, target: Identifier, kind: EntryKind
    ) -> None:
        """Rename a table or view. A table's bridge moves with it.

        Raises NoSuchTable, NoSuchView; NoSuchNamespace for the target's; AlreadyExists if the target name is in use, or
        if both names have a bridge.
        """
        f, caller = self._f, mutation.caller
        found = await self._entries.get(caller, catalog_name, source, kind, Action.RENAME_TABLE)
        await self._authorizer.check(
            caller,
            found.catalog,
            Action.CREATE_TABLE,
            namespace=target.namespace,
            name=target.name,
            privileges=OPERATIONS["renameTable" if kind is EntryKind.TABLE else "renameView"].secondary,
        )
        check_internal_catalog(found.catalog, f"rename a {kind}")
        # Other policies, or none, apply at the target.
        await self._entries.check_unrestricted(caller, found, "restricted principals cannot rename it")
        now_ms = f.clock.now_ms()

        async def work(tx: Transaction) -> None:
            await self._keys.keep(tx, mutation.key, StoredResponse(204))
            entry = (await self._entries.find(tx, catalog_name, source)).live
            if entry is None or entry.kind is not kind:
                raise no_such_entry(source, kind)
            there = await self._entries.find(tx, catalog_name, target)
            if there.entry is not None and there.entry.id != entry.id:
                raise _target_taken(there.entry, source, target, kind)
            if kind is EntryKind.TABLE:
                await move_bridge(
                    tx, BridgeKey(entry.namespace, source.name), BridgeKey(there.namespace.id, target.name)
                )
            await tx.run(rows.RENAME_ENTRY, there.namespace.id, target.name, now_ms, entry.id)
            await append_catalog_event(
                f.outbox,
                tx,
                f"{kind.noun}Renamed",
                caller,
                now_ms,
                catalog_name,
                target.namespace,
                entry._replace(namespace=there.namespace.id, name=target.name),
                facts={"from": str(source)},
            )

        await f.meta.transact(work)


def _target_taken(entry: Entry, source: Identifier, target: Identifier, kind: EntryKind) -> AlreadyExists:
    if entry.dropped_ms is not None:
        return name_taken(entry, target, kind)
    return AlreadyExists(f"Cannot rename {source} to {target}. {entry.kind.words} already exists")
