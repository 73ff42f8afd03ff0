"""Transforms of partition and sort fields: their text, and the source types that they accept."""

from __future__ import annotations

import re
from collections.abc import Iterable
from dataclasses import dataclass
from functools import lru_cache
from typing import Final

import msgspec

from lakebed.core.errors import InvalidInput

from .schema import NestedField, Schema
from .types import FieldId

__all__ = [
    "IDENTITY",
    "VOID",
    "Transform",
    "TransformedField",
    "check_have_sources",
    "check_source",
    "parse_transform",
]

IDENTITY: Final = "identity"
VOID: Final = "void"
"""Always null: replaces the transform of a dropped partition field."""

_DAYS: Final = frozenset({"date", "timestamp", "timestamptz", "timestamp_ns", "timestamptz_ns"})
_HOURS: Final = _DAYS - {"date"}
_SOURCES: Final = {
    "year": _DAYS,
    "month": _DAYS,
    "day": _DAYS,
    "hour": _HOURS,
    "bucket": _DAYS | {"int", "long", "decimal", "time", "string", "uuid", "fixed", "binary"},
    "truncate": frozenset({"int", "long", "decimal", "string", "binary"}),
}
_WITH_WIDTH: Final = re.compile(r"(bucket|truncate)\[(\d{1,10})\]")
_OPAQUE: Final = frozenset({"variant", "geometry", "geography"})
"""Types without comparable values."""


@dataclass(frozen=True, slots=True)
class Transform:
    """A transform: its family (`bucket` of `bucket[16]`), or None if it is unknown."""

    text: str
    family: str | None

    def accepts(self, primitive: str) -> bool:
        """Whether it supports this source type."""
        if self.family == VOID:
            return True
        if self.family == IDENTITY:
            return primitive not in _OPAQUE
        return self.family is not None and primitive in _SOURCES[self.family]


@lru_cache(maxsize=1024)
def parse_transform(text: str) -> Transform:
    """Parse a transform. An unknown one is kept as text: tables with it can be loaded, but not changed to use it."""
    lower = text.lower()
    if lower in (IDENTITY, VOID, "year", "month", "day", "hour"):
        return Transform(lower, lower)
    found = _WITH_WIDTH.fullmatch(lower)
    if found is not None and 0 < int(found[2]) < 2**31:
        return Transform(f"{found[1]}[{int(found[2])}]", found[1])
    return Transform(text, None)


class TransformedField(msgspec.Struct, frozen=True, kw_only=True, rename="kebab"):
    """A partition or sort field: a transform of its source columns."""

    transform: str
    source_id: FieldId | None = None
    source_ids: tuple[FieldId, ...] | None = None
    """Instead of `source_id`, for a transform of several columns."""

    @property
    def sources(self) -> tuple[int, ...]:
        """The ids of its source columns."""
        if self.source_id is not None:
            return (self.source_id,)
        return self.source_ids or ()

    @property
    def parsed_transform(self) -> Transform:
        """Its parsed transform."""
        return parse_transform(self.transform)


def check_have_sources(fields: Iterable[TransformedField], where: str) -> None:
    """Raise InvalidInput for a field without a source column."""
    for index, field in enumerate(fields):
        if not field.sources:
            raise InvalidInput(f"{where}.fields[{index}]: source-id is missing", argument=where)


def check_source(transform: Transform, source_ids: tuple[int, ...], schema: Schema, what: str) -> NestedField:
    """The source column of a transform. Raises InvalidInput if the schema has no suitable one."""
    if transform.family is None:
        raise InvalidInput(f"{what} has an unknown transform. transform={transform.text}")
    if len(source_ids) != 1:
        raise InvalidInput(f"{what} must have exactly one source column. transform={transform.text}")
    column = schema.columns.get(source_ids[0])
    if column is None:
        raise InvalidInput(f"{what} has a source column that the current schema does not have. id={source_ids[0]}")
    primitive = column.primitive
    if primitive is None or not transform.accepts(primitive):
        kind = column.type if isinstance(column.type, str) else "nested"
        raise InvalidInput(f"{what} does not support column {column.name}. transform={transform.text} type={kind}")
    return column
