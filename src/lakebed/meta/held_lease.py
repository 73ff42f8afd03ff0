"""A lease that is kept for as long as can be: for what runs in one process of all that share a store."""

from __future__ import annotations

import asyncio
from contextlib import suppress

from lakebed.core.clock import Clock
from lakebed.core.errors import Fenced, LakebedError

from .leases import Lease, Leases
from .seam import MetaStore


class HeldLease:
    """Takes a lease when it is free, and renews it in time."""

    def __init__(
        self, store: MetaStore, leases: Leases, clock: Clock, name: str, holder: str, ttl_seconds: float
    ) -> None:
        self._store = store
        self._leases = leases
        self._clock = clock
        self._name = name
        self._holder = holder
        self._ttl_seconds = ttl_seconds
        self._lease: Lease | None = None

    @property
    def lease(self) -> Lease:
        """The lease. Raises Fenced while it is not held."""
        if self._lease is None:
            raise Fenced(f"the lease is not held. name={self._name}")
        return self._lease

    async def acquire(self) -> bool:
        """Take it, or keep it; False if somebody else has it."""
        now_ms = self._clock.now_ms()
        if self._lease is not None and self._lease.expires_ms - now_ms <= self._ttl_seconds * 500:
            await self._renew(self._lease)
        if self._lease is not None:
            return True
        # Looking costs less than asking for it, which is a transaction.
        other = await self._leases.find(self._store, self._name)
        if other is not None and other.holder != self._holder and other.expires_ms > now_ms:
            return False
        self._lease = await self._leases.acquire(self._name, self._holder, self._ttl_seconds)
        return self._lease is not None

    async def keep_renewed(self) -> None:
        """Renew it again and again while it is held; does not return."""
        while True:
            await asyncio.sleep(self._ttl_seconds / 4)
            if self._lease is not None:
                with suppress(LakebedError):
                    await self._renew(self._lease)

    def mark_lost(self) -> None:
        """It was found to be somebody else's."""
        self._lease = None

    async def release(self) -> None:
        """Let others have it, so that none need wait for it to run out."""
        lease, self._lease = self._lease, None
        if lease is not None:
            with suppress(LakebedError):
                await asyncio.shield(self._leases.release(lease))

    async def _renew(self, lease: Lease) -> None:
        try:
            renewed: Lease | None = await self._leases.renew(lease, self._ttl_seconds)
        except Fenced:
            renewed = None
        if self._lease is lease:
            self._lease = renewed
