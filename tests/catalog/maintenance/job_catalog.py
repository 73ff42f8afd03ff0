"""The services of maintenance jobs on a catalog with a fixed clock, and tables with real manifests."""

from __future__ import annotations

from dataclasses import dataclass
from itertools import count
from typing import Any

import msgspec

from lakebed.catalog.identifiers import Identifier
from lakebed.catalog.maintenance.jobs.background import BackgroundMaintenance
from lakebed.catalog.maintenance.jobs.config import DEFAULT_CONFIG, MaintenanceConfig
from lakebed.catalog.maintenance.jobs.job_store import JobStore, StoredJob
from lakebed.catalog.maintenance.jobs.quarantine_review import QuarantineAction, ReviewOutcome
from lakebed.catalog.maintenance.jobs.requests import RunRequest
from lakebed.catalog.maintenance.jobs.scheduling import SchedulerView
from lakebed.catalog.maintenance.jobs.service import MaintenanceJobs, build_maintenance_jobs
from lakebed.catalog.maintenance.reachability.files import ObjectState
from lakebed.iceberg.manifests import EntryStatus, read_manifest_list
from lakebed.meta.seam import MetaStore
from lakebed.objects.model import Caller
from tests.catalog.harness import CatalogHarness, a_change, name, open_catalog, wire_catalog
from tests.iceberg.manifests.avro_files import a_file, a_manifest, an_entry, list_bytes, manifest_bytes, read_manifest
from tests.objects.stores import ROOT, ObjectStore

WINDOW_SECONDS = 900.0
BODY = b"PAR1" * 8

_numbers = count(1_000)


