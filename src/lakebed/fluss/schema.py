"""Schemas of stream tables: columns, primary key, and their JSON.

A schema object is always valid. Column ids are never changed or reused, so rows written under an older schema can be
read.
"""

from __future__ import annotations

from collections.abc import Mapping, Sequence
from dataclasses import dataclass, field, replace
from enum import StrEnum
from functools import cached_property
from typing import Any, Final, Self

from .errors import ErrorCode, FlussError
from .types import TEXTS, DataType, TypeRoot, parse_type, write_type

__all__ = ["Aggregation", "AggregationFunction", "Schema", "TableColumn", "parse_names"]

_VERSION: Final = 1


class AggregationFunction(StrEnum):
    """Combines the values of a column in an aggregating table."""

    SUM = "sum"
    PRODUCT = "product"
    MAX = "max"
    MIN = "min"
    LAST_VALUE = "last_value"
    LAST_VALUE_IGNORE_NULLS = "last_value_ignore_nulls"
    FIRST_VALUE = "first_value"
    FIRST_VALUE_IGNORE_NULLS = "first_value_ignore_nulls"
    LISTAGG = "listagg"
    STRING_AGG = "string_agg"
    BOOL_AND = "bool_and"
    BOOL_OR = "bool_or"
    RBM32 = "rbm32"
    RBM64 = "rbm64"


_INTEGERS: Final = frozenset({TypeRoot.TINYINT, TypeRoot.SMALLINT, TypeRoot.INT, TypeRoot.BIGINT})
_NUMBERS: Final = _INTEGERS | {TypeRoot.FLOAT, TypeRoot.DOUBLE, TypeRoot.DECIMAL}
_TIMES: Final = frozenset({TypeRoot.DATE, TypeRoot.TIME, TypeRoot.TIMESTAMP, TypeRoot.TIMESTAMP_LTZ})
_SUPPORTED_TYPES: Final[Mapping[AggregationFunction, frozenset[TypeRoot]]] = {
    AggregationFunction.SUM: _NUMBERS,
    AggregationFunction.PRODUCT: _NUMBERS,
    AggregationFunction.MAX: _NUMBERS | TEXTS | _TIMES,
    AggregationFunction.MIN: _NUMBERS | TEXTS | _TIMES,
    AggregationFunction.LISTAGG: TEXTS,
    AggregationFunction.STRING_AGG: TEXTS,
    AggregationFunction.BOOL_AND: frozenset({TypeRoot.BOOLEAN}),
    AggregationFunction.BOOL_OR: frozenset({TypeRoot.BOOLEAN}),
    AggregationFunction.RBM32: frozenset({TypeRoot.BYTES}),
    AggregationFunction.RBM64: frozenset({TypeRoot.BYTES}),
}
_DELIMITED: Final = frozenset({AggregationFunction.LISTAGG, AggregationFunction.STRING_AGG})


@dataclass(frozen=True, slots=True)
class Aggregation:
    """An aggregation function with its parameters."""

    function: AggregationFunction
    delimiter: str | None = None
    """Between the values of a list; defaults to a comma."""

    @classmethod
    def parse(cls, document: object) -> Self:
        """Parse an `agg_function` document. Raises INVALID_TABLE."""
        if not isinstance(document, Mapping):
            raise _invalid("aggregation function is not a JSON object")
        name = str(document.get("type")).lower().replace("-", "_")
        try:
            function = AggregationFunction(name)
        except ValueError:
            raise _invalid(f"unknown aggregation function. type={name}") from None
        parameters = document.get("parameters") or {}
        if not isinstance(parameters, Mapping):
            raise _invalid("aggregation function parameters are not a JSON object")
        known = {"delimiter"} if function in _DELIMITED else set()
        if unknown := sorted(set(parameters) - known):
            raise _invalid(f"unknown aggregation function parameters. type={name} parameters={unknown}")
        delimiter = parameters.get("delimiter")
        return cls(function, None if delimiter is None else str(delimiter))

    def document(self) -> dict[str, Any]:
        """As a JSON document."""
        parameters = {} if self.delimiter is None else {"delimiter": self.delimiter}
        return {"type": self.function.value, "parameters": parameters}


