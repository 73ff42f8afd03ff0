"""Prunes manifests by the partition field summaries of the manifest list."""

from __future__ import annotations

from typing import Final

from lakebed.iceberg.manifests import FieldSummary, ManifestFile

from ..values import FLOATING
from .bound import BoundExpression, BoundPredicate, evaluate
from .partitions import BoundSpec
from .ranges import decode_range
from .unbound import PredicateOperation

__all__ = ["may_match_manifest"]

_HOLD_FOR_NULL: Final = frozenset(
    {
        PredicateOperation.NOT_EQ,
        PredicateOperation.NOT_IN,
        PredicateOperation.NOT_STARTS_WITH,
        PredicateOperation.NOT_NAN,
    }
)


def may_match_manifest(partition_filter: BoundExpression, layout: BoundSpec, manifest: ManifestFile) -> bool:
    """Whether a partition of the manifest may match a partition filter, the inclusive projection of a row filter.

    Manifests without summaries, or with summaries that do not match their spec, are never pruned.
    """
    summaries = manifest.partitions
    if summaries is None or len(summaries) != len(layout.fields):
        return evaluate(partition_filter, lambda _: True)
    return evaluate(
        partition_filter, lambda predicate: _may_hold(predicate, summaries[layout.positions[predicate.term.id]])
    )


def _may_hold(predicate: BoundPredicate, summary: FieldSummary) -> bool:
    operation, kind = predicate.operation, predicate.term.kind
    if operation is PredicateOperation.IS_NULL:
        return summary.contains_null
    if kind is None:
        return True
    is_floating = kind.name in FLOATING
    # Bounds are missing only if every value is null or NaN.
    no_values = summary.lower_bound is None
    if operation is PredicateOperation.IS_NAN:
        return summary.contains_nan is not False
    if operation is PredicateOperation.NOT_NULL:
        return not no_values or (is_floating and summary.contains_nan is not False)
    if operation is PredicateOperation.NOT_NAN:
        return not no_values or summary.contains_null
    if operation in _HOLD_FOR_NULL and (summary.contains_null or (is_floating and summary.contains_nan is not False)):
        return True
    if no_values:
        return operation in _HOLD_FOR_NULL
    return decode_range(kind, summary.lower_bound, summary.upper_bound).may_hold(predicate)
