"""Lines of JSON as columns of Arrow, where each field is of one kind in all of a block.

Arrow's reader makes no objects of Python on the way and lets other threads run. It knows only the kind that it was told
to find, and not the difference between a field that is null and one that is missing: a block where that shows is read
by `json_input.py`, which knows all of it.
"""

from __future__ import annotations

from collections.abc import Callable
from dataclasses import dataclass
from typing import Final

import pyarrow as pa
from pyarrow import json

from .paths import Name
from .relation import Kind, View
from .value_columns import ValueColumns
from .written_values import quoted_texts

_TYPES: Final = {Kind.INT: pa.int64(), Kind.FLOAT: pa.float64(), Kind.TEXT: pa.string(), Kind.BOOL: pa.bool_()}
_NUMBERS: Final = (Kind.INT, Kind.FLOAT)

Make = Callable[[pa.Array], pa.Array | None]
"""A column as it is wanted, of the field as it was read; None where it takes more than that to tell."""


@dataclass(frozen=True, slots=True)
class TypedLines:
    """Reads some columns of blocks of lines."""

    wanted: list[str]
    _options: json.ParseOptions
    _columns: list[tuple[str, Make]]
    """Of each column, the field that it is of."""

    def read(self, block: bytes) -> pa.RecordBatch | None:
        """The columns; None for a block that has to be read otherwise."""
        try:
            table = json.read_json(
                pa.BufferReader(block), json.ReadOptions(use_threads=False, block_size=len(block) + 1), self._options
            )
        except pa.ArrowException:
            return None
        if table.num_rows != block.count(b"\n") + (not block.endswith(b"\n")):
            # Several values in a line, or one in several.
            return None
        fields = {name: table[name].combine_chunks() for name in {name for name, _ in self._columns}}
        try:
            for field in fields.values():
                field.validate(full=True)  # UTF-8
        except pa.ArrowException:
            return None
        made = [make(fields[name]) for name, make in self._columns]
        if any(column is None for column in made):
            return None
        return pa.RecordBatch.from_arrays(made, names=self.wanted)


def typed_lines(columns: ValueColumns, wanted: list[str]) -> TypedLines | None:
    """A reader of these columns, or None if one of them is not of a field of one kind."""
    found: list[tuple[str, Make]] = []
    types: dict[str, pa.DataType] = {}
    for name in wanted:
        asked = columns.asked(name)
        step = asked.path[0] if len(asked.path) == 1 else None
        make = _make(asked.view, asked.kind, asked.type)
        if make is None or not isinstance(step, Name) or not step.quoted:
            return None
        types[step.text] = _TYPES[asked.kind]
        found.append((step.text, make))
    if not found:
        return None
    options = json.ParseOptions(explicit_schema=pa.schema(types), unexpected_field_behavior="ignore")
    return TypedLines(wanted, options, found)


def _make(view: View | None, kind: Kind, wanted: pa.DataType) -> Make | None:
    match view:
        case None if kind in _TYPES:
            return _presence
        case View.ANY if kind is Kind.TEXT:
            return quoted_texts
        case View.TEXT if kind is Kind.TEXT:
            return _itself
        case View.BOOL if kind is Kind.BOOL:
            return _itself
        # Fractions are written by others: a 1.0 is to stay one.
        case View.ANY | View.TEXT if kind in (Kind.INT, Kind.BOOL):
            return lambda field: field.cast(pa.string())
        case View.NUMBER | View.FLOAT if kind in _NUMBERS:
            return lambda field: field.cast(wanted)
        case _:
            return None


def _itself(field: pa.Array) -> pa.Array:
    return field


def _presence(field: pa.Array) -> pa.Array | None:
    return None if field.null_count else pa.repeat(True, len(field))
