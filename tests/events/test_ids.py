from __future__ import annotations

import pytest
from hypothesis import given
from hypothesis import strategies as st

from lakebed.core.errors import InvalidInput
from lakebed.core.ids import DeploymentId, new_deployment_id
from lakebed.events.ids import EventIds, parse_event_id
from lakebed.meta.outbox import FIRST_REQUEST, OutboxEntry, OutboxEvent

OURS = DeploymentId("abcdefghijklmnopqrstuvwxyz")
THEIRS = DeploymentId("234567abcdefghijklmnopqrst")
SEQS = st.integers(0, 2**63 - 1)


def entry(seq: int) -> OutboxEntry:
    return OutboxEntry(seq, OutboxEvent("k", "s", b"", 0))


def test_events_and_requests_have_different_id_prefixes() -> None:
    ids = EventIds(OURS)
    assert ids.of(entry(42)) == "evt_abcdefghijklmnopqrstuvwxyz_42"
    assert ids.of(entry(FIRST_REQUEST)) == f"req_abcdefghijklmnopqrstuvwxyz_{FIRST_REQUEST}"


@given(SEQS)
def test_ids_of_two_deployments_differ(seq: int) -> None:
    assert EventIds(OURS).of(entry(seq)) != EventIds(THEIRS).of(entry(seq))


@given(SEQS)
def test_event_id_round_trips(seq: int) -> None:
    ids = EventIds(new_deployment_id())
    assert parse_event_id(ids.of(entry(seq))) == (ids.deployment, seq)
    assert parse_event_id(f"evt_{seq}") == (None, seq)


@given(SEQS)
def test_cursor_accepts_ids_earlier_ids_and_numbers(seq: int) -> None:
    ids = EventIds(OURS)
    assert {ids.parse_cursor(text, "after") for text in (ids.cursor(seq), f"evt_{seq}", str(seq))} == {seq}


def test_cursor_of_another_deployment_is_rejected() -> None:
    with pytest.raises(InvalidInput, match="of another deployment: start again from a number") as raised:
        EventIds(OURS).parse_cursor(EventIds(THEIRS).cursor(7), "Last-Event-ID")
    assert str(raised.value).endswith(f"expected=evt_{OURS}_NUMBER found=evt_{THEIRS}_7")
    assert raised.value.argument == "Last-Event-ID"


@pytest.mark.parametrize(
    "text",
    [
        "",
        "-1",
        "x",
        "1.5",
        "٣",
        "9223372036854775808",
        "evt_",
        "evt_x",
        "evt_9223372036854775808",
        "evt_9223372036854775808 ",
        f"evt_{OURS}_",
        f"evt_{OURS.upper()}_1",
        f"req_{OURS}_{FIRST_REQUEST}",
        f"evt_{OURS}_1\n",
    ],
)
def test_invalid_cursor_is_rejected(text: str) -> None:
    with pytest.raises(InvalidInput, match="after must be an integer from 0 to 9223372036854775807, or an event id"):
        EventIds(OURS).parse_cursor(text, "after")


@given(st.text(max_size=60))
def test_arbitrary_text_is_parsed_or_rejected(text: str) -> None:
    for read in (lambda: parse_event_id(text), lambda: EventIds(OURS).parse_cursor(text, "after")):
        try:
            read()
        except InvalidInput:
            continue
