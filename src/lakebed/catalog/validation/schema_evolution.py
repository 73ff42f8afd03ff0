"""Whether files written with one schema can be read with another."""

from __future__ import annotations

import re
from collections.abc import Iterable, Mapping
from typing import Final

from lakebed.core.errors import InvalidInput
from lakebed.iceberg.partitioning import PartitionSpec
from lakebed.iceberg.schema import NestedField, Schema
from lakebed.iceberg.types import ListType, MapType, NestedType

__all__ = ["check_evolution"]

_WIDER: Final[Mapping[str, frozenset[str]]] = {"int": frozenset({"long"}), "float": frozenset({"double"})}
_WIDER_SINCE_3: Final[Mapping[str, frozenset[str]]] = {"date": frozenset({"timestamp", "timestamp_ns"})}
_PROMOTIONS_SINCE_VERSION: Final = 3
_DECIMAL: Final = re.compile(r"decimal\(\s*(\d+)\s*,\s*(\d+)\s*\)")
_SAME_FOR_DATE_AND_TIMESTAMP: Final = frozenset({"year", "month", "day", "void"})


def check_evolution(
    before: Schema,
    after: Schema,
    older: Iterable[Schema],
    specs: Iterable[PartitionSpec],
    *,
    last_column_id: int,
    format_version: int,
    strict: bool,
) -> None:
    """Reject a schema that the table's current data cannot be read with.

    `older` are the table's other schemas, `last_column_id` the highest id in use before. A column of the current schema
    may be renamed, moved within its struct, dropped, made optional or promoted. Clients make one required only with an
    option for incompatible changes; the strict level rejects that. A column that the current schema does not have must
    be new, or be a column of an older schema.
    """
    retired: dict[int, NestedField] = {}
    for schema in older:
        retired.update(schema.columns)
    for column in after.columns.values():
        present = before.columns.get(column.id)
        was = present if present is not None else retired.get(column.id)
        if was is None:
            if column.id <= last_column_id:
                raise InvalidInput(f"column {column.name} has an id that was in use before. id={column.id}")
            continue
        if was.parent != column.parent:
            raise InvalidInput(f"column {column.name} was moved into or out of another. id={column.id}")
        _check_type(was, column, format_version)
        if was.type != column.type:
            _check_partitions(was, column, specs)
        if was.initial_default != column.initial_default:
            raise InvalidInput(f"initial default of column {column.name} cannot change. id={column.id}")
        if strict and present is not None and column.required and not was.required:
            raise InvalidInput(f"optional column {column.name} cannot become required. id={column.id}")


def _check_type(was: NestedField, column: NestedField, format_version: int) -> None:
    before, after = was.type, column.type
    if not isinstance(before, str) or not isinstance(after, str):
        # Nested columns are compared separately: here the kind and the inner ids must be unchanged.
        if not isinstance(before, str) and not isinstance(after, str) and _inner_ids(before) == _inner_ids(after):
            return
        if before == "unknown" and format_version >= _PROMOTIONS_SINCE_VERSION:
            return
        raise InvalidInput(
            f"column {column.name} cannot change its type. before={_kind(before)} after={_kind(after)}",
        )
    if not _is_promotion(before.lower(), after.lower(), format_version):
        raise InvalidInput(f"column {column.name} cannot change its type. before={before} after={after}")


def _is_promotion(before: str, after: str, format_version: int) -> bool:
    if before == after or after in _WIDER.get(before, ()):
        return True
    if format_version >= _PROMOTIONS_SINCE_VERSION and (before == "unknown" or after in _WIDER_SINCE_3.get(before, ())):
        return True
    one, other = _DECIMAL.fullmatch(before), _DECIMAL.fullmatch(after)
    if one is not None and other is not None:
        return int(one[2]) == int(other[2]) and int(one[1]) <= int(other[1])
    # Spaces, as in `fixed[ 16 ]`, are insignificant.
    return before.replace(" ", "") == after.replace(" ", "")


def _check_partitions(was: NestedField, column: NestedField, specs: Iterable[PartitionSpec]) -> None:
    """Of the promotions, only that of dates changes the results of transforms."""
    if was.type != "date":
        return
    for spec in specs:
        for field in spec.fields:
            if column.id in field.sources and field.parsed_transform.family not in _SAME_FOR_DATE_AND_TIMESTAMP:
                raise InvalidInput(
                    f"column {column.name} cannot change its type: its partition values would change."
                    f" partition={field.name}"
                )


def _inner_ids(kind: NestedType) -> tuple[int, ...] | None:
    if isinstance(kind, ListType):
        return (kind.element_id,)
    return (kind.key_id, kind.value_id) if isinstance(kind, MapType) else None


def _kind(kind: str | NestedType) -> str:
    return kind if isinstance(kind, str) else type(kind).__name__.removesuffix("Type").lower()
