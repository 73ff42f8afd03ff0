"""Pieces of SQL as DataFusion reads them, and what expressions become when another kind is wanted."""

from __future__ import annotations

from dataclasses import dataclass
from typing import Final

from ..errors import SelectCode, failure
from ..execution.relation import NUMBERS, Field, Kind, Relation, View

_MAX_EXACT: Final = 2**53
"""Whole numbers up to here are the same as floating-point numbers."""

_TYPE: Final = {Kind.BOOL: "BOOLEAN", Kind.INT: "BIGINT", Kind.FLOAT: "DOUBLE", Kind.TEXT: "VARCHAR"}
DECIMAL: Final = "DECIMAL(38, 10)"


@dataclass(frozen=True, slots=True)
class Bound:
    """An expression, in SQL, and what it is."""

    sql: str
    kind: Kind
    field: Field | None = None
    """The field that it is, if it is one and nothing else."""
    constant: str | int | float | bool | None = None
    """Its value, if it was written as a literal."""


NULL: Final = Bound("NULL", Kind.NULL)


def quoted_name(name: str) -> str:
    """A name as an identifier."""
    return '"' + name.replace('"', '""') + '"'


def quoted_text(text: str) -> str:
    """Text as a literal."""
    return "'" + text.replace("'", "''") + "'"


def text_literal(text: str) -> Bound:
    """A literal of text."""
    return Bound(quoted_text(text), Kind.TEXT, constant=text)


def number_literal(digits: str) -> Bound:
    """A literal of a number, as it was written. Raises SelectError."""
    if digits.isdigit():
        value = int(digits)
        if value < 2**63:
            return Bound(str(value), Kind.INT, constant=value)
        if len(digits) <= 38:
            return Bound(f"CAST('{digits}' AS DECIMAL(38, 0))", Kind.DECIMAL)
        raise failure(SelectCode.INTEGER_OVERFLOW, f"the number is out of range. number={digits[:40]}")
    try:
        number = float(digits)
    except ValueError as error:
        raise failure(SelectCode.LEXER_INVALID_LITERAL, f"not a number. found={digits[:40]}") from error
    return Bound(f"CAST({number!r} AS DOUBLE)", Kind.FLOAT, constant=number)


def of_field(relation: Relation, field: Field, view: View = View.ANY) -> Bound:
    """A field, as the view wants it."""
    column = relation.column(field, view)
    return Bound(quoted_name(column.name), column.kind, field)


