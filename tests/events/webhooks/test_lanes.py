from __future__ import annotations

import msgspec
from hypothesis import given
from hypothesis import strategies as st

from lakebed.events.selection import EVERYTHING, parse_selection
from lakebed.events.webhooks.lanes import lane_of, sort_into_lanes
from lakebed.meta.outbox import Entry, Event


def entry(seq: int, subject: str = "s", kind: str = "K", **payload: str) -> Entry:
    return Entry(seq, Event(kind, subject, msgspec.msgpack.encode(payload), 1))


def test_a_table_keeps_its_lane_when_it_is_renamed() -> None:
    assert lane_of(entry(1, "lake/ns/old", id="42").event) == lane_of(entry(2, "lake/ns/new", id="42").event)
    assert lane_of(entry(1, "bucket/key").event) == "bucket/key"


@given(st.lists(st.tuples(st.sampled_from("abc"), st.sampled_from("KL")), max_size=20), st.sets(st.sampled_from("abc")))
def test_each_event_goes_one_way_and_lanes_are_in_order(events: list[tuple[str, str]], held_up: set[str]) -> None:
    entries = [entry(seq, subject, kind) for seq, (subject, kind) in enumerate(events, 1)]
    done = sort_into_lanes(entries, parse_selection("K"), held_up)
    wanted = [one for one in entries if one.event.kind == "K"]
    sent = [one for lane in done.lanes.values() for one in lane]
    assert sorted(one.seq for one in [*sent, *(one for _, one in done.behind)]) == [one.seq for one in wanted]
    assert not done.lanes.keys() & held_up
    assert {lane for lane, _ in done.behind} <= held_up
    for lane, of_lane in done.lanes.items():
        assert [one.event.subject for one in of_lane] == [lane] * len(of_lane)
        assert [one.seq for one in of_lane] == sorted(one.seq for one in of_lane)


def test_nothing_comes_of_nothing() -> None:
    assert sort_into_lanes([], EVERYTHING, ()) == ({}, [])
