"""The interface of a KV index: the value of every key, as of a log offset.

It is derived data: what it loses is replayed from the log. So it need not sync or write immediately, as long as it
contains all changes before its log offset, and none after.
"""

from __future__ import annotations

from collections.abc import Iterator, Mapping, Sequence
from typing import Protocol

__all__ = ["KvIndex", "KvIndexSnapshot"]


class KvIndexSnapshot(Protocol):
    """A snapshot of the index."""

    @property
    def log_offset(self) -> int:
        """The log offset of the first change that it does not include."""
        ...

    def take(self, max_bytes: int, limit: int | None) -> tuple[list[bytes], bool]:
        """The next values in key order, at least one if there is one; and whether there are more.

        Ends with the value that reaches `max_bytes`, length prefixes included, or at `limit`.
        """
        ...

    def close(self) -> None:
        """Release the snapshot. Idempotent."""
        ...


class KvIndex(Protocol):
    """Values by key, for one writer and any number of readers. All methods block except `get_cached` and `apply`."""

    @property
    def log_offset(self) -> int:
        """The log offset of the first change that it does not contain."""
        ...

    @property
    def row_count(self) -> int | None:
        """The number of keys, if it is counted."""
        ...

    @property
    def is_full(self) -> bool:
        """Whether `spill` should be called, because the write buffer is full."""
        ...

    def get_cached(self, keys: Sequence[bytes]) -> list[bytes | None] | None:
        """The values of these keys if all are in memory; otherwise None."""
        ...

    def get_many(self, keys: Sequence[bytes]) -> list[bytes | None]:
        """The values of these keys."""
        ...

    def get_prefixed(self, prefix: bytes) -> Iterator[bytes]:
        """The values of keys by prefix, in key order, read lazily."""
        ...

    def apply(self, values: Mapping[bytes, bytes | None], log_offset: int, row_count: int | None) -> None:
        """Apply values (None: deleted), the offset after their changes, and the row count, atomically."""
        ...

    def spill(self) -> None:
        """Write the buffer to disk. Concurrent `apply` calls go to the next buffer."""
        ...

    def view(self) -> KvIndexSnapshot:
        """A snapshot of the current index."""
        ...

    def flush(self) -> None:
        """Make the index survive a crash, if it is persistent."""
        ...

    def close(self) -> None:
        """Store and close the index. Idempotent."""
        ...
