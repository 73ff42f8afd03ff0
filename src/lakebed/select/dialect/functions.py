"""The functions of S3 Select: their arguments and their DataFusion SQL."""

from __future__ import annotations

from collections.abc import Callable
from datetime import datetime
from typing import Final, NamedTuple, Protocol

from sqlglot import exp

from ..errors import SelectCode, failure
from ..execution.relation import SqlKind
from .sql_text import BoundExpression, Coercion, quoted_text, text_literal
from .timestamp_patterns import compile_pattern
from .timestamps import COUNTABLE, DatePart, from_datetime


class ExpressionBinder(Protocol):
    """The interface that functions use to bind their arguments."""

    coerce: Coercion
    now: datetime
    """Start time of the query, for all its expressions."""

    def bind(self, node: exp.Expression) -> BoundExpression:
        """An expression in SQL."""
        ...

    def aggregate(self, name: str, argument: str) -> str:
        """An aggregate call, with the current DISTINCT or OVER."""
        ...

    def with_distinct(self, render: Callable[[], BoundExpression]) -> BoundExpression:
        """Render with DISTINCT in aggregate calls."""
        ...

    def with_over(self, over: str, render: Callable[[], BoundExpression]) -> BoundExpression:
        """Render with an OVER clause on aggregate calls."""
        ...

    def bind_all(self, nodes: list[exp.Expression]) -> list[BoundExpression]:
        """Bind several expressions."""
        ...


Arguments = list[exp.Expression]

AGGREGATES: Final = frozenset({"COUNT", "SUM", "AVG", "MIN", "MAX"})


class FunctionSpec(NamedTuple):
    """The number of arguments of a function, and its rendering."""

    least: int
    most: int
    render: Callable[[ExpressionBinder, Arguments], BoundExpression]


def call(binder: ExpressionBinder, name: str, arguments: Arguments) -> BoundExpression:
    """A function call. Raises SelectError for an unknown function or wrong arguments."""
    known = FUNCTIONS.get(name)
    if name in AGGREGATES and len(arguments) == 1 and isinstance(arguments[0], exp.Distinct):
        values = arguments[0].expressions
        if not any(isinstance(value, exp.Star) for value in values):
            return binder.with_distinct(lambda: call(binder, name, list(values)))
    if known is None:
        raise failure(SelectCode.UNSUPPORTED_FUNCTION, f"unknown function. function={name}")
    if any(isinstance(argument, exp.Star) for argument in arguments) and name != "COUNT":
        raise failure(SelectCode.PARSE_UNSUPPORTED_CALL_WITH_STAR, f"function does not accept *. function={name}")
    if not known.least <= len(arguments) <= known.most:
        code = (
            SelectCode.PARSE_NON_UNARY_AGGREGATE_FUNCTION_CALL
            if name in AGGREGATES
            else SelectCode.EVALUATOR_INVALID_ARGUMENTS
        )
        wanted = str(known.least) if known.least == known.most else f"{known.least} to {known.most}"
        raise failure(code, f"wrong number of arguments. function={name} expected={wanted}")
    return known.render(binder, arguments)


def date_part(node: exp.Expression, allowed: frozenset[DatePart] = frozenset(DatePart)) -> DatePart:
    """The date part that a node names. Raises SelectError (ParseExpectedDatePart)."""
    named = node.name.lower() if isinstance(node, exp.Column | exp.Var | exp.Identifier | exp.Literal) else ""
    try:
        part = DatePart(named)
    except ValueError as error:
        raise failure(SelectCode.PARSE_EXPECTED_DATE_PART, f"a date part is expected. found={named}") from error
    if part not in allowed:
        raise failure(SelectCode.PARSE_EXPECTED_DATE_PART, f"date part is not supported here. found={named}")
    return part


def extract(binder: ExpressionBinder, part: exp.Expression, of: exp.Expression) -> BoundExpression:
    """`EXTRACT(part FROM timestamp)`."""
    moment = binder.coerce.timestamp(binder.bind(of))
    return BoundExpression(f"s3_extract({quoted_text(date_part(part))}, {moment.sql})", SqlKind.INT)


