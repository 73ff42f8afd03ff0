"""The life cycle of maintenance jobs: the decision on each trigger, and the result of each step. Pure.

    (none) ──queue──▶ QUEUED ──claim──▶ RUNNING ──▶ SUCCESSFUL
       │                 │                 │
       └──── start ──────┼────────────────▶│ fail, or the lease expired
                         ▼                 ▼
                      FAILED ◀──────────FAILED ── after a pause, as a new job ─────────▶ QUEUED or RUNNING

A table has one current job. While it is queued or running under a valid lease, no other begins. A retry is a new job
whose attempt continues the count, so that each attempt keeps its own report.
"""

from __future__ import annotations

from dataclasses import dataclass
from enum import Enum, StrEnum
from typing import Final

import msgspec

from lakebed.core.errors import StateConflict

from .config import EffectiveConfig, MaintenanceConfig
from .model import FileCounts, JobStatus, MaintenanceJob, RecommendedAction, RemovalMode

__all__ = [
    "KeepCurrent",
    "MaintenanceDisabled",
    "SchedulerStatus",
    "StartJob",
    "Trigger",
    "attempts_so_far",
    "backoff_seconds",
    "control",
    "decide",
    "expire",
    "fail",
    "is_live",
    "new_job",
    "queue",
    "recommended_for_job",
    "recommended_for_table",
    "record_heartbeat",
    "scheduler_status",
    "settled",
    "start",
    "succeed",
]

WORKER_LEASE_EXPIRED: Final = "worker lease expired"
SCHEDULER_LEASE_EXPIRED: Final = "scheduler lease expired"


_HELD: Final = frozenset({JobStatus.QUEUED, JobStatus.RUNNING})


class Trigger(Enum):
    """The origin of a request to run maintenance."""

    SCHEDULER = "scheduler"
    WORKER = "worker"


class SchedulerStatus(StrEnum):
    """The state of a table's maintenance, in the order of precedence."""

    DISABLED = "DISABLED"
    PAUSED = "PAUSED"
    BACKPRESSURED = "BACKPRESSURED"
    QUEUED = "QUEUED"
    RETRY_DEFERRED = "RETRY_DEFERRED"
    QUARANTINED = "QUARANTINED"
    READY = "READY"


@dataclass(frozen=True, slots=True)
class KeepCurrent:
    """Nothing begins: the response is the current job."""

    job: MaintenanceJob


@dataclass(frozen=True, slots=True)
class MaintenanceDisabled:
    """Nothing begins because maintenance is disabled or paused: the response reports that."""

    status: JobStatus


@dataclass(frozen=True, slots=True)
class StartJob:
    """A job may begin."""

    expired: MaintenanceJob | None = None
    """The current job if its lease expired, as it is recorded."""
    claimed: MaintenanceJob | None = None
    """The queued job to run; a new one if None."""
    attempts: int = 0
    """Failed attempts before this one."""


def decide(
    trigger: Trigger, config: MaintenanceConfig, current: MaintenanceJob | None, held_until_ms: int | None, now_ms: int
) -> KeepCurrent | MaintenanceDisabled | StartJob:
    """What a trigger may do; `held_until_ms` is the end of the current job's lease."""
    if not config.background_enabled:
        return MaintenanceDisabled(JobStatus.DISABLED)
    if config.worker_paused:
        return MaintenanceDisabled(JobStatus.PAUSED)
    if current is None:
        return StartJob()
    if current.status in _HELD:
        if not is_live(held_until_ms, now_ms):
            expired = expire(current, now_ms)
            return StartJob(expired=expired, attempts=attempts_so_far(expired))
        if current.status is JobStatus.QUEUED and trigger is Trigger.WORKER:
            return StartJob(claimed=current, attempts=current.attempt)
        return KeepCurrent(current)
    if _is_deferred(current, now_ms):
        return KeepCurrent(current)
    return StartJob(attempts=attempts_so_far(current))


