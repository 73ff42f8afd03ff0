"""Time and memory of planning maintenance for many tables with policies.

The scheduler, its stores and its services run in one process, without HTTP. Tables are published as commits publish
them. One in ten has twelve small files and as many manifests, which planning must read. Four policies apply to all
tables; some namespaces and tables have their own.
"""

from __future__ import annotations

import asyncio
import gc
import json
import random
import time
from collections.abc import Iterator
from dataclasses import dataclass, field
from pathlib import Path
from typing import Any, Final
from uuid import UUID

import msgspec

from benchmarks.catalog import files as appends
from benchmarks.session import report_progress
from lakebed.catalog.access.authorization import CatalogAuthorizer
from lakebed.catalog.catalogs.service import CatalogService
from lakebed.catalog.commits.metadata_cache import MetadataCache
from lakebed.catalog.commits.publishing import CREATED, PointerUpdate, Publisher
from lakebed.catalog.entries import Entries
from lakebed.catalog.idempotency import IdempotencyKeys, Mutation, StoredResponse
from lakebed.catalog.identifiers import Identifier
from lakebed.catalog.locations.claims import EntryLocations, LocationClaims
from lakebed.catalog.maintenance.service import MaintenanceParts, build_maintenance
from lakebed.catalog.maintenance.table_planner import PlanningTotals
from lakebed.catalog.model import EntryKind
from lakebed.catalog.namespaces import Namespaces
from lakebed.catalog.policies.attachments import CATALOG, PolicyAttachments, TargetName
from lakebed.catalog.policies.policies import NewPolicy, PolicyManagement
from lakebed.catalog.policies.policy_types import PolicyTypes
from lakebed.catalog.policies.targets import PolicyTargets
from lakebed.catalog.tables.files import FileAddress
from lakebed.catalog.tables.served_files import ServedFiles
from lakebed.core.access import DEFAULT_ACCOUNT, root_of
from lakebed.core.clock import SystemClock
from lakebed.core.settings import ServerSettings, Settings
from lakebed.governance.credentials.vault import MasterKeys
from lakebed.governance.policies.maintenance_content import (
    DATA_COMPACTION,
    METADATA_COMPACTION,
    ORPHAN_FILE_REMOVAL,
    SNAPSHOT_EXPIRY,
)
from lakebed.iceberg.metadata import parse_table
from lakebed.meta.tasks import TaskQueue
from lakebed.objects.blobs.digests import ExpectedDigests
from lakebed.objects.buckets.service import BucketService
from lakebed.objects.context import ObjectContext
from lakebed.objects.deleting import ObjectDeleter
from lakebed.objects.model import DEFAULT_ATTRIBUTES, Caller
from lakebed.objects.reading import ObjectReader
from lakebed.objects.writing import NewObject, ObjectWriter
from lakebed.server.composition import build_foundation
from lakebed.server.stores.identity import establish_identity
from lakebed.server.stores.metadata import open_metadata
from lakebed.server.stores.object_store import confirm_object_store, open_storage

LAKE: Final = "lake"
TABLES_A_NAMESPACE: Final = 100
COMMITS: Final = 12
"""Of each table, for metadata of some length."""
MESSY_ONE_IN: Final = 10
GOAL_TABLES: Final = 10_000
GOAL_SECONDS: Final = 10.0
GOAL_GROWTH_MIB: Final = 64.0
CONCURRENT_UPLOADS: Final = 64
DAY_MS: Final = 86_400_000

ROOT: Final = Caller(root_of(DEFAULT_ACCOUNT))


class Pass(msgspec.Struct, frozen=True):
    """One pass over all tables."""

    name: str
    seconds: float
    looked_at: int
    tasks: int
    start_mib: float
    """Resident memory before the pass."""
    half_mib: float
    end_mib: float

    def is_fast(self, tables: int) -> bool:
        """Whether the pass met the time goal for so many tables."""
        return self.seconds <= GOAL_SECONDS * tables / GOAL_TABLES

    @property
    def is_flat(self) -> bool:
        """Whether memory growth in the second half met the goal."""
        return self.end_mib - self.half_mib <= GOAL_GROWTH_MIB


@dataclass
class Site:
    """The services that the benchmark calls."""

    object_context: ObjectContext
    writer: ObjectWriter
    files: ServedFiles
    entries: Entries
    publisher: Publisher
    claims: LocationClaims
    namespaces: Namespaces
    catalogs: CatalogService
    policies: PolicyManagement
    attaching: PolicyAttachments
    maintenance: MaintenanceParts
    sizes: list[int] = field(default_factory=list)

    async def put(self, location: str, body: bytes) -> None:
        key = location.removeprefix(f"s3://{LAKE}/")
        await self.writer.put(ROOT, LAKE, NewObject(key, DEFAULT_ATTRIBUTES), _InMemoryBody(body), ExpectedDigests())

    async def policy(self, name: str, kind: str, target: TargetName, **config: Any) -> None:
        content = json.dumps({"enable": True, "config": config})
        await self.policies.create(Mutation(ROOT), LAKE, ("ns0",), NewPolicy(name, kind, content), lambda _: b"")
        await self.attaching.attach(Mutation(ROOT), LAKE, ("ns0",), name, target, {})


