"""Whether a manifest may list files of partitions that pass a filter, by what the manifest list says of it."""

from __future__ import annotations

from typing import Final

from lakebed.tables.manifests import FieldSummary, ManifestFile

from .expressions import Operation
from .partitions import Layout
from .predicates import Claim, Filter, evaluate
from .ranges import decode_range
from .values import FLOATING

__all__ = ["may_match_manifest"]

_HOLD_FOR_NULL: Final = frozenset({Operation.NOT_EQ, Operation.NOT_IN, Operation.NOT_STARTS_WITH, Operation.NOT_NAN})


def may_match_manifest(partition_filter: Filter, layout: Layout, manifest: ManifestFile) -> bool:
    """Whether some partition in the manifest may pass a filter of partitions, the inclusive projection of one of rows.

    Manifests without summaries, or with others than their spec has fields, are never passed over.
    """
    summaries = manifest.partitions
    if summaries is None or len(summaries) != len(layout.fields):
        return evaluate(partition_filter, lambda _: True)
    return evaluate(partition_filter, lambda claim: _may_hold(claim, summaries[layout.positions[claim.term.id]]))


def _may_hold(claim: Claim, summary: FieldSummary) -> bool:
    operation, kind = claim.operation, claim.term.kind
    if operation is Operation.IS_NULL:
        return summary.contains_null
    if kind is None:
        return True
    is_floating = kind.name in FLOATING
    # No bound is written only if every value is null or NaN.
    no_values = summary.lower_bound is None
    if operation is Operation.IS_NAN:
        return summary.contains_nan is not False
    if operation is Operation.NOT_NULL:
        return not no_values or (is_floating and summary.contains_nan is not False)
    if operation is Operation.NOT_NAN:
        return not no_values or summary.contains_null
    if operation in _HOLD_FOR_NULL and (summary.contains_null or (is_floating and summary.contains_nan is not False)):
        return True
    if no_values:
        return operation in _HOLD_FOR_NULL
    return decode_range(kind, summary.lower_bound, summary.upper_bound).may_hold(claim)
