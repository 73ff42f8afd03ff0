"""What an operator asks for directly: a plan, a removal, the expiry of snapshots, a compaction.

Removal is the only one that stands for the table while it runs; plans leave the current job alone.
"""

from __future__ import annotations

from typing import Final
from uuid import uuid4

import msgspec

from lakebed.core.errors import CommitConflict, InvalidInput, StateConflict
from lakebed.core.jobs import JobKind, TaskOrder
from lakebed.iceberg.metadata import TableMetadata
from lakebed.meta.seam import Transaction
from lakebed.objects.facilities import Facilities
from lakebed.objects.model import Caller
from lakebed.tables.committing import CommitOptions, Commits, read_change
from lakebed.tables.entries import Known
from lakebed.tables.idempotency import Mutation
from lakebed.tables.pointers import same_file
from lakebed.tables.upkeep.costs import estimate_cost
from lakebed.tables.upkeep.orders import Orders

from .audit import noted
from .compaction import CompactionRequest, check_compaction, plan_compaction
from .config import MAX_RETAINED_FILES, EffectiveConfig
from .configs import Configs
from .execution import Executor, planned
from .expiration import ExpirationRequest, expiration_updates, plan_expiration
from .findings import findings_of, with_reports
from .jobs import Jobs, Stored
from .machine import expire, fail, is_live, start, succeed
from .model import (
    Actor,
    CompactionReport,
    CompactionStatus,
    ExpirationReport,
    ExpirationStatus,
    Findings,
    Job,
    JobRecord,
    JobStatus,
    Operation,
    Step,
)
from .walking import LiveFiles

__all__ = ["ADMIN", "EXPIRE", "Operating", "RunRequest"]

ADMIN: Final = "lakebed-admin"
"""The worker that runs what operators ask for."""

EXPIRE: Final = "expire-snapshots"
"""What the log of commits says of the expiry of snapshots."""

SUPERSEDED: Final = "an operator's removal took its place"
DELETE_DISABLED: Final = "delete-enabled is false in the table's maintenance configuration"


class RunRequest(msgspec.Struct, frozen=True, kw_only=True, rename="kebab", forbid_unknown_fields=True):
    """What is to be done."""

    retain_recent_metadata_files: int = 0
    delete: bool = False
    dry_run: bool = False
    """Says in so many words that nothing is to change."""
    expected_metadata_location: str | None = None
    """Where the table's metadata must be for any of it to be done."""
    snapshot_expiration: ExpirationRequest | None = None
    commit_snapshot_expiration: bool = False
    compaction: CompactionRequest | None = None
    commit_compaction: bool = False


