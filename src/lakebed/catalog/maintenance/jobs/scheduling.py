"""Queues jobs, runs them and accepts heartbeats: requests of schedulers and workers, built-in and external."""

from __future__ import annotations

from functools import partial
from typing import Final, NamedTuple
from uuid import uuid4

import msgspec

from lakebed.catalog import rows as catalog_rows
from lakebed.catalog.entries import LiveEntry, live_entry_from
from lakebed.core.errors import CommitConflict, PointerMoved, StateConflict
from lakebed.meta.seam import Reader, Transaction
from lakebed.objects.context import ObjectContext
from lakebed.objects.model import Caller

from ..reachability.removal_plan import RemovalPlan
from .config import EffectiveConfig
from .configs import MaintenanceConfigs
from .execution import JobExecutor, planned
from .job_store import CURRENT, JobStore, StoredJob
from .lifecycle import (
    KeepCurrent,
    MaintenanceDisabled,
    SchedulerStatus,
    StartJob,
    Trigger,
    control,
    decide,
    fail,
    new_job,
    queue,
    recommended_for_table,
    record_heartbeat,
    scheduler_status,
    start,
)
from .model import Actor, AuditStep, Findings, JobRecord, JobStatus, MaintenanceJob, RecommendedAction, RemovalMode
from .quarantine import Quarantine
from .reports import findings_of, record_step

__all__ = ["DEFAULT_SCHEDULER", "DEFAULT_WORKER", "JobScheduling", "QuarantineSummary", "SchedulerView"]

DEFAULT_SCHEDULER: Final = "lakebed-maintenance-scheduler"
DEFAULT_WORKER: Final = "lakebed-maintenance-worker"

_TIMELINE: Final = 10
_ATTEMPTS: Final = 3
_NO_FINDINGS: Final = Findings()
_STALE: Final = "the table or its configuration changed since the job was planned"


class QuarantineSummary(NamedTuple):
    """The files of a table in quarantine."""

    objects: int
    source_job: str | None
    """The latest job with files in quarantine."""


class SchedulerView(NamedTuple):
    """The state of a table's maintenance."""

    effective: EffectiveConfig
    status: SchedulerStatus
    current: MaintenanceJob | None
    held: QuarantineSummary
    timeline: list[JobRecord]
    actions: tuple[RecommendedAction, ...]


