"""Translates expressions of S3 Select to DataFusion SQL.

Every node is rendered from its parsed meaning, and unknown nodes are rejected. So text of a client reaches DataFusion
only as literals and quoted names.
"""

from __future__ import annotations

import re
from collections.abc import Callable
from datetime import datetime
from itertools import groupby
from typing import Final

from sqlglot import exp

from ..errors import SelectCode, failure
from ..execution.relation import NUMBERS, ReadAs, Relation, SqlKind
from . import functions, window_functions
from .parser import MISSING_KEYWORD
from .paths import FieldName, Path
from .sql_text import (
    DECIMAL,
    NULL,
    BoundExpression,
    Coercion,
    as_float,
    bound_field,
    number_literal,
    quoted_text,
    text_literal,
)
from .syntax import chain, is_missing_keyword, path_of
from .timestamps import parse_timestamp

_MAX_GUARDED: Final = 16
"""Maximum conditions per chain that are guarded against errors of later ones: each is one level deeper."""
_FALLIBLE: Final = re.compile(r"(?<!TRY_)CAST\(|s3_|substr\(|[/%]")
_KNOWN_ARGUMENTS: Final = frozenset(
    [
        "this",
        "expression",
        "expressions",
        "negate",
        "low",
        "high",
        "query",
        "unnest",
        "field",
        "is_string",
        "quoted",
        "ifs",
        "default",
        "true",
        "to",
        "start",
        "length",
        "position",
        "table",
        "db",
        "catalog",
    ]
)
"""Arguments of nodes that are handled below. An unhandled one that sqlglot adds could silently change the meaning."""
_IGNORED_ARGUMENTS: Final[dict[type[exp.Expression], tuple[str, ...]]] = {
    exp.Bracket: ("offset",),
    exp.DPipe: ("safe",),
    exp.Div: ("safe", "typed"),
}
"""Arguments that only matter in other dialects."""
_COMPARISONS: Final[dict[type[exp.Expression], str]] = {
    exp.EQ: "=",
    exp.NEQ: "<>",
    exp.GT: ">",
    exp.GTE: ">=",
    exp.LT: "<",
    exp.LTE: "<=",
}
_ARITHMETIC: Final[dict[type[exp.Expression], str]] = {
    exp.Add: "+",
    exp.Sub: "-",
    exp.Mul: "*",
    exp.Div: "/",
    exp.Mod: "%",
}
_TYPES: Final = {
    exp.DataType.Type.BOOLEAN: SqlKind.BOOL,
    exp.DataType.Type.INT: SqlKind.INT,
    exp.DataType.Type.BIGINT: SqlKind.INT,
    exp.DataType.Type.SMALLINT: SqlKind.INT,
    exp.DataType.Type.TINYINT: SqlKind.INT,
    exp.DataType.Type.TEXT: SqlKind.TEXT,
    exp.DataType.Type.VARCHAR: SqlKind.TEXT,
    exp.DataType.Type.CHAR: SqlKind.TEXT,
    exp.DataType.Type.FLOAT: SqlKind.FLOAT,
    exp.DataType.Type.DOUBLE: SqlKind.FLOAT,
    exp.DataType.Type.DECIMAL: SqlKind.DECIMAL,
    exp.DataType.Type.TIMESTAMP: SqlKind.TIMESTAMP,
}


