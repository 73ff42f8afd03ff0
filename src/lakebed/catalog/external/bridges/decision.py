"""Whether a table may follow the other side. Pure.

It may as long as nothing was committed here since both were the same, or where the other side says itself that it comes
from the state that is here. Otherwise two lines of commits would have to be one, and which is not for us to say.

Whether something was committed is told by the metadata file: a table's version changes also when maintenance removes
files that nobody refers to.
"""

from __future__ import annotations

from dataclasses import dataclass
from enum import Enum

from lakebed.catalog.commits.metadata_pointers import same_file
from lakebed.catalog.model import Entry, EntryKind

from .model import BridgeState, ExternalTable


class Step(Enum):
    """What a look at the other side leads to."""

    NOTHING = "nothing"
    """Both are the same."""
    REGISTER = "register"
    """There is no such table here yet."""
    ADVANCE = "advance"
    """The table goes where the other side is."""
    STAY = "stay"
    """It must not: see the reason."""


@dataclass(frozen=True, slots=True)
class Decision:
    """A step, and why nothing else."""

    step: Step
    reason: str = ""


def decide(
    local: Entry | None, state: BridgeState, external: ExternalTable, expected_uuid: str | None = None
) -> Decision:
    """What to do; `local` is what has the name here, dropped or not, and `expected_uuid` what was configured."""
    if expected_uuid is not None and not _same_uuid(expected_uuid, external.uuid):
        return _stay(f"the other side has a table of another uuid. uuid={external.uuid} expected={expected_uuid}")
    if local is None:
        if state.entry:
            return _stay("the table was synced before, and was dropped here")
        return Decision(Step.REGISTER)
    if local.dropped_ms is not None:
        return _stay(f"a dropped {local.kind} holds the name until it is restored or purged")
    if local.kind is not EntryKind.TABLE:
        return _stay(f"a {local.kind} has the name")
    if not _same_uuid(local.uuid, external.uuid):
        return _stay(f"the other side has another table. uuid={external.uuid} here={local.uuid}")
    if same_file(local.metadata_at, external.metadata_at):
        return Decision(Step.NOTHING)
    if state.entry == local.id and state.synced_at is not None and same_file(state.synced_at, local.metadata_at):
        return Decision(Step.ADVANCE)
    if any(same_file(local.metadata_at, earlier) for earlier in external.log):
        return Decision(Step.ADVANCE)
    return _stay("the table was committed to here since it was synced last, and the other side does not know of it")


def next_pause_seconds(poll_seconds: int, failures: int) -> int:
    """How long to wait for the next look: longer each time while looks come to nothing, up to sixteen times as long."""
    return poll_seconds << min(failures, 4)


def _stay(reason: str) -> Decision:
    return Decision(Step.STAY, reason)


def _same_uuid(one: str, other: str | None) -> bool:
    return other is not None and one.lower() == other.lower()
