"""DataFusion SQL text, and conversions of bound expressions between kinds."""

from __future__ import annotations

from dataclasses import dataclass
from typing import Final

from ..errors import SelectCode, failure
from ..execution.relation import NUMBERS, Field, ReadAs, Relation, SqlKind

_MAX_EXACT: Final = 2**53
"""Integers up to this are exact as floating-point numbers."""

_TYPE: Final = {
    SqlKind.BOOL: "BOOLEAN",
    SqlKind.INT: "BIGINT",
    SqlKind.FLOAT: "DOUBLE",
    SqlKind.TEXT: "VARCHAR",
}
DECIMAL: Final = "DECIMAL(38, 10)"


@dataclass(frozen=True, slots=True)
class BoundExpression:
    """An expression in SQL, with its kind."""

    sql: str
    kind: SqlKind
    field: Field | None = None
    """The field, if the expression is just a field."""
    constant: str | int | float | bool | None = None
    """The value, if the expression is a literal."""


NULL: Final = BoundExpression("NULL", SqlKind.NULL)


def quoted_name(name: str) -> str:
    """A name as a quoted identifier."""
    return '"' + name.replace('"', '""') + '"'


def quoted_text(text: str) -> str:
    """Text as a quoted literal."""
    return "'" + text.replace("'", "''") + "'"


def text_literal(text: str) -> BoundExpression:
    """A text literal."""
    return BoundExpression(quoted_text(text), SqlKind.TEXT, constant=text)


def number_literal(digits: str) -> BoundExpression:
    """A number literal. Raises SelectError."""
    if digits.isdigit():
        value = int(digits)
        if value < 2**63:
            return BoundExpression(str(value), SqlKind.INT, constant=value)
        if len(digits) <= 38:
            return BoundExpression(f"CAST('{digits}' AS DECIMAL(38, 0))", SqlKind.DECIMAL)
        raise failure(SelectCode.INTEGER_OVERFLOW, f"number is out of range. number={digits[:40]}")
    try:
        number = float(digits)
    except ValueError as error:
        raise failure(SelectCode.LEXER_INVALID_LITERAL, f"invalid number. found={digits[:40]}") from error
    return BoundExpression(f"CAST({number!r} AS DOUBLE)", SqlKind.FLOAT, constant=number)


def bound_field(relation: Relation, field: Field, view: ReadAs = ReadAs.ANY) -> BoundExpression:
    """A field, read as `view`."""
    column = relation.column(field, view)
    return BoundExpression(quoted_name(column.name), column.kind, field)


