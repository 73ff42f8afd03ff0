"""Wires stream administration: services, calls and background tasks of the leader."""

from __future__ import annotations

import asyncio
import logging
from collections.abc import Callable, Coroutine, Mapping, Sequence
from dataclasses import dataclass
from typing import Final

from lakebed.core.access import Principal
from lakebed.core.clock import Clock
from lakebed.core.errors import LakebedError
from lakebed.governance.rbac.stream_grants import StreamGrants
from lakebed.meta.outbox import Outbox
from lakebed.meta.seam import MetaStore
from lakebed.objects.model import Caller
from lakebed.streams.admin.acls import Acls
from lakebed.streams.admin.altering import TableAlterations
from lakebed.streams.admin.auto_partitions import AutoPartitionTask
from lakebed.streams.admin.cluster import ClusterAdmin
from lakebed.streams.admin.inventory import InventoryCollector
from lakebed.streams.admin.kv_sizes import KvSizeCollector
from lakebed.streams.admin.producer_offsets import ProducerOffsets
from lakebed.streams.admin.stats import ClusterHealthCheck, TableStats
from lakebed.streams.authorization import StreamAuthorizer
from lakebed.streams.buckets.log_maintenance import LogMaintenance
from lakebed.streams.buckets.open_buckets import OpenBuckets
from lakebed.streams.cluster_configs import ClusterConfigs
from lakebed.streams.databases import StreamDatabases
from lakebed.streams.durations import Durations
from lakebed.streams.file_access import FileAccess
from lakebed.streams.kv.snapshots import KvSnapshots
from lakebed.streams.lake.planner import TieringPlanner, TieringTaskQueue
from lakebed.streams.lake.service import LakeTiering
from lakebed.streams.partitions import StreamPartitions
from lakebed.streams.servers.leader import Leadership
from lakebed.streams.tables import StreamTables
from lakebed.streams.traffic import Traffic
from lakebed.wire.fluss.calls import AnyCall
from lakebed.wire.fluss.handlers.acls import acl_calls
from lakebed.wire.fluss.handlers.altering import altering_calls
from lakebed.wire.fluss.handlers.cluster import config_calls, server_calls, stats_calls
from lakebed.wire.fluss.handlers.lake import lake_calls
from lakebed.wire.fluss.handlers.producers import producer_calls
from lakebed.wire.fluss.handlers.remote_storage import file_calls
from lakebed.wire.fluss.handlers.snapshots import SnapshotCalls

_log: Final = logging.getLogger("lakebed.streams")
_EXPIRY_SECONDS: Final = 3600.0


@dataclass(frozen=True, slots=True)
class StreamAdministration:
    """Stream administration, for the process to run."""

    calls: tuple[AnyCall, ...]
    background: tuple[Callable[[], Coroutine[None, None, None]], ...]
    """Each runs until cancelled, and works only while this server leads."""

    inventory: InventoryCollector


def wire_administration(
    meta: MetaStore,
    outbox: Outbox,
    clock: Clock,
    authorizer: StreamAuthorizer,
    root: Principal,
    databases: StreamDatabases,
    tables: StreamTables,
    partitions: StreamPartitions,
    buckets: OpenBuckets,
    configs: ClusterConfigs,
    snapshots: KvSnapshots,
    leadership: Leadership,
    files: FileAccess,
    rounds: TieringTaskQueue | None,
    check: ClusterHealthCheck,
    key_sizes: KvSizeCollector,
    log_maintenance: LogMaintenance,
    traffic: Traffic,
    flushes: Mapping[str, Durations],
) -> StreamAdministration:
    """Wire the services. With `tasks` the leader plans tiering."""
    server = Caller(root, request_id="streams")

    async def live() -> Sequence[int]:
        return [leadership.number]

    def epoch() -> int:
        return 0 if leadership.lease is None else leadership.lease.token

    def is_leader() -> bool:
        return leadership.is_leader

    lake = LakeTiering(meta, outbox, clock, authorizer, tables, epoch)
    leadership.on_acquired(lake.begin)
    producers = ProducerOffsets(meta, clock, authorizer, tables, configs)
    auto_partitions = AutoPartitionTask(clock, tables, partitions, configs, server, is_leader)
    tables.on_changed(auto_partitions.changed)

    async def expire() -> None:
        while True:
            try:
                if is_leader():
                    await producers.expire()
            except LakebedError as error:
                _log.warning("expiring producer offsets failed, retrying. reason=%s", error)
            await asyncio.sleep(_EXPIRY_SECONDS)

    calls = (
        *altering_calls(TableAlterations(meta, clock, authorizer, databases, tables)),
        *acl_calls(Acls(authorizer, StreamGrants(meta, outbox, clock))),
        *config_calls(configs),
        *file_calls(files, clock),
        *server_calls(ClusterAdmin(meta, outbox, clock, authorizer, live)),
        *stats_calls(TableStats(authorizer, tables, buckets, check)),
        *producer_calls(producers),
        *lake_calls(lake, partitions),
        *SnapshotCalls(tables, partitions, buckets, snapshots, files).calls(),
    )
    background: tuple[Callable[[], Coroutine[None, None, None]], ...] = (auto_partitions.run, expire)
    if rounds is not None:
        background += (TieringPlanner(clock, lake, tables, partitions, buckets.get, rounds, is_leader).run,)
    inventory = InventoryCollector(
        tables,
        partitions,
        buckets,
        lake,
        snapshots,
        clock,
        check,
        key_sizes,
        log_maintenance.take_upload_counts,
        traffic,
        flushes,
    )
    return StreamAdministration(calls, background, inventory)