class Coercion:
    """Makes expressions be of the kind that is wanted of them."""

    def __init__(self, relation: Relation) -> None:
        self._relation = relation

    def number(self, bound: Bound, beside: Bound | None = None) -> Bound:
        """A number: text that is none becomes null. `beside` is what it is compared with. Raises SelectError."""
        exact = beside is not None and isinstance(beside.constant, int) and abs(beside.constant) > _MAX_EXACT
        if bound.kind is Kind.JSON and bound.field is not None:
            loose = beside is not None and not exact
            return of_field(self._relation, bound.field, View.FLOAT if loose else View.NUMBER)
        match bound.kind:
            case Kind.INT | Kind.FLOAT | Kind.DECIMAL:
                return bound
            case Kind.NULL:
                return Bound("CAST(NULL AS DOUBLE)", Kind.FLOAT)
            case Kind.TEXT:
                kind = Kind.INT if exact else Kind.FLOAT
                return Bound(f"TRY_CAST({bound.sql} AS {_TYPE[kind]})", kind)
            case _:
                raise failure(SelectCode.INVALID_DATA_TYPE, f"a number is expected. found={bound.kind.name.lower()}")

    def text(self, bound: Bound) -> Bound:
        """Text: of anything, how it is written."""
        if bound.kind is Kind.JSON and bound.field is not None:
            return of_field(self._relation, bound.field, View.TEXT)
        match bound.kind:
            case Kind.TEXT:
                return bound
            case Kind.TIMESTAMP | Kind.JSON | Kind.RECORD:
                return Bound(bound.sql, Kind.TEXT)
            case Kind.NULL:
                return Bound("CAST(NULL AS VARCHAR)", Kind.TEXT)
            case Kind.INT if isinstance(bound.constant, int):
                return text_literal(str(bound.constant))
            case _:
                return Bound(f"CAST({bound.sql} AS VARCHAR)", Kind.TEXT)

    def truth(self, bound: Bound) -> Bound:
        """True, false or null. Raises SelectError."""
        if bound.kind is Kind.JSON and bound.field is not None:
            return of_field(self._relation, bound.field, View.BOOL)
        match bound.kind:
            case Kind.BOOL:
                return bound
            case Kind.NULL:
                return Bound("CAST(NULL AS BOOLEAN)", Kind.BOOL)
            case Kind.TEXT:
                return Bound(f"TRY_CAST({bound.sql} AS BOOLEAN)", Kind.BOOL)
            case _:
                raise failure(
                    SelectCode.INVALID_DATA_TYPE, f"true or false is expected. found={bound.kind.name.lower()}"
                )

    def timestamp(self, bound: Bound) -> Bound:
        """A timestamp. Raises SelectError."""
        match bound.kind:
            case Kind.TIMESTAMP:
                return bound
            case Kind.TEXT | Kind.JSON:
                return Bound(f"s3_timestamp({self.text(bound).sql})", Kind.TIMESTAMP)
            case Kind.NULL:
                return Bound("CAST(NULL AS VARCHAR)", Kind.TIMESTAMP)
            case _:
                raise failure(
                    SelectCode.INCORRECT_SQL_FUNCTION_ARGUMENT_TYPE,
                    f"a timestamp is expected. found={bound.kind.name.lower()}",
                )

    def whole(self, bound: Bound) -> Bound:
        """A whole number. Raises SelectError."""
        number = self.number(bound)
        return number if number.kind is Kind.INT else Bound(f"CAST({number.sql} AS BIGINT)", Kind.INT)

    def natural(self, bound: Bound) -> Bound:
        """The kind that a field is found to be of, for a format that has no types."""
        if bound.field is None or bound.kind is not Kind.JSON:
            return bound
        match bound.field.kind:
            case Kind.INT | Kind.FLOAT:
                return of_field(self._relation, bound.field, View.NUMBER)
            case Kind.BOOL:
                return of_field(self._relation, bound.field, View.BOOL)
            case Kind.TEXT:
                return of_field(self._relation, bound.field, View.TEXT)
            case _:
                return bound

    def alike(self, bounds: list[Bound]) -> list[Bound]:
        """Expressions that stand beside each other, made comparable: by the kind that asks for most."""
        # A field without a type does not decide, if anything beside it does.
        typed = {bound.kind for bound in bounds if not _is_untyped(bound)} - {Kind.NULL}
        kinds = typed or {bound.field.kind for bound in bounds if bound.field is not None}
        if kinds & NUMBERS:
            numbers = [self.number(bound, _other(bounds, bound)) for bound in bounds]
            if any(number.kind is Kind.FLOAT for number in numbers):
                return [as_float(number) for number in numbers]
            return numbers
        if Kind.TIMESTAMP in kinds:
            return [Bound(f"s3_instant({self.timestamp(bound).sql})", Kind.INT) for bound in bounds]
        if Kind.BOOL in kinds:
            return [self.truth(bound) for bound in bounds]
        return [self.text(bound) for bound in bounds]

    def same(self, bounds: list[Bound]) -> list[Bound]:
        """Expressions of which one is the result, made of one kind: numbers where all are, else text."""
        found = [self.natural(bound) for bound in bounds]
        kinds = {bound.kind for bound in found} - {Kind.NULL}
        if kinds and kinds <= NUMBERS:
            numbers = [self.number(bound) for bound in found]
            if any(
                number.kind is Kind.FLOAT for number, bound in zip(numbers, found, strict=True) if bound is not NULL
            ):
                return [as_float(number) for number in numbers]
            kind = Kind.DECIMAL if Kind.DECIMAL in kinds else Kind.INT
            target = DECIMAL if kind is Kind.DECIMAL else "BIGINT"
            return [
                number if number.kind is kind else Bound(f"CAST({number.sql} AS {target})", kind) for number in numbers
            ]
        if kinds == {Kind.BOOL}:
            return [self.truth(bound) for bound in found]
        if kinds == {Kind.TIMESTAMP}:
            return [self.timestamp(bound) for bound in found]
        return [self.text(bound) for bound in found]


def _is_untyped(bound: Bound) -> bool:
    return bound.kind is Kind.JSON and bound.field is not None


def as_float(bound: Bound) -> Bound:
    """A number as a floating-point one."""
    return bound if bound.kind is Kind.FLOAT else Bound(f"CAST({bound.sql} AS DOUBLE)", Kind.FLOAT)


def _other(bounds: list[Bound], than: Bound) -> Bound | None:
    return next((bound for bound in bounds if bound is not than and bound.constant is not None), None)
