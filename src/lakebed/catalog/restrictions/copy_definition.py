"""What a restriction comes to for one snapshot of a table: what is selected of it, and the shape of the copy. Pure.

Policies name columns as people do, and tables rename theirs. So a mask is of every column that is called so or ever
was, in whichever snapshot; a filter is of the column that is called so now, by its id.
"""

from __future__ import annotations

import hashlib
from collections.abc import Iterator, Mapping
from dataclasses import dataclass
from functools import cached_property
from typing import Any, Final

import msgspec

from lakebed.core.errors import AccessDenied, InvalidPolicy
from lakebed.governance.policies import Restriction
from lakebed.governance.policies.column_masks import HIDDEN, Mask, strictest
from lakebed.iceberg.metadata.snapshots import Snapshot
from lakebed.iceberg.metadata.table import TableMetadata
from lakebed.iceberg.schema import NestedField, Schema

from .spark_sql import SqlColumn, filter_sql, masked_sql, quoted_name

__all__ = ["CopyDefinition", "define_copy", "masked_columns", "open_schema", "schema_of"]

_FORM: Final = "recipe 1"
_NO_VALUE: Final = "NULL"


@dataclass(frozen=True)
class CopyDefinition:
    """What is selected of a snapshot."""

    schema: dict[str, Any]  # Any: JSON
    """The shape of the copy: the snapshot's, with the same ids, where any column may be without a value."""
    columns: tuple[str, ...]
    """An expression for each column of the schema, in SQL."""
    condition: str
    """Which rows, in SQL."""

    @cached_property
    def digest(self) -> str:
        """The same for what is made in the same way."""
        told = msgspec.json.encode([_FORM, self.schema, self.columns, self.condition])
        return hashlib.sha256(told).hexdigest()


def define_copy(table: TableMetadata, snapshot: Snapshot, restriction: Restriction) -> CopyDefinition:
    """How a restriction is applied to a snapshot. Raises AccessDenied if it cannot be: then nothing is shown."""
    schema = schema_of(table, snapshot)
    masks = masked_columns(table, restriction)
    columns = []
    for column in _own_columns(schema):
        sql = SqlColumn(quoted_name(column.name), column.type)
        shown = masked_sql(sql, masks[column.id]) if column.id in masks else sql.sql
        columns.append(f"{shown} AS {quoted_name(column.name)}")

    is_renamed = False

    def find(name: str) -> SqlColumn:
        nonlocal is_renamed
        meant = _meant(table, name)
        found = _find(schema, meant)
        is_renamed |= found.sql not in (_NO_VALUE, _find(table.schema, meant).sql)
        return found

    try:
        conditions = [filter_sql(one, find) for one in restriction.filters]
    except InvalidPolicy as error:
        raise AccessDenied(
            f"a policy restricts the table and cannot be applied to it, so nothing of it is shown: {error}."
            f" policies={','.join(restriction.policies)}"
        ) from error
    condition = " AND ".join(conditions) or "TRUE"
    if is_renamed:
        # Iceberg looks for the columns of what Spark hands down to it among the names of now, whichever snapshot is
        # read, and fails. Spark hands down nothing that may be another each time.
        condition = f"({condition}) <=> (rand() >= 0)"
    shape = open_schema(msgspec.json.decode(schema.written), {column.id for column in _own_columns(schema)})
    return CopyDefinition(shape | {"schema-id": 0}, tuple(columns), condition)


def schema_of(table: TableMetadata, snapshot: Snapshot) -> Schema:
    """The schema that a snapshot is read in by its id."""
    if snapshot.schema_id is None:
        return table.schema
    return table.schemas.get(snapshot.schema_id, table.schema)


def masked_columns(table: TableMetadata, restriction: Restriction) -> dict[int, Mask]:
    """The masks of a table's columns, by id: of all its schemas.

    A mask of a field inside a column hides the column: what is left of it would have to be written out field by field.
    """
    masks: dict[int, list[Mask]] = {}
    for schema in table.schemas.values():
        for column in schema.columns.values():
            mask = restriction.masks.get(column.name.lower())
            if mask is None:
                continue
            *_, outermost = (column, *schema.enclosing(column))
            masks.setdefault(outermost.id, []).append(mask if outermost is column else HIDDEN)
    return {column_id: strictest(of_column) for column_id, of_column in masks.items()}


def open_schema(document: Mapping[str, Any], masked: set[int] | Mapping[int, Mask]) -> dict[str, Any]:  # Any: JSON
    """A schema in which some columns may be without a value, and none tells rows apart."""
    fields = [
        {key: value for key, value in field.items() if key not in ("initial-default", "write-default")}
        | {"required": False}
        if field["id"] in masked
        else field
        for field in document["fields"]
    ]
    return {key: value for key, value in document.items() if key != "identifier-field-ids"} | {"fields": fields}


def _own_columns(schema: Schema) -> Iterator[NestedField]:
    """The columns of the table itself, in their order."""
    return (column for column in schema.columns.values() if column.parent is None)


def _meant(table: TableMetadata, name: str) -> NestedField:
    """The column of a filter. Raises InvalidPolicy."""
    meant = _named(table.schema, name)
    if meant is None:
        raise InvalidPolicy(f"the table has no column {name[:80]!r}")
    return meant


def _find(schema: Schema, meant: NestedField) -> SqlColumn:
    """A column of the table, as a schema of its has it. Raises InvalidPolicy."""
    found = schema.columns.get(meant.id)
    if found is None:
        if meant.initial_default is not None:
            raise InvalidPolicy(f"the column is younger than the snapshot, and has a default: {meant.name[:80]!r}")
        # Rows that are older than the column have no value of it.
        return SqlColumn(_NO_VALUE, meant.type)
    if not schema.is_in_structs_only(found):
        raise InvalidPolicy(f"there is more than one value of it in a row: {meant.name[:80]!r}")
    return SqlColumn(quoted_name(*_path(schema, found)), found.type)


def _named(schema: Schema, name: str) -> NestedField | None:
    """The column of that full name; in another case, if only one has it."""
    for column in schema.columns.values():
        if column.name == name:
            return column
    alike = [column for column in schema.columns.values() if column.name.lower() == name.lower()]
    return alike[0] if len(alike) == 1 else None


def _path(schema: Schema, column: NestedField) -> list[str]:
    """The names of a field and of all that it is inside of, outermost first."""
    names: list[str] = []
    for outer in schema.enclosing(column):
        names.insert(0, column.name[len(outer.name) + 1 :])
        column = outer
    return [column.name, *names]