def is_live(held_until_ms: int | None, now_ms: int) -> bool:
    """Whether a queued or running job is still held under its lease."""
    return held_until_ms is not None and held_until_ms > now_ms


def attempts_so_far(job: MaintenanceJob) -> int:
    """The attempts that a new job continues from: none, unless the job before may be retried."""
    return job.attempt if job.status is JobStatus.FAILED and job.attempt < job.max_attempts else 0


def backoff_seconds(config: MaintenanceConfig, attempt: int) -> int | None:
    """The backoff after a failed attempt; None after the last."""
    if attempt >= config.max_retry_attempts:
        return None
    return min(config.retry_initial_backoff_seconds << max(attempt - 1, 0), config.retry_max_backoff_seconds)


def queue(job: MaintenanceJob, scheduler_id: str, lease_id: str, now_ms: int) -> MaintenanceJob:
    """A new job that waits for a worker."""
    return settled(
        job, status=JobStatus.QUEUED, scheduler_id=scheduler_id, scheduler_lease_id=lease_id, scheduled_ms=now_ms
    )


def new_job(
    job_id: str,
    entry_id: str,
    effective: EffectiveConfig,
    operation: RemovalMode,
    *,
    now_ms: int,
    safety_window_ms: int,
) -> MaintenanceJob:
    """A job that has not run, under the effective configuration of its table."""
    return MaintenanceJob(
        id=job_id,
        entry=entry_id,
        operation=operation,
        status=JobStatus.NOT_YET_RUN,
        config_source=effective.source,
        config=effective.config,
        retain_recent=effective.config.retain_recent_metadata_files,
        safety_window_ms=safety_window_ms,
        watermark_ms=now_ms - safety_window_ms,
    )


def start(job: MaintenanceJob, worker_id: str, lease_id: str, now_ms: int) -> MaintenanceJob:
    """A new or queued job that a worker starts."""
    return settled(
        job,
        status=JobStatus.RUNNING,
        worker_id=worker_id,
        lease_id=lease_id,
        attempt=job.attempt + 1,
        heartbeat_ms=now_ms,
        started_ms=now_ms,
    )


def control(job: MaintenanceJob, status: JobStatus, now_ms: int) -> MaintenanceJob:
    """A new job that does not run because maintenance is disabled or paused."""
    return settled(job, status=status, finished_ms=now_ms)


def record_heartbeat(job: MaintenanceJob, worker_id: str, lease_id: str, now_ms: int) -> MaintenanceJob:
    """The job after a heartbeat. Raises StateConflict when it is not this worker's, or has ended."""
    if job.status is not JobStatus.RUNNING or (job.worker_id, job.lease_id) != (worker_id, lease_id):
        raise StateConflict(f"the worker does not hold the lease of the job. job={job.id} status={job.status}")
    return msgspec.structs.replace(job, heartbeat_ms=now_ms)


def succeed(job: MaintenanceJob, counts: FileCounts, now_ms: int) -> MaintenanceJob:
    """The job after its success."""
    return settled(job, status=JobStatus.SUCCESSFUL, counts=counts, heartbeat_ms=now_ms, finished_ms=now_ms)


def fail(job: MaintenanceJob, reason: str, now_ms: int, *, retry: bool = True) -> MaintenanceJob:
    """The job after a failure, with the time of the next attempt, if any."""
    pause = backoff_seconds(job.config, job.attempt) if retry and job.max_attempts else None
    return settled(
        job,
        status=JobStatus.FAILED,
        failure_reason=reason,
        finished_ms=now_ms,
        next_retry_ms=None if pause is None else now_ms + pause * 1000,
    )


def expire(job: MaintenanceJob, now_ms: int) -> MaintenanceJob:
    """The job after its lease expired. There is no backoff: the lease was long enough."""
    return fail(
        job, WORKER_LEASE_EXPIRED if job.status is JobStatus.RUNNING else SCHEDULER_LEASE_EXPIRED, now_ms, retry=False
    )