class _InMemoryBody:
    """A body in memory, as a stream."""

    def __init__(self, body: bytes) -> None:
        self._body: bytes | None = body
        self.length: int | None = len(body)

    async def next_chunk(self) -> bytes | None:
        body, self._body = self._body, None
        return body or None


def wire(object_context: ObjectContext) -> Site:
    """Build the services as a server does."""
    meta, clock = object_context.meta, object_context.clock
    writer, authorizer = ObjectWriter(object_context), CatalogAuthorizer(object_context)
    files = ServedFiles(object_context, writer, ObjectReader(object_context), ObjectDeleter(object_context))
    keys, catalogs = IdempotencyKeys(meta, clock), CatalogService(object_context, authorizer)
    entries = Entries(meta, files, authorizer, MetadataCache())
    namespaces = Namespaces(object_context, authorizer, catalogs, keys)
    types = PolicyTypes(object_context, authorizer, catalogs, keys)
    policies = PolicyManagement(object_context, authorizer, catalogs, namespaces, keys, types)
    queue = TaskQueue(meta, clock, random.Random(1))
    claims = LocationClaims(object_context)
    return Site(
        object_context=object_context,
        claims=claims,
        writer=writer,
        files=files,
        entries=entries,
        publisher=Publisher(object_context, files, entries, keys, claims),
        namespaces=namespaces,
        catalogs=catalogs,
        policies=policies,
        attaching=PolicyAttachments(
            object_context, catalogs, keys, types, policies, PolicyTargets(authorizer, catalogs, entries)
        ),
        maintenance=build_maintenance(
            object_context,
            authorizer,
            catalogs,
            entries,
            files,
            queue,
            holder="benchmark",
            interval_seconds=3600,
            debounce_seconds=0,
        ),
    )


