"""When each job is worth running on a table: one rule per job. Pure.

A rule first decides by the snapshot summary. Where that is not enough, it requests more detail: the manifest list, or
every manifest. The same rule then decides on the detail.
"""

from __future__ import annotations

from collections.abc import Callable, Mapping
from dataclasses import dataclass, field
from enum import IntEnum
from typing import Final, NamedTuple, TypeAlias

from lakebed.catalog.entries import LiveEntry
from lakebed.core.jobs import JobKind, Option
from lakebed.core.sizes import GIB, MIB
from lakebed.iceberg.manifests import ManifestFile
from lakebed.iceberg.metadata.table import TableMetadata
from lakebed.iceberg.snapshot_expiry import GC_ENABLED, MAX_REF_AGE, MAX_SNAPSHOT_AGE, is_gc_enabled

from ..engine_reports import NO_SIGNALS, EngineSignals
from ..health import TableHealth, health_from_files, health_from_summary, small_below_bytes, target_file_bytes
from ..reachability.files import Reason
from ..reachability.walking import LiveFiles
from .compaction import CompactionRequest, CompactionStatus, plan_compaction
from .expiration import ExpirationRequest, ExpirationStatus, plan_expiration

__all__ = ["DetailLevel", "JobDue", "NeedsDetail", "NotDue", "RuleResult", "TableState", "evaluate_rule"]

MIN_INPUT_FILES: Final = 5
MAX_GROUP_BYTES: Final = 100 * GIB
DELETE_RATIO: Final = 0.1
"""The ratio of deletes to records above which scans cost more than a rewrite."""
DELETE_FILES: Final = 100
"""The same, as a number of delete files that scans open."""

MANIFESTS: Final = 10
MANIFEST_TARGET_BYTES: Final = 8 * MIB
MANIFEST_TARGET_PROPERTY: Final = "commit.manifest.target-size-bytes"

MIN_SNAPSHOTS: Final = 1
MAX_SNAPSHOT_AGE_MS: Final = 5 * 86_400_000
ORPHAN_AGE_MS: Final = 3 * 86_400_000
"""The defaults of Iceberg, all three."""

RETRIED_PAUSE_MS: Final = 3_600_000
"""How soon orphans of failed commits are removed, where the interval is longer."""


class DetailLevel(IntEnum):
    """How much of a table was read, or has to be."""

    SUMMARY = 0
    LIST = 1
    FILES = 2


@dataclass(frozen=True, slots=True)
class TableState:
    """A table, as far as it was read."""

    known: LiveEntry
    table: TableMetadata
    now_ms: int
    manifests: tuple[ManifestFile, ...] | None = None
    live: LiveFiles | None = None
    signals: EngineSignals = NO_SIGNALS
    last_runs: Mapping[JobKind, int] = field(default_factory=dict)
    """When each job last succeeded."""

    @property
    def detail(self) -> DetailLevel:
        """How much of the table was read."""
        if self.live is not None:
            return DetailLevel.FILES
        return DetailLevel.SUMMARY if self.manifests is None else DetailLevel.LIST

    def health(self, small_below: int) -> TableHealth:
        """Table health, in the detail that was read."""
        if self.live is not None and not self._exceeds_limits:
            return health_from_files(self.known, self.table, self.live, small_below=small_below)
        return health_from_summary(self.known, self.table, small_below=small_below, manifests=self.lines)

    @property
    def lines(self) -> tuple[ManifestFile, ...] | None:
        """The manifests, if they are known."""
        return self.manifests if self.live is None else self.live.manifests

    @property
    def _exceeds_limits(self) -> bool:
        """Whether the table exceeds the limits; the summary decides then."""
        return self.live is not None and any(one.reason is Reason.TOO_MANY_FILES for one in self.live.problems)

    @property
    def files(self) -> LiveFiles | None:
        """The live files, if they were read."""
        return None if self._exceeds_limits else self.live


class JobDue(NamedTuple):
    """A job is worth running."""

    why: str
    files: int
    size: int
    urgency: float = 0.0
    """From 0 to 1: how much it helps, compared with other tasks of the job."""
    options: Mapping[str, Option] = {}
    """Further options that the job needs."""


class NotDue(NamedTuple):
    """A job is not worth running."""

    why: str
    again_ms: int | None = None
    """When time alone may change that."""


class NeedsDetail(NamedTuple):
    """The rule requires more detail."""

    detail: DetailLevel


class _Deletes(NamedTuple):
    """A reason to apply deletes, and the options for the rewrite."""

    why: str
    options: Mapping[str, Option]


