"""Periodic jobs: each runs once per interval, in one process of all that share a metadata store.

The time of the last run is stored, so that a restart neither delays a job nor repeats it early. A run holds a short
lease, renewed while it lasts: a stopped server releases it at once, a killed one delays others until it expires.
A runner that loses the lease stops before another begins, by its own clock.
"""

from __future__ import annotations

import asyncio
from collections.abc import Awaitable, Callable
from contextlib import suppress
from typing import Final, NamedTuple

from lakebed.core.clock import Clock
from lakebed.core.errors import Fenced, LakebedError

from .leases import Lease, Leases
from .seam import MetaStore, Transaction

LEASE_SECONDS: Final = 30.0
"""The longest that a killed server delays a job."""

RETRY_SECONDS: Final = 60.0
"""How soon a failed run is repeated, unless the interval is shorter."""

_RENEWALS: Final = 4
"""Renewals within the time of a lease."""

_FIND: Final = "SELECT ended_ms, failed FROM periodic_jobs WHERE name = ?"
_RECORD: Final = """
INSERT INTO periodic_jobs (name, ended_ms, failed) VALUES (?, ?, ?)
ON CONFLICT (name) DO UPDATE SET ended_ms = excluded.ended_ms, failed = excluded.failed
"""


class PeriodicRun(NamedTuple):
    """The end of a job's last run."""

    ended_ms: int
    failed: bool


def wait_ms(last: PeriodicRun | None, now_ms: int, interval_ms: int) -> int:
    """Milliseconds until the job is due; 0 if it is.

    A run recorded further in the future than the interval was recorded under a wrong clock, and counts for nothing.
    """
    if last is None or last.ended_ms > now_ms + interval_ms:
        return 0
    pause_ms = min(interval_ms, round(RETRY_SECONDS * 1000)) if last.failed else interval_ms
    return max(0, last.ended_ms + pause_ms - now_ms)


class PeriodicJob:
    """One job in one process. Every process that may run it has one."""

    def __init__(
        self,
        store: MetaStore,
        leases: Leases,
        clock: Clock,
        name: str,
        holder: str,
        interval_seconds: float,
        work: Callable[[], Awaitable[None]],
    ) -> None:
        """`name` identifies the job among all servers; `holder` identifies this process among all of them."""
        self._store = store
        self._leases = leases
        self._clock = clock
        self._name = name
        self._holder = holder
        self._interval_ms = round(interval_seconds * 1000)
        self._work = work

    async def step(self) -> float:
        """Run the job if it is due and no other process runs it. Returns the seconds until it may be due again.

        Raises what the job raises, after recording that it failed.
        """
        wait = await self._wait_ms()
        if wait:
            return wait / 1000
        lease = await self._lease()
        if lease is None:
            # Another process runs it. If that one is killed, the lease expires.
            return LEASE_SECONDS / 2
        try:
            # Another run may have ended between the look and the lease.
            if not await self._wait_ms():
                await self._run(lease)
        finally:
            with suppress(LakebedError):
                await asyncio.shield(self._leases.release(lease))
        return await self._wait_ms() / 1000

    async def _wait_ms(self) -> int:
        row = await self._store.row(_FIND, self._name)
        last = None if row is None else PeriodicRun(int(row[0]), bool(row[1]))
        return wait_ms(last, self._clock.now_ms(), self._interval_ms)

    async def _lease(self) -> Lease | None:
        # A read costs less than the transaction that takes the lease.
        other = await self._leases.find(self._store, self._name)
        if other is not None and other.expires_ms > self._clock.now_ms():
            return None
        return await self._leases.acquire(self._name, self._holder, LEASE_SECONDS)

    async def _run(self, lease: Lease) -> None:
        running = asyncio.ensure_future(self._work())
        renewing = asyncio.create_task(self._renew(lease))
        try:
            await asyncio.wait((running, renewing), return_when=asyncio.FIRST_COMPLETED)
            if not running.done():
                # The renewal ended first: it raises why.
                await renewing
        finally:
            running.cancel()
            renewing.cancel()
            await asyncio.gather(running, renewing, return_exceptions=True)
        error = running.exception()
        await self._record(lease, failed=error is not None)
        if error is not None:
            raise error

    async def _renew(self, lease: Lease) -> None:
        """Renew the lease until cancelled. Raises Fenced once another process may have it."""
        while True:
            await asyncio.sleep(LEASE_SECONDS / _RENEWALS)
            try:
                lease = await self._leases.renew(lease, LEASE_SECONDS)
            except Fenced:
                raise
            except LakebedError as error:
                if self._clock.now_ms() >= lease.expires_ms:
                    raise Fenced(f"the lease expired before it was renewed. name={self._name}") from error

    async def _record(self, lease: Lease, *, failed: bool) -> None:
        async def work(tx: Transaction) -> None:
            await self._leases.check(tx, lease)
            await tx.run(_RECORD, self._name, self._clock.now_ms(), int(failed))

        await self._store.transact(work)
