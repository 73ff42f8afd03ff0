"""Data types of columns, and their JSON.

A type is a value: its root, its nullability, and the parameters of its root. A type object is always valid: the
constructor raises INVALID_TABLE.
"""

from __future__ import annotations

from collections.abc import Callable, Mapping, Sequence
from dataclasses import dataclass, replace
from enum import StrEnum
from typing import Any, Final

from .errors import ErrorCode, FlussError

__all__ = ["BYTE_STRINGS", "TEXTS", "TIMESTAMPS", "DataType", "RowField", "TypeRoot", "parse_type", "write_type"]

MAX_LENGTH: Final = 2**31 - 1
MAX_DECIMAL_PRECISION: Final = 38
MAX_TIME_PRECISION: Final = 9
_MAX_DEPTH: Final = 64  # of nesting, so that a malicious document cannot overflow the stack


class TypeRoot(StrEnum):
    """The kind of a type, by its name in documents."""

    BOOLEAN = "BOOLEAN"
    TINYINT = "TINYINT"
    SMALLINT = "SMALLINT"
    INT = "INTEGER"
    BIGINT = "BIGINT"
    FLOAT = "FLOAT"
    DOUBLE = "DOUBLE"
    CHAR = "CHAR"
    STRING = "STRING"
    DECIMAL = "DECIMAL"
    DATE = "DATE"
    TIME = "TIME_WITHOUT_TIME_ZONE"
    TIMESTAMP = "TIMESTAMP_WITHOUT_TIME_ZONE"
    TIMESTAMP_LTZ = "TIMESTAMP_WITH_LOCAL_TIME_ZONE"
    BYTES = "BYTES"
    BINARY = "BINARY"
    ARRAY = "ARRAY"
    MAP = "MAP"
    ROW = "ROW"


TEXTS: Final = frozenset({TypeRoot.STRING, TypeRoot.CHAR})
BYTE_STRINGS: Final = TEXTS | {TypeRoot.BYTES, TypeRoot.BINARY}
TIMESTAMPS: Final = frozenset({TypeRoot.TIMESTAMP, TypeRoot.TIMESTAMP_LTZ})

_SIZED: Final = frozenset({TypeRoot.CHAR, TypeRoot.BINARY})
_TIMED: Final = {TypeRoot.TIME: 0, TypeRoot.TIMESTAMP: 6, TypeRoot.TIMESTAMP_LTZ: 6}
_NESTED: Final = frozenset({TypeRoot.ARRAY, TypeRoot.MAP, TypeRoot.ROW})
_NAMES: Final = {root.value: root for root in TypeRoot}


@dataclass(frozen=True, slots=True)
class RowField:
    """One field of a ROW. `field_id` is None only until its schema assigns one."""

    name: str
    type: DataType
    field_id: int | None = None
    description: str | None = None


@dataclass(frozen=True, slots=True)
class DataType:
    """A type. `precision` and `length` have their defaults filled in where the root has them."""

    root: TypeRoot
    is_nullable: bool = True
    length: int | None = None
    precision: int | None = None
    scale: int | None = None
    element: DataType | None = None
    key: DataType | None = None
    value: DataType | None = None
    fields: tuple[RowField, ...] = ()

    def __post_init__(self) -> None:
        root = self.root
        if root in _SIZED:
            self._fill("length", 1)
            _check_within(root, "length", self.length, 1, MAX_LENGTH)
        elif root is TypeRoot.DECIMAL:
            self._fill("precision", 10)
            self._fill("scale", 0)
            _check_within(root, "precision", self.precision, 1, MAX_DECIMAL_PRECISION)
            _check_within(root, "scale", self.scale, 0, self.precision or 0)
        elif root in _TIMED:
            self._fill("precision", _TIMED[root])
            _check_within(root, "precision", self.precision, 0, MAX_TIME_PRECISION)
        elif root is TypeRoot.ARRAY:
            _check_present(root, "element", self.element)
        elif root is TypeRoot.MAP:
            _check_present(root, "key", self.key)
            _check_present(root, "value", self.value)
        elif root is TypeRoot.ROW:
            names = [field.name for field in self.fields]
            if not names or len(set(names)) != len(names):
                raise _invalid(f"a ROW needs at least one field, with unique names. fields={names}")

    def _fill(self, name: str, default: int) -> None:
        if getattr(self, name) is None:
            object.__setattr__(self, name, default)

    @property
    def is_nested(self) -> bool:
        """Whether it contains other types. Such a column cannot be part of a key."""
        return self.root in _NESTED

    @property
    def is_compact_decimal(self) -> bool:
        """Whether rows store its unscaled value in 64 bits."""
        return (self.precision or 0) <= 18

    @property
    def is_compact_timestamp(self) -> bool:
        """Whether rows store it as milliseconds only."""
        return (self.precision or 0) <= 3

    def of(self, *, is_nullable: bool) -> DataType:
        """The same type with this nullability."""
        return self if self.is_nullable is is_nullable else replace(self, is_nullable=is_nullable)

    def numbered(self, next_id: Callable[[], int]) -> DataType:
        """The same type with ids assigned to nested fields that have none."""
        if self.root is TypeRoot.ROW:
            fields = []
            for field in self.fields:
                field_id = next_id() if field.field_id is None else field.field_id
                fields.append(replace(field, field_id=field_id, type=field.type.numbered(next_id)))
            return replace(self, fields=tuple(fields))
        if self.element is not None:
            return replace(self, element=self.element.numbered(next_id))
        if self.key is not None and self.value is not None:
            return replace(self, key=self.key.numbered(next_id), value=self.value.numbered(next_id))
        return self

    def nested_ids(self) -> list[int]:
        """The ids of all nested fields."""
        found: list[int] = []
        for field in self.fields:
            if field.field_id is not None:
                found.append(field.field_id)
            found += field.type.nested_ids()
        for part in (self.element, self.key, self.value):
            if part is not None:
                found += part.nested_ids()
        return found

    def __str__(self) -> str:
        return _spelled(self) + ("" if self.is_nullable else " NOT NULL")


