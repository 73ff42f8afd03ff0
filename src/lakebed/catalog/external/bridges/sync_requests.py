"""Syncs a table on request: to a given metadata file, or to the current state of the external table."""

from __future__ import annotations

from typing import NamedTuple

from lakebed.catalog.commits.commit_log import CommitRecord
from lakebed.catalog.commits.metadata_pointers import PointerMoves, same_file
from lakebed.catalog.entries import LiveEntry
from lakebed.catalog.idempotency import Mutation
from lakebed.catalog.identifiers import Identifier
from lakebed.catalog.model import Catalog
from lakebed.catalog.tables.files import CatalogFiles
from lakebed.core.errors import CommitConflict, InvalidInput, LakebedError
from lakebed.iceberg.metadata.parsing import parse_table
from lakebed.objects.model import Caller

from ..remote.model import NO_SECRETS, RemoteSecrets
from .model import Bridge, BridgeConfig, BridgedTable, SyncStatus
from .service import Bridges
from .sync import SYNC_OPERATION, SyncResult, TableSync


class SyncRequest(NamedTuple):
    """The parameters of a sync."""

    config: BridgeConfig | None = None
    """A new configuration of the bridge; None for the stored one."""
    secrets: RemoteSecrets = NO_SECRETS
    metadata_at: str | None = None
    """The metadata file of the external table; None to read it from the external catalog."""
    expected_token: str | None = None
    expected_at: str | None = None
    commit_id: str = ""


class SyncOnRequest:
    """Syncs on request."""

    def __init__(self, files: CatalogFiles, pointers: PointerMoves, bridges: Bridges, table_sync: TableSync) -> None:
        self._files = files
        self._pointers = pointers
        self._bridges = bridges
        self._table_sync = table_sync

    async def sync(
        self, mutation: Mutation, catalog_name: str, identifier: Identifier, request: SyncRequest, now_ms: int
    ) -> SyncResult:
        """Sync now. Raises InvalidInput, CommitConflict; as registration.

        A new configuration is stored with the move, or not at all. A failure is recorded if the bridge existed before.
        """
        caller = mutation.caller
        if request.config is not None:
            await self._bridges.authorize_config(caller, catalog_name, identifier, request.config, request.secrets)
        # Before any request is sent or result recorded.
        await self._bridges.authorize_sync(caller, catalog_name, identifier)
        bridged = await self._bridges.get(caller, catalog_name, identifier)
        bridge = bridged.bridge
        if request.config is not None:
            bridge = self._bridges.new(bridged, request.config, request.secrets, now_ms)
        if bridge is None:
            raise InvalidInput("the table has no bridge: name the catalog in the request", argument="catalog")
        repeated = await self._repeated(bridged, request)
        if repeated is not None:
            return repeated
        _check_request(bridged, bridge, request)
        try:
            return await self._sync(mutation, bridged, bridge, request)
        except LakebedError as error:
            if bridged.bridge is not None:
                await self._table_sync.fail(caller, bridged, bridged.bridge, error)
            raise

    async def _sync(
        self, mutation: Mutation, bridged: BridgedTable, bridge: Bridge, request: SyncRequest
    ) -> SyncResult:
        is_new = request.config is not None
        if request.metadata_at is None:
            external = await self._table_sync.source(bridged, bridge).current()
            return await self._table_sync.sync(mutation, bridged, bridge, external, is_new=is_new)
        local = bridged.live
        if local is not None and (
            local.version_token != request.expected_token or not same_file(local.metadata_at, request.expected_at or "")
        ):
            raise CommitConflict(f"the table is not at the expected version. table={bridged.identifier}")
        await self._check_uuid(mutation.caller, bridged.catalog, bridge.config.external_table_uuid, request.metadata_at)
        return await self._table_sync.move(
            mutation, bridged, bridge, request.metadata_at, commit_id=request.commit_id, is_new=is_new
        )

    async def _repeated(self, bridged: BridgedTable, request: SyncRequest) -> SyncResult | None:
        """The result of an earlier sync with the same commit id."""
        local = bridged.live
        if local is None or not request.commit_id or bridged.bridge is None:
            return None
        known = LiveEntry(bridged.catalog, bridged.namespace, local)

        def is_this(record: CommitRecord) -> bool:
            return record.operation == SYNC_OPERATION and record.metadata_at == request.metadata_at

        repeated = await self._pointers.repeated(known, request.commit_id, is_this)
        if repeated is None:
            return None
        was_first = repeated.record.previous_at is None
        status = SyncStatus.REGISTERED if was_first else SyncStatus.COMMITTED
        return SyncResult(status, repeated.committed, bridged)

    async def _check_uuid(self, caller: Caller, catalog: Catalog, expected: str | None, metadata_at: str) -> None:
        if expected is None:
            return
        found = parse_table(await self._files.of(catalog).read_metadata_for(caller, metadata_at)).uuid
        if found is None or found.lower() != expected.lower():
            raise InvalidInput(
                f"the metadata file belongs to another table. uuid={found} expected={expected}",
                argument="external-table-uuid",
            )


def _check_request(bridged: BridgedTable, bridge: Bridge, request: SyncRequest) -> None:
    """Return if the parameters fit the bridge and the table. Raises InvalidInput."""
    if request.metadata_at is None:
        if not bridge.config.catalog.is_readable:
            raise InvalidInput(
                f"this server cannot read a {bridge.config.catalog}: give the metadata-location of the table",
                argument="metadata-location",
            )
        return
    expected = (request.expected_token, request.expected_at)
    if bridged.live is None and expected != (None, None):
        raise InvalidInput(
            "the table does not exist yet: omit expected-version-token and expected-metadata-location",
            argument="expected-version-token",
        )
    if bridged.live is not None and None in expected:
        raise InvalidInput(
            "the table exists: expected-version-token and expected-metadata-location are required",
            argument="expected-version-token",
        )
