"""Splits SQL scripts, numbers parameters and batches them, ignoring literals, quoted names and comments in SQL."""

from __future__ import annotations

import re
from collections.abc import Iterator, Sequence
from functools import lru_cache
from typing import TypeVar

_PARTS = re.compile(r"'(?:[^']|'')*'|\"(?:[^\"]|\"\")*\"|--[^\n]*|/\*.*?\*/|\?|;", re.DOTALL)

T = TypeVar("T")


@lru_cache(maxsize=4096)
def numbered(sql: str) -> str:
    """The statement with PostgreSQL parameters: `$1`, `$2` and so on in place of `?`."""
    count = 0

    def number(match: re.Match[str]) -> str:
        nonlocal count
        if match[0] != "?":
            return match[0]
        count += 1
        return f"${count}"

    return _PARTS.sub(number, sql)


def statements(script: str) -> Iterator[str]:
    """The statements of a script, without the semicolons between them."""
    start = 0
    for match in _PARTS.finditer(script):
        if match[0] == ";":
            yield from _unless_blank(script[start : match.start()])
            start = match.end()
    yield from _unless_blank(script[start:])


def _unless_blank(statement: str) -> Iterator[str]:
    bare = _PARTS.sub(lambda match: "" if match[0].startswith(("--", "/*")) else match[0], statement)
    if bare.strip():
        yield statement.strip()


def padded_batches(values: Sequence[T], size: int) -> Iterator[list[T]]:
    """Batches of exactly `size` values for `IN (?, …)`, so that all use one statement.

    The last batch is filled by repeating its last value.
    """
    for start in range(0, len(values), size):
        batch = list(values[start : start + size])
        yield batch + batch[-1:] * (size - len(batch))
