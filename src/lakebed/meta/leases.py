"""Leases: one holder at a time, for a time, with a token that tells old holders from new ones.

Clocks differ and processes pause, so a lease alone proves nothing. What its holder writes under `check` is safe all
the same: the token grows with every holder, and a transaction of an earlier one is refused.
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
    """A hold on a name, until its time is over."""

    name: str
    holder: str
    token: int
    """Greater than that of every holder before."""
    expires_ms: int


class Leases:
    """Named leases. A holder's name is unique to it: whoever asks under it again takes the place of the one before."""

    def __init__(self, store: MetaStore, clock: Clock) -> None:
        self._store = store
        self._clock = clock

    async def acquire(
        self, name: str, holder: str, ttl_seconds: float, *, is_own: Callable[[str], bool] | None = None
    ) -> Lease | None:
        """Take the lease if it is free, expired or the holder's own; None if another has it.

        `is_own` says of the name that holds it whether that is this holder under an earlier name.
        """
        if not holder:
            raise ValueError("a lease needs the name of its holder")

        async def work(tx: Transaction) -> Lease | None:
            now_ms = self._clock.now_ms()
            current = await self.find(tx, name)
            if current is not None and current.holder != holder and current.expires_ms > now_ms:
                is_same = is_own is not None and is_own(current.holder)
                if not is_same:
                    return None
            expires_ms = now_ms + round(ttl_seconds * 1000)
            taken = await tx.row(_TAKE, name, holder, expires_ms)
            if taken is None:
                raise RuntimeError("an insert returned no row")
            return Lease(name, holder, int(taken[0]), expires_ms)

        return await self._store.transact(work)

    async def renew(self, lease: Lease, ttl_seconds: float) -> Lease:
        """Hold it longer. Raises Fenced if it expired, was released or has another holder: stop the work it guards."""

        async def work(tx: Transaction) -> Lease:
            now_ms = self._clock.now_ms()
            expires_ms = now_ms + round(ttl_seconds * 1000)
            if not await tx.run(_RENEW, expires_ms, lease.name, lease.holder, lease.token, now_ms):
                raise _fenced(lease)
            return Lease(lease.name, lease.holder, lease.token, expires_ms)

        return await self._store.transact(work)

    async def release(self, lease: Lease) -> None:
        """Let others have it at once. Nothing happens if it was lost already."""

        async def work(tx: Transaction) -> None:
            await tx.run(_RELEASE, lease.name, lease.holder, lease.token)

        await self._store.transact(work)

    async def check(self, reader: Reader, lease: Lease) -> None:
        """Raise Fenced unless `lease` is the newest of its name: what a transaction commits is then the holder's.

        A lease that expired and was not taken since still passes: nobody can have acted in between.
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
    return Fenced(f"the lease was lost. name={lease.name} holder={lease.holder} token={lease.token}")
