"""Refreshes credentials before they expire, with one fetch for all callers.

In the advisory window, a fetch runs in the background while callers use the current credentials; a failure is only
logged. In the mandatory window, callers wait for the fetch and get its error. Instance metadata is the exception: in an
outage it returns expired credentials that AWS services still accept, so they stay in use.
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
"""Minimum time between fetches while the credentials are valid: some sources only return short-lived keys."""

OUTAGE_JITTER_SECONDS = (120.0, 600.0)
"""Spread of retries in an outage, so that a fleet does not retry at once."""

Jitter = Callable[[float, float], float]
"""A random number between two bounds."""

log = logging.getLogger(__name__)


class RefreshingCredentials:
    """Credentials of one source that are valid when returned. Used from one event loop."""

    def __init__(self, source: CredentialSource, clock: Clock, jitter: Jitter = random.uniform) -> None:
        self._source = source
        self._clock = clock
        self._jitter = jitter
        self._current: Credentials | None = None
        self._expires_ms: int | None = None
        self._pause_until_ms = 0
        self._fetch: asyncio.Task[Credentials] | None = None

    async def credentials(self, rejected: Credentials | None = None) -> Credentials:
        """Valid credentials; never `rejected`. See `CredentialProvider`."""
        current = self._current
        if current is None:
            return await self._fetched()
        if rejected is not None and current == rejected:
            return await self._newer_than(rejected)
        left = self._seconds_left()
        if left > ADVISORY_SECONDS:
            return current
        paused = self._clock.now_ms() < self._pause_until_ms
        if left > MANDATORY_SECONDS:
            if not paused:
                self._start_fetch()
            return current
        return current if paused and left > 0 else await self._fetched()

    async def close(self) -> None:
        """Cancel a running fetch."""
        fetch = self._fetch
        if fetch is not None and not fetch.done():
            fetch.cancel()
            await asyncio.wait([fetch])

    def _seconds_left(self) -> float:
        return float("inf") if self._expires_ms is None else (self._expires_ms - self._clock.now_ms()) / 1000

    async def _newer_than(self, rejected: Credentials) -> Credentials:
        fresh = await self._fetched()
        if fresh == rejected:
            raise CredentialsExpired(f"the store reports expired credentials. source={self._source.name}")
        return fresh

    async def _fetched(self) -> Credentials:
        # Shielded: cancelling one caller must not cancel the fetch for the others.
        return await asyncio.shield(self._start_fetch())

    def _start_fetch(self) -> asyncio.Task[Credentials]:
        """The running fetch, started if there is none."""
        if self._fetch is None or self._fetch.done():
            self._fetch = asyncio.get_running_loop().create_task(self._fetch_once())
            self._fetch.add_done_callback(self._note_failure)
        return self._fetch

    def _note_failure(self, fetch: asyncio.Task[Credentials]) -> None:
        if fetch.cancelled():
            return
        error = fetch.exception()
        if error is not None:
            log.warning("credential refresh failed. source=%s reason=%s", self._source.name, error)

    async def _fetch_once(self) -> Credentials:
        try:
            loaded = await self._source.load()
            if loaded is None:
                raise Unauthenticated(f"source no longer has credentials. source={self._source.name}")
        except LakebedError:
            if self._current is not None and self._source.survives_outage:
                log.warning(
                    "credential refresh failed, keeping the current ones. source=%s", self._source.name, exc_info=True
                )
                self._expires_ms = self._outage_expiry_ms()
                return self._current
            # Only advisory refreshes are paused; callers in the mandatory window retry at once.
            if self._seconds_left() > MANDATORY_SECONDS:
                self._pause()
            raise
        self._use(loaded)
        return loaded

    def _use(self, loaded: Credentials) -> None:
        expires_ms = loaded.expires_ms
        if expires_ms is not None:
            left = (expires_ms - self._clock.now_ms()) / 1000
            if self._source.survives_outage and left <= ADVISORY_SECONDS:
                expires_ms = self._outage_expiry_ms()
            elif left <= 0:
                raise CredentialsExpired(f"new credentials are already expired. source={self._source.name}")
        self._current, self._expires_ms = loaded, expires_ms
        self._pause()
        log.info("credentials in use: %r", loaded)

    def _outage_expiry_ms(self) -> int:
        wait = ADVISORY_SECONDS + self._jitter(*OUTAGE_JITTER_SECONDS)
        return self._clock.now_ms() + round(wait * 1000)

    def _pause(self) -> None:
        self._pause_until_ms = self._clock.now_ms() + PAUSE_SECONDS * 1000
