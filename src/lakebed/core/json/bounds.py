"""Bounds the number of values and the nesting depth of a JSON document before it is parsed.

A parser holds the interpreter until every value is an object, and code that walks the result recurses. The checks count
bytes with a few passes in C, a millisecond per MiB; the parser decides whether the text is JSON.
"""

from __future__ import annotations

from itertools import accumulate
from typing import Final

from ..errors import InvalidInput

MAX_DEPTH: Final = 900
"""Levels of objects and lists. Nested filter expressions are the deepest documents that clients send."""

MAX_VALUES: Final = 500_000
"""Values of a document: a hundred tables with a thousand columns each."""

_SEPARATORS: Final = b",[{"
"""Each value but the first follows one of these. Occurrences inside strings are counted too."""

_OPENING: Final = b"[{"
_BRACKETS: Final = b"[{]}"
_OTHERS: Final = bytes(set(range(256)) - set(_BRACKETS))
_STEPS: Final = [1 if byte in b"[{" else -1 for byte in range(256)]


def check_json_bounds(text: bytes, *, max_depth: int = MAX_DEPTH, max_values: int = MAX_VALUES) -> None:
    """Raise InvalidInput for a document with too many values or levels."""
    values = len(text) - len(text.translate(None, _SEPARATORS)) + 1
    if values > max_values:
        raise InvalidInput(f"the document has too many values. limit={max_values}")
    # Most documents have fewer brackets than allowed levels. In others, strings go first: they may hold brackets.
    opened = len(text) - len(text.translate(None, _OPENING))
    if opened <= max_depth:
        return
    brackets = _without_strings(text, max_values).translate(None, _OTHERS)
    if len(brackets) > 2 * max_values:
        raise InvalidInput(f"the document has too many brackets. limit={2 * max_values}")
    if max(accumulate(map(_STEPS.__getitem__, brackets)), default=0) > max_depth:
        raise InvalidInput(f"the document is nested too deeply. limit={max_depth}")


def _without_strings(text: bytes, max_values: int) -> bytes:
    unescaped = text.replace(b"\\\\", b"").replace(b'\\"', b"")
    # A field has two strings, each between two quotes. More of them cannot be JSON with so few separators.
    if unescaped.count(b'"') > 4 * max_values:
        raise InvalidInput(f"the document has too many values. limit={max_values}")
    return b"".join(unescaped.split(b'"')[::2])
