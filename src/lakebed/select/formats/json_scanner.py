"""Reads blocks of JSON lines with `json_lines.c`, if the package was built with a C compiler.

A block is scanned once for the requested fields, with the GIL released. The scanner only accepts plain cases: other
records are left to the fallback, `json_relation.py`, as are whole blocks that may be invalid. Without the library, all
blocks are read there (ADR 26).
"""

from __future__ import annotations

import ctypes
import functools
import logging
import re
from array import array
from collections.abc import Sequence
from dataclasses import dataclass
from pathlib import Path as File
from typing import Final, NamedTuple

import pyarrow as pa

from ..dialect.paths import FieldName, Path
from ..execution.relation import ReadAs
from .value_columns import ValueColumns

log = logging.getLogger("lakebed.select")

LIBRARY: Final = File(__file__).with_name("_json_lines.so")
"""The compiled `json_lines.c`, if the build could compile it."""

RECORD_COLUMN: Final = "r"
"""The column with the text of whole records."""

_PRESENCE, _AS_JSON, _AS_TEXT, _AS_INT, _AS_FLOAT, _AS_BOOL = range(6)
_CELL_BYTES: Final = 12
_MAX_FALLBACK: Final = 4
"""If more than one in this many records needs the fallback, the whole block is read there."""


class _Step(ctypes.Structure):
    _fields_ = (
        ("name", ctypes.c_char_p),
        ("length", ctypes.c_uint32),
        ("field", ctypes.c_int32),
        ("first", ctypes.c_int32),
        ("next", ctypes.c_int32),
    )


class JsonLibrary:
    """The functions of `json_lines.c`, with types."""

    def __init__(self, path: File) -> None:
        """Raises OSError or AttributeError if this is not the expected library."""
        library = ctypes.CDLL(str(path))
        address, size = ctypes.c_void_p, ctypes.c_size_t
        self.count = library.lakebed_json_count
        self.count.argtypes = (ctypes.c_char_p, size)
        self.count.restype = size
        self.scan = library.lakebed_json_scan
        self.scan.argtypes = (ctypes.c_char_p, size, address, size, address, size, address, address, address)
        self.scan.restype = ctypes.c_int64
        self.column = library.lakebed_json_column
        self.column.argtypes = (ctypes.c_int32, ctypes.c_char_p, address, size, address, address, address, address)
        self.column.restype = ctypes.c_int64


@functools.cache
def load_library(path: File = LIBRARY) -> JsonLibrary | None:
    """The library, if it was built."""
    try:
        return JsonLibrary(path)
    except (OSError, AttributeError):
        log.info("JSON lines are read by one thread: the package was built without a C compiler")
        return None


class Scanned(NamedTuple):
    """The scanned records of a block."""

    batch: pa.RecordBatch
    """All records; the values of those that need the fallback are arbitrary."""
    fallback: Sequence[int]
    """The numbers of records that need the fallback."""
    lines: bytes
    """The text of those records."""

    def with_fallback(self, others: pa.RecordBatch) -> pa.RecordBatch:
        """All records, with those of the fallback from `others`."""
        order = array("q", range(len(self.batch)))
        for place, number in enumerate(self.fallback, len(self.batch)):
            order[number] = place
        taken = pa.Array.from_buffers(pa.int64(), len(order), [None, pa.py_buffer(order)])
        columns = zip(self.batch.columns, others.columns, strict=True)
        return pa.RecordBatch.from_arrays(
            [pa.concat_arrays(pair).take(taken) for pair in columns], names=self.batch.schema.names
        )


class _Column(NamedTuple):
    name: str
    field: int
    view: int
    type: pa.DataType


