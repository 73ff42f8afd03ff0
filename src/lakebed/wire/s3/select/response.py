"""The response body of a running query.

Reading the response drives the query, so a slow client slows the query down. While the query has no records, keep-alive
messages are sent: they keep the connection open, and detect a disconnected client, which ends the query.
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

__all__ = [
    "CANCELLED",
    "DONE",
    "KEEP_ALIVE_SECONDS",
    "EndedCallback",
    "SelectResponse",
    "pause_seconds",
    "render_failure",
]

log = logging.getLogger("lakebed.s3.select")

KEEP_ALIVE_SECONDS: Final = 1.0
"""Initial interval of keep-alive messages, and interval of Progress messages if requested."""

_KEEP_ALIVES_BEFORE_DOUBLING: Final = 60

DONE: Final = "done"
CANCELLED: Final = "cancelled"
"""Outcome of a query without a failure; otherwise the outcome is the error code."""

EndedCallback = Callable[[str, QueryStats], None]
"""Called with the outcome of a query and its statistics."""


def pause_seconds(keep_alives: int, interval: float = KEEP_ALIVE_SECONDS) -> float:
    """The wait for records after this many keep-alive messages.

    It grows, because minio-py recurses once per message and would exceed its stack in a query that runs for hours.
    """
    return float(interval * 2 ** (keep_alives // _KEEP_ALIVES_BEFORE_DOUBLING))


def render_failure(error: Exception) -> RenderedError:
    """The wire form of a query's failure. Unexpected errors reveal no details."""
    if isinstance(error, Unavailable):
        # S3 has its own code for queries that exceed limits; clients retry after it.
        return RenderedError(
            503, SelectCode.BUSY, "The service is unavailable. Try again later.", [("Retry-After", "1")]
        )
    return render_error(error if isinstance(error, LakebedError) else LakebedError())


class SelectResponse:
    """The response body. Must be closed, read or not: that ends the query."""

    def __init__(
        self,
        running: RunningQuery,
        clock: Clock,
        *,
        progress: bool,
        ended: EndedCallback,
        interval: float = KEEP_ALIVE_SECONDS,
    ) -> None:
        self._running = running
        self._records = aiter(running)
        self._clock = clock
        self._sends_progress = progress
        self._ended = ended
        self._interval = interval
        self._next: asyncio.Task[bytes | None] | None = None
        self._messages = self._generate()
        self._outcome = CANCELLED
        self._is_closed = False

    async def begin(self) -> None:
        """Wait briefly for the first records, because many errors show at once.

        Raises the query's error; the response is closed then.
        """
        self._next = self._fetch()
        try:
            await asyncio.wait({self._next}, timeout=self._interval)
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
        """End the query and report its outcome. Idempotent."""
        if self._is_closed:
            return
        self._is_closed = True
        try:
            await self._messages.aclose()
            await self._cancel_next()
            if isinstance(self._records, AsyncGenerator):
                await self._records.aclose()
        finally:
            try:
                await self._running.aclose()
            finally:
                self._ended(self._outcome, self._running.counts)

    async def _cancel_next(self) -> None:
        pending = self._next
        if pending is None:
            return
        pending.cancel()
        await asyncio.wait({pending})
        if not pending.cancelled():
            pending.exception()  # retrieved, so that asyncio does not log a late error

    def _fetch(self) -> asyncio.Task[bytes | None]:
        # A task, because the wait for it may time out while it runs.
        return asyncio.ensure_future(self._next_records())

    async def _next_records(self) -> bytes | None:
        return await anext(self._records, None)

    async def _generate(self) -> AsyncGenerator[bytes, None]:
        reported_at, keep_alives, last = self._clock.monotonic(), 0, b""
        try:
            while True:
                pending = self._next = self._next or self._fetch()
                await asyncio.wait({pending}, timeout=pause_seconds(keep_alives, self._interval))
                if not pending.done():
                    keep_alives += 1
                    reported_at = self._clock.monotonic()
                    yield messages.progress(self._running.counts) if self._sends_progress else messages.CONTINUATION
                    continue
                self._next, keep_alives = None, 0
                piece = pending.result()
                if piece is None:
                    break
                *before, last = list(messages.records(piece)) or [b""]
                for message in before:
                    yield message
                if self._running.is_over:
                    # The closing messages go out with the records: for a small response a send is a third of the work.
                    break
                yield last
                last = b""
                if self._sends_progress and self._clock.monotonic() - reported_at >= self._interval:
                    reported_at = self._clock.monotonic()
                    yield messages.progress(self._running.counts)
        except Exception as error:
            rendered = render_failure(error)
            self._outcome = rendered.code
            if rendered.status >= 500 and rendered.status != 501:
                log.warning("select query failed", exc_info=error)
            yield messages.error(rendered.code, rendered.message)
            return
        self._outcome = DONE
        counts = self._running.counts
        # A query that ends before the first keep-alive reports progress too.
        progress = messages.progress(counts) if self._sends_progress else b""
        yield last + progress + messages.stats(counts) + messages.END
