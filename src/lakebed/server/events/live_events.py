"""Wires who listens to events as they happen, and what is told to them alone."""

from __future__ import annotations

import os
import socket
from dataclasses import dataclass

from lakebed.core.clock import Clock
from lakebed.events.live.feed import Feed
from lakebed.events.live.interests import Interests
from lakebed.events.live.read_events import AccessEvents
from lakebed.meta.outbox import Outbox
from lakebed.meta.seam import MetaStore


@dataclass(frozen=True, slots=True)
class LiveEvents:
    """What the edges and the worker need of it."""

    interests: Interests
    accesses: AccessEvents
    feed: Feed


def wire_live_events(meta: MetaStore, outbox: Outbox, clock: Clock) -> LiveEvents:
    """All of it, for this process."""
    interests = Interests(meta, clock, f"{socket.gethostname()}:{os.getpid()}")
    return LiveEvents(interests, AccessEvents(meta, outbox, clock, interests), Feed(meta, outbox, interests))
