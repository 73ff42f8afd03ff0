"""The home of streams: of all servers that share a metadata store, the one that has every bucket (ADR 29).

It holds a lease, whose token is the epoch of all buckets. A home that could not renew it in time stops being one by
its own clock, before another can begin; what it had under way is refused by the epoch.
"""

from __future__ import annotations

import asyncio
import logging
import re
from collections.abc import Awaitable, Callable
from dataclasses import dataclass
from typing import Final

from lakebed.core.clock import Clock
from lakebed.core.errors import Fenced, LakebedError
from lakebed.core.settings import HostPort
from lakebed.meta.leases import Lease, Leases
from lakebed.meta.seam import MetaStore, Reader

__all__ = ["LEASE_NAME", "Leader", "LeaderNode", "Leadership", "leader_of"]

log = logging.getLogger("lakebed.streams")

LEASE_NAME: Final = "streams"
_HOLDER: Final = re.compile(r"(?P<server>\S+) (?P<number>\d+) (?P<address>\S+)")
"""What the holder of a lease says of itself. Servers of earlier releases may leave the address out."""

_RENEWALS: Final = 4
"""How often it is renewed within its time."""


@dataclass(frozen=True, slots=True)
class LeaderNode:
    """Where the home of streams is reached, its epoch, and the number that its server has among all."""

    address: HostPort
    epoch: int
    number: int


@dataclass(frozen=True, slots=True)
class Leader:
    """The server that a lease names."""

    server: str
    number: int
    address: HostPort
    epoch: int


def leader_of(lease: Lease) -> Leader | None:
    """The holder of the lease of streams; None if it does not give its address."""
    said = _HOLDER.fullmatch(lease.holder)
    if said is None:
        return None
    return Leader(said["server"], int(said["number"]), HostPort.parse(said["address"]), lease.token)


class Leadership:
    """What one server has to do with who the home is."""

    def __init__(
        self,
        meta: MetaStore,
        leases: Leases,
        clock: Clock,
        *,
        server: str,
        number: int,
        advertised: HostPort,
        as_reached: bool,
        ttl_seconds: float,
    ) -> None:
        """`server` names this one and no other, across its restarts: it takes back at once what it held.

        So does `number`, by which clients tell servers apart: for one that they know they open no other connection,
        whatever address they get for it. `advertised` is recorded with the lease: other servers send clients there.
        With `as_reached` this one answers its own clients with the host that they have reached instead.
        """
        self._meta = meta
        self._leases = leases
        self._clock = clock
        self.number = number
        self._advertised = advertised
        self._as_reached = as_reached
        self._ttl = ttl_seconds
        self._server = server
        self._lease: Lease | None = None
        self._until = 0.0
        self._on_begin: list[Callable[[Lease], Awaitable[None]]] = []
        self._on_end: list[Callable[[], Awaitable[None]]] = []

    def on_acquired(self, told: Callable[[Lease], Awaitable[None]]) -> None:
        """Have `told` awaited before this server is the home."""
        self._on_begin.append(told)

    def on_lost(self, told: Callable[[], Awaitable[None]]) -> None:
        """Have `told` awaited when it is not any more."""
        self._on_end.append(told)

    @property
    def lease(self) -> Lease | None:
        """What is held, if this is the home."""
        return self._lease if self.is_leader else None

    @property
    def is_leader(self) -> bool:
        """Whether this server is the home, by its own clock. May be asked from any thread."""
        return self._lease is not None and self._clock.monotonic() < self._until

    @property
    def holds_lease(self) -> bool:
        """Whether this server took the lease and has not yet closed what it opened under it, expired or not."""
        return self._lease is not None

    async def fence(self, reader: Reader) -> int:
        """The epoch, checked against the metadata. Raises Fenced if another server leads."""
        lease = self.lease
        if lease is None:
            raise Fenced("this server is not the home of streams")
        await self._leases.check(reader, lease)
        return lease.token

    @property
    def _holder(self) -> str:
        return f"{self._server} {self.number} {self._advertised}"

    def _is_own(self, holder: str) -> bool:
        """Whether a holder is this server, before it was started again: its address may have been another."""
        return holder.split(" ", 1)[0] == self._server

    async def node(self, reached_at: str) -> LeaderNode:
        """The leader's address. `reached_at` is the host of ours that the client has reached."""
        here = HostPort(reached_at, self._advertised.port) if self._as_reached else self._advertised
        lease = self.lease
        if lease is not None:
            return LeaderNode(here, lease.token, self.number)
        found = await self._leases.find(self._meta, LEASE_NAME)
        leader = None if found is None or found.expires_ms <= self._clock.now_ms() else leader_of(found)
        if leader is not None and leader.server != self._server:
            return LeaderNode(leader.address, leader.epoch, leader.number)
        # No server leads, or this one is about to: clients come back to us, and get another answer then.
        return LeaderNode(here, 0, self.number)

    async def begin(self) -> None:
        """Be the home if nobody else is."""
        began = self._clock.monotonic()
        lease = await self._leases.acquire(LEASE_NAME, self._holder, self._ttl, is_own=self._is_own)
        if lease is None or self._clock.monotonic() - began >= self._ttl:
            # Somebody else has it; or the transaction of one who was paused was in the way, for so long that it is over
            # already. Then it is taken anew.
            return
        for told in self._on_begin:
            await told(lease)
        self._lease, self._until = lease, began + self._ttl
        log.info("this server is the home of streams", extra={"epoch": lease.token})

    async def run(self) -> None:
        """Be the home whenever nobody else is, until cancelled; then let others be it at once."""
        try:
            while True:
                try:
                    await self._step()
                except LakebedError as error:
                    log.warning("the home of streams is not sure; it is tried again", exc_info=error)
                await asyncio.sleep(self._ttl / _RENEWALS)
        finally:
            await self._leave()

    async def _step(self) -> None:
        lease = self._lease
        if lease is None:
            await self.begin()
            return
        began = self._clock.monotonic()
        try:
            self._lease = await self._leases.renew(lease, self._ttl)
            self._until = began + self._ttl
        except Fenced:
            log.warning("this server is not the home of streams any more", extra={"epoch": lease.token})
            self._until = 0.0
            # First: while a log is open here, nothing else may use its files.
            await self._end()
            self._lease = None

    async def _leave(self) -> None:
        lease, self._lease = self._lease, None
        if lease is not None:
            await self._end()
            await self._leases.release(lease)

    async def _end(self) -> None:
        for told in self._on_end:
            await told()
