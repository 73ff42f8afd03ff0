"""Schema and option changes of existing tables. Pure.

Columns are added after the last one. Rows are read by column ids, so a column added later is null in older rows. The
protocol can drop, rename and move columns; no Fluss server supports it.
"""

from __future__ import annotations

from collections.abc import Iterable, Mapping, Sequence
from dataclasses import dataclass, replace
from enum import IntEnum
from typing import Final

from lakebed.fluss.errors import ErrorCode, FlussError
from lakebed.fluss.schema import Aggregation, Schema
from lakebed.fluss.table_options import ALTERABLE
from lakebed.fluss.types import DataType

from .names import RESERVED_COLUMNS
from .table import TableDefinition

__all__ = ["AddColumn", "AlterConfigOp", "ColumnPosition", "OptionChange", "changed_options", "evolved", "with_columns"]

_OPTION_PREFIX: Final = "table."


class ColumnPosition(IntEnum):
    """The position of a new column, by the protocol's number."""

    LAST = 0
    FIRST = 1
    AFTER = 3


class AlterConfigOp(IntEnum):
    """The operation on an option, by the protocol's number."""

    SET = 0
    DELETE = 1
    APPEND = 2
    SUBTRACT = 3


@dataclass(frozen=True, slots=True)
class AddColumn:
    """A column to add."""

    name: str
    type: DataType
    position: int = ColumnPosition.LAST
    comment: str | None = None
    aggregation: Aggregation | None = None


@dataclass(frozen=True, slots=True)
class OptionChange:
    """A change of an option."""

    name: str
    operation: int
    value: str | None = None


def evolved(
    definition: TableDefinition, columns: Sequence[AddColumn] = (), changes: Sequence[OptionChange] = ()
) -> TableDefinition:
    """The definition after all of these changes; the same object if they change nothing.

    Error codes: INVALID_ALTER_TABLE, INVALID_CONFIG.
    """
    schema = with_columns(definition.schema, columns)
    ours = [change for change in changes if change.name.startswith(_OPTION_PREFIX)]
    for change in ours:
        if change.name not in ALTERABLE:
            raise _invalid(f"the option of an existing table cannot be altered. option={change.name}")
    options = changed_options(definition.options, ours)
    custom = changed_options(
        definition.custom_options, [change for change in changes if not change.name.startswith(_OPTION_PREFIX)]
    )
    if schema is definition.schema and options == definition.options and custom == definition.custom_options:
        return definition
    after = replace(definition, schema=schema, options=options, custom_options=custom)
    # An existing table keeps its number of buckets, whatever the limit for new tables is.
    after.check(max_buckets=definition.bucket_count)
    return after


def with_columns(schema: Schema, columns: Iterable[AddColumn]) -> Schema:
    """The schema with these columns added, in order. A column that exists as requested is skipped.

    A client without a response retries, and must not get an error. Error codes: INVALID_ALTER_TABLE.
    """
    for added in columns:
        existing = schema.column(added.name)
        if existing is not None:
            found = (_bare(existing.type), existing.comment, existing.aggregation)
            if found == (_bare(added.type), added.comment, added.aggregation):
                continue
            raise _invalid(f"column exists with another definition. column={added.name}")
        if added.position != ColumnPosition.LAST:
            raise _invalid(f"columns are only added after the last. column={added.name} position={added.position}")
        if added.name in RESERVED_COLUMNS:
            raise _invalid(f"reserved column name. column={added.name}")
        try:
            schema = schema.with_column(added.name, added.type, comment=added.comment, aggregation=added.aggregation)
        except FlussError as failure:
            raise _invalid(str(failure)) from failure
    return schema


def changed_options(options: Mapping[str, str], changes: Iterable[OptionChange]) -> Mapping[str, str]:
    """The options after these changes, applied in order.

    Lists are comma-separated: APPEND and SUBTRACT work on items. Error codes: INVALID_ALTER_TABLE.
    """
    after = dict(options)
    for change in changes:
        if change.operation == AlterConfigOp.DELETE:
            after.pop(change.name, None)
            continue
        if change.value is None:
            raise _invalid(f"expected a value. option={change.name}")
        items = [item.strip() for item in after.get(change.name, "").split(",") if item.strip()]
        if change.operation == AlterConfigOp.SET:
            after[change.name] = change.value
        elif change.operation == AlterConfigOp.APPEND:
            after[change.name] = ",".join([*items, *(() if change.value in items else (change.value,))])
        elif change.operation == AlterConfigOp.SUBTRACT:
            items = [item for item in items if item != change.value]
            if items:
                after[change.name] = ",".join(items)
            else:
                after.pop(change.name, None)
        else:
            raise _invalid(f"unknown operation. option={change.name} operation={change.operation}")
    return after


def _bare(type_: DataType) -> DataType:
    """The type without field ids."""
    return replace(
        type_,
        element=None if type_.element is None else _bare(type_.element),
        key=None if type_.key is None else _bare(type_.key),
        value=None if type_.value is None else _bare(type_.value),
        fields=tuple(replace(field, field_id=None, type=_bare(field.type)) for field in type_.fields),
    )


def _invalid(message: str) -> FlussError:
    return FlussError(ErrorCode.INVALID_ALTER_TABLE, message)