class Coercion:
    """Converts expressions to the required kind."""

    def __init__(self, relation: Relation) -> None:
        self._relation = relation

    def number(self, bound: BoundExpression, other: BoundExpression | None = None) -> BoundExpression:
        """A number; text that is no number becomes null. `other` is the compared expression. Raises SelectError."""
        exact = other is not None and isinstance(other.constant, int) and abs(other.constant) > _MAX_EXACT
        if bound.kind is SqlKind.JSON and bound.field is not None:
            loose = other is not None and not exact
            return bound_field(self._relation, bound.field, ReadAs.FLOAT if loose else ReadAs.NUMBER)
        match bound.kind:
            case SqlKind.INT | SqlKind.FLOAT | SqlKind.DECIMAL:
                return bound
            case SqlKind.NULL:
                return BoundExpression("CAST(NULL AS DOUBLE)", SqlKind.FLOAT)
            case SqlKind.TEXT:
                kind = SqlKind.INT if exact else SqlKind.FLOAT
                return BoundExpression(f"TRY_CAST({bound.sql} AS {_TYPE[kind]})", kind)
            case _:
                raise failure(SelectCode.INVALID_DATA_TYPE, f"a number is expected. found={bound.kind.name.lower()}")

    def text(self, bound: BoundExpression) -> BoundExpression:
        """Text, from any kind."""
        if bound.kind is SqlKind.JSON and bound.field is not None:
            return bound_field(self._relation, bound.field, ReadAs.TEXT)
        match bound.kind:
            case SqlKind.TEXT:
                return bound
            case SqlKind.TIMESTAMP | SqlKind.JSON | SqlKind.RECORD:
                return BoundExpression(bound.sql, SqlKind.TEXT)
            case SqlKind.NULL:
                return BoundExpression("CAST(NULL AS VARCHAR)", SqlKind.TEXT)
            case SqlKind.INT if isinstance(bound.constant, int):
                return text_literal(str(bound.constant))
            case _:
                return BoundExpression(f"CAST({bound.sql} AS VARCHAR)", SqlKind.TEXT)

    def boolean(self, bound: BoundExpression) -> BoundExpression:
        """A boolean. Raises SelectError."""
        if bound.kind is SqlKind.JSON and bound.field is not None:
            return bound_field(self._relation, bound.field, ReadAs.BOOL)
        match bound.kind:
            case SqlKind.BOOL:
                return bound
            case SqlKind.NULL:
                return BoundExpression("CAST(NULL AS BOOLEAN)", SqlKind.BOOL)
            case SqlKind.TEXT:
                return BoundExpression(f"TRY_CAST({bound.sql} AS BOOLEAN)", SqlKind.BOOL)
            case _:
                raise failure(SelectCode.INVALID_DATA_TYPE, f"a boolean is expected. found={bound.kind.name.lower()}")

    def timestamp(self, bound: BoundExpression) -> BoundExpression:
        """A timestamp. Raises SelectError."""
        match bound.kind:
            case SqlKind.TIMESTAMP:
                return bound
            case SqlKind.TEXT | SqlKind.JSON:
                return BoundExpression(f"s3_timestamp({self.text(bound).sql})", SqlKind.TIMESTAMP)
            case SqlKind.NULL:
                return BoundExpression("CAST(NULL AS VARCHAR)", SqlKind.TIMESTAMP)
            case _:
                raise failure(
                    SelectCode.INCORRECT_SQL_FUNCTION_ARGUMENT_TYPE,
                    f"a timestamp is expected. found={bound.kind.name.lower()}",
                )

    def integer(self, bound: BoundExpression) -> BoundExpression:
        """An integer. Raises SelectError."""
        number = self.number(bound)
        return number if number.kind is SqlKind.INT else BoundExpression(f"CAST({number.sql} AS BIGINT)", SqlKind.INT)

    def inferred(self, bound: BoundExpression) -> BoundExpression:
        """The kind that the sample suggests for a field of a format without types."""
        if bound.field is None or bound.kind is not SqlKind.JSON:
            return bound
        match bound.field.kind:
            case SqlKind.INT | SqlKind.FLOAT:
                return bound_field(self._relation, bound.field, ReadAs.NUMBER)
            case SqlKind.BOOL:
                return bound_field(self._relation, bound.field, ReadAs.BOOL)
            case SqlKind.TEXT:
                return bound_field(self._relation, bound.field, ReadAs.TEXT)
            case _:
                return bound

    def comparable(self, bounds: list[BoundExpression]) -> list[BoundExpression]:
        """Expressions converted to a comparable kind, the one with the strictest requirements."""
        # A field without a type does not decide if another expression has one.
        typed = {bound.kind for bound in bounds if not _is_untyped(bound)} - {SqlKind.NULL}
        kinds = typed or {bound.field.kind for bound in bounds if bound.field is not None}
        if kinds & NUMBERS:
            numbers = [self.number(bound, _other(bounds, bound)) for bound in bounds]
            if any(number.kind is SqlKind.FLOAT for number in numbers):
                return [as_float(number) for number in numbers]
            return numbers
        if SqlKind.TIMESTAMP in kinds:
            return [BoundExpression(f"s3_instant({self.timestamp(bound).sql})", SqlKind.INT) for bound in bounds]
        if SqlKind.BOOL in kinds:
            return [self.boolean(bound) for bound in bounds]
        return [self.text(bound) for bound in bounds]

    def common_kind(self, bounds: list[BoundExpression]) -> list[BoundExpression]:
        """Alternatives for one result, converted to one kind: numbers if all are numbers, else text."""
        found = [self.inferred(bound) for bound in bounds]
        kinds = {bound.kind for bound in found} - {SqlKind.NULL}
        if kinds and kinds <= NUMBERS:
            numbers = [self.number(bound) for bound in found]
            if any(
                number.kind is SqlKind.FLOAT for number, bound in zip(numbers, found, strict=True) if bound is not NULL
            ):
                return [as_float(number) for number in numbers]
            kind = SqlKind.DECIMAL if SqlKind.DECIMAL in kinds else SqlKind.INT
            target = DECIMAL if kind is SqlKind.DECIMAL else "BIGINT"
            return [
                number if number.kind is kind else BoundExpression(f"CAST({number.sql} AS {target})", kind)
                for number in numbers
            ]
        if kinds == {SqlKind.BOOL}:
            return [self.boolean(bound) for bound in found]
        if kinds == {SqlKind.TIMESTAMP}:
            return [self.timestamp(bound) for bound in found]
        return [self.text(bound) for bound in found]


def _is_untyped(bound: BoundExpression) -> bool:
    return bound.kind is SqlKind.JSON and bound.field is not None


def as_float(bound: BoundExpression) -> BoundExpression:
    """A number as floating point."""
    return bound if bound.kind is SqlKind.FLOAT else BoundExpression(f"CAST({bound.sql} AS DOUBLE)", SqlKind.FLOAT)


def _other(bounds: list[BoundExpression], than: BoundExpression) -> BoundExpression | None:
    return next((bound for bound in bounds if bound is not than and bound.constant is not None), None)
