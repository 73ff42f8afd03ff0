"""Wires what administers streams: its use cases, their calls, and the chores of the home."""

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
from lakebed.streams.servers.leader import LeaderLease
from lakebed.streams.tables import StreamTables
from lakebed.streams.traffic import Traffic
from lakebed.wire.fluss.calls import AnyCall
from lakebed.wire.fluss.handlers.acls import acl_calls
from lakebed.wire.fluss.handlers.altering import altering_calls
from lakebed.wire.fluss.handlers.cluster import config_calls, server_calls, stats_calls
from lakebed.wire.fluss.handlers.files import file_calls
from lakebed.wire.fluss.handlers.lake import lake_calls
from lakebed.wire.fluss.handlers.producers import producer_calls
from lakebed.wire.fluss.handlers.snapshots import SnapshotCalls

_log: Final = logging.getLogger("lakebed.streams")
_EXPIRY_SECONDS: Final = 3600.0


@dataclass(frozen=True, slots=True)
class StreamAdministration:
    """What administers streams, for its process to run."""

    calls: tuple[AnyCall, ...]
    chores: tuple[Callable[[], Coroutine[None, None, None]], ...]
    """Each runs until cancelled, and does something only while this server is the home."""

    census: InventoryCollector


def wire_administration(
    meta: MetaStore,
    outbox: Outbox,
    clock: Clock,
    gate: StreamAuthorizer,
    root: Principal,
    databases: StreamDatabases,
    tables: StreamTables,
    partitions: StreamPartitions,
    buckets: OpenBuckets,
    configs: ClusterConfigs,
    snapshots: KvSnapshots,
    home: LeaderLease,
    files: FileAccess,
    rounds: TieringTaskQueue | None,
    check: ClusterHealthCheck,
    key_sizes: KvSizeCollector,
    tending: LogMaintenance,
    traffic: Traffic,
    flushes: Mapping[str, Durations],
) -> StreamAdministration:
    """The use cases, on what streams are made of. With `rounds` the home plans tiering itself."""
    server = Caller(root, request_id="streams")

    async def live() -> Sequence[int]:
        return [home.number]

    def epoch() -> int:
        return 0 if home.lease is None else home.lease.token

    def is_home() -> bool:
        return home.is_here

    lake = LakeTiering(meta, outbox, clock, gate, tables, epoch)
    home.when_begun(lake.begin)
    producers = ProducerOffsets(meta, clock, gate, tables, configs)
    auto_partitions = AutoPartitionTask(clock, tables, partitions, configs, server, is_home)
    tables.when_changed(auto_partitions.changed)

    async def expire() -> None:
        while True:
            try:
                if is_home():
                    await producers.expire()
            except LakebedError as error:
                _log.warning("offsets of producers are forgotten later. reason=%s", error)
            await asyncio.sleep(_EXPIRY_SECONDS)

    calls = (
        *altering_calls(TableAlterations(meta, clock, gate, databases, tables)),
        *acl_calls(Acls(gate, StreamGrants(meta, outbox, clock))),
        *config_calls(configs),
        *file_calls(files, clock),
        *server_calls(ClusterAdmin(meta, outbox, clock, gate, live)),
        *stats_calls(TableStats(gate, tables, buckets, check)),
        *producer_calls(producers),
        *lake_calls(lake, partitions),
        *SnapshotCalls(gate, tables, partitions, buckets, snapshots, files).calls(),
    )
    chores: tuple[Callable[[], Coroutine[None, None, None]], ...] = (auto_partitions.run, expire)
    if rounds is not None:
        chores += (TieringPlanner(clock, lake, tables, partitions, buckets.get, rounds, is_home).run,)
    census = InventoryCollector(
        tables, partitions, buckets, lake, snapshots, clock, check, key_sizes, tending.take_copied, traffic, flushes
    )
    return StreamAdministration(calls, chores, census)
