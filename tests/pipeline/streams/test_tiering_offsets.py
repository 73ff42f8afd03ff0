from __future__ import annotations

import pytest

from lakebed.client.streams.lake import TieredSnapshot
from lakebed.core.errors import InvalidInput
from lakebed.pipeline.streams.offsets import TableOffsets
from lakebed.pipeline.streams.tiering_offsets import OFFSETS, PREPARED, latest_tiered_offsets, readable_snapshot

STREAM = 7


def snapshot(number: int, parent: int | None, at: int | None = None, stream: int = STREAM) -> dict[str, object]:
    told = {} if at is None else {OFFSETS: TableOffsets(stream, {(None, 0): at}).text(), PREPARED: f"p{at}"}
    return {"snapshot_id": number, "parent_id": parent, "summary": {"operation": "append", **told}}


def published(number: int, at: int) -> TieredSnapshot:
    return TieredSnapshot(STREAM, number, {(None, 0): at})


def test_the_newest_snapshot_that_says_how_far_the_stream_is_counts() -> None:
    found = [snapshot(1, None, 10), snapshot(2, 1, 20), snapshot(3, 2), snapshot(4, 2, 99)]
    told = latest_tiered_offsets(found, 3)
    assert told is not None
    assert (told.snapshot, told.offsets.offsets, told.prepared) == (2, {(None, 0): 20}, "p20")


def test_a_branch_that_the_table_did_not_follow_says_nothing() -> None:
    assert latest_tiered_offsets([snapshot(1, None), snapshot(2, 1, 20)], 1) is None
    assert latest_tiered_offsets([], None) is None
    # What came before is expired.
    assert latest_tiered_offsets([snapshot(5, 4)], 5) is None


def test_offsets_that_are_none_are_refused() -> None:
    broken = {"snapshot_id": 1, "parent_id": None, "summary": {OFFSETS: "?"}}
    with pytest.raises(InvalidInput):
        latest_tiered_offsets([broken], 1)


def test_what_was_published_is_read_though_there_is_something_newer() -> None:
    found = [snapshot(1, None, 10), snapshot(2, 1, 20), snapshot(3, 2)]
    assert readable_snapshot(published(1, 10), found, 3) == published(1, 10)


def test_if_that_is_expired_the_newest_that_says_how_far_it_is_is_read() -> None:
    found = [snapshot(2, 1, 20), snapshot(3, 2, 30), snapshot(4, 3)]
    assert readable_snapshot(published(1, 10), found, 4) == published(3, 30)


def test_if_none_says_it_any_more_only_maintenance_came_after() -> None:
    assert readable_snapshot(published(1, 10), [snapshot(3, 2)], 3) == published(3, 10)


def test_a_table_that_was_made_anew_holds_nothing() -> None:
    assert readable_snapshot(published(1, 10), [], None) is None


def test_a_table_of_another_stream_is_refused() -> None:
    with pytest.raises(InvalidInput, match="another stream"):
        readable_snapshot(published(1, 10), [snapshot(5, None, 10, stream=8)], 5)