class Binder:
    """Binds the expressions of one statement to the fields of one object."""

    def __init__(
        self,
        relation: Relation,
        now: datetime,
        row: tuple[FieldName, ...] = (),
        aliases: dict[str, exp.Expression] | None = None,
    ) -> None:
        self._relation = relation
        self._row = row
        self._aliases = aliases or {}
        self._resolving: list[str] = []
        self._distinct = ""
        self._over = ""
        self.coerce = Coercion(relation)
        self.now = now

    def bind(self, node: exp.Expression) -> BoundExpression:
        """An expression in SQL. Raises SelectError with its S3 code."""
        if isinstance(node, exp.Window):
            return window_functions.window(self, node, self.ordered)
        for name, value in node.args.items():
            if value and name not in _KNOWN_ARGUMENTS and name not in _IGNORED_ARGUMENTS.get(type(node), ()):
                raise failure(SelectCode.PARSE_UNSUPPORTED_SYNTAX, f"syntax is not supported. found={name.upper()}")
        bound = self._bind(node)
        return _negate(bound) if node.args.get("negate") else bound

    def _bind(self, node: exp.Expression) -> BoundExpression:
        kind = type(node)
        if kind in _COMPARISONS:
            left, right = self.coerce.comparable(self.bind_all([node.this, node.expression]))
            return BoundExpression(f"({left.sql} {_COMPARISONS[kind]} {right.sql})", SqlKind.BOOL)
        if kind in _ARITHMETIC:
            return self._arithmetic(_ARITHMETIC[kind], *self.bind_all([node.this, node.expression]))
        match node:
            case exp.Paren():
                return self.bind(node.this)
            case exp.And() | exp.Or():
                return self._bind_chain(node)
            case exp.Not():
                return BoundExpression(f"(NOT {self.coerce.boolean(self.bind(node.this)).sql})", SqlKind.BOOL)
            case exp.Literal():
                return text_literal(str(node.this)) if node.is_string else number_literal(str(node.this))
            case exp.Boolean():
                return BoundExpression("TRUE" if node.this else "FALSE", SqlKind.BOOL, constant=bool(node.this))
            case exp.Null():
                return NULL
            case exp.ByteString():
                return BoundExpression(quoted_text(str(_literal_timestamp(str(node.this)))), SqlKind.TIMESTAMP)
            case exp.Neg():
                return self._negative(node.this)
            case exp.Is():
                return self._is(node)
            case exp.Between():
                value, low, high = self.coerce.comparable(
                    self.bind_all([node.this, node.args["low"], node.args["high"]])
                )
                return BoundExpression(f"({value.sql} BETWEEN {low.sql} AND {high.sql})", SqlKind.BOOL)
            case exp.In():
                return self._in(node)
            case exp.Like():
                return self._like(node, None)
            case exp.Escape() if isinstance(node.this, exp.Like):
                bound = self._like(node.this, node.expression)
                return _negate(bound) if node.this.args.get("negate") else bound
            case exp.DPipe():
                left, right = (self.coerce.text(bound) for bound in self.bind_all([node.this, node.expression]))
                return BoundExpression(f"({left.sql} || {right.sql})", SqlKind.TEXT)
            case exp.Case():
                return self._case(node)
            case exp.Cast():
                return self._cast(node)
            case exp.Extract():
                return functions.extract(self, node.this, node.expression)
            case exp.Substring():
                return functions.substring(self, node.this, node.args.get("start"), node.args.get("length"))
            case exp.Trim():
                return functions.trim(self, node.this, node.expression or None, str(node.args.get("position") or ""))
            case exp.Anonymous():
                return functions.call(self, str(node.this).upper(), list(node.expressions))
            case exp.Column() | exp.Dot() | exp.Bracket():
                return self._field(node)
            case exp.Star():
                raise failure(SelectCode.PARSE_UNSUPPORTED_CALL_WITH_STAR, "unexpected *")
            case _:
                raise failure(SelectCode.PARSE_UNSUPPORTED_SYNTAX, f"syntax is not supported. found={kind.__name__}")

    def bind_all(self, nodes: list[exp.Expression]) -> list[BoundExpression]:
        """Bind several expressions."""
        return [self.bind(node) for node in nodes]

    def aggregate(self, name: str, argument: str) -> str:
        """An aggregate call, with the current DISTINCT or OVER."""
        return f"{name}({self._distinct}{argument}){self._over}"

    def with_distinct(self, render: Callable[[], BoundExpression]) -> BoundExpression:
        """Render with DISTINCT in aggregate calls."""
        self._distinct = "DISTINCT "
        try:
            return render()
        finally:
            self._distinct = ""

    def with_over(self, over: str, render: Callable[[], BoundExpression]) -> BoundExpression:
        """Render with an OVER clause on aggregate calls."""
        self._over = over
        try:
            return render()
        finally:
            self._over = ""

    def ordered(self, node: exp.Expression, *, natural: bool = True) -> str:
        """An ORDER BY term."""
        term = node if isinstance(node, exp.Ordered) else exp.Ordered(this=node.copy())
        bound = self.bind(term.this)
        if natural:
            bound = self.coerce.inferred(bound)
        if bound.kind is SqlKind.TIMESTAMP:
            bound = BoundExpression(f"s3_instant({bound.sql})", SqlKind.INT)
        return f"{bound.sql}{direction(bool(term.args.get('desc')), term.args.get('nulls_first'))}"

    def _bind_chain(self, node: exp.Expression) -> BoundExpression:
        """A chain of ANDs or ORs, evaluated from left to right: what can fail is skipped once the result is decided.

        `x <> '' AND CAST(x AS INT) > 1` must not fail on empty values; DataFusion would evaluate the cast on all.
        """
        connector, decided, number = ("AND", "FALSE", 0) if isinstance(node, exp.And) else ("OR", "TRUE", 1)
        parts = [self.coerce.boolean(self.bind(part)).sql for part in chain(node)]
        # Conditions that cannot fail may be evaluated in any order.
        runs: list[tuple[str, bool]] = []
        for fails, group in groupby(parts, can_fail):
            run = list(group)
            runs += [(part, True) for part in run] if fails else [(_balanced(run, connector), False)]
        if sum(fails for _, fails in runs) > _MAX_GUARDED:
            return BoundExpression(_balanced(parts, connector), SqlKind.BOOL)
        made, later = runs[-1]
        for part, fails in reversed(runs[:-1]):
            both = f"({part} {connector} {made})"
            # Through numbers, because DataFusion rewrites a boolean CASE to ANDs and ORs.
            guarded = f"(CASE WHEN {part} IS {decided} THEN {number} ELSE CAST({both} AS INT) END = 1)"
            made = guarded if later else both
            later = later or fails
        return BoundExpression(made, SqlKind.BOOL)

    def _arithmetic(self, operator: str, left: BoundExpression, right: BoundExpression) -> BoundExpression:
        left, right = (self.coerce.number(self.coerce.inferred(side)) for side in (left, right))
        kinds = {left.kind, right.kind}
        if SqlKind.FLOAT in kinds:
            return BoundExpression(f"({as_float(left).sql} {operator} {as_float(right).sql})", SqlKind.FLOAT)
        if kinds == {SqlKind.INT} and operator in "+-*":
            # DataFusion ignores integer overflow. Decimals of 38 digits have room for the result, and casting it back
            # fails on overflow.
            sides = f"CAST({left.sql} AS DECIMAL(19, 0)) {operator} CAST({right.sql} AS DECIMAL(19, 0))"
            return BoundExpression(f"CAST(({sides}) AS BIGINT)", SqlKind.INT)
        kind = SqlKind.INT if kinds == {SqlKind.INT} else SqlKind.DECIMAL
        return BoundExpression(f"({left.sql} {operator} {right.sql})", kind)

    def _negative(self, node: exp.Expression) -> BoundExpression:
        value = self.coerce.number(self.coerce.inferred(self.bind(node)))
        if isinstance(value.constant, int | float) and not isinstance(value.constant, bool):
            return BoundExpression(f"(-{value.sql})", value.kind, constant=-value.constant)
        return BoundExpression(f"(-{value.sql})", value.kind)

    def _is(self, node: exp.Expression) -> BoundExpression:
        operand = node.expression
        if isinstance(operand, exp.Var) and str(operand.this).upper() == MISSING_KEYWORD:
            return self._is_missing(node.this)
        value = self.bind(node.this)
        if isinstance(operand, exp.Null):
            return BoundExpression(f"({value.sql} IS NULL)", SqlKind.BOOL)
        if isinstance(operand, exp.Boolean):
            return BoundExpression(
                f"({self.coerce.boolean(value).sql} IS {'TRUE' if operand.this else 'FALSE'})", SqlKind.BOOL
            )
        raise failure(SelectCode.PARSE_UNEXPECTED_TERM, "IS requires NULL, MISSING, TRUE or FALSE")

    def _is_missing(self, node: exp.Expression) -> BoundExpression:
        if isinstance(node, exp.Column) and is_missing_keyword(node):
            return BoundExpression("TRUE", SqlKind.BOOL, constant=True)
        field = self.bind(node).field
        presence = None if field is None else self._relation.presence(field)
        return BoundExpression("FALSE" if presence is None else f'(NOT "{presence}")', SqlKind.BOOL)

    def _in(self, node: exp.In) -> BoundExpression:
        if not node.expressions or any(node.args.get(name) for name in ("query", "unnest", "field")):
            raise failure(
                SelectCode.PARSE_EXPECTED_LEFT_PAREN_VALUE_CONSTRUCTOR, "IN requires a list of values in brackets"
            )
        value, *listed = self.coerce.comparable(self.bind_all([node.this, *node.expressions]))
        return BoundExpression(f"({value.sql} IN ({', '.join(item.sql for item in listed)}))", SqlKind.BOOL)

    def _like(self, node: exp.Expression, escape: exp.Expression | None) -> BoundExpression:
        value, pattern = self.bind_all([node.this, node.expression])
        for side in (value, pattern):
            if side.kind in NUMBERS | {SqlKind.BOOL}:
                raise failure(SelectCode.LIKE_INVALID_INPUTS, f"LIKE requires text. found={side.kind.name.lower()}")
        text, pattern = self.coerce.text(value), self.coerce.text(pattern)
        character = ""
        if escape is not None:
            if not isinstance(escape, exp.Literal) or not escape.is_string or len(str(escape.this)) != 1:
                raise failure(
                    SelectCode.EVALUATOR_LIKE_PATTERN_INVALID_ESCAPE_SEQUENCE, "ESCAPE requires one character"
                )
            character = str(escape.this)
        if isinstance(pattern.constant, str):
            return BoundExpression(
                f"({text.sql} LIKE {quoted_text(like_pattern(pattern.constant, character))})", SqlKind.BOOL
            )
        if character:
            raise failure(SelectCode.LIKE_INVALID_INPUTS, "a pattern with ESCAPE must be a literal")
        # A backslash escapes in DataFusion's patterns, but not in S3 Select's.
        return BoundExpression(f"({text.sql} LIKE replace({pattern.sql}, '\\', '\\\\'))", SqlKind.BOOL)

    def _case(self, node: exp.Case) -> BoundExpression:
        subject = None if node.this is None else node.this
        branches = node.args.get("ifs") or []
        if not branches:
            raise failure(SelectCode.PARSE_EXPECTED_WHEN_CLAUSE, "WHEN is expected after CASE")
        conditions = []
        for branch in branches:
            condition = branch.this if subject is None else exp.EQ(this=subject.copy(), expression=branch.this.copy())
            conditions.append(self.coerce.boolean(self.bind(condition)).sql)
        default = node.args.get("default")
        values = [branch.args["true"] for branch in branches] + ([default] if default is not None else [])
        bound = self.coerce.common_kind(self.bind_all(values))
        arms = " ".join(
            f"WHEN {condition} THEN {value.sql}" for condition, value in zip(conditions, bound, strict=False)
        )
        otherwise = f" ELSE {bound[-1].sql}" if default is not None else ""
        return BoundExpression(f"CASE {arms}{otherwise} END", bound[0].kind)

    def _cast(self, node: exp.Expression) -> BoundExpression:
        wanted = node.args.get("to")
        kind = _TYPES.get(wanted.this) if isinstance(wanted, exp.DataType) else None
        if kind is None or not isinstance(wanted, exp.DataType):
            raise failure(SelectCode.PARSE_EXPECTED_TYPE_NAME, f"unknown type. found={wanted}")
        value = self.bind(node.this)
        if (
            value.kind is SqlKind.JSON
            and value.field is not None
            and value.field.kind in NUMBERS
            and kind is SqlKind.FLOAT
        ):
            return bound_field(self._relation, value.field, ReadAs.FLOAT)
        value = self.coerce.inferred(value)
        if value.kind is SqlKind.JSON:
            value = self.coerce.text(value)
        match kind:
            case SqlKind.TEXT:
                return self.coerce.text(value)
            case SqlKind.TIMESTAMP:
                return self.coerce.timestamp(value)
            case _ if value.kind is SqlKind.TIMESTAMP:
                raise failure(SelectCode.INVALID_CAST, "a timestamp can only be cast to text")
            case SqlKind.DECIMAL:
                return BoundExpression(f"CAST({value.sql} AS {_decimal(wanted)})", kind)
            case SqlKind.BOOL if value.kind is SqlKind.DECIMAL:
                return BoundExpression(f"CAST(CAST({value.sql} AS BIGINT) AS BOOLEAN)", kind)
            case SqlKind.BOOL:
                return BoundExpression(f"CAST({value.sql} AS BOOLEAN)", kind)
            case SqlKind.INT:
                return BoundExpression(f"CAST({value.sql} AS BIGINT)", kind)
            case _:
                return BoundExpression(f"CAST({value.sql} AS DOUBLE)", kind)

    def _field(self, node: exp.Expression) -> BoundExpression:
        if isinstance(node, exp.Column) and is_missing_keyword(node):
            return NULL
        path = path_of(node)
        found = self._without_row(path)
        if len(path) == 1 and isinstance(path[0], FieldName) and not self._relation.has_field(found):
            name = path[0].text.casefold()
            if name in self._aliases:
                return self._aliased(name)
        return bound_field(self._relation, self._relation.field(found), ReadAs.ANY)

    def _aliased(self, name: str) -> BoundExpression:
        """The expression of an alias. Like other servers, aliases are allowed wherever a column is."""
        if name in self._resolving:
            raise failure(SelectCode.PARSE_UNSUPPORTED_ALIAS, f"alias refers to itself. alias={name}")
        self._resolving.append(name)
        try:
            return self.bind(self._aliases[name])
        finally:
            self._resolving.pop()

    def _without_row(self, path: Path) -> Path:
        """The path within a record, without the record's name as its first step."""
        first = path[0]
        is_row = isinstance(first, FieldName) and any(
            first.text == row.text if row.quoted else first.matches(row.text) for row in self._row
        )
        # If a column has the record's name, the column is meant.
        return path[1:] if is_row and (len(path) > 1 or not self._relation.has_field(path)) else path