class JobScheduling:
    """Runs schedulers' and workers' requests."""

    def __init__(
        self,
        object_context: ObjectContext,
        configs: MaintenanceConfigs,
        jobs: JobStore,
        executor: JobExecutor,
        quarantine: Quarantine,
        *,
        safety_window_ms: int,
    ) -> None:
        self._f = object_context
        self._configs = configs
        self._jobs = jobs
        self._executor = executor
        self._quarantine = quarantine
        self.safety_window_ms = safety_window_ms

    async def view(self, entry_id: str) -> SchedulerView:
        """The state of a table's maintenance."""
        meta, now_ms = self._f.meta, self._f.clock.now_ms()
        effective = await self._configs.effective(meta, entry_id)
        current = await self._jobs.current(meta, entry_id)
        holding = await self._quarantine.of_table(entry_id)
        held = QuarantineSummary(sum(count for _, count in holding), holding[0][0] if holding else None)
        job = None if current is None else current.job
        held_until_ms = None if job is None else await self._jobs.held_until_ms(meta, job)
        status = scheduler_status(effective.config, job, held_until_ms, held.objects, now_ms)
        timeline = await self._jobs.newest(meta, entry_id, _TIMELINE)
        return SchedulerView(effective, status, job, held, timeline, recommended_for_table(status, job))

    async def schedule(self, known: LiveEntry, scheduler_id: str) -> StoredJob:
        """Plan and queue a job; or the job or report that prevents it. Raises CommitConflict."""
        entry_id = known.entry.id
        for _ in range(_ATTEMPTS):
            before = await self._look(self._f.meta, Trigger.SCHEDULER, entry_id)
            plan: RemovalPlan | None = None
            if isinstance(before.decision, StartJob):
                job = self._new(entry_id, before.effective, before.now_ms, before.decision.attempts)
                surveyed = await self._executor.survey(
                    entry_id, retain_recent=job.retain_recent, watermark_ms=job.watermark_ms
                )
                plan = surveyed.plan
            stored = await self._f.meta.transact(partial(self._queue, entry_id, scheduler_id, plan))
            if stored is not None:
                return stored
        raise PointerMoved("the table kept changing while its maintenance was planned")

    async def work(self, caller: Caller, known: LiveEntry, worker_id: str) -> StoredJob:
        """Run the queued job, or a new one, to its end; or the job or report that prevents it.

        Raises CommitConflict when the plan is stale; Fenced when the lease was lost.
        """
        entry_id = known.entry.id

        async def begin(tx: Transaction) -> _Started:
            seen = await self._look(tx, Trigger.WORKER, entry_id)
            match seen.decision:
                case KeepCurrent():
                    return _Started(await self._jobs.find(tx, entry_id, CURRENT))
                case MaintenanceDisabled(status):
                    return _Started(await self._control(tx, seen, status, Actor.WORKER, AuditStep.WORKER_CONTROL))
                case StartJob() as go:
                    await self._expire(tx, seen, go)
                    return await (
                        self._start(tx, seen, go, worker_id)
                        if go.claimed is None
                        else self._claim(tx, seen, go.claimed, worker_id)
                    )

        begun = await self._f.meta.transact(begin)
        if begun.is_stale:
            raise CommitConflict(_STALE, condition="version-token")
        return await self._executor.run(caller, begun.stored.record, Actor.WORKER) if begun.is_running else begun.stored

    async def heartbeat(self, known: LiveEntry, job_name: str, worker_id: str, lease_id: str) -> StoredJob:
        """Accept a heartbeat. Raises StateConflict when the job is not that worker's, Fenced, NotFound."""
        entry_id = known.entry.id

        async def work(tx: Transaction) -> StoredJob:
            now_ms = self._f.clock.now_ms()
            stored = await self._jobs.find(tx, entry_id, job_name)
            current = await self._jobs.current(tx, entry_id)
            if current is None or current.job.id != stored.job.id:
                raise StateConflict(f"the job is not the table's current one. job={stored.job.id}")
            job = record_heartbeat(stored.job, worker_id, lease_id, now_ms)
            await self._jobs.renew(tx, job)
            record = record_step(stored.record, job, now_ms, Actor.WORKER, AuditStep.WORKER_HEARTBEAT)
            await self._jobs.change(tx, record, now_ms)
            return StoredJob(record, stored.findings)

        return await self._f.meta.transact(work)

    # -- steps ----------------------------------------------------------------------------------------------------

    async def _look(self, reader: Reader, trigger: Trigger, entry_id: str) -> _Decided:
        now_ms = self._f.clock.now_ms()
        effective = await self._configs.effective(reader, entry_id)
        current = await self._jobs.current(reader, entry_id)
        job = None if current is None else current.job
        held_until_ms = None if job is None else await self._jobs.held_until_ms(reader, job)
        decision = decide(trigger, effective.config, job, held_until_ms, now_ms)
        return _Decided(entry_id, now_ms, effective, current, decision)

    async def _queue(
        self, entry_id: str, scheduler_id: str, plan: RemovalPlan | None, tx: Transaction
    ) -> StoredJob | None:
        """Queue the planned job if it is still allowed; None if the plan is of another version of the table."""
        seen = await self._look(tx, Trigger.SCHEDULER, entry_id)
        match seen.decision:
            case KeepCurrent():
                return await self._jobs.find(tx, entry_id, CURRENT)
            case MaintenanceDisabled(status):
                return await self._control(tx, seen, status, Actor.SCHEDULER, AuditStep.SCHEDULER_CONTROL)
            case StartJob() as go:
                if plan is None or plan.version_token != await _version(tx, entry_id):
                    return None
                await self._expire(tx, seen, go)
                job = planned(self._new(entry_id, seen.effective, seen.now_ms, go.attempts), plan)
                record = record_step(None, job, seen.now_ms, Actor.SCHEDULER, AuditStep.PLANNED)
                job = queue(job, scheduler_id, await self._jobs.hold(tx, job, scheduler_id), seen.now_ms)
                record = record_step(record, job, seen.now_ms, Actor.SCHEDULER, AuditStep.SCHEDULER_QUEUED)
                return await self._jobs.add(tx, record, findings_of(plan), seen.now_ms, is_current=True)

    async def _start(self, tx: Transaction, seen: _Decided, go: StartJob, worker_id: str) -> _Started:
        now_ms = seen.now_ms
        job = self._new(seen.entry_id, seen.effective, now_ms, go.attempts)
        job = start(job, worker_id, await self._jobs.hold(tx, job, worker_id), now_ms)
        record = record_step(None, job, now_ms, Actor.WORKER, AuditStep.WORKER_STARTED)
        return _Started(await self._jobs.add(tx, record, _NO_FINDINGS, now_ms, is_current=True), is_running=True)

    async def _claim(self, tx: Transaction, seen: _Decided, claimed: MaintenanceJob, worker_id: str) -> _Started:
        now_ms = seen.now_ms
        stored = await self._jobs.find(tx, seen.entry_id, claimed.id)
        version = await _version(tx, seen.entry_id)
        is_stale = version != claimed.version_token or seen.effective.config != claimed.config
        if is_stale:
            # The next run plans again, without waiting for the lease to expire.
            job = fail(claimed, _STALE, now_ms, retry=False)
            record = record_step(stored.record, job, now_ms, Actor.WORKER, AuditStep.WORKER_FAILED, job.failure_reason)
            await self._jobs.finish(tx, record, now_ms)
        else:
            job = start(claimed, worker_id, await self._jobs.hold(tx, claimed, worker_id), now_ms)
            record = record_step(stored.record, job, now_ms, Actor.WORKER, AuditStep.WORKER_STARTED)
            await self._jobs.change(tx, record, now_ms)
        return _Started(StoredJob(record, stored.findings), is_running=not is_stale, is_stale=is_stale)

    async def _expire(self, tx: Transaction, seen: _Decided, go: StartJob) -> None:
        """Record that the lease of the current job expired."""
        if go.expired is None or seen.current is None:
            return
        was_running = seen.current.job.status is JobStatus.RUNNING
        actor = Actor.WORKER if was_running else Actor.SCHEDULER
        step = AuditStep.WORKER_LEASE_EXPIRED if was_running else AuditStep.SCHEDULER_LEASE_EXPIRED
        record = record_step(seen.current.record, go.expired, seen.now_ms, actor, step, go.expired.failure_reason)
        await self._jobs.finish(tx, record, seen.now_ms)

    async def _control(
        self, tx: Transaction, seen: _Decided, status: JobStatus, actor: Actor, step: AuditStep
    ) -> StoredJob:
        job = control(self._new(seen.entry_id, seen.effective, seen.now_ms, 0), status, seen.now_ms)
        # Not the current job: an earlier one may still run.
        record = record_step(None, job, seen.now_ms, actor, step)
        return await self._jobs.add(tx, record, _NO_FINDINGS, seen.now_ms, is_current=False)

    def _new(self, entry_id: str, effective: EffectiveConfig, now_ms: int, attempts: int) -> MaintenanceJob:
        config, window_ms = effective.config, self.safety_window_ms
        operation = RemovalMode.DELETE if config.delete_enabled else RemovalMode.DRY_RUN
        job = new_job(uuid4().hex, entry_id, effective, operation, now_ms=now_ms, safety_window_ms=window_ms)
        return msgspec.structs.replace(job, attempt=attempts, max_attempts=config.max_retry_attempts)


class _Decided(NamedTuple):
    """The state that a trigger read, and the decision on it."""

    entry_id: str
    now_ms: int
    effective: EffectiveConfig
    current: StoredJob | None
    decision: KeepCurrent | MaintenanceDisabled | StartJob


class _Started(NamedTuple):
    """The result of an attempt to start a job."""

    stored: StoredJob
    is_running: bool = False
    is_stale: bool = False


async def _version(reader: Reader, entry_id: str) -> str | None:
    row = await reader.row(catalog_rows.ENTRY_BY_ID, entry_id)
    return None if row is None else live_entry_from(row).entry.version_token
