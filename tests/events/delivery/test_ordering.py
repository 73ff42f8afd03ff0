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
def test_every_event_is_grouped_or_deferred_and_groups_are_in_order(subjects: list[str], waiting: set[str]) -> None:
    entries = [entry(seq, subject) for seq, subject in enumerate(subjects, 1)]
    grouped = group_by_ordering_key([(event, f"rule {event.seq}") for event in entries], waiting)
    sent = [event for group in grouped.groups.values() for event in group]
    assert sorted(event.entry.seq for event in [*sent, *grouped.behind]) == [event.seq for event in entries]
    assert all(event.rule == f"rule {event.entry.seq}" for event in [*sent, *grouped.behind])
    assert not grouped.groups.keys() & waiting
    assert {event.ordering_key for event in grouped.behind} <= waiting
    for ordering_key, group in grouped.groups.items():
        assert [event.entry.event.subject for event in group] == [ordering_key] * len(group)
        assert [event.entry.seq for event in group] == sorted(event.entry.seq for event in group)
    firsts = [group[0].entry.seq for group in grouped.groups.values()]
    assert firsts == sorted(firsts)


def test_no_events_give_no_groups() -> None:
    assert group_by_ordering_key([], ()) == ({}, [])
