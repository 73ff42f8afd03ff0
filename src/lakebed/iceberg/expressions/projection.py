"""Projects predicates on columns to predicates on partition fields.

The inclusive projection matches every partition that may have a matching row; the strict one only partitions in which
all rows match. Order-preserving transforms support ranges, hashing transforms only equality.

Time units before 1970 need care: old writers rounded towards zero, so the stored value of a negative unit may be one
too high. Both projections allow for that.
"""

from __future__ import annotations

from collections.abc import Callable, Mapping
from typing import Final, TypeAlias

from ..transform_functions import TIME_UNITS, width_of
from ..values import Value
from .bound import BoundExpression, BoundPredicate, BoundTerm, all_of, any_of, equal_to_any, rewrite
from .partitions import BoundPartitionField, BoundSpec
from .unbound import FALSE, TRUE, PredicateOperation

__all__ = ["inclusive", "project_inclusive", "project_strict", "strict"]

_Projection: TypeAlias = BoundExpression | None
_ABOUT_NULL: Final = frozenset({PredicateOperation.IS_NULL, PredicateOperation.NOT_NULL})
_ORDERED: Final = frozenset(
    {PredicateOperation.LT, PredicateOperation.LT_EQ, PredicateOperation.GT, PredicateOperation.GT_EQ}
)
_EQUALITIES: Final[Mapping[bool, frozenset[PredicateOperation]]] = {
    True: frozenset({PredicateOperation.EQ, PredicateOperation.IN}),
    False: frozenset({PredicateOperation.NOT_EQ, PredicateOperation.NOT_IN}),
}
"""By whether the operation is an equality or its negation."""


def inclusive(condition: BoundExpression, layout: BoundSpec) -> BoundExpression:
    """The condition on a partition that is necessary for matching rows."""
    return rewrite(condition, lambda predicate: project_inclusive(predicate, layout))


def strict(condition: BoundExpression, layout: BoundSpec) -> BoundExpression:
    """The condition on a partition that is sufficient for all rows to match."""
    return rewrite(condition, lambda predicate: project_strict(predicate, layout))


def project_inclusive(predicate: BoundPredicate, layout: BoundSpec) -> BoundExpression:
    """The inclusive projection of one predicate, over all partition fields of its column."""
    projections = (_project(predicate, field, wide=True) for field in layout.fields)
    return all_of(TRUE if projection is None else projection for projection in projections)


def project_strict(predicate: BoundPredicate, layout: BoundSpec) -> BoundExpression:
    """The strict projection of one predicate: one partition field is sufficient."""
    projections = (_project(predicate, field, wide=False) for field in layout.fields)
    return any_of(FALSE if projection is None else projection for projection in projections)


def _project(predicate: BoundPredicate, field: BoundPartitionField, *, wide: bool) -> _Projection:
    """The projection of a predicate on one partition field, if possible."""
    function = field.function
    if function is None or field.source_id != predicate.term.id:
        return None
    transformed = predicate.term.transform
    if predicate.operation in _ABOUT_NULL:
        # Transforms return null for null only.
        return BoundPredicate(predicate.operation, field.term)
    family = field.transform.family
    if transformed is not None:
        if transformed != field.transform:
            return None
        projected: _Projection = BoundPredicate(predicate.operation, field.term, predicate.literals)
    elif family == "identity":
        return BoundPredicate(predicate.operation, field.term, predicate.literals)
    elif family == "bucket":
        return _equality(predicate, field.term, function, wanted=wide)
    elif family == "truncate" and isinstance(predicate.literal, str | bytes):
        return _prefix(predicate, field.term, function, width_of(field.transform), wide=wide)
    else:
        projected = _units(predicate, field.term, function, wide=wide)
    if isinstance(projected, BoundPredicate) and family in TIME_UNITS and not field.is_exact:
        return _before_1970(projected, wide=wide)
    return projected


