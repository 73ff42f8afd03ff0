"""The interface of an object's fields for queries, independent of its format."""

from __future__ import annotations

from dataclasses import dataclass
from enum import Enum, auto
from typing import Final, Protocol

from ..dialect.paths import Path


class SqlKind(Enum):
    """The kind of an expression. DataFusion has a type for each; the last four are text there."""

    NULL = auto()
    BOOL = auto()
    INT = auto()
    FLOAT = auto()
    DECIMAL = auto()
    TEXT = auto()
    TIMESTAMP = auto()
    """A timestamp as text, because no DataFusion type keeps its precision and offset."""
    JSON = auto()
    """Any value, as JSON."""
    RECORD = auto()
    """A whole record of a format without columns, as JSON."""


NUMBERS: Final = frozenset({SqlKind.INT, SqlKind.FLOAT, SqlKind.DECIMAL})


class ReadAs(Enum):
    """How to read a field. A format with types returns its own type, which is then cast."""

    ANY = auto()
    TEXT = auto()
    NUMBER = auto()
    """An integer if the sample suggests it."""
    FLOAT = auto()
    BOOL = auto()


@dataclass(frozen=True, slots=True)
class Field:
    """A field of a record."""

    label: str
    """Its name in outputs with names."""
    kind: SqlKind
    """Its kind; for formats without types, by a sample."""
    path: Path = ()


@dataclass(frozen=True, slots=True)
class ScanColumn:
    """A column of a scan."""

    name: str
    kind: SqlKind


class Relation(Protocol):
    """An object as records with fields."""

    @property
    def prunes(self) -> bool:
        """Whether comparisons of a field with a constant can skip parts of the object."""
        ...

    def has_field(self, path: Path) -> bool:
        """Whether such a field certainly exists."""
        ...

    def field(self, path: Path) -> Field:
        """The field at a path. Raises SelectError if it is unknown, ambiguous or out of range."""
        ...

    def fields(self) -> tuple[Field, ...]:
        """All fields, for `*`."""
        ...

    def column(self, field: Field, view: ReadAs) -> ScanColumn:
        """The column for a field, which the scan then reads."""
        ...

    def presence(self, field: Field) -> str | None:
        """The name of a column that shows whether the field is present; None if every record has it."""
        ...
