"""Decides whether a predicate may match a value between two bounds.

Bounds are those of all values except null and NaN. Bounds of text and bytes may be truncated: the lower one downwards,
the upper one upwards. A missing bound is None and excludes nothing.

Writers disagree on the order of uuids: by bytes, or by two signed halves. Bounds of uuids exclude a value only if they
do in both orders.
"""

from __future__ import annotations

from bisect import bisect_left
from typing import Any, NamedTuple

from lakebed.iceberg.types import PrimitiveType

from ..transform_functions import function_of, preserves_order
from ..values import Value, decode_bound, is_nan
from .bound import BoundPredicate
from .unbound import PredicateOperation

__all__ = ["ValueRange", "decode_range", "may_overlap", "transformed_range"]


class ValueRange(NamedTuple):
    """The lower and upper bound of a column; None where unknown."""

    kind: PrimitiveType
    lower: Value | None
    upper: Value | None

    def may_hold(self, predicate: BoundPredicate) -> bool:
        """Whether a value in the range may match the predicate; not for null and NaN tests."""
        operation, lower, upper = predicate.operation, self.lower, self.upper
        if operation is PredicateOperation.EQ or operation is PredicateOperation.IN:
            return self._includes_any(predicate.literals)
        if operation is PredicateOperation.LT:
            return lower is None or self._may_be_less(lower, predicate.literal)
        if operation is PredicateOperation.LT_EQ:
            return lower is None or self._may_be_at_most(lower, predicate.literal)
        if operation is PredicateOperation.GT:
            return upper is None or self._may_be_less(predicate.literal, upper)
        if operation is PredicateOperation.GT_EQ:
            return upper is None or self._may_be_at_most(predicate.literal, upper)
        if operation is PredicateOperation.STARTS_WITH:
            prefix = str(predicate.literal)
            return (lower is None or str(lower)[: len(prefix)] <= prefix) and (
                upper is None or str(upper)[: len(prefix)] >= prefix
            )
        if operation is PredicateOperation.NOT_STARTS_WITH:
            # All texts between two texts with a common prefix have that prefix.
            prefix = str(predicate.literal)
            return not (str(lower or "").startswith(prefix) and str(upper or "").startswith(prefix))
        return True

    # Any, here and below: values have one type at runtime, which a union cannot express.
    def _includes_any(self, values: Any) -> bool:
        if self.kind.name != "uuid":
            # The literals are in order: the smallest one not below the range decides.
            place = 0 if self.lower is None else bisect_left(values, self.lower)
            values = values[place : place + 1]
        return any(
            (self.lower is None or self._may_be_at_most(self.lower, value))
            and (self.upper is None or self._may_be_at_most(value, self.upper))
            for value in values
        )

    def _may_be_less(self, one: Any, other: Any) -> bool:
        return bool(one < other) or (self.kind.name == "uuid" and _by_halves(one) < _by_halves(other))

    def _may_be_at_most(self, one: Any, other: Any) -> bool:
        return bool(one <= other) or (self.kind.name == "uuid" and _by_halves(one) <= _by_halves(other))


def decode_range(kind: PrimitiveType, lower: bytes | None, upper: bytes | None) -> ValueRange:
    """The range of stored bounds. Invalid bytes and NaN count as unknown."""
    return ValueRange(kind, _bound(kind, lower), _bound(kind, upper))


def transformed_range(range_: ValueRange, predicate: BoundPredicate) -> ValueRange | None:
    """The range of transformed values; None if unusable."""
    transform, kind = predicate.term.transform, predicate.term.kind
    if transform is None or kind is None:
        return range_
    function = function_of(transform, range_.kind)
    if function is None or not preserves_order(transform):
        return None
    lower = None if range_.lower is None else function(range_.lower)
    upper = None if range_.upper is None else function(range_.upper)
    return ValueRange(kind, lower, upper)


def may_overlap(one: ValueRange, other: ValueRange) -> bool:
    """Whether two ranges may overlap."""
    first: tuple[Any, Any] = (one.lower, other.upper)
    second: tuple[Any, Any] = (other.lower, one.upper)
    return all(lower is None or upper is None or one._may_be_at_most(lower, upper) for lower, upper in (first, second))


def _bound(kind: PrimitiveType, data: bytes | None) -> Value | None:
    if data is None:
        return None
    try:
        value = decode_bound(kind, data)
    except ValueError:
        return None
    return None if is_nan(value) else value


def _by_halves(uuid: bytes) -> tuple[int, int]:
    return int.from_bytes(uuid[:8], signed=True), int.from_bytes(uuid[8:], signed=True)
