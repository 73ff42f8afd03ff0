"""Row filters: Iceberg expressions over column names, parsed from JSON. Pure.

A row is visible if the filter is true. As in SQL, and unlike in scan planning, a comparison with null is neither true
nor false, and neither is its negation: rows with null are hidden unless `is-null` admits them. Transforms are not
supported, because a security rule must mean the same in every engine.
"""

from __future__ import annotations

import math
from collections.abc import Iterable
from typing import Final, TypeAlias

from lakebed.iceberg.expressions.unbound import (
    FALSE,
    SETS,
    TRUE,
    UNARY,
    And,
    ColumnReference,
    Expression,
    Literal,
    Not,
    Or,
    PredicateOperation,
    UnboundPredicate,
)

from .json_documents import Json, JsonPath, policy_fault

MAX_PARTS: Final = 2000
"""Maximum conditions and values of a filter."""

Value: TypeAlias = bool | int | float | str
"""A value in JSON. The column determines its type."""


_OPERATIONS: Final = {operation.value: operation for operation in PredicateOperation}
_WORDS: Final = ("and", "or", "not", *_OPERATIONS)


RowFilter: TypeAlias = Expression
"""An expression without transforms and column ids."""


def column_predicate(operation: PredicateOperation, column: str, values: Iterable[Value] = ()) -> UnboundPredicate:
    """A predicate on a column by its full name: `address.street`."""
    return UnboundPredicate(operation, ColumnReference(column), tuple(map(Literal, values)))


def read_filter(document: Json, at: JsonPath) -> RowFilter:
    """Parse a filter. Raises InvalidPolicy with the JSON path of the error."""
    reader = _Reader()
    found = reader.read(document, at)
    if reader.parts > MAX_PARTS:
        raise policy_fault(at, f"has at most {MAX_PARTS} conditions and values", reader.parts)
    return found


class _Reader:
    def __init__(self) -> None:
        self.parts = 0

    def read(self, document: Json, at: JsonPath) -> RowFilter:
        self.parts += 1
        if isinstance(document, bool):
            return TRUE if document else FALSE
        if not isinstance(document, dict):
            raise policy_fault(at, "must be an expression: an object with a type, or true or false", document)
        kind = document.get("type")
        if kind in ("and", "or"):
            _only(document, at, "left", "right")
            sides = tuple(self.read(document.get(side), (*at, side)) for side in ("left", "right"))
            return And(sides) if kind == "and" else Or(sides)
        if kind == "not":
            _only(document, at, "child")
            return Not(self.read(document.get("child"), (*at, "child")))
        operation = _OPERATIONS.get(kind) if isinstance(kind, str) else None
        if operation is None:
            raise policy_fault((*at, "type"), f"must be one of {', '.join(_WORDS)}", kind)
        return self._condition(operation, document, at)

    def _condition(self, operation: PredicateOperation, document: dict[str, Json], at: JsonPath) -> UnboundPredicate:
        term = document.get("term")
        if not isinstance(term, str) or not term:
            raise policy_fault((*at, "term"), "must be the name of a column", term)
        if operation in UNARY:
            _only(document, at, "term")
            return column_predicate(operation, term)
        if operation in SETS:
            _only(document, at, "term", "values")
            values = document.get("values")
            if not isinstance(values, list) or not values:
                raise policy_fault((*at, "values"), "must be a non-empty list of values", values)
        else:
            _only(document, at, "term", "value")
            values = [document.get("value")]
        self.parts += len(values)
        where = "values" if operation in SETS else "value"
        for value in values:
            read_value(value, (*at, where))
        if operation in (PredicateOperation.STARTS_WITH, PredicateOperation.NOT_STARTS_WITH) and not isinstance(
            values[0], str
        ):
            raise policy_fault((*at, "value"), "must be a string", values[0])
        return column_predicate(operation, term, values)


def read_value(value: Json, at: JsonPath) -> Value:
    """Validate a single value. Raises InvalidPolicy with its JSON path."""
    if not isinstance(value, bool | int | float | str) or (isinstance(value, float) and not math.isfinite(value)):
        raise policy_fault(at, "must be a string, a number, or true or false", value)
    return value


def _only(document: dict[str, Json], at: JsonPath, *keys: str) -> None:
    for key in document:
        if key != "type" and key not in keys:
            raise policy_fault((*at, key), f"unknown key, expected one of type, {', '.join(keys)}")