def substring(
    binder: ExpressionBinder, of: exp.Expression, start: exp.Expression | None, length: exp.Expression | None
) -> BoundExpression:
    """`SUBSTRING(text, start[, length])`. As on AWS, a start before the first character means the first."""
    if start is None:
        raise failure(SelectCode.EVALUATOR_INVALID_ARGUMENTS, "SUBSTRING requires a start")
    text = binder.coerce.text(binder.bind(of))
    first = f"greatest({binder.coerce.integer(binder.bind(start)).sql}, 1)"
    if length is None:
        return BoundExpression(f"substr({text.sql}, {first})", SqlKind.TEXT)
    return BoundExpression(
        f"substr({text.sql}, {first}, {binder.coerce.integer(binder.bind(length)).sql})", SqlKind.TEXT
    )


def trim(binder: ExpressionBinder, of: exp.Expression, characters: exp.Expression | None, side: str) -> BoundExpression:
    """`TRIM([side] [characters] FROM text)`."""
    name = {"": "btrim", "BOTH": "btrim", "LEADING": "ltrim", "TRAILING": "rtrim"}[side.upper()]
    text = binder.coerce.text(binder.bind(of)).sql
    removed = "' '" if characters is None else binder.coerce.text(binder.bind(characters)).sql
    return BoundExpression(f"{name}({text}, {removed})", SqlKind.TEXT)


def _count(binder: ExpressionBinder, arguments: Arguments) -> BoundExpression:
    if isinstance(arguments[0], exp.Star):
        return BoundExpression(binder.aggregate("count", "*"), SqlKind.INT)
    return BoundExpression(binder.aggregate("count", binder.bind(arguments[0]).sql), SqlKind.INT)


def _sum(binder: ExpressionBinder, arguments: Arguments) -> BoundExpression:
    number = binder.coerce.number(binder.coerce.inferred(binder.bind(arguments[0])))
    if number.kind is SqlKind.INT:
        # DataFusion ignores overflow in integer sums. A decimal sum has room, and casting it back fails on overflow.
        total = binder.aggregate("sum", f"CAST({number.sql} AS DECIMAL(19, 0))")
        return BoundExpression(f"CAST({total} AS BIGINT)", SqlKind.INT)
    return BoundExpression(binder.aggregate("sum", number.sql), number.kind)


def _avg(binder: ExpressionBinder, arguments: Arguments) -> BoundExpression:
    number = binder.coerce.number(binder.coerce.inferred(binder.bind(arguments[0])))
    if number.kind is SqlKind.INT:
        return BoundExpression(binder.aggregate("avg", f"CAST({number.sql} AS DECIMAL(29, 10))"), SqlKind.DECIMAL)
    return BoundExpression(binder.aggregate("avg", number.sql), number.kind)


def _extreme(name: str) -> Callable[[ExpressionBinder, Arguments], BoundExpression]:
    def render(binder: ExpressionBinder, arguments: Arguments) -> BoundExpression:
        value = binder.coerce.inferred(binder.bind(arguments[0]))
        if value.kind is SqlKind.TIMESTAMP:
            instant = binder.aggregate(name, f"s3_instant({value.sql})")
            return BoundExpression(f"s3_from_instant({instant})", SqlKind.TIMESTAMP)
        if value.kind in (SqlKind.JSON, SqlKind.RECORD):
            value = binder.coerce.text(value)
        return BoundExpression(binder.aggregate(name, value.sql), value.kind)

    return render


def _coalesce(binder: ExpressionBinder, arguments: Arguments) -> BoundExpression:
    values = binder.coerce.common_kind(binder.bind_all(arguments))
    return BoundExpression(f"coalesce({', '.join(value.sql for value in values)})", values[0].kind)


def _nullif(binder: ExpressionBinder, arguments: Arguments) -> BoundExpression:
    bound = binder.bind_all(arguments)
    value = binder.coerce.inferred(bound[0])
    first, second = binder.coerce.comparable(bound)
    return BoundExpression(f"CASE WHEN {first.sql} = {second.sql} THEN NULL ELSE {value.sql} END", value.kind)


def _text(name: str, kind: SqlKind = SqlKind.TEXT) -> Callable[[ExpressionBinder, Arguments], BoundExpression]:
    def render(binder: ExpressionBinder, arguments: Arguments) -> BoundExpression:
        value = binder.coerce.text(binder.bind(arguments[0])).sql
        inner = f"{name}({value})"
        return BoundExpression(f"CAST({inner} AS BIGINT)" if kind is SqlKind.INT else inner, kind)

    return render


def _substring(binder: ExpressionBinder, arguments: Arguments) -> BoundExpression:
    return substring(binder, arguments[0], arguments[1], arguments[2] if len(arguments) > 2 else None)


