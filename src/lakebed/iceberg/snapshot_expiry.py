"""Snapshot expiration: selects expired snapshots, branches and tags by the rules of the specification. Pure.

- A branch keeps its newest snapshot, at least `min_snapshots` snapshots, and those younger than the maximum age.
  Ancestors of the first expired snapshot expire too: the history of a branch has no gaps.
- A tag keeps its snapshot. A snapshot that no branch or tag reaches is kept while it is young.
- A branch or tag expires by the age of its snapshot, except `main`.

Limits of a branch or tag take precedence over those of the request. The table's properties are a lower bound: a request
never keeps less.
"""

from __future__ import annotations

from collections.abc import Iterator, Mapping, Sequence
from dataclasses import dataclass
from enum import StrEnum
from typing import Final, NamedTuple

__all__ = [
    "ExpirySnapshot",
    "RetainedBy",
    "RetentionLimits",
    "SnapshotExpiry",
    "SnapshotRef",
    "expire_snapshots",
    "is_gc_enabled",
    "retention_limits",
]

MAIN: Final = "main"
DEFAULT_MIN_SNAPSHOTS: Final = 1
DEFAULT_MAX_AGE_MS: Final = 5 * 86_400_000

GC_ENABLED: Final = "gc.enabled"
MIN_SNAPSHOTS: Final = "history.expire.min-snapshots-to-keep"
MAX_SNAPSHOT_AGE: Final = "history.expire.max-snapshot-age-ms"
MAX_REF_AGE: Final = "history.expire.max-ref-age-ms"


class RetainedBy(StrEnum):
    """Why a snapshot is kept."""

    CURRENT_SNAPSHOT = "CURRENT_SNAPSHOT"
    PROTECTED_SNAPSHOT_REF = "PROTECTED_SNAPSHOT_REF"
    MIN_SNAPSHOTS_TO_KEEP = "MIN_SNAPSHOTS_TO_KEEP"
    SNAPSHOT_AGE_WITHIN_RETENTION = "SNAPSHOT_AGE_WITHIN_RETENTION"


@dataclass(frozen=True, slots=True)
class ExpirySnapshot:
    """A snapshot, with the fields that its expiration depends on."""

    id: int
    parent: int | None
    committed_ms: int


@dataclass(frozen=True, slots=True)
class SnapshotRef:
    """A branch or tag, with its own limits."""

    name: str
    is_branch: bool
    snapshot: int
    min_snapshots: int | None = None
    max_age_ms: int | None = None
    max_ref_age_ms: int | None = None


class RetentionLimits(NamedTuple):
    """The limits for branches and tags without their own."""

    min_snapshots: int
    max_age_ms: int
    max_ref_age_ms: int | None = None


class SnapshotExpiry(NamedTuple):
    """The expired snapshots and references, and the reasons to keep the others."""

    refs: tuple[SnapshotRef, ...]
    snapshots: tuple[int, ...]
    retained: Mapping[int, tuple[RetainedBy, ...]]


def is_gc_enabled(properties: Mapping[str, str]) -> bool:
    """Whether files of the table may be deleted; if not, other tables may share them."""
    return properties.get(GC_ENABLED, "true").strip().lower() != "false"


def retention_limits(
    properties: Mapping[str, str],
    *,
    min_snapshots: int | None = None,
    max_age_ms: int | None = None,
    max_ref_age_ms: int | None = None,
) -> tuple[RetentionLimits, tuple[str, ...]]:
    """The limits that apply to a request, and the names of properties that are not numbers."""
    stated = {name: _number(properties.get(name)) for name in (MIN_SNAPSHOTS, MAX_SNAPSHOT_AGE, MAX_REF_AGE)}
    limits = RetentionLimits(
        _larger(min_snapshots, stated[MIN_SNAPSHOTS]) or DEFAULT_MIN_SNAPSHOTS,
        DEFAULT_MAX_AGE_MS if (age := _larger(max_age_ms, stated[MAX_SNAPSHOT_AGE])) is None else age,
        _larger(max_ref_age_ms, stated[MAX_REF_AGE]),
    )
    return limits, tuple(name for name, value in stated.items() if value is None and name in properties)


def expire_snapshots(
    snapshots: Sequence[ExpirySnapshot], refs: Sequence[SnapshotRef], limits: RetentionLimits, now_ms: int
) -> SnapshotExpiry:
    """Select the snapshots and references that have expired."""
    by_id = {snapshot.id: snapshot for snapshot in snapshots}
    expired = tuple(ref for ref in refs if ref.name != MAIN and _is_expired(ref, by_id, limits, now_ms))
    retained: dict[int, dict[RetainedBy, None]] = {}
    reached: set[int] = set()
    current = next((ref.snapshot for ref in refs if ref.name == MAIN), None)

    def retain(snapshot: int, reason: RetainedBy) -> None:
        retained.setdefault(snapshot, {})[reason] = None

    for ref in refs:
        if ref in expired:
            continue
        is_current = ref.snapshot == current
        retain(ref.snapshot, RetainedBy.CURRENT_SNAPSHOT if is_current else RetainedBy.PROTECTED_SNAPSHOT_REF)
        reached.add(ref.snapshot)
        if not ref.is_branch:
            continue
        least = ref.min_snapshots or limits.min_snapshots
        age_ms = limits.max_age_ms if ref.max_age_ms is None else ref.max_age_ms
        keeps = True
        for index, snapshot in enumerate(_ancestors(ref.snapshot, by_id)):
            reached.add(snapshot.id)
            keeps = keeps and (index < least or now_ms - snapshot.committed_ms <= age_ms)
            if keeps:
                is_counted = index < least
                retain(
                    snapshot.id,
                    RetainedBy.MIN_SNAPSHOTS_TO_KEEP if is_counted else RetainedBy.SNAPSHOT_AGE_WITHIN_RETENTION,
                )
    for snapshot in snapshots:
        if snapshot.id not in reached and now_ms - snapshot.committed_ms <= limits.max_age_ms:
            retain(snapshot.id, RetainedBy.SNAPSHOT_AGE_WITHIN_RETENTION)
    return SnapshotExpiry(
        expired,
        tuple(snapshot.id for snapshot in snapshots if snapshot.id not in retained),
        {snapshot: tuple(reasons) for snapshot, reasons in retained.items()},
    )


def _ancestors(start: int, by_id: Mapping[int, ExpirySnapshot]) -> Iterator[ExpirySnapshot]:
    """A snapshot and its ancestors, up to the first one that the table no longer has."""
    seen: set[int] = set()
    at: int | None = start
    while at is not None and at in by_id and at not in seen:
        seen.add(at)
        yield by_id[at]
        at = by_id[at].parent


def _is_expired(ref: SnapshotRef, by_id: Mapping[int, ExpirySnapshot], limits: RetentionLimits, now_ms: int) -> bool:
    limit = limits.max_ref_age_ms if ref.max_ref_age_ms is None else ref.max_ref_age_ms
    snapshot = by_id.get(ref.snapshot)
    return limit is not None and snapshot is not None and now_ms - snapshot.committed_ms > limit


def _larger(requested: int | None, stated: int | None) -> int | None:
    return max((one for one in (requested, stated) if one is not None), default=None)


def _number(text: str | None) -> int | None:
    return int(text) if text is not None and text.isascii() and text.isdigit() and len(text) < 19 else None
