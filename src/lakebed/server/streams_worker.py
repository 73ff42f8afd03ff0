"""The process that serves streams: it alone has the files of logs and keys open."""

from __future__ import annotations

import asyncio

from lakebed.wire.fluss.listening import Listening

from .child import Child, Station, end_chores, live
from .instruments import StreamInstruments
from .streams import compose


def serve(station: Station) -> int:
    """Serve streams until the supervisor ends it; the exit status."""
    return live(station, _serve)


async def _serve(child: Child) -> None:
    station = child.station
    listener = station.listener
    if listener is None:
        raise RuntimeError("streams are served on a port of their own")
    settings = station.settings.streams
    instruments = StreamInstruments(child.metrics)
    async with compose(station.settings, station.identity, port=listener.getsockname()[1]) as streams:
        await streams.home.begin()
        listening = Listening(
            streams.calls,
            streams.callers,
            max_connections=settings.max_connections,
            max_frame_bytes=settings.max_frame,
            observe=instruments.observe,
            report=instruments.connections.set,
        )
        chores = [
            asyncio.create_task(streams.home.run()),
            asyncio.create_task(listening.watch()),
            *(asyncio.create_task(chore()) for chore in streams.chores),
        ]
        await listening.start(listener)
        await child.wait_for_stop()
        await listening.drain(station.settings.server.shutdown_grace)
        await streams.hand_over()
        await end_chores(chores)
        await streams.buckets.close()
