"""The process that delivers events: it has the metadata store and the targets, and nothing that answers requests.

Rendering events, signing and sending them takes time for which requests in the same process would wait. Here they do
not, and this process stands behind those that answer: a delivery may wait, because the outbox keeps it, and a PUT may
not.
"""

from __future__ import annotations

import asyncio
import logging
import os
from collections.abc import AsyncIterator
from contextlib import asynccontextmanager
from typing import Final, NamedTuple

from lakebed.core.clock import SystemClock
from lakebed.core.errors import LakebedError
from lakebed.core.settings import Settings
from lakebed.events.delivery import DeliveryObserver, EventDispatcher
from lakebed.events.live.listeners import ListenerRegistry
from lakebed.governance.credentials.vault import MasterKeys
from lakebed.meta.deployment import establish_deployment_id
from lakebed.meta.outbox import Outbox

from ..metrics.instruments import DeliveryInstruments
from ..processes.child import Child, ChildContext, cancel_tasks, run_child
from ..stores.identity import Identity
from ..stores.metadata import open_metadata
from .targets import wire_dispatcher

log = logging.getLogger("lakebed.server")

NICENESS: Final = 19
"""How far behind the processes that answer: as far as can be. Where a processor is wanted by both, it has a hundredth
of it, and all of it when those wait for their disks."""

_PAUSE_SECONDS: Final = 5.0


class DeliveryParts(NamedTuple):
    """What delivers."""

    dispatcher: EventDispatcher
    event_listeners: ListenerRegistry


def serve(context: ChildContext) -> int:
    """Deliver until the supervisor ends it; the exit status."""
    # Before anything else: threads are as nice as whoever starts them.
    os.nice(NICENESS)
    return run_child(context, _deliver)


async def _deliver(child: Child) -> None:
    context = child.context
    instruments = DeliveryInstruments(child.metrics)
    async with compose(context.settings, context.identity, context.server) as parts:
        chores = [
            asyncio.create_task(_keep_delivering(parts.dispatcher, instruments)),
            asyncio.create_task(parts.event_listeners.run()),
        ]
        instruments.running.set(1)
        await child.wait_for_stop()
        await cancel_tasks(chores)


@asynccontextmanager
async def compose(settings: Settings, identity: Identity, server: str) -> AsyncIterator[DeliveryParts]:
    """Open the metadata store and wire what delivers on it; closed at the end.

    It delivers in the server's name, and there is one such process of a server: what a successor finds to be held by
    that name is its own at once, though its predecessor was killed.
    """
    clock = SystemClock()
    master = MasterKeys(identity.master_keys, identity.active_key_id)
    meta = await open_metadata(settings, master)
    try:
        outbox = Outbox(meta)
        event_listeners = ListenerRegistry(meta, clock, server)
        dispatcher = wire_dispatcher(
            meta,
            outbox,
            clock,
            master,
            settings.targets,
            event_listeners,
            server,
            region=settings.server.region,
            deployment=await establish_deployment_id(meta),
        )
        yield DeliveryParts(dispatcher, event_listeners)
    finally:
        await meta.close()


async def _keep_delivering(dispatcher: EventDispatcher, observer: DeliveryObserver) -> None:
    """Send events to targets, in one process of all that share the metadata store at a time."""
    while True:
        try:
            await dispatcher.run(observer)
        except LakebedError as error:
            log.warning("events cannot be delivered; it is tried again", extra={"chore": "targets"}, exc_info=error)
        except Exception:
            log.exception("the delivery of events crashed; it is tried again", extra={"chore": "targets"})
        await asyncio.sleep(_PAUSE_SECONDS)
