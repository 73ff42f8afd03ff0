"""A lease that renews itself, for work that runs in one process of all that share a metadata store."""

from __future__ import annotations

import asyncio
from contextlib import suppress

from lakebed.core.clock import Clock
from lakebed.core.errors import Fenced, LakebedError

from .leases import Lease, Leases
from .seam import MetaStore


class HeldLease:
    """Acquires a lease when it is free, and renews it in time."""

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
        """The lease. Raises Fenced if it is not held."""
        if self._lease is None:
            raise Fenced(f"lease not held. name={self._name}")
        return self._lease

    async def acquire(self) -> bool:
        """Acquire or keep the lease; False if another holder has it."""
        now_ms = self._clock.now_ms()
        if self._lease is not None and self._lease.expires_ms - now_ms <= self._ttl_seconds * 500:
            await self._renew(self._lease)
        if self._lease is not None:
            return True
        # A read costs less than the transaction that acquires it.
        other = await self._leases.find(self._store, self._name)
        if other is not None and other.holder != self._holder and other.expires_ms > now_ms:
            return False
        self._lease = await self._leases.acquire(self._name, self._holder, self._ttl_seconds)
        return self._lease is not None

    async def keep_renewed(self) -> None:
        """Renew the lease while it is held; does not return."""
        while True:
            await asyncio.sleep(self._ttl_seconds / 4)
            if self._lease is not None:
                with suppress(LakebedError):
                    await self._renew(self._lease)

    def mark_lost(self) -> None:
        """Record that another holder has the lease."""
        self._lease = None

    async def release(self) -> None:
        """Release the lease, so that others need not wait for its expiry."""
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
