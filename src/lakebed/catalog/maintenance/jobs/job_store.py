"""Maintenance jobs with their reports, one of them current for its table, and the tasks that they hold.

A queued job is held by its scheduler, a running one by its worker: either holds the table's task in the task queue, and
has its lease, heartbeats and token. A table has at most one open task, so at most one job is queued or running.
"""

from __future__ import annotations

from functools import partial
from typing import Final, NamedTuple

import msgspec

from lakebed.catalog.rows import ENTRY_BY_ID
from lakebed.core.errors import Fenced, NotFound
from lakebed.meta.seam import MetaStore, Reader, Row, Transaction
from lakebed.meta.tasks import Task, TaskLease, TaskQueue

from . import rows
from .model import Findings, JobRecord, MaintenanceJob

__all__ = ["CURRENT", "KIND", "LATEST", "JobStore", "StoredJob"]

KIND: Final = "remove-unreferenced-files"
"""The kind of the tasks. Not one of the pipeline's: the server runs these jobs itself."""

CURRENT: Final = "current"
LATEST: Final = "latest"
"""Names that clients may use in place of a job's id."""

KEPT_MS: Final = 30 * 86_400_000
"""How long jobs are kept that are not current and hold nothing in quarantine."""

_encode = msgspec.msgpack.Encoder().encode
_record = msgspec.msgpack.Decoder(JobRecord).decode
_findings = msgspec.msgpack.Decoder(Findings).decode


class StoredJob(NamedTuple):
    """A job and what it found."""

    record: JobRecord
    findings: Findings

    @property
    def job(self) -> MaintenanceJob:
        """The job itself."""
        return self.record.job


class JobStore:
    """Reads and writes jobs, and holds their tasks."""

    def __init__(self, meta: MetaStore, queue: TaskQueue) -> None:
        self._meta = meta
        self._queue = queue

    # -- jobs -----------------------------------------------------------------------------------------------------

    async def find(self, reader: Reader, entry_id: str, name: str) -> StoredJob:
        """A job of a table, by its id, or `current`, or `latest`. Raises NotFound."""
        if name == CURRENT:
            found = await self.current(reader, entry_id)
        else:
            row = await (
                reader.row(rows.LATEST_JOB, entry_id) if name == LATEST else reader.row(rows.JOB, entry_id, name)
            )
            found = _stored(row)
        if found is None:
            raise NotFound(f"the table has no such maintenance job. job={name}")
        return found

    async def current(self, reader: Reader, entry_id: str) -> StoredJob | None:
        """The current job of a table."""
        return _stored(await reader.row(rows.CURRENT_JOB, entry_id))

    async def newest(self, reader: Reader, entry_id: str, limit: int) -> list[JobRecord]:
        """The newest jobs of a table, newest first."""
        return [_record(row[0]) for row in await reader.rows(rows.NEWEST_RECORDS, entry_id, limit)]

    async def record(self, reader: Reader, job_id: str) -> JobRecord | None:
        """A job without its findings; None if it was removed with its table."""
        row = await reader.row(rows.RECORD, job_id)
        return None if row is None else _record(row[0])

    async def add(
        self, tx: Transaction, record: JobRecord, findings: Findings, now_ms: int, *, is_current: bool
    ) -> StoredJob:
        """Store a new job."""
        job = record.job
        await tx.run(rows.INSERT_JOB, job.id, job.entry, _encode(record), _encode(findings), now_ms)
        if is_current:
            await tx.run(rows.MAKE_CURRENT, job.entry, job.id)
        return StoredJob(record, findings)

    async def change(self, tx: Transaction, record: JobRecord, now_ms: int, findings: Findings | None = None) -> None:
        """Update a job."""
        await tx.run(rows.UPDATE_JOB, _encode(record), now_ms, record.job.id)
        if findings is not None:
            await tx.run(rows.UPDATE_FINDINGS, _encode(findings), record.job.id)

    async def finish(self, tx: Transaction, record: JobRecord, now_ms: int, findings: Findings | None = None) -> None:
        """Store the end of a queued or running job, and end its task."""
        await self.change(tx, record, now_ms, findings)
        task = await self._task(tx, record.job.entry)
        if task is not None:
            await self._queue.complete(tx, TaskLease(task))

    async def delete_expired(self, before_ms: int, now_ms: int) -> int:
        """Remove old jobs, and tasks of removed tables; returns the number of jobs."""
        for task in await self._queue.of_kinds(self._meta, [KIND]):
            if task.due_ms <= now_ms:
                await self._meta.transact(partial(self._end_without_table, task))

        async def work(tx: Transaction) -> int:
            return await tx.run(rows.FORGET_JOBS, before_ms)

        return await self._meta.transact(work)

    # -- leases ---------------------------------------------------------------------------------------------------

    async def hold(self, tx: Transaction, job: MaintenanceJob, holder: str) -> str:
        """Lease the table's task for a job, from its scheduler if it was queued; returns the id of the lease."""
        # An open task of the table belongs to this job: the tasks of other jobs ended with them.
        task_id = await self._queue.enqueue(tx, KIND, job.id.encode(), dedupe=job.entry, max_attempts=1)
        claim = await self._queue.claim_open(tx, task_id, holder, job.lease_seconds)
        return _lease_id(claim.task)

    async def held_until_ms(self, reader: Reader, job: MaintenanceJob) -> int | None:
        """When the lease of a job ends, or ended; None if the job holds none."""
        task = await self._task(reader, job.entry)
        return task.due_ms if task is not None and task.payload == job.id.encode() else None

    async def held(self, reader: Reader, job: MaintenanceJob) -> JobRecord:
        """The stored job, if it still has the lease of `job`. Raises Fenced.

        A transaction that begins with this commits only what the holder of the lease may commit.
        """
        return (await self._held(reader, job))[0]

    async def renew(self, tx: Transaction, job: MaintenanceJob) -> JobRecord:
        """Renew the lease of a job after a heartbeat."""
        record, claim = await self._held(tx, job)
        await self._queue.heartbeat_within(tx, claim, job.lease_seconds)
        return record

    async def _held(self, reader: Reader, job: MaintenanceJob) -> tuple[JobRecord, TaskLease]:
        task, record = await self._task(reader, job.entry), await self.record(reader, job.id)
        if task is None or record is None or _lease_id(task) != job.lease_id:
            raise Fenced(f"the job has ended or another worker runs it. job={job.id}")
        return record, TaskLease(task)

    async def _task(self, reader: Reader, entry_id: str) -> Task | None:
        """The open task of a table."""
        return next(iter(await self._queue.open_with(reader, [KIND], [entry_id])), None)

    async def _end_without_table(self, task: Task, tx: Transaction) -> None:
        if await tx.row(ENTRY_BY_ID, task.dedupe) is None:
            await self._queue.complete(tx, await self._queue.held(tx, task.id, task.token))


def _lease_id(task: Task) -> str:
    return f"{task.id}-{task.token}"


def _stored(row: Row | None) -> StoredJob | None:
    return None if row is None else StoredJob(_record(row[0]), _findings(row[1]))
