from __future__ import annotations

import msgspec

from lakebed.tables.maintenance.jobs.audit import MAX_EVENTS, noted
from lakebed.tables.maintenance.jobs.model import Actor, Counts, Job, JobStatus, Operation, Step

JOB = Job(id="j", entry="e", operation=Operation.DELETE, status=JobStatus.QUEUED, counts=Counts(quarantined_objects=5))


def test_an_event_tells_what_was_before_and_what_is_after() -> None:
    record = noted(None, JOB, 1, Actor.SCHEDULER, Step.SCHEDULER_QUEUED, "why")
    (first,) = record.audit
    assert (first.before, first.after, first.reason) == (None, JobStatus.QUEUED, "why")
    running = msgspec.structs.replace(JOB, status=JobStatus.RUNNING, counts=Counts(quarantined_objects=2))
    second = noted(record, running, 2, Actor.WORKER, Step.WORKER_STARTED).audit[-1]
    assert (second.before, second.after) == (JobStatus.QUEUED, JobStatus.RUNNING)
    assert (second.quarantined_before, second.quarantined_after) == (5, 2)


def test_of_the_same_step_again_and_again_the_last_is_kept() -> None:
    record = noted(None, JOB, 1, Actor.WORKER, Step.WORKER_STARTED)
    for count in (3, 1):
        changed = msgspec.structs.replace(JOB, counts=Counts(quarantined_objects=count))
        record = noted(record, changed, 10 - count, Actor.SCHEDULER, Step.QUARANTINE_PURGED)
    assert [event.step for event in record.audit] == [Step.WORKER_STARTED, Step.QUARANTINE_PURGED]
    assert (record.audit[-1].quarantined_before, record.audit[-1].quarantined_after) == (5, 1)
    for _ in range(2):
        record = noted(record, record.job, 20, Actor.OPERATOR, Step.QUARANTINE_RELEASE)
    assert len(record.audit) == 4


def test_an_audit_keeps_its_beginning_and_its_end() -> None:
    record = noted(None, JOB, 0, Actor.SCHEDULER, Step.PLANNED)
    for at_ms in range(1, 300):
        record = noted(record, JOB, at_ms, Actor.OPERATOR, Step.QUARANTINE_RELEASE)
    assert len(record.audit) == MAX_EVENTS
    assert [event.at_ms for event in (record.audit[0], record.audit[1], record.audit[-1])] == [0, 201, 299]
