"""Records the results of syncs."""

from __future__ import annotations

from dataclasses import replace

import msgspec

from lakebed.catalog.events import append_catalog_event
from lakebed.catalog.model import Entry
from lakebed.core.errors import CommitConflict, LakebedError, NotFound, Throttled, Unavailable
from lakebed.meta.seam import Transaction
from lakebed.objects.context import ObjectContext
from lakebed.objects.model import Caller

from . import rows
from .decision import next_pause_seconds
from .model import Bridge, BridgedTable, BridgeState, SyncMode, SyncStatus, encode_state
from .service import Bridges

_MAX_MESSAGE_CHARS = 1000


class SyncStates:
    """Writes the states of bridges."""

    def __init__(self, object_context: ObjectContext, bridges: Bridges) -> None:
        self._f = object_context
        self._bridges = bridges

    def synced(self, entry: Entry, status: SyncStatus, action: str) -> BridgeState:
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

    async def write(self, tx: Transaction, bridge: Bridge, state: BridgeState, *, is_new: bool) -> Bridge:
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
        return await tx.run(
            rows.SET_STATE,
            encode_state(bridge.state),
            bridge.due_ms,
            bridge.namespace_id,
            bridge.name,
            bridge.revision,
        )

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
