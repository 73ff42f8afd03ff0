"""The transactional metadata store: one place where a change of state and the event that tells of it commit together.

Implementations: `sqlite` (embedded default) and `postgres`. `tests/contracts/meta.py` is the contract both pass.

SQL is written once, in the dialect both share (`?` for parameters, `ON CONFLICT`, `RETURNING`), as constants next to
the service that uses it; a store prepares each statement once and keeps it. Values are int (of 64 bits), str (without
NUL, which PostgreSQL does not take), bytes and None; text compares by its UTF-8 bytes.

What callers rely on:

- `transact` runs its work with serializable isolation: as if alone. The work may run more than once, so it touches
  nothing but its transaction, and it awaits nothing but its transaction.
- When `transact` returned, the change is on stable storage. When it raised, nothing of it is visible; the one exception
  is `Unavailable` with `undecided=True`, when the answer to a commit was lost.
- Readers may see a change a moment before it is on stable storage; `sync` is for those who tell others of it.
- A statement that failed dooms its transaction: it rolls back even if the work caught the error.
- Writers that arrive together may share one commit; each still succeeds or fails alone.
"""

from __future__ import annotations

from collections.abc import Awaitable, Callable
from typing import Any, Protocol, TypeAlias, TypeVar

T = TypeVar("T")

Value: TypeAlias = int | str | bytes | None
"""What a column holds."""

Row: TypeAlias = tuple[Any, ...]
"""One row. Any: the columns' types are known where the statement is written, and unpacked there."""


class Reader(Protocol):
    """Statements that look."""

    async def row(self, sql: str, *args: Value) -> Row | None:
        """The first row, or None."""
        ...

    async def rows(self, sql: str, *args: Value) -> list[Row]:
        """All rows."""
        ...


class Transaction(Reader, Protocol):
    """Statements of one unit of work."""

    async def run(self, sql: str, *args: Value) -> int:
        """Execute a change; the number of rows it touched. Raises AlreadyExists when a unique key is taken."""
        ...

    def on_commit(self, told: Callable[[], None]) -> None:
        """Call `told` once the transaction is on stable storage; never if it rolls back. For waking those who wait."""
        ...


Work: TypeAlias = Callable[[Transaction], Awaitable[T]]


class MetaStore(Reader, Protocol):
    """A transactional store. Reads outside a transaction see the latest committed state."""

    @property
    def dialect(self) -> str:
        """`sqlite` or `postgres`, for the few statements that must differ."""
        ...

    async def transact(self, work: Work[T]) -> T:
        """Run `work` in one transaction and commit it durably. What `work` raises rolls it back and comes through.

        Raises WriteConflict when concurrent transactions kept interfering; Unavailable, StorageFull.
        """
        ...

    async def sync(self) -> None:
        """Wait until all that is visible to reads is on stable storage too (for whoever tells others of it)."""
        ...

    async def close(self) -> None:
        """Finish what is under way and release the store."""
        ...
