"""Requests of operators: a plan, a removal, snapshot expiration, compaction.

Only a removal becomes the current job of the table; plans leave it as it is.
"""

from __future__ import annotations

from typing import Final
from uuid import uuid4

import msgspec

from lakebed.catalog.commits.metadata_pointers import same_file
from lakebed.catalog.commits.service import CommitOptions, Commits, read_change
from lakebed.catalog.entries import LiveEntry
from lakebed.catalog.idempotency import Mutation
from lakebed.core.errors import CommitConflict, InvalidInput, StateConflict
from lakebed.core.jobs import JobKind, TaskSpec
from lakebed.iceberg.metadata import TableMetadata
from lakebed.meta.seam import Transaction
from lakebed.objects.context import ObjectContext
from lakebed.objects.model import Caller

from ..reachability.walking import LiveFiles
from ..rules.compaction import CompactionReport, CompactionRequest, CompactionStatus, check_compaction, plan_compaction
from ..rules.costs import estimate_cost
from ..rules.expiration import (
    ExpirationReport,
    ExpirationRequest,
    ExpirationStatus,
    expiration_updates,
    plan_expiration,
)
from ..tasks.queue import TaskSubmissions
from .config import MAX_RETAINED_FILES, EffectiveConfig
from .configs import MaintenanceConfigs
from .execution import JobExecutor, planned
from .job_store import JobStore, StoredJob
from .lifecycle import expire, fail, is_live, new_job, start, succeed
from .model import Actor, AuditStep, Findings, JobRecord, JobStatus, MaintenanceJob, RemovalMode
from .reports import findings_of, record_step, with_reports

__all__ = ["ADMIN", "EXPIRE", "OperatorRequests", "RunRequest"]

ADMIN: Final = "lakebed-admin"
"""The worker id of operators' requests."""

EXPIRE: Final = "expire-snapshots"
"""The operation of snapshot expiration in the commit log."""

SUPERSEDED: Final = "superseded by an operator's removal"
DELETE_DISABLED: Final = "delete-enabled is false in the table's maintenance configuration"


class RunRequest(msgspec.Struct, frozen=True, kw_only=True, rename="kebab", forbid_unknown_fields=True):
    """A request to run maintenance."""

    retain_recent_metadata_files: int = 0
    delete: bool = False
    dry_run: bool = False
    """Rejects the request if it would change anything."""
    expected_metadata_location: str | None = None
    """The metadata location that the table must have."""
    snapshot_expiration: ExpirationRequest | None = None
    commit_snapshot_expiration: bool = False
    compaction: CompactionRequest | None = None
    commit_compaction: bool = False