def _equality(
    predicate: BoundPredicate, term: BoundTerm, function: Callable[[Value], Value], *, wanted: bool
) -> _Projection:
    """Equal values have equal results; unequal results imply unequal values."""
    if predicate.operation not in _EQUALITIES[wanted]:
        return None
    return equal_to_any(term, map(function, predicate.literals), wanted=wanted)


def _units(
    predicate: BoundPredicate, term: BoundTerm, function: Callable[[Value], Value], *, wide: bool
) -> _Projection:
    """Through a transform that rounds whole numbers down: `x < v` is `x <= v - 1`."""
    operation = predicate.operation
    if operation in _EQUALITIES[True] or operation in _EQUALITIES[False]:
        return _equality(predicate, term, function, wanted=wide)
    value = int(predicate.literal)
    below, above = operation is PredicateOperation.LT, operation is PredicateOperation.GT
    if wide:
        if below or operation is PredicateOperation.LT_EQ:
            return BoundPredicate(PredicateOperation.LT_EQ, term, (function(value - below),))
        return BoundPredicate(PredicateOperation.GT_EQ, term, (function(value + above),))
    # All values of a unit are below a value if the unit ends before the value's own unit begins.
    if below or operation is PredicateOperation.LT_EQ:
        return BoundPredicate(PredicateOperation.LT, term, (function(value + (not below)),))
    return BoundPredicate(PredicateOperation.GT, term, (function(value - (not above)),))


def _prefix(
    predicate: BoundPredicate, term: BoundTerm, function: Callable[[Value], Value], width: int, *, wide: bool
) -> _Projection:
    """Through a transform that truncates text or bytes."""
    operation = predicate.operation
    if operation in (PredicateOperation.STARTS_WITH, PredicateOperation.NOT_STARTS_WITH):
        return _starts_with(predicate, term, function, width, wide=wide)
    if operation in _EQUALITIES[True] or operation in _EQUALITIES[False]:
        return _equality(predicate, term, function, wanted=wide)
    beginning = (function(predicate.literal),)
    below = operation in (PredicateOperation.LT, PredicateOperation.LT_EQ)
    if wide:
        return BoundPredicate(PredicateOperation.LT_EQ if below else PredicateOperation.GT_EQ, term, beginning)
    return BoundPredicate(PredicateOperation.LT if below else PredicateOperation.GT, term, beginning)


def _starts_with(
    predicate: BoundPredicate, term: BoundTerm, function: Callable[[Value], Value], width: int, *, wide: bool
) -> _Projection:
    wanted = predicate.operation is PredicateOperation.STARTS_WITH
    prefix = str(predicate.literal)
    if len(prefix) < width:
        return BoundPredicate(predicate.operation, term, (prefix,))
    if len(prefix) == width or wanted == wide:
        # The truncation keeps the whole prefix, or the part of it that fits.
        return BoundPredicate(PredicateOperation.EQ if wanted else PredicateOperation.NOT_EQ, term, (function(prefix),))
    return None


def _before_1970(projected: BoundPredicate, *, wide: bool) -> _Projection:
    """Allow stored values of negative time units to be one too high."""
    operation = projected.operation
    values = tuple(int(value) for value in projected.literals)
    if operation in _ORDERED:
        # A value that is too high matters where it would hide a lower one, or imply a higher one.
        hides = operation in (PredicateOperation.LT, PredicateOperation.LT_EQ)
        least_affected = 1 if operation in (PredicateOperation.LT, PredicateOperation.GT_EQ) else 0
        if hides == wide and values[0] < least_affected:
            return BoundPredicate(operation, projected.term, (values[0] + 1,))
        return projected
    if operation in _EQUALITIES[wide]:
        stored = (near for value in values for near in _stored_as(value))
        return equal_to_any(projected.term, stored, wanted=wide)
    # Equality is exact only for fields whose stored value is reliable.
    return projected if min(values) > 0 else None


def _stored_as(count: int) -> tuple[int, ...]:
    return (count, count + 1) if count < 0 else (count,)
