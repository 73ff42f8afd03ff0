"""The functions of S3 Select: how many arguments each takes, and what it is in DataFusion."""

from __future__ import annotations

from collections.abc import Callable
from datetime import datetime
from typing import Final, NamedTuple, Protocol

from sqlglot import exp

from ..errors import SelectCode, failure
from ..execution.relation import Kind
from .sql_text import Bound, Coercion, quoted_text, text_literal
from .timestamp_patterns import compile_pattern
from .timestamps import COUNTABLE, DatePart, from_datetime


class Expressions(Protocol):
    """What a function needs of whoever binds expressions."""

    coerce: Coercion
    now: datetime
    """When the query began: the same wherever it is asked for."""

    def bind(self, node: exp.Expression) -> Bound:
        """An expression in SQL."""
        ...

    def aggregate(self, name: str, argument: str) -> str:
        """A call over many records: of those that differ, or over a window, where that is said around it."""
        ...

    def with_distinct(self, render: Callable[[], Bound]) -> Bound:
        """What is rendered, of values that differ."""
        ...

    def with_over(self, over: str, render: Callable[[], Bound]) -> Bound:
        """What is rendered, over a window."""
        ...

    def bind_all(self, nodes: list[exp.Expression]) -> list[Bound]:
        """Several."""
        ...


Arguments = list[exp.Expression]

AGGREGATES: Final = frozenset({"COUNT", "SUM", "AVG", "MIN", "MAX"})


class Function(NamedTuple):
    """A function that is called by its name."""

    least: int
    most: int
    render: Callable[[Expressions, Arguments], Bound]


def call(binder: Expressions, name: str, arguments: Arguments) -> Bound:
    """A call. Raises SelectError: no such function, or not with these arguments."""
    known = FUNCTIONS.get(name)
    if name in AGGREGATES and len(arguments) == 1 and isinstance(arguments[0], exp.Distinct):
        values = arguments[0].expressions
        if not any(isinstance(value, exp.Star) for value in values):
            return binder.with_distinct(lambda: call(binder, name, list(values)))
    if known is None:
        raise failure(SelectCode.UNSUPPORTED_FUNCTION, f"no such function. function={name}")
    if any(isinstance(argument, exp.Star) for argument in arguments) and name != "COUNT":
        raise failure(SelectCode.PARSE_UNSUPPORTED_CALL_WITH_STAR, f"the function does not take *. function={name}")
    if not known.least <= len(arguments) <= known.most:
        code = (
            SelectCode.PARSE_NON_UNARY_AGGREGATE_FUNCTION_CALL
            if name in AGGREGATES
            else SelectCode.EVALUATOR_INVALID_ARGUMENTS
        )
        wanted = str(known.least) if known.least == known.most else f"{known.least} to {known.most}"
        raise failure(code, f"the function takes other arguments. function={name} expected={wanted}")
    return known.render(binder, arguments)


def date_part(node: exp.Expression, allowed: frozenset[DatePart] = frozenset(DatePart)) -> DatePart:
    """The part of a date that is named. Raises SelectError (ParseExpectedDatePart)."""
    named = node.name.lower() if isinstance(node, exp.Column | exp.Var | exp.Identifier | exp.Literal) else ""
    try:
        part = DatePart(named)
    except ValueError as error:
        raise failure(SelectCode.PARSE_EXPECTED_DATE_PART, f"a part of a date is expected. found={named}") from error
    if part not in allowed:
        raise failure(SelectCode.PARSE_EXPECTED_DATE_PART, f"not with this part of a date. found={named}")
    return part


def extract(binder: Expressions, part: exp.Expression, of: exp.Expression) -> Bound:
    """`EXTRACT(part FROM timestamp)`."""
    moment = binder.coerce.timestamp(binder.bind(of))
    return Bound(f"s3_extract({quoted_text(date_part(part))}, {moment.sql})", Kind.INT)