class Operating:
    """Runs what operators ask for."""

    def __init__(
        self,
        facilities: Facilities,
        configs: Configs,
        jobs: Jobs,
        executor: Executor,
        commits: Commits,
        orders: Orders,
        *,
        safety_window_ms: int,
    ) -> None:
        self._f = facilities
        self._configs = configs
        self._jobs = jobs
        self._executor = executor
        self._commits = commits
        self._orders = orders
        self._safety_window_ms = safety_window_ms

    async def run(self, caller: Caller, known: Known, request: RunRequest) -> Stored:
        """Do it, and report. Raises InvalidInput; CommitConflict when the table moved on; StateConflict."""
        check_run(request)
        expected = request.expected_metadata_location
        if expected is not None and not same_file(expected, known.entry.metadata_at):
            raise CommitConflict(
                f"the table's metadata is not where the request expects it. found={known.entry.metadata_at}",
                condition="expected-metadata-location",
            )
        effective = await self._configs.effective(self._f.meta, known.entry.id)
        table = await self._executor.table(known)
        compaction = await self._compaction(caller, known, table, request)
        expiration = self._expiration(table, request)
        if request.delete and effective.config.delete_enabled:
            stored = await self._delete(caller, known, effective, request)
        else:
            stored = await self._plan(known, effective, request)
        if request.commit_snapshot_expiration and expiration is not None:
            expiration = await self._expire(caller, known, expiration)
        if compaction is None and expiration is None:
            return stored
        return await self._with_reports(stored, expiration, compaction)

    # -- plans and removals ---------------------------------------------------------------------------------------

    async def _plan(self, known: Known, effective: EffectiveConfig, request: RunRequest) -> Stored:
        """Plan and remove nothing: what was asked for, or all that is allowed."""
        job = self._new(known, effective, request)
        surveyed = await self._executor.survey(
            known.entry.id, retain_recent=job.retain_recent, watermark_ms=job.watermark_ms
        )
        now_ms = self._f.clock.now_ms()
        job = planned(job, surveyed.plan)
        is_refused = request.delete
        done = fail(job, DELETE_DISABLED, now_ms, retry=False) if is_refused else succeed(job, job.counts, now_ms)
        record = noted(None, done, now_ms, Actor.OPERATOR, Step.PLANNED, done.failure_reason)

        async def work(tx: Transaction) -> Stored:
            return await self._jobs.add(tx, record, findings_of(surveyed.plan), now_ms, is_current=False)

        return await self._f.meta.transact(work)

    async def _delete(self, caller: Caller, known: Known, effective: EffectiveConfig, request: RunRequest) -> Stored:
        async def work(tx: Transaction) -> JobRecord:
            now_ms = self._f.clock.now_ms()
            current = await self._jobs.current(tx, known.entry.id)
            if current is not None:
                await self._set_aside(tx, current, now_ms)
            job = start(self._new(known, effective, request), ADMIN, uuid4().hex, now_ms)
            record = noted(None, job, now_ms, Actor.OPERATOR, Step.WORKER_STARTED)
            await self._jobs.add(tx, record, Findings(), now_ms, is_current=True)
            return record

        return await self._executor.run(caller, await self._f.meta.transact(work), Actor.OPERATOR)

    async def _set_aside(self, tx: Transaction, current: Stored, now_ms: int) -> None:
        """Make way for a removal. Raises StateConflict while a worker runs."""
        job = current.job
        if job.status is JobStatus.RUNNING:
            if is_live(job, now_ms):
                raise StateConflict(f"a worker is at the table already. job={job.id} worker={job.worker_id}")
            ended, step = expire(job, now_ms), Step.WORKER_LEASE_EXPIRED
        elif job.status is JobStatus.QUEUED:
            ended, step = fail(job, SUPERSEDED, now_ms, retry=False), Step.SCHEDULER_CONTROL
        else:
            return
        record = noted(current.record, ended, now_ms, Actor.OPERATOR, step, ended.failure_reason)
        await self._jobs.change(tx, record, now_ms)

    def _new(self, known: Known, effective: EffectiveConfig, request: RunRequest) -> Job:
        now_ms, config = self._f.clock.now_ms(), effective.config
        return Job(
            id=uuid4().hex,
            entry=known.entry.id,
            operation=Operation.DELETE if request.delete else Operation.DRY_RUN,
            status=JobStatus.NOT_YET_RUN,
            config_source=effective.source,
            config=config,
            worker_id=ADMIN,
            # Nobody is told to keep less than the table is configured to.
            retain_recent=max(request.retain_recent_metadata_files, config.retain_recent_metadata_files),
            safety_window_ms=self._safety_window_ms,
            watermark_ms=now_ms - self._safety_window_ms,
        )

    async def _with_reports(
        self, stored: Stored, expiration: ExpirationReport | None, compaction: CompactionReport | None
    ) -> Stored:
        findings = with_reports(stored.findings, expiration, compaction)

        async def work(tx: Transaction) -> Stored:
            now = await self._jobs.find(tx, stored.job.entry, stored.job.id)
            await self._jobs.change(tx, now.record, self._f.clock.now_ms(), findings)
            return Stored(now.record, findings)

        return await self._f.meta.transact(work)

    # -- snapshots ------------------------------------------------------------------------------------------------

    def _expiration(self, table: TableMetadata, request: RunRequest) -> ExpirationReport | None:
        if request.snapshot_expiration is None:
            return None
        report = plan_expiration(table, request.snapshot_expiration, self._f.clock.now_ms())
        if request.commit_snapshot_expiration and report.status is ExpirationStatus.MANUAL_REVIEW_REQUIRED:
            raise InvalidInput(
                f"the snapshots cannot be expired before somebody has looked at the table: {', '.join(report.reasons)}",
                argument="commit-snapshot-expiration",
            )
        return report

    async def _expire(self, caller: Caller, known: Known, report: ExpirationReport) -> ExpirationReport:
        """Commit the expiry, on the version that it was planned on. Raises CommitConflict."""
        updates = expiration_updates(report)
        if not updates:
            return report
        change = read_change(known.identifier, b"[]", msgspec.json.encode(updates))
        options = CommitOptions(operation=EXPIRE, writer=ADMIN, expected_token=known.entry.version_token)
        committed = await self._commits.commit(Mutation(caller), known.warehouse.name, change, options)
        return msgspec.structs.replace(
            report,
            status=ExpirationStatus.COMMITTED,
            expired_snapshot_ids=report.candidates,
            committed_metadata_at=committed.entry.metadata_at,
        )

    # -- compaction -----------------------------------------------------------------------------------------------

    async def _compaction(
        self, caller: Caller, known: Known, table: TableMetadata, request: RunRequest
    ) -> CompactionReport | None:
        if request.compaction is None:
            return None
        snapshot = table.current_snapshot
        live = LiveFiles([], [], []) if snapshot is None else await self._executor.live_files(known.entry.id, snapshot)
        report = plan_compaction(table.current_snapshot_id, live, request.compaction)
        if not request.commit_compaction:
            return report
        if report.status is not CompactionStatus.REWRITE_CANDIDATES:
            raise InvalidInput(
                f"there is nothing to compact that could be queued. status={report.status}",
                argument="commit-compaction",
            )
        task_id = await self._queue(caller, known, report)
        return msgspec.structs.replace(report, status=CompactionStatus.QUEUED_FOR_PIPELINE, task_id=task_id)

    async def _queue(self, caller: Caller, known: Known, report: CompactionReport) -> int:
        """Ask the pipeline, which plans anew on the table as it is then. One task a table, however often asked."""
        order = TaskOrder(
            job=JobKind.COMPACT,
            warehouse=known.warehouse.name,
            namespace=known.identifier.namespace,
            table=known.entry.name,
            entry=known.entry.id,
            options={
                "target-file-size-bytes": report.target_file_size_bytes,
                "min-file-size-bytes": report.small_file_threshold_bytes,
                "min-input-files": report.min_input_files,
                "max-file-group-size-bytes": report.max_rewrite_bytes_per_job,
            },
            reason=(
                f"requested by {caller.principal.name} through the table's maintenance; {report.candidate_files} data"
                f" files have at most {report.small_file_threshold_bytes} bytes"
            ),
            cost=estimate_cost(JobKind.COMPACT, report.candidate_files, report.candidate_bytes, {}),
            requested_by=caller.principal.name,
        )

        async def work(tx: Transaction) -> int:
            return (await self._orders.place_one(tx, order)).task_id

        return await self._f.meta.transact(work)


def check_run(request: RunRequest) -> None:
    """Refuse a request that contradicts itself. Raises InvalidInput."""
    changes = [
        name
        for name, asked in (
            ("delete", request.delete),
            ("commit-snapshot-expiration", request.commit_snapshot_expiration),
            ("commit-compaction", request.commit_compaction),
        )
        if asked
    ]
    if len(changes) > 1:
        raise InvalidInput(f"at most one of these at a time: {', '.join(changes)}", argument=changes[1])
    if request.dry_run and changes:
        raise InvalidInput(f"a dry run changes nothing: leave out {changes[0]}", argument=changes[0])
    if not 0 <= request.retain_recent_metadata_files <= MAX_RETAINED_FILES:
        raise InvalidInput(
            f"retain-recent-metadata-files must be from 0 to {MAX_RETAINED_FILES}",
            argument="retain-recent-metadata-files",
        )
    if request.commit_snapshot_expiration and request.snapshot_expiration is None:
        raise InvalidInput("snapshot-expiration is missing", argument="snapshot-expiration")
    if request.commit_compaction and request.compaction is None:
        raise InvalidInput("compaction is missing", argument="compaction")
    if request.compaction is not None:
        check_compaction(request.compaction)
