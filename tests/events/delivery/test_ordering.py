from __future__ import annotations

import msgspec
from hypothesis import given
from hypothesis import strategies as st

from lakebed.events.delivery.ordering import group_by_ordering_key, ordering_key_of
from lakebed.events.documents import payload_text
from lakebed.meta.outbox import OutboxEntry, OutboxEvent


def entry(seq: int, subject: str = "s", **payload: str) -> OutboxEntry:
    return OutboxEntry(seq, OutboxEvent("K", subject, msgspec.msgpack.encode(payload), 1))


def test_renamed_table_keeps_its_ordering_key() -> None:
    assert ordering_key_of(entry(1, "lake/ns/old", id="42").event) == ordering_key_of(
        entry(2, "lake/ns/new", id="42").event
    )
    assert ordering_key_of(entry(1, "bucket/key").event) == "bucket/key"


@given(st.dictionaries(st.sampled_from(["id", "x"]), st.text(max_size=5) | st.integers(0, 9)))
def test_ordering_key_is_payload_id_or_subject(document: dict[str, object]) -> None:
    payload = msgspec.msgpack.encode(document)
    assert ordering_key_of(OutboxEvent("K", "s", payload, 1)) == (payload_text(payload, "id") or "s")


@given(st.binary(max_size=30))
def test_every_payload_has_an_ordering_key(payload: bytes) -> None:
    assert ordering_key_of(OutboxEvent("K", "s", payload, 1))


@given(st.lists(st.sampled_from("abc"), max_size=20), st.sets(st.sampled_from("abc")))
def test_every_event_is_grouped_or_deferred_and_groups_are_in_order(subjects: list[str], held_up: set[str]) -> None:
    entries = [entry(seq, subject) for seq, subject in enumerate(subjects, 1)]
    done = group_by_ordering_key([(one, f"rule {one.seq}") for one in entries], held_up)
    sent = [one for lane in done.groups.values() for one in lane]
    assert sorted(one.entry.seq for one in [*sent, *done.behind]) == [one.seq for one in entries]
    assert all(one.rule == f"rule {one.entry.seq}" for one in [*sent, *done.behind])
    assert not done.groups.keys() & held_up
    assert {one.ordering_key for one in done.behind} <= held_up
    for lane, of_lane in done.groups.items():
        assert [one.entry.event.subject for one in of_lane] == [lane] * len(of_lane)
        assert [one.entry.seq for one in of_lane] == sorted(one.entry.seq for one in of_lane)
    firsts = [of_lane[0].entry.seq for of_lane in done.groups.values()]
    assert firsts == sorted(firsts)


def test_no_events_give_no_groups() -> None:
    assert group_by_ordering_key([], ()) == ({}, [])
