"""Wires streams: stores → tables and buckets → calls."""

from __future__ import annotations

import asyncio
import logging
import random
import uuid
from collections.abc import AsyncIterator, Awaitable, Callable, Coroutine
from contextlib import AsyncExitStack, asynccontextmanager
from dataclasses import dataclass
from pathlib import Path
from typing import Final, NamedTuple

from lakebed.catalog.maintenance.tasks.catalog_tasks import CatalogTasks
from lakebed.core.access import Authorizer
from lakebed.core.clock import Clock, SystemClock
from lakebed.core.errors import LakebedError, Unavailable
from lakebed.core.settings import HostPort, Settings
from lakebed.fluss.errors import FlussError
from lakebed.governance.credentials.access_keys import AccessKeys
from lakebed.governance.credentials.connection_logins import ConnectionLogins
from lakebed.governance.credentials.vault import MasterKeys
from lakebed.governance.tokens import ClientAuthenticator, LoginThrottle, SecretHasher
from lakebed.meta.leases import Lease, Leases
from lakebed.meta.outbox import Outbox
from lakebed.meta.seam import MetaStore
from lakebed.meta.tasks import TaskQueue
from lakebed.objects.blobs.store_attachment import STREAM_SERVERS_PREFIX
from lakebed.storage.ownership import Ownership
from lakebed.storage.seam import ObjectStorage
from lakebed.streams.admin.inventory import InventoryCollector
from lakebed.streams.admin.kv_sizes import KvSizeCollector
from lakebed.streams.admin.stats import ClusterHealthCheck
from lakebed.streams.authorization import StreamAuthorizer
from lakebed.streams.buckets.folder_ownership import LOGS_FOLDER, FolderOwnership
from lakebed.streams.buckets.log_maintenance import LogMaintenance
from lakebed.streams.buckets.open_buckets import OpenBuckets
from lakebed.streams.buckets.opening import BucketOpener
from lakebed.streams.cluster_configs import ClusterConfigs
from lakebed.streams.databases import StreamDatabases
from lakebed.streams.file_access import SNAPSHOTS_FOLDER, FileAccess
from lakebed.streams.id_ranges import IdRanges, WriterIds
from lakebed.streams.kv.index.rocksdb import RocksMemory
from lakebed.streams.kv.index.store import KvStore
from lakebed.streams.kv.scanners import KvScanLimits, KvScanners
from lakebed.streams.kv.snapshot_files import KvSnapshotter
from lakebed.streams.kv.snapshots import KvSnapshots
from lakebed.streams.lake.tiering_tasks import TieringTasks
from lakebed.streams.log.local.logs import Logs
from lakebed.streams.log.remote.log_rows import LogRows
from lakebed.streams.log.remote.remote_log import RemoteLogs, RemoteSettings
from lakebed.streams.log.settings import LogSizes
from lakebed.streams.partitions import StreamPartitions
from lakebed.streams.purging import Purger
from lakebed.streams.remote_files import STREAMS_PREFIX, RemoteFiles, open_remote_files
from lakebed.streams.servers.advertised_address import advertised_address
from lakebed.streams.servers.leader import Leadership, LeaderStore
from lakebed.streams.servers.registry import (
    RegisteredServer,
    ServerRegistry,
    establish_server_name,
    establish_server_number,
    join_servers,
)
from lakebed.streams.servers.tail_upload import TailUpload
from lakebed.streams.tables import StreamTables
from lakebed.streams.traffic import Traffic
from lakebed.wire.fluss.calls import AnyCall
from lakebed.wire.fluss.handlers.databases import database_calls
from lakebed.wire.fluss.handlers.kv import KvCalls
from lakebed.wire.fluss.handlers.logs import LogCalls
from lakebed.wire.fluss.handlers.metadata import metadata_calls
from lakebed.wire.fluss.handlers.remote_storage import remote_log_calls
from lakebed.wire.fluss.handlers.tables import partition_calls, table_calls

from ..decisions import wire_authorizer
from ..stores.identity import Identity, root_credential
from ..stores.metadata import open_metadata
from ..stores.object_store import confirm_object_store, open_storage
from ..stores.remote_storage import s3_options
from .administration import wire_administration

log = logging.getLogger("lakebed.streams")

STREAMS_FOLDER: Final = "streams"
SERVERS_PREFIX: Final = STREAM_SERVERS_PREFIX.removesuffix("/")
SNAPSHOTS_PREFIX: Final = f"{STREAMS_PREFIX}/{SNAPSHOTS_FOLDER}"
_SNAPSHOT_SECONDS: Final = 600.0
_MAINTENANCE_SECONDS: Final = 60.0
_SWEEP_SECONDS: Final = 30.0
_REPORTS: Final = 4
"""Heartbeats within the time after which the server counts as down."""


@dataclass(frozen=True, slots=True)
class Streams:
    """The stream server, for its process to run."""

    leadership: Leadership
    buckets: OpenBuckets
    calls: tuple[AnyCall, ...]
    callers: ConnectionLogins
    background: tuple[Callable[[], Coroutine[None, None, None]], ...]
    """Background tasks: each runs until cancelled."""
    inventory: InventoryCollector
    hand_over: Callable[[], Coroutine[None, None, None]]
    """Uploads records that exist only on this disk, at a regular stop."""


