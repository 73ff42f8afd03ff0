"""The audit of a job: what was done to it, by whom and why. Pure."""

from __future__ import annotations

from typing import Final

from .model import Actor, AuditEvent, Job, JobRecord, Step

__all__ = ["noted"]

MAX_EVENTS: Final = 100

_REPEATED: Final = frozenset({Step.WORKER_HEARTBEAT, Step.QUARANTINE_PURGED})
"""Steps of which only the last in a row is kept."""


def noted(record: JobRecord | None, job: Job, at_ms: int, actor: Actor, step: Step, reason: str = "") -> JobRecord:
    """The record of a job after a step that made it what `job` is; None is the record of a job that is new."""
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
    # The beginning is worth more than the middle: it says who wanted the job.
    return JobRecord(job=job, audit=(*audit[:1], *audit[1:][-(MAX_EVENTS - 2) :], event))
