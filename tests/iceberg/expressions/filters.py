"""Random filters, evaluated row by row in the simplest way."""

from __future__ import annotations

import math
from collections.abc import Mapping, Sequence
from typing import Any

import pyiceberg.expressions as py
from hypothesis import strategies as st

from tests.iceberg.expressions.columns import BY_NAME, COLUMNS, ColumnSample, Value

RandomFilter = tuple[Any, ...]
"""`("eq", column, value)`, `("in", column, [values])`, `("and", filter, filter)`, `("not", filter)` or `(True,)`."""
Row = Mapping[str, Value]

UNARY = ("is-null", "not-null", "is-nan", "not-nan")
ORDERED = ("lt", "lt-eq", "gt", "gt-eq")
NEGATED = {
    "is-null": "not-null",
    "is-nan": "not-nan",
    "lt": "gt-eq",
    "gt": "lt-eq",
    "eq": "not-eq",
    "in": "not-in",
    "starts-with": "not-starts-with",
}
NEGATED |= {negated: plain for plain, negated in NEGATED.items()}


@st.composite
def random_filters(draw: st.DrawFn, columns: Sequence[ColumnSample] = COLUMNS, depth: int = 2) -> RandomFilter:
    kind = draw(st.sampled_from(["leaf", "leaf", "and", "or", "not", "constant"] if depth else ["leaf"]))
    if kind in ("and", "or"):
        return kind, draw(random_filters(columns, depth - 1)), draw(random_filters(columns, depth - 1))
    if kind == "not":
        return kind, draw(random_filters(columns, depth - 1))
    if kind == "constant":
        return (draw(st.booleans()),)
    return draw(random_predicates(columns))


@st.composite
def random_predicates(draw: st.DrawFn, columns: Sequence[ColumnSample] = COLUMNS) -> RandomFilter:
    column = draw(st.sampled_from(columns))
    literals = column.values.filter(lambda value: not is_nan(value))
    operations = [*UNARY[:2], *ORDERED, "eq", "not-eq", "in", "not-in"]
    if column.type in ("float", "double"):
        operations += UNARY[2:]
    if column.type == "string":
        operations += ["starts-with", "not-starts-with"]
    operation = draw(st.sampled_from(operations))
    if operation in UNARY:
        return operation, column.name
    if operation in ("in", "not-in"):
        return operation, column.name, draw(st.lists(literals, max_size=3))
    return operation, column.name, draw(literals)


def rows(columns: Sequence[ColumnSample] = COLUMNS) -> st.SearchStrategy[Row]:
    return st.fixed_dictionaries(
        {column.name: column.values if column.required else st.none() | column.values for column in columns}
    )


def is_nan(value: Value) -> bool:
    return isinstance(value, float) and math.isnan(value)


def matches(drawn: RandomFilter, row: Row, *, negated: bool = False) -> bool:
    """Whether a row matches. A negation uses the opposite operations, which are false for null too."""
    operation = drawn[0]
    if isinstance(operation, bool):
        return operation != negated
    if operation == "not":
        return matches(drawn[1], row, negated=not negated)
    if operation in ("and", "or"):
        both = [matches(inner, row, negated=negated) for inner in drawn[1:]]
        return all(both) if (operation == "and") != negated else any(both)
    operation = NEGATED[operation] if negated else operation
    return passes(operation, row[drawn[1]], drawn[2] if len(drawn) > 2 else None)


def passes(operation: str, value: Value, literal: Value) -> bool:
    match operation:
        case "is-null":
            return value is None
        case "not-null":
            return value is not None
        case "is-nan":
            return is_nan(value)
        case "not-nan":
            return not is_nan(value)
        case "eq":
            return bool(value == literal)
        case "not-eq":
            return bool(value != literal)
        case "in":
            return any(value == one for one in literal)
        case "not-in":
            return all(value != one for one in literal)
        case "starts-with":
            return value is not None and value[: len(literal)] == literal
        case "not-starts-with":
            return value is None or value[: len(literal)] != literal
    if value is None:
        return False
    return bool(
        {"lt": value < literal, "lt-eq": value <= literal, "gt": value > literal, "gt-eq": value >= literal}[operation]
    )


def document(drawn: RandomFilter) -> Any:
    """The filter as clients send it."""
    operation = drawn[0]
    if isinstance(operation, bool):
        return operation
    if operation == "not":
        return {"type": "not", "child": document(drawn[1])}
    if operation in ("and", "or"):
        return {"type": operation, "left": document(drawn[1]), "right": document(drawn[2])}
    if operation in UNARY:
        return {"type": operation, "term": drawn[1]}
    write = BY_NAME[drawn[1]].json
    if operation in ("in", "not-in"):
        return {"type": operation, "term": drawn[1], "values": [_json(write(value)) for value in drawn[2]]}
    return {"type": operation, "term": drawn[1], "value": _json(write(drawn[2]))}


def _json(value: Any) -> Any:
    return "Infinity" if value == math.inf else value


PREDICATES: Mapping[str, Any] = {
    "is-null": py.IsNull,
    "not-null": py.NotNull,
    "is-nan": py.IsNaN,
    "not-nan": py.NotNaN,
    "lt": py.LessThan,
    "lt-eq": py.LessThanOrEqual,
    "gt": py.GreaterThan,
    "gt-eq": py.GreaterThanOrEqual,
    "eq": py.EqualTo,
    "not-eq": py.NotEqualTo,
    "in": py.In,
    "not-in": py.NotIn,
    "starts-with": py.StartsWith,
    "not-starts-with": py.NotStartsWith,
}


def to_pyiceberg(drawn: RandomFilter) -> py.BooleanExpression:
    operation = drawn[0]
    if isinstance(operation, bool):
        return py.AlwaysTrue() if operation else py.AlwaysFalse()
    if operation == "not":
        return py.Not(to_pyiceberg(drawn[1]))
    if operation in ("and", "or"):
        return {"and": py.And, "or": py.Or}[operation](to_pyiceberg(drawn[1]), to_pyiceberg(drawn[2]))
    predicate = PREDICATES[operation]
    if operation in UNARY:
        return predicate(drawn[1])  # type: ignore[no-any-return]
    write = BY_NAME[drawn[1]].py
    literal = [write(value) for value in drawn[2]] if operation in ("in", "not-in") else write(drawn[2])
    return predicate(drawn[1], literal)  # type: ignore[no-any-return]
