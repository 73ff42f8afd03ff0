"""The migration that gives tasks to jobs of earlier releases, which had separate leases."""

from __future__ import annotations

from typing import Any

import pytest

from lakebed.catalog.identifiers import Identifier
from lakebed.catalog.maintenance.jobs.execution import JobExecutor
from lakebed.catalog.maintenance.jobs.job_store import KIND
from lakebed.catalog.maintenance.jobs.lifecycle import SchedulerStatus
from lakebed.catalog.maintenance.jobs.model import JobStatus
from lakebed.core.errors import Fenced
from lakebed.meta.migrations import migrate
from lakebed.meta.seam import Transaction
from lakebed.meta.tasks import TaskState
from tests.catalog.maintenance.job_catalog import JobCatalog
from tests.objects.stores import ROOT

STEP = 40
LEASE_SECONDS = 900


class Killed(BaseException):
    """The worker's process ends."""


async def as_an_earlier_release_left_it(job_catalog: JobCatalog) -> None:
    """Undo the migration and run it again. Job documents are the same before and after it."""

    async def work(tx: Transaction) -> None:
        await tx.run("DELETE FROM tasks WHERE kind = ?", KIND)
        await tx.run("DELETE FROM schema_versions WHERE version >= ?", STEP)
        # Of a later migration.
        await tx.run("DROP TABLE catalog_storage")

    await job_catalog.store.meta.transact(work)
    await migrate(job_catalog.store.meta)


async def a_table(job_catalog: JobCatalog, name: str, **config: Any) -> Identifier:
    table = await job_catalog.table(name)
    await job_catalog.configure(table, background_enabled=True, **config)
    return table


async def run_until_killed(job_catalog: JobCatalog, table: Identifier, monkeypatch: pytest.MonkeyPatch) -> None:
    async def killed(self: JobExecutor, *arguments: Any) -> Any:
        raise Killed

    monkeypatch.setattr(JobExecutor, "run", killed)
    with pytest.raises(Killed):
        await job_catalog.work(table, "earlier")
    monkeypatch.undo()


async def test_queued_jobs_can_be_claimed_and_ended_jobs_hold_no_task(job_catalog: JobCatalog) -> None:
    queued, ended, failed = [await a_table(job_catalog, name) for name in ("queued", "ended", "failed")]
    job = (await job_catalog.schedule(queued)).job
    await job_catalog.work(ended)
    await job_catalog.schedule(failed)
    await job_catalog.configure(failed, background_enabled=True, retain_recent_metadata_files=1)
    with pytest.raises(Exception, match="changed since the job was planned"):
        await job_catalog.work(failed)
    await as_an_earlier_release_left_it(job_catalog)
    (task,) = await job_catalog.catalog.tasks.of_kinds(job_catalog.store.meta, [KIND])
    assert (task.state, task.payload.decode(), task.due_ms) == (
        TaskState.CLAIMED,
        job.id,
        job_catalog.store.clock.now_ms() + LEASE_SECONDS * 1000,
    )
    assert (await job_catalog.view(queued)).status is SchedulerStatus.QUEUED
    done = await job_catalog.work(queued)
    assert (done.job.id, done.job.status) == (job.id, JobStatus.SUCCESSFUL)
    for table in (ended, failed):
        assert (await job_catalog.view(table)).status is SchedulerStatus.READY
        assert (await job_catalog.work(table)).job.status is JobStatus.SUCCESSFUL
    assert await job_catalog.catalog.tasks.of_kinds(job_catalog.store.meta, [KIND]) == []


async def test_running_jobs_keep_their_lease(job_catalog: JobCatalog, monkeypatch: pytest.MonkeyPatch) -> None:
    table = await a_table(job_catalog, "t", delete_enabled=True)
    await run_until_killed(job_catalog, table, monkeypatch)
    await as_an_earlier_release_left_it(job_catalog)
    job = (await job_catalog.job(table)).job
    assert (await job_catalog.view(table)).status is SchedulerStatus.BACKPRESSURED
    assert (await job_catalog.work(table, "other")).job == job
    # Its worker ended with the earlier release, whose lease is not the task's.
    with pytest.raises(Fenced):
        await job_catalog.maintenance.heartbeat(
            ROOT, "lake", table, job.id, worker_id=job.worker_id, lease_id=job.lease_id
        )
    job_catalog.age(LEASE_SECONDS)
    done = await job_catalog.work(table, "other")
    assert (done.job.id != job.id, done.job.status) == (True, JobStatus.SUCCESSFUL)
    assert (await job_catalog.job(table, job.id)).job.failure_reason == "worker lease expired"


async def test_task_of_a_removed_table_is_ended(light_job_catalog: JobCatalog, monkeypatch: pytest.MonkeyPatch) -> None:
    job_catalog = light_job_catalog
    table = await a_table(job_catalog, "t")
    await run_until_killed(job_catalog, table, monkeypatch)
    entry = await job_catalog.catalog.entry(table)

    async def remove(tx: Transaction) -> None:
        await tx.run("DELETE FROM entries WHERE id = ?", entry.id)

    await job_catalog.store.meta.transact(remove)
    tasks = job_catalog.catalog.tasks
    await job_catalog.background.run_due()
    assert len(await tasks.of_kinds(job_catalog.store.meta, [KIND])) == 1
    job_catalog.age(LEASE_SECONDS)
    await job_catalog.background.run_due()
    assert await tasks.of_kinds(job_catalog.store.meta, [KIND]) == []
