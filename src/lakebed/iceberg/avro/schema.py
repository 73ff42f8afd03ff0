"""Avro schemas with names resolved and Iceberg field ids attached.

The schema is part of the file, so it is not trusted. Rejects schemas that could make a reader loop, recurse or count
without end: recursive types, deep nesting, named types that expand exponentially, collections of items without bytes.
"""

from __future__ import annotations

from dataclasses import dataclass, replace
from typing import Any, Final

import msgspec

from lakebed.core.errors import InvalidInput, TooLarge

from .limits import ReadLimits

__all__ = ["AvroField", "AvroType", "parse_schema"]

PRIMITIVES: Final = frozenset({"null", "boolean", "int", "long", "float", "double", "bytes", "string"})


@dataclass(frozen=True, slots=True, eq=False)
class AvroType:
    """One type. The kind determines which attributes are used."""

    kind: str
    logical: str | None = None
    scale: int = 0
    size: int = 0
    fields: tuple[AvroField, ...] = ()
    inner: tuple[AvroType, ...] = ()
    """The items of an array, the values of a map, the branches of a union."""
    is_empty: bool = False
    """Whether its values take no bytes."""
    height: int = 1
    weight: int = 1
    """The number of types it consists of; a repeated type counts each time."""

    @property
    def parts(self) -> tuple[AvroType, ...]:
        """The types it directly consists of."""
        return self.inner or tuple(field.type for field in self.fields)

    @property
    def required(self) -> AvroType | None:
        """The type itself, or the other branch of a union with null; None for other unions."""
        if self.kind != "union":
            return self
        others = [branch for branch in self.inner if branch.kind != "null"]
        return others[0] if len(others) == 1 and others[0].kind != "union" else None


@dataclass(frozen=True, slots=True, eq=False)
class AvroField:
    """A field of a record."""

    name: str
    field_id: int | None
    type: AvroType


def parse_schema(text: bytes, limits: ReadLimits) -> AvroType:
    """Parse a schema. Raises InvalidInput, TooLarge."""
    try:
        document = msgspec.json.decode(text)
    except (msgspec.DecodeError, RecursionError, UnicodeDecodeError) as broken:
        raise InvalidInput("avro schema is not json") from broken
    return _Resolver(limits).resolve(document, 0)


class _Resolver:
    def __init__(self, limits: ReadLimits) -> None:
        self._limits = limits
        self._named: dict[str, AvroType | None] = {}
        """Named types; None while the definition is being parsed."""

    def resolve(self, document: Any, depth: int) -> AvroType:
        if depth > self._limits.nesting:
            raise TooLarge(f"avro schema is nested too deeply. maximum={self._limits.nesting}")
        if isinstance(document, str):
            return self._by_name(document)
        if isinstance(document, list):
            branches = tuple(self.resolve(branch, depth + 1) for branch in document)
            if not branches:
                raise InvalidInput("avro union has no branches")
            return self._measured(AvroType("union", inner=branches))
        if not isinstance(document, dict):
            raise InvalidInput(f"avro schema has an invalid type. value={str(document)[:40]!r}")
        kind = document.get("type")
        match kind:
            case "record" | "error":
                return self._record(document, depth)
            case "fixed":
                size = document.get("size")
                if not isinstance(size, int) or size < 0:
                    raise InvalidInput("avro fixed type has no size")
                fixed = AvroType("fixed", _logical(document), _scale(document), size, is_empty=size == 0)
                self._named[_name(document)] = fixed
                return fixed
            case "enum":
                enum = AvroType("enum")
                self._named[_name(document)] = enum
                return enum
            case "array" | "map":
                inner = self.resolve(document.get("items" if kind == "array" else "values"), depth + 1)
                if inner.is_empty:
                    raise InvalidInput("avro collection has items that take no bytes")
                return self._measured(AvroType(kind, inner=(inner,)))
            case str() if kind in PRIMITIVES:
                return AvroType(kind, _logical(document), _scale(document), is_empty=kind == "null")
            case _:
                return self.resolve(kind, depth + 1)

    def _by_name(self, name: str) -> AvroType:
        if name in PRIMITIVES:
            return AvroType(name, is_empty=name == "null")
        found = self._named.get(name.rpartition(".")[2])
        if found is None:
            reason = "contains itself" if name.rpartition(".")[2] in self._named else "is not defined"
            raise InvalidInput(f"avro type {reason}. name={name[:80]!r}")
        return found

    def _record(self, document: dict[str, Any], depth: int) -> AvroType:
        name = _name(document)
        described = document.get("fields")
        if not isinstance(described, list):
            raise InvalidInput(f"avro record has no fields. name={name[:80]!r}")
        self._named[name] = None
        fields: list[AvroField] = []
        for one in described:
            if not isinstance(one, dict) or not isinstance(one.get("name"), str):
                raise InvalidInput(f"avro record has a field without a name. name={name[:80]!r}")
            field_id = one.get("field-id")
            if not isinstance(field_id, int):
                field_id = None
            fields.append(AvroField(one["name"], field_id, self.resolve(one.get("type"), depth + 1)))
        is_empty = all(one.type.is_empty for one in fields)
        record = self._measured(AvroType("record", fields=tuple(fields), is_empty=is_empty))
        self._named[name] = record
        return record

    def _measured(self, made: AvroType) -> AvroType:
        height = 1 + max((part.height for part in made.parts), default=0)
        weight = 1 + sum(part.weight for part in made.parts)
        if height > self._limits.nesting or weight > self._limits.schema_types:
            raise TooLarge("avro schema is nested too deeply, or has too many types")
        return replace(made, height=height, weight=weight)


def _name(document: dict[str, Any]) -> str:
    # Namespaces are ignored: the names in a manifest are distinct without them.
    name = document.get("name")
    if not isinstance(name, str):
        raise InvalidInput("avro type has no name")
    return name.rpartition(".")[2]


def _logical(document: dict[str, Any]) -> str | None:
    logical = document.get("logicalType")
    return logical if isinstance(logical, str) else None


def _scale(document: dict[str, Any]) -> int:
    scale = document.get("scale")
    return scale if isinstance(scale, int) and 0 <= scale <= 38 else 0
