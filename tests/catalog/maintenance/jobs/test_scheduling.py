from __future__ import annotations

from typing import Any

import pytest

from lakebed.catalog.maintenance.jobs.execution import JobExecutor
from lakebed.catalog.maintenance.jobs.lifecycle import SchedulerStatus
from lakebed.catalog.maintenance.jobs.model import Actor, AuditStep, JobStatus, RemovalMode
from lakebed.core.errors import AccessDenied, CommitConflict, NotFound, PointerMoved, StateConflict, Unavailable
from tests.catalog.harness import UNPRIVILEGED, set_properties
from tests.catalog.maintenance.job_catalog import JobCatalog
from tests.objects.stores import ROOT


async def test_job_is_queued_claimed_and_completed(job_catalog: JobCatalog) -> None:
    table = await job_catalog.table()
    await job_catalog.append(table)
    orphan = await job_catalog.put(table, "data/orphan.parquet")
    job_catalog.age()
    await job_catalog.configure(table, background_enabled=True, delete_enabled=True)
    queued = await job_catalog.schedule(table, "mine")
    assert (queued.job.status, queued.job.operation) == (JobStatus.QUEUED, RemovalMode.DELETE)
    assert (queued.job.scheduler_id, queued.job.counts.deletable_objects) == ("mine", 1)
    assert queued.job.scheduler_lease_id
    assert (await job_catalog.view(table)).status is SchedulerStatus.QUEUED
    done = await job_catalog.work(table, "w")
    assert (done.job.id, done.job.status, done.job.attempt) == (queued.job.id, JobStatus.SUCCESSFUL, 1)
    assert (done.job.worker_id, done.job.scheduler_id) == ("w", "mine")
    assert done.job.lease_id
    assert orphan.removeprefix("s3://lake/") not in await job_catalog.keys()
    assert [(event.actor, event.step) for event in done.record.audit] == [
        (Actor.SCHEDULER, AuditStep.PLANNED),
        (Actor.SCHEDULER, AuditStep.SCHEDULER_QUEUED),
        (Actor.WORKER, AuditStep.WORKER_STARTED),
        (Actor.WORKER, AuditStep.PLANNED),
        (Actor.WORKER, AuditStep.WORKER_SUCCEEDED),
    ]
    view = await job_catalog.view(table)
    assert view.current == done.job
    assert [record.job.id for record in view.timeline] == [done.job.id]
    ((kind, event),) = [one for one in await job_catalog.catalog.events() if one[0] == "TableMaintained"]
    assert (kind, event.operation, event.facts["deleted-objects"]) == ("TableMaintained", "DELETE", "1")


async def test_files_too_young_when_the_job_was_queued_are_kept(light_job_catalog: JobCatalog) -> None:
    job_catalog, table = light_job_catalog, await light_job_catalog.table()
    await job_catalog.configure(
        table, background_enabled=True, delete_enabled=True, worker_lease_timeout_seconds=10_000
    )
    await job_catalog.put(table, "data/orphan.parquet")
    assert (await job_catalog.schedule(table)).job.counts.deletable_objects == 0
    job_catalog.age()
    assert (await job_catalog.work(table)).job.counts.deleted_objects == 0
    assert (await job_catalog.work(table)).job.counts.deleted_objects == 1


async def test_changed_configuration_makes_the_plan_stale(light_job_catalog: JobCatalog) -> None:
    job_catalog, table = light_job_catalog, await light_job_catalog.table()
    await job_catalog.configure(table, background_enabled=True)
    queued = await job_catalog.schedule(table)
    await job_catalog.configure(table, background_enabled=True, retain_recent_metadata_files=1)
    with pytest.raises(CommitConflict):
        await job_catalog.work(table)
    stale = await job_catalog.job(table, queued.job.id)
    assert stale.job.status is JobStatus.FAILED
    assert stale.record.audit[-1].step is AuditStep.WORKER_FAILED
    # The next job is planned at once.
    assert (await job_catalog.work(table)).job.status is JobStatus.SUCCESSFUL


async def test_commit_during_planning_leads_to_another_plan(
    light_job_catalog: JobCatalog, monkeypatch: pytest.MonkeyPatch
) -> None:
    job_catalog, table = light_job_catalog, await light_job_catalog.table()
    await job_catalog.configure(table, background_enabled=True)
    plain = JobExecutor.survey
    commits = 1

    async def moving(self: JobExecutor, *arguments: Any, **how: Any) -> Any:
        nonlocal commits
        surveyed = await plain(self, *arguments, **how)
        if commits:
            commits -= 1
            await job_catalog.catalog.commit(table, set_properties(a=str(commits)))
        return surveyed

    monkeypatch.setattr(JobExecutor, "survey", moving)
    queued = await job_catalog.schedule(table)
    assert queued.job.version_token == (await job_catalog.catalog.entry(table)).version_token
    job_catalog.age()
    commits = 100
    with pytest.raises(PointerMoved):
        await job_catalog.schedule(table)