@dataclass(frozen=True, slots=True)
class TableColumn:
    """One column. Its `id` never changes."""

    name: str
    type: DataType
    id: int
    comment: str | None = None
    aggregation: Aggregation | None = None

    def document(self) -> dict[str, Any]:
        """As a JSON document."""
        document: dict[str, Any] = {"name": self.name, "data_type": write_type(self.type)}
        if self.comment is not None:
            document["comment"] = self.comment
        if self.aggregation is not None:
            document["agg_function"] = self.aggregation.document()
        document["id"] = self.id
        return document


@dataclass(frozen=True)
class Schema:
    """Columns in order. The constructor raises INVALID_TABLE for an invalid schema."""

    columns: tuple[TableColumn, ...]
    primary_key: tuple[str, ...] = ()
    auto_increment: str | None = None
    highest_field_id: int = -1
    _positions: Mapping[str, int] = field(init=False, repr=False, compare=False)

    def __post_init__(self) -> None:
        positions = {column.name: index for index, column in enumerate(self.columns)}
        object.__setattr__(self, "_positions", positions)
        if not self.columns:
            raise _invalid("table has no columns")
        if len(positions) != len(self.columns) or "" in positions:
            raise _invalid(f"column names are empty or duplicate. columns={[column.name for column in self.columns]}")
        ids = [id_ for column in self.columns for id_ in (column.id, *column.type.nested_ids())]
        if len(set(ids)) != len(ids) or min(ids) < 0:
            raise _invalid(f"column ids are negative or duplicate. ids={ids}")
        object.__setattr__(self, "highest_field_id", max(self.highest_field_id, *ids))
        self._check_key()
        for column in self.columns:
            self._check_aggregation(column)
        self._check_auto_increment()

    @property
    def has_primary_key(self) -> bool:
        """Whether rows have a primary key."""
        return bool(self.primary_key)

    @cached_property
    def names(self) -> tuple[str, ...]:
        """Column names, in order."""
        return tuple(column.name for column in self.columns)

    @cached_property
    def key_positions(self) -> tuple[int, ...]:
        """Positions of the primary key columns, in key order."""
        return tuple(self._positions[name] for name in self.primary_key)

    @property
    def auto_increment_position(self) -> int | None:
        """Position of the auto-increment column."""
        return None if self.auto_increment is None else self._positions[self.auto_increment]

    def position(self, name: str) -> int | None:
        """Position of a column, or None."""
        return self._positions.get(name)

    def column(self, name: str) -> TableColumn | None:
        """The column of this name, or None."""
        position = self._positions.get(name)
        return None if position is None else self.columns[position]

    def with_column(
        self, name: str, type_: DataType, *, comment: str | None = None, aggregation: Aggregation | None = None
    ) -> Schema:
        """The schema with a column appended. It must be nullable: older rows have null there."""
        if not type_.is_nullable:
            raise _invalid(f"added column must be nullable. column={name}")
        numbers = iter(range(self.highest_field_id + 1, 2**31))
        column_id = next(numbers)
        added = TableColumn(name, type_.numbered(lambda: next(numbers)), column_id, comment, aggregation)
        return replace(self, columns=(*self.columns, added))

    @classmethod
    def of(
        cls, columns: Sequence[tuple[str, DataType]], primary_key: Sequence[str] = (), auto_increment: str | None = None
    ) -> Schema:
        """A new schema, with column ids from 0."""
        numbers = iter(range(2**31))
        numbered = []
        for name, type_ in columns:
            column_id = next(numbers)
            numbered.append(TableColumn(name, type_.numbered(lambda: next(numbers)), column_id))
        return cls(tuple(_keyed(numbered, primary_key)), tuple(primary_key), auto_increment)

    @classmethod
    def parse(cls, document: object) -> Schema:
        """Parse a schema document; assigns missing ids. Raises INVALID_TABLE."""
        if not isinstance(document, Mapping) or not isinstance(document.get("columns"), list):
            raise _invalid("schema is not a JSON object with a list of columns")
        parsed = [_parse_column(each) for each in document["columns"]]
        given = [id_ for _, _, id_, _, _ in parsed if id_ is not None]
        given += [id_ for _, type_, _, _, _ in parsed for id_ in type_.nested_ids()]
        highest = document.get("highest_field_id")
        numbers = iter(range(max([*given, highest if isinstance(highest, int) else -1]) + 1, 2**31))
        columns = []
        for name, type_, id_, comment, aggregation in parsed:
            column_id = next(numbers) if id_ is None else id_
            columns.append(TableColumn(name, type_.numbered(lambda: next(numbers)), column_id, comment, aggregation))
        primary_key = parse_names(document, "primary_key")
        auto_increment = parse_names(document, "auto_increment_column")
        if len(auto_increment) > 1:
            raise _invalid(f"a table can have only one auto-increment column. columns={list(auto_increment)}")
        return cls(
            tuple(_keyed(columns, primary_key)),
            primary_key,
            auto_increment[0] if auto_increment else None,
            highest if isinstance(highest, int) else -1,
        )

    def document(self) -> dict[str, Any]:
        """As a JSON document; the inverse of `parse`."""
        document: dict[str, Any] = {"version": _VERSION, "columns": [column.document() for column in self.columns]}
        if self.primary_key:
            document["primary_key"] = list(self.primary_key)
        if self.auto_increment is not None:
            document["auto_increment_column"] = [self.auto_increment]
        document["highest_field_id"] = self.highest_field_id
        return document

    def _check_key(self) -> None:
        if len(set(self.primary_key)) != len(self.primary_key):
            raise _invalid(f"duplicate column in the primary key. primary_key={list(self.primary_key)}")
        for name in self.primary_key:
            column = self.column(name)
            if column is None:
                raise _invalid(f"unknown primary key column. column={name}")
            if column.type.is_nested or column.type.is_nullable:
                raise _invalid(f"type cannot be part of the primary key. column={name} type={column.type}")

    def _check_aggregation(self, column: TableColumn) -> None:
        if column.aggregation is None:
            return
        if not self.has_primary_key or column.name in self.primary_key:
            raise _invalid(
                f"only columns outside the primary key of a primary-key table can be aggregated. column={column.name}"
            )
        supported = _SUPPORTED_TYPES.get(column.aggregation.function)
        if supported is not None and column.type.root not in supported:
            raise _invalid(
                "aggregation function does not support the type of its column. "
                f"column={column.name} function={column.aggregation.function.value} type={column.type}"
            )

    def _check_auto_increment(self) -> None:
        if self.auto_increment is None:
            return
        column = self.column(self.auto_increment)
        if column is None or not self.has_primary_key or column.name in self.primary_key:
            raise _invalid(
                "auto-increment column must be a column outside the primary key of a primary-key table. "
                f"column={self.auto_increment}"
            )
        if column.type.root not in (TypeRoot.INT, TypeRoot.BIGINT):
            raise _invalid(f"auto-increment column must be INT or BIGINT. column={column.name} type={column.type}")


