"""Syncs a table with its external table: reads the external state, decides, and moves the pointer.

The pointer and the state of the bridge change in one transaction. A failed sync leaves pointer, version and generation
unchanged.
"""

from __future__ import annotations

from typing import Final, NamedTuple, Protocol

from lakebed.catalog.commits.service import Committed
from lakebed.catalog.entries import Entries
from lakebed.catalog.idempotency import Mutation
from lakebed.catalog.model import Entry
from lakebed.catalog.tables.files import TableFiles
from lakebed.catalog.tables.registration import TableRegistration
from lakebed.core.errors import CommitConflict, NotFound
from lakebed.meta.seam import Transaction
from lakebed.objects.context import ObjectContext

from ..remote.client import RemoteCatalogs
from .decision import SyncStep, decide_sync
from .metadata_folder import MetadataFolder
from .model import Bridge, BridgedTable, ExternalCatalogKind, ExternalTable, SyncStatus
from .rest_catalog import RestCatalogTable
from .service import Bridges
from .sync_state import SyncStates

SYNC_OPERATION: Final = "external-sync"
"""The operation of these commits in the commit log."""

_ATTEMPTS: Final = 5


class ExternalSource(Protocol):
    """A place that has the current state of an external table."""

    async def current(self) -> ExternalTable:
        """The current state. Raises Unavailable, Throttled, AccessDenied, NotFound, InvalidInput."""
        ...


class SyncResult(NamedTuple):
    """A table after a sync."""

    status: SyncStatus
    committed: Committed
    bridged: BridgedTable


class TableSync:
    """Syncs tables over their bridges."""

    def __init__(
        self,
        object_context: ObjectContext,
        entries: Entries,
        files: TableFiles,
        registration: TableRegistration,
        bridges: Bridges,
        states: SyncStates,
        remotes: RemoteCatalogs,
    ) -> None:
        self._f = object_context
        self._entries = entries
        self._files = files
        self._registration = registration
        self._bridges = bridges
        self._states = states
        self._remotes = remotes

    def source(self, bridge: Bridge) -> ExternalSource:
        """The source of a readable bridge. Raises ExternalCatalogError if the settings do not allow its host."""
        if bridge.config.catalog is ExternalCatalogKind.FOLDER:
            return MetadataFolder(self._f.meta, self._files, bridge.config.folder)
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
        if (await self._files.stat([external.metadata_at]))[external.metadata_at] is None:
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
            state = self._states.synced(entry, status, action=status)
            recorded = await self._states.write(tx, bridge, state, is_new=is_new)

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
        state = self._states.synced(local, SyncStatus.UNCHANGED, action=bridge.state.action)

        async def work(tx: Transaction) -> Bridge:
            return await self._states.write(tx, bridge, state, is_new=is_new)

        recorded = await self._f.meta.transact(work)
        found = await self._entries.find(self._f.meta, bridged.catalog.name, bridged.identifier)
        committed = Committed(found, local, await self._entries.metadata(local))
        return SyncResult(SyncStatus.UNCHANGED, committed, bridged.after(local, recorded))
