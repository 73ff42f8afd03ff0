"""Parses S3 Select statements: projections, source, filter, grouping, order and limit."""

from __future__ import annotations

from dataclasses import dataclass
from functools import lru_cache
from typing import Final

from sqlglot import exp

from ..errors import SelectCode, failure
from .functions import AGGREGATES
from .parser import parse
from .paths import FieldName, Path

_CACHED_STATEMENTS: Final = 32
_MAX_CACHED_CHARACTERS: Final = 1024
"""Longest expression that is cached: parsed, it takes some hundred times the memory."""
_UNSUPPORTED: Final = {
    "offset": "OFFSET",
    "with": "WITH",
    "with_": "WITH",
    "into": "INTO",
    "qualify": "QUALIFY",
    "windows": "WINDOW",
    "sample": "TABLESAMPLE",
    "cluster": "CLUSTER BY",
    "distribute": "DISTRIBUTE BY",
    "sort": "SORT BY",
    "locks": "FOR UPDATE",
    "laterals": "LATERAL",
    "pivots": "PIVOT",
    "connect": "CONNECT BY",
    "match": "MATCH_RECOGNIZE",
    "kind": "SELECT AS",
    "prewhere": "PREWHERE",
}
"""Clauses that sqlglot parses and S3 Select does not have."""


@dataclass(frozen=True, slots=True)
class Projection:
    """An expression in the select list, with its alias."""

    node: exp.Expression
    alias: str | None = None


@dataclass(frozen=True, slots=True)
class Ordering:
    """An ORDER BY term."""

    node: exp.Expression
    descending: bool = False
    nulls_first: bool | None = None


@dataclass(frozen=True, slots=True)
class SelectStatement:
    """A parsed and validated statement."""

    projections: tuple[Projection, ...]
    """Empty for `*`."""
    source: Path = ()
    alias: FieldName | None = None
    where: exp.Expression | None = None
    group: tuple[exp.Expression, ...] = ()
    having: exp.Expression | None = None
    order: tuple[Ordering, ...] = ()
    limit: int | None = None
    distinct: bool = False

    @property
    def aggregates(self) -> bool:
        """Whether it aggregates records, so that their order does not matter."""
        return bool(self.group) or any(is_aggregate(projection.node) for projection in self.projections)


def is_aggregate(node: exp.Expression) -> bool:
    """Whether the expression contains an aggregate function."""
    return any(
        str(call.this).upper() in AGGREGATES and not isinstance(call.parent, exp.Window)
        for call in node.find_all(exp.Anonymous)
    )


def read_statement(expression: str, table: tuple[str, ...] = ()) -> SelectStatement:
    """Parse a statement. Raises SelectError with its S3 code.

    With `table`, the source may have that name too. Statements are cached and shared: they must not be modified.
    """
    if len(expression) <= _MAX_CACHED_CHARACTERS:
        return _read_cached(expression, table)
    return _read(expression, table)


def _read(expression: str, table: tuple[str, ...]) -> SelectStatement:
    select, source, named = parse(expression, table)
    for name, clause in _UNSUPPORTED.items():
        if select.args.get(name):
            raise failure(SelectCode.UNSUPPORTED_SQL_STRUCTURE, f"{clause} is not supported")
    if select.args.get("joins"):
        raise failure(
            SelectCode.MULTIPLE_DATA_SOURCES_UNSUPPORTED, "a select reads one object; joins are not supported"
        )
    if next(select.find_all(exp.Subquery, exp.SetOperation), None) is not None:
        raise failure(SelectCode.UNSUPPORTED_SQL_STRUCTURE, "subqueries are not supported")
    distinct = select.args.get("distinct")
    if distinct is not None and distinct.args.get("on"):
        raise failure(SelectCode.UNSUPPORTED_SQL_STRUCTURE, "DISTINCT ON is not supported")
    projections = _projections(select)
    where = select.args.get("where")
    if where is not None and is_aggregate(where.this):
        raise failure(SelectCode.UNSUPPORTED_SQL_STRUCTURE, "aggregates are not allowed in WHERE")
    having = select.args.get("having")
    for condition in (where, having, select.args.get("group")):
        if condition is not None and condition.find(exp.Window) is not None:
            raise failure(SelectCode.UNSUPPORTED_SQL_STRUCTURE, "window functions are only allowed in the select list")
    statement = SelectStatement(
        projections,
        source,
        _alias(select) or (None if named is None else FieldName(named)),
        None if where is None else where.this,
        _group(select),
        None if having is None else having.this,
        _order(select),
        _limit(select),
        distinct is not None,
    )
    if having is not None and not statement.aggregates:
        raise failure(SelectCode.UNSUPPORTED_SQL_STRUCTURE, "HAVING requires GROUP BY or an aggregate")
    if statement.aggregates and not projections:
        raise failure(SelectCode.UNSUPPORTED_SQL_STRUCTURE, "* cannot be used with GROUP BY")
    return statement


