"""Tests whether a batch can contain matching rows, by the minimum and maximum of its columns.

A negative result is exact. A positive one may be wrong; the reader filters rows anyway.
"""

from __future__ import annotations

from collections.abc import Callable
from dataclasses import dataclass
from enum import IntEnum
from typing import Any, TypeAlias

__all__ = ["Bounds", "CompoundPredicate", "LeafFunction", "LeafPredicate", "Predicate", "may_match"]


class LeafFunction(IntEnum):
    """A comparison, by the protocol's number."""

    EQUAL = 0
    NOT_EQUAL = 1
    LESS_THAN = 2
    LESS_OR_EQUAL = 3
    GREATER_THAN = 4
    GREATER_OR_EQUAL = 5
    IS_NULL = 6
    IS_NOT_NULL = 7
    STARTS_WITH = 8
    CONTAINS = 9
    ENDS_WITH = 10
    IN = 11
    NOT_IN = 12


@dataclass(frozen=True, slots=True)
class LeafPredicate:
    """A column, by id, compared with values. None is a literal that is not supported here."""

    function: LeafFunction
    column_id: int
    values: tuple[Any, ...] = ()


@dataclass(frozen=True, slots=True)
class CompoundPredicate:
    """A conjunction or disjunction."""

    is_all: bool
    parts: tuple[Predicate, ...]


Predicate: TypeAlias = LeafPredicate | CompoundPredicate


@dataclass(frozen=True, slots=True)
class Bounds:
    """Bounds of a column in a batch. Without `least` its values are unknown, unless all are null."""

    rows: int
    nulls: int
    least: Any = None
    greatest: Any = None


def may_match(predicate: Predicate, bounds_of: Callable[[int], Bounds | None]) -> bool:
    """Whether a row of the batch may match. `bounds_of` returns the bounds of a column by id, or None."""
    if isinstance(predicate, CompoundPredicate):
        found = (may_match(part, bounds_of) for part in predicate.parts)
        return all(found) if predicate.is_all else any(found)
    bounds = bounds_of(predicate.column_id)
    return bounds is None or _may_hold(predicate.function, predicate.values, bounds)


def _may_hold(function: LeafFunction, values: tuple[Any, ...], bounds: Bounds) -> bool:
    if function is LeafFunction.IS_NULL:
        return bounds.nulls > 0
    if bounds.nulls == bounds.rows:
        return False
    if function is LeafFunction.IS_NOT_NULL or bounds.least is None or None in values:
        return True
    least, greatest = bounds.least, bounds.greatest
    match function:
        case LeafFunction.IN:
            return any(least <= value <= greatest for value in values)
        case LeafFunction.NOT_IN:
            return not any(least == value == greatest for value in values)
        case LeafFunction.CONTAINS | LeafFunction.ENDS_WITH:
            return True
    if not values:
        return True
    value = values[0]
    match function:
        case LeafFunction.EQUAL:
            return bool(least <= value <= greatest)
        case LeafFunction.NOT_EQUAL:
            return not least == value == greatest
        case LeafFunction.LESS_THAN:
            return bool(least < value)
        case LeafFunction.LESS_OR_EQUAL:
            return bool(least <= value)
        case LeafFunction.GREATER_THAN:
            return bool(greatest > value)
        case LeafFunction.GREATER_OR_EQUAL:
            return bool(greatest >= value)
        case _:
            # The smallest text with a prefix is the prefix itself.
            return bool(greatest >= value and (least <= value or least.startswith(value)))
