"""Claims about columns turned into claims about partitions.

The inclusive projection holds for every partition that may have a row that passes the claim; the strict one only for
partitions all of whose rows pass. A partition field made by an order-preserving transform answers for ranges, one made
by hashing only for equality.

Time units need care before 1970: old writers rounded them towards zero, so that a partition of a negative count may be
stored one too high. Both projections allow for that.
"""

from __future__ import annotations

from collections.abc import Callable, Mapping
from typing import Final, TypeAlias

from .expressions import FALSE, TRUE, Operation
from .partitions import Layout, LayoutField
from .predicates import Claim, Filter, Term, all_of, any_of, equal_to_any, rewrite
from .transforms import TIME_UNITS, width_of
from .values import Value

__all__ = ["inclusive", "project_inclusive", "project_strict", "strict"]

_Projection: TypeAlias = Filter | None
_ABOUT_NULL: Final = frozenset({Operation.IS_NULL, Operation.NOT_NULL})
_ORDERED: Final = frozenset({Operation.LT, Operation.LT_EQ, Operation.GT, Operation.GT_EQ})
_EQUALITIES: Final[Mapping[bool, frozenset[Operation]]] = {
    True: frozenset({Operation.EQ, Operation.IN}),
    False: frozenset({Operation.NOT_EQ, Operation.NOT_IN}),
}
"""By whether equality is wanted or denied."""


def inclusive(condition: Filter, layout: Layout) -> Filter:
    """What a partition must fulfil to have rows that fulfil the condition."""
    return rewrite(condition, lambda claim: project_inclusive(claim, layout))


def strict(condition: Filter, layout: Layout) -> Filter:
    """What suffices for a partition to have only rows that fulfil the condition."""
    return rewrite(condition, lambda claim: project_strict(claim, layout))


def project_inclusive(claim: Claim, layout: Layout) -> Filter:
    """The inclusive projection of one claim: all that the fields made of its column say."""
    projections = (_project(claim, field, wide=True) for field in layout.fields)
    return all_of(TRUE if projection is None else projection for projection in projections)


def project_strict(claim: Claim, layout: Layout) -> Filter:
    """The strict projection of one claim: any field that vouches for all rows is enough."""
    projections = (_project(claim, field, wide=False) for field in layout.fields)
    return any_of(FALSE if projection is None else projection for projection in projections)


def _project(claim: Claim, field: LayoutField, *, wide: bool) -> _Projection:
    """What one field says of a claim; None if nothing."""
    function = field.function
    if function is None or field.source_id != claim.term.id:
        return None
    transformed = claim.term.transform
    if claim.operation in _ABOUT_NULL:
        # Transforms give null for null and for nothing else.
        return Claim(claim.operation, field.term)
    family = field.transform.family
    if transformed is not None:
        if transformed != field.transform:
            return None
        projected: _Projection = Claim(claim.operation, field.term, claim.literals)
    elif family == "identity":
        return Claim(claim.operation, field.term, claim.literals)
    elif family == "bucket":
        return _equality(claim, field.term, function, wanted=wide)
    elif family == "truncate" and isinstance(claim.literal, str | bytes):
        return _prefix(claim, field.term, function, width_of(field.transform), wide=wide)
    else:
        projected = _units(claim, field.term, function, wide=wide)
    if isinstance(projected, Claim) and family in TIME_UNITS and not field.is_exact:
        return _before_1970(projected, wide=wide)
    return projected


def _equality(claim: Claim, term: Term, function: Callable[[Value], Value], *, wanted: bool) -> _Projection:
    """Equal values have equal results, so results that differ are of values that do."""
    if claim.operation not in _EQUALITIES[wanted]:
        return None
    return equal_to_any(term, map(function, claim.literals), wanted=wanted)


def _units(claim: Claim, term: Term, function: Callable[[Value], Value], *, wide: bool) -> _Projection:
    """Through a transform that rounds whole numbers down: `x < v` is `x <= v - 1`."""
    operation = claim.operation
    if operation in _EQUALITIES[True] or operation in _EQUALITIES[False]:
        return _equality(claim, term, function, wanted=wide)
    value = int(claim.literal)
    below, above = operation is Operation.LT, operation is Operation.GT
    if wide:
        if below or operation is Operation.LT_EQ:
            return Claim(Operation.LT_EQ, term, (function(value - below),))
        return Claim(Operation.GT_EQ, term, (function(value + above),))
    # A unit lies wholly below a value if it ends before the value's own unit begins.
    if below or operation is Operation.LT_EQ:
        return Claim(Operation.LT, term, (function(value + (not below)),))
    return Claim(Operation.GT, term, (function(value - (not above)),))


def _prefix(claim: Claim, term: Term, function: Callable[[Value], Value], width: int, *, wide: bool) -> _Projection:
    """Through a transform that keeps the beginning of text or bytes."""
    operation = claim.operation
    if operation in (Operation.STARTS_WITH, Operation.NOT_STARTS_WITH):
        return _starts_with(claim, term, function, width, wide=wide)
    if operation in _EQUALITIES[True] or operation in _EQUALITIES[False]:
        return _equality(claim, term, function, wanted=wide)
    beginning = (function(claim.literal),)
    below = operation in (Operation.LT, Operation.LT_EQ)
    if wide:
        return Claim(Operation.LT_EQ if below else Operation.GT_EQ, term, beginning)
    return Claim(Operation.LT if below else Operation.GT, term, beginning)


def _starts_with(
    claim: Claim, term: Term, function: Callable[[Value], Value], width: int, *, wide: bool
) -> _Projection:
    wanted = claim.operation is Operation.STARTS_WITH
    prefix = str(claim.literal)
    if len(prefix) < width:
        return Claim(claim.operation, term, (prefix,))
    if len(prefix) == width or wanted == wide:
        # What is kept is exactly the prefix, or as much of it as a partition can show.
        return Claim(Operation.EQ if wanted else Operation.NOT_EQ, term, (function(prefix),))
    return None


def _before_1970(projected: Claim, *, wide: bool) -> _Projection:
    """Allow a stored count of time units to be one above the true one, if that is negative."""
    operation = projected.operation
    values = tuple(int(value) for value in projected.literals)
    if operation in _ORDERED:
        # Too high a count passes for a greater one: that matters where it would hide a lesser, or vouch for a greater.
        hides = operation in (Operation.LT, Operation.LT_EQ)
        least_affected = 1 if operation in (Operation.LT, Operation.GT_EQ) else 0
        if hides == wide and values[0] < least_affected:
            return Claim(operation, projected.term, (values[0] + 1,))
        return projected
    if operation in _EQUALITIES[wide]:
        stored = (near for value in values for near in _stored_as(value))
        return equal_to_any(projected.term, stored, wanted=wide)
    # The count itself is denied, or vouched for, by a field that stores it reliably only after 1970.
    return projected if min(values) > 0 else None


def _stored_as(count: int) -> tuple[int, ...]:
    return (count, count + 1) if count < 0 else (count,)
