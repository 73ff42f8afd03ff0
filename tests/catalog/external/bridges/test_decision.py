from __future__ import annotations

from dataclasses import dataclass

import msgspec
import pytest
from hypothesis import given
from hypothesis import strategies as st

from lakebed.catalog.external.bridges.decision import SyncStep, decide_sync, next_pause_seconds
from lakebed.catalog.external.bridges.model import BridgeState, ExternalTable, SyncStatus
from lakebed.catalog.model import Entry, EntryKind

UUID = "11111111-2222-3333-4444-555555555555"
OTHER = "99999999-2222-3333-4444-555555555555"


def file(number: int) -> str:
    return f"s3://lake/t/metadata/{number}.metadata.json"


def local(number: int, token: str = "", uuid: str = UUID, kind: EntryKind = EntryKind.TABLE) -> Entry:
    return Entry("e", kind, 1, 1, "t", uuid, 2, "s3://lake/t", file(number), token or f"v{number}", 1, 0, 0, False)


def external(number: int, *log: int, uuid: str | None = UUID) -> ExternalTable:
    return ExternalTable(file(number), uuid, frozenset(file(one) for one in log))


def synced(number: int, token: str = "") -> BridgeState:
    return BridgeState(
        status=SyncStatus.COMMITTED, entry="e", synced_at=file(number), synced_token=token or f"v{number}"
    )


NEVER = BridgeState()


def test_missing_table_is_registered() -> None:
    assert decide_sync(None, NEVER, external(1)).step is SyncStep.REGISTER


def test_dropped_table_is_not_restored() -> None:
    assert decide_sync(None, synced(1), external(2, 1)).step is SyncStep.STAY
    restorable = local(1)._replace(dropped_ms=5)
    assert decide_sync(restorable, NEVER, external(2, 1)).step is SyncStep.STAY


def test_table_without_commits_moves_to_the_external_state() -> None:
    assert decide_sync(local(1), synced(1), external(2)).step is SyncStep.ADVANCE
    assert decide_sync(local(1), synced(1), external(9, 8, 7)).step is SyncStep.ADVANCE


def test_version_change_without_a_commit_does_not_block_a_sync() -> None:
    """Maintenance gives a table new versions with the same metadata when it removes files."""
    assert decide_sync(local(1, "tidied"), synced(1), external(2)).step is SyncStep.ADVANCE
    # The version alone decides nothing.
    assert decide_sync(local(5, "v1"), synced(1), external(2, 1)).step is SyncStep.STAY


def test_recreated_table_was_never_synced() -> None:
    state = msgspec.structs.replace(synced(1), entry="another")
    assert decide_sync(local(1), state, external(2)).step is SyncStep.STAY


def test_commits_made_here_are_kept() -> None:
    decision = decide_sync(local(5), synced(1), external(2, 1))
    assert decision.step is SyncStep.STAY
    assert "has commits since the last sync" in decision.reason
    # Also if the external table did not change.
    assert decide_sync(local(5), synced(1), external(1)).step is SyncStep.STAY


def test_external_state_based_on_the_state_here_is_followed() -> None:
    assert decide_sync(local(5), synced(1), external(7, 5, 1)).step is SyncStep.ADVANCE
    assert decide_sync(local(5), NEVER, external(7, 5, 1)).step is SyncStep.ADVANCE
    assert decide_sync(local(5), NEVER, external(7, 6)).step is SyncStep.STAY


def test_equal_metadata_files_need_no_step() -> None:
    for state in (NEVER, synced(1), synced(3)):
        assert decide_sync(local(3), state, external(3)).step is SyncStep.NOTHING
    spelled = ExternalTable(file(3).replace("s3://", "s3a://"), UUID, frozenset())
    assert decide_sync(local(3), NEVER, spelled).step is SyncStep.NOTHING


@pytest.mark.parametrize("uuid", [OTHER, None])
def test_table_with_another_uuid_is_never_synced(uuid: str | None) -> None:
    assert decide_sync(local(1), synced(1), external(2, 1, uuid=uuid)).step is SyncStep.STAY
    assert decide_sync(None, NEVER, external(2, 1, uuid=uuid), UUID).step is SyncStep.STAY
    assert decide_sync(local(1), synced(1), external(2, 1), OTHER).step is SyncStep.STAY
    assert decide_sync(None, NEVER, external(2, 1), UUID.upper()).step is SyncStep.REGISTER


def test_view_of_the_same_name_stays() -> None:
    assert decide_sync(local(1, kind=EntryKind.VIEW), NEVER, external(1)).step is SyncStep.STAY


@dataclass(slots=True)
class Sides:
    """Two catalogs with independent commits, and the state of a bridge between them."""

    here: list[int]
    there: list[int]
    state: BridgeState


@given(st.lists(st.sampled_from(["here", "there", "look"]), max_size=30))
def test_syncs_never_lose_a_commit_made_here(steps: list[str]) -> None:
    """After any steps, a metadata file committed here is current or in the current metadata log."""
    sides = Sides([0], [0], synced(0))
    for number, step in enumerate(steps, start=1):
        if step != "look":
            getattr(sides, step).append(number)
            continue
        now = local(sides.here[-1])
        there = external(sides.there[-1], *sides.there[:-1])
        decision = decide_sync(now, sides.state, there)
        if decision.step is SyncStep.ADVANCE:
            assert set(sides.here) <= set(sides.there)
            sides.here = list(sides.there)
        if decision.step in (SyncStep.ADVANCE, SyncStep.NOTHING):
            sides.state = synced(sides.here[-1])


@given(st.integers(1, 10_000), st.integers(0, 100))
def test_pauses_grow_with_failures_up_to_a_limit(seconds: int, failures: int) -> None:
    pause = next_pause_seconds(seconds, failures)
    assert seconds <= pause <= 16 * seconds
    assert next_pause_seconds(seconds, failures + 1) >= pause
    assert next_pause_seconds(seconds, 0) == seconds