def substring(
    binder: Expressions, of: exp.Expression, start: exp.Expression | None, length: exp.Expression | None
) -> Bound:
    """`SUBSTRING(text, start[, length])`. A start before the first character is the first, as AWS has it."""
    if start is None:
        raise failure(SelectCode.EVALUATOR_INVALID_ARGUMENTS, "SUBSTRING takes a start")
    text = binder.coerce.text(binder.bind(of))
    first = f"greatest({binder.coerce.whole(binder.bind(start)).sql}, 1)"
    if length is None:
        return Bound(f"substr({text.sql}, {first})", Kind.TEXT)
    return Bound(f"substr({text.sql}, {first}, {binder.coerce.whole(binder.bind(length)).sql})", Kind.TEXT)


def trim(binder: Expressions, of: exp.Expression, characters: exp.Expression | None, side: str) -> Bound:
    """`TRIM([side] [characters] FROM text)`."""
    name = {"": "btrim", "BOTH": "btrim", "LEADING": "ltrim", "TRAILING": "rtrim"}[side.upper()]
    text = binder.coerce.text(binder.bind(of)).sql
    removed = "' '" if characters is None else binder.coerce.text(binder.bind(characters)).sql
    return Bound(f"{name}({text}, {removed})", Kind.TEXT)


def _count(binder: Expressions, arguments: Arguments) -> Bound:
    if isinstance(arguments[0], exp.Star):
        return Bound(binder.aggregate("count", "*"), Kind.INT)
    return Bound(binder.aggregate("count", binder.bind(arguments[0]).sql), Kind.INT)


def _sum(binder: Expressions, arguments: Arguments) -> Bound:
    number = binder.coerce.number(binder.coerce.natural(binder.bind(arguments[0])))
    if number.kind is Kind.INT:
        # DataFusion lets a sum of whole numbers run over without a word; one of decimals has room, and is cast back.
        total = binder.aggregate("sum", f"CAST({number.sql} AS DECIMAL(19, 0))")
        return Bound(f"CAST({total} AS BIGINT)", Kind.INT)
    return Bound(binder.aggregate("sum", number.sql), number.kind)


def _avg(binder: Expressions, arguments: Arguments) -> Bound:
    number = binder.coerce.number(binder.coerce.natural(binder.bind(arguments[0])))
    if number.kind is Kind.INT:
        return Bound(binder.aggregate("avg", f"CAST({number.sql} AS DECIMAL(29, 10))"), Kind.DECIMAL)
    return Bound(binder.aggregate("avg", number.sql), number.kind)


def _extreme(name: str) -> Callable[[Expressions, Arguments], Bound]:
    def render(binder: Expressions, arguments: Arguments) -> Bound:
        value = binder.coerce.natural(binder.bind(arguments[0]))
        if value.kind is Kind.TIMESTAMP:
            instant = binder.aggregate(name, f"s3_instant({value.sql})")
            return Bound(f"s3_from_instant({instant})", Kind.TIMESTAMP)
        if value.kind in (Kind.JSON, Kind.RECORD):
            value = binder.coerce.text(value)
        return Bound(binder.aggregate(name, value.sql), value.kind)

    return render


def _coalesce(binder: Expressions, arguments: Arguments) -> Bound:
    values = binder.coerce.same(binder.bind_all(arguments))
    return Bound(f"coalesce({', '.join(value.sql for value in values)})", values[0].kind)


def _nullif(binder: Expressions, arguments: Arguments) -> Bound:
    bound = binder.bind_all(arguments)
    value = binder.coerce.natural(bound[0])
    first, second = binder.coerce.alike(bound)
    return Bound(f"CASE WHEN {first.sql} = {second.sql} THEN NULL ELSE {value.sql} END", value.kind)


def _text(name: str, kind: Kind = Kind.TEXT) -> Callable[[Expressions, Arguments], Bound]:
    def render(binder: Expressions, arguments: Arguments) -> Bound:
        value = binder.coerce.text(binder.bind(arguments[0])).sql
        inner = f"{name}({value})"
        return Bound(f"CAST({inner} AS BIGINT)" if kind is Kind.INT else inner, kind)

    return render


def _substring(binder: Expressions, arguments: Arguments) -> Bound:
    return substring(binder, arguments[0], arguments[1], arguments[2] if len(arguments) > 2 else None)


