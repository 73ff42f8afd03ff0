"""Syncs a table with its external table: reads the external state, decides, and moves the pointer.

The pointer and the state of the bridge change in one transaction. A failed sync leaves pointer, version and generation
unchanged.
"""

from __future__ import annotations

from dataclasses import replace
from typing import Final, NamedTuple, Protocol

import msgspec

from lakebed.catalog.entries import Entries, LiveEntry, LoadedEntry
from lakebed.catalog.events import append_catalog_event
from lakebed.catalog.idempotency import Mutation
from lakebed.catalog.model import Entry
from lakebed.catalog.tables.files import CatalogFiles
from lakebed.catalog.tables.registration import TableRegistration
from lakebed.core.errors import CommitConflict, LakebedError, NotFound, Throttled, Unavailable
from lakebed.meta.seam import Transaction
from lakebed.objects.context import ObjectContext
from lakebed.objects.model import Caller

from ..remote.client import RemoteCatalogs
from . import rows
from .decision import SyncStep, decide_sync, next_pause_seconds
from .metadata_folder import MetadataFolder
from .model import (
    Bridge,
    BridgedTable,
    BridgeState,
    ExternalCatalogKind,
    ExternalTable,
    SyncMode,
    SyncStatus,
    encode_state,
)
from .rest_catalog import RestCatalogTable
from .service import Bridges

SYNC_OPERATION: Final = "external-sync"
"""The operation of these commits in the commit log."""

_ATTEMPTS: Final = 5
_MAX_MESSAGE_CHARS: Final = 1000


class ExternalSource(Protocol):
    """A place that has the current state of an external table."""

    async def current(self) -> ExternalTable:
        """The current state. Raises Unavailable, Throttled, AccessDenied, NotFound, InvalidInput."""
        ...


class SyncResult(NamedTuple):
    """A table after a sync."""

    status: SyncStatus
    committed: LoadedEntry
    bridged: BridgedTable