def direction(descending: bool, nulls_first: bool | None) -> str:
    """The direction of an ORDER BY term."""
    nulls = "" if nulls_first is None else " NULLS FIRST" if nulls_first else " NULLS LAST"
    return f"{' DESC' if descending else ''}{nulls}"


def _negate(bound: BoundExpression) -> BoundExpression:
    return BoundExpression(f"(NOT {bound.sql})", SqlKind.BOOL)


def can_fail(sql: str) -> bool:
    """Whether evaluation may fail. Literals may cause false positives."""
    return _FALLIBLE.search(sql) is not None


def _balanced(parts: list[str], connector: str) -> str:
    """A chain as a balanced tree, so that a long chain is not deep."""
    while len(parts) > 1:
        paired = [f"({left} {connector} {right})" for left, right in zip(parts[::2], parts[1::2], strict=False)]
        parts = paired + (parts[-1:] if len(parts) % 2 else [])
    return parts[0]


def _literal_timestamp(text: str) -> object:
    try:
        return parse_timestamp(text)
    except Exception as error:
        raise failure(SelectCode.LEXER_INVALID_ION_LITERAL, f"invalid timestamp. found=`{text[:40]}`") from error


def like_pattern(pattern: str, escape: str) -> str:
    """A LIKE pattern for DataFusion, where a backslash escapes. Raises SelectError."""
    made = []
    position = 0
    while position < len(pattern):
        character = pattern[position]
        if escape and character == escape:
            position += 1
            if position >= len(pattern) or pattern[position] not in ("%", "_", escape):
                raise failure(
                    SelectCode.EVALUATOR_LIKE_PATTERN_INVALID_ESCAPE_SEQUENCE,
                    "the escape character must be followed by %, _ or itself",
                )
            made.append("\\" + pattern[position])
        else:
            made.append("\\\\" if character == "\\" else character)
        position += 1
    return "".join(made)


def _decimal(wanted: exp.DataType) -> str:
    sizes = [str(size.this) for size in wanted.expressions]
    if not sizes:
        return DECIMAL
    digits = [str(size) for size in sizes]
    if len(digits) > 2 or not all(digit.isdigit() for digit in digits):
        raise failure(SelectCode.PARSE_INVALID_TYPE_PARAM, f"DECIMAL requires precision and scale. found={wanted}")
    precision, scale = int(digits[0]), int(digits[1]) if len(digits) > 1 else 0
    if not (1 <= precision <= 38 and scale <= precision):
        raise failure(SelectCode.PARSE_INVALID_TYPE_PARAM, f"DECIMAL may have at most 38 digits. found={wanted}")
    return f"DECIMAL({precision}, {scale})"
