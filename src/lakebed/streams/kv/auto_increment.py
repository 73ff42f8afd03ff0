"""Numbers for a counted column: a bucket takes a range of them at a time and gives them out one by one.

Ranges come from one counter a table, so no number is given out twice; what a bucket had left when it was closed is
never given out.
"""

from __future__ import annotations

from collections.abc import Awaitable, Callable
from typing import TypeAlias

__all__ = ["AutoIncrement", "TakeRange"]

TakeRange: TypeAlias = Callable[[int], Awaitable[int]]
"""Takes so many numbers that nobody had before, and returns the first of them; the first ever is 1."""


class AutoIncrement:
    """The numbers of one bucket. Called, it gives out the next."""

    def __init__(self, take: TakeRange, cache: int) -> None:
        """`cache` numbers are taken at once, or more if more are needed."""
        self._take = take
        self._cache = cache
        self._ranges: list[range] = []

    async def reserve(self, count: int) -> None:
        """Have at least so many numbers at hand."""
        missing = count - sum(map(len, self._ranges))
        while missing > 0:
            first = await self._take(self._cache)
            self._ranges.append(range(first, first + self._cache))
            missing -= self._cache

    def __call__(self) -> int:
        """The next of the numbers that were reserved."""
        at_hand = self._ranges[0]
        number = at_hand[0]
        if len(at_hand) == 1:
            self._ranges.pop(0)
        else:
            self._ranges[0] = at_hand[1:]
        return number
