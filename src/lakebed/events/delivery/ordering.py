"""Lanes: what the order of deliveries is kept within. Pure.

Events of one table or object go out one after the other; those of different ones do not wait for each other. While one
of a lane waits to be tried again, all later ones of that lane wait behind it.
"""

from __future__ import annotations

from collections.abc import Container, Iterable, Mapping, Sequence
from typing import Final, NamedTuple

import msgspec

from lakebed.meta.outbox import OutboxEntry, OutboxEvent


class _Identified(msgspec.Struct):
    """Of a payload, what lanes need: the rest is passed over without being read."""

    id: str = ""


_identity: Final = msgspec.msgpack.Decoder(_Identified).decode


def ordering_key_of(event: OutboxEvent) -> str:
    """A table's or view's id, which stays when it is renamed; for what has none, what the event is about."""
    try:
        return _identity(event.payload).id or event.subject
    except (msgspec.MsgspecError, UnicodeDecodeError, RecursionError):
        return event.subject


class OutgoingEvent(NamedTuple):
    """An event that a target is to be sent."""

    entry: OutboxEntry
    ordering_key: str
    rule: str = ""
    """The bucket rule that asked for it; empty if the target itself did."""
    attempts: int = 0
    """How often it was tried before."""


class GroupedEvents(NamedTuple):
    """What is to be done with some events."""

    groups: Mapping[str, Sequence[OutgoingEvent]]
    """To be sent now, each lane in order; lanes in the order of their first events."""
    behind: Sequence[OutgoingEvent]
    """To wait behind earlier ones of their lanes."""


def group_by_ordering_key(wanted: Iterable[tuple[OutboxEntry, str]], held_up: Container[str]) -> GroupedEvents:
    """Events and the rules that asked for them, by lane; `held_up` are the lanes in which something waits."""
    groups: dict[str, list[OutgoingEvent]] = {}
    behind: list[OutgoingEvent] = []
    for entry, rule in wanted:
        ordering_key = ordering_key_of(entry.event)
        one = OutgoingEvent(entry, ordering_key, rule)
        if ordering_key in held_up:
            behind.append(one)
        elif ordering_key in groups:
            groups[ordering_key].append(one)
        else:
            groups[ordering_key] = [one]
    return GroupedEvents(groups, behind)
