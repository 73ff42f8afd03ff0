"""What may be removed of a table's files, and why. Pure.

Metadata files stay that are current, in the metadata log, among the newest that are asked to stay, or name a snapshot
that a branch or tag other than the current snapshot's names. All others are candidates: those of commits that are long
replaced, too.

Objects stay that a snapshot refers to which counts. These are the snapshots of the current metadata, and all snapshots
of metadata files that are among the newest asked to stay, or that were written or current within the safety window.
Other metadata files of the log stay as files; a snapshot that only they still name was expired by a commit, and gives
its files free. Otherwise nothing that expiration lets go could be removed before the log has turned over.

A candidate goes when it is older than the window. Were some reference unknown, because a file on the way to it cannot
be read or is missing, then no object goes at all.
"""

from __future__ import annotations

import re
from collections.abc import Iterable, Mapping, Sequence
from dataclasses import dataclass
from typing import Final, NamedTuple

from lakebed.iceberg.metadata.table import TableMetadata
from lakebed.tables.validation.scope import spelled

from .model import Counts, GraphReport, GraphStatus, ObjectKind, ObjectReport, ObjectState, Reason
from .walking import Problem, Reached

__all__ = [
    "History",
    "MetadataSplit",
    "Plan",
    "StoredFile",
    "graph_report",
    "history_of",
    "judge_metadata",
    "judge_object",
    "judge_unlisted",
    "plan_counts",
]

GC_ENABLED: Final = "gc.enabled"
_NUMBER: Final = re.compile(r"v?(\d{1,9})[-.]")


class StoredFile(NamedTuple):
    """A file that is there, as its row has it."""

    location: str
    key: str
    size: int
    etag: str
    modified_ms: int


class History(NamedTuple):
    """What the catalog knows of a table's metadata files without reading them."""

    current_at: str
    log: frozenset[str]
    recently_current: frozenset[str]
    """Replaced within the safety window: somebody may have begun to read what they name."""
    protected: frozenset[int]
    """Snapshots that branches and tags name, but for the current one."""
    collects: bool
    """Whether files may go at all: `gc.enabled`."""


def history_of(table: TableMetadata, current_at: str, recently_current: Iterable[str]) -> History:
    """What is known of a table."""
    named = {reference.snapshot_id for reference in table.refs.values()}
    return History(
        spelled(current_at),
        frozenset(spelled(entry.metadata_file) for entry in table.metadata_log),
        frozenset(map(spelled, recently_current)),
        frozenset(named - {table.current_snapshot_id}),
        table.properties.get(GC_ENABLED, "true").strip().lower() != "false",
    )


class MetadataSplit(NamedTuple):
    """The metadata files of a table, by what is known before they are read."""

    retained: dict[str, tuple[Reason, ...]]
    """By location, why they stay."""
    unlisted: list[StoredFile]
    """Those that nothing keeps so far, oldest first."""
    roots: list[str]
    """Those all of whose snapshots count, but for the current one."""
    has_young_roots: bool


def judge_metadata(
    files: Sequence[StoredFile], history: History, *, retain_recent: int, watermark_ms: int
) -> MetadataSplit:
    """Tell the metadata files that stay from those to be looked into."""
    newest_first = sorted(files, key=_age, reverse=True)
    recent = {file.location for file in newest_first[:retain_recent]}
    retained: dict[str, tuple[Reason, ...]] = {}
    unlisted: list[StoredFile] = []
    roots: list[str] = []
    has_young_roots = False
    for file in reversed(newest_first):
        location = file.location
        reasons = [
            reason
            for reason, holds in (
                (Reason.CURRENT_METADATA, location == history.current_at),
                (Reason.METADATA_LOG, location in history.log),
                (Reason.RECENT_METADATA, location in recent),
            )
            if holds
        ]
        if reasons:
            retained[location] = tuple(reasons)
        else:
            unlisted.append(file)
        is_young = _is_young(file, history, watermark_ms)
        if location != history.current_at and (location in recent or is_young):
            roots.append(location)
            has_young_roots = has_young_roots or is_young
    return MetadataSplit(retained, unlisted, roots, has_young_roots)


def judge_unlisted(
    file: StoredFile, snapshots: frozenset[int], history: History, watermark_ms: int, problem: Reason | None = None
) -> ObjectReport:
    """Decide on a metadata file that nothing keeps so far, which names these snapshots, unless it is a problem."""
    reasons: tuple[Reason, ...]
    if problem is not None:
        state, reasons = ObjectState.MANUAL_REVIEW_REQUIRED, (problem,)
    elif snapshots & history.protected:
        state, reasons = ObjectState.RETAINED, (Reason.PROTECTED_SNAPSHOT_REF,)
    else:
        state, reasons = _candidate(is_young=_is_young(file, history, watermark_ms), collects=history.collects)
    return _reported(file, ObjectKind.METADATA_FILE, state, reasons)


