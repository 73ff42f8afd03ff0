"""The index of a bucket: the value of every key, and how far into the log it is true.

It is never the truth itself: what it lost is replayed from the log. So it need not sync anything, nor write at once, as
long as the offset it tells is one whose changes it has all, and of no later ones any.
"""

from __future__ import annotations

from collections.abc import Iterator, Mapping, Sequence
from typing import Protocol

__all__ = ["KvIndex", "KvIndexSnapshot"]


class KvIndexSnapshot(Protocol):
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


class KvIndex(Protocol):
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

    def view(self) -> KvIndexSnapshot:
        """The index as it is now."""
        ...

    def flush(self) -> None:
        """Have it survive a crash, as far as it is one that can."""
        ...

    def close(self) -> None:
        """Keep what there is, and let go of it. Idempotent."""
        ...
