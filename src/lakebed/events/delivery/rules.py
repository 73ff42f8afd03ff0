"""What is asked of the rules of buckets, and the answers of a server whose buckets have none."""

from __future__ import annotations

from collections.abc import Awaitable, Callable, Mapping, Sequence
from types import MappingProxyType
from typing import Final, TypeAlias

from lakebed.meta.outbox import Entry
from lakebed.meta.seam import Reader

BucketsNaming: TypeAlias = Callable[[Reader, str], Awaitable[Sequence[str]]]
"""The buckets whose rules name a target, `<id>:<type>`, now."""

_NOBODY: Final[Mapping[str, str]] = MappingProxyType({})


class NoRules:
    """Rules that name nobody. A `Matcher`."""

    async def matches(self, entries: Sequence[Entry]) -> Sequence[Mapping[str, str]]:
        """Nobody is named for any of them."""
        return [_NOBODY] * len(entries)


async def no_buckets(reader: Reader, target: str) -> Sequence[str]:
    """No bucket names it."""
    return ()
