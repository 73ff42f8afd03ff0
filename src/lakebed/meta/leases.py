"""Leases: exclusive ownership of a name for a time, with a fencing token.

Clocks differ and processes pause, so a lease alone proves nothing. Writes under `check` are safe: the token grows with
every holder, and transactions of earlier holders fail.
"""

from __future__ import annotations

from collections.abc import Callable
from dataclasses import dataclass

from lakebed.core.clock import Clock
from lakebed.core.errors import Fenced

from .seam import MetaStore, Reader, Transaction

_FIND = "SELECT holder, token, expires_ms FROM leases WHERE name = ?"
_TAKE = """
INSERT INTO leases (name, holder, token, expires_ms) VALUES (?, ?, 1, ?)
ON CONFLICT (name) DO UPDATE
SET holder = excluded.holder, token = leases.token + 1, expires_ms = excluded.expires_ms
RETURNING token
"""
_RENEW = "UPDATE leases SET expires_ms = ? WHERE name = ? AND holder = ? AND token = ? AND expires_ms > ?"
_RELEASE = "UPDATE leases SET holder = '', expires_ms = 0 WHERE name = ? AND holder = ? AND token = ?"


@dataclass(frozen=True, slots=True)
class Lease:
    """Ownership of a name until it expires."""

    name: str
    holder: str
    token: int
    """The fencing token, greater than that of every earlier holder."""
    expires_ms: int


class Leases:
    """Named leases. A holder's name is unique: acquiring again under it replaces the previous lease."""

    def __init__(self, store: MetaStore, clock: Clock) -> None:
        self._store = store
        self._clock = clock

    async def acquire(
        self, name: str, holder: str, ttl_seconds: float, *, is_own: Callable[[str], bool] | None = None
    ) -> Lease | None:
        """Acquire the lease if it is free, expired or already the holder's; None if another holder has it.

        `is_own` returns whether the current holder's name is an earlier name of this holder.
        """
        if not holder:
            raise ValueError("a lease requires the name of its holder")

        async def work(tx: Transaction) -> Lease | None:
            now_ms = self._clock.now_ms()
            current = await self.find(tx, name)
            if current is not None and current.holder != holder and current.expires_ms > now_ms:
                is_same = is_own is not None and is_own(current.holder)
                if not is_same:
                    return None
            expires_ms = now_ms + round(ttl_seconds * 1000)
            row = await tx.row(_TAKE, name, holder, expires_ms)
            if row is None:
                raise RuntimeError("an insert returned no row")
            return Lease(name, holder, int(row[0]), expires_ms)

        return await self._store.transact(work)

    async def renew(self, lease: Lease, ttl_seconds: float) -> Lease:
        """Extend the lease. Raises Fenced if it expired, was released or has another holder: stop the leased work."""

        async def work(tx: Transaction) -> Lease:
            now_ms = self._clock.now_ms()
            expires_ms = now_ms + round(ttl_seconds * 1000)
            if not await tx.run(_RENEW, expires_ms, lease.name, lease.holder, lease.token, now_ms):
                raise _fenced(lease)
            return Lease(lease.name, lease.holder, lease.token, expires_ms)

        return await self._store.transact(work)

    async def release(self, lease: Lease) -> None:
        """Release the lease. Does nothing if it was lost."""

        async def work(tx: Transaction) -> None:
            await tx.run(_RELEASE, lease.name, lease.holder, lease.token)

        await self._store.transact(work)

    async def check(self, reader: Reader, lease: Lease) -> None:
        """Raise Fenced unless `lease` is the newest of its name, so that the transaction commits only for its holder.

        An expired lease passes if no other holder acquired it since: no one else can have written.
        """
        current = await self.find(reader, lease.name)
        if current is None or (current.holder, current.token) != (lease.holder, lease.token):
            raise _fenced(lease)

    async def find(self, reader: Reader, name: str) -> Lease | None:
        """The newest lease of that name, expired or not; None if it is free."""
        found = await reader.row(_FIND, name)
        if found is None or not found[0]:
            return None
        return Lease(name, *found)


def _fenced(lease: Lease) -> Fenced:
    return Fenced(f"lease lost. name={lease.name} holder={lease.holder} token={lease.token}")