def _keyed(columns: Sequence[TableColumn], primary_key: Sequence[str]) -> list[TableColumn]:
    """The columns, with those of the primary key not nullable, whatever the document says."""
    return [
        replace(column, type=column.type.of(is_nullable=False)) if column.name in primary_key else column
        for column in columns
    ]


def _parse_column(document: object) -> tuple[str, DataType, int | None, str | None, Aggregation | None]:
    if not isinstance(document, Mapping) or not isinstance(document.get("name"), str):
        raise _invalid("column is not a JSON object with a name")
    id_ = document.get("id")
    if id_ is not None and (not isinstance(id_, int) or isinstance(id_, bool)):
        raise _invalid(f"column id is not an integer. id={id_}")
    comment = document.get("comment")
    aggregation = document.get("agg_function")
    return (
        document["name"],
        parse_type(document.get("data_type")),
        None if id_ is None or id_ < 0 else id_,
        None if comment is None else str(comment),
        None if aggregation is None else Aggregation.parse(aggregation),
    )


def parse_names(document: Mapping[str, object], name: str) -> tuple[str, ...]:
    """A list of names in a document; empty if it is missing. Raises INVALID_TABLE."""
    found = document.get(name)
    if found is None:
        return ()
    if not isinstance(found, list) or not all(isinstance(each, str) for each in found):
        raise _invalid(f"expected a list of names. field={name}")
    return tuple(found)


def _invalid(message: str) -> FlussError:
    return FlussError(ErrorCode.INVALID_TABLE, message)
