"""Iceberg data types: their text, and the format version that introduced each."""

from __future__ import annotations

import re
from dataclasses import dataclass
from functools import lru_cache
from typing import Annotated, Final, TypeAlias

import msgspec
from msgspec import Meta

from lakebed.core.errors import InvalidInput

__all__ = [
    "FieldId",
    "ListType",
    "MapType",
    "NestedType",
    "PrimitiveType",
    "StructField",
    "StructType",
    "parse_primitive",
]

FieldId = Annotated[int, Meta(ge=0, le=2**31 - 201)]
"""The first of the 200 highest ids, which are reserved for metadata columns."""

_PLAIN: Final = {
    "boolean": 1,
    "int": 1,
    "long": 1,
    "float": 1,
    "double": 1,
    "date": 1,
    "time": 1,
    "timestamp": 1,
    "timestamptz": 1,
    "string": 1,
    "uuid": 1,
    "binary": 1,
    "timestamp_ns": 3,
    "timestamptz_ns": 3,
    "unknown": 3,
    "variant": 3,
}
"""Primitive types without parameters, with the format version that introduced each."""

_DECIMAL: Final = re.compile(r"decimal\(\s*(\d{1,3})\s*,\s*(\d{1,3})\s*\)")
_FIXED: Final = re.compile(r"fixed\[\s*(\d{1,10})\s*\]")
_GEOMETRY: Final = re.compile(r"geometry\s*(?:\(\s*([^,()]*?)\s*\))?")
_GEOGRAPHY: Final = re.compile(r"geography\s*(?:\(\s*([^,()]*?)\s*(?:,\s*(\w+)\s*)?\))?")
_EDGES: Final = frozenset({"spherical", "vincenty", "thomas", "andoyer", "karney"})
_MAX_PRECISION: Final = 38


class StructType(msgspec.Struct, frozen=True, tag="struct", rename="kebab"):
    """A struct: named fields."""

    fields: tuple[StructField, ...]


class ListType(msgspec.Struct, frozen=True, tag="list", rename="kebab"):
    """A list: elements of one type."""

    element_id: FieldId
    element: str | NestedType
    element_required: bool


class MapType(msgspec.Struct, frozen=True, tag="map", rename="kebab"):
    """A map: values by key; keys are required."""

    key_id: FieldId
    key: str | NestedType
    value_id: FieldId
    value: str | NestedType
    value_required: bool


class StructField(msgspec.Struct, frozen=True, kw_only=True, rename="kebab"):
    """A field of a struct; the columns of a table are the fields of its schema."""

    id: FieldId
    name: str
    type: str | NestedType
    required: bool
    doc: str | None = None
    initial_default: object = None
    write_default: object = None


NestedType: TypeAlias = StructType | ListType | MapType


@dataclass(frozen=True, slots=True)
class PrimitiveType:
    """A primitive type. `name` is its family: `decimal` for `decimal(9,2)`."""

    name: str
    since_version: int
    scale: int = 0
    length: int = 0


@lru_cache(maxsize=4096)
def parse_primitive(text: str) -> PrimitiveType:
    """Parse a type, case-insensitive. Raises InvalidInput for an unknown type."""
    lower = text.lower()
    if since := _PLAIN.get(lower):
        return PrimitiveType(lower, since)
    if found := _DECIMAL.fullmatch(lower):
        if not 1 <= int(found[1]) <= _MAX_PRECISION:
            raise InvalidInput(f"decimal precision must be 1 to {_MAX_PRECISION}. type={text}")
        return PrimitiveType("decimal", 1, scale=int(found[2]))
    if found := _FIXED.fullmatch(lower):
        return PrimitiveType("fixed", 1, length=int(found[1]))
    if _GEOMETRY.fullmatch(lower):
        return PrimitiveType("geometry", 3)
    if (found := _GEOGRAPHY.fullmatch(lower)) and (found[2] or "spherical") in _EDGES:
        return PrimitiveType("geography", 3)
    raise InvalidInput(f"no such data type. type={text}")
