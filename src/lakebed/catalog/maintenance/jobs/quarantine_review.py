"""Decisions of operators on files in quarantine."""

from __future__ import annotations

from enum import StrEnum
from typing import Final, NamedTuple

import msgspec

from lakebed.core.errors import StateConflict
from lakebed.meta.seam import Transaction
from lakebed.objects.context import ObjectContext
from lakebed.objects.model import Caller

from ..reachability.files import MAX_LISTED
from .job_store import JobStore, StoredJob
from .lifecycle import settled
from .model import Actor, AuditStep, JobStatus
from .quarantine import Quarantine, QuarantinedFile, ReleaseOutcome
from .reports import record_step

__all__ = ["QuarantineAction", "QuarantineReview", "ReviewOutcome"]


class QuarantineAction(StrEnum):
    """What to do with the files of a job."""

    INSPECT = "INSPECT"
    RELEASE = "RELEASE"
    """Move them back."""
    RETRY = "RETRY"
    """The same, and retry the failed job at once."""
    ABANDON = "ABANDON"
    """Remove them permanently, and cancel the retry of the failed job."""


_STEPS: Final = {
    QuarantineAction.RELEASE: AuditStep.QUARANTINE_RELEASE,
    QuarantineAction.RETRY: AuditStep.QUARANTINE_RETRY,
    QuarantineAction.ABANDON: AuditStep.QUARANTINE_ABANDON,
}


class ReviewOutcome(NamedTuple):
    """The job after the decision, and its files in quarantine."""

    stored: StoredJob
    released: ReleaseOutcome
    held: list[QuarantinedFile]
    """The files that are still in quarantine, as far as listed."""


class QuarantineReview:
    """Applies operators' decisions."""

    def __init__(self, object_context: ObjectContext, jobs: JobStore, quarantine: Quarantine) -> None:
        self._f = object_context
        self._jobs = jobs
        self._quarantine = quarantine

    async def act(
        self, caller: Caller, entry_id: str, job_name: str, action: QuarantineAction, reason: str
    ) -> ReviewOutcome:
        """Apply a decision. Raises NotFound; StateConflict when the state of the job does not allow it."""
        meta = self._f.meta
        stored = await self._jobs.find(meta, entry_id, job_name)
        job_id = stored.job.id
        done = ReleaseOutcome(0, 0)
        if action is not QuarantineAction.INSPECT:
            await self._check(entry_id, stored, action)
            if action is QuarantineAction.ABANDON:
                done = await self._quarantine.purge(job_id)
            else:
                done = await self._quarantine.restore(caller, job_id)
            stored = await self._note(entry_id, stored, action, reason)
        return ReviewOutcome(stored, done, await self._quarantine.held(job_id, MAX_LISTED))

    async def _check(self, entry_id: str, stored: StoredJob, action: QuarantineAction) -> None:
        job = stored.job
        if job.status in (JobStatus.RUNNING, JobStatus.QUEUED):
            raise StateConflict(f"the job has not ended. job={job.id} status={job.status}")
        if not await self._quarantine.held(job.id, 1):
            raise StateConflict(f"the job has no files in quarantine. job={job.id}")
        if action is QuarantineAction.RETRY:
            current = await self._jobs.current(self._f.meta, entry_id)
            if job.status is not JobStatus.FAILED or current is None or current.job.id != job.id:
                raise StateConflict(f"only a failed current job can be retried. job={job.id}")

    async def _note(self, entry_id: str, before: StoredJob, action: QuarantineAction, reason: str) -> StoredJob:
        async def work(tx: Transaction) -> StoredJob:
            now_ms = self._f.clock.now_ms()
            stored = await self._jobs.find(tx, entry_id, before.job.id)
            changes = {} if action is QuarantineAction.RELEASE else {"next_retry_ms": None}
            job = settled(stored.job, **changes)
            # One audit step for all files, although the counts change with each.
            before_review = msgspec.structs.replace(stored.record, job=before.job)
            record = record_step(before_review, job, now_ms, Actor.OPERATOR, _STEPS[action], reason)
            await self._jobs.change(tx, record, now_ms)
            return StoredJob(record, stored.findings)

        return await self._f.meta.transact(work)
