"""A plan as its job keeps it: what was found of each file, as far as it is listed. Pure."""

from __future__ import annotations

from collections.abc import Iterable, Mapping, Sequence
from typing import TypeVar

import msgspec

from ..reachability.removal_plan import Plan
from .model import MAX_LISTED, CompactionReport, ExpirationReport, Findings, ObjectReport, ObjectState, Reason

__all__ = ["findings_of", "with_outcomes", "with_reports"]

T = TypeVar("T")


def findings_of(plan: Plan) -> Findings:
    """What a plan found."""
    lists = (plan.retained, plan.metadata, plan.objects, plan.referenced)
    return Findings(
        metadata_at=plan.metadata_at,
        retained_metadata=_first(one.location for one in plan.retained),
        metadata=(*_first(plan.retained), *_first(plan.metadata)),
        objects=_first(plan.objects),
        referenced=_first(plan.referenced),
        graph=plan.graph,
        truncated=plan.is_partial or any(len(one) > MAX_LISTED for one in lists),
        pending=plan.has_pending,
    )


def with_outcomes(findings: Findings, outcomes: Mapping[str, tuple[ObjectState, Reason]]) -> Findings:
    """The same after files were removed."""
    return msgspec.structs.replace(
        findings,
        metadata=_after(findings.metadata, outcomes),
        objects=_after(findings.objects, outcomes),
    )


def with_reports(
    findings: Findings, expiration: ExpirationReport | None, compaction: CompactionReport | None
) -> Findings:
    """The same with what else was asked for. Of snapshots no more are listed than of files."""
    if expiration is not None:
        expiration = msgspec.structs.replace(
            expiration,
            snapshots=expiration.snapshots[:MAX_LISTED],
            candidates=expiration.candidates[:MAX_LISTED],
            expired_snapshot_ids=expiration.expired_snapshot_ids[:MAX_LISTED],
        )
    return msgspec.structs.replace(findings, expiration=expiration, compaction=compaction)


def _after(
    reports: Sequence[ObjectReport], outcomes: Mapping[str, tuple[ObjectState, Reason]]
) -> tuple[ObjectReport, ...]:
    changed = []
    for report in reports:
        outcome = outcomes.get(report.location)
        if outcome is not None:
            state, reason = outcome
            report = msgspec.structs.replace(report, state=state, reasons=(*report.reasons, reason))
        changed.append(report)
    return tuple(changed)


def _first(items: Iterable[T]) -> tuple[T, ...]:
    return tuple(items)[:MAX_LISTED]