class TableSync:
    """Syncs tables over their bridges, and records the results."""

    def __init__(
        self,
        object_context: ObjectContext,
        entries: Entries,
        files: CatalogFiles,
        registration: TableRegistration,
        bridges: Bridges,
        remotes: RemoteCatalogs,
    ) -> None:
        self._f = object_context
        self._entries = entries
        self._files = files
        self._registration = registration
        self._bridges = bridges
        self._remotes = remotes

    def source(self, bridged: BridgedTable, bridge: Bridge) -> ExternalSource:
        """The source of a readable bridge. Raises ExternalCatalogError if the settings do not allow its host."""
        if bridge.config.catalog is ExternalCatalogKind.FOLDER:
            return MetadataFolder(self._files.of(bridged.catalog), bridge.config.folder)
        return RestCatalogTable(self._remotes, bridge.config, self._bridges.secrets_of(bridge))

    async def sync(
        self, mutation: Mutation, bridged: BridgedTable, bridge: Bridge, external: ExternalTable, *, is_new: bool
    ) -> SyncResult:
        """Move the table to the external state if that loses no commit. Raises CommitConflict, NotFound.

        With `is_new` the bridge is not stored yet, and is stored with the result.
        """
        decision = decide_sync(bridged.entry, bridge.state, external, bridge.config.external_table_uuid)
        if decision.step is SyncStep.STAY:
            raise CommitConflict(decision.reason)
        local = bridged.live
        if decision.step is SyncStep.NOTHING and local is not None:
            return await self._record_unchanged(bridged, bridge, local, is_new=is_new)
        if (await self._files.of(bridged.catalog).stat([external.metadata_at]))[external.metadata_at] is None:
            raise NotFound(f"the metadata file is not on this server yet. metadata-location={external.metadata_at}")
        return await self.move(mutation, bridged, bridge, external.metadata_at, is_new=is_new)

    async def move(
        self,
        mutation: Mutation,
        bridged: BridgedTable,
        bridge: Bridge,
        metadata_at: str,
        *,
        commit_id: str = "",
        is_new: bool,
    ) -> SyncResult:
        """Register the table, or move its pointer from the metadata file in `bridged`."""
        local = bridged.live
        status = SyncStatus.REGISTERED if local is None else SyncStatus.COMMITTED
        recorded = bridge
        attempt = 1

        async def record(tx: Transaction, entry: Entry) -> None:
            nonlocal recorded
            state = self._synced(entry, status, action=status)
            recorded = await self._write(tx, bridge, state, is_new=is_new)

        while True:
            try:
                committed = await self._registration.register_table(
                    mutation,
                    bridged.catalog.name,
                    bridged.identifier,
                    metadata_at,
                    overwrite=local is not None,
                    expected_token=None if local is None else local.version_token,
                    operation=SYNC_OPERATION,
                    commit_id=commit_id,
                    also=record,
                    follows=True,
                )
            except CommitConflict:
                cleaned = None if local is None else await self._after_cleanup(bridged, local)
                if cleaned is None or attempt == _ATTEMPTS:
                    raise
                local, attempt = cleaned, attempt + 1
            else:
                return SyncResult(status, committed, bridged.after(committed.entry, recorded))

    async def _after_cleanup(self, bridged: BridgedTable, local: Entry) -> Entry | None:
        """The table at its present version, if nothing changed but files that maintenance removed."""
        found = (await self._entries.look_up(self._f.meta, bridged.catalog.name, bridged.identifier)).live
        if found is None or (found.id, found.metadata_at) != (local.id, local.metadata_at):
            return None
        return None if found.version_token == local.version_token else found

    async def _record_unchanged(
        self, bridged: BridgedTable, bridge: Bridge, local: Entry, *, is_new: bool
    ) -> SyncResult:
        """Both are the same: the table counts as synced, whichever commit brought it there."""
        state = self._synced(local, SyncStatus.UNCHANGED, action=bridge.state.action)

        async def work(tx: Transaction) -> Bridge:
            return await self._write(tx, bridge, state, is_new=is_new)

        recorded = await self._f.meta.transact(work)
        committed = await self._entries.with_metadata(LiveEntry(bridged.catalog, bridged.namespace, local))
        return SyncResult(SyncStatus.UNCHANGED, committed, bridged.after(local, recorded))

    # -- states ---------------------------------------------------------------------------------------------------

    def _synced(self, entry: Entry, status: SyncStatus, action: str) -> BridgeState:
        """The state of a bridge whose table equals the external table."""
        now_ms = self._f.clock.now_ms()
        return BridgeState(
            status=status,
            checked_ms=now_ms,
            entry=entry.id,
            synced_at=entry.metadata_at,
            synced_token=entry.version_token,
            synced_ms=now_ms,
            action=action,
        )

    async def _write(self, tx: Transaction, bridge: Bridge, state: BridgeState, *, is_new: bool) -> Bridge:
        """The step of a transaction that records a state; with `is_new`, the bridge itself. Raises CommitConflict."""
        recorded = replace(bridge, state=state, due_ms=self._next_due_ms(bridge, state))
        if is_new:
            await self._bridges.put(tx, recorded)
        elif not await self._set_state(tx, recorded):
            raise CommitConflict("the bridge was reconfigured or removed during the sync")
        return recorded

    async def fail(self, caller: Caller, bridged: BridgedTable, bridge: Bridge, error: LakebedError) -> None:
        """Record a failure, with an event if the status changed. A bridge reconfigured meanwhile stays unchanged."""
        f, before = self._f, bridge.state
        now_ms = f.clock.now_ms()
        state = msgspec.structs.replace(
            before,
            status=sync_status(error),
            message=str(error)[:_MAX_MESSAGE_CHARS],
            checked_ms=now_ms,
            failures=before.failures + 1,
        )

        async def work(tx: Transaction) -> None:
            written = await self._set_state(tx, replace(bridge, state=state, due_ms=self._next_due_ms(bridge, state)))
            if written and state.status is not before.status:
                await append_catalog_event(
                    f.outbox,
                    tx,
                    "TableBridgeFailed",
                    caller,
                    now_ms,
                    bridged.catalog.name,
                    bridged.identifier.namespace,
                    facts={"table": bridged.identifier.name, "status": state.status, "reason": state.message},
                )

        await f.meta.transact(work)

    async def _set_state(self, tx: Transaction, bridge: Bridge) -> int:
        key = (bridge.namespace_id, bridge.name, bridge.revision)
        return await tx.run(rows.SET_STATE, encode_state(bridge.state), bridge.due_ms, *key)

    def _next_due_ms(self, bridge: Bridge, state: BridgeState) -> int | None:
        if bridge.config.sync_mode is not SyncMode.POLL:
            return None
        return self._f.clock.now_ms() + next_pause_seconds(bridge.config.poll_seconds, state.failures) * 1000


def sync_status(error: LakebedError) -> SyncStatus:
    """The status of a sync that failed."""
    if isinstance(error, CommitConflict):
        return SyncStatus.CONFLICT
    if isinstance(error, NotFound):
        return SyncStatus.MISSING
    if isinstance(error, (Unavailable, Throttled)):
        return SyncStatus.UNREACHABLE
    return SyncStatus.REFUSED