def parse_type(document: object, _depth: int = 0) -> DataType:
    """Parse a `data_type` document. Raises INVALID_TABLE."""
    if _depth > _MAX_DEPTH:
        raise _invalid(f"type is nested too deeply. maximum={_MAX_DEPTH}")
    if not isinstance(document, Mapping):
        raise _invalid("type is not a JSON object")
    root = _NAMES.get(str(document.get("type")))
    if root is None:
        raise _invalid(f"unknown type. type={document.get('type')}")

    def part(name: str) -> DataType | None:
        return parse_type(document[name], _depth + 1) if document.get(name) is not None else None

    return DataType(
        root,
        is_nullable=document.get("nullable", True) is not False,
        length=_number(document, "length") if root in _SIZED else None,
        precision=_number(document, "precision") if root in _TIMED or root is TypeRoot.DECIMAL else None,
        scale=_number(document, "scale") if root is TypeRoot.DECIMAL else None,
        element=part("element_type") if root is TypeRoot.ARRAY else None,
        key=part("key_type") if root is TypeRoot.MAP else None,
        value=part("value_type") if root is TypeRoot.MAP else None,
        fields=tuple(_parse_fields(document.get("fields"), _depth)) if root is TypeRoot.ROW else (),
    )


def write_type(type_: DataType) -> dict[str, Any]:
    """The `data_type` document of a type; the inverse of `parse_type`."""
    document: dict[str, Any] = {"type": type_.root.value}
    if not type_.is_nullable:
        document["nullable"] = False
    for name in ("length", "precision", "scale"):
        number = getattr(type_, name)
        if number is not None:
            document[name] = number
    for name, part in (("element_type", type_.element), ("key_type", type_.key), ("value_type", type_.value)):
        if part is not None:
            document[name] = write_type(part)
    if type_.fields:
        document["fields"] = [_write_field(field) for field in type_.fields]
    return document


def _parse_fields(documents: object, depth: int) -> Sequence[RowField]:
    if not isinstance(documents, list):
        raise _invalid("ROW has no list of fields")
    fields = []
    for document in documents:
        if not isinstance(document, Mapping) or not isinstance(document.get("name"), str):
            raise _invalid("ROW field has no name")
        description = document.get("description")
        fields.append(
            RowField(
                name=document["name"],
                type=parse_type(document.get("field_type"), depth + 1),
                field_id=_field_id(document),
                description=None if description is None else str(description),
            )
        )
    return fields


def _write_field(field: RowField) -> dict[str, Any]:
    document: dict[str, Any] = {"name": field.name, "field_type": write_type(field.type)}
    if field.description is not None:
        document["description"] = field.description
    if field.field_id is not None:
        document["field_id"] = field.field_id
    return document


def _field_id(document: Mapping[str, object]) -> int | None:
    found = _number(document, "field_id")
    return None if found is None or found < 0 else found  # clients write -1 for an unassigned id


def _number(document: Mapping[str, object], name: str) -> int | None:
    found = document.get(name)
    if found is None:
        return None
    if not isinstance(found, int) or isinstance(found, bool):
        raise _invalid(f"{name} of a type is not an integer. {name}={found}")
    return found


def _spelled(type_: DataType) -> str:
    root = type_.root
    if root in _SIZED:
        return f"{root.name}({type_.length})"
    if root is TypeRoot.DECIMAL:
        return f"DECIMAL({type_.precision}, {type_.scale})"
    if root in _TIMED:
        return f"{root.name}({type_.precision})"
    if root is TypeRoot.ARRAY:
        return f"ARRAY<{type_.element}>"
    if root is TypeRoot.MAP:
        return f"MAP<{type_.key}, {type_.value}>"
    if root is TypeRoot.ROW:
        return "ROW<" + ", ".join(f"{field.name} {field.type}" for field in type_.fields) + ">"
    return root.name


def _check_within(root: TypeRoot, name: str, found: int | None, least: int, most: int) -> None:
    if found is None or not least <= found <= most:
        raise _invalid(f"{name} of {root.name} out of range. {name}={found} minimum={least} maximum={most}")


def _check_present(root: TypeRoot, name: str, found: DataType | None) -> None:
    if found is None:
        raise _invalid(f"{root.name} has no {name} type")


def _invalid(message: str) -> FlussError:
    return FlussError(ErrorCode.INVALID_TABLE, message)
