from __future__ import annotations

import msgspec
import pytest
from hypothesis import given, settings
from hypothesis import strategies as st
from hypothesis.stateful import run_state_machine_as_test

from lakebed.catalog.maintenance.jobs.config import DEFAULT_CONFIG, MaintenanceConfig
from lakebed.catalog.maintenance.jobs.lifecycle import (
    SchedulerStatus,
    backoff_seconds,
    fail,
    recommended_for_job,
    recommended_for_table,
    start,
)
from lakebed.catalog.maintenance.jobs.model import FileCounts, JobStatus, MaintenanceJob, RecommendedAction, RemovalMode

from .job_machine import JobMachine


@pytest.mark.slow
def test_job_lifecycle_agrees_with_the_model() -> None:
    run_state_machine_as_test(JobMachine, settings=settings(max_examples=40, stateful_step_count=40, deadline=None))


def a_job(status: JobStatus = JobStatus.NOT_YET_RUN, **fields: object) -> MaintenanceJob:
    job = MaintenanceJob(id="j", entry="e", operation=RemovalMode.DELETE, status=status)
    changed: MaintenanceJob = msgspec.structs.replace(job, **fields)
    return changed


def retrying(attempts: int, first: int = 5, longest: int = 300) -> MaintenanceConfig:
    changed: MaintenanceConfig = msgspec.structs.replace(
        DEFAULT_CONFIG,
        max_retry_attempts=attempts,
        retry_initial_backoff_seconds=first,
        retry_max_backoff_seconds=longest,
    )
    return changed


def test_backoff_doubles_up_to_its_maximum_and_ends_with_the_last_attempt() -> None:
    config = retrying(6, 5, 60)
    assert [backoff_seconds(config, attempt) for attempt in range(1, 8)] == [5, 10, 20, 40, 60, None, None]
    assert backoff_seconds(retrying(0), 1) is None
    assert backoff_seconds(retrying(1), 1) is None


@given(st.integers(0, 10), st.integers(1, 86_400), st.integers(1, 12))
def test_backoff_is_within_its_bounds(attempts: int, first: int, attempt: int) -> None:
    pause = backoff_seconds(retrying(attempts, first, max(first, 1000)), attempt)
    assert pause is None if attempt >= attempts else pause is not None and first <= pause <= max(first, 1000)


def test_operator_job_is_not_retried() -> None:
    job = start(a_job(config=retrying(3)), "w", "l", 1000)
    assert fail(job, "no", 2000).next_retry_ms is None
    by_schedule = start(a_job(config=retrying(3), max_attempts=3), "w", "l", 1000)
    assert fail(by_schedule, "no", 2000).next_retry_ms == 7000


@pytest.mark.parametrize(
    ("job", "actions"),
    [
        (a_job(JobStatus.DISABLED), (RecommendedAction.ENABLE_BACKGROUND_MAINTENANCE,)),
        (a_job(JobStatus.PAUSED), (RecommendedAction.RESUME_MAINTENANCE_WORKER,)),
        (a_job(JobStatus.QUEUED), (RecommendedAction.RUN_MAINTENANCE_WORKER,)),
        (a_job(JobStatus.RUNNING), (RecommendedAction.WAIT_FOR_ACTIVE_WORKER,)),
        (a_job(JobStatus.FAILED, next_retry_ms=1), (RecommendedAction.WAIT_FOR_RETRY_BACKOFF,)),
        (
            a_job(JobStatus.FAILED, next_retry_ms=1, counts=FileCounts(quarantined_objects=1)),
            (RecommendedAction.WAIT_FOR_RETRY_BACKOFF, RecommendedAction.REVIEW_QUARANTINE),
        ),
        (a_job(JobStatus.FAILED), (RecommendedAction.ENABLE_DELETE,)),
        (a_job(JobStatus.FAILED, operation=RemovalMode.DRY_RUN), (RecommendedAction.INVESTIGATE_FAILURE,)),
        (a_job(JobStatus.SUCCESSFUL, counts=FileCounts(quarantined_objects=1)), (RecommendedAction.REVIEW_QUARANTINE,)),
        (a_job(JobStatus.SUCCESSFUL, counts=FileCounts(deletable_objects=1)), (RecommendedAction.NO_ACTION_REQUIRED,)),
        (
            a_job(JobStatus.SUCCESSFUL, operation=RemovalMode.DRY_RUN, counts=FileCounts(deletable_objects=1)),
            (RecommendedAction.ENABLE_DELETE,),
        ),
        (
            a_job(
                JobStatus.SUCCESSFUL,
                operation=RemovalMode.DRY_RUN,
                counts=FileCounts(deletable_metadata_files=1),
                config=msgspec.structs.replace(DEFAULT_CONFIG, delete_enabled=True),
            ),
            (RecommendedAction.REVIEW_AND_RUN_DELETE,),
        ),
        (a_job(JobStatus.SUCCESSFUL, operation=RemovalMode.DRY_RUN), (RecommendedAction.NO_ACTION_REQUIRED,)),
    ],
)
def test_recommended_actions_follow_from_the_job(job: MaintenanceJob, actions: tuple[RecommendedAction, ...]) -> None:
    assert recommended_for_job(job) == actions


@pytest.mark.parametrize(
    ("status", "job", "action"),
    [
        (SchedulerStatus.DISABLED, None, RecommendedAction.ENABLE_BACKGROUND_MAINTENANCE),
        (SchedulerStatus.PAUSED, None, RecommendedAction.RESUME_MAINTENANCE_WORKER),
        (SchedulerStatus.READY, None, RecommendedAction.RUN_MAINTENANCE_WORKER),
        (SchedulerStatus.READY, a_job(JobStatus.RUNNING), RecommendedAction.RUN_MAINTENANCE_WORKER),
        (SchedulerStatus.BACKPRESSURED, a_job(JobStatus.RUNNING), RecommendedAction.WAIT_FOR_ACTIVE_WORKER),
        (SchedulerStatus.QUARANTINED, a_job(JobStatus.SUCCESSFUL), RecommendedAction.REVIEW_QUARANTINE),
        (SchedulerStatus.READY, a_job(JobStatus.SUCCESSFUL), RecommendedAction.NO_ACTION_REQUIRED),
    ],
)
def test_recommended_actions_follow_from_the_table_state(
    status: SchedulerStatus, job: MaintenanceJob | None, action: RecommendedAction
) -> None:
    assert recommended_for_table(status, job) == (action,)
