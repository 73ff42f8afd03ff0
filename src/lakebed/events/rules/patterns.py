"""Patterns of keys, made of a prefix and a suffix. Pure.

A star stands for any characters, none too; every other character for itself. What a rule's prefix and suffix say is
one pattern with at least one star, so that prefix and suffix never share characters of a key.
"""

from __future__ import annotations

import re
from typing import Final, NamedTuple

_STAR: Final = "*"
_STARS: Final = re.compile(r"\*{2,}")


def pattern_of(prefix: str | None, suffix: str | None) -> str:
    """The pattern of keys with this prefix and this suffix; of all keys without them."""
    head, tail = prefix or "", suffix or ""
    if head and not head.endswith(_STAR):
        head += _STAR
    if tail and not tail.startswith(_STAR):
        tail = _STAR + tail
    return _STARS.sub(_STAR, head + tail) or _STAR


class KeyPattern(NamedTuple):
    """A pattern with at least one star, taken apart."""

    head: str
    middle: tuple[str, ...]
    tail: str

    @classmethod
    def of(cls, text: str) -> KeyPattern:
        """A pattern that `pattern_of` has made."""
        head, *middle, tail = text.split(_STAR)
        return cls(head, tuple(middle), tail)

    def matches(self, key: str) -> bool:
        """Whether a key is of the pattern.

        Takes time in proportion to the key: each piece between two stars is looked for once, behind the one before it.
        """
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
    """What is before the first star of a pattern with one, and what is after the last.

    Only these can keep two patterns apart: all that has to be in between, of one and of the other, may follow each
    other in a key.
    """
    return pattern.partition(_STAR)[0], pattern.rpartition(_STAR)[2]
