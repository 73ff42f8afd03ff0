"""Splits SQL scripts and numbers parameters, ignoring literals, quoted names and comments."""

from __future__ import annotations

import re
from collections.abc import Iterator
from functools import lru_cache

_PARTS = re.compile(r"'(?:[^']|'')*'|\"(?:[^\"]|\"\")*\"|--[^\n]*|/\*.*?\*/|\?|;", re.DOTALL)


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
