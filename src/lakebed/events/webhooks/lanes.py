"""Lanes: what the order of deliveries is kept within. Pure.

Events of one table go out one after the other; those of different tables do not wait for each other. While one of a
lane waits to be tried again, all later ones of that lane wait behind it.
"""

from __future__ import annotations

from collections.abc import Container, Mapping, Sequence
from typing import NamedTuple

from lakebed.meta.outbox import Entry, Event

from ..documents import payload_text
from ..selection import Selection


def lane_of(event: Event) -> str:
    """A table's or view's id, which stays when it is renamed; for what has none, what the event is about."""
    return payload_text(event.payload, "id") or event.subject


class Sorted(NamedTuple):
    """What is to be done with some events."""

    lanes: Mapping[str, Sequence[Entry]]
    """To be sent now, each lane in order."""
    behind: Sequence[tuple[str, Entry]]
    """To wait behind earlier ones of their lanes."""


def sort_into_lanes(entries: Sequence[Entry], selection: Selection, held_up: Container[str]) -> Sorted:
    """Those that are asked for, by lane; `held_up` are the lanes in which something waits."""
    lanes: dict[str, list[Entry]] = {}
    behind: list[tuple[str, Entry]] = []
    for entry in entries:
        if not selection.takes(entry.event):
            continue
        lane = lane_of(entry.event)
        if lane in held_up:
            behind.append((lane, entry))
        else:
            lanes.setdefault(lane, []).append(entry)
    return Sorted(lanes, behind)
