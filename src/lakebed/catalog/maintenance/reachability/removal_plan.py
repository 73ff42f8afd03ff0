"""Which files of a table may be removed, and why. Pure.

Metadata files are kept that are current, in the metadata log, among the newest `retain_recent`, or name a snapshot of a
branch or tag besides the current snapshot. All others are candidates, also those of commits long replaced.

Other files are kept that a retained snapshot refers to. Retained are the snapshots of the current metadata, and all
snapshots of metadata files that are among the newest to keep, or were written or current within the safety window.
Other metadata files of the log are kept as files only; a snapshot that only they name was expired by a commit.
Otherwise files of expired snapshots could not be removed before the log has turned over.

A candidate is removed when it is older than the window. While any reference is unknown, because a file on the way to it
is missing or unreadable, no file but metadata files is removed.
"""

from __future__ import annotations

import re
from collections.abc import Iterable, Mapping, Sequence
from dataclasses import dataclass
from typing import Final, NamedTuple

from lakebed.catalog.validation.directory_scope import normalized
from lakebed.iceberg.metadata.table import TableMetadata
from lakebed.iceberg.snapshot_expiry import is_gc_enabled

from .files import GraphReport, GraphStatus, ObjectKind, ObjectReport, ObjectState, Reason
from .walking import ReachabilityProblem, ReachableFiles

__all__ = [
    "MetadataHistory",
    "MetadataSplit",
    "RemovalPlan",
    "StoredFile",
    "decide_metadata_file",
    "decide_object",
    "graph_report",
    "history_of",
    "report_file",
    "split_metadata_files",
]

_NUMBER: Final = re.compile(r"v?(\d{1,9})[-.]")


class StoredFile(NamedTuple):
    """An existing file, as its row describes it."""

    location: str
    key: str
    size: int
    etag: str
    modified_ms: int


class MetadataHistory(NamedTuple):
    """What the catalog knows about metadata files without reading them."""

    current_at: str
    log: frozenset[str]
    recently_current: frozenset[str]
    """Replaced within the safety window: clients may still read what they name."""
    protected: frozenset[int]
    """Snapshots of branches and tags, except the current one."""
    collects: bool
    """Whether files may be removed at all: `gc.enabled`."""


def history_of(table: TableMetadata, current_at: str, recently_current: Iterable[str]) -> MetadataHistory:
    """The metadata history of a table."""
    named = {reference.snapshot_id for reference in table.refs.values()}
    return MetadataHistory(
        normalized(current_at),
        frozenset(normalized(entry.metadata_file) for entry in table.metadata_log),
        frozenset(map(normalized, recently_current)),
        frozenset(named - {table.current_snapshot_id}),
        is_gc_enabled(table.properties),
    )


class MetadataSplit(NamedTuple):
    """The metadata files of a table, before they are read."""

    retained: dict[str, tuple[Reason, ...]]
    """Kept files by location, with the reasons."""
    unlisted: list[StoredFile]
    """Files that nothing keeps so far, oldest first."""
    roots: list[str]
    """Files whose snapshots are all retained, except the current one."""
    has_young_roots: bool


def split_metadata_files(
    files: Sequence[StoredFile], history: MetadataHistory, *, retain_recent: int, watermark_ms: int
) -> MetadataSplit:
    """Split metadata files into those that are kept, and those to read before a decision."""
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


def decide_metadata_file(
    file: StoredFile,
    snapshots: frozenset[int],
    history: MetadataHistory,
    watermark_ms: int,
    problem: Reason | None = None,
) -> ObjectReport:
    """Decide on a metadata file that nothing keeps so far, by the snapshots that it names."""
    reasons: tuple[Reason, ...]
    if problem is not None:
        state, reasons = ObjectState.MANUAL_REVIEW_REQUIRED, (problem,)
    elif snapshots & history.protected:
        state, reasons = ObjectState.RETAINED, (Reason.PROTECTED_SNAPSHOT_REF,)
    else:
        state, reasons = _candidate(is_young=_is_young(file, history, watermark_ms), collects=history.collects)
    return report_file(file, ObjectKind.METADATA_FILE, state, reasons)


def decide_object(
    file: StoredFile, kind: ObjectKind, referred_as: ObjectKind | None, *, is_complete: bool, watermark_ms: int
) -> ObjectReport:
    """Decide on any other file; `referred_as` is the kind under which a snapshot refers to it."""
    if referred_as is not None:
        return report_file(file, referred_as, ObjectState.RETAINED, (Reason(referred_as),))
    state, reasons = _candidate(is_young=file.modified_ms > watermark_ms, collects=is_complete)
    return report_file(file, kind, state, reasons)


def graph_report(
    reached: ReachableFiles, problems: Sequence[ReachabilityProblem], metadata_files: int, *, most: int
) -> GraphReport:
    """The graph of a table, with at most `most` problems listed."""
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
class RemovalPlan:
    """The files of a table at one of its versions, with the decision on each."""

    metadata_at: str
    generation: int
    version_token: str
    retain_recent: int
    watermark_ms: int
    retained: tuple[ObjectReport, ...]
    """Metadata files that are kept."""
    metadata: tuple[ObjectReport, ...]
    """Metadata files that are candidates."""
    referenced: tuple[ObjectReport, ...]
    objects: tuple[ObjectReport, ...]
    """Other files that are candidates."""
    graph: GraphReport
    files: Mapping[str, StoredFile]
    """Removable files by location, as found: a file that is written again is another one."""
    unrecognized: int = 0
    is_partial: bool = False
    """Whether there are more metadata files than one plan reads."""
    has_young_roots: bool = False
    """Whether files are kept for a metadata file that was written or replaced within the safety window."""

    @property
    def deletable(self) -> list[ObjectReport]:
        """Removable files, metadata files first: while one exists, the files that it names should."""
        return [one for one in (*self.metadata, *self.objects) if one.state is ObjectState.DELETABLE]

    @property
    def has_pending(self) -> bool:
        """Whether files become removable with time."""
        candidates = (*self.metadata, *self.objects)
        is_young = any(one.state is ObjectState.PENDING_SAFETY_WINDOW for one in candidates)
        return is_young or self.is_partial or self.has_young_roots


def _candidate(*, is_young: bool, collects: bool) -> tuple[ObjectState, tuple[Reason, ...]]:
    if not collects:
        return ObjectState.MANUAL_REVIEW_REQUIRED, (Reason.NO_CURRENT_REACHABILITY,)
    if is_young:
        return ObjectState.PENDING_SAFETY_WINDOW, (Reason.NO_CURRENT_REACHABILITY, Reason.SAFETY_WINDOW_PENDING)
    return ObjectState.DELETABLE, (Reason.NO_CURRENT_REACHABILITY, Reason.SAFETY_WINDOW_SATISFIED)


def _is_young(file: StoredFile, history: MetadataHistory, watermark_ms: int) -> bool:
    return file.modified_ms > watermark_ms or file.location in history.recently_current


def _age(file: StoredFile) -> tuple[int, int, str]:
    # Names begin with the number of the commit, here and with other writers; times order the rest.
    number = _NUMBER.match(file.key.rpartition("/")[2])
    return -1 if number is None else int(number[1]), file.modified_ms, file.location


def report_file(file: StoredFile, kind: ObjectKind, state: ObjectState, reasons: tuple[Reason, ...]) -> ObjectReport:
    """An existing file and the decision on it."""
    return ObjectReport(
        location=file.location, kind=kind, state=state, reasons=reasons, size=file.size, modified_ms=file.modified_ms
    )
