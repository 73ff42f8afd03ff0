"""The write buffer of a KV index: recent values in memory, written to disk in large groups in key order.

Written values stay cached as long as there is memory, for repeated writes and joins. Unwritten values always stay. An
index that was created in this process and has evicted nothing knows without disk access that a key is new.
"""

from __future__ import annotations

import threading
from collections.abc import Mapping, Sequence
from itertools import islice, repeat
from typing import Final, NamedTuple
from weakref import WeakSet

__all__ = ["UNKNOWN", "BufferedWrites", "WriteBuffer", "WriteBufferMemory"]

UNKNOWN: Final = b"unknown"
"""Marks an unknown value. Compared by identity."""

FRESH_BYTES: Final = 2 * 1024 * 1024
"""The size of unwritten values of an index at which they should be written. Smaller groups have fewer neighbouring
keys; larger ones exceed the CPU caches, and views wait longer for them."""

_PORTION: Final = 8
"""Evictions remove one in so many entries at once: writers wait meanwhile."""

_ENTRY_BYTES: Final = 140
"""Overhead of a key and its value in Python: two object headers, and a dict slot."""

_CROWD: Final = 32
"""The number of indexes that may have full buffers; beyond that, each writes what it gets."""


class WriteBufferMemory:
    """The memory limit of all write buffers."""

    def __init__(self, most_bytes: int = 192 * 1024 * 1024, fresh_bytes: int = FRESH_BYTES) -> None:
        self.fresh_bytes = fresh_bytes
        self._most_bytes = most_bytes
        self._all_fresh_bytes = 0
        self._buffers: WeakSet[WriteBuffer] = WeakSet()
        self._lock = threading.Lock()  # acquired before the locks of buffers
        self._counting = threading.Lock()  # acquired after them

    def register(self, buffer: WriteBuffer) -> None:
        """Add a buffer."""
        with self._lock:
            self._buffers.add(buffer)

    @property
    def is_crowded(self) -> bool:
        """Whether all buffers together have too many unwritten values."""
        return self._all_fresh_bytes > _CROWD * self.fresh_bytes

    def count(self, more_bytes: int) -> None:
        """Add to the size of unwritten values."""
        with self._counting:
            self._all_fresh_bytes += more_bytes

    def unregister(self, buffer: WriteBuffer) -> None:
        """Remove a buffer."""
        with self._lock:
            self._buffers.discard(buffer)

    def evict(self) -> None:
        """Evict from the largest buffers until the total is within the limit."""
        with self._lock:
            candidates = set(self._buffers)
            while candidates and sum(each.size_bytes for each in self._buffers) > self._most_bytes:
                largest = max(candidates, key=lambda each: each.size_bytes)
                if not largest.evict_oldest():  # all of it is unwritten
                    candidates.remove(largest)


class BufferedWrites(NamedTuple):
    """A group of unwritten values."""

    values: Mapping[bytes, bytes | None]
    """None for a deleted key."""

    log_offset: int
    row_count: int | None


class WriteBuffer:
    """The buffer of one index, with its log offset. Read from any thread; written to disk by one thread at a time."""

    __slots__ = (
        "__weakref__",
        "_counted_bytes",
        "_fresh",
        "_known",
        "_lock",
        "_memory",
        "_row_bytes",
        "_taken",
        "_taken_offset",
        "is_whole",
        "log_offset",
        "row_count",
    )

    def __init__(self, memory: WriteBufferMemory, log_offset: int, row_count: int | None) -> None:
        """`log_offset` and `row_count` are those on disk."""
        self.log_offset = self._taken_offset = log_offset
        self.row_count = row_count
        self._memory = memory
        self._lock = threading.Lock()
        self._known: dict[bytes, bytes | None] = {}
        self._fresh: dict[bytes, bytes | None] = {}
        self._taken: dict[bytes, bytes | None] = {}
        self._row_bytes = _ENTRY_BYTES
        self._counted_bytes = 0
        self.is_whole = log_offset == 0
        """Whether all rows are in memory: true for an index that began empty, until the first eviction."""
        memory.register(self)

    @property
    def size_bytes(self) -> int:
        """Approximate memory use."""
        return len(self._known) * self._row_bytes

    @property
    def is_full(self) -> bool:
        """Whether so much is unwritten that it should be written to disk."""
        fresh = self._fresh
        return len(fresh) * self._row_bytes > self._memory.fresh_bytes or (bool(fresh) and self._memory.is_crowded)

    def find(self, keys: Sequence[bytes]) -> list[bytes | None]:
        """The values of these keys, `UNKNOWN` for those that are not in memory."""
        found = self._find_whole(keys)
        return list(map(self._known.get, keys, repeat(UNKNOWN))) if found is None else found

    def find_all(self, keys: Sequence[bytes]) -> list[bytes | None] | None:
        """The values of these keys if all are in memory. Stops at the first missing one."""
        found = self._find_whole(keys)
        if found is not None:
            return found
        get = self._known.get
        found = []
        for key in keys:
            value = get(key, UNKNOWN)
            if value is UNKNOWN:
                return None
            found.append(value)
        return found

    def _find_whole(self, keys: Sequence[bytes]) -> list[bytes | None] | None:
        """The values of these keys, if keys that are not in memory do not exist."""
        if self.is_whole:
            found = list(map(self._known.get, keys))
            if self.is_whole:  # checked again: values may have been evicted meanwhile
                return found
        return None

    def add(self, values: Mapping[bytes, bytes | None], log_offset: int, row_count: int | None) -> None:
        """Add unwritten values."""
        if values:
            size = sum(map(len, values)) + sum(map(len, filter(None, values.values())))
            self._row_bytes = _ENTRY_BYTES + size // len(values)
        with self._lock:
            self._known.update(values)
            self._fresh.update(values)
            self.log_offset = log_offset
            self.row_count = row_count
            self._count()

    def take(self) -> BufferedWrites | None:
        """The unwritten values, to be written to disk; None if there are none. They stay cached until `finish`."""
        with self._lock:
            if self.log_offset == self._taken_offset:
                return None
            self._taken, self._fresh = self._fresh, {}
            return BufferedWrites(self._taken, self.log_offset, self.row_count)

    def finish(self, group: BufferedWrites, *, is_on_disk: bool) -> None:
        """End a write to disk. If it failed, the values are unwritten as before."""
        with self._lock:
            if is_on_disk:
                self._taken_offset = group.log_offset
            else:
                self._fresh = {**self._taken, **self._fresh}
            self._taken = {}
            self._count()
        self._memory.evict()

    def evict_oldest(self) -> int:
        """Evict the oldest written values. Returns their number."""
        with self._lock:
            fresh, taken, known = self._fresh, self._taken, self._known
            older = [key for key in islice(known, len(known) // _PORTION + 1) if key not in fresh and key not in taken]
            if older:
                self.is_whole = False  # before the eviction: readers check it afterwards
            for key in older:
                del known[key]
            return len(older)

    def close(self) -> None:
        """Drop all values."""
        self._memory.unregister(self)
        with self._lock:
            self.is_whole = False
            self._known, self._fresh, self._taken = {}, {}, {}
            self._count()

    def _count(self) -> None:
        """Report the size of unwritten values, with the lock held."""
        counted, self._counted_bytes = self._counted_bytes, (len(self._fresh) + len(self._taken)) * self._row_bytes
        self._memory.count(self._counted_bytes - counted)
