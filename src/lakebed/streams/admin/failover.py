"""Stranded buckets, and giving up a lost server (ADR 45).

A bucket is stranded while acknowledged records of it exist only on the disk of a server that does not lead. Everything
here works on the metadata store alone, so any server answers, with or without a leader.
"""

from __future__ import annotations

import logging
from collections.abc import Sequence
from dataclasses import dataclass
from typing import Final

from lakebed.core.clock import Clock
from lakebed.core.errors import NotFound, StateConflict
from lakebed.meta.leases import Leases
from lakebed.meta.outbox import Outbox
from lakebed.meta.seam import MetaStore, Reader, Transaction
from lakebed.objects.model import Caller

from ..authorization import StreamAuthorizer, StreamOperation
from ..events import append_event
from ..servers.leader import LEASE_NAME, Leader, leader_of
from ..servers.registry import RegisteredServer, ServerRegistry

__all__ = ["Failover", "ForgottenServer", "StrandedBucket", "StreamStatus"]

log = logging.getLogger("lakebed.streams")

_TAILS: Final = """
SELECT t.database_name, t.name, p.name, l.table_id, l.partition_id, l.bucket, l.tail_server, l.uploaded_end,
l.recorded_end
FROM stream_logs l JOIN stream_tables t ON t.id = l.table_id LEFT JOIN stream_partitions p ON p.id = l.partition_id
WHERE l.tail_server <> '' AND (l.partition_id = 0 OR p.id IS NOT NULL)
ORDER BY t.database_name, t.name, l.partition_id, l.bucket
"""
_FORGET: Final = "UPDATE stream_logs SET tail_server = '' WHERE tail_server = ?"


@dataclass(frozen=True, slots=True)
class StrandedBucket:
    """A bucket with acknowledged records on one server's disk alone."""

    database: str
    table: str
    partition: str | None
    table_id: int
    partition_id: int | None
    bucket: int
    server: str
    uploaded_end: int | None
    """The offset from which on records exist only there; None if an earlier release did not record it."""

    recorded_end: int | None
    """The log's end when it was last recorded; it may be higher."""

    reason: str = ""


@dataclass(frozen=True, slots=True)
class StreamStatus:
    """The leader, all servers, and the stranded buckets."""

    leader: Leader | None
    servers: Sequence[RegisteredServer]
    stranded: Sequence[StrandedBucket]
    now_ms: int


@dataclass(frozen=True, slots=True)
class ForgottenServer:
    """A server that was given up, and the buckets that continue without its records."""

    server: str
    buckets: Sequence[StrandedBucket]


class Failover:
    """Shows stranded buckets, and gives up lost servers."""

    def __init__(
        self,
        meta: MetaStore,
        outbox: Outbox,
        clock: Clock,
        authorizer: StreamAuthorizer,
        leases: Leases,
        registry: ServerRegistry,
    ) -> None:
        self._meta = meta
        self._outbox = outbox
        self._clock = clock
        self._authorizer = authorizer
        self._leases = leases
        self._registry = registry

    async def status(self, caller: Caller) -> StreamStatus:
        """The current status. Raises AccessDenied."""
        await self._authorizer.authorize(caller, StreamOperation.DESCRIBE)
        return await self._meta.transact(self._status)

    async def forget(self, caller: Caller, server: str) -> ForgottenServer:
        """Give up the records that only a lost server's disk has: its buckets continue from the object store.

        `server` is a name or a number. If the server returns, its records are discarded for every log that
        another server has opened since. Raises NotFound, StateConflict while it runs, AccessDenied.
        """
        await self._authorizer.authorize(caller, StreamOperation.ALTER)

        async def work(tx: Transaction) -> ForgottenServer:
            status = await self._status(tx)
            name = _named(status, server)
            _check_is_down(status, name)
            buckets = tuple(each for each in status.stranded if each.server == name)
            await tx.run(_FORGET, name)
            await self._registry.remove(tx, name)
            details = {"server": name, "buckets": str(len(buckets))}
            await append_event(self._outbox, tx, "StreamServerForgotten", caller, status.now_ms, "", facts=details)
            return ForgottenServer(name, buckets)

        forgotten = await self._meta.transact(work)
        log.warning(
            "stream server forgotten; records that only its disk had may be lost",
            extra={"server": forgotten.server, "buckets": len(forgotten.buckets)},
        )
        return forgotten

    async def _status(self, reader: Reader) -> StreamStatus:
        now_ms = self._clock.now_ms()
        lease = await self._leases.find(reader, LEASE_NAME)
        leader = None if lease is None or lease.expires_ms <= now_ms else leader_of(lease)
        servers = await self._registry.all(reader)
        seen = {each.name: each for each in servers}
        stranded = []
        for database, table, partition, table_id, partition_id, bucket, server, uploaded, recorded in await reader.rows(
            _TAILS
        ):
            if leader is None or server != leader.server:
                stranded.append(
                    StrandedBucket(
                        database,
                        table,
                        partition,
                        table_id,
                        partition_id or None,
                        bucket,
                        server,
                        None if uploaded < 0 else uploaded,
                        None if recorded < 0 else recorded,
                        _reason(seen.get(server), now_ms),
                    )
                )
        return StreamStatus(leader, servers, stranded, now_ms)


def _reason(server: RegisteredServer | None, now_ms: int) -> str:
    """Why the bucket is stranded, given the server that has its newest records."""
    if server is None:
        return "only a server that has never reported has its newest records; start that server"
    if server.expires_ms <= now_ms:
        return "only a server that is down has its newest records; start that server"
    if server.failure:
        return f"its server runs and cannot upload its newest records: {server.failure}"
    return "its server runs and uploads its newest records"


def _named(status: StreamStatus, server: str) -> str:
    """The server's name. Raises NotFound."""
    names = {each.name for each in status.servers} | {each.server for each in status.stranded}
    if server in names:
        return server
    for each in status.servers:
        if str(each.number) == server:
            return each.name
    raise NotFound(f"no such stream server; `lakebed streams status` lists them. server={server[:80]}")


def _check_is_down(status: StreamStatus, name: str) -> None:
    """Raise StateConflict while the server may still acknowledge or upload records."""
    runs = any(each.name == name and each.expires_ms > status.now_ms for each in status.servers)
    if runs or (status.leader is not None and status.leader.server == name):
        raise StateConflict(
            f"the server is running: it uploads its records by itself. To give them up, stop it first. server={name}"
        )
