from __future__ import annotations

import pytest

from lakebed.client.streams.lake import TieredSnapshot
from lakebed.core.errors import InvalidInput
from lakebed.pipeline.streams.offsets import TableOffsets
from lakebed.pipeline.streams.tiering_offsets import OFFSETS, PREPARED, latest_tiered_offsets, readable_snapshot

STREAM = 7


def snapshot(number: int, parent: int | None, at: int | None = None, stream: int = STREAM) -> dict[str, object]:
    properties = {} if at is None else {OFFSETS: TableOffsets(stream, {(None, 0): at}).text(), PREPARED: f"p{at}"}
    return {"snapshot_id": number, "parent_id": parent, "summary": {"operation": "append", **properties}}


def published(number: int, at: int) -> TieredSnapshot:
    return TieredSnapshot(STREAM, number, {(None, 0): at})


def test_newest_snapshot_with_tiered_offsets_is_used() -> None:
    found = [snapshot(1, None, 10), snapshot(2, 1, 20), snapshot(3, 2), snapshot(4, 2, 99)]
    tiered = latest_tiered_offsets(found, 3)
    assert tiered is not None
    assert (tiered.snapshot, tiered.offsets.offsets, tiered.prepared) == (2, {(None, 0): 20}, "p20")


def test_snapshots_of_other_branches_are_ignored() -> None:
    assert latest_tiered_offsets([snapshot(1, None), snapshot(2, 1, 20)], 1) is None
    assert latest_tiered_offsets([], None) is None
    # Earlier snapshots expired.
    assert latest_tiered_offsets([snapshot(5, 4)], 5) is None


def test_malformed_offsets_are_rejected() -> None:
    broken = {"snapshot_id": 1, "parent_id": None, "summary": {OFFSETS: "?"}}
    with pytest.raises(InvalidInput):
        latest_tiered_offsets([broken], 1)


def test_published_snapshot_is_read_despite_newer_ones() -> None:
    found = [snapshot(1, None, 10), snapshot(2, 1, 20), snapshot(3, 2)]
    assert readable_snapshot(published(1, 10), found, 3) == published(1, 10)


def test_expired_published_snapshot_is_replaced_by_the_newest_with_offsets() -> None:
    found = [snapshot(2, 1, 20), snapshot(3, 2, 30), snapshot(4, 3)]
    assert readable_snapshot(published(1, 10), found, 4) == published(3, 30)


def test_current_snapshot_is_read_if_no_snapshot_has_offsets() -> None:
    assert readable_snapshot(published(1, 10), [snapshot(3, 2)], 3) == published(3, 10)


def test_recreated_table_has_no_tiered_records() -> None:
    assert readable_snapshot(published(1, 10), [], None) is None


def test_table_of_another_stream_is_rejected() -> None:
    with pytest.raises(InvalidInput, match="another stream"):
        readable_snapshot(published(1, 10), [snapshot(5, None, 10, stream=8)], 5)
