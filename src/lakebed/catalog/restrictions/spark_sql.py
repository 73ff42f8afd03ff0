"""Row filters and column masks as Spark SQL. Pure.

No text of a policy or table is copied verbatim into a statement, which prevents SQL injection. Names are quoted with
backquotes. Strings are written as the hexadecimal digits of their bytes, so quoting rules do not matter. Other literals
are parsed as the column's type and formatted again.
"""

from __future__ import annotations

from collections.abc import Callable
from datetime import UTC, date, datetime
from decimal import Decimal, InvalidOperation
from typing import Final, NamedTuple
from uuid import UUID

from lakebed.core.errors import InvalidPolicy
from lakebed.governance.policies.column_masks import Mask, MaskKind
from lakebed.governance.policies.row_filters import RowFilter, Value
from lakebed.iceberg.expressions.unbound import (
    And,
    ColumnReference,
    Constant,
    Not,
    Or,
    PredicateOperation,
    UnboundPredicate,
)
from lakebed.iceberg.types import NestedType, PrimitiveType, parse_primitive

__all__ = ["SqlColumn", "filter_sql", "literal_sql", "masked_sql", "quoted_name"]

STARS: Final = "****"
"""Replaces the hidden part of a string. Its length is fixed, because the real length is information too."""

_LARGEST_LONG: Final = 2**63 - 1
_OPERATORS: Final = {
    PredicateOperation.LT: "<",
    PredicateOperation.LT_EQ: "<=",
    PredicateOperation.GT: ">",
    PredicateOperation.GT_EQ: ">=",
    PredicateOperation.EQ: "=",
    PredicateOperation.NOT_EQ: "<>",
}
_FLOATING: Final = frozenset({"float", "double"})
_WHOLE: Final = frozenset({"int", "long"})


class SqlColumn(NamedTuple):
    """A column as an SQL expression, with its type."""

    sql: str
    type: str | NestedType

    @property
    def primitive(self) -> PrimitiveType | None:
        """Its type; None if it is nested."""
        return parse_primitive(self.type) if isinstance(self.type, str) else None


ColumnLookup = Callable[[str], SqlColumn]
"""Finds a column by its name in a policy. Raises InvalidPolicy."""


def quoted_name(*parts: str) -> str:
    """A quoted name of several parts."""
    return ".".join("`" + part.replace("`", "``") + "`" for part in parts)


def filter_sql(condition: RowFilter, find: ColumnLookup) -> str:
    """A filter as an SQL condition. Raises InvalidPolicy if it does not match the columns' types."""
    match condition:
        case Constant():
            return "TRUE" if condition.value else "FALSE"
        case And():
            return f"({' AND '.join(filter_sql(one, find) for one in condition.operands)})"
        case Or():
            return f"({' OR '.join(filter_sql(one, find) for one in condition.operands)})"
        case Not():
            return f"(NOT {filter_sql(condition.operand, find)})"
        case UnboundPredicate(reference=ColumnReference(column=str(name), transform=None)):
            return _predicate_sql(condition, name, find(name))
        case _:
            raise InvalidPolicy("row filters support columns by name only, without transforms")


def _predicate_sql(predicate: UnboundPredicate, name: str, column: SqlColumn) -> str:
    operation, sql = predicate.operation, column.sql
    if operation is PredicateOperation.IS_NULL:
        return f"({sql} IS NULL)"
    if operation is PredicateOperation.NOT_NULL:
        return f"({sql} IS NOT NULL)"
    kind = column.primitive
    if operation in (PredicateOperation.IS_NAN, PredicateOperation.NOT_NAN):
        if kind is None or kind.name not in _FLOATING:
            raise InvalidPolicy(f"{operation} requires a float or double column: {name}")
        return f"({'' if operation is PredicateOperation.IS_NAN else 'NOT '}isnan({sql}))"
    try:
        literals = [literal_sql(column.type, literal.value) for literal in predicate.literals]
    except InvalidPolicy as error:
        raise InvalidPolicy(f"{name}: {error}") from error
    if operation in (PredicateOperation.IN, PredicateOperation.NOT_IN):
        return f"({sql} {'IN' if operation is PredicateOperation.IN else 'NOT IN'} ({', '.join(literals)}))"
    if operation in (PredicateOperation.STARTS_WITH, PredicateOperation.NOT_STARTS_WITH):
        if kind is None or kind.name != "string":
            raise InvalidPolicy(f"{operation} requires a string column: {name}")
        return f"({'' if operation is PredicateOperation.STARTS_WITH else 'NOT '}startswith({sql}, {literals[0]}))"
    return f"({sql} {_OPERATORS[operation]} {literals[0]})"


