"""What an index was given last, in memory: found there first, and brought to disk in large groups in the order of keys.

A value stays for as long as there is room, also when the disk has it: whoever writes a key again soon has to know what
was there, and so has whoever joins with it. What is fresh, which is what the disk does not have yet, always stays. An
index that was here from its beginning, and forgot nothing since, needs no disk to say that a key is new.
"""

from __future__ import annotations

import threading
from collections.abc import Mapping, Sequence
from itertools import islice, repeat
from typing import Final, NamedTuple
from weakref import WeakSet

__all__ = ["UNKNOWN", "BufferedWrites", "WriteBuffer", "WriteBufferMemory"]

UNKNOWN: Final = b"unknown"
"""Stands for a value that is not known here; told from one that is equal to it by which object it is."""

FRESH_BYTES: Final = 2 * 1024 * 1024
"""Of one index before it is to be brought to disk. A smaller group has fewer neighbours in it; a larger one is out of
the processor's caches when it is brought there, and whoever takes a view waits longer for it."""

_PORTION: Final = 8
"""What is forgotten at once is one in as many: who writes meanwhile waits for it."""

_ENTRY_BYTES: Final = 140
"""What Python has around a key and its value: two heads, and a place in a table."""

_CROWD: Final = 32
"""How many indexes may have as much at once; from there on each brings to disk what it is given."""


class WriteBufferMemory:
    """What all indexes may have in memory together."""

    def __init__(self, most_bytes: int = 192 * 1024 * 1024, fresh_bytes: int = FRESH_BYTES) -> None:
        self.fresh_bytes = fresh_bytes
        self._most_bytes = most_bytes
        self._all_fresh_bytes = 0
        self._values: WeakSet[WriteBuffer] = WeakSet()
        self._lock = threading.Lock()  # before those of values
        self._counting = threading.Lock()  # after them

    def join(self, values: WriteBuffer) -> None:
        """These are among them from here on."""
        with self._lock:
            self._values.add(values)

    @property
    def is_crowded(self) -> bool:
        """Whether there is so much fresh in all of them that no more should be added."""
        return self._all_fresh_bytes > _CROWD * self.fresh_bytes

    def count(self, more_bytes: int) -> None:
        """There is so much more fresh in one of them, or less."""
        with self._counting:
            self._all_fresh_bytes += more_bytes

    def leave(self, values: WriteBuffer) -> None:
        """These are gone."""
        with self._lock:
            self._values.discard(values)

    def make_room(self) -> None:
        """Have those with the most forget some of it, until there is not too much of all."""
        with self._lock:
            held = set(self._values)
            while held and sum(each.size_bytes for each in self._values) > self._most_bytes:
                largest = max(held, key=lambda each: each.size_bytes)
                if not largest.forget_oldest():  # all that is left of it is fresh
                    held.remove(largest)


class BufferedWrites(NamedTuple):
    """What an index was given since it was last brought to disk."""

    values: Mapping[bytes, bytes | None]
    """None for a key that is gone."""

    log_offset: int
    row_count: int | None


class WriteBuffer:
    """Those of one index, and how far into the log they are true. Read from any thread, taken by one at a time."""

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
        """Offset and count are those of the disk."""
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
        """Whether all that there is is here: of an index that began empty, until something is forgotten."""
        memory.join(self)

    @property
    def size_bytes(self) -> int:
        """About how much memory there is in it."""
        return len(self._known) * self._row_bytes

    @property
    def is_full(self) -> bool:
        """Whether so much is fresh that it should be brought to disk."""
        fresh = self._fresh
        return len(fresh) * self._row_bytes > self._memory.fresh_bytes or (bool(fresh) and self._memory.is_crowded)

    def find(self, keys: Sequence[bytes]) -> list[bytes | None]:
        """The values of these keys, `UNKNOWN` for those that are not here."""
        found = self._find_whole(keys)
        return list(map(self._known.get, keys, repeat(UNKNOWN))) if found is None else found

    def find_all(self, keys: Sequence[bytes]) -> list[bytes | None] | None:
        """The values of these keys if all of them are here; no longer a look than up to the first that is not."""
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
        """The values of these keys if what is not here is nowhere."""
        if self.is_whole:
            found = list(map(self._known.get, keys))
            if self.is_whole:  # still: or some may have been forgotten meanwhile
                return found
        return None

    def give(self, values: Mapping[bytes, bytes | None], log_offset: int, row_count: int | None) -> None:
        """Have these, which the disk does not have."""
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
        """What is fresh, to be brought to disk, if anything is. It stays known until `taken` says that it is there."""
        with self._lock:
            if self.log_offset == self._taken_offset:
                return None
            self._taken, self._fresh = self._fresh, {}
            return BufferedWrites(self._taken, self.log_offset, self.row_count)

    def taken(self, group: BufferedWrites, *, is_on_disk: bool) -> None:
        """The disk has what was taken; or it refused, and all of it is fresh as before."""
        with self._lock:
            if is_on_disk:
                self._taken_offset = group.log_offset
            else:
                self._fresh = {**self._taken, **self._fresh}
            self._taken = {}
            self._count()
        self._memory.make_room()

    def forget_oldest(self) -> int:
        """Know less: what came first goes first, unless the disk does not have it. How many are forgotten."""
        with self._lock:
            fresh, taken, known = self._fresh, self._taken, self._known
            older = [key for key in islice(known, len(known) // _PORTION + 1) if key not in fresh and key not in taken]
            if older:
                self.is_whole = False  # before: whoever reads looks at it afterwards
            for key in older:
                del known[key]
            return len(older)

    def close(self) -> None:
        """Let go of all."""
        self._memory.leave(self)
        with self._lock:
            self.is_whole = False
            self._known, self._fresh, self._taken = {}, {}, {}
            self._count()

    def _count(self) -> None:
        """Tell how much is fresh now, with the lock held."""
        counted, self._counted_bytes = self._counted_bytes, (len(self._fresh) + len(self._taken)) * self._row_bytes
        self._memory.count(self._counted_bytes - counted)
