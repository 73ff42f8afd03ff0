"""Which snapshots of a table have expired, by the rules of the Iceberg specification. Pure.

A branch keeps its newest snapshot, as many of those before it as it is to keep at least, and those that are young
enough; a tag keeps one snapshot. Either may have its own limits, and both may have an age beyond which the name itself
is given up; main is never given up. Snapshots that no name leads to are kept while they are young.

What the request asks for holds where nothing else is said. Limits that a branch or tag carries come before it, and the
table's own properties are a floor: a request never keeps less than they say.
"""

from __future__ import annotations

from collections.abc import Iterator, Mapping
from typing import Final, NamedTuple

import msgspec

from lakebed.core.errors import InvalidInput
from lakebed.iceberg.metadata.references import MAIN, SnapshotReference, branch
from lakebed.iceberg.metadata.snapshots import Snapshot
from lakebed.iceberg.metadata.table import TableMetadata

from .model import ExpirationReport, ExpirationStatus, SnapshotReport, SnapshotState
from .planner import GC_ENABLED

__all__ = ["ExpirationRequest", "expiration_updates", "plan_expiration"]

MIN_SNAPSHOTS: Final = "history.expire.min-snapshots-to-keep"
MAX_SNAPSHOT_AGE: Final = "history.expire.max-snapshot-age-ms"
MAX_REF_AGE: Final = "history.expire.max-ref-age-ms"

CURRENT_SNAPSHOT: Final = "CURRENT_SNAPSHOT"
MIN_SNAPSHOTS_TO_KEEP: Final = "MIN_SNAPSHOTS_TO_KEEP"
PROTECTED_SNAPSHOT_REF: Final = "PROTECTED_SNAPSHOT_REF"
SNAPSHOT_AGE_WITHIN_RETENTION: Final = "SNAPSHOT_AGE_WITHIN_RETENTION"
SNAPSHOT_AGE_EXPIRED: Final = "SNAPSHOT_AGE_EXPIRED"
SNAPSHOT_REF_RETENTION_CONFLICT: Final = "SNAPSHOT_REF_RETENTION_CONFLICT"
TABLE_RETENTION_PROPERTY_CONFLICT: Final = "TABLE_RETENTION_PROPERTY_CONFLICT"
GC_DISABLED: Final = "GC_DISABLED"


class ExpirationRequest(msgspec.Struct, frozen=True, kw_only=True, rename="kebab", forbid_unknown_fields=True):
    """What is to be kept of a branch that says nothing itself."""

    min_snapshots_to_keep: int
    max_snapshot_age_ms: int


class _Limits(NamedTuple):
    min_snapshots: int
    max_age_ms: int
    max_ref_age_ms: int | None


def plan_expiration(
    table: TableMetadata, request: ExpirationRequest, now_ms: int, *, max_ref_age_ms: int | None = None
) -> ExpirationReport:
    """Which snapshots and names have expired. Raises InvalidInput for a request that means nothing.

    `max_ref_age_ms` is for branches and tags that say nothing themselves, unless the table's own limit is longer.
    """
    if request.min_snapshots_to_keep < 1:
        raise InvalidInput("min-snapshots-to-keep must be at least 1", argument="min-snapshots-to-keep")
    if request.max_snapshot_age_ms < 0:
        raise InvalidInput("max-snapshot-age-ms must not be negative", argument="max-snapshot-age-ms")
    limits, reasons = _limits(table, request, max_ref_age_ms)
    refs = _references(table)
    reasons += [
        SNAPSHOT_REF_RETENTION_CONFLICT
        for reference in refs.values()
        if reference.type == "tag"
        and (reference.min_snapshots_to_keep is not None or reference.max_snapshot_age_ms is not None)
    ]
    if table.properties.get(GC_ENABLED, "true").strip().lower() == "false":
        reasons.append(GC_DISABLED)
    if reasons:
        return _reviewed(table, limits, tuple(dict.fromkeys(reasons)))
    kept_refs = {
        name: reference
        for name, reference in refs.items()
        if name == MAIN or not _is_old(table.snapshots[reference.snapshot_id], reference, limits, now_ms)
    }
    why = _retained(table, kept_refs, limits, now_ms)
    return _report(table, limits, why, sorted(refs.keys() - kept_refs.keys()))


def expiration_updates(report: ExpirationReport) -> list[dict[str, object]]:
    """The updates of a commit that carries the plan out. Names go first: a snapshot takes those that name it along."""
    updates: list[dict[str, object]] = [
        {"action": "remove-snapshot-ref", "ref-name": name} for name in report.expired_refs
    ]
    if report.candidates:
        updates.append({"action": "remove-snapshots", "snapshot-ids": list(report.candidates)})
    return updates


def _limits(table: TableMetadata, request: ExpirationRequest, max_ref_age_ms: int | None) -> tuple[_Limits, list[str]]:
    numbers: dict[str, int | None] = {}
    conflicts: list[str] = []
    for name in (MIN_SNAPSHOTS, MAX_SNAPSHOT_AGE, MAX_REF_AGE):
        text = table.properties.get(name)
        numbers[name] = _whole(text)
        if text is not None and numbers[name] is None:
            # What the table wants to keep cannot be told.
            conflicts.append(TABLE_RETENTION_PROPERTY_CONFLICT)
    return (
        _Limits(
            max(request.min_snapshots_to_keep, numbers[MIN_SNAPSHOTS] or 0),
            max(request.max_snapshot_age_ms, numbers[MAX_SNAPSHOT_AGE] or 0),
            max((age for age in (numbers[MAX_REF_AGE], max_ref_age_ms) if age is not None), default=None),
        ),
        conflicts,
    )


