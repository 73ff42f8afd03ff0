"""Servers with a disk each that share a metadata store, an object store and a clock."""

from __future__ import annotations

import asyncio
import itertools
from collections.abc import Awaitable, Callable
from dataclasses import replace
from pathlib import Path

from lakebed.core.clock import ManualClock
from lakebed.core.errors import Unavailable
from lakebed.meta.leases import Lease, Leases
from lakebed.meta.seam import Reader
from lakebed.meta.sqlite.store import SqliteStore
from lakebed.storage.backoff import Retrier, RetryPolicy
from lakebed.storage.memory import MemoryStorage
from lakebed.storage.seam import ByteSource, Key, Metadata, ObjectVersion
from lakebed.streams.log.local.logs import Logs
from lakebed.streams.log.reading.read_format import AS_STORED, ReadFormat
from lakebed.streams.log.remote.log_rows import LogRows
from lakebed.streams.log.remote.manifest import LogLocation
from lakebed.streams.log.remote.opening import open_remote_backed_log, upload_local_tail
from lakebed.streams.log.remote.remote_backed_log import RemoteBackedLog
from lakebed.streams.log.remote.remote_log import RemoteLogs, RemoteSettings
from lakebed.streams.log.retention import RetentionPolicy
from lakebed.streams.log.settings import LogSizes
from lakebed.streams.seam import BucketLog, TableBucket
from tests.contracts.stream_log import (
    MAX_BATCH_BYTES,
    plain_batch,
)
from tests.storage.ownership import ClaimedAtFirstUse

SMALL = LogSizes(segment_bytes=5_000, max_batch_bytes=MAX_BATCH_BYTES, group_bytes=1 << 20, checkpoint_bytes=2_000)
LARGE = replace(SMALL, segment_bytes=1 << 30)
LOCATION = LogLocation(TableBucket(7, None, 0), "db", "events")
KEEP = RetentionPolicy(ttl_ms=None, local_segments=1)


class FlakyStorage(MemoryStorage):
    """An object store that can be unavailable or not respond."""

    def __init__(self, clock: ManualClock) -> None:
        super().__init__(clock)
        self.is_down = False
        self.refused = 0
        self.is_responding = asyncio.Event()
        self.is_responding.set()

    async def put(self, key: Key, body: ByteSource, *, metadata: Metadata | None = None) -> ObjectVersion:
        await self.is_responding.wait()
        if self.is_down:
            self.refused += 1
            raise Unavailable("the store is unavailable")
        return await super().put(key, body, metadata=metadata)

    async def names(self, under: str = "") -> list[str]:
        return [head.key async for head in self.list_prefix(f"streams/{under}")]


class Server:
    """A stream server with its own disk."""

    def __init__(self, cluster: LogCluster, name: str) -> None:
        self._cluster = cluster
        self.name = name
        self.folder = cluster.folder / name
        self.lease: Lease | None = None
        self.is_leader = True
        self.confirm_ownership: Callable[[], Awaitable[None]] | None = None
        self.opened: list[RemoteBackedLog] = []
        self._logs: Logs | None = None

    async def become_leader(self) -> None:
        """Become the leader after the lease of the current leader has expired."""
        self._cluster.clock.advance(60)
        self.lease = await Leases(self._cluster.meta, self._cluster.clock).acquire("streams", self.name, 30)
        assert self.lease is not None

    def start(self) -> None:
        """Open the folder of logs."""
        self._logs = Logs(str(self.folder), self._cluster.clock, self._cluster.settings, self.confirm_ownership)

    @property
    def logs(self) -> Logs:
        """The logs on its disk, while the server runs."""
        assert self._logs is not None
        return self._logs

    async def open(
        self,
        read_format: ReadFormat = AS_STORED,
        *,
        location: LogLocation = LOCATION,
        ack_after_upload: bool = False,
        address: str | None = None,
    ) -> RemoteBackedLog:
        log = await open_remote_backed_log(
            self.logs,
            self.remotes(address),
            location,
            read_format,
            server=self.name,
            clock=self._cluster.clock,
            is_leader=lambda: self.is_leader,
            ack_after_upload=ack_after_upload,
        )
        self.opened.append(log)
        return log

    def remotes(self, address: str | None = None) -> RemoteLogs:
        """Remote logs, fenced by the lease of this server."""
        leases = Leases(self._cluster.meta, self._cluster.clock)

        async def fence(reader: Reader) -> int:
            assert self.lease is not None
            await leases.check(reader, self.lease)
            return self.lease.token

        return RemoteLogs(
            self._cluster.storage,
            ClaimedAtFirstUse(self._cluster.storage),
            LogRows(self._cluster.meta, fence),
            self.logs.threads,
            self._cluster.new_id,
            RemoteSettings(address=address),
            Retrier(RetryPolicy(max_attempts=1)),
        )

    async def upload_local_tail(self, read_format: ReadFormat = AS_STORED, *, location: LogLocation = LOCATION) -> bool:
        """Upload the local tail, as a server that does not lead."""
        return await upload_local_tail(
            self.logs, self.remotes(), location, read_format, server=self.name, clock=self._cluster.clock
        )

    def stop(self) -> None:
        """Close the files and the folder, as the end of a process does, and nothing else."""
        for log in self.opened:
            for segment in log.local.segments:
                segment.close()
        self.opened.clear()
        if self._logs is not None:
            self._logs.close()
            self._logs = None


class LogCluster:
    """The servers and what they share: a metadata store, an object store and a clock."""

    def __init__(self, folder: Path, meta: SqliteStore) -> None:
        self.folder = folder
        self.meta = meta
        self.clock = ManualClock()
        self.storage = FlakyStorage(self.clock)
        self.settings = SMALL
        self._numbers = itertools.count(1)
        self.servers: list[Server] = []

    def new_id(self) -> str:
        return f"id-{next(self._numbers):04d}"

    async def server(self, name: str) -> Server:
        """A server that has just become the leader."""
        server = self.follower(name)
        await server.become_leader()
        return server

    def follower(self, name: str) -> Server:
        """A running server that does not lead."""
        server = Server(self, name)
        server.start()
        self.servers.append(server)
        return server

    async def end(self) -> None:
        for server in self.servers:
            for log in server.opened:
                await log.close()
            server.stop()


async def fill(log: BucketLog, count: int, *, first: int = 0) -> None:
    for sequence in range(first, first + count):
        log.enqueue(plain_batch(2, bytes([sequence % 251]) * 400, writer_id=7, sequence=sequence))
        if sequence % 4 == 3:
            await log.wait_durable(log.end_offset)
    await log.wait_durable(log.end_offset)


def expected_names(log: RemoteBackedLog) -> list[str]:
    """The objects that a log should have in the object store."""
    remote = log.remote
    names = [
        LOCATION.segment(segment, suffix)
        for segment in remote.manifest.segments
        for suffix in ("log", "index", "writer_snapshot")
    ]
    return [f"streams/{name}" for name in names] + [remote.manifest_key]
