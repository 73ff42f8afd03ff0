"""Pieces of SQL as DataFusion reads them, and what expressions become when another kind is wanted."""

from __future__ import annotations

from dataclasses import dataclass
from typing import Final

from ..errors import SelectCode, failure
from ..execution.relation import NUMBERS, Field, ReadAs, Relation, SqlKind

_MAX_EXACT: Final = 2**53
"""Whole numbers up to here are the same as floating-point numbers."""

_TYPE: Final = {
    SqlKind.BOOL: "BOOLEAN",
    SqlKind.INT: "BIGINT",
    SqlKind.FLOAT: "DOUBLE",
    SqlKind.TEXT: "VARCHAR",
}
DECIMAL: Final = "DECIMAL(38, 10)"


@dataclass(frozen=True, slots=True)
class BoundExpression:
    """An expression, in SQL, and what it is."""

    sql: str
    kind: SqlKind
    field: Field | None = None
    """The field that it is, if it is one and nothing else."""
    constant: str | int | float | bool | None = None
    """Its value, if it was written as a literal."""


NULL: Final = BoundExpression("NULL", SqlKind.NULL)


def quoted_name(name: str) -> str:
    """A name as an identifier."""
    return '"' + name.replace('"', '""') + '"'


def quoted_text(text: str) -> str:
    """Text as a literal."""
    return "'" + text.replace("'", "''") + "'"


def text_literal(text: str) -> BoundExpression:
    """A literal of text."""
    return BoundExpression(quoted_text(text), SqlKind.TEXT, constant=text)


def number_literal(digits: str) -> BoundExpression:
    """A literal of a number, as it was written. Raises SelectError."""
    if digits.isdigit():
        value = int(digits)
        if value < 2**63:
            return BoundExpression(str(value), SqlKind.INT, constant=value)
        if len(digits) <= 38:
            return BoundExpression(f"CAST('{digits}' AS DECIMAL(38, 0))", SqlKind.DECIMAL)
        raise failure(SelectCode.INTEGER_OVERFLOW, f"the number is out of range. number={digits[:40]}")
    try:
        number = float(digits)
    except ValueError as error:
        raise failure(SelectCode.LEXER_INVALID_LITERAL, f"not a number. found={digits[:40]}") from error
    return BoundExpression(f"CAST({number!r} AS DOUBLE)", SqlKind.FLOAT, constant=number)


def bound_field(relation: Relation, field: Field, view: ReadAs = ReadAs.ANY) -> BoundExpression:
    """A field, as the view wants it."""
    column = relation.column(field, view)
    return BoundExpression(quoted_name(column.name), column.kind, field)


class Coercion:
    """Makes expressions be of the kind that is wanted of them."""

    def __init__(self, relation: Relation) -> None:
        self._relation = relation

    def number(self, bound: BoundExpression, beside: BoundExpression | None = None) -> BoundExpression:
        """A number: text that is none becomes null. `beside` is what it is compared with. Raises SelectError."""
        exact = beside is not None and isinstance(beside.constant, int) and abs(beside.constant) > _MAX_EXACT
        if bound.kind is SqlKind.JSON and bound.field is not None:
            loose = beside is not None and not exact
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
        """Text: of anything, how it is written."""
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

    def truth(self, bound: BoundExpression) -> BoundExpression:
        """True, false or null. Raises SelectError."""
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
                raise failure(
                    SelectCode.INVALID_DATA_TYPE, f"true or false is expected. found={bound.kind.name.lower()}"
                )

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

    def whole(self, bound: BoundExpression) -> BoundExpression:
        """A whole number. Raises SelectError."""
        number = self.number(bound)
        return number if number.kind is SqlKind.INT else BoundExpression(f"CAST({number.sql} AS BIGINT)", SqlKind.INT)

    def natural(self, bound: BoundExpression) -> BoundExpression:
        """The kind that a field is found to be of, for a format that has no types."""
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

    def alike(self, bounds: list[BoundExpression]) -> list[BoundExpression]:
        """Expressions that stand beside each other, made comparable: by the kind that asks for most."""
        # A field without a type does not decide, if anything beside it does.
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
            return [self.truth(bound) for bound in bounds]
        return [self.text(bound) for bound in bounds]

    def same(self, bounds: list[BoundExpression]) -> list[BoundExpression]:
        """Expressions of which one is the result, made of one kind: numbers where all are, else text."""
        found = [self.natural(bound) for bound in bounds]
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
            return [self.truth(bound) for bound in found]
        if kinds == {SqlKind.TIMESTAMP}:
            return [self.timestamp(bound) for bound in found]
        return [self.text(bound) for bound in found]


def _is_untyped(bound: BoundExpression) -> bool:
    return bound.kind is SqlKind.JSON and bound.field is not None


def as_float(bound: BoundExpression) -> BoundExpression:
    """A number as a floating-point one."""
    return bound if bound.kind is SqlKind.FLOAT else BoundExpression(f"CAST({bound.sql} AS DOUBLE)", SqlKind.FLOAT)


def _other(bounds: list[BoundExpression], than: BoundExpression) -> BoundExpression | None:
    return next((bound for bound in bounds if bound is not than and bound.constant is not None), None)