def literal_sql(kind: str | NestedType, value: Value) -> str:
    """A value as a literal of a column's type. Raises InvalidPolicy if it does not match."""
    if not isinstance(kind, str):
        raise InvalidPolicy("structs, lists and maps cannot be compared with a literal")
    name = parse_primitive(kind).name
    try:
        if isinstance(value, bool):
            return ("TRUE" if value else "FALSE") if name == "boolean" else _refused(kind, value)
        if isinstance(value, str):
            return _text_sql(name, kind, value)
        if name in _WHOLE and isinstance(value, int) and -_LARGEST_LONG <= value <= _LARGEST_LONG:
            return f"CAST('{value:d}' AS BIGINT)"
        if name in _FLOATING:
            return f"CAST('{float(value)!r}' AS DOUBLE)"
        if name == "decimal":
            return _decimal_sql(kind, str(value))
    except (ValueError, OverflowError, InvalidOperation):
        pass  # includes strings that are not valid Unicode
    return _refused(kind, value)


def _text_sql(name: str, kind: str, text: str) -> str:
    if name == "string":
        return _string(text)
    if name == "date":
        return f"CAST('{date.fromisoformat(text).isoformat()}' AS DATE)"
    if name in ("timestamp", "timestamptz"):
        moment = datetime.fromisoformat(text)
        if (moment.tzinfo is not None) != (name == "timestamptz"):
            return _refused(kind, text)
        if moment.tzinfo is None:
            return f"CAST('{moment.isoformat(sep=' ')}' AS TIMESTAMP_NTZ)"
        return f"CAST('{moment.astimezone(UTC).isoformat(sep=' ')}' AS TIMESTAMP)"
    if name == "uuid":
        return _string(str(UUID(text)))
    if name == "decimal":
        return _decimal_sql(kind, text)
    return _refused(kind, text)


def _decimal_sql(kind: str, text: str) -> str:
    number = Decimal(text)
    precision, scale = (int(part) for part in kind[kind.index("(") + 1 : kind.index(")")].split(","))
    if not number.is_finite() or number != number.quantize(Decimal(1).scaleb(-scale)):
        return _refused(kind, text)
    if number.adjusted() >= precision - scale and number:
        return _refused(kind, text)
    return f"CAST('{number:f}' AS DECIMAL({precision:d}, {scale:d}))"


def _refused(kind: str, value: Value) -> str:
    raise InvalidPolicy(f"not a value of type {kind}: {str(value)[:80]!r}")


def _string(text: str) -> str:
    return f"CAST(X'{text.encode().hex()}' AS STRING)"


def masked_sql(column: SqlColumn, mask: Mask) -> str:
    """A masked column, with the same type. A mask that does not match the type yields NULL."""
    kind = column.primitive
    masked = None if kind is None else _masked(column, kind, mask)
    # NULL of the column's type, without spelling the type.
    return f"IF(FALSE, {column.sql}, NULL)" if masked is None else masked


def _masked(column: SqlColumn, kind: PrimitiveType, mask: Mask) -> str | None:
    sql = column.sql
    match mask.kind:
        case MaskKind.NULL:
            return None
        case MaskKind.CONSTANT:
            return _constant(column, mask.value)
        case MaskKind.HASH:
            return _hash(sql, kind, mask.salt)
        case MaskKind.PARTIAL:
            return _partial(sql, mask.first, mask.last) if kind.name == "string" else None
        case MaskKind.YEAR:
            return _year(sql, kind)


def _constant(column: SqlColumn, value: Value | None) -> str | None:
    if value is None:
        return None
    try:
        return literal_sql(column.type, value)
    except InvalidPolicy:
        return None


def _hash(sql: str, kind: PrimitiveType, salt: str) -> str | None:
    if kind.name not in ("string", "binary"):
        return None
    try:
        salted = f"concat(X'{salt.encode().hex()}', CAST({sql} AS BINARY))" if salt else f"CAST({sql} AS BINARY)"
    except UnicodeEncodeError:
        return None
    return f"sha2({salted}, 256)" if kind.name == "string" else f"unhex(sha2({salted}, 256))"


def _partial(sql: str, first: int, last: int) -> str:
    ends = f"concat(left({sql}, {first:d}), '{STARS}', right({sql}, {last:d}))"
    # The two ends of a short string would be all of it.
    return f"CASE WHEN char_length({sql}) > {first + last:d} THEN {ends} WHEN {sql} IS NOT NULL THEN '{STARS}' END"


def _year(sql: str, kind: PrimitiveType) -> str | None:
    if kind.name == "date":
        return f"trunc({sql}, 'YEAR')"
    if kind.name == "timestamp":
        return f"CAST(date_trunc('YEAR', CAST({sql} AS TIMESTAMP)) AS TIMESTAMP_NTZ)"
    if kind.name == "timestamptz":
        return f"date_trunc('YEAR', {sql})"
    return None