def _trim(binder: ExpressionBinder, arguments: Arguments) -> BoundExpression:
    return trim(binder, arguments[0], None, "")


def _utcnow(binder: ExpressionBinder, arguments: Arguments) -> BoundExpression:
    return BoundExpression(quoted_text(str(from_datetime(binder.now))), SqlKind.TIMESTAMP)


def _date_add(binder: ExpressionBinder, arguments: Arguments) -> BoundExpression:
    part = date_part(arguments[0], COUNTABLE)
    count = binder.coerce.integer(binder.bind(arguments[1]))
    moment = binder.coerce.timestamp(binder.bind(arguments[2]))
    return BoundExpression(f"s3_date_add({quoted_text(part)}, {count.sql}, {moment.sql})", SqlKind.TIMESTAMP)


def _date_diff(binder: ExpressionBinder, arguments: Arguments) -> BoundExpression:
    part = date_part(arguments[0], COUNTABLE)
    first, last = (binder.coerce.timestamp(bound).sql for bound in binder.bind_all(arguments[1:]))
    return BoundExpression(f"s3_date_diff({quoted_text(part)}, {first}, {last})", SqlKind.INT)


def _to_string(binder: ExpressionBinder, arguments: Arguments) -> BoundExpression:
    moment = binder.coerce.timestamp(binder.bind(arguments[0]))
    pattern = binder.coerce.text(binder.bind(arguments[1]))
    if isinstance(pattern.constant, str):
        compile_pattern(pattern.constant)
    return BoundExpression(f"s3_to_string({moment.sql}, {pattern.sql})", SqlKind.TEXT)


def _to_timestamp(binder: ExpressionBinder, arguments: Arguments) -> BoundExpression:
    text = binder.coerce.text(binder.bind(arguments[0]))
    if len(arguments) == 1:
        return binder.coerce.timestamp(text)
    pattern = binder.coerce.text(binder.bind(arguments[1]))
    return BoundExpression(f"s3_read_timestamp({text.sql}, {pattern.sql})", SqlKind.TIMESTAMP)


def _cast_to(kind: str) -> Callable[[ExpressionBinder, Arguments], BoundExpression]:
    """`int(x)`, which other servers support besides CAST."""

    def render(binder: ExpressionBinder, arguments: Arguments) -> BoundExpression:
        return binder.bind(exp.Cast(this=arguments[0].copy(), to=exp.DataType.build(kind)))

    return render


FUNCTIONS: Final[dict[str, FunctionSpec]] = {
    "COUNT": FunctionSpec(1, 1, _count),
    "SUM": FunctionSpec(1, 1, _sum),
    "AVG": FunctionSpec(1, 1, _avg),
    "MIN": FunctionSpec(1, 1, _extreme("min")),
    "MAX": FunctionSpec(1, 1, _extreme("max")),
    "COALESCE": FunctionSpec(1, 1000, _coalesce),
    "NULLIF": FunctionSpec(2, 2, _nullif),
    "CHAR_LENGTH": FunctionSpec(1, 1, _text("character_length", SqlKind.INT)),
    "CHARACTER_LENGTH": FunctionSpec(1, 1, _text("character_length", SqlKind.INT)),
    "LOWER": FunctionSpec(1, 1, _text("lower")),
    "UPPER": FunctionSpec(1, 1, _text("upper")),
    "SUBSTRING": FunctionSpec(2, 3, _substring),
    "TRIM": FunctionSpec(1, 1, _trim),
    "UTCNOW": FunctionSpec(0, 0, _utcnow),
    "DATE_ADD": FunctionSpec(3, 3, _date_add),
    "DATE_DIFF": FunctionSpec(3, 3, _date_diff),
    "TO_STRING": FunctionSpec(2, 2, _to_string),
    "TO_TIMESTAMP": FunctionSpec(1, 2, _to_timestamp),
    "INT": FunctionSpec(1, 1, _cast_to("int")),
    "INTEGER": FunctionSpec(1, 1, _cast_to("int")),
    "FLOAT": FunctionSpec(1, 1, _cast_to("float")),
    "STRING": FunctionSpec(1, 1, _cast_to("text")),
    "BOOL": FunctionSpec(1, 1, _cast_to("boolean")),
    "TIMESTAMP": FunctionSpec(1, 1, _cast_to("timestamp")),
}

__all__ = [
    "AGGREGATES",
    "FUNCTIONS",
    "ExpressionBinder",
    "call",
    "date_part",
    "extract",
    "substring",
    "text_literal",
    "trim",
]
