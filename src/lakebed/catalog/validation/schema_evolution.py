"""Whether files written with one schema can be read with another: what may become of a column."""

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
    """Refuse a schema that the table's present data cannot be read with.

    `older` are the table's other schemas, `last_column_id` the highest id that was in use before. A column of the
    present schema may be renamed, moved within its struct, dropped, made optional or promoted. To make one required is
    what clients do only when told to allow incompatible changes; the strict level refuses it. A column that the present
    schema does not have must be new, or be one of an older schema again.
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
            raise InvalidInput(f"column {column.name} has another initial default than before. id={column.id}")
        if strict and present is not None and column.required and not was.required:
            raise InvalidInput(f"column {column.name} was optional and is required. id={column.id}")


def _check_type(was: NestedField, column: NestedField, format_version: int) -> None:
    before, after = was.type, column.type
    if not isinstance(before, str) or not isinstance(after, str):
        # Columns within are compared on their own: here it is enough that a struct stays one, a list the same list.
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
    # Spaces within `fixed[ 16 ]` and the like mean nothing.
    return before.replace(" ", "") == after.replace(" ", "")


def _check_partitions(was: NestedField, column: NestedField, specs: Iterable[PartitionSpec]) -> None:
    """Of the promotions, only that of dates changes what transforms give."""
    if was.type != "date":
        return
    for spec in specs:
        for field in spec.fields:
            if column.id in field.sources and field.parsed_transform.family not in _SAME_FOR_DATE_AND_TIMESTAMP:
                raise InvalidInput(
                    f"column {column.name} cannot change its type: partitions made of it would have other values."
                    f" partition={field.name}"
                )


def _inner_ids(kind: NestedType) -> tuple[int, ...] | None:
    if isinstance(kind, ListType):
        return (kind.element_id,)
    return (kind.key_id, kind.value_id) if isinstance(kind, MapType) else None


def _kind(kind: str | NestedType) -> str:
    return kind if isinstance(kind, str) else type(kind).__name__.removesuffix("Type").lower()