RuleResult: TypeAlias = JobDue | NotDue | NeedsDetail


def evaluate_rule(job: JobKind, subject: TableState, options: Mapping[str, Option], interval_ms: int = 0) -> RuleResult:
    """Whether a job is worth running on a table."""
    if subject.table.current_snapshot is None:
        return NotDue("the table has no snapshot")
    return _RULES[job](subject, options, interval_ms)


def _compact(subject: TableState, options: Mapping[str, Option], _interval_ms: int) -> RuleResult:
    target = _number(options, "target-file-size-bytes", target_file_bytes(subject.table))
    small_below = min(_number(options, "min-file-size-bytes", small_below_bytes(target)), target)
    least = max(2, _number(options, "min-input-files", MIN_INPUT_FILES))
    health = subject.health(small_below)
    deletes = _deletes(health, options)
    if subject.detail < DetailLevel.FILES:
        is_small = health.small_files is None or health.small_files >= least
        if is_small or deletes is not None or health.delete_files is None:
            return NeedsDetail(DetailLevel.FILES)
        return NotDue(f"{health.small_files} of {health.data_files} data files are under {_bytes(small_below)}")
    if subject.files is None:
        return _compact_by_summary(health, deletes, least)
    request = CompactionRequest(
        target_file_size_bytes=target,
        small_file_threshold_bytes=max(1, small_below),
        min_input_files=least,
        max_rewrite_bytes_per_job=max(target, _number(options, "max-file-group-size-bytes", MAX_GROUP_BYTES)),
    )
    report = plan_compaction(subject.table.current_snapshot_id, subject.files, request)
    if report.status is CompactionStatus.MANUAL_REVIEW_REQUIRED:
        return NotDue(f"some manifests cannot be read: {', '.join(report.reasons)}; see the table's diagnostics")
    data_files, data_bytes = health.data_files or 0, health.data_bytes or 0
    share = report.candidate_files / data_files if data_files else 0.0
    if report.status is CompactionStatus.REWRITE_CANDIDATES:
        why = f"{report.candidate_files} of {data_files} data files are under {_bytes(small_below)}"
        return _with_scans(
            _with_deletes(JobDue(why, report.candidate_files, report.candidate_bytes), deletes),
            share,
            subject.signals,
        )
    if deletes is not None:
        return _with_scans(
            JobDue(deletes.why, data_files + (health.delete_files or 0), data_bytes, options=deletes.options),
            min(1.0, health.delete_ratio or 0.0),
            subject.signals,
        )
    together = "" if (health.small_files or 0) < least else f", no {least} of them in one partition"
    return NotDue(f"{health.small_files} of {data_files} data files are under {_bytes(small_below)}{together}")


def _compact_by_summary(health: TableHealth, deletes: _Deletes | None, least: int) -> RuleResult:
    """For tables with more files than are read here."""
    files, size = health.small_files or 0, health.small_bytes or 0
    if files >= least:
        why = f"about {files} of {health.data_files} data files are under {_bytes(health.small_below_bytes)}"
        return _with_deletes(JobDue(why, files, size, 1.0), deletes)
    if deletes is not None:
        return JobDue(deletes.why, health.data_files or 0, health.data_bytes or 0, 1.0, deletes.options)
    return NotDue("its files are too many to read, and few of them are small by its summary")


def _deletes(health: TableHealth, options: Mapping[str, Option]) -> _Deletes | None:
    """The reason to apply deletes, if there is one."""
    ratio = options.get("delete-ratio-threshold", DELETE_RATIO)
    if isinstance(ratio, int | float) and health.delete_files and (health.delete_ratio or 0.0) >= ratio:
        return _Deletes(f"deletes are {health.delete_ratio:.0%} of its rows", {})
    if (health.delete_files or 0) < _number(options, "delete-file-threshold", DELETE_FILES):
        return None
    # Without an option, the job does not rewrite data because of many delete files with few rows.
    required: dict[str, Option] = {}
    if "delete-file-threshold" not in options and "rewrite-deletes" not in options:
        can_be_merged = not health.equality_deletes and not health.deletion_vectors
        required = {"rewrite-deletes": True} if can_be_merged else {"delete-file-threshold": 1}
    return _Deletes(f"scans apply {health.delete_files} delete files", required)


def _with_deletes(due: JobDue, deletes: _Deletes | None) -> JobDue:
    if deletes is None:
        return due
    return due._replace(why=f"{due.why}; {deletes.why}", options=deletes.options)


