"""The definition of a restricted copy: what to select of one snapshot, and the copy's schema. Pure.

Policies name columns, and columns are renamed. A mask applies to each column that has or ever had the name, in every
snapshot. A filter applies to the column that has the name now, by its id.
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

__all__ = ["CopyDefinition", "define_copy", "masked_columns", "relaxed_schema", "schema_of"]

_FORM: Final = "recipe 1"
_NO_VALUE: Final = "NULL"


@dataclass(frozen=True)
class CopyDefinition:
    """What a copy selects of a snapshot."""

    schema: dict[str, Any]  # Any: JSON
    """The schema of the copy: the snapshot's, with the same ids and only optional columns."""
    columns: tuple[str, ...]
    """A SQL expression for each column of the schema."""
    condition: str
    """A SQL condition on rows."""

    @cached_property
    def digest(self) -> str:
        """A digest: equal for equal definitions."""
        return hashlib.sha256(msgspec.json.encode([_FORM, self.schema, self.columns, self.condition])).hexdigest()


def define_copy(table: TableMetadata, snapshot: Snapshot, restriction: Restriction) -> CopyDefinition:
    """Apply a restriction to a snapshot. Raises AccessDenied if that is not possible."""
    schema = schema_of(table, snapshot)
    masks = masked_columns(table, restriction)
    columns = []
    for column in _own_columns(schema):
        sql = SqlColumn(quoted_name(column.name), column.type)
        visible = masked_sql(sql, masks[column.id]) if column.id in masks else sql.sql
        columns.append(f"{visible} AS {quoted_name(column.name)}")

    is_renamed = False

    def find(name: str) -> SqlColumn:
        nonlocal is_renamed
        column = _filtered_column(table, name)
        found = _find(schema, column)
        is_renamed |= found.sql not in (_NO_VALUE, _find(table.schema, column).sql)
        return found

    try:
        conditions = [filter_sql(one, find) for one in restriction.filters]
    except InvalidPolicy as error:
        raise AccessDenied(
            f"a row filter cannot be applied to the table, so access is denied: {error}."
            f" policies={','.join(restriction.policies)}"
        ) from error
    condition = " AND ".join(conditions) or "TRUE"
    if is_renamed:
        # Iceberg resolves pushed-down filters by the current column names, whichever snapshot is read, and fails.
        # Spark does not push down nondeterministic conditions.
        condition = f"({condition}) <=> (rand() >= 0)"
    relaxed = relaxed_schema(msgspec.json.decode(schema.written), {column.id for column in _own_columns(schema)})
    return CopyDefinition(relaxed | {"schema-id": 0}, tuple(columns), condition)


def schema_of(table: TableMetadata, snapshot: Snapshot) -> Schema:
    """The schema of a snapshot."""
    if snapshot.schema_id is None:
        return table.schema
    return table.schemas.get(snapshot.schema_id, table.schema)


def masked_columns(table: TableMetadata, restriction: Restriction) -> dict[int, Mask]:
    """The masks of a table's columns in all its schemas, by id.

    A mask of a nested field hides the whole column: else the copy would have to rebuild the column field by field.
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


def relaxed_schema(document: Mapping[str, Any], masked: set[int] | Mapping[int, Mask]) -> dict[str, Any]:  # Any: JSON
    """A schema with masked columns optional and without identifier fields."""
    fields = [
        {key: value for key, value in field.items() if key not in ("initial-default", "write-default")}
        | {"required": False}
        if field["id"] in masked
        else field
        for field in document["fields"]
    ]
    return {key: value for key, value in document.items() if key != "identifier-field-ids"} | {"fields": fields}


def _own_columns(schema: Schema) -> Iterator[NestedField]:
    """The top-level columns, in their order."""
    return (column for column in schema.columns.values() if column.parent is None)


def _filtered_column(table: TableMetadata, name: str) -> NestedField:
    """The column of a filter. Raises InvalidPolicy."""
    column = _named(table.schema, name)
    if column is None:
        raise InvalidPolicy(f"the table has no column {name[:80]!r}")
    return column


def _find(schema: Schema, column: NestedField) -> SqlColumn:
    """A column in another schema of the table. Raises InvalidPolicy."""
    found = schema.columns.get(column.id)
    if found is None:
        if column.initial_default is not None:
            raise InvalidPolicy(f"the column was added after the snapshot with a default: {column.name[:80]!r}")
        # Rows written before the column was added have NULL.
        return SqlColumn(_NO_VALUE, column.type)
    if not schema.is_in_structs_only(found):
        raise InvalidPolicy(f"the column is inside a list or map: {column.name[:80]!r}")
    return SqlColumn(quoted_name(*_path(schema, found)), found.type)


def _named(schema: Schema, name: str) -> NestedField | None:
    """The column with a full name; case-insensitive if only one matches."""
    for column in schema.columns.values():
        if column.name == name:
            return column
    alike = [column for column in schema.columns.values() if column.name.lower() == name.lower()]
    return alike[0] if len(alike) == 1 else None


def _path(schema: Schema, column: NestedField) -> list[str]:
    """The names of a field and of its enclosing fields, outermost first."""
    names: list[str] = []
    for outer in schema.enclosing(column):
        names.insert(0, column.name[len(outer.name) + 1 :])
        column = outer
    return [column.name, *names]
