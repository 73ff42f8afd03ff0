"""The stream server process: the only one with the files of logs and KV indexes open."""

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

_INVENTORY_SECONDS: Final = 15.0
_TRIM_SECONDS: Final = 5.0


def serve(context: ChildContext) -> int:
    """Serve streams until the supervisor stops the process; the exit status."""
    return run_child(context, _serve)


async def _serve(child: Child) -> None:
    context = child.context
    listener = context.listener
    if listener is None:
        raise RuntimeError("the stream process needs a listener")
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
        tasks = [
            asyncio.create_task(streams.leadership.run()),
            asyncio.create_task(listening.watch()),
            *(asyncio.create_task(task()) for task in streams.background),
            asyncio.create_task(_report_metrics(streams, counts, instruments)),
            asyncio.create_task(_trim_memory()),
        ]
        await listening.start(listener)
        await child.wait_for_stop()
        await listening.drain(context.settings.server.shutdown_grace)
        await streams.hand_over()
        await cancel_tasks(tasks)
        await streams.buckets.close()


async def _trim_memory() -> None:
    """Return freed memory to the system at intervals: blocks, buffers and rows fragment the heap."""
    while True:
        await asyncio.sleep(_TRIM_SECONDS)
        await asyncio.to_thread(release_free_memory)


async def _report_metrics(streams: Streams, counts: CallCounts, instruments: StreamInstruments) -> None:
    """Report metrics at intervals; the inventory only while this server leads."""
    while True:
        try:
            instruments.report_calls(counts)
            is_leader = streams.leadership.is_leader
            instruments.report(await streams.inventory.take() if is_leader else StreamInventory(), is_leader=is_leader)
        except LakebedError as error:
            log.warning("stream inventory failed, retrying at the next interval", exc_info=error)
        except Exception:
            # A defect must not end the metrics for the life of the process.
            log.exception("stream inventory crashed, retrying at the next interval")
        await asyncio.sleep(_INVENTORY_SECONDS)
