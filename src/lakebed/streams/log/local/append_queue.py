"""The queue of batches to be written: filled by the event loop, emptied in groups by a thread."""

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
        """Their bytes in order."""
        return [piece for assigned in self.batches for piece in assigned.pieces]


class AppendQueue:
    """Batches in order. Thread-safe."""

    __slots__ = ("_batches", "_lock", "_size")

    def __init__(self) -> None:
        self._lock = threading.Lock()
        self._batches: list[AssignedBatches] = []
        self._size = 0

    def __bool__(self) -> bool:
        return bool(self._batches)

    def add(self, assigned: AssignedBatches) -> None:
        """Queue batches."""
        with self._lock:
            self._batches.append(assigned)
            self._size += sum(size for _, size in assigned.entries)

    def first_end_if_over(self, max_bytes: int) -> int | None:
        """The end offset of the first queued batches if more than `max_bytes` are queued; otherwise None."""
        with self._lock:
            return self._batches[0].appended.end_offset if self._size > max_bytes else None

    def take(self, space_bytes: int | None = None) -> AppendGroup | None:
        """Remove and return all batches; None if there are none, or if they would fill the space."""
        with self._lock:
            if not self._batches or (space_bytes is not None and self._size >= space_bytes):
                return None
            group = AppendGroup(self._batches, self._batches[-1].appended.end_offset, self._size)
            self._batches, self._size = [], 0
            return group

    def clear(self) -> None:
        """Drop all batches."""
        with self._lock:
            self._batches, self._size = [], 0
