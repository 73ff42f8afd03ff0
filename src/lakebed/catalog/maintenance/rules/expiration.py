"""Plans of snapshot expiration: the decision on each snapshot of a table, for reports. Pure.

`lakebed.iceberg.snapshot_expiry` has the rules. The report adds a decision for every snapshot, and requires manual
review of some tables.
"""

from __future__ import annotations

from collections.abc import Callable
from enum import StrEnum
from typing import Final

import msgspec

from lakebed.core.errors import InvalidInput
from lakebed.iceberg.metadata.references import branch
from lakebed.iceberg.metadata.snapshots import Snapshot
from lakebed.iceberg.metadata.table import TableMetadata
from lakebed.iceberg.snapshot_expiry import (
    MAIN,
    ExpirySnapshot,
    RetentionLimits,
    SnapshotRef,
    expire_snapshots,
    is_gc_enabled,
    retention_limits,
)

from ..reachability.files import ReportValue

__all__ = [
    "ExpirationReport",
    "ExpirationRequest",
    "ExpirationStatus",
    "SnapshotDecision",
    "SnapshotState",
    "expiration_updates",
    "plan_expiration",
]

SNAPSHOT_AGE_EXPIRED: Final = "SNAPSHOT_AGE_EXPIRED"
SNAPSHOT_REF_RETENTION_CONFLICT: Final = "SNAPSHOT_REF_RETENTION_CONFLICT"
TABLE_RETENTION_PROPERTY_CONFLICT: Final = "TABLE_RETENTION_PROPERTY_CONFLICT"
GC_DISABLED: Final = "GC_DISABLED"


class ExpirationStatus(StrEnum):
    """The status of an expiration plan."""

    NO_CANDIDATES = "NO_CANDIDATES"
    CANDIDATES = "CANDIDATES"
    MANUAL_REVIEW_REQUIRED = "MANUAL_REVIEW_REQUIRED"
    COMMITTED = "COMMITTED"


class SnapshotState(StrEnum):
    """The decision on a snapshot."""

    RETAINED = "RETAINED"
    EXPIRATION_CANDIDATE = "EXPIRATION_CANDIDATE"
    MANUAL_REVIEW_REQUIRED = "MANUAL_REVIEW_REQUIRED"


class SnapshotDecision(ReportValue, frozen=True):
    """A snapshot and the decision on it."""

    snapshot_id: int
    timestamp_ms: int
    state: SnapshotState
    reasons: tuple[str, ...] = ()
    refs: tuple[str, ...] = ()


class ExpirationReport(ReportValue, frozen=True):
    """An expiration plan, and its commit if there was one."""

    status: ExpirationStatus
    min_snapshots_to_keep: int
    max_snapshot_age_ms: int
    """Both as applied: the request's, unless the table's own properties keep more."""
    snapshots: tuple[SnapshotDecision, ...] = ()
    candidates: tuple[int, ...] = ()
    expired_refs: tuple[str, ...] = ()
    reasons: tuple[str, ...] = ()
    expired_snapshot_ids: tuple[int, ...] = ()
    committed_metadata_at: str = ""


class ExpirationRequest(msgspec.Struct, frozen=True, kw_only=True, rename="kebab", forbid_unknown_fields=True):
    """The retention of branches without their own limits."""

    min_snapshots_to_keep: int
    max_snapshot_age_ms: int


