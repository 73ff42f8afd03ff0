"""Row filters that are understood: claims about typed values, joined by "all" and "any".

There is no negation here: it was pushed into the claims when the filter was bound. A planner that knows for each claim
whether it may hold therefore knows it for the whole filter.
"""

from __future__ import annotations

from bisect import bisect_left
from collections.abc import Callable, Iterable, Iterator
from dataclasses import dataclass
from typing import Any, TypeAlias

from lakebed.tables.metadata.transforms import Transform
from lakebed.tables.metadata.types import Primitive

from .expressions import FALSE, TRUE, Constant, Operation
from .values import Value, is_nan

__all__ = [
    "AllOf",
    "AnyOf",
    "Claim",
    "Filter",
    "Term",
    "all_of",
    "any_of",
    "claims",
    "equal_to_any",
    "evaluate",
    "holds",
    "rewrite",
]


@dataclass(frozen=True, slots=True)
class Term:
    """What a claim looks at: a column, a transform of one, or a partition field."""

    id: int
    name: str
    kind: Primitive | None
    """The type of the values that are compared; None for a nested column, which can only be tested for null."""
    nullable: bool
    transform: Transform | None = None
    source: Primitive | None = None
    """The type of the column's own values, if they are transformed."""


@dataclass(frozen=True, slots=True)
class Claim:
    """A claim about one value. Unary operations have no literals, sets two or more in order, the others one."""

    operation: Operation
    term: Term
    literals: tuple[Value, ...] = ()

    @property
    def literal(self) -> Value:
        """The one of an operation that has one."""
        return self.literals[0]


@dataclass(frozen=True, slots=True)
class AllOf:
    """A conjunction of two or more."""

    operands: tuple[Filter, ...]


@dataclass(frozen=True, slots=True)
class AnyOf:
    """A disjunction of two or more."""

    operands: tuple[Filter, ...]


Filter: TypeAlias = Constant | AllOf | AnyOf | Claim


def all_of(operands: Iterable[Filter]) -> Filter:
    """The conjunction in its simplest form."""
    kept: list[Filter] = []
    for operand in operands:
        if isinstance(operand, Constant):
            if not operand.value:
                return FALSE
        elif isinstance(operand, AllOf):
            kept += operand.operands
        else:
            kept.append(operand)
    if len(kept) < 2:
        return kept[0] if kept else TRUE
    return AllOf(tuple(kept))


def any_of(operands: Iterable[Filter]) -> Filter:
    """The disjunction in its simplest form."""
    kept: list[Filter] = []
    for operand in operands:
        if isinstance(operand, Constant):
            if operand.value:
                return TRUE
        elif isinstance(operand, AnyOf):
            kept += operand.operands
        else:
            kept.append(operand)
    if len(kept) < 2:
        return kept[0] if kept else FALSE
    return AnyOf(tuple(kept))


def equal_to_any(term: Term, values: Iterable[Value], *, wanted: bool = True) -> Filter:
    """That a value is one of these; or that it is none of them, if that is not wanted."""
    literals = _in_order(set(values))
    if not literals:
        return FALSE if wanted else TRUE
    if len(literals) == 1:
        return Claim(Operation.EQ if wanted else Operation.NOT_EQ, term, literals)
    return Claim(Operation.IN if wanted else Operation.NOT_IN, term, literals)


def claims(condition: Filter) -> Iterator[Claim]:
    """All that the condition is made of."""
    if isinstance(condition, Claim):
        yield condition
    elif isinstance(condition, AllOf | AnyOf):
        for operand in condition.operands:
            yield from claims(operand)


def rewrite(condition: Filter, replace: Callable[[Claim], Filter]) -> Filter:
    """The same condition with each claim replaced, simplified."""
    if isinstance(condition, Claim):
        return replace(condition)
    if isinstance(condition, AllOf):
        return all_of(rewrite(operand, replace) for operand in condition.operands)
    if isinstance(condition, AnyOf):
        return any_of(rewrite(operand, replace) for operand in condition.operands)
    return condition


def evaluate(condition: Filter, claim: Callable[[Claim], bool]) -> bool:
    """Whether the condition holds, given which claims do."""
    if isinstance(condition, Claim):
        return claim(condition)
    if isinstance(condition, AllOf):
        return all(evaluate(operand, claim) for operand in condition.operands)
    if isinstance(condition, AnyOf):
        return any(evaluate(operand, claim) for operand in condition.operands)
    return condition.value


def holds(claim: Claim, value: Value | None) -> bool:
    """Whether a claim holds for a value of its term."""
    operation = claim.operation
    if operation is Operation.IS_NULL:
        return value is None
    if operation is Operation.NOT_NULL:
        return value is not None
    if operation is Operation.IS_NAN:
        return is_nan(value)
    if operation is Operation.NOT_NAN:
        return not is_nan(value)
    if operation is Operation.EQ or operation is Operation.IN:
        return value is not None and _is_among(value, claim.literals)
    if operation is Operation.NOT_EQ or operation is Operation.NOT_IN:
        return value is None or not _is_among(value, claim.literals)
    if operation is Operation.STARTS_WITH:
        return value is not None and str(value).startswith(str(claim.literal))
    if operation is Operation.NOT_STARTS_WITH:
        return value is None or not str(value).startswith(str(claim.literal))
    return value is not None and _compares(operation, value, claim.literal)


# Any, here and below: the values are all of one type, which their union does not say.
def _in_order(values: Any) -> tuple[Value, ...]:
    return tuple(sorted(values))


def _is_among(value: Any, literals: Any) -> bool:
    place = bisect_left(literals, value)
    return place < len(literals) and literals[place] == value


def _compares(operation: Operation, value: Any, literal: Any) -> bool:
    if operation is Operation.LT:
        return bool(value < literal)
    if operation is Operation.LT_EQ:
        return bool(value <= literal)
    if operation is Operation.GT:
        return bool(value > literal)
    return bool(value >= literal)
