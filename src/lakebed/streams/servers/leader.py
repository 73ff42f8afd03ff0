"""The stream leader: of all servers that share a metadata store, the one that serves every bucket (ADR 29).

The leader holds a lease; the lease's token is the leader epoch of all buckets. A leader that fails to renew in time
stops leading by its own clock before another server can acquire the lease; its late writes are fenced by the epoch.
"""

from __future__ import annotations

import asyncio
import logging
import re
from collections.abc import Awaitable, Callable
from dataclasses import dataclass
from typing import Final, TypeVar

from lakebed.core.clock import Clock
from lakebed.core.errors import Fenced, LakebedError
from lakebed.core.settings import HostPort
from lakebed.meta.leases import Lease, Leases
from lakebed.meta.seam import MetaStore, Reader, Row, Transaction, Value, Work

__all__ = ["LEASE_NAME", "Leader", "LeaderNode", "LeaderStore", "Leadership", "leader_of"]

T = TypeVar("T")
log = logging.getLogger("lakebed.streams")

LEASE_NAME: Final = "streams"
_HOLDER: Final = re.compile(r"(?P<server>\S+) (?P<number>\d+) (?P<address>\S+)")
"""The holder text of a lease. Earlier releases may omit the address."""
_RENEWALS: Final = 4
"""Renewals per time to live."""


@dataclass(frozen=True, slots=True)
class LeaderNode:
    """The leader as clients see it: its address, its epoch and its server number."""

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
    """The holder of the stream lease; None if the holder text has no address."""
    holder = _HOLDER.fullmatch(lease.holder)
    if holder is None:
        return None
    return Leader(holder["server"], int(holder["number"]), HostPort.parse(holder["address"]), lease.token)


class Leadership:
    """Acquires, renews and releases the leader lease for one server."""

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
        """`server` is unique and survives restarts: a restarted server takes its own lease back at once.

        So is `number`. Clients identify servers by it, and reuse the connection to a known number whatever its address.
        `advertised` is stored with the lease for the clients of other servers. With `as_reached` this server returns
        the host that the client connected to instead.
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
        self._on_acquired: list[Callable[[Lease], Awaitable[None]]] = []
        self._on_lost: list[Callable[[], Awaitable[None]]] = []

    def on_acquired(self, callback: Callable[[Lease], Awaitable[None]]) -> None:
        """Await `callback` before this server begins to lead."""
        self._on_acquired.append(callback)

    def on_lost(self, callback: Callable[[], Awaitable[None]]) -> None:
        """Await `callback` when this server stops leading."""
        self._on_lost.append(callback)

    @property
    def lease(self) -> Lease | None:
        """The lease, while this server leads."""
        return self._lease if self.is_leader else None

    @property
    def is_leader(self) -> bool:
        """Whether this server leads, by its own clock. Thread-safe."""
        return self._lease is not None and self._clock.monotonic() < self._until

    @property
    def holds_lease(self) -> bool:
        """Whether this server acquired the lease and has not yet closed its buckets, even if the lease expired."""
        return self._lease is not None

    async def fence(self, reader: Reader) -> int:
        """The leader epoch, checked against the metadata store. Raises Fenced if another server leads."""
        lease = self.lease
        if lease is None:
            raise Fenced("this server is not the stream leader")
        await self._leases.check(reader, lease)
        return lease.token

    @property
    def _holder(self) -> str:
        return f"{self._server} {self.number} {self._advertised}"

    def _is_own(self, holder: str) -> bool:
        """Whether a holder text is of this server before a restart: its address may have changed."""
        return holder.split(" ", 1)[0] == self._server

    async def node(self, reached_at: str) -> LeaderNode:
        """The leader to send a client to. `reached_at` is the host of this server that the client connected to."""
        here = HostPort(reached_at, self._advertised.port) if self._as_reached else self._advertised
        lease = self.lease
        if lease is not None:
            return LeaderNode(here, lease.token, self.number)
        found = await self._leases.find(self._meta, LEASE_NAME)
        leader = None if found is None or found.expires_ms <= self._clock.now_ms() else leader_of(found)
        if leader is not None and leader.server != self._server:
            return LeaderNode(leader.address, leader.epoch, leader.number)
        # No server leads, or this one is about to: clients retry here and find the leader then.
        return LeaderNode(here, 0, self.number)

    async def acquire(self) -> None:
        """Become the leader if no other server is."""
        began = self._clock.monotonic()
        lease = await self._leases.acquire(LEASE_NAME, self._holder, self._ttl, is_own=self._is_own)
        if lease is None or self._clock.monotonic() - began >= self._ttl:
            # Another server leads; or the transaction waited behind a paused server for longer than the lease lasts.
            # Then it is acquired again.
            return
        for callback in self._on_acquired:
            await callback(lease)
        self._lease, self._until = lease, began + self._ttl
        log.info("stream leader lease acquired", extra={"epoch": lease.token})

    async def run(self) -> None:
        """Acquire and renew the lease until cancelled; then release it, so that another server leads at once."""
        try:
            while True:
                try:
                    await self._step()
                except LakebedError as error:
                    log.warning("stream leader lease renewal failed; retrying", exc_info=error)
                await asyncio.sleep(self._ttl / _RENEWALS)
        finally:
            await self._release()

    async def _step(self) -> None:
        lease = self._lease
        if lease is None:
            await self.acquire()
            return
        began = self._clock.monotonic()
        try:
            self._lease = await self._leases.renew(lease, self._ttl)
            self._until = began + self._ttl
        except Fenced:
            log.warning("stream leader lease lost", extra={"epoch": lease.token})
            self._until = 0.0
            # First: while a log is open here, nothing else may use its files.
            await self._notify_lost()
            self._lease = None

    async def _release(self) -> None:
        lease, self._lease = self._lease, None
        if lease is not None:
            await self._notify_lost()
            await self._leases.release(lease)

    async def _notify_lost(self) -> None:
        for callback in self._on_lost:
            await callback()


class LeaderStore:
    """A `MetaStore` whose transactions raise Fenced unless this server leads.

    The leader caches tables and has their files open. A former leader that does not know yet must not alter or drop one
    behind its successor's back.
    """

    def __init__(self, store: MetaStore, fence: Callable[[Transaction], Awaitable[int]]) -> None:
        self._store = store
        self._fence = fence

    @property
    def dialect(self) -> str:
        """The dialect of the store."""
        return self._store.dialect

    async def row(self, sql: str, *args: Value) -> Row | None:
        """The first row, or None."""
        return await self._store.row(sql, *args)

    async def rows(self, sql: str, *args: Value) -> list[Row]:
        """All rows."""
        return await self._store.rows(sql, *args)

    async def transact(self, work: Work[T]) -> T:
        """Run `work` if this server leads. Raises Fenced otherwise."""

        async def fenced(tx: Transaction) -> T:
            await self._fence(tx)
            return await work(tx)

        return await self._store.transact(fenced)

    async def sync(self) -> None:
        """Wait until everything visible to reads is on stable storage."""
        await self._store.sync()

    async def close(self) -> None:
        """Does nothing: the caller owns the store."""