def _with_scans(due: JobDue, share: float, signals: EngineSignals) -> JobDue:
    """Raise the urgency by the scans that engines report."""
    opened = signals.files_a_scan + signals.deletes_a_scan
    pressure = min(1.0, opened / 1000) if signals.scans else 0.0
    why = due.why
    if signals.scans:
        why += f"; engines reported {signals.scans} scans lately, {opened} files each"
    return due._replace(why=why, urgency=(share + pressure) / 2)


def _rewrite_manifests(subject: TableState, options: Mapping[str, Option], _interval_ms: int) -> RuleResult:
    if subject.lines is None:
        # Each commit adds at least one manifest, unless it merges some.
        commits = max(subject.table.last_sequence_number, len(subject.table.snapshots))
        if commits <= MANIFESTS:
            return NotDue(f"{commits} commits cannot have many manifests")
        return NeedsDetail(DetailLevel.LIST)
    if subject.live is not None and not subject.live.manifests and subject.live.problems:
        return NotDue("its manifest list cannot be read; see the table's diagnostics")
    default = _property(subject.table, MANIFEST_TARGET_PROPERTY, MANIFEST_TARGET_BYTES)
    target = _number(options, "target-manifest-size-bytes", default)
    spec = options.get("spec-id")
    lines = [line for line in subject.lines if spec is None or line.partition_spec_id == spec]
    size = sum(line.length for line in lines)
    # One for every spec and content remains after merging.
    sorts = len({(line.partition_spec_id, line.content) for line in lines})
    expected = max(sorts, -(-size // target))
    if len(lines) > MANIFESTS and len(lines) >= 2 * expected:
        why = f"{len(lines)} manifests of {_bytes(size // len(lines))} on average would fit into {expected}"
        return JobDue(why, len(lines), size, min(1.0, len(lines) / 1000))
    return NotDue(f"{len(lines)} manifests are few for {_bytes(size)}")


def _expire_snapshots(subject: TableState, options: Mapping[str, Option], interval_ms: int) -> RuleResult:
    age_ms = _number(options, "max-snapshot-age-ms", MAX_SNAPSHOT_AGE_MS)
    request = ExpirationRequest(
        min_snapshots_to_keep=_number(options, "min-snapshots-to-keep", MIN_SNAPSHOTS), max_snapshot_age_ms=age_ms
    )
    table, now_ms = subject.table, subject.now_ms
    oldest_ms = min(one.timestamp_ms for one in table.snapshots.values())
    ref_age = options.get("max-ref-age-ms")
    if now_ms - oldest_ms <= age_ms and ref_age is None and not _has_own_limits(table):
        # The common case: nothing can have expired.
        return _none_expired(subject, age_ms, interval_ms)
    report = plan_expiration(table, request, now_ms, max_ref_age_ms=ref_age if isinstance(ref_age, int) else None)
    if report.status is ExpirationStatus.MANUAL_REVIEW_REQUIRED:
        return NotDue(f"its snapshots cannot be expired: {', '.join(report.reasons)}")
    if report.status is ExpirationStatus.CANDIDATES:
        total = len(table.snapshots)
        parts = [f"{len(report.candidates)} of {total} snapshots have expired"] if report.candidates else []
        if report.expired_refs:
            parts.append(f"{len(report.expired_refs)} branches and tags have expired")
        size = sum(_summary_number(table, one, "added-files-size") for one in report.candidates)
        return JobDue("; ".join(parts), len(report.candidates), size, min(1.0, len(report.candidates) / 100))
    return _none_expired(subject, report.max_snapshot_age_ms, interval_ms)


def _none_expired(subject: TableState, age_ms: int, interval_ms: int) -> NotDue:
    snapshots, now_ms = subject.table.snapshots, subject.now_ms
    ends = (one.timestamp_ms + age_ms for one in snapshots.values())
    next_ms = min((moment for moment in ends if moment > now_ms), default=None)
    # Not for every single snapshot of a table with a commit per second.
    again_ms = None if next_ms is None else max(next_ms + 1, now_ms + interval_ms)
    return NotDue(f"none of {len(snapshots)} snapshots has expired", again_ms)


def _has_own_limits(table: TableMetadata) -> bool:
    """Whether properties or references of the table set retention limits."""
    if any(name in table.properties for name in (MAX_REF_AGE, MAX_SNAPSHOT_AGE, GC_ENABLED)):
        return True
    return any(one.max_ref_age_ms is not None or one.max_snapshot_age_ms is not None for one in table.refs.values())


def _remove_orphans(subject: TableState, options: Mapping[str, Option], interval_ms: int) -> RuleResult:
    table, now_ms = subject.table, subject.now_ms
    if not is_gc_enabled(table.properties):
        return NotDue(f"{GC_ENABLED} is false: other tables may share its files")
    old_enough_ms = _number(options, "older-than-ms", ORPHAN_AGE_MS)
    born_ms = min(subject.known.entry.created_ms, *(one.timestamp_ms for one in table.snapshots.values()))
    if now_ms - born_ms < old_enough_ms:
        return NotDue(f"it has no files older than {_duration(old_enough_ms)} yet", again_ms=born_ms + old_enough_ms)
    files = (_summary_number(table, table.current_snapshot_id, "total-data-files")) + len(table.snapshots)
    last_ms = subject.last_runs.get(JobKind.REMOVE_ORPHANS)
    if last_ms is None:
        return JobDue("orphan files were never removed", files, 0)
    ago_ms = now_ms - last_ms
    retried = subject.signals.retried_commits
    if retried and ago_ms >= min(interval_ms, RETRIED_PAUSE_MS):
        why = f"engines reported {retried} retried commits lately, which leave orphan files"
        return JobDue(why, files, 0, 0.5)
    if ago_ms >= interval_ms:
        return JobDue(f"orphan files were last removed {_duration(ago_ms)} ago", files, 0)
    return NotDue(f"orphan files were removed {_duration(ago_ms)} ago", again_ms=last_ms + interval_ms)


def _compute_statistics(subject: TableState, options: Mapping[str, Option], _interval_ms: int) -> RuleResult:
    table = subject.table
    health = subject.health(small_below_bytes(target_file_bytes(table)))
    if health.statistics_snapshot == table.current_snapshot_id:
        return NotDue("its statistics are of the current snapshot")
    what = (
        "it has no statistics"
        if health.statistics_snapshot is None
        else f"its statistics are of snapshot {health.statistics_snapshot}, not of the current one"
    )
    return JobDue(what, health.data_files or 0, health.data_bytes or 0)


def _rewrite_layout(subject: TableState, options: Mapping[str, Option], _interval_ms: int) -> RuleResult:
    table = subject.table
    if len(table.specs) == 1:
        return NotDue("it has a single partition spec")
    if subject.lines is None:
        return NeedsDetail(DetailLevel.LIST)
    health = subject.health(small_below_bytes(target_file_bytes(table)))
    older = [spec for spec in health.specs_in_use or () if spec != table.default_spec_id]
    if not older:
        return NotDue("all of its files have the current partition spec")
    lines = [line for line in subject.lines if line.partition_spec_id in older]
    files = sum((line.added_files_count or 0) + (line.existing_files_count or 0) for line in lines)
    share = files / health.data_files if health.data_files else 1.0
    why = f"{files} files have partition spec {', '.join(map(str, older))}, the current one is {table.default_spec_id}"
    return JobDue(why, files, round((health.data_bytes or 0) * min(1.0, share)))


_RULES: Final[Mapping[JobKind, Callable[[TableState, Mapping[str, Option], int], RuleResult]]] = {
    JobKind.COMPACT: _compact,
    JobKind.REWRITE_MANIFESTS: _rewrite_manifests,
    JobKind.EXPIRE_SNAPSHOTS: _expire_snapshots,
    JobKind.REMOVE_ORPHANS: _remove_orphans,
    JobKind.COMPUTE_STATISTICS: _compute_statistics,
    JobKind.REWRITE_LAYOUT: _rewrite_layout,
}


def _number(options: Mapping[str, Option], name: str, default: int) -> int:
    value = options.get(name, default)
    return value if isinstance(value, int) else default


def _property(table: TableMetadata, name: str, default: int) -> int:
    text = table.properties.get(name, "")
    return max(1, int(text)) if text.isascii() and text.isdigit() and len(text) < 19 else default


def _summary_number(table: TableMetadata, snapshot_id: int | None, name: str) -> int:
    snapshot = None if snapshot_id is None else table.snapshots.get(snapshot_id)
    text = ((snapshot.summary if snapshot else None) or {}).get(name, "")
    return int(text) if text.isascii() and text.isdigit() and len(text) < 19 else 0


def _bytes(size: int) -> str:
    """A size for humans."""
    for unit, name in ((GIB, "GiB"), (MIB, "MiB"), (1024, "KiB")):
        if size >= unit:
            return f"{size / unit:.4g} {name}"
    return f"{size} bytes"


def _duration(milliseconds: int) -> str:
    """A duration for humans."""
    for unit, name in ((86_400_000, "days"), (3_600_000, "hours"), (60_000, "minutes")):
        if milliseconds >= 2 * unit:
            return f"{milliseconds // unit} {name}"
    return f"{milliseconds // 1000} seconds"