def judge_object(
    file: StoredFile, kind: ObjectKind, referred_as: ObjectKind | None, *, is_complete: bool, watermark_ms: int
) -> ObjectReport:
    """Decide on any other file, which is referred to as something, or not at all."""
    if referred_as is not None:
        return _reported(file, referred_as, ObjectState.RETAINED, (Reason(referred_as),))
    state, reasons = _candidate(is_young=file.modified_ms > watermark_ms, collects=is_complete)
    return _reported(file, kind, state, reasons)


def graph_report(reached: Reached, problems: Sequence[Problem], metadata_files: int, *, most: int) -> GraphReport:
    """What the table refers to, and whether that is all. Lists at most so many problems."""
    return GraphReport(
        status=GraphStatus.MANUAL_REVIEW_REQUIRED if problems else GraphStatus.COMPLETE,
        metadata_files=metadata_files,
        snapshots=len(reached.snapshots),
        manifest_lists=len(reached.manifest_lists),
        manifests=len(reached.manifests),
        data_files=len(reached.data_files),
        delete_files=len(reached.delete_files),
        statistics_files=len(reached.statistics),
        reasons=tuple(sorted({problem.reason for problem in problems})),
        problems=tuple(
            ObjectReport(
                location=problem.location,
                kind=problem.kind,
                state=ObjectState.MANUAL_REVIEW_REQUIRED,
                reasons=(problem.reason,),
            )
            for problem in problems[:most]
        ),
    )


@dataclass(frozen=True, slots=True)
class Plan:
    """What was found of a table at one of its versions, and decided of each of its files."""

    metadata_at: str
    generation: int
    version_token: str
    retain_recent: int
    watermark_ms: int
    retained: tuple[ObjectReport, ...]
    """Metadata files that stay."""
    metadata: tuple[ObjectReport, ...]
    """Metadata files that are candidates."""
    referenced: tuple[ObjectReport, ...]
    objects: tuple[ObjectReport, ...]
    """Other files that are candidates."""
    graph: GraphReport
    files: Mapping[str, StoredFile]
    """What may be removed, by location, as it was found: a file that was written anew is another one."""
    unrecognized: int = 0
    is_partial: bool = False
    """Whether there were more metadata files than one plan looks into."""
    has_young_roots: bool = False
    """Whether something is kept for a metadata file that was written or replaced within the safety window."""

    @property
    def deletable(self) -> list[ObjectReport]:
        """What may be removed, metadata files first: while one is there, what it names should be."""
        return [one for one in (*self.metadata, *self.objects) if one.state is ObjectState.DELETABLE]

    @property
    def has_pending(self) -> bool:
        """Whether something becomes removable by waiting."""
        candidates = (*self.metadata, *self.objects)
        is_young = any(one.state is ObjectState.PENDING_SAFETY_WINDOW for one in candidates)
        return is_young or self.is_partial or self.has_young_roots


def plan_counts(plan: Plan) -> Counts:
    """How many files of each sort a plan has."""
    return Counts(
        planned_metadata_files=len(plan.retained) + len(plan.metadata),
        retained_metadata_files=len(plan.retained),
        deletable_metadata_files=_count(plan.metadata, ObjectState.DELETABLE),
        cleanup_candidates=len(plan.metadata) + len(plan.objects),
        planned_object_files=len(plan.referenced) + len(plan.objects),
        cleanup_candidate_objects=len(plan.objects),
        deletable_objects=_count(plan.objects, ObjectState.DELETABLE),
        unrecognized_objects=plan.unrecognized,
    )


def _candidate(*, is_young: bool, collects: bool) -> tuple[ObjectState, tuple[Reason, ...]]:
    if not collects:
        return ObjectState.MANUAL_REVIEW_REQUIRED, (Reason.NO_CURRENT_REACHABILITY,)
    if is_young:
        return ObjectState.PENDING_SAFETY_WINDOW, (Reason.NO_CURRENT_REACHABILITY, Reason.SAFETY_WINDOW_PENDING)
    return ObjectState.DELETABLE, (Reason.NO_CURRENT_REACHABILITY, Reason.SAFETY_WINDOW_SATISFIED)


def _is_young(file: StoredFile, history: History, watermark_ms: int) -> bool:
    return file.modified_ms > watermark_ms or file.location in history.recently_current


def _age(file: StoredFile) -> tuple[int, int, str]:
    # Names begin with the number of their commit, here and with other writers; times settle the rest.
    number = _NUMBER.match(file.key.rpartition("/")[2])
    return -1 if number is None else int(number[1]), file.modified_ms, file.location


def _reported(file: StoredFile, kind: ObjectKind, state: ObjectState, reasons: tuple[Reason, ...]) -> ObjectReport:
    return ObjectReport(
        location=file.location, kind=kind, state=state, reasons=reasons, size=file.size, modified_ms=file.modified_ms
    )


def _count(reports: Sequence[ObjectReport], state: ObjectState) -> int:
    return sum(one.state is state for one in reports)
