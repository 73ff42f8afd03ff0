"""The stream servers that share a metadata store: each reports that it runs, and what it cannot do."""

from __future__ import annotations

from dataclasses import dataclass
from typing import Final

from lakebed.core.clock import Clock
from lakebed.meta.seam import MetaStore, Reader, Transaction

__all__ = ["SeenServer", "ServerRegistry"]

_REPORT: Final = """
INSERT INTO stream_servers (name, number, address, acks_uploaded, seen_ms, expires_ms, failure)
VALUES (?, ?, ?, ?, ?, ?, ?)
ON CONFLICT (name) DO UPDATE SET number = excluded.number, address = excluded.address,
acks_uploaded = excluded.acks_uploaded, seen_ms = excluded.seen_ms, expires_ms = excluded.expires_ms,
failure = excluded.failure
"""
_ALL: Final = """
SELECT name, number, address, acks_uploaded, failure, seen_ms, expires_ms FROM stream_servers ORDER BY number
"""
_REMOVE: Final = "DELETE FROM stream_servers WHERE name = ?"
_REMOVE_ALL: Final = "DELETE FROM stream_servers"


@dataclass(frozen=True, slots=True)
class SeenServer:
    """A server, as it last reported."""

    name: str
    number: int
    address: str
    acks_after_upload: bool
    failure: str = ""
    """Why it cannot serve, or upload, some of its buckets."""

    seen_ms: int = 0
    expires_ms: int = 0
    """When it counts as down, unless it has reported by then."""


class ServerRegistry:
    """The reports."""

    def __init__(self, meta: MetaStore, clock: Clock) -> None:
        self._meta = meta
        self._clock = clock

    async def report(self, server: SeenServer, ttl_seconds: float) -> None:
        """Record that a server runs; without another report it counts as down after so long."""
        now_ms = self._clock.now_ms()

        async def work(tx: Transaction) -> None:
            await tx.run(
                _REPORT,
                server.name,
                server.number,
                server.address,
                int(server.acks_after_upload),
                now_ms,
                now_ms + round(ttl_seconds * 1000),
                server.failure,
            )

        await self._meta.transact(work)

    async def all(self, reader: Reader | None = None) -> list[SeenServer]:
        """All servers that ever reported and were not forgotten, by number."""
        return [
            SeenServer(name, int(number), address, bool(acks), failure, int(seen), int(expires))
            for name, number, address, acks, failure, seen, expires in await (reader or self._meta).rows(_ALL)
        ]

    async def remove(self, tx: Transaction, name: str) -> None:
        """Forget a server. It is there again with its next report."""
        await tx.run(_REMOVE, name)

    async def withdraw(self, name: str) -> None:
        """Forget a server that does not start."""

        async def work(tx: Transaction) -> None:
            await self.remove(tx, name)

        await self._meta.transact(work)

    async def clear(self) -> None:
        """Forget all servers: the object store is another one from now on, and each registers when it starts on it."""

        async def work(tx: Transaction) -> None:
            await tx.run(_REMOVE_ALL)

        await self._meta.transact(work)
