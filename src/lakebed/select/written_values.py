"""Values of a result as text, a column at a time."""

from __future__ import annotations

from typing import Final

import msgspec
import pyarrow as pa
from pyarrow import compute as pc

from .blocks import over_long
from .model import MAX_RECORD_BYTES
from .relation import Kind
from .value_columns import to_text

_NOTHING: Final = pa.scalar(None, pa.string())


def plain_text(column: pa.Array, kind: Kind) -> pa.Array:
    """A column as text, as CSV has it. Null stays null."""
    match kind:
        case Kind.DECIMAL:
            return _short_decimals(column)
        case Kind.JSON:
            return _unquoted(column.cast(pa.string()))
        case _:
            return column.cast(pa.string())


def json_text(column: pa.Array, kind: Kind) -> pa.Array:
    """A column as JSON. Null stays null."""
    match kind:
        case Kind.TEXT | Kind.TIMESTAMP:
            return _quoted(column.cast(pa.string()))
        case Kind.FLOAT:
            # JSON has no form for what is not a number.
            finite = pc.is_finite(column)
            return pc.if_else(finite, column.cast(pa.string()), pa.scalar("null"))
        case Kind.DECIMAL:
            return _short_decimals(column)
        case _:
            return column.cast(pa.string())


def quoted_json(text: str) -> str:
    """One text as JSON."""
    return msgspec.json.encode(text).decode()


def joined(rows: pa.Array, end: str) -> bytes:
    """Rows as bytes, each followed by its end. Raises SelectFailure (OverMaxRecordSize)."""
    if len(rows) == 0:
        return b""
    longest = pc.max(pc.binary_length(rows)).as_py() or 0
    if longest > MAX_RECORD_BYTES:
        raise over_long()
    ended = pc.binary_join_element_wise(rows, pa.scalar(end), pa.scalar(""))
    # All values of a column lie behind one another, in a buffer that can be had whole.
    offsets = memoryview(ended.buffers()[1]).cast("i")
    first, last = offsets[ended.offset], offsets[ended.offset + len(ended)]
    return bytes(memoryview(ended.buffers()[2])[first:last])


def _short_decimals(column: pa.Array) -> pa.Array:
    """Decimals without the zeros that only their type asks for."""
    text = column.cast(pa.string())
    text = pc.replace_substring_regex(text, r"(\.[0-9]*?)0+$", r"\1")
    return pc.replace_substring_regex(text, r"\.$", "")


def _quoted(column: pa.Array) -> pa.Array:
    odd = pc.match_substring_regex(column, r'["\\\x00-\x1f\x7f]')
    if pc.any(odd).as_py():
        return pa.array([None if text is None else quoted_json(text) for text in column.to_pylist()], pa.string())
    mark = pa.scalar('"')
    return pc.binary_join_element_wise(mark, column, mark, pa.scalar(""))


def _unquoted(column: pa.Array) -> pa.Array:
    if not pc.any(pc.starts_with(column, '"')).as_py():
        return column
    return pa.array(
        [
            None if text is None else to_text(msgspec.json.decode(text)) if text[:1] == '"' else text
            for text in column.to_pylist()
        ],
        pa.string(),
    )
