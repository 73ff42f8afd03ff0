"""Prunes data files by the counts and bounds of their columns."""

from __future__ import annotations

from collections.abc import Mapping
from typing import Final

from lakebed.iceberg.manifests import DataFile

from ..values import FLOATING
from .bound import BoundExpression, BoundPredicate, evaluate
from .ranges import ValueRange, decode_range, transformed_range
from .unbound import PredicateOperation

__all__ = ["may_match_file"]

_DENYING: Final = frozenset({PredicateOperation.NOT_EQ, PredicateOperation.NOT_IN, PredicateOperation.NOT_NAN})
"""Operations that match null and all but a few values: bounds never exclude them."""


def may_match_file(condition: BoundExpression, file: DataFile) -> bool:
    """Whether a row of the file may match. Missing statistics exclude nothing."""
    if file.record_count == 0:
        return False
    if file.record_count < 0:  # imported by writers without counting: no statistics are usable
        return evaluate(condition, lambda _: True)
    return evaluate(condition, lambda predicate: _may_hold(predicate, file))


def _may_hold(predicate: BoundPredicate, file: DataFile) -> bool:
    operation, column = predicate.operation, predicate.term.id
    nulls = (file.null_value_counts or {}).get(column)
    if operation is PredicateOperation.IS_NULL:
        return nulls != 0
    if operation is PredicateOperation.IS_NAN:
        return (file.nan_value_counts or {}).get(column) != 0 and not _all_are(file.null_value_counts, file, column)
    if operation is PredicateOperation.NOT_NAN:
        return not _all_are(file.nan_value_counts, file, column)
    if operation in _DENYING:
        return True
    if operation is PredicateOperation.NOT_STARTS_WITH and nulls != 0:
        return True
    if _all_are(file.null_value_counts, file, column):
        return False
    if operation is PredicateOperation.NOT_NULL:
        return True
    is_floating = predicate.term.kind is not None and predicate.term.kind.name in FLOATING
    if is_floating and _all_are(file.nan_value_counts, file, column):
        return False
    bounds = _bounds(predicate, file)
    return bounds is None or bounds.may_hold(predicate)


def _bounds(predicate: BoundPredicate, file: DataFile) -> ValueRange | None:
    """The bounds of a predicate's column after the predicate's transform; None if unusable."""
    source = predicate.term.source or predicate.term.kind
    if source is None:
        return None
    column = predicate.term.id
    bounds = decode_range(source, (file.lower_bounds or {}).get(column), (file.upper_bounds or {}).get(column))
    return transformed_range(bounds, predicate)


def _all_are(counts: Mapping[int, int] | None, file: DataFile, column: int) -> bool:
    """Whether this count equals the number of values of the column."""
    values = (file.value_counts or {}).get(column)
    return values is not None and (counts or {}).get(column) == values
