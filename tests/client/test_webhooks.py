from __future__ import annotations

import json

import pytest

from lakebed.client import SeenMessages, verify_webhook
from lakebed.core.errors import InvalidInput, Unauthenticated
from lakebed.core.secrets import Secret
from lakebed.core.webhooks import new_secret, signed_headers

SECRET = new_secret()
NOW = 1_700_000_000
BODY = json.dumps(
    {
        "seq": 7,
        "kind": "TableCommitted",
        "type": "AFTER_UPDATE_TABLE",
        "subject": "lake/ns/t",
        "occurred-ms": 5,
        "payload": {"name": "t"},
    }
).encode()


def test_verified_webhook_message_is_decoded() -> None:
    headers = signed_headers(SECRET, "evt_7", NOW * 1000, BODY)
    message = verify_webhook(SECRET.reveal(), headers, BODY, now_seconds=NOW)
    assert (message.id, message.timestamp) == ("evt_7", NOW)
    assert (message.event.seq, message.event.type, message.event.payload) == (7, "AFTER_UPDATE_TABLE", {"name": "t"})
    assert verify_webhook([new_secret(), SECRET], headers, BODY, now_seconds=NOW) == message


def test_message_with_an_invalid_signature_is_rejected() -> None:
    headers = signed_headers(SECRET, "evt_7", NOW * 1000, BODY)
    with pytest.raises(Unauthenticated, match="signature"):
        verify_webhook(new_secret(), headers, BODY, now_seconds=NOW)
    with pytest.raises(Unauthenticated, match="signature"):
        verify_webhook(SECRET, headers, BODY.replace(b"lake/ns/t", b"lake/ns/u"), now_seconds=NOW)
    with pytest.raises(Unauthenticated, match="missing"):
        verify_webhook(SECRET, {}, BODY)


def test_replay_of_an_old_message_is_rejected() -> None:
    headers = signed_headers(SECRET, "evt_7", NOW * 1000, BODY)
    with pytest.raises(Unauthenticated, match="outside the tolerance"):
        verify_webhook(SECRET, headers, BODY, now_seconds=NOW + 301)
    with pytest.raises(Unauthenticated, match="outside the tolerance"):
        # The current time is long after the timestamp of the message.
        verify_webhook(SECRET, headers, BODY)
    later = {**headers, "webhook-timestamp": str(NOW + 301)}
    with pytest.raises(Unauthenticated, match="signature"):
        verify_webhook(SECRET, later, BODY, now_seconds=NOW + 301)


def test_signed_message_that_is_not_an_event_is_invalid_input() -> None:
    headers = signed_headers(SECRET, "m", NOW * 1000, b"[]")
    with pytest.raises(InvalidInput, match="not an event"):
        verify_webhook(SECRET, headers, b"[]", now_seconds=NOW)
    with pytest.raises(InvalidInput, match="expected whsec_"):
        verify_webhook(Secret("x"), headers, b"[]", now_seconds=NOW)


def test_seen_messages_detects_repetitions_up_to_its_capacity() -> None:
    seen = SeenMessages(most=2)
    assert [seen.is_new(one) for one in ("a", "b", "a", "b")] == [True, True, False, False]
    assert seen.is_new("c")
    # The oldest id was evicted.
    assert seen.is_new("a")
