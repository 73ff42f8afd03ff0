"""Key patterns of rules. Pure.

`*` matches any number of characters; all other characters match themselves. A rule's prefix and suffix are combined in
one pattern with at least one `*`, so that they cannot overlap in a key.
"""

from __future__ import annotations

import re
from typing import Final, NamedTuple

_STAR: Final = "*"
_STARS: Final = re.compile(r"\*{2,}")


def pattern_of(prefix: str | None, suffix: str | None) -> str:
    """The pattern of a prefix and a suffix; `*` without either."""
    head, tail = prefix or "", suffix or ""
    if head and not head.endswith(_STAR):
        head += _STAR
    if tail and not tail.startswith(_STAR):
        tail = _STAR + tail
    return _STARS.sub(_STAR, head + tail) or _STAR


class KeyPattern(NamedTuple):
    """A pattern, split at its wildcards."""

    head: str
    middle: tuple[str, ...]
    tail: str

    @classmethod
    def of(cls, text: str) -> KeyPattern:
        """Split a pattern from `pattern_of`."""
        head, *middle, tail = text.split(_STAR)
        return cls(head, tuple(middle), tail)

    def matches(self, key: str) -> bool:
        """Whether a key matches. Linear in the key's length: each piece is searched once, after the previous one."""
        head, middle, tail = self
        if not key.startswith(head) or not key.endswith(tail) or len(key) < len(head) + len(tail):
            return False
        start, end = len(head), len(key) - len(tail)
        for piece in middle:
            found = key.find(piece, start, end)
            if found < 0:
                return False
            start = found + len(piece)
        return True


def ends_of(pattern: str) -> tuple[str, str]:
    """The text before the first wildcard, and after the last.

    Two patterns are disjoint only if these conflict: the pieces in between can follow each other in one key.
    """
    return pattern.partition(_STAR)[0], pattern.rpartition(_STAR)[2]
