"""Binds expressions to a schema: names become fields, literals become typed values, negations are pushed down.

Binding also simplifies: a null test of a required column is constant, a set of one value becomes a comparison, and a
comparison with a number beyond a column's range becomes a null test.
"""

from __future__ import annotations

from collections.abc import Sequence
from typing import Final

from lakebed.core.errors import InvalidInput
from lakebed.iceberg.schema import NestedField, Schema
from lakebed.iceberg.transforms import VOID
from lakebed.iceberg.types import parse_primitive

from ..transform_functions import function_of, result_type
from ..values import FLOATING, Value
from .bound import BoundExpression, BoundPredicate, BoundTerm, all_of, any_of, equal_to_any
from .literals import OutOfRange, convert_literal
from .unbound import (
    FALSE,
    NEGATED,
    SETS,
    TRUE,
    And,
    ColumnReference,
    Constant,
    Expression,
    Literal,
    Not,
    Or,
    PredicateOperation,
    UnboundPredicate,
)

__all__ = ["ColumnNames", "bind"]

_GREATER: Final = frozenset({PredicateOperation.GT, PredicateOperation.GT_EQ})
_DENYING: Final = frozenset(
    {
        PredicateOperation.NOT_EQ,
        PredicateOperation.NOT_IN,
        PredicateOperation.NOT_STARTS_WITH,
        PredicateOperation.NOT_NAN,
    }
)


class ColumnNames:
    """The columns of a schema by full name, case-sensitive or not."""

    def __init__(self, schema: Schema, *, case_sensitive: bool = True) -> None:
        self.schema = schema
        self._fold = str if case_sensitive else str.lower
        self._by_name: dict[str, list[NestedField]] = {}
        for column in schema.columns.values():
            self._by_name.setdefault(self._fold(column.name), []).append(column)

    def find(self, name: str) -> NestedField | None:
        """The column with a name. Raises InvalidInput if several match case-insensitively."""
        found = self._by_name.get(self._fold(name), [])
        if len(found) > 1:
            raise InvalidInput(f"ambiguous column name. columns={', '.join(one.name for one in found)}")
        return found[0] if found else None


def bind(expression: Expression, names: ColumnNames) -> BoundExpression:
    """Bind a filter to a schema. Raises InvalidInput for columns and literals that do not match it."""
    return _bind(expression, names, negated=False)


def _bind(expression: Expression, names: ColumnNames, *, negated: bool) -> BoundExpression:
    if isinstance(expression, Constant):
        return TRUE if expression.value != negated else FALSE
    if isinstance(expression, Not):
        return _bind(expression.operand, names, negated=not negated)
    if isinstance(expression, And | Or):
        join = all_of if isinstance(expression, And) != negated else any_of
        # Bind all operands, also without effect on the result: a misspelt column is always an error.
        return join([_bind(operand, names, negated=negated) for operand in expression.operands])
    return _bind_predicate(expression, names, negated=negated)


def _bind_predicate(predicate: UnboundPredicate, names: ColumnNames, *, negated: bool) -> BoundExpression:
    operation = NEGATED[predicate.operation] if negated else predicate.operation
    term = _term(predicate.reference, names)
    if term.transform is not None and term.transform.family == VOID:
        return TRUE if operation is PredicateOperation.IS_NULL or operation in _DENYING else FALSE
    if operation in (PredicateOperation.IS_NULL, PredicateOperation.NOT_NULL):
        decided = TRUE if operation is PredicateOperation.NOT_NULL else FALSE
        return BoundPredicate(operation, term) if term.nullable else decided
    if operation in (PredicateOperation.IS_NAN, PredicateOperation.NOT_NAN):
        decided = TRUE if operation is PredicateOperation.NOT_NAN else FALSE
        return BoundPredicate(operation, term) if term.kind is not None and term.kind.name in FLOATING else decided
    if term.kind is None:
        raise InvalidInput(f"nested columns support null tests only. column={term.name}", argument="filter")
    if operation in (PredicateOperation.STARTS_WITH, PredicateOperation.NOT_STARTS_WITH) and term.kind.name != "string":
        raise InvalidInput(
            f"{operation} requires a string column. column={term.name} type={term.kind.name}", argument="filter"
        )
    if operation in SETS:
        return _bind_set(operation, term, predicate.literals)
    value = _value(predicate.literals[0], term)
    if isinstance(value, OutOfRange):
        return _decided(operation, term, value)
    return BoundPredicate(operation, term, (value,))


def _term(reference: ColumnReference, names: ColumnNames) -> BoundTerm:
    schema = names.schema
    requested = reference.column
    column = names.find(requested) if isinstance(requested, str) else schema.columns.get(requested)
    if column is None:
        raise InvalidInput(f"no such column. column={requested!s:.200}", argument="filter")
    if not schema.is_in_structs_only(column):
        raise InvalidInput(f"filters do not support fields in lists and maps. column={column.name}", argument="filter")
    nullable = not column.required or not all(outer.required for outer in schema.enclosing(column))
    kind = parse_primitive(column.type) if isinstance(column.type, str) else None
    transform = reference.transform
    if transform is None:
        return BoundTerm(column.id, column.name, kind, nullable)
    if kind is None or (transform.family != VOID and function_of(transform, kind) is None):
        raise InvalidInput(
            f"the transform does not support the column. column={column.name} transform={transform.text}",
            argument="filter",
        )
    return BoundTerm(column.id, column.name, result_type(transform, kind), nullable, transform, kind)


def _bind_set(operation: PredicateOperation, term: BoundTerm, literals: Sequence[Literal]) -> BoundExpression:
    wanted = operation is PredicateOperation.IN
    typed = (_value(literal, term) for literal in literals)
    # Values beyond the range are equal to nothing, so they are dropped from sets.
    return equal_to_any(term, [value for value in typed if not isinstance(value, OutOfRange)], wanted=wanted)


def _value(literal: Literal, term: BoundTerm) -> Value | OutOfRange:
    assert term.kind is not None  # noqa: S101  # nested columns were refused before
    try:
        return convert_literal(literal, term.kind)
    except InvalidInput as error:
        raise InvalidInput(f"column {term.name}: {error}", argument="filter") from error


def _decided(operation: PredicateOperation, term: BoundTerm, beyond: OutOfRange) -> BoundExpression:
    """A comparison with a number above, or below, the range of the column."""
    if operation is PredicateOperation.NOT_EQ:
        return TRUE
    if operation is PredicateOperation.EQ or (operation in _GREATER) == (beyond is OutOfRange.ABOVE):
        return FALSE
    return BoundPredicate(PredicateOperation.NOT_NULL, term) if term.nullable else TRUE