@dataclass(frozen=True, slots=True)
class JobCatalog:
    """The use cases, their dependencies, and helpers that call them as root."""

    catalog: CatalogHarness
    maintenance: MaintenanceJobs
    background: BackgroundMaintenance
    jobs: JobStore

    @property
    def store(self) -> ObjectStore:
        return self.catalog.store

    def age(self, seconds: float = WINDOW_SECONDS + 1) -> None:
        """Advance the clock by the safety window."""
        self.store.clock.advance(seconds)

    # -- tables ---------------------------------------------------------------------------------------------------

    async def table(self, table: str = "t", **request: Any) -> Identifier:
        """Create an empty table."""
        await self.catalog.create(table, **request)
        return name(table)

    async def directory(self, identifier: Identifier) -> str:
        """The directory of a table, as a key prefix."""
        location = (await self.catalog.entry(identifier)).location
        return location.removeprefix("s3://lake/") + "/"

    async def put(self, identifier: Identifier, path: str, body: bytes = BODY) -> str:
        """Put a file into the table's directory; returns its location."""
        key = await self.directory(identifier) + path
        await self.store.put("lake", key, body)
        return f"s3://lake/{key}"

    async def naming(
        self, identifier: Identifier, *data: str, deletes: tuple[str, ...] = (), keep: bool = True
    ) -> list[dict[str, Any]]:
        """The updates that add a snapshot with new manifests of existing files. Without `keep` it drops the earlier
        files: an overwrite."""
        metadata = await self.catalog.metadata(identifier)
        parent = metadata.current_snapshot
        snapshot_id, sequence = next(_numbers), metadata.last_sequence_number + 1
        lines = []
        for content, files in ((0, data), (1, deletes)):
            if not files:
                continue
            entries = [
                an_entry(a_file(file, content=content, record_count=1, file_size_in_bytes=len(BODY))) for file in files
            ]
            written = manifest_bytes(entries, content="deletes" if content else "data")
            path = await self.put(identifier, f"metadata/{snapshot_id}-m{content}.avro", written)
            lines.append(
                a_manifest(
                    path,
                    length=len(written),
                    content=content,
                    sequence_number=sequence,
                    min_sequence_number=sequence,
                    added_snapshot_id=snapshot_id,
                    added_files_count=len(files),
                    added_rows_count=len(files),
                )
            )
        if keep and parent is not None and parent.manifest_list is not None:
            lines += read_manifest_list(await self.catalog.files.read(parent.manifest_list))
        listing = await self.put(identifier, f"metadata/snap-{snapshot_id}.avro", list_bytes(lines))
        snapshot = {
            "snapshot-id": snapshot_id,
            "sequence-number": sequence,
            "timestamp-ms": self.store.clock.now_ms(),
            "manifest-list": listing,
            "summary": {"operation": "append" if keep and not deletes else "overwrite"},
            "schema-id": metadata.current_schema_id,
            **({} if parent is None else {"parent-snapshot-id": parent.snapshot_id}),
        }
        return [
            {"action": "add-snapshot", "snapshot": snapshot},
            {"action": "set-snapshot-ref", "ref-name": "main", "type": "branch", "snapshot-id": snapshot_id},
        ]

    async def append(self, identifier: Identifier, files: int = 1) -> int:
        """Append new data files; returns the id of the snapshot."""
        paths = [await self.put(identifier, f"data/{next(_numbers)}.parquet") for _ in range(files)]
        updates = await self.naming(identifier, *paths)
        await self.catalog.commit(identifier, *updates)
        return int(updates[1]["snapshot-id"])

    async def overwrite_manifest_list(self, identifier: Identifier, other: Identifier) -> None:
        """Overwrite the committed manifest list of a table with another table's, as a writer can."""
        own, foreign = [(await self.catalog.metadata(one)).current_snapshot for one in (identifier, other)]
        assert own is not None
        assert own.manifest_list is not None
        assert foreign is not None
        assert foreign.manifest_list is not None
        listing = await self.catalog.files.read(foreign.manifest_list)
        await self.store.put("lake", own.manifest_list.removeprefix("s3://lake/"), listing)

    async def keys(self, prefix: str = "") -> list[str]:
        """The keys of the bucket, without quarantine."""
        return [
            key for key in await self.catalog.keys_in() if key.startswith(prefix) and not key.startswith(".lakebed")
        ]

    async def held(self) -> list[str]:
        """The keys in quarantine."""
        return [key for key in await self.catalog.keys_in() if key.startswith(".lakebed/quarantine/")]

    async def referenced(self, identifier: Identifier) -> set[str]:
        """The keys that the current metadata refers to, computed independently of maintenance."""
        entry = await self.catalog.entry(identifier)
        metadata = await self.catalog.metadata(identifier)
        found = {entry.metadata_at}
        for snapshot in metadata.snapshots.values():
            assert snapshot.manifest_list is not None
            found.add(snapshot.manifest_list)
            for line in read_manifest_list(await self.catalog.files.read(snapshot.manifest_list)):
                found.add(line.path)
                for one in read_manifest(await self.catalog.files.read(line.path), line):
                    if one.status != EntryStatus.DELETED:
                        found.add(one.data_file.file_path)
        return {location.removeprefix("s3://lake/") for location in found}

    async def check_whole(self, identifier: Identifier) -> None:
        """Assert that all references of the table exist."""
        missing = await self.referenced(identifier) - set(await self.keys())
        assert not missing, f"the table refers to files that are gone: {missing}"

    # -- maintenance ----------------------------------------------------------------------------------------------

    async def configure(self, identifier: Identifier, **fields: Any) -> MaintenanceConfig:
        """Configure a table: the built-in configuration with changes."""
        config: MaintenanceConfig = msgspec.structs.replace(DEFAULT_CONFIG, **fields)
        await self.maintenance.configs.put(ROOT, "lake", identifier, config)
        return config

    async def run(self, identifier: Identifier, *, caller: Caller = ROOT, **request: Any) -> StoredJob:
        """Run an operator's request."""
        return (await self.maintenance.run(caller, "lake", identifier, RunRequest(**request))).stored

    async def schedule(self, identifier: Identifier, scheduler: str = "s1") -> StoredJob:
        return (await self.maintenance.schedule(ROOT, "lake", identifier, scheduler))[0].stored

    async def work(self, identifier: Identifier, worker: str = "w1") -> StoredJob:
        return (await self.maintenance.work(ROOT, "lake", identifier, worker)).stored

    async def view(self, identifier: Identifier) -> SchedulerView:
        return (await self.maintenance.scheduler(ROOT, "lake", identifier))[1]

    async def quarantine(
        self, identifier: Identifier, job: str, action: QuarantineAction = QuarantineAction.INSPECT, reason: str = ""
    ) -> ReviewOutcome:
        return (await self.maintenance.quarantine(ROOT, "lake", identifier, job, action, reason))[1]

    async def job(self, identifier: Identifier, job: str = "current") -> StoredJob:
        return (await self.maintenance.job(ROOT, "lake", identifier, job)).stored


def states(stored: StoredJob) -> dict[str, ObjectState]:
    """The decision on each file, by the last part of its name."""
    reports = (*stored.findings.metadata, *stored.findings.objects, *stored.findings.referenced)
    return {report.location.rpartition("/")[2]: report.state for report in reports}


def wire_job_catalog(catalog: CatalogHarness, meta: MetaStore | None = None) -> JobCatalog:
    """Maintenance jobs on a catalog; `meta` replaces its metadata store."""
    if meta is not None:
        catalog = wire_catalog(catalog.store, meta)
    object_context = catalog.publisher._f
    maintenance, background = build_maintenance_jobs(
        object_context,
        catalog.authorizer,
        catalog.catalogs,
        catalog.entries,
        catalog.files,
        catalog.commits,
        catalog.tasks,
        safety_window_ms=round(WINDOW_SECONDS * 1000),
        worker_id="background",
    )
    return JobCatalog(catalog, maintenance, background, JobStore(object_context.meta, catalog.tasks))


async def open_job_catalog(store: ObjectStore) -> JobCatalog:
    """Maintenance jobs on a catalog with a table bucket `lake` and a namespace `ns`."""
    return wire_job_catalog(await open_catalog(store))


__all__ = ["BODY", "ROOT", "JobCatalog", "a_change", "name", "open_job_catalog", "states", "wire_job_catalog"]