def _trim(binder: Expressions, arguments: Arguments) -> Bound:
    return trim(binder, arguments[0], None, "")


def _utcnow(binder: Expressions, arguments: Arguments) -> Bound:
    return Bound(quoted_text(str(from_datetime(binder.now))), Kind.TIMESTAMP)


def _date_add(binder: Expressions, arguments: Arguments) -> Bound:
    part = date_part(arguments[0], COUNTABLE)
    count = binder.coerce.whole(binder.bind(arguments[1]))
    moment = binder.coerce.timestamp(binder.bind(arguments[2]))
    return Bound(f"s3_date_add({quoted_text(part)}, {count.sql}, {moment.sql})", Kind.TIMESTAMP)


def _date_diff(binder: Expressions, arguments: Arguments) -> Bound:
    part = date_part(arguments[0], COUNTABLE)
    first, last = (binder.coerce.timestamp(bound).sql for bound in binder.bind_all(arguments[1:]))
    return Bound(f"s3_date_diff({quoted_text(part)}, {first}, {last})", Kind.INT)


def _to_string(binder: Expressions, arguments: Arguments) -> Bound:
    moment = binder.coerce.timestamp(binder.bind(arguments[0]))
    pattern = binder.coerce.text(binder.bind(arguments[1]))
    if isinstance(pattern.constant, str):
        compile_pattern(pattern.constant)
    return Bound(f"s3_to_string({moment.sql}, {pattern.sql})", Kind.TEXT)


def _to_timestamp(binder: Expressions, arguments: Arguments) -> Bound:
    text = binder.coerce.text(binder.bind(arguments[0]))
    if len(arguments) == 1:
        return binder.coerce.timestamp(text)
    pattern = binder.coerce.text(binder.bind(arguments[1]))
    return Bound(f"s3_read_timestamp({text.sql}, {pattern.sql})", Kind.TIMESTAMP)


def _cast_to(kind: str) -> Callable[[Expressions, Arguments], Bound]:
    """`int(x)`, as other servers have it besides CAST."""

    def render(binder: Expressions, arguments: Arguments) -> Bound:
        return binder.bind(exp.Cast(this=arguments[0].copy(), to=exp.DataType.build(kind)))

    return render


FUNCTIONS: Final[dict[str, Function]] = {
    "COUNT": Function(1, 1, _count),
    "SUM": Function(1, 1, _sum),
    "AVG": Function(1, 1, _avg),
    "MIN": Function(1, 1, _extreme("min")),
    "MAX": Function(1, 1, _extreme("max")),
    "COALESCE": Function(1, 1000, _coalesce),
    "NULLIF": Function(2, 2, _nullif),
    "CHAR_LENGTH": Function(1, 1, _text("character_length", Kind.INT)),
    "CHARACTER_LENGTH": Function(1, 1, _text("character_length", Kind.INT)),
    "LOWER": Function(1, 1, _text("lower")),
    "UPPER": Function(1, 1, _text("upper")),
    "SUBSTRING": Function(2, 3, _substring),
    "TRIM": Function(1, 1, _trim),
    "UTCNOW": Function(0, 0, _utcnow),
    "DATE_ADD": Function(3, 3, _date_add),
    "DATE_DIFF": Function(3, 3, _date_diff),
    "TO_STRING": Function(2, 2, _to_string),
    "TO_TIMESTAMP": Function(1, 2, _to_timestamp),
    "INT": Function(1, 1, _cast_to("int")),
    "INTEGER": Function(1, 1, _cast_to("int")),
    "FLOAT": Function(1, 1, _cast_to("float")),
    "STRING": Function(1, 1, _cast_to("text")),
    "BOOL": Function(1, 1, _cast_to("boolean")),
    "TIMESTAMP": Function(1, 1, _cast_to("timestamp")),
}

__all__ = [
    "AGGREGATES",
    "FUNCTIONS",
    "Expressions",
    "call",
    "date_part",
    "extract",
    "substring",
    "text_literal",
    "trim",
]
