from __future__ import annotations

from typing import Any

import msgspec
import pytest

from lakebed.catalog.maintenance.jobs import reports as reports_module
from lakebed.catalog.maintenance.jobs.model import (
    Actor,
    AuditStep,
    FileCounts,
    Findings,
    JobStatus,
    MaintenanceJob,
    RemovalMode,
)
from lakebed.catalog.maintenance.jobs.reports import (
    MAX_EVENTS,
    findings_of,
    plan_counts,
    record_step,
    with_outcomes,
    with_reports,
)
from lakebed.catalog.maintenance.reachability.files import GraphReport, ObjectKind, ObjectReport, ObjectState, Reason
from lakebed.catalog.maintenance.reachability.removal_plan import RemovalPlan
from lakebed.catalog.maintenance.rules.expiration import ExpirationReport, ExpirationStatus

JOB = MaintenanceJob(
    id="j", entry="e", operation=RemovalMode.DELETE, status=JobStatus.QUEUED, counts=FileCounts(quarantined_objects=5)
)


def test_audit_event_has_the_state_before_and_after() -> None:
    record = record_step(None, JOB, 1, Actor.SCHEDULER, AuditStep.SCHEDULER_QUEUED, "why")
    (first,) = record.audit
    assert (first.before, first.after, first.reason) == (None, JobStatus.QUEUED, "why")
    running = msgspec.structs.replace(JOB, status=JobStatus.RUNNING, counts=FileCounts(quarantined_objects=2))
    second = record_step(record, running, 2, Actor.WORKER, AuditStep.WORKER_STARTED).audit[-1]
    assert (second.before, second.after) == (JobStatus.QUEUED, JobStatus.RUNNING)
    assert (second.quarantined_before, second.quarantined_after) == (5, 2)


def test_repeated_steps_keep_the_last_only() -> None:
    record = record_step(None, JOB, 1, Actor.WORKER, AuditStep.WORKER_STARTED)
    for count in (3, 1):
        changed = msgspec.structs.replace(JOB, counts=FileCounts(quarantined_objects=count))
        record = record_step(record, changed, 10 - count, Actor.SCHEDULER, AuditStep.QUARANTINE_PURGED)
    assert [event.step for event in record.audit] == [AuditStep.WORKER_STARTED, AuditStep.QUARANTINE_PURGED]
    assert (record.audit[-1].quarantined_before, record.audit[-1].quarantined_after) == (5, 1)
    for _ in range(2):
        record = record_step(record, record.job, 20, Actor.OPERATOR, AuditStep.QUARANTINE_RELEASE)
    assert len(record.audit) == 4


def test_long_audit_keeps_its_first_and_last_events() -> None:
    record = record_step(None, JOB, 0, Actor.SCHEDULER, AuditStep.PLANNED)
    for at_ms in range(1, 300):
        record = record_step(record, JOB, at_ms, Actor.OPERATOR, AuditStep.QUARANTINE_RELEASE)
    assert len(record.audit) == MAX_EVENTS
    assert [event.at_ms for event in (record.audit[0], record.audit[1], record.audit[-1])] == [0, 201, 299]


def reports(state: ObjectState, *names: str) -> tuple[ObjectReport, ...]:
    return tuple(
        ObjectReport(location=name, kind=ObjectKind.DATA_FILE, state=state, reasons=(Reason.DATA_FILE,))
        for name in names
    )


def a_plan(**fields: Any) -> RemovalPlan:
    empty: dict[str, Any] = {"retained": (), "metadata": (), "referenced": (), "objects": ()}
    return RemovalPlan("m", 1, "token", 0, 0, graph=GraphReport(), files={}, **{**empty, **fields})


def test_lists_are_truncated_and_counts_are_not(monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setattr(reports_module, "MAX_LISTED", 2)
    plan = a_plan(objects=reports(ObjectState.DELETABLE, "a", "b", "c"), referenced=reports(ObjectState.RETAINED, "d"))
    found = findings_of(plan)
    assert ([one.location for one in found.objects], found.truncated) == (["a", "b"], True)
    assert plan_counts(plan).deletable_objects == 3
    assert findings_of(a_plan(objects=plan.objects[:2])).truncated is False


def test_outcomes_of_files_are_merged_into_the_plan() -> None:
    found = findings_of(a_plan(objects=reports(ObjectState.DELETABLE, "a", "b")))
    after = with_outcomes(found, {"a": (ObjectState.DELETED, Reason.DELETED_BY_MAINTENANCE)})
    assert [one.state for one in after.objects] == [ObjectState.DELETED, ObjectState.DELETABLE]
    assert after.objects[0].reasons == (Reason.DATA_FILE, Reason.DELETED_BY_MAINTENANCE)


def test_listed_snapshots_are_limited_like_files(monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setattr(reports_module, "MAX_LISTED", 2)
    report = ExpirationReport(
        status=ExpirationStatus.CANDIDATES, min_snapshots_to_keep=1, max_snapshot_age_ms=0, candidates=(1, 2, 3)
    )
    kept = with_reports(Findings(), report, None).expiration
    assert kept is not None
    assert kept.candidates == (1, 2)


def test_findings_round_trip() -> None:
    found = findings_of(
        a_plan(objects=reports(ObjectState.DELETABLE, "a"), metadata=reports(ObjectState.DELETABLE, "b"))
    )
    assert msgspec.msgpack.decode(msgspec.msgpack.encode(found), type=Findings) == found