class _Foundation(NamedTuple):
    """Stores and identities of streams."""

    clock: Clock
    master: MasterKeys
    meta: MetaStore
    storage: ObjectStorage
    ownership: Ownership
    folder_ownership: FolderOwnership
    authorizer: Authorizer
    folder: Path
    logs: Logs
    server: str
    number: int
    address: HostPort
    files: RemoteFiles | None
    registry: ServerRegistry


@asynccontextmanager
async def compose(settings: Settings, identity: Identity, *, port: int) -> AsyncIterator[Streams]:
    """Open the stores and wire streams on them; closed at the end. Raises Unavailable if another process has them."""
    clock = SystemClock()
    master = MasterKeys(identity.master_keys, identity.active_key_id)
    folder = settings.server.data / STREAMS_FOLDER
    address = advertised_address(settings, port)
    async with AsyncExitStack() as stack:
        meta = await open_metadata(settings, master)
        stack.push_async_callback(meta.close)
        storage, _ = await open_storage(settings, clock)
        stack.push_async_callback(storage.close)
        ownership = await confirm_object_store(settings, meta, storage)
        folder_ownership = FolderOwnership(meta, folder)
        await folder_ownership.confirm_at_start()
        server = await asyncio.to_thread(establish_server_name, folder)
        number = await establish_server_number(meta, folder)
        registry = ServerRegistry(meta, clock)
        if settings.meta.is_postgres:
            own = RegisteredServer(server, number, str(address), acks_after_upload(settings))
            await join_servers(storage, registry, own, prefix=SERVERS_PREFIX, ttl_seconds=settings.streams.lease)
        try:
            sizes = LogSizes(segment_bytes=settings.streams.segment)
            logs = await asyncio.to_thread(Logs, str(folder / LOGS_FOLDER), clock, sizes, folder_ownership.confirm)
        except FlussError as failure:
            raise Unavailable(str(failure)) from failure
        stack.callback(logs.close)
        decisions = wire_authorizer(settings.decisions, clock)
        stack.push_async_callback(decisions.close)
        files = await open_remote_files(settings.streams, lambda: s3_options(settings.storage.s3), clock)
        if files is not None:
            stack.push_async_callback(files.close)
        foundation = _Foundation(
            clock,
            master,
            meta,
            storage,
            ownership,
            folder_ownership,
            decisions.authorizer,
            folder,
            logs,
            server,
            number,
            address,
            files,
            registry,
        )
        yield _wire(settings, identity, foundation)


