"""Comparisons of single columns in a statement, for pruning files."""

from __future__ import annotations

from typing import Final, NamedTuple

from sqlglot import exp

from ..errors import SelectError
from ..execution.query import row_names
from .paths import FieldName
from .statement import SelectStatement
from .syntax import chain, path_of

_FLIPPED: Final[dict[type[exp.Expression], tuple[str, str]]] = {
    exp.EQ: ("=", "="),
    exp.GT: (">", "<"),
    exp.GTE: (">=", "<="),
    exp.LT: ("<", ">"),
    exp.LTE: ("<=", ">="),
}


class ColumnComparison(NamedTuple):
    """A comparison of a column with a constant that every selected record satisfies."""

    column: FieldName
    operator: str
    constant: int | str


def comparisons(statement: SelectStatement) -> list[ColumnComparison]:
    """The comparisons that must all hold. The condition may contain further terms."""
    if statement.where is None:
        return []
    parts = chain(statement.where) if isinstance(statement.where, exp.And) else [statement.where]
    return [found for part in parts if (found := _comparison(part, row_names(statement))) is not None]


def _comparison(node: exp.Expression, row: tuple[FieldName, ...]) -> ColumnComparison | None:
    while isinstance(node, exp.Paren):
        node = node.this
    operators = _FLIPPED.get(type(node))
    if operators is None or node.args.get("negate"):
        return None
    for column, constant, operator in (
        (node.this, node.expression, operators[0]),
        (node.expression, node.this, operators[1]),
    ):
        name, value = _column(column, row), _constant(constant)
        if name is not None and value is not None:
            return ColumnComparison(name, operator, value)
    return None


def _column(node: exp.Expression, row: tuple[FieldName, ...]) -> FieldName | None:
    if not isinstance(node, exp.Column):
        return None
    try:
        path = path_of(node)
    except SelectError:
        return None
    if len(path) == 2 and isinstance(path[0], FieldName) and any(path[0].matches(each.text) for each in row):
        path = path[1:]
    return path[0] if len(path) == 1 and isinstance(path[0], FieldName) else None


def _constant(node: exp.Expression) -> int | str | None:
    sign = -1 if isinstance(node, exp.Neg) else 1
    literal = node.this if isinstance(node, exp.Neg) else node
    if not isinstance(literal, exp.Literal):
        return None
    if literal.is_string:
        return str(literal.this) if sign == 1 else None
    return sign * int(str(literal.this)) if str(literal.this).isdigit() else None
