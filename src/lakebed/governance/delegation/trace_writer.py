"""Writes the trace of keys and signatures down, every second in which there is something to be written."""

from __future__ import annotations

import asyncio
import contextlib
import logging
from typing import Final

from lakebed.core.errors import LakebedError

from .delegated_accesses import AccessTally
from .delegations import Delegations

FLUSH_SECONDS: Final = 1.0

log = logging.getLogger("lakebed.governance")


class TraceWriter:
    """What was handed out, and what was done with it, on its way to the store. Used from one event loop."""

    def __init__(self, delegations: Delegations, accesses: AccessTally) -> None:
        self._delegations = delegations
        self._accesses = accesses
        self._news = asyncio.Event()
        delegations.wake = accesses.wake = self._news.set

    async def run(self) -> None:
        """Write, whenever something waits; when cancelled, for the last time."""
        try:
            while True:
                await self._news.wait()
                await asyncio.sleep(FLUSH_SECONDS)
                await self._flush_or_wait()
        finally:
            with contextlib.suppress(LakebedError):
                await self.flush()

    async def flush(self) -> None:
        """Write all that waits. What cannot be written stays for the next time."""
        self._news.clear()
        try:
            await self._delegations.flush()
            await self._accesses.flush()
        except BaseException:
            self._news.set()
            raise

    async def _flush_or_wait(self) -> None:
        try:
            await self.flush()
        except LakebedError as error:
            log.warning("the trace of keys and signatures could not be written down yet", exc_info=error)
        except Exception:
            # A mistake of ours must not end the trace for the life of the process.
            log.exception("writing down the trace of keys and signatures crashed")
