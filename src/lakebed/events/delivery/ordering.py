"""Groups events by ordering key: deliveries are in order within a key. Pure.

Events of one table or object are sent one after the other; different keys are independent. While an event waits for a
retry, all later events of its key wait behind it.
"""

from __future__ import annotations

from collections.abc import Container, Iterable, Mapping, Sequence
from typing import Final, NamedTuple

import msgspec

from lakebed.meta.outbox import OutboxEntry, OutboxEvent


class _PayloadId(msgspec.Struct):
    """Only the field that ordering needs: decoding skips all others."""

    id: str = ""


_decode_id: Final = msgspec.msgpack.Decoder(_PayloadId).decode


def ordering_key_of(event: OutboxEvent) -> str:
    """The id of the event's table or view, which survives renames; the subject for other events."""
    try:
        return _decode_id(event.payload).id or event.subject
    except (msgspec.MsgspecError, UnicodeDecodeError, RecursionError):
        return event.subject


class OutgoingEvent(NamedTuple):
    """An event to send to a target."""

    entry: OutboxEntry
    ordering_key: str
    rule: str = ""
    """The bucket rule that matched it; empty for the target's own subscription."""
    attempts: int = 0
    """Earlier attempts."""


class GroupedEvents(NamedTuple):
    """Events to send, and events that must wait."""

    groups: Mapping[str, Sequence[OutgoingEvent]]
    """To send now, by ordering key, each group in order."""
    behind: Sequence[OutgoingEvent]
    """Events behind a waiting event of their key."""


def group_by_ordering_key(events: Iterable[tuple[OutboxEntry, str]], waiting: Container[str]) -> GroupedEvents:
    """Group events with their rules; `waiting` has the ordering keys of waiting events."""
    groups: dict[str, list[OutgoingEvent]] = {}
    behind: list[OutgoingEvent] = []
    for entry, rule in events:
        ordering_key = ordering_key_of(entry.event)
        event = OutgoingEvent(entry, ordering_key, rule)
        if ordering_key in waiting:
            behind.append(event)
        else:
            groups.setdefault(ordering_key, []).append(event)
    return GroupedEvents(groups, behind)
