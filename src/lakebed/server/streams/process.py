"""The process that serves streams: it alone has the files of logs and keys open."""

from __future__ import annotations

import asyncio
import logging
from typing import Final

from lakebed.core.clock import SystemClock
from lakebed.core.errors import LakebedError
from lakebed.core.memory import release_free_memory
from lakebed.streams.admin.inventory import StreamInventory
from lakebed.wire.fluss.transport.call_counts import CallCounts
from lakebed.wire.fluss.transport.listener import FlussListener

from ..metrics.stream_instruments import StreamInstruments
from ..processes.child import Child, ChildContext, cancel_tasks, run_child
from .composition import Streams, compose

log = logging.getLogger("lakebed.streams")

_CENSUS_SECONDS: Final = 15.0
_GIVING_BACK_SECONDS: Final = 5.0


def serve(context: ChildContext) -> int:
    """Serve streams until the supervisor ends it; the exit status."""
    return run_child(context, _serve)


async def _serve(child: Child) -> None:
    context = child.context
    listener = context.listener
    if listener is None:
        raise RuntimeError("streams are served on a port of their own")
    settings = context.settings.streams
    instruments = StreamInstruments(child.metrics)
    counts = CallCounts(SystemClock.monotonic)
    async with compose(context.settings, context.identity, port=listener.getsockname()[1]) as streams:
        await streams.leadership.acquire()
        listening = FlussListener(
            counts.counted(streams.calls),
            streams.callers,
            max_connections=settings.max_connections,
            max_frame_bytes=settings.max_frame,
            observe=instruments.observe,
            report=instruments.connections.set,
        )
        chores = [
            asyncio.create_task(streams.leadership.run()),
            asyncio.create_task(listening.watch()),
            *(asyncio.create_task(chore()) for chore in streams.chores),
            asyncio.create_task(_count(streams, counts, instruments)),
            asyncio.create_task(_give_back()),
        ]
        await listening.start(listener)
        await child.wait_for_stop()
        await listening.drain(context.settings.server.shutdown_grace)
        await streams.hand_over()
        await cancel_tasks(chores)
        await streams.buckets.close()


async def _give_back() -> None:
    """Have little more memory than is in use: blocks, buffers and rows do not fit into what others of them left."""
    while True:
        await asyncio.sleep(_GIVING_BACK_SECONDS)
        await asyncio.to_thread(release_free_memory)


async def _count(streams: Streams, counts: CallCounts, instruments: StreamInstruments) -> None:
    """Tell at intervals how much there is, while this server is the home; nothing, while it is not."""
    while True:
        try:
            instruments.report_calls(counts)
            is_leader = streams.leadership.is_leader
            instruments.report(await streams.inventory.take() if is_leader else StreamInventory(), is_leader=is_leader)
        except LakebedError as error:
            log.warning("streams were not counted; it is tried again at the next interval", exc_info=error)
        except Exception:
            # A mistake of ours must not end the counting for the life of the process.
            log.exception("counting streams crashed; it is tried again at the next interval")
        await asyncio.sleep(_CENSUS_SECONDS)
