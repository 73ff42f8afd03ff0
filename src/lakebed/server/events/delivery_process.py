"""The event delivery process: it has the metadata store and the targets, and serves no requests.

Rendering, signing and sending events would delay requests in the same process. This process also has a lower CPU
priority than request workers: deliveries can wait in the outbox, PUTs cannot.
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
"""The lowest CPU priority: about 1% of a busy core, and all of it while request workers wait for disks."""

_RETRY_SECONDS: Final = 5.0


class DeliveryParts(NamedTuple):
    """The components of the process."""

    dispatcher: EventDispatcher
    event_listeners: ListenerRegistry


def serve(context: ChildContext) -> int:
    """Deliver until the supervisor stops the process; return the exit status."""
    os.nice(NICENESS)  # first, since threads inherit it
    return run_child(context, _deliver)


async def _deliver(child: Child) -> None:
    context = child.context
    instruments = DeliveryInstruments(child.metrics)
    async with compose(context.settings, context.identity, context.server) as parts:
        jobs = [
            asyncio.create_task(_keep_delivering(parts.dispatcher, instruments)),
            asyncio.create_task(parts.event_listeners.run()),
        ]
        instruments.running.set(1)
        await child.wait_for_stop()
        await cancel_tasks(jobs)


@asynccontextmanager
async def compose(settings: Settings, identity: Identity, server: str) -> AsyncIterator[DeliveryParts]:
    """Open the metadata store and wire the dispatcher; close the store at the end.

    The lease holder is the server's name. A server has one such process, so the successor of a killed process takes
    over its lease at once.
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
    """Run the dispatcher, restarting it after errors."""
    while True:
        try:
            await dispatcher.run(observer)
        except LakebedError as error:
            log.warning("event dispatcher failed, retrying", extra={"job": "event delivery"}, exc_info=error)
        except Exception:
            log.exception("event dispatcher crashed, retrying", extra={"job": "event delivery"})
        await asyncio.sleep(_RETRY_SECONDS)
