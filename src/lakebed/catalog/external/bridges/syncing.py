"""Follows the other side on an operator's word: to where he says that it is, or to where it says itself."""

from __future__ import annotations

from typing import NamedTuple

from lakebed.catalog.commits.commit_log import CommitRecord
from lakebed.catalog.commits.metadata_pointers import PointerMoves, same_file
from lakebed.catalog.entries import Entries
from lakebed.catalog.idempotency import Mutation
from lakebed.catalog.identifiers import Identifier
from lakebed.catalog.tables.files import TableFiles, unpack_metadata
from lakebed.core.errors import CommitConflict, InvalidInput, LakebedError, NotFound
from lakebed.iceberg.metadata.parsing import parse_table
from lakebed.meta.seam import MetaStore
from lakebed.objects.model import Caller

from ..remote.model import NO_SECRETS, RemoteSecrets
from .following import OPERATION, Following, Synced
from .model import Bridge, BridgeConfig, Bridged, SyncStatus
from .outcomes import Outcomes
from .service import Bridges


class SyncRequest(NamedTuple):
    """What an operator asks for."""

    config: BridgeConfig | None = None
    """A new configuration of the bridge; None for the one that is there."""
    secrets: RemoteSecrets = NO_SECRETS
    metadata_at: str | None = None
    """Where the table is on the other side; None if the other side is to be asked."""
    expected_token: str | None = None
    expected_at: str | None = None
    commit_id: str = ""


class Syncing:
    """Syncs on demand."""

    def __init__(
        self,
        meta: MetaStore,
        entries: Entries,
        files: TableFiles,
        pointers: PointerMoves,
        bridges: Bridges,
        outcomes: Outcomes,
        following: Following,
    ) -> None:
        self._meta = meta
        self._entries = entries
        self._files = files
        self._pointers = pointers
        self._bridges = bridges
        self._outcomes = outcomes
        self._following = following

    async def sync(
        self, mutation: Mutation, catalog_name: str, identifier: Identifier, request: SyncRequest, now_ms: int
    ) -> Synced:
        """Follow the other side now. Raises InvalidInput, CommitConflict, and what registering raises.

        A new configuration is stored with the move, or not at all. Of a bridge that was there, what went wrong is
        recorded too.
        """
        caller = mutation.caller
        if request.config is not None:
            await self._bridges.admit_config(caller, catalog_name, identifier, request.config, request.secrets)
        # Before anybody is asked or anything is recorded.
        await self._bridges.admit_move(caller, catalog_name, identifier)
        bridged = await self._bridges.get(caller, catalog_name, identifier)
        bridge = bridged.bridge
        if request.config is not None:
            bridge = self._bridges.new(bridged, request.config, request.secrets, now_ms)
        if bridge is None:
            raise InvalidInput("no bridge is configured, and the request names no catalog", argument="catalog")
        repeated = await self._repeated(bridged, request)
        if repeated is not None:
            return repeated
        _check_request(bridged, bridge, request)
        try:
            return await self._sync(mutation, bridged, bridge, request)
        except LakebedError as error:
            if bridged.bridge is not None:
                await self._outcomes.fail(caller, bridged, bridged.bridge, error)
            raise

    async def _sync(self, mutation: Mutation, bridged: Bridged, bridge: Bridge, request: SyncRequest) -> Synced:
        is_new = request.config is not None
        if request.metadata_at is None:
            external = await self._following.source(bridge).current()
            return await self._following.follow(mutation, bridged, bridge, external, is_new=is_new)
        local = bridged.live
        if local is not None and (
            local.version_token != request.expected_token or not same_file(local.metadata_at, request.expected_at or "")
        ):
            raise CommitConflict(f"the table is not at the version that the sync expects: {bridged.identifier}")
        await self._check_uuid(mutation.caller, bridge.config.external_table_uuid, request.metadata_at)
        return await self._following.move(
            mutation, bridged, bridge, request.metadata_at, commit_id=request.commit_id, is_new=is_new
        )

    async def _repeated(self, bridged: Bridged, request: SyncRequest) -> Synced | None:
        """The answer to a sync that was made before, by its id."""
        local = bridged.live
        if local is None or not request.commit_id or bridged.bridge is None:
            return None
        found = await self._entries.find(self._meta, bridged.catalog.name, bridged.identifier)

        def is_this(record: CommitRecord) -> bool:
            return record.operation == OPERATION and record.metadata_at == request.metadata_at

        repeated = await self._pointers.repeated(found, local, request.commit_id, is_this)
        if repeated is None:
            return None
        was_first = repeated.record.previous_at is None
        status = SyncStatus.REGISTERED if was_first else SyncStatus.COMMITTED
        return Synced(status, repeated.committed, bridged)

    async def _check_uuid(self, caller: Caller, expected: str | None, metadata_at: str) -> None:
        if expected is None:
            return
        try:
            found = parse_table(unpack_metadata(await self._files.read_for(caller, metadata_at))).uuid
        except NotFound as error:
            raise InvalidInput(
                f"there is no metadata file at the location. metadata-location={metadata_at}",
                argument="metadata-location",
            ) from error
        if found is None or found.lower() != expected.lower():
            raise InvalidInput(
                f"the metadata is that of another table. uuid={found} expected={expected}",
                argument="external-table-uuid",
            )


def _check_request(bridged: Bridged, bridge: Bridge, request: SyncRequest) -> None:
    """Refuse a request that cannot be meant, before anything is tried."""
    if request.metadata_at is None:
        if not bridge.config.catalog.can_be_asked:
            raise InvalidInput(
                f"a {bridge.config.catalog} cannot be asked from here: say where the table is",
                argument="metadata-location",
            )
        return
    expected = (request.expected_token, request.expected_at)
    if bridged.live is None and expected != (None, None):
        raise InvalidInput(
            "there is no table yet: expected-version-token and expected-metadata-location have nothing to name",
            argument="expected-version-token",
        )
    if bridged.live is not None and None in expected:
        raise InvalidInput(
            "the table is there: expected-version-token and expected-metadata-location say what it is at",
            argument="expected-version-token",
        )
