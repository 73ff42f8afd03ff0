"""Schemas: all fields of a table by id, and the rules for a schema."""

from __future__ import annotations

from collections.abc import Iterable, Mapping
from dataclasses import dataclass, field
from functools import lru_cache
from typing import Final

from msgspec import Raw

from lakebed.core.errors import InvalidInput

from .default_values import check_default
from .documents import DocumentElement, Int, check_unique, decode, read, rewrite, same_meaning
from .types import FieldId, ListType, MapType, NestedType, StructField, StructType, parse_primitive

__all__ = ["UNASSIGNED", "NestedField", "Schema", "check_format", "parse_schema", "parse_schemas", "reuse_or_number"]

UNASSIGNED: Final = -1
"""The id of a schema, spec or order before one is assigned."""

_MAX_DEPTH: Final = 100
_DEFAULTS_SINCE_VERSION: Final = 3
_NOT_IDENTIFYING: Final = frozenset({"float", "double", "variant", "geometry", "geography", "unknown"})
_APART_FROM_ID: Final = frozenset({"schema-id", "identifier-field-ids"})


@dataclass(frozen=True, slots=True)
class NestedField:
    """A field of a schema; elements, keys and values are fields too."""

    id: int
    name: str
    """Its full name: `address.street`, `tags.element`."""
    type: str | NestedType
    required: bool
    parent: int | None
    """The enclosing field; None for a top-level column."""
    initial_default: object = None

    @property
    def primitive(self) -> str | None:
        """The family of its type; None if it is nested."""
        return parse_primitive(self.type).name if isinstance(self.type, str) else None


@dataclass(frozen=True, slots=True)
class Schema:
    """A validated schema. Two are equal if their texts are equal."""

    written: Raw
    id: int
    columns: Mapping[int, NestedField] = field(compare=False)
    identifier_field_ids: frozenset[int] = field(compare=False)

    @property
    def highest_field_id(self) -> int:
        """The highest field id; 0 without columns."""
        return max(self.columns, default=0)

    def enclosing(self, column: NestedField) -> Iterable[NestedField]:
        """The enclosing fields of a field, innermost first."""
        while column.parent is not None:
            column = self.columns[column.parent]
            yield column

    def is_in_structs_only(self, column: NestedField) -> bool:
        """Whether a row has one value of the field: it is in no list and no map."""
        return all(isinstance(outer.type, StructType) for outer in self.enclosing(column))

    def is_equivalent(self, other: Schema) -> bool:
        """Whether two schemas differ in nothing but their ids."""
        return (
            self.columns.keys() == other.columns.keys()
            and self.identifier_field_ids == other.identifier_field_ids
            and same_meaning(self.written, other.written, ignoring=_APART_FROM_ID)
        )

    def numbered(self, schema_id: int) -> Schema:
        """The same schema with an id."""
        if schema_id == self.id:
            return self
        return Schema(
            rewrite(self.written, {"schema-id": schema_id}), schema_id, self.columns, self.identifier_field_ids
        )


class _WrittenSchema(DocumentElement, frozen=True, tag="struct", tag_field="type"):
    fields: tuple[StructField, ...]
    schema_id: Int = UNASSIGNED
    identifier_field_ids: tuple[FieldId, ...] | None = ()


def parse_schema(written: Raw | bytes, where: str) -> Schema:
    """Parse and check a schema. Raises InvalidInput that names the field."""
    # Each commit parses all schemas of the table, most of which are unchanged: parsed schemas are cached by text.
    return _parse(bytes(written), where)


@lru_cache(maxsize=256)
def _parse(written: bytes, where: str) -> Schema:
    schema = read(_WrittenSchema, written, where)
    columns: dict[int, NestedField] = {}
    try:
        _index(schema.fields, None, "", columns, _MAX_DEPTH)
        check_unique("full column name", [column.name for column in columns.values()], "fields")
        identifiers = frozenset(schema.identifier_field_ids or ())
        text = schema.written
        if schema.identifier_field_ids is None:
            # Some writers write null. Readers require a list.
            text = rewrite(text, {"identifier-field-ids": []})
        parsed = Schema(text, schema.schema_id, columns, identifiers)
        for identifier in sorted(identifiers):
            _check_identifier(parsed, identifier)
    except InvalidInput as error:
        raise InvalidInput(f"{where}: {error}", argument=where) from error
    return parsed


