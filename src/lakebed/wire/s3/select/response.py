"""A running query as the messages that answer it.

Whoever reads the answer drives the query: nothing is asked of it while the client does not take what it was given.
While the query has nothing to give, a message goes out from time to time: it keeps the connection, and a client that
has gone away is noticed by it, which ends the query.
"""

from __future__ import annotations

import asyncio
import logging
from collections.abc import AsyncGenerator, AsyncIterator, Callable
from typing import Final

from lakebed.core.clock import Clock
from lakebed.core.errors import LakebedError, Unavailable
from lakebed.select.errors import SelectCode
from lakebed.select.model import QueryStats
from lakebed.select.seam import RunningQuery

from ..errors import RenderedError, render_error
from . import messages

__all__ = ["CANCELLED", "DONE", "PULSE_SECONDS", "EndedCallback", "SelectResponse", "pause_seconds", "render_failure"]

log = logging.getLogger("lakebed.s3.select")

PULSE_SECONDS: Final = 1.0
"""How long the client hears nothing at first, and how often it is told of progress if it asked for that."""

_BEATS: Final = 60

DONE: Final = "done"
CANCELLED: Final = "cancelled"
"""How a query ends that does not fail; else by the code of its failure."""

EndedCallback = Callable[[str, QueryStats], None]
"""Told how a query ended, and what it took."""


def pause_seconds(beats: int, pulse: float = PULSE_SECONDS) -> float:
    """How long to wait for records after so many messages without any.

    Longer and longer: a client in wide use (minio-py) goes one call deeper for each of them, and must not run out of
    stack in a query of a day.
    """
    return float(pulse * 2 ** (beats // _BEATS))


def render_failure(error: Exception) -> RenderedError:
    """The wire form of what a query ended with. What it did not expect tells nothing of itself."""
    if isinstance(error, Unavailable):
        # S3 has a word of its own for a query that takes too long or too much: clients wait and ask again.
        return RenderedError(
            503, SelectCode.BUSY, "The service is unavailable. Try again later.", [("Retry-After", "1")]
        )
    return render_error(error if isinstance(error, LakebedError) else LakebedError())


class SelectResponse:
    """The bytes of an answer. Has to be closed, whether or not it was read: that ends the query."""

    def __init__(
        self, running: RunningQuery, clock: Clock, *, progress: bool, ended: EndedCallback, pulse: float = PULSE_SECONDS
    ) -> None:
        self._running = running
        self._pieces = aiter(running)
        self._clock = clock
        self._tells_progress = progress
        self._ended = ended
        self._pulse = pulse
        self._next: asyncio.Task[bytes | None] | None = None
        self._messages = self._make()
        self._outcome = CANCELLED
        self._is_closed = False

    async def begin(self) -> None:
        """Wait for the first records, but not for long: what is wrong with the query often shows at once.

        Raises what the query raises by then; the answer is closed after that.
        """
        self._next = self._fetch()
        try:
            await asyncio.wait({self._next}, timeout=self._pulse)
            if self._next.done():
                self._next.result()
        except BaseException as error:
            if isinstance(error, Exception):
                self._outcome = render_failure(error).code
            await self.aclose()
            raise

    def __aiter__(self) -> AsyncIterator[bytes]:
        return self

    async def __anext__(self) -> bytes:
        return await anext(self._messages)

    async def aclose(self) -> None:
        """End the query, and tell how it ended. Idempotent."""
        if self._is_closed:
            return
        self._is_closed = True
        try:
            await self._messages.aclose()
            await self._forget_next()
            if isinstance(self._pieces, AsyncGenerator):
                await self._pieces.aclose()
        finally:
            try:
                await self._running.aclose()
            finally:
                self._ended(self._outcome, self._running.counts)

    async def _forget_next(self) -> None:
        pending = self._next
        if pending is None:
            return
        pending.cancel()
        await asyncio.wait({pending})
        if not pending.cancelled():
            pending.exception()  # looked at, so that nobody complains of an error that came too late

    def _fetch(self) -> asyncio.Task[bytes | None]:
        # As a task, because waiting for it has an end while it goes on.
        return asyncio.ensure_future(self._piece())

    async def _piece(self) -> bytes | None:
        return await anext(self._pieces, None)

    async def _make(self) -> AsyncGenerator[bytes, None]:
        told_at, beats, last = self._clock.monotonic(), 0, b""
        try:
            while True:
                pending = self._next = self._next or self._fetch()
                await asyncio.wait({pending}, timeout=pause_seconds(beats, self._pulse))
                if not pending.done():
                    beats += 1
                    told_at = self._clock.monotonic()
                    yield messages.progress(self._running.counts) if self._tells_progress else messages.CONTINUATION
                    continue
                self._next, beats = None, 0
                piece = pending.result()
                if piece is None:
                    break
                *before, last = list(messages.records(piece)) or [b""]
                for message in before:
                    yield message
                if self._running.is_over:
                    # What is left to say goes out with it: to a small answer it is a third of the work to send it.
                    break
                yield last
                last = b""
                if self._tells_progress and self._clock.monotonic() - told_at >= self._pulse:
                    told_at = self._clock.monotonic()
                    yield messages.progress(self._running.counts)
        except Exception as error:
            rendered = render_failure(error)
            self._outcome = rendered.code
            if rendered.status >= 500 and rendered.status != 501:
                log.warning("a select failed", exc_info=error)
            yield messages.error(rendered.code, rendered.message)
            return
        self._outcome = DONE
        counts = self._running.counts
        # A query that is over before the first beat has made progress too.
        progress = messages.progress(counts) if self._tells_progress else b""
        yield last + progress + messages.stats(counts) + messages.END
