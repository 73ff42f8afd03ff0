"""Event stream messages, decoded by botocore."""

from __future__ import annotations

from xml.etree import ElementTree

import pytest
from botocore.eventstream import EventStreamBuffer, EventStreamMessage
from hypothesis import given
from hypothesis import strategies as st

from lakebed.select.model import QueryStats
from lakebed.wire.s3.select import messages


def decoded(data: bytes) -> list[EventStreamMessage]:
    """The messages, decoded by botocore, which verifies both checksums."""
    buffer = EventStreamBuffer()
    buffer.add_data(data)
    return list(buffer)


@pytest.mark.parametrize(("message", "event"), [(messages.CONTINUATION, "Cont"), (messages.END, "End")])
def test_messages_without_content_have_their_event_type(message: bytes, event: str) -> None:
    (found,) = decoded(message)
    assert found.headers == {":message-type": "event", ":event-type": event}
    assert found.payload == b""


@given(st.integers(0, 3 * messages.MAX_RECORDS_BYTES + 2))
def test_records_of_any_size_are_split_into_messages_within_the_limit(size: int) -> None:
    piece = bytes(size)
    sent = list(messages.records(piece))

    assert all(len(message) <= 131_072 - 256 for message in sent)
    assert len(sent) == -(-size // messages.MAX_RECORDS_BYTES)
    found = decoded(b"".join(sent))
    assert b"".join(message.payload for message in found) == piece
    assert {message.headers[":event-type"] for message in found} <= {"Records"}
    assert {message.headers[":content-type"] for message in found} <= {"application/octet-stream"}


@pytest.mark.parametrize("name", ["Progress", "Stats"])
def test_progress_and_stats_have_all_counts(name: str) -> None:
    (found,) = decoded(getattr(messages, name.lower())(QueryStats(1, 2, 3)))

    assert found.headers == {":message-type": "event", ":event-type": name, ":content-type": "text/xml"}
    root = ElementTree.fromstring(found.payload)
    assert root.tag == name
    assert {child.tag: child.text for child in root} == {
        "BytesScanned": "1",
        "BytesProcessed": "2",
        "BytesReturned": "3",
    }


@given(st.text(max_size=3000))
def test_error_message_has_its_code_and_a_truncated_text(text: str) -> None:
    (found,) = decoded(messages.error("CastFailed", text))

    assert found.headers[":message-type"] == "error"
    assert found.headers[":error-code"] == "CastFailed"
    assert text.startswith(found.headers[":error-message"])
    assert len(found.headers[":error-message"].encode()) <= 4096
    assert found.headers[":error-message"] == text or len(text.encode()) > 4096


def test_invalid_unicode_in_an_error_is_replaced() -> None:
    (found,) = decoded(messages.error("InternalError", "lone \ud800"))
    assert found.headers[":error-message"] == "lone ?"
