"""Decides whether a table moves to the state of its external table. Pure.

It moves if nothing was committed here since both were equal, or if the external metadata log contains the state here.
Otherwise the histories diverged, and choosing one is an operator's decision.

The metadata file shows whether something was committed: a table's version also changes when maintenance removes
unreferenced files.
"""

from __future__ import annotations

from dataclasses import dataclass
from enum import Enum

from lakebed.catalog.commits.metadata_pointers import same_file
from lakebed.catalog.model import Entry, EntryKind

from .model import BridgeState, ExternalTable


class SyncStep(Enum):
    """The step that a sync takes."""

    NOTHING = "nothing"
    """Both are the same."""
    REGISTER = "register"
    """The table does not exist here yet."""
    ADVANCE = "advance"
    """The table moves to the external state."""
    STAY = "stay"
    """The table must not move: see the reason."""


@dataclass(frozen=True, slots=True)
class SyncDecision:
    """A step, with the reason for `STAY`."""

    step: SyncStep
    reason: str = ""


def decide_sync(
    local: Entry | None, state: BridgeState, external: ExternalTable, expected_uuid: str | None = None
) -> SyncDecision:
    """The step to take; `local` holds the name here, dropped or not; `expected_uuid` is configured."""
    if expected_uuid is not None and not _same_uuid(expected_uuid, external.uuid):
        return _stay(f"the external table has an unexpected uuid. uuid={external.uuid} expected={expected_uuid}")
    if local is None:
        if state.entry:
            return _stay("the table was synced before and dropped here")
        return SyncDecision(SyncStep.REGISTER)
    if local.dropped_ms is not None:
        return _stay(f"a dropped {local.kind} holds the name until it is restored or purged")
    if local.kind is not EntryKind.TABLE:
        return _stay(f"a {local.kind} has the name")
    if not _same_uuid(local.uuid, external.uuid):
        return _stay(f"the external table is a different table. uuid={external.uuid} here={local.uuid}")
    if same_file(local.metadata_at, external.metadata_at):
        return SyncDecision(SyncStep.NOTHING)
    if state.entry == local.id and state.synced_at is not None and same_file(state.synced_at, local.metadata_at):
        return SyncDecision(SyncStep.ADVANCE)
    if any(same_file(local.metadata_at, earlier) for earlier in external.log):
        return SyncDecision(SyncStep.ADVANCE)
    return _stay("the table has commits since the last sync that the external table does not contain")


def next_pause_seconds(poll_seconds: int, failures: int) -> int:
    """The pause before the next poll: doubled with each failure in a row, up to sixteen times as long."""
    return poll_seconds << min(failures, 4)


def _stay(reason: str) -> SyncDecision:
    return SyncDecision(SyncStep.STAY, reason)


def _same_uuid(one: str, other: str | None) -> bool:
    return other is not None and one.lower() == other.lower()