def _references(table: TableMetadata) -> Mapping[str, SnapshotReference]:
    """The table's names; tables that are older than branches have a current snapshot and no name for it."""
    if table.current_snapshot_id is not None and MAIN not in table.refs:
        return {**table.refs, MAIN: branch(table.current_snapshot_id)}
    return table.refs


def _is_old(snapshot: Snapshot, reference: SnapshotReference, limits: _Limits, now_ms: int) -> bool:
    limit = reference.max_ref_age_ms if reference.max_ref_age_ms is not None else limits.max_ref_age_ms
    return limit is not None and now_ms - snapshot.timestamp_ms > limit


def _retained(
    table: TableMetadata, refs: Mapping[str, SnapshotReference], limits: _Limits, now_ms: int
) -> dict[int, list[str]]:
    """The snapshots that stay, and why."""
    why: dict[int, list[str]] = {}
    led_to: set[int] = set()
    for reference in refs.values():
        is_current = reference.snapshot_id == table.current_snapshot_id
        _add(why, reference.snapshot_id, CURRENT_SNAPSHOT if is_current else PROTECTED_SNAPSHOT_REF)
        if reference.type == "tag":
            led_to.add(reference.snapshot_id)
            continue
        least = reference.min_snapshots_to_keep or limits.min_snapshots
        age_ms = reference.max_snapshot_age_ms if reference.max_snapshot_age_ms is not None else limits.max_age_ms
        keeps = True
        for index, snapshot in enumerate(_ancestors(table, reference.snapshot_id)):
            led_to.add(snapshot.snapshot_id)
            is_young = now_ms - snapshot.timestamp_ms <= age_ms
            # What lies behind the first that goes, goes too: a branch is one unbroken line.
            keeps = keeps and (index < least or is_young)
            if keeps:
                _add(
                    why,
                    snapshot.snapshot_id,
                    MIN_SNAPSHOTS_TO_KEEP if index < least else SNAPSHOT_AGE_WITHIN_RETENTION,
                )
    for snapshot_id, snapshot in table.snapshots.items():
        if snapshot_id not in led_to and now_ms - snapshot.timestamp_ms <= limits.max_age_ms:
            _add(why, snapshot_id, SNAPSHOT_AGE_WITHIN_RETENTION)
    return why


def _ancestors(table: TableMetadata, snapshot_id: int) -> Iterator[Snapshot]:
    """A snapshot and those that it was made from, as far as they are there."""
    seen: set[int] = set()
    at: int | None = snapshot_id
    while at is not None and at in table.snapshots and at not in seen:
        seen.add(at)
        yield table.snapshots[at]
        at = table.snapshots[at].parent_snapshot_id


def _report(
    table: TableMetadata, limits: _Limits, why: Mapping[int, list[str]], expired_refs: list[str]
) -> ExpirationReport:
    candidates = tuple(snapshot_id for snapshot_id in table.snapshots if snapshot_id not in why)
    return ExpirationReport(
        status=ExpirationStatus.CANDIDATES if candidates or expired_refs else ExpirationStatus.NO_CANDIDATES,
        min_snapshots_to_keep=limits.min_snapshots,
        max_snapshot_age_ms=limits.max_age_ms,
        snapshots=tuple(
            _decided(
                table,
                snapshot,
                SnapshotState.RETAINED if snapshot_id in why else SnapshotState.EXPIRATION_CANDIDATE,
                tuple(why.get(snapshot_id, (SNAPSHOT_AGE_EXPIRED,))),
            )
            for snapshot_id, snapshot in table.snapshots.items()
        ),
        candidates=candidates,
        expired_refs=tuple(expired_refs),
    )


def _reviewed(table: TableMetadata, limits: _Limits, reasons: tuple[str, ...]) -> ExpirationReport:
    return ExpirationReport(
        status=ExpirationStatus.MANUAL_REVIEW_REQUIRED,
        min_snapshots_to_keep=limits.min_snapshots,
        max_snapshot_age_ms=limits.max_age_ms,
        snapshots=tuple(
            _decided(table, snapshot, SnapshotState.MANUAL_REVIEW_REQUIRED, reasons)
            for snapshot in table.snapshots.values()
        ),
        reasons=reasons,
    )


def _decided(
    table: TableMetadata, snapshot: Snapshot, state: SnapshotState, reasons: tuple[str, ...]
) -> SnapshotReport:
    return SnapshotReport(
        snapshot_id=snapshot.snapshot_id,
        timestamp_ms=snapshot.timestamp_ms,
        state=state,
        reasons=reasons,
        refs=tuple(sorted(name for name, one in table.refs.items() if one.snapshot_id == snapshot.snapshot_id)),
    )


def _add(why: dict[int, list[str]], snapshot_id: int, reason: str) -> None:
    reasons = why.setdefault(snapshot_id, [])
    if reason not in reasons:
        reasons.append(reason)


def _whole(text: str | None) -> int | None:
    return int(text) if text is not None and text.isascii() and text.isdigit() and len(text) < 19 else None
