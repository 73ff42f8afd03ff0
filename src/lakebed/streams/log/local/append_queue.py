"""Batches that have their places and wait to be written: put in line by the loop, taken in groups by a thread."""

from __future__ import annotations

import threading
from typing import NamedTuple

from lakebed.fluss.log_batches import LogBuffer

from ..offset_assignment import AssignedBatches

__all__ = ["AppendGroup", "AppendQueue"]


class AppendGroup(NamedTuple):
    """Batches that are written and synced together."""

    batches: list[AssignedBatches]
    end_offset: int
    size: int

    @property
    def pieces(self) -> list[LogBuffer]:
        """Their bytes, to be written one after the other."""
        return [piece for admitted in self.batches for piece in admitted.pieces]


class AppendQueue:
    """Those who wait, in order. From any thread."""

    __slots__ = ("_batches", "_lock", "_size")

    def __init__(self) -> None:
        self._lock = threading.Lock()
        self._batches: list[AssignedBatches] = []
        self._size = 0

    def __bool__(self) -> bool:
        return bool(self._batches)

    @property
    def size_bytes(self) -> int:
        """How much waits."""
        return self._size

    def join(self, admitted: AssignedBatches) -> None:
        """One more waits."""
        with self._lock:
            self._batches.append(admitted)
            self._size += sum(size for _, size in admitted.entries)

    def first_beyond(self, most_bytes: int) -> int | None:
        """Where the first ends of those who wait, if more than that many bytes do."""
        with self._lock:
            return self._batches[0].appended.end_offset if self._size > most_bytes else None

    def take(self, room_bytes: int | None = None) -> AppendGroup | None:
        """All who wait; nobody if none does, or if they would fill the room."""
        with self._lock:
            if not self._batches or (room_bytes is not None and self._size >= room_bytes):
                return None
            group = AppendGroup(self._batches, self._batches[-1].appended.end_offset, self._size)
            self._batches, self._size = [], 0
            return group

    def clear(self) -> None:
        """Nobody waits any more."""
        with self._lock:
            self._batches, self._size = [], 0
