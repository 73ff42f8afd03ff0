"""What a query can ask of an object, whatever its format: which fields there are, and what they hold."""

from __future__ import annotations

from dataclasses import dataclass
from enum import Enum, auto
from typing import Final, Protocol

from ..dialect.paths import Path


class SqlKind(Enum):
    """What an expression is. DataFusion has a type for each; the last four are text to it."""

    NULL = auto()
    BOOL = auto()
    INT = auto()
    FLOAT = auto()
    DECIMAL = auto()
    TEXT = auto()
    TIMESTAMP = auto()
    """A timestamp as S3 Select writes it: it keeps its precision and its offset, which no type of DataFusion does."""
    JSON = auto()
    """Any value, as JSON."""
    RECORD = auto()
    """A whole record of a format without columns, as JSON."""


NUMBERS: Final = frozenset({SqlKind.INT, SqlKind.FLOAT, SqlKind.DECIMAL})


class ReadAs(Enum):
    """What a field is wanted as. A format with types of its own gives what it has, and it is cast."""

    ANY = auto()
    TEXT = auto()
    NUMBER = auto()
    """Whole, if it is found to be."""
    FLOAT = auto()
    BOOL = auto()


@dataclass(frozen=True, slots=True)
class Field:
    """A field that was found."""

    label: str
    """What it is called where records are written with names."""
    kind: SqlKind
    """What it holds by itself: of a format without types, as far as that was looked."""
    path: Path = ()


@dataclass(frozen=True, slots=True)
class ScanColumn:
    """A field as DataFusion sees it."""

    name: str
    kind: SqlKind


class Relation(Protocol):
    """An object as records with fields."""

    @property
    def prunes(self) -> bool:
        """Whether comparisons of a field with a constant spare reading parts of the object."""
        ...

    def knows(self, path: Path) -> bool:
        """Whether there is such a field for sure."""
        ...

    def field(self, path: Path) -> Field:
        """The field that a path names. Raises SelectError: unknown, ambiguous, out of range."""
        ...

    def fields(self) -> tuple[Field, ...]:
        """All of them, for `*`."""
        ...

    def column(self, field: Field, view: ReadAs) -> ScanColumn:
        """The column that has the field; it is read because it was asked for."""
        ...

    def presence(self, field: Field) -> str | None:
        """The name of a column that says whether the field is there, or None where every record has it."""
        ...