class OperatorRequests:
    """Runs operators' requests."""

    def __init__(
        self,
        object_context: ObjectContext,
        configs: MaintenanceConfigs,
        jobs: JobStore,
        executor: JobExecutor,
        commits: Commits,
        submissions: TaskSubmissions,
        *,
        safety_window_ms: int,
    ) -> None:
        self._f = object_context
        self._configs = configs
        self._jobs = jobs
        self._executor = executor
        self._commits = commits
        self._submissions = submissions
        self._safety_window_ms = safety_window_ms

    async def run(self, caller: Caller, known: LiveEntry, request: RunRequest) -> StoredJob:
        """Run the request, and report. Raises InvalidInput; CommitConflict when the table changed; StateConflict."""
        check_run(request)
        expected = request.expected_metadata_location
        if expected is not None and not same_file(expected, known.entry.metadata_at):
            raise CommitConflict(
                f"the table is not at the expected metadata location. found={known.entry.metadata_at}",
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

    async def _plan(self, known: LiveEntry, effective: EffectiveConfig, request: RunRequest) -> StoredJob:
        """Plan without removing: as requested, or because removal is disabled."""
        job = self._new(known, effective, request)
        surveyed = await self._executor.survey(
            known.entry.id, retain_recent=job.retain_recent, watermark_ms=job.watermark_ms
        )
        now_ms = self._f.clock.now_ms()
        job = planned(job, surveyed.plan)
        is_refused = request.delete
        done = fail(job, DELETE_DISABLED, now_ms, retry=False) if is_refused else succeed(job, job.counts, now_ms)
        record = record_step(None, done, now_ms, Actor.OPERATOR, AuditStep.PLANNED, done.failure_reason)

        async def work(tx: Transaction) -> StoredJob:
            return await self._jobs.add(tx, record, findings_of(surveyed.plan), now_ms, is_current=False)

        return await self._f.meta.transact(work)

    async def _delete(
        self, caller: Caller, known: LiveEntry, effective: EffectiveConfig, request: RunRequest
    ) -> StoredJob:
        async def work(tx: Transaction) -> JobRecord:
            now_ms = self._f.clock.now_ms()
            current = await self._jobs.current(tx, known.entry.id)
            if current is not None:
                await self._supersede(tx, current, now_ms)
            job = self._new(known, effective, request)
            job = start(job, ADMIN, await self._jobs.hold(tx, job, ADMIN), now_ms)
            record = record_step(None, job, now_ms, Actor.OPERATOR, AuditStep.WORKER_STARTED)
            await self._jobs.add(tx, record, Findings(), now_ms, is_current=True)
            return record

        return await self._executor.run(caller, await self._f.meta.transact(work), Actor.OPERATOR)

    async def _supersede(self, tx: Transaction, current: StoredJob, now_ms: int) -> None:
        """End the current job, superseded by a removal. Raises StateConflict while a worker runs it."""
        job = current.job
        if job.status is JobStatus.RUNNING:
            if is_live(await self._jobs.held_until_ms(tx, job), now_ms):
                raise StateConflict(
                    f"a worker is already running a job of the table. job={job.id} worker={job.worker_id}"
                )
            ended, step = expire(job, now_ms), AuditStep.WORKER_LEASE_EXPIRED
        elif job.status is JobStatus.QUEUED:
            ended, step = fail(job, SUPERSEDED, now_ms, retry=False), AuditStep.SCHEDULER_CONTROL
        else:
            return
        record = record_step(current.record, ended, now_ms, Actor.OPERATOR, step, ended.failure_reason)
        await self._jobs.finish(tx, record, now_ms)

    def _new(self, known: LiveEntry, effective: EffectiveConfig, request: RunRequest) -> MaintenanceJob:
        now_ms, window_ms = self._f.clock.now_ms(), self._safety_window_ms
        operation = RemovalMode.DELETE if request.delete else RemovalMode.DRY_RUN
        job = new_job(uuid4().hex, known.entry.id, effective, operation, now_ms=now_ms, safety_window_ms=window_ms)
        # A request never keeps less than the table's configuration.
        retain_recent = max(request.retain_recent_metadata_files, job.retain_recent)
        return msgspec.structs.replace(job, worker_id=ADMIN, retain_recent=retain_recent)

    async def _with_reports(
        self, stored: StoredJob, expiration: ExpirationReport | None, compaction: CompactionReport | None
    ) -> StoredJob:
        findings = with_reports(stored.findings, expiration, compaction)

        async def work(tx: Transaction) -> StoredJob:
            now = await self._jobs.find(tx, stored.job.entry, stored.job.id)
            await self._jobs.change(tx, now.record, self._f.clock.now_ms(), findings)
            return StoredJob(now.record, findings)

        return await self._f.meta.transact(work)

    # -- snapshots ------------------------------------------------------------------------------------------------

    def _expiration(self, table: TableMetadata, request: RunRequest) -> ExpirationReport | None:
        if request.snapshot_expiration is None:
            return None
        report = plan_expiration(table, request.snapshot_expiration, self._f.clock.now_ms())
        if request.commit_snapshot_expiration and report.status is ExpirationStatus.MANUAL_REVIEW_REQUIRED:
            raise InvalidInput(
                f"snapshot expiration requires manual review of the table: {', '.join(report.reasons)}",
                argument="commit-snapshot-expiration",
            )
        return report

    async def _expire(self, caller: Caller, known: LiveEntry, report: ExpirationReport) -> ExpirationReport:
        """Commit the expiration on the version that was planned. Raises CommitConflict."""
        updates = expiration_updates(report)
        if not updates:
            return report
        change = read_change(known.identifier, b"[]", msgspec.json.encode(updates))
        options = CommitOptions(operation=EXPIRE, writer=ADMIN, expected_token=known.entry.version_token)
        committed = await self._commits.commit(Mutation(caller), known.catalog.name, change, options)
        return msgspec.structs.replace(
            report,
            status=ExpirationStatus.COMMITTED,
            expired_snapshot_ids=report.candidates,
            committed_metadata_at=committed.entry.metadata_at,
        )

    # -- compaction -----------------------------------------------------------------------------------------------

    async def _compaction(
        self, caller: Caller, known: LiveEntry, table: TableMetadata, request: RunRequest
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
                f"no compaction to queue. status={report.status}",
                argument="commit-compaction",
            )
        task_id = await self._queue(caller, known, report)
        return msgspec.structs.replace(report, status=CompactionStatus.QUEUED_FOR_PIPELINE, task_id=task_id)

    async def _queue(self, caller: Caller, known: LiveEntry, report: CompactionReport) -> int:
        """Submit a task to the pipeline, which plans again when it runs. One open task per table."""
        spec = TaskSpec(
            job=JobKind.COMPACT,
            warehouse=known.catalog.name,
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
            return (await self._submissions.submit_one(tx, spec)).task_id

        return await self._f.meta.transact(work)


def check_run(request: RunRequest) -> None:
    """Reject contradictory requests. Raises InvalidInput."""
    changes = [
        name
        for name, is_requested in (
            ("delete", request.delete),
            ("commit-snapshot-expiration", request.commit_snapshot_expiration),
            ("commit-compaction", request.commit_compaction),
        )
        if is_requested
    ]
    if len(changes) > 1:
        raise InvalidInput(f"these exclude each other: {', '.join(changes)}", argument=changes[1])
    if request.dry_run and changes:
        raise InvalidInput(f"a dry run changes nothing: omit {changes[0]}", argument=changes[0])
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
