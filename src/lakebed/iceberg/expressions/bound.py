"""Bound expressions: predicates on typed values, joined by and / or.

Binding pushes negations into the predicates. So an evaluator that decides whether each predicate may match also decides
it for the whole expression.
"""

from __future__ import annotations

from bisect import bisect_left
from collections.abc import Callable, Iterable, Iterator
from dataclasses import dataclass
from typing import Any, TypeAlias

from lakebed.iceberg.transforms import Transform
from lakebed.iceberg.types import PrimitiveType

from ..values import Value, is_nan
from .unbound import FALSE, TRUE, Constant, PredicateOperation

__all__ = [
    "BoundAnd",
    "BoundExpression",
    "BoundOr",
    "BoundPredicate",
    "BoundTerm",
    "all_of",
    "any_of",
    "equal_to_any",
    "evaluate",
    "predicate_matches",
    "predicates_in",
    "rewrite",
]


@dataclass(frozen=True, slots=True)
class BoundTerm:
    """The operand of a predicate: a column, a transform of a column, or a partition field."""

    id: int
    name: str
    kind: PrimitiveType | None
    """The type of the compared values; None for a nested column, which supports null tests only."""
    nullable: bool
    transform: Transform | None = None
    source: PrimitiveType | None = None
    """The type of the untransformed column, for a transform."""


@dataclass(frozen=True, slots=True)
class BoundPredicate:
    """A predicate on one term. Unary operations have no literals, sets two or more in order, others one."""

    operation: PredicateOperation
    term: BoundTerm
    literals: tuple[Value, ...] = ()

    @property
    def literal(self) -> Value:
        """The only literal."""
        return self.literals[0]


@dataclass(frozen=True, slots=True)
class BoundAnd:
    """A conjunction of two or more."""

    operands: tuple[BoundExpression, ...]


@dataclass(frozen=True, slots=True)
class BoundOr:
    """A disjunction of two or more."""

    operands: tuple[BoundExpression, ...]


BoundExpression: TypeAlias = Constant | BoundAnd | BoundOr | BoundPredicate


def all_of(operands: Iterable[BoundExpression]) -> BoundExpression:
    """A conjunction, simplified."""
    kept: list[BoundExpression] = []
    for operand in operands:
        if isinstance(operand, Constant):
            if not operand.value:
                return FALSE
        elif isinstance(operand, BoundAnd):
            kept += operand.operands
        else:
            kept.append(operand)
    if len(kept) < 2:
        return kept[0] if kept else TRUE
    return BoundAnd(tuple(kept))


def any_of(operands: Iterable[BoundExpression]) -> BoundExpression:
    """A disjunction, simplified."""
    kept: list[BoundExpression] = []
    for operand in operands:
        if isinstance(operand, Constant):
            if operand.value:
                return TRUE
        elif isinstance(operand, BoundOr):
            kept += operand.operands
        else:
            kept.append(operand)
    if len(kept) < 2:
        return kept[0] if kept else FALSE
    return BoundOr(tuple(kept))


def equal_to_any(term: BoundTerm, values: Iterable[Value], *, wanted: bool = True) -> BoundExpression:
    """That a value is in a set, or with `wanted` false that it is not."""
    literals = _in_order(set(values))
    if not literals:
        return FALSE if wanted else TRUE
    if len(literals) == 1:
        return BoundPredicate(PredicateOperation.EQ if wanted else PredicateOperation.NOT_EQ, term, literals)
    return BoundPredicate(PredicateOperation.IN if wanted else PredicateOperation.NOT_IN, term, literals)


def predicates_in(condition: BoundExpression) -> Iterator[BoundPredicate]:
    """All predicates of a condition."""
    if isinstance(condition, BoundPredicate):
        yield condition
    elif isinstance(condition, BoundAnd | BoundOr):
        for operand in condition.operands:
            yield from predicates_in(operand)


def rewrite(condition: BoundExpression, replace: Callable[[BoundPredicate], BoundExpression]) -> BoundExpression:
    """The condition with each predicate replaced, simplified."""
    if isinstance(condition, BoundPredicate):
        return replace(condition)
    if isinstance(condition, BoundAnd):
        return all_of(rewrite(operand, replace) for operand in condition.operands)
    if isinstance(condition, BoundOr):
        return any_of(rewrite(operand, replace) for operand in condition.operands)
    return condition


def evaluate(condition: BoundExpression, predicate: Callable[[BoundPredicate], bool]) -> bool:
    """Evaluate a condition, given the result of each predicate."""
    if isinstance(condition, BoundPredicate):
        return predicate(condition)
    if isinstance(condition, BoundAnd):
        return all(evaluate(operand, predicate) for operand in condition.operands)
    if isinstance(condition, BoundOr):
        return any(evaluate(operand, predicate) for operand in condition.operands)
    return condition.value


def predicate_matches(predicate: BoundPredicate, value: Value | None) -> bool:
    """Evaluate a predicate for a value of its term."""
    operation = predicate.operation
    if operation is PredicateOperation.IS_NULL:
        return value is None
    if operation is PredicateOperation.NOT_NULL:
        return value is not None
    if operation is PredicateOperation.IS_NAN:
        return is_nan(value)
    if operation is PredicateOperation.NOT_NAN:
        return not is_nan(value)
    if operation is PredicateOperation.EQ or operation is PredicateOperation.IN:
        return value is not None and _is_among(value, predicate.literals)
    if operation is PredicateOperation.NOT_EQ or operation is PredicateOperation.NOT_IN:
        return value is None or not _is_among(value, predicate.literals)
    if operation is PredicateOperation.STARTS_WITH:
        return value is not None and str(value).startswith(str(predicate.literal))
    if operation is PredicateOperation.NOT_STARTS_WITH:
        return value is None or not str(value).startswith(str(predicate.literal))
    return value is not None and _compares(operation, value, predicate.literal)


# Any, here and below: values have one type at runtime, which a union cannot express.
def _in_order(values: Any) -> tuple[Value, ...]:
    return tuple(sorted(values))


def _is_among(value: Any, literals: Any) -> bool:
    place = bisect_left(literals, value)
    return place < len(literals) and literals[place] == value


def _compares(operation: PredicateOperation, value: Any, literal: Any) -> bool:
    if operation is PredicateOperation.LT:
        return bool(value < literal)
    if operation is PredicateOperation.LT_EQ:
        return bool(value <= literal)
    if operation is PredicateOperation.GT:
        return bool(value > literal)
    return bool(value >= literal)