async def build(site: Site, tables: int) -> None:
    """Create the tables and their policies."""
    await BucketService(site.object_context).create(ROOT, LAKE)
    await site.catalogs.enable(ROOT, LAKE)
    for first in range(0, tables, TABLES_A_NAMESPACE):
        namespace = f"ns{first // TABLES_A_NAMESPACE}"
        await site.namespaces.create(Mutation(ROOT), LAKE, (namespace,), {})
        await publish(site, namespace, range(first, min(tables, first + TABLES_A_NAMESPACE)))
    await site.policy("compaction", DATA_COMPACTION, CATALOG, **{"min-input-files": 5, "layout": True})
    await site.policy("manifests", METADATA_COMPACTION, CATALOG)
    await site.policy("expiry", SNAPSHOT_EXPIRY, CATALOG, **{"max-snapshot-age-ms": 365 * DAY_MS})
    await site.policy("orphans", ORPHAN_FILE_REMOVAL, CATALOG, **{"older-than-ms": 365 * DAY_MS})
    for number in range(0, tables // TABLES_A_NAMESPACE, 10):
        target = TargetName.of([f"ns{number}"])
        await site.policy(f"of-namespace-{number}", DATA_COMPACTION, target, **{"min-input-files": 6})
    for number in range(0, tables, 100):
        target = TargetName.of([f"ns{number // TABLES_A_NAMESPACE}"], f"t{number}")
        await site.policy(f"of-table-{number}", SNAPSHOT_EXPIRY, target, **{"max-snapshot-age-ms": 400 * DAY_MS})


async def publish(site: Site, namespace: str, numbers: range) -> None:
    """Publish the tables of a namespace in one transaction."""
    pointers: list[PointerUpdate] = []
    for number in numbers:
        identifier = Identifier((namespace,), f"t{number}")
        location = f"s3://{LAKE}/{namespace}/t{number}"
        is_messy = number % MESSY_ONE_IN == 0
        document = json.dumps(metadata(location, number, is_messy=is_messy)).encode()
        address = FileAddress(LAKE, f"{namespace}/t{number}/metadata/v1.metadata.json")
        site.sizes.append(len(document))
        if is_messy:
            # Before the claim: files that appear in a claimed directory refuse it.
            uploads = list(manifests(location))
            for start in range(0, len(uploads), CONCURRENT_UPLOADS):
                await asyncio.gather(*(site.put(*upload) for upload in uploads[start : start + CONCURRENT_UPLOADS]))
        found = await site.entries.find(site.object_context.meta, LAKE, identifier)
        entry_id = UUID(int=number + 1).hex
        locations = EntryLocations(found.catalog, found.namespace, EntryKind.TABLE, entry_id, location)
        pointers.append(
            PointerUpdate(
                claim=await site.claims.prepare(ROOT, locations),
                found=found,
                identifier=identifier,
                kind=EntryKind.TABLE,
                entry_id=entry_id,
                metadata=parse_table(document),
                metadata_at=str(address),
                file=await site.files.prepare(address, document),
                event=CREATED,
                operation="create",
            )
        )
    await site.publisher.publish(Mutation(ROOT), pointers, StoredResponse(200))


def metadata(location: str, number: int, *, is_messy: bool) -> dict[str, Any]:
    """A table's metadata. Other tables than messy ones have few small files by their summary, and as many snapshots."""
    now_ms = time.time_ns() // 1_000_000
    snapshots = []
    for commit in range(1, COMMITS + 1):
        snapshot = appends.snapshot(location, commit, now_ms - (COMMITS - commit) * 60_000)
        if not is_messy:
            large = {"total-data-files": "40", "total-files-size": str(40 << 29), "added-data-files": "0"}
            snapshot["summary"] |= {**large, "added-files-size": "0"}
        snapshots.append(snapshot)
    return {
        "format-version": 2,
        "table-uuid": str(UUID(int=number + 1)),
        "location": location,
        "last-sequence-number": COMMITS,
        "last-updated-ms": now_ms,
        "last-column-id": appends.COLUMNS,
        "schemas": [appends.table_schema()],
        "current-schema-id": 0,
        "partition-specs": [{"spec-id": 0, "fields": []}],
        "default-spec-id": 0,
        "last-partition-id": 999,
        "sort-orders": [{"order-id": 0, "fields": []}],
        "default-sort-order-id": 0,
        "properties": {},
        "current-snapshot-id": appends.snapshot_id(COMMITS),
        "refs": {"main": {"snapshot-id": appends.snapshot_id(COMMITS), "type": "branch"}},
        "snapshots": snapshots,
        "snapshot-log": [],
        "metadata-log": [],
    }


def manifests(location: str) -> Iterator[tuple[str, bytes]]:
    """The manifests of the current snapshot, and its manifest list."""
    entries = []
    for commit in range(1, COMMITS + 1):
        written = appends.manifest(location, commit)
        entries.append(appends.manifest_list_entry(location, commit, len(written)))
        yield appends.manifest_path(location, commit), written
    yield appends.list_path(location, COMMITS), appends.manifest_list(entries, COMMITS)


async def pass_over_all(site: Site, name: str, tables: int) -> Pass:
    """Run one scheduler pass over all tables."""
    scheduler = site.maintenance.scheduler
    assert await scheduler.hold()
    scheduler._next_pass_ms = 0
    gc.collect()
    start_mib = half_mib = resident_mib()
    total, seen = PlanningTotals(), 0
    began = time.perf_counter()
    while True:
        await scheduler.hold()
        done = await scheduler.step()
        total = total.plus(done.planned)
        seen += done.planned.tables
        if seen * 2 <= tables:
            half_mib = resident_mib()
        if done.passed:
            break
    seconds = time.perf_counter() - began
    return Pass(name, seconds, total.tables, total.tasks, start_mib, half_mib, resident_mib())


def resident_mib() -> float:
    """Resident memory of this process."""
    pages = int(Path("/proc/self/statm").read_text().split()[1])
    return pages * 4096 / 1024**2


def measure(folder: Path, tables: int) -> list[Pass]:
    """Create the tables and plan them. Runs in a separate process, because it measures resident memory."""
    return asyncio.run(_measure(folder, tables))


async def _measure(folder: Path, tables: int) -> list[Pass]:
    settings = Settings(server=ServerSettings(data=folder / "data"))
    identity, clock = establish_identity(settings), SystemClock()
    master = MasterKeys(identity.master_keys, identity.active_key_id)
    meta = await open_metadata(settings, master)
    storage, open_writer = await open_storage(settings, clock)
    ownership = await confirm_object_store(settings, meta, storage)
    object_context = build_foundation(
        settings, identity, master, clock, meta, storage, ownership, open_writer
    ).object_context
    try:
        site = wire(object_context)
        report_progress(f"creating {tables:,} tables")
        began = time.perf_counter()
        await build(site, tables)
        average = sum(site.sizes) / len(site.sizes) / 1024
        report_progress(f"created in {time.perf_counter() - began:.0f} s, {average:.1f} KiB of metadata each")
        # A server starts with an empty cache.
        site.entries._cache._kept.clear()
        site.entries._cache._bytes = 0
        # Skip the events of the set-up.
        await site.maintenance.scheduler.hold()
        return [
            await pass_over_all(site, "all tables are new", tables),
            await pass_over_all(site, "nothing has changed", tables),
        ]
    finally:
        object_context.ingester.close()
        await storage.close()
        await meta.close()
