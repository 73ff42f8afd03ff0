"""A string type whose `repr` hides its value."""

from __future__ import annotations

import hmac
from typing import Final


class Secret:
    """A string that never reaches logs, `repr`, errors or URLs by accident; `reveal` returns it."""

    __slots__ = ("_value",)
    _value: Final[str]

    def __init__(self, value: str) -> None:
        self._value = value

    def reveal(self) -> str:
        """The plain text, for signing and hashing, never for display."""
        return self._value

    def __repr__(self) -> str:
        return "***"

    __str__ = __repr__

    def __bool__(self) -> bool:
        return bool(self._value)

    def __eq__(self, other: object) -> bool:
        if not isinstance(other, Secret):
            return NotImplemented
        return hmac.compare_digest(self._value.encode(), other._value.encode())

    def __hash__(self) -> int:
        return hash(self._value)
