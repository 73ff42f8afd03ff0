"""The report of a job: what its plan found, as far as it is listed, and the audit of its steps. Pure."""

from __future__ import annotations

from collections.abc import Iterable, Mapping, Sequence
from typing import Final, TypeVar

import msgspec

from ..reachability.files import MAX_LISTED, ObjectReport, ObjectState, Reason
from ..reachability.removal_plan import RemovalPlan
from ..rules.compaction import CompactionReport
from ..rules.expiration import ExpirationReport
from .model import Actor, AuditEvent, AuditStep, FileCounts, Findings, JobRecord, MaintenanceJob

__all__ = ["findings_of", "plan_counts", "record_step", "with_outcomes", "with_reports"]

MAX_EVENTS: Final = 100

_REPEATED: Final = frozenset({AuditStep.WORKER_HEARTBEAT, AuditStep.QUARANTINE_PURGED})
"""Steps of which only the last one in a row is kept."""

T = TypeVar("T")


def plan_counts(plan: RemovalPlan) -> FileCounts:
    """The numbers of files of a plan."""
    return FileCounts(
        planned_metadata_files=len(plan.retained) + len(plan.metadata),
        retained_metadata_files=len(plan.retained),
        deletable_metadata_files=_count(plan.metadata, ObjectState.DELETABLE),
        cleanup_candidates=len(plan.metadata) + len(plan.objects),
        planned_object_files=len(plan.referenced) + len(plan.objects),
        cleanup_candidate_objects=len(plan.objects),
        deletable_objects=_count(plan.objects, ObjectState.DELETABLE),
        unrecognized_objects=plan.unrecognized,
    )


def record_step(
    record: JobRecord | None, job: MaintenanceJob, at_ms: int, actor: Actor, step: AuditStep, reason: str = ""
) -> JobRecord:
    """The record after a step that changed the job to `job`; `record` is None for a new job."""
    audit = () if record is None else record.audit
    before = None if record is None else record.job
    first = None
    if audit and audit[-1].step is step and step in _REPEATED:
        first, audit = audit[-1], audit[:-1]
    event = AuditEvent(
        at_ms=at_ms,
        actor=actor,
        step=step,
        reason=reason,
        before=None if before is None else before.status,
        after=job.status,
        quarantined_before=(
            first.quarantined_before
            if first is not None
            else 0
            if before is None
            else before.counts.quarantined_objects
        ),
        quarantined_after=job.counts.quarantined_objects,
        actions=job.actions,
    )
    # The first step is kept: it shows who started the job.
    return JobRecord(job=job, audit=(*audit[:1], *audit[1:][-(MAX_EVENTS - 2) :], event))


def findings_of(plan: RemovalPlan) -> Findings:
    """The findings of a plan."""
    lists = (plan.retained, plan.metadata, plan.objects, plan.referenced)
    return Findings(
        metadata_at=plan.metadata_at,
        retained_metadata=_first(one.location for one in plan.retained),
        metadata=(*_first(plan.retained), *_first(plan.metadata)),
        objects=_first(plan.objects),
        referenced=_first(plan.referenced),
        graph=plan.graph,
        truncated=plan.is_partial or any(len(one) > MAX_LISTED for one in lists),
        pending=plan.has_pending,
    )


def with_outcomes(findings: Findings, outcomes: Mapping[str, tuple[ObjectState, Reason]]) -> Findings:
    """The same after files were removed."""
    return msgspec.structs.replace(
        findings,
        metadata=_after(findings.metadata, outcomes),
        objects=_after(findings.objects, outcomes),
    )


def with_reports(
    findings: Findings, expiration: ExpirationReport | None, compaction: CompactionReport | None
) -> Findings:
    """The same with the reports of expiration and compaction; snapshots are limited like files."""
    if expiration is not None:
        expiration = msgspec.structs.replace(
            expiration,
            snapshots=expiration.snapshots[:MAX_LISTED],
            candidates=expiration.candidates[:MAX_LISTED],
            expired_snapshot_ids=expiration.expired_snapshot_ids[:MAX_LISTED],
        )
    return msgspec.structs.replace(findings, expiration=expiration, compaction=compaction)


def _after(
    reports: Sequence[ObjectReport], outcomes: Mapping[str, tuple[ObjectState, Reason]]
) -> tuple[ObjectReport, ...]:
    changed = []
    for report in reports:
        outcome = outcomes.get(report.location)
        if outcome is not None:
            state, reason = outcome
            report = msgspec.structs.replace(report, state=state, reasons=(*report.reasons, reason))
        changed.append(report)
    return tuple(changed)


def _first(items: Iterable[T]) -> tuple[T, ...]:
    return tuple(items)[:MAX_LISTED]


def _count(reports: Sequence[ObjectReport], state: ObjectState) -> int:
    return sum(one.state is state for one in reports)
