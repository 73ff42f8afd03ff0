"""Paths of claims in tokens: names of nested objects separated by slashes.

A name that contains a slash is in double quotes: `realm_access/roles`, `"https://example.com/roles"`. Pure.
"""

from __future__ import annotations

import re
from collections.abc import Mapping
from dataclasses import dataclass
from typing import Final

from lakebed.core.errors import InvalidInput

_SEGMENT: Final = re.compile(r'"(?P<quoted>[^"]+)"|(?P<plain>[^/"]+)')


@dataclass(frozen=True, slots=True)
class ClaimPath:
    """The path of a claim."""

    names: tuple[str, ...]

    @classmethod
    def parse(cls, text: str) -> ClaimPath:
        """Parse a path. Raises InvalidInput."""
        names: list[str] = []
        position = 0
        while True:
            segment = _SEGMENT.match(text, position)
            if segment is None:
                break
            names.append(segment["quoted"] or segment["plain"])
            position = segment.end()
            if position == len(text):
                return cls(tuple(names))
            if text[position] != "/":
                break
            position += 1
        raise InvalidInput(
            'expected names separated by slashes, such as realm_access/roles; a name with a slash is in "quotes".'
            f" found={text[:120]!r}"
        )

    def find(self, claims: Mapping[str, object]) -> object:
        """The claim's value, or None."""
        found: object = claims
        for name in self.names:
            if not isinstance(found, Mapping):
                return None
            found = found.get(name)
        return found

    def find_text(self, claims: Mapping[str, object]) -> str | None:
        """The claim's value if it is a non-empty string, else None."""
        found = self.find(claims)
        return found if isinstance(found, str) and found else None
