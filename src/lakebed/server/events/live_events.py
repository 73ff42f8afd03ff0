"""Wires the live feed and read events."""

from __future__ import annotations

import os
import socket
from dataclasses import dataclass

from lakebed.core.clock import Clock
from lakebed.events.live.feed import LiveFeed
from lakebed.events.live.listeners import ListenerRegistry, ReadEvents
from lakebed.meta.outbox import Outbox
from lakebed.meta.seam import MetaStore


@dataclass(frozen=True, slots=True)
class LiveEvents:
    """The live events of a process."""

    event_listeners: ListenerRegistry
    accesses: ReadEvents
    feed: LiveFeed


def wire_live_events(meta: MetaStore, outbox: Outbox, clock: Clock) -> LiveEvents:
    """Create the live events of this process."""
    event_listeners = ListenerRegistry(meta, clock, f"{socket.gethostname()}:{os.getpid()}")
    return LiveEvents(
        event_listeners, ReadEvents(meta, outbox, clock, event_listeners), LiveFeed(meta, outbox, event_listeners)
    )
