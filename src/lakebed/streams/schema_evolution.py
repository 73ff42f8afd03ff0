"""How a table may change: columns are added at the end, and some of its options are set anew. Pure.

Rows that were written before are read by the ids of their columns, so a column that came later is null in them. To
drop, rename or move a column is what the protocol has words for and no server does.
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
    """Where a new column goes, by the protocol's number."""

    LAST = 0
    FIRST = 1
    AFTER = 3


class AlterConfigOp(IntEnum):
    """What is done to an option, by the protocol's number."""

    SET = 0
    DELETE = 1
    APPEND = 2
    SUBTRACT = 3


@dataclass(frozen=True, slots=True)
class AddColumn:
    """A column that is to be there."""

    name: str
    type: DataType
    position: int = ColumnPosition.LAST
    comment: str | None = None
    aggregation: Aggregation | None = None


@dataclass(frozen=True, slots=True)
class OptionChange:
    """An option that is to be another, or none."""

    name: str
    operation: int
    value: str | None = None


def evolved(
    definition: TableDefinition, columns: Sequence[AddColumn] = (), changes: Sequence[OptionChange] = ()
) -> TableDefinition:
    """The definition after these changes, all of them; the same object if they change nothing.

    Error codes: INVALID_ALTER_TABLE, INVALID_CONFIG.
    """
    schema = with_columns(definition.schema, columns)
    ours = [change for change in changes if change.name.startswith(_OPTION_PREFIX)]
    for change in ours:
        if change.name not in ALTERABLE:
            raise _refused(f"the option of a table that exists stays. option={change.name}")
    options = changed_options(definition.options, ours)
    custom = changed_options(
        definition.custom_options, [change for change in changes if not change.name.startswith(_OPTION_PREFIX)]
    )
    if schema is definition.schema and options == definition.options and custom == definition.custom_options:
        return definition
    after = replace(definition, schema=schema, options=options, custom_options=custom)
    # Of what it has already it has not too much, whatever a new table may have.
    after.check(max_buckets=definition.bucket_count)
    return after


def with_columns(schema: Schema, columns: Iterable[AddColumn]) -> Schema:
    """The schema with these columns, in their order. One that is there as it is wanted is not added again.

    Who was not answered asks once more, and is not to be told that it failed. Error codes: INVALID_ALTER_TABLE.
    """
    for wanted in columns:
        there = schema.column(wanted.name)
        if there is not None:
            found = (_bare(there.type), there.comment, there.aggregation)
            if found == (_bare(wanted.type), wanted.comment, wanted.aggregation):
                continue
            raise _refused(f"the column is there, and is another. column={wanted.name}")
        if wanted.position != ColumnPosition.LAST:
            raise _refused(f"columns are added behind the last. column={wanted.name} position={wanted.position}")
        if wanted.name in RESERVED_COLUMNS:
            raise _refused(f"the name is that of a column of every table. column={wanted.name}")
        try:
            schema = schema.with_column(
                wanted.name, wanted.type, comment=wanted.comment, aggregation=wanted.aggregation
            )
        except FlussError as failure:
            raise _refused(str(failure)) from failure
    return schema


def changed_options(options: Mapping[str, str], changes: Iterable[OptionChange]) -> Mapping[str, str]:
    """The options after these changes, one after the other.

    A list is a text with commas: it is added to and taken from by its items. Error codes: INVALID_ALTER_TABLE.
    """
    after = dict(options)
    for change in changes:
        if change.operation == AlterConfigOp.DELETE:
            after.pop(change.name, None)
            continue
        if change.value is None:
            raise _refused(f"an option is set to something. option={change.name}")
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
            raise _refused(f"no such change of an option. option={change.name} operation={change.operation}")
    return after


def _bare(type_: DataType) -> DataType:
    """The type without the numbers of its fields."""
    return replace(
        type_,
        element=None if type_.element is None else _bare(type_.element),
        key=None if type_.key is None else _bare(type_.key),
        value=None if type_.value is None else _bare(type_.value),
        fields=tuple(replace(field, field_id=None, type=_bare(field.type)) for field in type_.fields),
    )


def _refused(message: str) -> FlussError:
    return FlussError(ErrorCode.INVALID_ALTER_TABLE, message)
