"""A bounded cache of derived values. An entry is valid only while its source is unchanged.

It saves computation and never returns stale values, so it needs no invalidation, even between processes.
"""

from __future__ import annotations

from collections import OrderedDict
from typing import Generic, TypeVar

S = TypeVar("S")
V = TypeVar("V")


class ValidatedCache(Generic[S, V]):
    """Values by name, each with its source. Evicts the least recently used."""

    __slots__ = ("_entries", "_limit")

    def __init__(self, limit: int) -> None:
        self._limit = limit
        self._entries: OrderedDict[str, tuple[S, V]] = OrderedDict()

    def get(self, name: str, source: S) -> V | None:
        """The value put under `name` from an equal source, or None."""
        entry = self._entries.get(name)
        if entry is None or entry[0] != source:
            return None
        self._entries.move_to_end(name)
        return entry[1]

    def put(self, name: str, source: S, value: V) -> V:
        """Store and return a value."""
        self._entries[name] = (source, value)
        self._entries.move_to_end(name)
        if len(self._entries) > self._limit:
            self._entries.popitem(last=False)
        return value