@dataclass(frozen=True, slots=True)
class LineScanner:
    """Reads some columns of blocks of JSON lines. Thread-safe."""

    _library: JsonLibrary
    _steps: ctypes.Array[_Step]
    _fields: int
    _columns: list[_Column]

    def read(self, block: bytes) -> Scanned | None:
        """The columns; None for a block that needs the general reader."""
        capacity = self._library.count(block, len(block))
        cells = pa.allocate_buffer(self._fields * capacity * _CELL_BYTES)
        totals = pa.allocate_buffer(self._fields * 8)
        lines = pa.allocate_buffer(capacity * _CELL_BYTES)
        odd = pa.allocate_buffer(capacity)
        count = self._library.scan(
            block,
            len(block),
            self._steps,
            self._fields,
            cells.address,
            capacity,
            totals.address,
            lines.address,
            odd.address,
        )
        if count < 0:
            return None
        sizes = memoryview(totals).cast("Q").tolist()
        arrays = []
        for column in self._columns:
            place = cells.address + column.field * capacity * _CELL_BYTES
            arrays.append(self._array(column, block, place, count, sizes[column.field], odd.address))
        found = _marked(bytes(odd)[:count])
        if len(found) * _MAX_FALLBACK > count:
            return None
        table = memoryview(lines).cast("I")
        texts = [block[(start := table[3 * number]) : start + table[3 * number + 1]] for number in found]
        return Scanned(self._batch(arrays, count), found, b"\n".join(texts))

    def _array(self, column: _Column, block: bytes, cells: int, count: int, total: int, odd: int) -> pa.Array:
        bits = (count + 7) // 8
        validity = pa.allocate_buffer(bits)
        is_text = column.view in (_AS_JSON, _AS_TEXT)
        is_number = column.view in (_AS_INT, _AS_FLOAT)
        offsets = pa.allocate_buffer((count + 1) * 4) if is_text else None
        values = pa.allocate_buffer(total if is_text else count * 8 if is_number else bits)
        nulls = self._library.column(
            column.view,
            block,
            cells,
            count,
            validity.address,
            values.address,
            None if offsets is None else offsets.address,
            odd,
        )
        if nulls < 0:
            raise MemoryError("out of memory for numbers")
        buffers = [validity if nulls else None, *([] if offsets is None else [offsets]), values]
        return pa.Array.from_buffers(column.type, count, buffers, nulls)

    def _batch(self, arrays: list[pa.Array], count: int) -> pa.RecordBatch:
        if not arrays:
            return pa.RecordBatch.from_arrays([pa.nulls(count)], names=["none"]).select([])
        return pa.RecordBatch.from_arrays(arrays, names=[column.name for column in self._columns])


def line_scanner(library: JsonLibrary, columns: ValueColumns, wanted: list[str]) -> LineScanner | None:
    """A reader of these columns, or None if the path of one contains more than exact names."""
    fields: dict[Path, int] = {}
    found: list[_Column] = []
    for name in wanted:
        path: Path = ()
        view, type_ = _AS_TEXT, pa.string()
        if name != RECORD_COLUMN:
            requested = columns.requested(name)
            path, type_ = requested.path, requested.type
            view = _view(requested.view, type_)
            if not path or not all(isinstance(step, FieldName) and step.quoted for step in path):
                return None
        found.append(_Column(name, fields.setdefault(path, len(fields)), view, type_))
    return LineScanner(library, _steps(fields), len(fields), found)


def _marked(odd: bytes) -> list[int]:
    return [found.start() for found in re.finditer(b"\x01", odd)]


def _view(view: ReadAs | None, type_: pa.DataType) -> int:
    match view:
        case None:
            return _PRESENCE
        case ReadAs.ANY:
            return _AS_JSON
        case ReadAs.TEXT:
            return _AS_TEXT
        case ReadAs.BOOL:
            return _AS_BOOL
        case ReadAs.NUMBER | ReadAs.FLOAT:
            return _AS_INT if pa.types.is_integer(type_) else _AS_FLOAT


def _steps(fields: dict[Path, int]) -> ctypes.Array[_Step]:
    """The paths as a tree, in which each step follows its parent."""
    numbers: dict[Path, int] = {(): 0}
    for path in fields:
        for length in range(1, len(path) + 1):
            numbers.setdefault(path[:length], len(numbers))
    steps = (_Step * len(numbers))(*(_Step(None, 0, fields.get(path, -1), -1, -1) for path in numbers))
    for path, number in numbers.items():
        if path:
            last, from_ = path[-1], steps[numbers[path[:-1]]]
            name = last.text.encode() if isinstance(last, FieldName) else b""
            steps[number].name, steps[number].length = name, len(name)
            steps[number].next, from_.first = from_.first, number
    return steps