def plan_expiration(
    table: TableMetadata, request: ExpirationRequest, now_ms: int, *, max_ref_age_ms: int | None = None
) -> ExpirationReport:
    """Which snapshots and names have expired. Raises InvalidInput for limits out of range.

    `max_ref_age_ms` applies to branches and tags without their own limit, unless the table's property is longer.
    """
    if request.min_snapshots_to_keep < 1:
        raise InvalidInput("min-snapshots-to-keep must be at least 1", argument="min-snapshots-to-keep")
    if request.max_snapshot_age_ms < 0:
        raise InvalidInput("max-snapshot-age-ms must not be negative", argument="max-snapshot-age-ms")
    limits, unreadable = retention_limits(
        table.properties,
        min_snapshots=request.min_snapshots_to_keep,
        max_age_ms=request.max_snapshot_age_ms,
        max_ref_age_ms=max_ref_age_ms,
    )
    refs = _refs(table)
    conflicts = {
        TABLE_RETENTION_PROPERTY_CONFLICT: bool(unreadable),
        SNAPSHOT_REF_RETENTION_CONFLICT: any(
            not ref.is_branch and (ref.min_snapshots is not None or ref.max_age_ms is not None) for ref in refs
        ),
        GC_DISABLED: not is_gc_enabled(table.properties),
    }
    reasons = tuple(reason for reason, holds in conflicts.items() if holds)
    if reasons:
        status, review = ExpirationStatus.MANUAL_REVIEW_REQUIRED, SnapshotState.MANUAL_REVIEW_REQUIRED
        return _report(table, limits, status, lambda _: (review, reasons), reasons=reasons)
    snapshots = [
        ExpirySnapshot(one.snapshot_id, one.parent_snapshot_id, one.timestamp_ms) for one in table.snapshots.values()
    ]
    expiry = expire_snapshots(snapshots, refs, limits, now_ms)

    def decide(snapshot: Snapshot) -> tuple[SnapshotState, tuple[str, ...]]:
        retained_by = expiry.retained.get(snapshot.snapshot_id)
        if retained_by is None:
            return SnapshotState.EXPIRATION_CANDIDATE, (SNAPSHOT_AGE_EXPIRED,)
        return SnapshotState.RETAINED, retained_by

    return _report(
        table,
        limits,
        ExpirationStatus.CANDIDATES if expiry.snapshots or expiry.refs else ExpirationStatus.NO_CANDIDATES,
        decide,
        candidates=expiry.snapshots,
        expired_refs=tuple(sorted(ref.name for ref in expiry.refs)),
    )


def expiration_updates(report: ExpirationReport) -> list[dict[str, object]]:
    """The updates of the commit. References first: removing a snapshot removes those that name it."""
    updates: list[dict[str, object]] = [
        {"action": "remove-snapshot-ref", "ref-name": name} for name in report.expired_refs
    ]
    if report.candidates:
        updates.append({"action": "remove-snapshots", "snapshot-ids": list(report.candidates)})
    return updates


def _refs(table: TableMetadata) -> list[SnapshotRef]:
    """The table's branches and tags; tables older than branches have a current snapshot and no name for it."""
    refs = dict(table.refs)
    if table.current_snapshot_id is not None:
        refs.setdefault(MAIN, branch(table.current_snapshot_id))
    return [
        SnapshotRef(
            name,
            ref.type != "tag",
            ref.snapshot_id,
            ref.min_snapshots_to_keep,
            ref.max_snapshot_age_ms,
            ref.max_ref_age_ms,
        )
        for name, ref in refs.items()
    ]


def _report(
    table: TableMetadata,
    limits: RetentionLimits,
    status: ExpirationStatus,
    decide: Callable[[Snapshot], tuple[SnapshotState, tuple[str, ...]]],
    *,
    candidates: tuple[int, ...] = (),
    expired_refs: tuple[str, ...] = (),
    reasons: tuple[str, ...] = (),
) -> ExpirationReport:
    names: dict[int, list[str]] = {}
    for name, ref in sorted(table.refs.items()):
        names.setdefault(ref.snapshot_id, []).append(name)
    decided = ((snapshot, *decide(snapshot)) for snapshot in table.snapshots.values())
    return ExpirationReport(
        status=status,
        min_snapshots_to_keep=limits.min_snapshots,
        max_snapshot_age_ms=limits.max_age_ms,
        snapshots=tuple(
            SnapshotDecision(
                snapshot_id=snapshot.snapshot_id,
                timestamp_ms=snapshot.timestamp_ms,
                state=state,
                reasons=why,
                refs=tuple(names.get(snapshot.snapshot_id, ())),
            )
            for snapshot, state, why in decided
        ),
        candidates=candidates,
        expired_refs=expired_refs,
        reasons=reasons,
    )