def _wire(settings: Settings, identity: Identity, foundation: _Foundation) -> Streams:
    meta, clock = foundation.meta, foundation.clock
    root = root_credential(identity)
    outbox = Outbox(meta)
    authorizer = StreamAuthorizer(foundation.authorizer, root.principal.account)
    configs = ClusterConfigs(meta, outbox, clock, authorizer, _initial_configs(settings))
    id_ranges = IdRanges(meta)
    leases = Leases(meta, clock)
    leadership = Leadership(
        meta,
        leases,
        clock,
        server=foundation.server,
        number=foundation.number,
        advertised=foundation.address,
        as_reached=settings.streams.advertise is None,
        ttl_seconds=settings.streams.lease,
    )
    ack_after_upload = acks_after_upload(settings)

    def is_leader() -> bool:
        return leadership.is_leader

    leader_meta = LeaderStore(meta, leadership.fence)
    tables = StreamTables(leader_meta, outbox, clock, authorizer, configs)
    tables.cache_while(is_leader)
    partitions = StreamPartitions(leader_meta, outbox, clock, authorizer, tables, configs)
    partitions.cache_while(is_leader)
    databases = StreamDatabases(leader_meta, outbox, clock, authorizer, tables)
    folder, files = foundation.folder, foundation.files
    snapshots = KvSnapshots(meta, clock)
    snapshotter = KvSnapshotter(
        snapshots, foundation.storage, foundation.ownership, SNAPSHOTS_PREFIX, folder / "scratch"
    )
    memory = RocksMemory()
    kv_store = KvStore(folder / "keys", memory, snapshotter)

    remotes = RemoteLogs(
        foundation.storage,
        foundation.ownership,
        LogRows(meta, leadership.fence),
        foundation.logs.threads,
        lambda: str(uuid.uuid4()),
        RemoteSettings(address=None if foundation.files is None else foundation.files.location.address),
    )
    store = BucketOpener(
        foundation.logs,
        remotes,
        kv_store,
        tables,
        id_ranges,
        clock,
        is_leader,
        server=foundation.server,
        ack_after_upload=ack_after_upload,
    )
    buckets = OpenBuckets(store, tables, partitions, is_leader)
    purging = Purger(meta, buckets, is_leader, foundation.folder_ownership.confirm)
    tables.on_dropped(purging.wake)
    partitions.on_dropped(purging.wake)

    async def begin(lease: Lease) -> None:
        # Another server may have led since: caches are stale.
        tables.forget_all()
        partitions.forget_all()

    scanners = KvScanners(clock, KvScanLimits(ttl_seconds=settings.streams.scan_ttl))
    buckets.on_closed(scanners.close_bucket)
    leadership.on_acquired(begin)
    leadership.on_lost(buckets.close)
    access_keys = AccessKeys(meta, outbox, foundation.master, clock, root)
    clients = ClientAuthenticator(meta, access_keys, SecretHasher(), LoginThrottle(clock), foundation.master)
    rounds = None
    if (warehouse := settings.streams.warehouse) is not None:
        queue = TaskQueue(meta, clock, random.SystemRandom())
        rounds = TieringTasks(
            meta, queue, CatalogTasks(meta, outbox, clock, queue), warehouse, settings.streams.advertise
        )
    log_maintenance = LogMaintenance(buckets, tables, remotes.rows, clock, is_leader, server=foundation.server)
    tails = TailUpload(
        buckets, remotes.rows, store.upload_local_tail, lambda: leadership.holds_lease, server=foundation.server
    )
    check = ClusterHealthCheck(
        tables,
        partitions,
        buckets,
        remotes.rows,
        lambda: log_maintenance.not_uploaded,
        is_leader,
        server=foundation.server,
    )
    traffic = Traffic()
    administration = wire_administration(
        leader_meta,
        outbox,
        clock,
        authorizer,
        root.principal,
        databases,
        tables,
        partitions,
        buckets,
        configs,
        snapshots,
        leadership,
        FileAccess(clock, authorizer, tables, *(() if files is None else (files.location, files.credentials))),
        rounds,
        check,
        KvSizeCollector(folder / "keys", partitions, snapshots, clock),
        log_maintenance,
        traffic,
        {"log": foundation.logs.flushes, "kv": memory.flushes},
    )
    calls = (
        *administration.calls,
        *database_calls(databases),
        *table_calls(tables),
        *partition_calls(partitions),
        *metadata_calls(tables, partitions, leadership),
        *LogCalls(tables, partitions, buckets, authorizer, WriterIds(id_ranges), clock, traffic).calls(),
        *KvCalls(tables, buckets, authorizer, scanners, traffic).calls(),
        *remote_log_calls(tables, remotes),
    )

    async def take_snapshots() -> None:
        lease = leadership.lease
        if lease is not None:
            await kv_store.take_snapshots(lambda tx: leases.check(tx, lease))

    async def maintain() -> None:
        await log_maintenance.maintain()

    async def hand_over() -> None:
        if settings.streams.upload_on_stop:
            try:
                await take_snapshots()
                await log_maintenance.hand_over()
            except LakebedError as error:
                log.warning("upload at stop was not complete", exc_info=error)

    async def sweep_cursors() -> None:
        scanners.sweep()

    async def report() -> None:
        failure = next(iter(buckets.broken().values()), "") if leadership.holds_lease else tails.failure
        seen = RegisteredServer(
            foundation.server, foundation.number, str(foundation.address), ack_after_upload, failure
        )
        await foundation.registry.report(seen, settings.streams.lease)

    background = (
        *administration.background,
        purging.run,
        tails.run,
        lambda: _repeat("heartbeat", settings.streams.lease / _REPORTS, report, at_once=True),
        lambda: _repeat("KV snapshots", _SNAPSHOT_SECONDS, take_snapshots),
        lambda: _repeat("log maintenance", _MAINTENANCE_SECONDS, maintain),
        lambda: _repeat("scanner expiry", _SWEEP_SECONDS, sweep_cursors),
    )
    callers = ConnectionLogins(meta, clients, access_keys, foundation.master)
    return Streams(leadership, buckets, calls, callers, background, administration.inventory, hand_over)


def acks_after_upload(settings: Settings) -> bool:
    """Whether records are acknowledged only after their upload.

    By default if several servers can share the metadata store, so that acknowledged records survive the loss of one.
    """
    configured = settings.streams.ack_after_upload
    return settings.meta.is_postgres if configured is None else configured


async def _repeat(name: str, seconds: float, task: Callable[[], Awaitable[None]], *, at_once: bool = False) -> None:
    """Run a background task at intervals, until cancelled."""
    while True:
        if not at_once:
            await asyncio.sleep(seconds)
        at_once = False
        try:
            await task()
        except (LakebedError, OSError) as error:
            log.warning("background task failed, retrying at the next interval", extra={"task": name}, exc_info=error)
        except Exception:
            # A defect must not end the task for the life of the process.
            log.exception("background task crashed, retrying at the next interval", extra={"task": name})


def _initial_configs(settings: Settings) -> dict[str, str]:
    """The initial cluster configs, by Fluss name."""
    streams = settings.streams
    return {
        "bind.listeners": f"FLUSS://{streams.listen}",
        "advertised.listeners": "" if streams.advertise is None else f"FLUSS://{streams.advertise}",
        "security.protocol.map": "FLUSS:sasl",
        "security.sasl.enabled.mechanisms": "PLAIN",
        "authorizer.enabled": "true",
    }
