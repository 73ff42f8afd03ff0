from __future__ import annotations

import asyncio

import pytest

from lakebed.catalog.idempotency import LIFETIME_MS, RequestKey
from lakebed.catalog.maintenance.service import build_maintenance
from lakebed.catalog.maintenance.table_planner import PlanningTotals
from lakebed.catalog.scans.scan_plans import ScanPlans
from lakebed.catalog.tables import drops
from lakebed.catalog.tables.metrics_reports import KEPT_MS
from lakebed.governance.credentials.sessions import MAX_DELEGATION_SECONDS
from lakebed.governance.delegation.delegated_accesses import AccessCounter, AccessGroup, CredentialRecipient
from lakebed.governance.delegation.delegations import KEPT_SECONDS, DelegationLog
from lakebed.meta.seam import Transaction
from lakebed.meta.tasks import TaskLease
from lakebed.server import catalog_jobs
from lakebed.server.catalog_jobs import CatalogJobs
from tests.catalog.maintenance.job_catalog import JobCatalog, open_job_catalog
from tests.objects.conftest import clock, light_store
from tests.objects.stores import ROOT, ObjectStore

__all__ = ["clock", "light_store"]


@pytest.fixture
async def job_catalog(light_store: ObjectStore) -> JobCatalog:
    return await open_job_catalog(light_store)


@pytest.fixture
def jobs(job_catalog: JobCatalog) -> CatalogJobs:
    catalog = job_catalog.catalog
    meta, clock = job_catalog.store.meta, job_catalog.store.clock
    parts = build_maintenance(
        job_catalog.store.object_context,
        catalog.authorizer,
        catalog.catalogs,
        catalog.entries,
        catalog.files,
        catalog.tasks,
        holder="here",
        interval_seconds=300,
        debounce_seconds=10,
    )
    return CatalogJobs(
        dropping=catalog.dropping,
        keys=catalog.keys,
        reports=catalog.reports,
        scans=ScanPlans(meta, catalog.files, catalog.entries, catalog.commits, clock),
        copies=catalog.copies,
        claims=catalog.claims,
        maintenance=job_catalog.background,
        purges=catalog.purges,
        tasks=catalog.tasks,
        scheduler=parts.scheduler,
        clock=clock,
        delegations=DelegationLog(meta),
        trace_retention_seconds=KEPT_SECONDS,
    )


async def test_dropped_tables_expire_after_the_undrop_window(
    job_catalog: JobCatalog, jobs: CatalogJobs, monkeypatch: pytest.MonkeyPatch
) -> None:
    monkeypatch.setattr(drops, "_EXPIRED_A_RUN", 1)
    await job_catalog.catalog.set_undrop_window(60)
    for one in ("a", "b"):
        await job_catalog.table(one)
        await job_catalog.catalog.drop(one)
    assert await jobs.expire_dropped() == 0
    job_catalog.age(60)
    assert await jobs.expire_dropped() == 2


async def test_old_idempotency_keys_and_metrics_reports_are_deleted(job_catalog: JobCatalog, jobs: CatalogJobs) -> None:
    table = await job_catalog.table()
    await job_catalog.catalog.create("d", key=RequestKey("k", ""))
    await job_catalog.catalog.reports.keep(ROOT, "lake", table, "scan-report", b"{}")
    assert await jobs.remove_old() == (0, 0, 0, 0, 0, 0, 0)
    job_catalog.age(LIFETIME_MS / 1000 + 1)
    assert await jobs.remove_old() == (1, 0, 0, 0, 0, 0, 0)
    job_catalog.age(KEPT_MS / 1000)
    assert await jobs.remove_old() == (0, 1, 0, 0, 0, 0, 0)


async def test_old_completed_tasks_are_deleted_and_others_stay(job_catalog: JobCatalog, jobs: CatalogJobs) -> None:
    async def enqueue(tx: Transaction) -> None:
        for number in range(3):
            await jobs.tasks.enqueue(tx, "k", b"", dedupe=str(number))

    await job_catalog.store.meta.transact(enqueue)
    for claim in await jobs.tasks.claim(["k"], "w", 60, limit=2):

        async def complete(tx: Transaction, claim: TaskLease = claim) -> None:
            await jobs.tasks.complete(tx, claim, b"{}")

        await job_catalog.store.meta.transact(complete)
    job_catalog.age(catalog_jobs.TASKS_KEPT_MS / 1000)
    assert (await jobs.remove_old()).tasks == 0
    job_catalog.age(1)
    assert (await jobs.remove_old()).tasks == 2
    assert len(await jobs.tasks.of_kinds(job_catalog.store.meta, ["k"])) == 1


async def test_accesses_without_a_delegation_record_are_deleted_after_retention(
    job_catalog: JobCatalog, jobs: CatalogJobs
) -> None:
    tally = AccessCounter(job_catalog.store.meta, job_catalog.store.clock)
    place = AccessGroup("lake", "f", "LOST", "GetObject", 200)
    tally.count(place, CredentialRecipient("bob", "T1", "R1"), received_bytes=0, sent_bytes=1, request_id="R2")
    await tally.flush()
    job_catalog.age(KEPT_SECONDS + MAX_DELEGATION_SECONDS)
    assert (await jobs.remove_old()).delegations == 0
    job_catalog.age(1)
    assert (await jobs.remove_old()).delegations == 1


async def test_scheduler_reports_planning_totals_until_it_is_cancelled(
    job_catalog: JobCatalog, jobs: CatalogJobs
) -> None:
    await job_catalog.table()
    planned: list[PlanningTotals] = []
    running = asyncio.create_task(jobs.schedule(planned.append))
    async with asyncio.timeout(30):
        while not planned:
            await asyncio.sleep(0.01)
    running.cancel()
    with pytest.raises(asyncio.CancelledError):
        await running
    assert planned[0] == PlanningTotals()


async def test_due_maintenance_runs(job_catalog: JobCatalog, jobs: CatalogJobs) -> None:
    table = await job_catalog.table()
    await job_catalog.configure(table, background_enabled=True)
    assert (await jobs.maintain()).jobs == 1
    assert (await jobs.maintain()).jobs == 0


async def test_purge_job_waits_for_a_purge_and_runs_it(job_catalog: JobCatalog, jobs: CatalogJobs) -> None:
    table = await job_catalog.table()
    await job_catalog.append(table)
    waiting = asyncio.create_task(jobs.purge_next())
    await asyncio.sleep(0)
    await job_catalog.catalog.drop(purge=True)
    assert await waiting == 1
    assert await job_catalog.keys() == []


async def test_wait_for_purges_times_out(jobs: CatalogJobs, monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setattr(catalog_jobs, "_WAIT_SECONDS", 0.0)
    assert await jobs.purge_next() == 0
