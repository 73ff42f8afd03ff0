"""Values of an auto-increment column, allocated to each bucket in ranges.

Ranges come from one counter per table, so values are unique. The rest of a range is lost when its bucket is closed.
"""

from __future__ import annotations

from collections.abc import Awaitable, Callable
from typing import TypeAlias

__all__ = ["AutoIncrement", "TakeRange"]

TakeRange: TypeAlias = Callable[[int], Awaitable[int]]
"""Allocates a range of so many values and returns the first one. The first range begins at 1."""


class AutoIncrement:
    """The values of one bucket. Calling it returns the next."""

    def __init__(self, take: TakeRange, cache: int) -> None:
        """`cache` values are allocated at once, or more if necessary."""
        self._take = take
        self._cache = cache
        self._ranges: list[range] = []

    async def reserve(self, count: int) -> None:
        """Allocate ranges until at least `count` values are available."""
        missing = count - sum(map(len, self._ranges))
        while missing > 0:
            first = await self._take(self._cache)
            self._ranges.append(range(first, first + self._cache))
            missing -= self._cache

    def __call__(self) -> int:
        """The next reserved value."""
        available = self._ranges[0]
        number = available[0]
        if len(available) == 1:
            self._ranges.pop(0)
        else:
            self._ranges[0] = available[1:]
        return number
