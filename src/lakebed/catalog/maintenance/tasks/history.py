"""The history of maintenance: attempts that run, the last run of each job on a table, job speeds, planning marks.

Only this module knows their columns. Tables named `upkeep_…` have their names from earlier releases.
"""

from __future__ import annotations

from collections.abc import Mapping, Sequence
from typing import Final, NamedTuple

import msgspec

from lakebed.core.errors import InvalidInput
from lakebed.core.jobs import JobKind, TaskSpec
from lakebed.meta.seam import Reader, Transaction
from lakebed.meta.sql_text import padded_batches

from ..planner import LastJobRun, options_text
from ..rules.costs import measured_speed, smoothed_speed

__all__ = ["PlanningMark", "RunReport", "TaskAttempt", "TaskHistory", "read_report"]

MAX_REPORT_BYTES: Final = 256 * 1024

_AT_ONCE: Final = 64
_MARKS: Final = ", ".join("?" * _AT_ONCE)

_BEGIN: Final = (
    "INSERT INTO task_attempts (task, began_ms, version_token, progress) VALUES (?, ?, ?, NULL)"
    " ON CONFLICT (task) DO UPDATE SET began_ms = excluded.began_ms, version_token = excluded.version_token,"
    " progress = NULL"
)
_PROGRESS: Final = "UPDATE task_attempts SET progress = ? WHERE task = ?"
_ATTEMPTS: Final = f"SELECT task, began_ms, version_token, progress FROM task_attempts WHERE task IN ({_MARKS})"  # noqa: S608  # constants only, here and below
_VERSION_OF: Final = "SELECT version_token FROM entries WHERE id = ? AND dropped_ms IS NULL"

_RUNS: Final = (
    f"SELECT entry, job, task, version_token, options, succeeded_ms, failures, failed_ms FROM upkeep_runs"  # noqa: S608
    f" WHERE entry IN ({_MARKS})"
)
# From `entries`, so that nothing is stored for a table that was removed meanwhile.
_SUCCEEDED: Final = (
    "INSERT INTO upkeep_runs (entry, job, task, version_token, options, succeeded_ms, failures, failed_ms, summary)"
    " SELECT e.id, ?, ?, ?, ?, ?, 0, NULL, ? FROM entries e WHERE e.id = ?"
    " ON CONFLICT (entry, job) DO UPDATE SET task = excluded.task, version_token = excluded.version_token,"
    " options = excluded.options, succeeded_ms = excluded.succeeded_ms, failures = 0, failed_ms = NULL,"
    " summary = excluded.summary"
)
_FAILED: Final = (
    "INSERT INTO upkeep_runs (entry, job, task, version_token, options, succeeded_ms, failures, failed_ms, summary)"
    " SELECT e.id, ?, ?, '', '', NULL, 1, ?, ? FROM entries e WHERE e.id = ?"
    " ON CONFLICT (entry, job) DO UPDATE SET task = excluded.task, failures = upkeep_runs.failures + 1,"
    " failed_ms = excluded.failed_ms"
)
_RESET_FAILURES: Final = "UPDATE upkeep_runs SET failures = 0, failed_ms = NULL WHERE entry = ? AND job = ?"
_SPEED: Final = "SELECT bytes_per_second FROM job_speeds WHERE job = ?"
_SPEEDS: Final = "SELECT job, bytes_per_second FROM job_speeds"
_SET_SPEED: Final = (
    "INSERT INTO job_speeds (job, bytes_per_second, measured_ms) VALUES (?, ?, ?)"
    " ON CONFLICT (job) DO UPDATE SET bytes_per_second = excluded.bytes_per_second, measured_ms = excluded.measured_ms"
)
_PLANNING_MARKS: Final = f"SELECT entry, version_token, policies, due_ms FROM upkeep_looks WHERE entry IN ({_MARKS})"  # noqa: S608
_SET_PLANNING_MARK: Final = (
    "INSERT INTO upkeep_looks (entry, version_token, policies, due_ms)"
    " SELECT e.id, ?, ?, ? FROM entries e WHERE e.id = ?"
    " ON CONFLICT (entry) DO UPDATE SET version_token = excluded.version_token, policies = excluded.policies,"
    " due_ms = excluded.due_ms"
)
_CLEAR_PLANNING_MARK: Final = "DELETE FROM upkeep_looks WHERE entry = ?"


class ReportedTotals(msgspec.Struct, frozen=True, rename="kebab"):
    """How much a job read, wrote, removed or saved."""

    files: int = 0
    bytes: int = 0
    rows: int = 0


class RunReport(msgspec.Struct, frozen=True, kw_only=True, rename="kebab"):
    """The part of a job's report that the history keeps. The task keeps all of it."""

    dry_run: bool = False
    changed: bool = False
    """Whether the table or its files changed."""
    read: ReportedTotals = ReportedTotals()
    wrote: ReportedTotals = ReportedTotals()
    removed: ReportedTotals = ReportedTotals()
    saved: ReportedTotals = ReportedTotals()
    seconds: float = 0.0


