"""The index of a bucket: the value of every key, and how far into the log it is true.

It is never the truth itself: what it lost is replayed from the log. So it need not sync anything, nor write at once, as
long as the offset it tells is one whose changes it has all, and of no later ones any.
"""

from __future__ import annotations

from collections.abc import Iterator, Mapping, Sequence
from typing import Protocol

__all__ = ["IndexView", "KeyIndex", "MemoryIndex"]


class IndexView(Protocol):
    """The index as it was at one moment."""

    @property
    def log_offset(self) -> int:
        """Where the changes begin that it does not show."""
        ...

    def take(self, max_bytes: int, limit: int | None) -> tuple[list[bytes], bool]:
        """The next values in the order of keys, at least one if there is one, and whether there are more.

        It ends with the value that reaches `max_bytes`, the four bytes of its length counted, or at `limit`.
        """
        ...

    def close(self) -> None:
        """Let go of the moment. Idempotent."""
        ...


class KeyIndex(Protocol):
    """Values by key, for one writer and any number of readers. Every method may block but for `recall` and `apply`."""

    @property
    def log_offset(self) -> int:
        """Where the changes begin that it does not have."""
        ...

    @property
    def row_count(self) -> int | None:
        """How many keys it has, if that was counted."""
        ...

    @property
    def is_full(self) -> bool:
        """Whether so much is in memory alone that `spill` should be called."""
        ...

    def recall(self, keys: Sequence[bytes]) -> list[bytes | None] | None:
        """The values of these keys if all of them are in memory, and nothing otherwise."""
        ...

    def get_many(self, keys: Sequence[bytes]) -> list[bytes | None]:
        """The values of these keys."""
        ...

    def get_prefixed(self, prefix: bytes) -> Iterator[bytes]:
        """The values of all keys that begin so, in the order of keys, read as they are asked for."""
        ...

    def apply(self, values: Mapping[bytes, bytes | None], log_offset: int, row_count: int | None) -> None:
        """Have these values (none: no longer the key), the offset after their changes and the count, all or nothing."""
        ...

    def spill(self) -> None:
        """Bring to disk what is in memory alone. Beside `apply`, whose values of the time are left for the next."""
        ...

    def view(self) -> IndexView:
        """The index as it is now."""
        ...

    def flush(self) -> None:
        """Have it survive a crash, as far as it is one that can."""
        ...

    def close(self) -> None:
        """Keep what there is, and let go of it. Idempotent."""
        ...


class MemoryIndex:
    """An index that is gone with the process: the twin for tests."""

    def __init__(self) -> None:
        self._values: dict[bytes, bytes] = {}
        self._offset = 0
        self._count: int | None = 0

    @property
    def log_offset(self) -> int:
        """Where the changes begin that it does not have."""
        return self._offset

    @property
    def row_count(self) -> int | None:
        """How many keys it has, if that was counted."""
        return self._count

    @property
    def is_full(self) -> bool:
        """There is nothing to bring it to."""
        return False

    def recall(self, keys: Sequence[bytes]) -> list[bytes | None] | None:
        """Everything is in memory."""
        return self.get_many(keys)

    def get_many(self, keys: Sequence[bytes]) -> list[bytes | None]:
        """The values of these keys."""
        return [self._values.get(key) for key in keys]

    def get_prefixed(self, prefix: bytes) -> Iterator[bytes]:
        """The values of all keys that begin so."""
        return (self._values[key] for key in sorted(self._values) if key.startswith(prefix))

    def apply(self, values: Mapping[bytes, bytes | None], log_offset: int, row_count: int | None) -> None:
        """Have these values."""
        for key, value in values.items():
            if value is None:
                self._values.pop(key, None)
            else:
                self._values[key] = value
        self._offset = log_offset
        self._count = row_count

    def spill(self) -> None:
        """There is nothing to bring it to."""

    def view(self) -> IndexView:
        """The index as it is now."""
        return _MemoryView([self._values[key] for key in sorted(self._values)], self._offset)

    def flush(self) -> None:
        """Nothing survives."""

    def close(self) -> None:
        """Nothing to let go of."""


class _MemoryView:
    def __init__(self, values: list[bytes], log_offset: int) -> None:
        self._values = values
        self._at = 0
        self.log_offset = log_offset

    def take(self, max_bytes: int, limit: int | None) -> tuple[list[bytes], bool]:
        taken: list[bytes] = []
        size = 0
        while self._at < len(self._values) and (limit is None or len(taken) < limit):
            value = self._values[self._at]
            taken.append(value)
            self._at += 1
            size += 4 + len(value)
            if size >= max_bytes:
                break
        return taken, self._at < len(self._values)

    def close(self) -> None:
        self._values = []
