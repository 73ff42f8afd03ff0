from __future__ import annotations

from typing import Any

import pytest

from lakebed.catalog.maintenance.jobs.execution import JobExecutor
from lakebed.catalog.maintenance.jobs.lifecycle import SchedulerStatus
from lakebed.catalog.maintenance.jobs.model import Actor, AuditStep, JobStatus, RemovalMode
from lakebed.core.errors import AccessDenied, CommitConflict, NotFound, PointerMoved, StateConflict, Unavailable
from tests.catalog.harness import NOBODY, set_properties
from tests.catalog.maintenance.workshop import Workshop
from tests.objects.stores import ROOT


async def test_a_job_is_queued_claimed_and_done(workshop: Workshop) -> None:
    table = await workshop.table()
    await workshop.append(table)
    orphan = await workshop.put(table, "data/orphan.parquet")
    workshop.age()
    await workshop.configure(table, background_enabled=True, delete_enabled=True)
    queued = await workshop.schedule(table, "mine")
    assert (queued.job.status, queued.job.operation) == (JobStatus.QUEUED, RemovalMode.DELETE)
    assert (queued.job.scheduler_id, queued.job.counts.deletable_objects) == ("mine", 1)
    assert queued.job.scheduler_lease_id
    assert (await workshop.view(table)).status is SchedulerStatus.QUEUED
    done = await workshop.work(table, "w")
    assert (done.job.id, done.job.status, done.job.attempt) == (queued.job.id, JobStatus.SUCCESSFUL, 1)
    assert (done.job.worker_id, done.job.scheduler_id) == ("w", "mine")
    assert done.job.lease_id
    assert orphan.removeprefix("s3://lake/") not in await workshop.keys()
    assert [(event.actor, event.step) for event in done.record.audit] == [
        (Actor.SCHEDULER, AuditStep.PLANNED),
        (Actor.SCHEDULER, AuditStep.SCHEDULER_QUEUED),
        (Actor.WORKER, AuditStep.WORKER_STARTED),
        (Actor.WORKER, AuditStep.PLANNED),
        (Actor.WORKER, AuditStep.WORKER_SUCCEEDED),
    ]
    view = await workshop.view(table)
    assert view.current == done.job
    assert [record.job.id for record in view.timeline] == [done.job.id]
    ((kind, told),) = [one for one in await workshop.catalog.told() if one[0] == "TableMaintained"]
    assert (kind, told.operation, told.facts["deleted-objects"]) == ("TableMaintained", "DELETE", "1")


async def test_what_was_too_young_when_the_job_was_queued_stays(light_workshop: Workshop) -> None:
    workshop, table = light_workshop, await light_workshop.table()
    await workshop.configure(table, background_enabled=True, delete_enabled=True, worker_lease_timeout_seconds=10_000)
    await workshop.put(table, "data/orphan.parquet")
    assert (await workshop.schedule(table)).job.counts.deletable_objects == 0
    workshop.age()
    assert (await workshop.work(table)).job.counts.deleted_objects == 0
    assert (await workshop.work(table)).job.counts.deleted_objects == 1


async def test_a_configuration_that_changed_since_the_plan_makes_it_stale(light_workshop: Workshop) -> None:
    workshop, table = light_workshop, await light_workshop.table()
    await workshop.configure(table, background_enabled=True)
    queued = await workshop.schedule(table)
    await workshop.configure(table, background_enabled=True, retain_recent_metadata_files=1)
    with pytest.raises(CommitConflict):
        await workshop.work(table)
    stale = await workshop.job(table, queued.job.id)
    assert stale.job.status is JobStatus.FAILED
    assert stale.record.audit[-1].step is AuditStep.WORKER_FAILED
    # The next one is planned anew, at once.
    assert (await workshop.work(table)).job.status is JobStatus.SUCCESSFUL


async def test_a_commit_while_a_job_is_planned_has_it_planned_again(
    light_workshop: Workshop, monkeypatch: pytest.MonkeyPatch
) -> None:
    workshop, table = light_workshop, await light_workshop.table()
    await workshop.configure(table, background_enabled=True)
    plain = JobExecutor.survey
    commits = 1

    async def moving(self: JobExecutor, *arguments: Any, **how: Any) -> Any:
        nonlocal commits
        surveyed = await plain(self, *arguments, **how)
        if commits:
            commits -= 1
            await workshop.catalog.commit(table, set_properties(a=str(commits)))
        return surveyed

    monkeypatch.setattr(JobExecutor, "survey", moving)
    queued = await workshop.schedule(table)
    assert queued.job.version_token == (await workshop.catalog.entry(table)).version_token
    workshop.age()
    commits = 100
    with pytest.raises(PointerMoved):
        await workshop.schedule(table)


