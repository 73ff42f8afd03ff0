"""Reads blocks of JSON lines with typed decoders, if each field is present with one kind in the whole block.

A typed decoder skips other fields and creates columns without inspecting each value. A block with a missing field or
another kind than in the sample is read by `json_relation.py`, which handles everything.
"""

from __future__ import annotations

from array import array
from collections.abc import Callable
from dataclasses import dataclass
from operator import attrgetter
from typing import Any, Final

import msgspec
import pyarrow as pa

from ..dialect.paths import FieldName
from ..execution.relation import ReadAs, SqlKind
from ..output.values import quoted_texts
from .value_columns import ValueColumns

_TYPES: Final = {
    SqlKind.INT: pa.int64(),
    SqlKind.FLOAT: pa.float64(),
    SqlKind.TEXT: pa.string(),
    SqlKind.BOOL: pa.bool_(),
}
_VALUES: Final[dict[SqlKind, type]] = {
    SqlKind.INT: int,
    SqlKind.FLOAT: float,
    SqlKind.TEXT: str,
    SqlKind.BOOL: bool,
}
_NUMBERS: Final = (SqlKind.INT, SqlKind.FLOAT)

Make = Callable[[pa.Array], pa.Array]
"""Converts a field's column to a requested one."""


@dataclass(frozen=True, slots=True)
class TypedLineReader:
    """Reads some columns of blocks of JSON lines."""

    wanted: list[str]
    _decoder: msgspec.json.Decoder[Any]
    _fields: list[tuple[Callable[[object], object], pa.DataType]]
    """Extracts each field from a record, with its type."""
    _columns: list[tuple[int, Make]]
    """For each column, the number of its field."""

    def read(self, block: bytes) -> pa.RecordBatch | None:
        """The columns; None for a block that needs the general reader."""
        try:
            records = self._decoder.decode_lines(block)
            fields = [_array(list(map(take, records)), type_) for take, type_ in self._fields]
        except (msgspec.DecodeError, UnicodeDecodeError, RecursionError, pa.ArrowException, OverflowError):
            return None
        return pa.RecordBatch.from_arrays([make(fields[number]) for number, make in self._columns], names=self.wanted)


def typed_lines(columns: ValueColumns, wanted: list[str]) -> TypedLineReader | None:
    """A reader of these columns, or None if a column's field does not have one kind."""
    found: list[tuple[int, Make]] = []
    kinds: dict[str, SqlKind] = {}
    for name in wanted:
        requested = columns.requested(name)
        step = requested.path[0] if len(requested.path) == 1 else None
        make = _make(requested.view, requested.kind, requested.type)
        if make is None or not isinstance(step, FieldName) or not step.quoted:
            return None
        kinds[step.text] = requested.kind
        found.append((list(kinds).index(step.text), make))
    if not found:
        return None
    shape = msgspec.defstruct(
        "Record",
        [(f"f{number}", _VALUES[kind] | None) for number, kind in enumerate(kinds.values())],
        rename={f"f{number}": name for number, name in enumerate(kinds)},
        gc=False,
    )
    fields: list[tuple[Callable[[object], object], pa.DataType]] = [
        (attrgetter(f"f{number}"), _TYPES[kind]) for number, kind in enumerate(kinds.values())
    ]
    return TypedLineReader(wanted, msgspec.json.Decoder(shape), fields, found)


def _array(values: list[Any], type_: pa.DataType) -> pa.Array:
    if pa.types.is_int64(type_):
        try:
            return pa.Array.from_buffers(type_, len(values), [None, pa.py_buffer(array("q", values))])
        except TypeError:
            pass  # contains nulls, which take a bit longer
    return pa.array(values, type_)


def _make(view: ReadAs | None, kind: SqlKind, wanted: pa.DataType) -> Make | None:
    match view:
        case None if kind in _TYPES:
            return _presence
        case ReadAs.ANY if kind is SqlKind.TEXT:
            return quoted_texts
        case ReadAs.TEXT if kind is SqlKind.TEXT:
            return _itself
        case ReadAs.BOOL if kind is SqlKind.BOOL:
            return _itself
        # Floats are excluded: the original text must be kept, such as 1.0.
        case ReadAs.ANY | ReadAs.TEXT if kind in (SqlKind.INT, SqlKind.BOOL):
            return lambda field: field.cast(pa.string())
        case ReadAs.NUMBER | ReadAs.FLOAT if kind in _NUMBERS:
            # Unsafe casts, because the largest integers are rounded, as in the general reader.
            return lambda field: field.cast(wanted, safe=False)
        case _:
            return None


def _itself(field: pa.Array) -> pa.Array:
    return field


def _presence(field: pa.Array) -> pa.Array:
    return pa.repeat(True, len(field))
