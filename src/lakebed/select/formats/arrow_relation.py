"""The fields of an object with a schema: its columns, and paths into nested ones."""

from __future__ import annotations

from typing import Final

import pyarrow as pa

from ..dialect.paths import FieldName, Path, follow
from ..errors import SelectCode, failure, no_such_column
from ..execution.relation import Field, ReadAs, ScanColumn, SqlKind
from .arrow_values import inner_type, kind_of, normalized, normalized_type
from .value_columns import ValueColumns

_NESTED: Final = "n:"
"""Prefix of the names of columns extracted from nested ones."""


class ArrowRelation:
    """Columns of an Arrow schema."""

    def __init__(self, schema: pa.Schema, *, prunes: bool = False) -> None:
        self._schema = schema
        self._nested = ValueColumns([])
        self._last_schema: tuple[list[str], pa.Schema] | None = None
        self.prunes = prunes

    def has_field(self, path: Path) -> bool:
        """Whether such a column exists."""
        return bool(path) and isinstance(path[0], FieldName) and bool(self._matching(path[0]))

    def field(self, path: Path) -> Field:
        """The column at a path, or a field inside a nested one."""
        name = path[0] if path else None
        if not isinstance(name, FieldName):
            raise failure(SelectCode.INVALID_KEY_PATH, "a column is expected")
        matching = self._matching(name)
        if not matching and name.text.startswith("_") and name.text[1:].isdigit():
            number = int(name.text[1:])
            if not 1 <= number <= len(self._schema):
                raise no_such_column(SelectCode.INVALID_COLUMN_INDEX, name.text, self._schema.names)
            matching = [self._schema.names[number - 1]]
        if not matching:
            raise no_such_column(SelectCode.EVALUATOR_BINDING_DOES_NOT_EXIST, name.text, self._schema.names)
        if len(matching) > 1:
            raise failure(SelectCode.AMBIGUOUS_FIELD_NAME, f"ambiguous column name. name={name.text}")
        found = FieldName(matching[0], quoted=True)
        type_ = self._schema.field(found.text).type
        if len(path) == 1:
            return Field(found.text, kind_of(type_), (found,))
        inner = inner_type(type_, path[1:])
        if inner is None:
            raise failure(SelectCode.INVALID_KEY_PATH, f"column has no such field. column={found.text}")
        last = path[-1]
        kind = kind_of(inner)
        return Field(last.text if isinstance(last, FieldName) else "", kind, (found, *path[1:]))

    def fields(self) -> tuple[Field, ...]:
        """All columns."""
        return tuple(
            Field(field.name, kind_of(field.type), (FieldName(field.name, quoted=True),)) for field in self._schema
        )

    def column(self, field: Field, view: ReadAs) -> ScanColumn:
        """A column with its own type; a field inside a nested one as `view`."""
        if len(field.path) == 1:
            name = field.path[0]
            assert isinstance(name, FieldName)  # noqa: S101  # created by `field`
            return ScanColumn(name.text, field.kind)
        if view is ReadAs.ANY and field.kind in (SqlKind.INT, SqlKind.FLOAT):
            view = ReadAs.NUMBER
        elif view is ReadAs.ANY and field.kind is SqlKind.BOOL:
            view = ReadAs.BOOL
        elif view is ReadAs.ANY and field.kind in (SqlKind.TEXT, SqlKind.TIMESTAMP, SqlKind.DECIMAL):
            view = ReadAs.TEXT
        column = self._nested.column(field, view)
        return ScanColumn(_NESTED + column.name, column.kind)

    def presence(self, field: Field) -> str | None:
        """None: every record has every column."""
        return None

    @property
    def schema(self) -> pa.Schema:
        """The columns, with the types of queries."""
        flat = [(field.name, normalized_type(field.type)) for field in self._schema]
        return pa.schema(flat + [(_NESTED + name, type_) for name, type_ in self._nested.schema_fields])

    def stored(self, wanted: list[str]) -> list[str]:
        """The stored columns for the wanted ones."""
        needed = [name for name in wanted if not self._is_nested(name)]
        for path in self._nested.paths([name[len(_NESTED) :] for name in wanted if self._is_nested(name)]):
            name = path[0]
            assert isinstance(name, FieldName)  # noqa: S101  # created by `field`
            if name.text not in needed:
                needed.append(name.text)
        return needed

    def build(self, batch: pa.RecordBatch, wanted: list[str]) -> pa.RecordBatch:
        """Build the wanted columns from the stored ones."""
        if not wanted:
            return batch.select([])
        self.check(batch.schema, self.stored(wanted))
        arrays = {name: self._converted(batch, name) for name in wanted if not self._is_nested(name)}
        nested = [name[len(_NESTED) :] for name in wanted if self._is_nested(name)]
        for path, names in self._nested.paths(nested).items():
            name = path[0]
            assert isinstance(name, FieldName)  # noqa: S101  # created by `field`
            values = [follow(value, path[1:]) for value in batch.column(name.text).to_pylist()]
            arrays |= {_NESTED + inner: self._nested.array(inner, values) for inner in names}
        return pa.RecordBatch.from_arrays([arrays[name] for name in wanted], schema=self._schema_of(wanted))

    def check(self, schema: pa.Schema, stored: list[str]) -> None:
        """Raise SelectError if a further object lacks a column of the first."""
        missing = [name for name in stored if name not in schema.names]
        if missing:
            raise failure(
                SelectCode.EVALUATOR_BINDING_DOES_NOT_EXIST,
                f"object lacks a column of the first object. name={missing[0]}",
            )

    def _converted(self, batch: pa.RecordBatch, name: str) -> pa.Array:
        column, expected = batch.column(name), self._schema.field(name).type
        found = normalized(column)
        if column.type == expected or found.type == (wanted := normalized_type(expected)):
            return found
        try:
            return found.cast(wanted)
        except pa.ArrowException as error:
            raise failure(
                SelectCode.INVALID_DATA_TYPE,
                f"column has another type than in the first object. name={name} expected={wanted} found={found.type}",
            ) from error

    def _schema_of(self, wanted: list[str]) -> pa.Schema:
        # Cached, because it is needed for every batch, and there may be many small ones.
        last = self._last_schema
        if last is None or last[0] != wanted:
            schema = self.schema
            self._last_schema = last = (list(wanted), pa.schema([schema.field(name) for name in wanted]))
        return last[1]

    def _is_nested(self, name: str) -> bool:
        return name.startswith(_NESTED) and self._nested.has(name[len(_NESTED) :])

    def _matching(self, name: FieldName) -> list[str]:
        names = self._schema.names
        # An exact match wins over case-insensitive ones; AWS does the same for quoted names only.
        return [name.text] if name.quoted and name.text in names else [found for found in names if name.matches(found)]