async def test_attempts_count_on_until_the_last(light_workshop: Workshop, monkeypatch: pytest.MonkeyPatch) -> None:
    workshop, table = light_workshop, await light_workshop.table()
    await workshop.configure(
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
        job = (await workshop.work(table)).job
        pause = None if job.next_retry_ms is None else (job.next_retry_ms - workshop.store.clock.now_ms()) // 1000
        seen.append((job.attempt, pause, job.failure_reason))
        workshop.age(pause or 1)
    why = "the store is away"
    assert seen == [(1, 5, why), (2, 8, why), (3, None, why), (1, 5, why), (2, 8, why)]
    assert len({record.job.id for record in (await workshop.view(table)).timeline}) == 5


async def test_a_heartbeat_keeps_a_job_its_worker_s(light_workshop: Workshop, monkeypatch: pytest.MonkeyPatch) -> None:
    workshop, table = light_workshop, await light_workshop.table()
    await workshop.configure(table, background_enabled=True, worker_lease_timeout_seconds=10)
    beat = workshop.maintenance.heartbeat
    plain = JobExecutor.run
    other: list[JobStatus] = []

    async def slow(self: JobExecutor, caller: Any, record: Any, actor: Any) -> Any:
        job = record.job
        for _ in range(3):
            workshop.age(9)
            await beat(ROOT, "lake", table, job.id, worker_id=job.worker_id, lease_id=job.lease_id)
            other.append((await workshop.work(table, "w2")).job.status)
        with pytest.raises(StateConflict):
            await beat(ROOT, "lake", table, job.id, worker_id="w2", lease_id=job.lease_id)
        with pytest.raises(StateConflict):
            await beat(ROOT, "lake", table, job.id, worker_id=job.worker_id, lease_id="other")
        with pytest.raises(NotFound):
            await beat(ROOT, "lake", table, "absent", worker_id=job.worker_id, lease_id=job.lease_id)
        return await plain(self, caller, record, actor)

    monkeypatch.setattr(JobExecutor, "run", slow)
    done = await workshop.work(table, "w1")
    assert done.job.status is JobStatus.SUCCESSFUL
    assert other == [JobStatus.RUNNING] * 3
    # Heartbeats in a row are one entry of the audit.
    assert [event.step for event in done.record.audit].count(AuditStep.WORKER_HEARTBEAT) == 1
    with pytest.raises(StateConflict):
        await beat(ROOT, "lake", table, done.job.id, worker_id="w1", lease_id=done.job.lease_id)


async def test_a_control_report_does_not_take_the_place_of_a_job_that_runs(
    light_workshop: Workshop, monkeypatch: pytest.MonkeyPatch
) -> None:
    workshop, table = light_workshop, await light_workshop.table()
    await workshop.configure(table, background_enabled=True)
    plain = JobExecutor.run

    async def switched_off(self: JobExecutor, *arguments: Any) -> Any:
        await workshop.configure(table, background_enabled=False)
        assert (await workshop.schedule(table)).job.status is JobStatus.DISABLED
        await workshop.configure(table, background_enabled=True, worker_paused=True)
        paused = await workshop.work(table, "w2")
        assert (paused.job.status, paused.record.audit[0].step) == (JobStatus.PAUSED, AuditStep.WORKER_CONTROL)
        assert (await workshop.job(table, "latest")).job.id == paused.job.id
        return await plain(self, *arguments)

    monkeypatch.setattr(JobExecutor, "run", switched_off)
    assert (await workshop.work(table, "w1")).job.status is JobStatus.SUCCESSFUL


async def test_a_timeline_is_the_newest_ten(light_workshop: Workshop) -> None:
    table = await light_workshop.table()
    jobs = [(await light_workshop.run(table)).job.id for _ in range(12)]
    timeline = (await light_workshop.view(table)).timeline
    assert [record.job.id for record in timeline] == jobs[::-1][:10]


async def test_rights_are_asked_for(light_workshop: Workshop) -> None:
    table = await light_workshop.table()
    service = light_workshop.maintenance
    for asking in (
        service.scheduler(NOBODY, "lake", table),
        service.schedule(NOBODY, "lake", table, "s"),
        service.work(NOBODY, "lake", table, "w"),
        service.heartbeat(NOBODY, "lake", table, "j", worker_id="w", lease_id="l"),
        service.job(NOBODY, "lake", table, "j"),
    ):
        with pytest.raises(AccessDenied):
            await asking


async def test_there_is_no_job_before_the_first(light_workshop: Workshop) -> None:
    table = await light_workshop.table()
    for name in ("current", "latest", "absent"):
        with pytest.raises(NotFound):
            await light_workshop.job(table, name)
    view = await light_workshop.view(table)
    assert (view.status, view.current, view.timeline) == (SchedulerStatus.DISABLED, None, [])
