"""Jobs as they are kept: each with its report, one of them current for its table."""

from __future__ import annotations

from typing import Final, NamedTuple

import msgspec

from lakebed.core.errors import Fenced, NotFound
from lakebed.meta.seam import MetaStore, Reader, Row, Transaction

from . import rows
from .model import Findings, Job, JobRecord, JobStatus

__all__ = ["CURRENT", "LATEST", "Jobs", "Stored"]

CURRENT: Final = "current"
LATEST: Final = "latest"
"""Names that stand for a job's id."""

KEPT_MS: Final = 30 * 86_400_000
"""How long jobs are kept that are not current and hold nothing in quarantine."""

_encode = msgspec.msgpack.Encoder().encode
_record = msgspec.msgpack.Decoder(JobRecord).decode
_findings = msgspec.msgpack.Decoder(Findings).decode


class Stored(NamedTuple):
    """A job and what it found."""

    record: JobRecord
    findings: Findings

    @property
    def job(self) -> Job:
        """The job itself."""
        return self.record.job


class Jobs:
    """Keeps jobs."""

    def __init__(self, meta: MetaStore) -> None:
        self._meta = meta

    async def find(self, reader: Reader, entry_id: str, name: str) -> Stored:
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

    async def current(self, reader: Reader, entry_id: str) -> Stored | None:
        """The job that stands for a table."""
        return _stored(await reader.row(rows.CURRENT_JOB, entry_id))

    async def newest(self, reader: Reader, entry_id: str, limit: int) -> list[JobRecord]:
        """The newest jobs of a table, newest first."""
        return [_record(row[0]) for row in await reader.rows(rows.NEWEST_RECORDS, entry_id, limit)]

    async def record(self, reader: Reader, job_id: str) -> JobRecord | None:
        """A job without its findings; None if it went with its table."""
        row = await reader.row(rows.RECORD, job_id)
        return None if row is None else _record(row[0])

    async def add(
        self, tx: Transaction, record: JobRecord, findings: Findings, now_ms: int, *, is_current: bool
    ) -> Stored:
        """Keep a new job."""
        job = record.job
        await tx.run(rows.INSERT_JOB, job.id, job.entry, _encode(record), _encode(findings), now_ms)
        if is_current:
            await tx.run(rows.MAKE_CURRENT, job.entry, job.id)
        return Stored(record, findings)

    async def change(self, tx: Transaction, record: JobRecord, now_ms: int, findings: Findings | None = None) -> None:
        """Keep what became of a job."""
        await tx.run(rows.UPDATE_JOB, _encode(record), now_ms, record.job.id)
        if findings is not None:
            await tx.run(rows.UPDATE_FINDINGS, _encode(findings), record.job.id)

    async def mine(self, tx: Transaction, job: Job) -> JobRecord:
        """The job as it is now, if it is still run under the lease that `job` has. Raises Fenced.

        What a transaction commits that began with this is the holder's to commit: a worker that was given up has
        another status or another lease in its row.
        """
        found = await self.current(tx, job.entry)
        if (
            found is None
            or found.job.id != job.id
            or found.job.status is not JobStatus.RUNNING
            or found.job.lease_id != job.lease_id
        ):
            raise Fenced(f"the job is run by another worker, or was given up. job={job.id}")
        return found.record

    async def forget_old(self, before_ms: int) -> int:
        """Remove jobs that nobody asks for any more; how many."""

        async def work(tx: Transaction) -> int:
            return await tx.run(rows.FORGET_JOBS, before_ms)

        return await self._meta.transact(work)


def _stored(row: Row | None) -> Stored | None:
    return None if row is None else Stored(_record(row[0]), _findings(row[1]))