def recommended_for_job(job: MaintenanceJob) -> tuple[RecommendedAction, ...]:
    """Recommended actions for a job."""
    counts = job.counts
    match job.status:
        case JobStatus.DISABLED:
            return (RecommendedAction.ENABLE_BACKGROUND_MAINTENANCE,)
        case JobStatus.PAUSED:
            return (RecommendedAction.RESUME_MAINTENANCE_WORKER,)
        case JobStatus.QUEUED:
            return (RecommendedAction.RUN_MAINTENANCE_WORKER,)
        case JobStatus.RUNNING:
            return (RecommendedAction.WAIT_FOR_ACTIVE_WORKER,)
        case JobStatus.FAILED:
            held = (RecommendedAction.REVIEW_QUARANTINE,) if counts.quarantined_objects else ()
            if job.next_retry_ms is not None:
                return (RecommendedAction.WAIT_FOR_RETRY_BACKOFF, *held)
            if job.operation is RemovalMode.DELETE and not job.config.delete_enabled:
                return (RecommendedAction.ENABLE_DELETE,)
            return (RecommendedAction.INVESTIGATE_FAILURE, *held)
    if counts.quarantined_objects:
        return (RecommendedAction.REVIEW_QUARANTINE,)
    if job.operation is RemovalMode.DRY_RUN and (counts.deletable_metadata_files or counts.deletable_objects):
        return (
            RecommendedAction.REVIEW_AND_RUN_DELETE if job.config.delete_enabled else RecommendedAction.ENABLE_DELETE,
        )
    return (RecommendedAction.NO_ACTION_REQUIRED,)


def scheduler_status(
    config: MaintenanceConfig,
    current: MaintenanceJob | None,
    held_until_ms: int | None,
    quarantined_objects: int,
    now_ms: int,
) -> SchedulerStatus:
    """The state of a table's maintenance."""
    if not config.background_enabled:
        return SchedulerStatus.DISABLED
    if config.worker_paused:
        return SchedulerStatus.PAUSED
    if current is not None and is_live(held_until_ms, now_ms):
        if current.status is JobStatus.RUNNING:
            return SchedulerStatus.BACKPRESSURED
        if current.status is JobStatus.QUEUED:
            return SchedulerStatus.QUEUED
    if current is not None and _is_deferred(current, now_ms):
        return SchedulerStatus.RETRY_DEFERRED
    return SchedulerStatus.QUARANTINED if quarantined_objects else SchedulerStatus.READY


def recommended_for_table(status: SchedulerStatus, current: MaintenanceJob | None) -> tuple[RecommendedAction, ...]:
    """Recommended actions for a table."""
    match status:
        case SchedulerStatus.DISABLED:
            return (RecommendedAction.ENABLE_BACKGROUND_MAINTENANCE,)
        case SchedulerStatus.PAUSED:
            return (RecommendedAction.RESUME_MAINTENANCE_WORKER,)
        case SchedulerStatus.QUARANTINED:
            return (RecommendedAction.REVIEW_QUARANTINE,)
    # A job whose lease expired waits for the next run, which records that.
    is_over = status is SchedulerStatus.READY and current is not None and current.status in _HELD
    if current is None or is_over:
        return (RecommendedAction.RUN_MAINTENANCE_WORKER,)
    return recommended_for_job(current)


def _is_deferred(job: MaintenanceJob, now_ms: int) -> bool:
    return job.status is JobStatus.FAILED and job.next_retry_ms is not None and job.next_retry_ms > now_ms


def settled(job: MaintenanceJob, **changes: object) -> MaintenanceJob:
    """The job after changes, with the actions that are recommended then."""
    job = msgspec.structs.replace(job, **changes)
    return msgspec.structs.replace(job, actions=recommended_for_job(job))