class TaskAttempt(NamedTuple):
    """An attempt at a task."""

    began_ms: int
    version_token: str
    progress: bytes | None


class PlanningMark(NamedTuple):
    """The version of a table that was planned last, under which policies, and when to plan it again."""

    version_token: str
    policies: str
    due_ms: int


_report = msgspec.json.Decoder(RunReport).decode
_encode = msgspec.json.Encoder().encode


def read_report(document: bytes) -> RunReport:
    """The part of a report that the history keeps. Raises InvalidInput."""
    if len(document) > MAX_REPORT_BYTES:
        raise InvalidInput(f"a report has at most {MAX_REPORT_BYTES} bytes", argument="report")
    try:
        return _report(document)
    except (msgspec.DecodeError, UnicodeDecodeError, RecursionError) as error:
        raise InvalidInput(f"not a report of a job: {error}", argument="report") from error


class TaskHistory:
    """Reads and writes the history; each method is a step of the caller's transaction."""

    # -- attempts -------------------------------------------------------------------------------------------------

    async def begin(self, tx: Transaction, task_id: int, spec: TaskSpec, now_ms: int) -> bool:
        """Record that an attempt at a task begins; False if its table was dropped."""
        token = ""
        if spec.entry:
            found = await tx.row(_VERSION_OF, spec.entry)
            if found is None:
                return False
            token = str(found[0])
        await tx.run(_BEGIN, task_id, now_ms, token)
        return True

    async def keep_progress(self, tx: Transaction, task_id: int, progress: bytes) -> None:
        """Store the progress of a task."""
        await tx.run(_PROGRESS, progress, task_id)

    async def attempts(self, reader: Reader, task_ids: Sequence[int]) -> dict[int, TaskAttempt]:
        """The attempts at tasks, by task."""
        found: dict[int, TaskAttempt] = {}
        for batch in padded_batches(task_ids, _AT_ONCE):
            for task, *rest in await reader.rows(_ATTEMPTS, *batch):
                found[task] = TaskAttempt(*rest)
        return found

    # -- runs -----------------------------------------------------------------------------------------------------

    async def runs(self, reader: Reader, entries: Sequence[str]) -> dict[str, dict[JobKind, LastJobRun]]:
        """The last runs of jobs, by table and job."""
        found: dict[str, dict[JobKind, LastJobRun]] = {}
        for batch in padded_batches(entries, _AT_ONCE):
            for entry, job, *rest in await reader.rows(_RUNS, *batch):
                found.setdefault(entry, {})[JobKind(job)] = LastJobRun(JobKind(job), *rest)
        return found

    async def succeeded(
        self, tx: Transaction, task_id: int, spec: TaskSpec, began: TaskAttempt | None, report: RunReport, now_ms: int
    ) -> None:
        """Record that a job succeeded. Dry runs are not recorded."""
        if report.dry_run:
            return
        speed = measured_speed(report.read.bytes, report.seconds)
        if speed is not None:
            before = await tx.row(_SPEED, spec.job)
            await tx.run(_SET_SPEED, spec.job, smoothed_speed(before[0] if before else None, speed), now_ms)
        if not spec.entry:
            return
        token = "" if began is None else began.version_token
        summary = _encode(report)
        await tx.run(_SUCCEEDED, spec.job, task_id, token, options_text(spec.options), now_ms, summary, spec.entry)
        await self.clear_mark(tx, spec.entry)

    async def failed(self, tx: Transaction, task_id: int, spec: TaskSpec, now_ms: int) -> None:
        """Record that a task is dead after its last attempt."""
        if spec.entry:
            await tx.run(_FAILED, spec.job, task_id, now_ms, b"{}", spec.entry)
            await self.clear_mark(tx, spec.entry)

    async def forget_failures(self, tx: Transaction, spec: TaskSpec) -> None:
        """Reset the failures of a job, so that it can be planned again at once."""
        if spec.entry:
            await tx.run(_RESET_FAILURES, spec.entry, spec.job)
            await self.clear_mark(tx, spec.entry)

    async def speeds(self, reader: Reader) -> dict[JobKind, int]:
        """The recent speed of jobs, in bytes per second."""
        return {JobKind(job): speed for job, speed in await reader.rows(_SPEEDS)}

    # -- planning marks -------------------------------------------------------------------------------------------

    async def marks(self, reader: Reader, entries: Sequence[str]) -> Mapping[str, PlanningMark]:
        """The planning marks of tables, by table."""
        found: dict[str, PlanningMark] = {}
        for batch in padded_batches(entries, _AT_ONCE):
            for entry, *rest in await reader.rows(_PLANNING_MARKS, *batch):
                found[entry] = PlanningMark(*rest)
        return found

    async def mark_planned(self, tx: Transaction, entry: str, mark: PlanningMark) -> None:
        """Store the planning mark of a table."""
        await tx.run(_SET_PLANNING_MARK, *mark, entry)

    async def clear_mark(self, tx: Transaction, entry: str) -> None:
        """Remove the planning mark, so that the next pass plans the table."""
        await tx.run(_CLEAR_PLANNING_MARK, entry)