def parse_schemas(written: Raw, where: str) -> dict[int, Schema]:
    """Parse a list of schemas, by id."""
    schemas = [parse_schema(text, f"{where}[{index}]") for index, text in enumerate(decode(list[Raw], written, where))]
    for index, schema in enumerate(schemas):
        if schema.id < 0:
            raise InvalidInput(f"{where}[{index}].schema-id: is required and must not be negative", argument=where)
    check_unique("schema-id", [schema.id for schema in schemas], where)
    return {schema.id: schema for schema in schemas}


def check_format(schema: Schema, format_version: int) -> None:
    """Raise InvalidInput for types and defaults that the format version does not support."""
    for column in schema.columns.values():
        if isinstance(column.type, str) and parse_primitive(column.type).since_version > format_version:
            since = parse_primitive(column.type).since_version
            raise InvalidInput(
                f"column {column.name} has a type that requires format version {since}: upgrade the table first."
                f" type={column.type} format_version={format_version}"
            )
        if column.initial_default is not None and format_version < _DEFAULTS_SINCE_VERSION:
            raise InvalidInput(
                f"column {column.name} has an initial default, which requires format version {_DEFAULTS_SINCE_VERSION}:"
                f" upgrade the table first. format_version={format_version}"
            )


def reuse_or_number(schema: Schema, known: Mapping[int, Schema], removed: Iterable[int] = ()) -> Schema:
    """The equivalent known schema; else this one, with the id after the highest."""
    for one in known.values():
        if one.is_equivalent(schema):
            return one
    return schema.numbered(max([*known, *removed], default=-1) + 1)


def _index(
    fields: Iterable[StructField], parent: int | None, prefix: str, columns: dict[int, NestedField], depth: int
) -> None:
    for one in fields:
        name = prefix + one.name
        for role, value in (("initial-default", one.initial_default), ("write-default", one.write_default)):
            if value is not None:
                check_default(one.type, value, name, role)
        _add(NestedField(one.id, name, one.type, one.required, parent, one.initial_default), columns, depth)


def _add(column: NestedField, columns: dict[int, NestedField], depth: int) -> None:
    if depth == 0:
        raise InvalidInput(f"nested too deeply. maximum={_MAX_DEPTH}")
    if (other := columns.get(column.id)) is not None:
        raise InvalidInput(f"columns {other.name} and {column.name} have the same id. id={column.id}")
    columns[column.id] = column
    kind, inside = column.type, column.name + "."
    if isinstance(kind, str):
        _check_primitive(column, kind)
    elif isinstance(kind, StructType):
        _index(kind.fields, column.id, inside, columns, depth - 1)
    elif isinstance(kind, ListType):
        element = NestedField(kind.element_id, inside + "element", kind.element, kind.element_required, column.id)
        _add(element, columns, depth - 1)
    elif isinstance(kind, MapType):
        _add(NestedField(kind.key_id, inside + "key", kind.key, True, column.id), columns, depth - 1)
        _add(
            NestedField(kind.value_id, inside + "value", kind.value, kind.value_required, column.id), columns, depth - 1
        )


def _check_primitive(column: NestedField, kind: str) -> None:
    try:
        primitive = parse_primitive(kind)
    except InvalidInput as error:
        raise InvalidInput(f"column {column.name}: {error}") from error
    if primitive.name == "unknown" and column.required:
        raise InvalidInput(f"column {column.name} has the type unknown and must be optional")


def _check_identifier(schema: Schema, identifier: int) -> None:
    column = schema.columns.get(identifier)
    if column is None:
        raise InvalidInput(f"identifier-field-ids has an unknown column. id={identifier}")
    if column.primitive is None or column.primitive in _NOT_IDENTIFYING:
        kind = column.type if isinstance(column.type, str) else "nested"
        raise InvalidInput(f"column {column.name} cannot identify rows by its type. type={kind}")
    if not schema.is_in_structs_only(column):
        raise InvalidInput(f"column {column.name} cannot identify rows: it is inside a list or map")
    if not column.required or not all(outer.required for outer in schema.enclosing(column)):
        raise InvalidInput(f"column {column.name} cannot identify rows: it or an enclosing field is optional")
