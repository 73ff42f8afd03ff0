"""Paths into a record, such as `a.b[1].c`, and paths after FROM, which may have wildcards."""

from __future__ import annotations

from collections.abc import Iterator, Mapping, Sequence
from dataclasses import dataclass
from typing import Final


@dataclass(frozen=True, slots=True)
class FieldName:
    """A field by name. Quoted names match exactly, others case-insensitively."""

    text: str
    quoted: bool = False

    def matches(self, name: str) -> bool:
        """Whether a field name matches."""
        return name == self.text if self.quoted else name.casefold() == self.text.casefold()


@dataclass(frozen=True, slots=True)
class Index:
    """An element of a list, counted from 0."""

    number: int


@dataclass(frozen=True, slots=True)
class PathWildcard:
    """All elements of a list, or the values of all fields."""

    fields: bool = False


Step = FieldName | Index | PathWildcard
Path = tuple[Step, ...]


class Missing:
    """The result of a path without a match. Different from null, which is a value."""

    __slots__ = ()

    def __repr__(self) -> str:
        return "MISSING"

    def __bool__(self) -> bool:
        return False


MISSING: Final = Missing()


def follow(value: object, path: Sequence[Step]) -> object:
    """The value at a path without wildcards in a decoded value."""
    for step in path:
        if isinstance(step, FieldName):
            if not isinstance(value, Mapping):
                return MISSING
            value = _field(value, step)
        elif isinstance(step, Index):
            if not isinstance(value, list) or not 0 <= step.number < len(value):
                return MISSING
            value = value[step.number]
        else:
            return MISSING
        if value is MISSING:
            return MISSING
    return value


def unfold(value: object, path: Sequence[Step]) -> Iterator[object]:
    """The records at a path with wildcards in a decoded value: at least one, which may be MISSING."""
    for number, step in enumerate(path):
        if isinstance(step, PathWildcard):
            rest = path[number + 1 :]
            elements = _elements(value, step)
            if not elements:
                yield MISSING
            for element in elements:
                yield from unfold(element, rest)
            return
        value = follow(value, (step,))
    yield value


def _elements(value: object, step: PathWildcard) -> list[object]:
    if step.fields:
        return list(value.values()) if isinstance(value, Mapping) else []
    return value if isinstance(value, list) else []


def _field(value: Mapping[str, object], step: FieldName) -> object:
    found = value.get(step.text, MISSING)
    if found is not MISSING or step.quoted:
        return found
    folded = step.text.casefold()
    return next((content for name, content in value.items() if name.casefold() == folded), MISSING)