async def test_attempts_count_up_to_the_maximum(light_job_catalog: JobCatalog, monkeypatch: pytest.MonkeyPatch) -> None:
    job_catalog, table = light_job_catalog, await light_job_catalog.table()
    await job_catalog.configure(
        table,
        background_enabled=True,
        max_retry_attempts=3,
        retry_initial_backoff_seconds=5,
        retry_max_backoff_seconds=8,
    )

    async def failing(self: JobExecutor, *arguments: Any, **how: Any) -> Any:
        raise Unavailable("the store is away")

    monkeypatch.setattr(JobExecutor, "survey", failing)
    seen = []
    for _ in range(5):
        job = (await job_catalog.work(table)).job
        pause = None if job.next_retry_ms is None else (job.next_retry_ms - job_catalog.store.clock.now_ms()) // 1000
        seen.append((job.attempt, pause, job.failure_reason))
        job_catalog.age(pause or 1)
    why = "the store is away"
    assert seen == [(1, 5, why), (2, 8, why), (3, None, why), (1, 5, why), (2, 8, why)]
    assert len({record.job.id for record in (await job_catalog.view(table)).timeline}) == 5


async def test_heartbeat_extends_the_lease(light_job_catalog: JobCatalog, monkeypatch: pytest.MonkeyPatch) -> None:
    job_catalog, table = light_job_catalog, await light_job_catalog.table()
    await job_catalog.configure(table, background_enabled=True, worker_lease_timeout_seconds=10)
    beat = job_catalog.maintenance.heartbeat
    plain = JobExecutor.run
    other: list[JobStatus] = []

    async def slow(self: JobExecutor, caller: Any, record: Any, actor: Any) -> Any:
        job = record.job
        for _ in range(3):
            job_catalog.age(9)
            await beat(ROOT, "lake", table, job.id, worker_id=job.worker_id, lease_id=job.lease_id)
            other.append((await job_catalog.work(table, "w2")).job.status)
        with pytest.raises(StateConflict):
            await beat(ROOT, "lake", table, job.id, worker_id="w2", lease_id=job.lease_id)
        with pytest.raises(StateConflict):
            await beat(ROOT, "lake", table, job.id, worker_id=job.worker_id, lease_id="other")
        with pytest.raises(NotFound):
            await beat(ROOT, "lake", table, "absent", worker_id=job.worker_id, lease_id=job.lease_id)
        return await plain(self, caller, record, actor)

    monkeypatch.setattr(JobExecutor, "run", slow)
    done = await job_catalog.work(table, "w1")
    assert done.job.status is JobStatus.SUCCESSFUL
    assert other == [JobStatus.RUNNING] * 3
    # Successive heartbeats are one audit entry.
    assert [event.step for event in done.record.audit].count(AuditStep.WORKER_HEARTBEAT) == 1
    with pytest.raises(StateConflict):
        await beat(ROOT, "lake", table, done.job.id, worker_id="w1", lease_id=done.job.lease_id)


async def test_control_report_does_not_replace_a_running_job(
    light_job_catalog: JobCatalog, monkeypatch: pytest.MonkeyPatch
) -> None:
    job_catalog, table = light_job_catalog, await light_job_catalog.table()
    await job_catalog.configure(table, background_enabled=True)
    plain = JobExecutor.run

    async def switched_off(self: JobExecutor, *arguments: Any) -> Any:
        await job_catalog.configure(table, background_enabled=False)
        assert (await job_catalog.schedule(table)).job.status is JobStatus.DISABLED
        await job_catalog.configure(table, background_enabled=True, worker_paused=True)
        paused = await job_catalog.work(table, "w2")
        assert (paused.job.status, paused.record.audit[0].step) == (JobStatus.PAUSED, AuditStep.WORKER_CONTROL)
        assert (await job_catalog.job(table, "latest")).job.id == paused.job.id
        return await plain(self, *arguments)

    monkeypatch.setattr(JobExecutor, "run", switched_off)
    assert (await job_catalog.work(table, "w1")).job.status is JobStatus.SUCCESSFUL


async def test_timeline_has_the_ten_newest_jobs(light_job_catalog: JobCatalog) -> None:
    table = await light_job_catalog.table()
    jobs = [(await light_job_catalog.run(table)).job.id for _ in range(12)]
    timeline = (await light_job_catalog.view(table)).timeline
    assert [record.job.id for record in timeline] == jobs[::-1][:10]


async def test_scheduling_requires_permission(light_job_catalog: JobCatalog) -> None:
    table = await light_job_catalog.table()
    service = light_job_catalog.maintenance
    for call in (
        service.scheduler(UNPRIVILEGED, "lake", table),
        service.schedule(UNPRIVILEGED, "lake", table, "s"),
        service.work(UNPRIVILEGED, "lake", table, "w"),
        service.heartbeat(UNPRIVILEGED, "lake", table, "j", worker_id="w", lease_id="l"),
        service.job(UNPRIVILEGED, "lake", table, "j"),
    ):
        with pytest.raises(AccessDenied):
            await call


async def test_table_has_no_job_at_first(light_job_catalog: JobCatalog) -> None:
    table = await light_job_catalog.table()
    for name in ("current", "latest", "absent"):
        with pytest.raises(NotFound):
            await light_job_catalog.job(table, name)
    view = await light_job_catalog.view(table)
    assert (view.status, view.current, view.timeline) == (SchedulerStatus.DISABLED, None, [])
