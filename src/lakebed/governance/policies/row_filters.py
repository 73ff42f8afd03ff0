"""Row filters, and how they are read from the JSON of Iceberg's expressions over named columns. Pure.

A row is shown if the filter is true for it. As in SQL, a comparison with a value that is missing is neither true nor
false, and so is its negation: rows without the value are hidden unless `is-null` asks for them. Terms are columns and
nothing else: a transform in a filter that others rely on would have to mean the same to every engine.
"""

from __future__ import annotations

import math
from dataclasses import dataclass
from enum import StrEnum
from typing import Final, TypeAlias

from .documents import Json, Steps, fault

MAX_PARTS: Final = 2000
"""Most conditions and values of one filter."""

Value: TypeAlias = bool | int | float | str
"""A value as JSON has it. Which type it is of is the column's to say."""


class Relation(StrEnum):
    """What is asked of a column, named as JSON names it."""

    IS_NULL = "is-null"
    NOT_NULL = "not-null"
    IS_NAN = "is-nan"
    NOT_NAN = "not-nan"
    LT = "lt"
    LT_EQ = "lt-eq"
    GT = "gt"
    GT_EQ = "gt-eq"
    EQ = "eq"
    NOT_EQ = "not-eq"
    STARTS_WITH = "starts-with"
    NOT_STARTS_WITH = "not-starts-with"
    IN = "in"
    NOT_IN = "not-in"


_UNARY: Final = frozenset({Relation.IS_NULL, Relation.NOT_NULL, Relation.IS_NAN, Relation.NOT_NAN})
_SETS: Final = frozenset({Relation.IN, Relation.NOT_IN})
_RELATIONS: Final = {relation.value: relation for relation in Relation}
_WORDS: Final = ("and", "or", "not", *_RELATIONS)


@dataclass(frozen=True, slots=True)
class Constant:
    """True or false for every row."""

    value: bool


@dataclass(frozen=True, slots=True)
class Condition:
    """A claim about one column, which is named by its full name: `address.street`."""

    relation: Relation
    column: str
    values: tuple[Value, ...] = ()


@dataclass(frozen=True, slots=True)
class AllOf:
    """Each of them."""

    operands: tuple[RowFilter, ...]


@dataclass(frozen=True, slots=True)
class AnyOf:
    """One of them at least."""

    operands: tuple[RowFilter, ...]


@dataclass(frozen=True, slots=True)
class NotSo:
    """The contrary."""

    operand: RowFilter


RowFilter: TypeAlias = Constant | Condition | AllOf | AnyOf | NotSo

NOTHING: Final = Constant(False)
"""Hides every row."""


def read_filter(document: Json, at: Steps) -> RowFilter:
    """The filter in a document. Raises InvalidPolicy with the JSON path of what is wrong."""
    reader = _Reader()
    found = reader.read(document, at)
    if reader.parts > MAX_PARTS:
        raise fault(at, f"has at most {MAX_PARTS} conditions and values", reader.parts)
    return found


class _Reader:
    def __init__(self) -> None:
        self.parts = 0

    def read(self, document: Json, at: Steps) -> RowFilter:
        self.parts += 1
        if isinstance(document, bool):
            return Constant(document)
        if not isinstance(document, dict):
            raise fault(at, "must be an expression: an object with a type, or true or false", document)
        kind = document.get("type")
        if kind in ("and", "or"):
            _only(document, at, "left", "right")
            sides = tuple(self.read(document.get(side), (*at, side)) for side in ("left", "right"))
            return AllOf(sides) if kind == "and" else AnyOf(sides)
        if kind == "not":
            _only(document, at, "child")
            return NotSo(self.read(document.get("child"), (*at, "child")))
        relation = _RELATIONS.get(kind) if isinstance(kind, str) else None
        if relation is None:
            raise fault((*at, "type"), f"must be one of {', '.join(_WORDS)}", kind)
        return self._condition(relation, document, at)

    def _condition(self, relation: Relation, document: dict[str, Json], at: Steps) -> Condition:
        term = document.get("term")
        if not isinstance(term, str) or not term:
            raise fault((*at, "term"), "must be the name of a column", term)
        if relation in _UNARY:
            _only(document, at, "term")
            return Condition(relation, term)
        if relation in _SETS:
            _only(document, at, "term", "values")
            values = document.get("values")
            if not isinstance(values, list) or not values:
                raise fault((*at, "values"), "must be a list of values that is not empty", values)
        else:
            _only(document, at, "term", "value")
            values = [document.get("value")]
        self.parts += len(values)
        where = "values" if relation in _SETS else "value"
        for value in values:
            read_value(value, (*at, where))
        if relation in (Relation.STARTS_WITH, Relation.NOT_STARTS_WITH) and not isinstance(values[0], str):
            raise fault((*at, "value"), "must be a text", values[0])
        return Condition(relation, term, tuple(values))


def read_value(value: Json, at: Steps) -> Value:
    """A single value. Raises InvalidPolicy with its JSON path."""
    if not isinstance(value, bool | int | float | str) or (isinstance(value, float) and not math.isfinite(value)):
        raise fault(at, "must be a text, a number, or true or false", value)
    return value


def _only(document: dict[str, Json], at: Steps, *keys: str) -> None:
    for key in document:
        if key != "type" and key not in keys:
            raise fault((*at, key), f"no such key here; there are type, {', '.join(keys)}")