_read_cached = lru_cache(maxsize=_CACHED_STATEMENTS)(_read)


def _projections(select: exp.Select) -> tuple[Projection, ...]:
    listed = select.expressions
    if not listed:
        raise failure(SelectCode.PARSE_EMPTY_SELECT, "the select list is empty")
    if any(_is_star(node) for node in listed):
        if len(listed) > 1:
            raise failure(SelectCode.PARSE_ASTERISK_IS_NOT_ALONE_IN_SELECT_LIST, "* must be the only item selected")
        if any(listed[0].args.get(name) for name in ("except_", "except", "replace", "rename")):
            raise failure(SelectCode.PARSE_UNSUPPORTED_SYNTAX, "* cannot be modified")
        return ()
    for node in listed:
        for bracket in node.find_all(exp.Bracket):
            if any(isinstance(inner, exp.Star) for inner in bracket.expressions):
                raise failure(
                    SelectCode.PARSE_INVALID_CONTEXT_FOR_WILDCARD_IN_SELECT_LIST, "[*] is only allowed after FROM"
                )
    return tuple(
        Projection(node.this, node.alias) if isinstance(node, exp.Alias) else Projection(node) for node in listed
    )


def _is_star(node: exp.Expression) -> bool:
    if isinstance(node, exp.Alias):
        node = node.this
    return isinstance(node, exp.Star) or (isinstance(node, exp.Column | exp.Dot) and isinstance(_last(node), exp.Star))


def _last(node: exp.Expression) -> object:
    return node.this if isinstance(node, exp.Column) else node.expression


def _alias(select: exp.Select) -> FieldName | None:
    source = select.find(exp.From)
    table = source.this if source is not None else None
    if not isinstance(table, exp.Table):
        raise failure(SelectCode.PARSE_SELECT_MISSING_FROM, "FROM is expected")
    given = table.args.get("alias")
    if given is None:
        return None
    if given.args.get("columns"):
        raise failure(SelectCode.PARSE_UNSUPPORTED_ALIAS, "columns of the source cannot be renamed")
    identifier = given.this
    return FieldName(str(identifier.this), bool(identifier.args.get("quoted")))


def _group(select: exp.Select) -> tuple[exp.Expression, ...]:
    group = select.args.get("group")
    if group is None:
        return ()
    if any(value for name, value in group.args.items() if name != "expressions"):
        raise failure(SelectCode.UNSUPPORTED_SQL_STRUCTURE, "grouping sets are not supported")
    if any(isinstance(node, exp.Literal) and node.is_string for node in group.expressions):
        raise failure(SelectCode.PARSE_UNSUPPORTED_LITERALS_GROUP_BY, "GROUP BY requires columns, not literals")
    return tuple(group.expressions)


def _order(select: exp.Select) -> tuple[Ordering, ...]:
    order = select.args.get("order")
    if order is None:
        return ()
    return tuple(
        Ordering(node.this, bool(node.args.get("desc")), node.args.get("nulls_first"))
        if isinstance(node, exp.Ordered)
        else Ordering(node)
        for node in order.expressions
    )


def _limit(select: exp.Select) -> int | None:
    limit = select.args.get("limit")
    if limit is None:
        return None
    value = limit.expression if isinstance(limit, exp.Limit) else None
    if isinstance(value, exp.Neg):
        raise failure(SelectCode.EVALUATOR_NEGATIVE_LIMIT, "LIMIT must not be negative")
    if not isinstance(value, exp.Literal) or value.is_string or not str(value.this).isdigit():
        raise failure(SelectCode.PARSE_EXPECTED_NUMBER, "LIMIT must be an integer")
    count = int(str(value.this))
    if count >= 2**63:
        raise failure(SelectCode.INTEGER_OVERFLOW, "LIMIT is out of range")
    return count
