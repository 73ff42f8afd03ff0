"""Where in a token's claims something is: names of nested objects with slashes between them.

A name that holds a slash itself stands in double quotes: `realm_access/roles`, `"https://example.com/roles"`. Pure.
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
    """A way into nested objects."""

    names: tuple[str, ...]

    @classmethod
    def parse(cls, text: str) -> ClaimPath:
        """Read a path. Raises InvalidInput."""
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
            'expected names with slashes between them, such as realm_access/roles; a name with a slash in "quotes".'
            f" found={text[:120]!r}"
        )

    def find(self, claims: Mapping[str, object]) -> object:
        """What is there, or None."""
        found: object = claims
        for name in self.names:
            if not isinstance(found, Mapping):
                return None
            found = found.get(name)
        return found

    def find_text(self, claims: Mapping[str, object]) -> str | None:
        """The text that is there, or None if it is anything else or empty."""
        found = self.find(claims)
        return found if isinstance(found, str) and found else None
