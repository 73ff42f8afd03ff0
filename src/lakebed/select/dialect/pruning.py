"""What a statement says of single columns, for who can leave out files by it."""

from __future__ import annotations

from typing import Final, NamedTuple

from sqlglot import exp

from ..errors import SelectError
from ..execution.query import names_of_the_row
from .paths import Name
from .statement import Statement
from .syntax import chain, path_of

_FLIPPED: Final[dict[type[exp.Expression], tuple[str, str]]] = {
    exp.EQ: ("=", "="),
    exp.GT: (">", "<"),
    exp.GTE: (">=", "<="),
    exp.LT: ("<", ">"),
    exp.LTE: ("<=", ">="),
}


class Comparison(NamedTuple):
    """A column compared with a constant: true of every record that the statement is about."""

    column: Name
    operator: str
    constant: int | str


def comparisons(statement: Statement) -> list[Comparison]:
    """Those that all have to hold. There may be more to the condition than that."""
    if statement.where is None:
        return []
    parts = chain(statement.where) if isinstance(statement.where, exp.And) else [statement.where]
    return [found for part in parts if (found := _comparison(part, names_of_the_row(statement))) is not None]


def _comparison(node: exp.Expression, row: tuple[Name, ...]) -> Comparison | None:
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
            return Comparison(name, operator, value)
    return None


def _column(node: exp.Expression, row: tuple[Name, ...]) -> Name | None:
    if not isinstance(node, exp.Column):
        return None
    try:
        path = path_of(node)
    except SelectError:
        return None
    if len(path) == 2 and isinstance(path[0], Name) and any(path[0].matches(each.text) for each in row):
        path = path[1:]
    return path[0] if len(path) == 1 and isinstance(path[0], Name) else None


def _constant(node: exp.Expression) -> int | str | None:
    sign = -1 if isinstance(node, exp.Neg) else 1
    literal = node.this if isinstance(node, exp.Neg) else node
    if not isinstance(literal, exp.Literal):
        return None
    if literal.is_string:
        return str(literal.this) if sign == 1 else None
    return sign * int(str(literal.this)) if str(literal.this).isdigit() else None
