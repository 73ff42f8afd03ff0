"""Follows the other side: asks where it is, decides, and moves.

The pointer and what is recorded of the bridge move in one transaction. A look that comes to nothing leaves pointer,
version and generation as they were.
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
from lakebed.net.hosts import AllowedHosts
from lakebed.net.http import Http
from lakebed.objects.context import ObjectContext

from .decision import Step, decide
from .metadata_folder import MetadataFolder
from .model import Bridge, Bridged, BridgedCatalogKind, ExternalTable, SyncStatus
from .outcomes import Outcomes
from .rest_catalog import RestCatalog
from .service import Bridges

OPERATION: Final = "external-sync"
"""What the log of commits says of them."""

_ATTEMPTS: Final = 5


class Source(Protocol):
    """The other side."""

    async def current(self) -> ExternalTable:
        """Where the table is there. Raises Unavailable, Throttled, AccessDenied, NotFound, InvalidInput."""
        ...


class Synced(NamedTuple):
    """A table after a look at the other side."""

    status: SyncStatus
    committed: Committed
    bridged: Bridged


class Following:
    """Follows bridges."""

    def __init__(
        self,
        object_context: ObjectContext,
        entries: Entries,
        files: TableFiles,
        registration: TableRegistration,
        bridges: Bridges,
        outcomes: Outcomes,
        http: Http,
        hosts: AllowedHosts,
    ) -> None:
        self._f = object_context
        self._entries = entries
        self._files = files
        self._registration = registration
        self._bridges = bridges
        self._outcomes = outcomes
        self._http = http
        self._hosts = hosts

    def source(self, bridge: Bridge) -> Source:
        """The external catalog of a bridge. Raises ExternalCatalogError if the settings do not allow its host."""
        if bridge.config.catalog is BridgedCatalogKind.FOLDER:
            return MetadataFolder(self._f.meta, self._files, bridge.config.folder)
        return RestCatalog(self._http, self._hosts, self._f.clock, bridge.config, self._bridges.secrets_of(bridge))

    async def follow(
        self, mutation: Mutation, bridged: Bridged, bridge: Bridge, external: ExternalTable, *, is_new: bool
    ) -> Synced:
        """Go where the other side is, if the table may. Raises CommitConflict, NotFound, and what registering raises.

        `is_new` says that the bridge is not stored yet; it is stored with what comes of it.
        """
        decision = decide(bridged.entry, bridge.state, external, bridge.config.external_table_uuid)
        if decision.step is Step.STAY:
            raise CommitConflict(decision.reason)
        local = bridged.live
        if decision.step is Step.NOTHING and local is not None:
            return await self._stay(bridged, bridge, local, is_new=is_new)
        if (await self._files.stat([external.metadata_at]))[external.metadata_at] is None:
            raise NotFound(f"the metadata file is not on this server (yet). metadata-location={external.metadata_at}")
        return await self.move(mutation, bridged, bridge, external.metadata_at, is_new=is_new)

    async def move(
        self,
        mutation: Mutation,
        bridged: Bridged,
        bridge: Bridge,
        metadata_at: str,
        *,
        commit_id: str = "",
        is_new: bool,
    ) -> Synced:
        """Register the table, or move its pointer from the metadata file that was looked up."""
        local = bridged.live
        status = SyncStatus.REGISTERED if local is None else SyncStatus.COMMITTED
        recorded = bridge
        attempt = 1

        async def record(tx: Transaction, entry: Entry) -> None:
            nonlocal recorded
            state = self._outcomes.synced(entry, status, action=status)
            recorded = await self._outcomes.write(tx, bridge, state, is_new=is_new)

        while True:
            try:
                committed = await self._registration.register_table(
                    mutation,
                    bridged.catalog.name,
                    bridged.identifier,
                    metadata_at,
                    overwrite=local is not None,
                    expected_token=None if local is None else local.version_token,
                    operation=OPERATION,
                    commit_id=commit_id,
                    also=record,
                    follows=True,
                )
            except CommitConflict:
                tidied = None if local is None else await self._tidied(bridged, local)
                if tidied is None or attempt == _ATTEMPTS:
                    raise
                local, attempt = tidied, attempt + 1
            else:
                return Synced(status, committed, bridged.after(committed.entry, recorded))

    async def _tidied(self, bridged: Bridged, local: Entry) -> Entry | None:
        """The table at its present version, if nothing happened to it but that maintenance removed files."""
        now = (await self._entries.look_up(self._f.meta, bridged.catalog.name, bridged.identifier)).live
        if now is None or (now.id, now.metadata_at) != (local.id, local.metadata_at):
            return None
        return None if now.version_token == local.version_token else now

    async def _stay(self, bridged: Bridged, bridge: Bridge, local: Entry, *, is_new: bool) -> Synced:
        """Both are the same: what is here counts as synced, whoever brought it there."""
        state = self._outcomes.synced(local, SyncStatus.UNCHANGED, action=bridge.state.action)

        async def work(tx: Transaction) -> Bridge:
            return await self._outcomes.write(tx, bridge, state, is_new=is_new)

        recorded = await self._f.meta.transact(work)
        found = await self._entries.find(self._f.meta, bridged.catalog.name, bridged.identifier)
        committed = Committed(found, local, await self._entries.metadata(local))
        return Synced(SyncStatus.UNCHANGED, committed, bridged.after(local, recorded))
