"""Converts values of a result to text, by column."""

from __future__ import annotations

from collections.abc import Sequence
from typing import Final

import msgspec
import pyarrow as pa
from pyarrow import compute as pc
from pyarrow import csv

from ..execution.relation import SqlKind
from ..formats.value_columns import to_text
from ..model import MAX_RECORD_BYTES
from ..sources.record_blocks import record_too_long

_ESCAPED: Final = bytes([*range(0x20), 0x22, 0x5C, 0x7F])
"""Characters that JSON requires to be escaped."""


def plain_text(column: pa.Array, kind: SqlKind) -> pa.Array:
    """A column as text, for CSV. Null stays null."""
    match kind:
        case SqlKind.DECIMAL:
            return _short_decimals(column)
        case SqlKind.JSON:
            return _unquoted(column.cast(pa.string()))
        case _:
            return column.cast(pa.string())


def json_text(column: pa.Array, kind: SqlKind) -> pa.Array:
    """A column as JSON. Null stays null."""
    match kind:
        case SqlKind.TEXT | SqlKind.TIMESTAMP:
            return quoted_texts(column.cast(pa.string()))
        case SqlKind.FLOAT:
            # JSON has no NaN or infinity.
            finite = pc.is_finite(column)
            return pc.if_else(finite, column.cast(pa.string()), pa.scalar("null"))
        case SqlKind.DECIMAL:
            return _short_decimals(column)
        case _:
            return column.cast(pa.string())


def quoted_json(text: str) -> str:
    """A text as a JSON string."""
    return msgspec.json.encode(text).decode()


def joined(parts: Sequence[pa.Array | str], end: str) -> bytes:
    """Rows of joined parts as bytes, each followed by `end`. Null is empty. Raises SelectError (OverMaxRecordSize)."""
    pieces = [pa.scalar(part) if isinstance(part, str) else part for part in (*parts, end, "")]
    rows = pc.binary_join_element_wise(*pieces, null_handling="replace", null_replacement="")
    data = _bytes(rows)
    if len(data) > MAX_RECORD_BYTES and pc.max(pc.binary_length(rows)).as_py() > MAX_RECORD_BYTES + len(end.encode()):
        raise record_too_long()
    return data


def lines(fields: Sequence[pa.Array], delimiter: str) -> bytes:
    """Rows of fields that need no quotes, one per line. Raises SelectError (OverMaxRecordSize)."""
    rows = pa.RecordBatch.from_arrays(list(fields), names=[str(number) for number in range(len(fields))])
    sink = pa.BufferOutputStream()
    options = csv.WriteOptions(
        include_header=False, batch_size=max(1, len(rows)), delimiter=delimiter, quoting_style="none"
    )
    csv.write_csv(rows, sink, options)
    data: bytes = sink.getvalue().to_pybytes()
    if len(data) > MAX_RECORD_BYTES and max(map(len, data.splitlines()), default=0) > MAX_RECORD_BYTES:
        raise record_too_long()
    return data


def _bytes(column: pa.Array) -> bytes:
    """The values of a text column, concatenated in one buffer."""
    if len(column) == 0 or column.buffers()[2] is None:
        return b""
    offsets = memoryview(column.buffers()[1]).cast("i")
    first, last = offsets[column.offset], offsets[column.offset + len(column)]
    return bytes(memoryview(column.buffers()[2])[first:last])


def has_any(column: pa.Array, characters: bytes) -> bool:
    """Whether any of the characters occurs in the column."""
    data = _bytes(column)
    return len(data.translate(None, characters)) < len(data) if len(characters) > 1 else characters in data


def _short_decimals(column: pa.Array) -> pa.Array:
    """Decimals without the trailing zeros that their type adds."""
    text = column.cast(pa.string())
    text = pc.replace_substring_regex(text, r"(\.[0-9]*?)0+$", r"\1")
    return pc.replace_substring_regex(text, r"\.$", "")


def quoted_texts(column: pa.Array) -> pa.Array:
    """A text column as JSON strings. Null stays null."""
    if has_any(column, _ESCAPED):
        return pa.array([None if text is None else quoted_json(text) for text in column.to_pylist()], pa.string())
    mark = pa.scalar('"')
    return pc.binary_join_element_wise(mark, column, mark, pa.scalar(""))


def _unquoted(column: pa.Array) -> pa.Array:
    if not has_any(column, b"\\"):
        # Without backslashes, quotes only delimit strings.
        return pc.ascii_trim(column, '"')
    return pa.array(
        [
            None if text is None else to_text(msgspec.json.decode(text)) if text[:1] == '"' else text
            for text in column.to_pylist()
        ],
        pa.string(),
    )
