"""Unbound expressions: predicates on named columns, with untyped literals."""

from __future__ import annotations

from collections.abc import Mapping
from dataclasses import dataclass
from enum import StrEnum
from typing import Final, TypeAlias

from lakebed.iceberg.transforms import Transform
from lakebed.iceberg.types import PrimitiveType

__all__ = [
    "COMPARISONS",
    "FALSE",
    "NEGATED",
    "SETS",
    "TRUE",
    "UNARY",
    "And",
    "ColumnReference",
    "Constant",
    "Expression",
    "Literal",
    "Not",
    "Or",
    "PredicateOperation",
    "UnboundPredicate",
]


class PredicateOperation(StrEnum):
    """The operation of a predicate, named as in JSON.

    Null only matches `is-null` and the negated operations `not-eq`, `not-in`, `not-starts-with` and `not-nan`. NaN is
    neither less than, equal to nor greater than any value.
    """

    IS_NULL = "is-null"
    NOT_NULL = "not-null"
    IS_NAN = "is-nan"
    NOT_NAN = "not-nan"
    LT = "lt"
    LT_EQ = "lt-eq"
    GT = "gt"
    GT_EQ = "gt-eq"
    EQ = "eq"
    NOT_EQ = "not-eq"
    IN = "in"
    NOT_IN = "not-in"
    STARTS_WITH = "starts-with"
    NOT_STARTS_WITH = "not-starts-with"


UNARY: Final = frozenset(
    {PredicateOperation.IS_NULL, PredicateOperation.NOT_NULL, PredicateOperation.IS_NAN, PredicateOperation.NOT_NAN}
)
SETS: Final = frozenset({PredicateOperation.IN, PredicateOperation.NOT_IN})
COMPARISONS: Final = frozenset(PredicateOperation) - UNARY - SETS

_OPPOSITES: Final = (
    (PredicateOperation.IS_NULL, PredicateOperation.NOT_NULL),
    (PredicateOperation.IS_NAN, PredicateOperation.NOT_NAN),
    (PredicateOperation.LT, PredicateOperation.GT_EQ),
    (PredicateOperation.GT, PredicateOperation.LT_EQ),
    (PredicateOperation.EQ, PredicateOperation.NOT_EQ),
    (PredicateOperation.IN, PredicateOperation.NOT_IN),
    (PredicateOperation.STARTS_WITH, PredicateOperation.NOT_STARTS_WITH),
)
NEGATED: Final[Mapping[PredicateOperation, PredicateOperation]] = {
    **dict(_OPPOSITES),
    **{negated: plain for plain, negated in _OPPOSITES},
}


@dataclass(frozen=True, slots=True)
class ColumnReference:
    """A column by name or id, with an optional transform."""

    column: str | int
    transform: Transform | None = None


@dataclass(frozen=True, slots=True)
class Literal:
    """A JSON value, with its type if the expression has one."""

    value: bool | int | float | str
    kind: PrimitiveType | None = None


@dataclass(frozen=True, slots=True)
class UnboundPredicate:
    """A predicate on one column. Unary operations have no literals, sets any number, others one."""

    operation: PredicateOperation
    reference: ColumnReference
    literals: tuple[Literal, ...] = ()


@dataclass(frozen=True, slots=True)
class Constant:
    """True or false for every row."""

    value: bool


TRUE: Final = Constant(True)
FALSE: Final = Constant(False)


@dataclass(frozen=True, slots=True)
class And:
    """True if all operands are true."""

    operands: tuple[Expression, ...]


@dataclass(frozen=True, slots=True)
class Or:
    """True if an operand is true."""

    operands: tuple[Expression, ...]


@dataclass(frozen=True, slots=True)
class Not:
    """True if the operand is false."""

    operand: Expression


Expression: TypeAlias = Constant | And | Or | Not | UnboundPredicate
