"""Keeping credentials good: fetched before they end, by one task however many ask, swapped as one frozen value.

In the advisory window one task refreshes while everybody goes on with the old keys, and a failure is only logged. In
the mandatory window everybody waits for that task, and its failure is theirs. Instance metadata is the exception: in an
outage of its own it hands out keys past their stated end which services keep honouring, so its keys stay in use.
"""

from __future__ import annotations

import asyncio
import logging
import random
from collections.abc import Callable

from ...core.clock import Clock
from ...core.errors import CredentialsExpired, LakebedError, Unauthenticated
from .model import Credentials, CredentialSource

ADVISORY_SECONDS = 15 * 60
MANDATORY_SECONDS = 10 * 60
PAUSE_SECONDS = 10
"""Least time between two fetches while the keys in hand still work: some sources hand out short-lived keys only."""

OUTAGE_JITTER_SECONDS = (120.0, 600.0)
"""Spread of the next try in an outage, so that a fleet does not come back all at once."""

Jitter = Callable[[float, float], float]
"""A number between two bounds."""

log = logging.getLogger(__name__)


class RefreshingCredentials:
    """Credentials of one source that are good whenever they are asked for. Used from one event loop."""

    def __init__(self, source: CredentialSource, clock: Clock, jitter: Jitter = random.uniform) -> None:
        self._source = source
        self._clock = clock
        self._jitter = jitter
        self._held: Credentials | None = None
        self._ends_ms: int | None = None
        self._pause_until_ms = 0
        self._fetch: asyncio.Task[Credentials] | None = None

    async def credentials(self, rejected: Credentials | None = None) -> Credentials:
        """Credentials that are good now; never `rejected`. See `CredentialProvider`."""
        held = self._held
        if held is None:
            return await self._fetched()
        if rejected is not None and held == rejected:
            return await self._newer_than(rejected)
        left = self._seconds_left()
        if left > ADVISORY_SECONDS:
            return held
        paused = self._clock.now_ms() < self._pause_until_ms
        if left > MANDATORY_SECONDS:
            if not paused:
                self._start_fetch()
            return held
        return held if paused and left > 0 else await self._fetched()

    async def close(self) -> None:
        """Stop a fetch that is under way."""
        fetch = self._fetch
        if fetch is not None and not fetch.done():
            fetch.cancel()
            await asyncio.wait([fetch])

    def _seconds_left(self) -> float:
        return float("inf") if self._ends_ms is None else (self._ends_ms - self._clock.now_ms()) / 1000

    async def _newer_than(self, rejected: Credentials) -> Credentials:
        fresh = await self._fetched()
        if fresh == rejected:
            raise CredentialsExpired(f"the store calls the credentials expired. source={self._source.name}")
        return fresh

    async def _fetched(self) -> Credentials:
        # Shielded: a caller that is cancelled must not take the keys from the others who wait.
        return await asyncio.shield(self._start_fetch())

    def _start_fetch(self) -> asyncio.Task[Credentials]:
        """The fetch under way, begun if there is none."""
        if self._fetch is None or self._fetch.done():
            self._fetch = asyncio.get_running_loop().create_task(self._fetch_once())
            self._fetch.add_done_callback(self._note_failure)
        return self._fetch

    def _note_failure(self, fetch: asyncio.Task[Credentials]) -> None:
        if fetch.cancelled():
            return
        error = fetch.exception()
        if error is not None:
            log.warning("credentials were not refreshed. source=%s reason=%s", self._source.name, error)

    async def _fetch_once(self) -> Credentials:
        try:
            loaded = await self._source.load()
            if loaded is None:
                raise Unauthenticated(f"credentials are gone. source={self._source.name}")
        except LakebedError:
            if self._held is not None and self._source.survives_outage:
                log.warning("going on with the credentials in hand. source=%s", self._source.name, exc_info=True)
                self._ends_ms = self._outage_end_ms()
                return self._held
            # Only an advisory refresh looks at the pause; whoever must wait tries again at once.
            if self._seconds_left() > MANDATORY_SECONDS:
                self._pause()
            raise
        self._hold(loaded)
        return loaded

    def _hold(self, loaded: Credentials) -> None:
        ends_ms = loaded.expires_ms
        if ends_ms is not None:
            left = (ends_ms - self._clock.now_ms()) / 1000
            if self._source.survives_outage and left <= ADVISORY_SECONDS:
                ends_ms = self._outage_end_ms()
            elif left <= 0:
                raise CredentialsExpired(f"fresh credentials are already expired. source={self._source.name}")
        self._held, self._ends_ms = loaded, ends_ms
        self._pause()
        log.info("credentials in use: %r", loaded)

    def _outage_end_ms(self) -> int:
        wait = ADVISORY_SECONDS + self._jitter(*OUTAGE_JITTER_SECONDS)
        return self._clock.now_ms() + round(wait * 1000)

    def _pause(self) -> None:
        self._pause_until_ms = self._clock.now_ms() + PAUSE_SECONDS * 1000
