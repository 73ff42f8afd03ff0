"""The report of a job: files read, written, removed, saved and skipped, with reasons."""

from __future__ import annotations

import time
from collections.abc import Sequence

import msgspec

from lakebed.core.jobs import JobKind, Option

from .files.table_shape import TableShape
from .table_ref import CatalogTable


class FileTotals(msgspec.Struct, frozen=True, rename="kebab"):
    """Numbers of files, bytes and rows."""

    files: int = 0
    bytes: int = 0
    rows: int = 0

    def __add__(self, other: FileTotals) -> FileTotals:
        return FileTotals(self.files + other.files, self.bytes + other.bytes, self.rows + other.rows)


class Skipped(msgspec.Struct, frozen=True, rename="kebab"):
    """A file or group that the job skipped."""

    what: str
    reason: str


class Problem(msgspec.Struct, frozen=True, rename="kebab"):
    """A problem that the job found."""

    what: str
    """A file or a table."""
    problem: str
    """`missing`, `size`, `rows` or `unreadable`."""
    detail: str


NO_FILES = FileTotals()


class JobReport(msgspec.Struct, frozen=True, kw_only=True, rename="kebab"):
    """The result of a job."""

    job: JobKind
    table: str
    dry_run: bool
    changed: bool
    """Whether the table or its files changed."""
    read: FileTotals = NO_FILES
    wrote: FileTotals = NO_FILES
    removed: FileTotals = NO_FILES
    """Of a dry run, these are what the job would read, write and remove."""
    saved: FileTotals = NO_FILES
    """The reduction."""
    skipped: tuple[Skipped, ...] = ()
    problems: tuple[Problem, ...] = ()
    before: TableShape | None = None
    after: TableShape | None = None
    snapshots: tuple[int, ...] = ()
    """Snapshots that the job committed."""
    details: dict[str, Option] = {}
    """Values specific to the job."""
    seconds: float = 0.0

    @property
    def is_well(self) -> bool:
        """Whether the job found no problem."""
        return not self.problems


class ReportBuilder:
    """Collects a report while the job runs."""

    def __init__(self, job: JobKind, table: CatalogTable, *, dry_run: bool) -> None:
        self.job = job
        self.table = table
        self.dry_run = dry_run
        self.changed = False
        self.read = self.wrote = self.removed = self.saved = NO_FILES
        self.before: TableShape | None = None
        self.after: TableShape | None = None
        self.snapshots: Sequence[int] = ()
        self.details: dict[str, Option] = {}
        self._skipped: list[Skipped] = []
        self._problems: list[Problem] = []
        self._since = time.monotonic()

    def skip(self, what: str, reason: str) -> None:
        """Record a skipped file or group."""
        self._skipped.append(Skipped(what, reason))

    def find(self, what: str, problem: str, detail: str) -> None:
        """Record a problem."""
        self._problems.append(Problem(what, problem, detail))

    def end(self) -> JobReport:
        """Build the report."""
        return JobReport(
            job=self.job,
            table=str(self.table),
            dry_run=self.dry_run,
            changed=self.changed and not self.dry_run,
            read=self.read,
            wrote=self.wrote,
            removed=self.removed,
            saved=self.saved,
            skipped=tuple(self._skipped),
            problems=tuple(self._problems),
            before=self.before,
            after=self.after,
            snapshots=tuple(self.snapshots),
            details=self.details,
            seconds=round(time.monotonic() - self._since, 3),
        )
