"""The interface of the transactional metadata store, where a change and its event commit together.

Implementations: `sqlite` (embedded default) and `postgres`. `tests/contracts/meta.py` is the contract both pass.

SQL is written once, in the dialect both share (`?` for parameters, `ON CONFLICT`, `RETURNING`), as constants next to
the service that uses it; a store prepares each statement once and keeps it. Values are int (64 bits), str (without NUL,
which PostgreSQL rejects), bytes and None; text compares by its UTF-8 bytes.

Guarantees:

- `transact` runs its work with serializable isolation. The work may run more than once, so it has no effect outside its
  transaction, and awaits nothing else.
- After `transact` returned, the change is on stable storage. After it raised, nothing of the change is visible, except
  for `Unavailable` with `undecided=True`: the response to a commit was lost.
- Reads may see a change a moment before it is on stable storage; call `sync` before publishing what was read.
- A failed statement dooms its transaction: it rolls back even if the work caught the error.
- Concurrent writers may share one commit; each still succeeds or fails alone.
"""

from __future__ import annotations

from collections.abc import Awaitable, Callable
from typing import Any, Protocol, TypeAlias, TypeVar

T = TypeVar("T")

Value: TypeAlias = int | str | bytes | None
"""A column value."""

Row: TypeAlias = tuple[Any, ...]
"""One row. Any: the columns' types are known where the statement is written, and unpacked there."""


class Reader(Protocol):
    """Read statements."""

    async def row(self, sql: str, *args: Value) -> Row | None:
        """The first row, or None."""
        ...

    async def rows(self, sql: str, *args: Value) -> list[Row]:
        """All rows."""
        ...


class Transaction(Reader, Protocol):
    """Statements of one unit of work."""

    async def run(self, sql: str, *args: Value) -> int:
        """Execute a change; returns the number of affected rows. Raises AlreadyExists for a duplicate key."""
        ...

    def on_commit(self, callback: Callable[[], None]) -> None:
        """Call `callback` once the transaction is on stable storage; never if it rolls back. For wake-ups."""
        ...


Work: TypeAlias = Callable[[Transaction], Awaitable[T]]


class MetaStore(Reader, Protocol):
    """A transactional store. Reads outside a transaction see the latest committed state."""

    @property
    def dialect(self) -> str:
        """`sqlite` or `postgres`, for the few statements that differ."""
        ...

    async def transact(self, work: Work[T]) -> T:
        """Run `work` in one transaction and commit it durably. An exception of `work` rolls back and propagates.

        Raises WriteConflict if concurrent transactions kept interfering; Unavailable, StorageFull.
        """
        ...

    async def sync(self) -> None:
        """Wait until everything visible to reads is on stable storage."""
        ...

    async def close(self) -> None:
        """Finish running transactions and release the store."""
        ...
