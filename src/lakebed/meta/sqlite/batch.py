"""Runs several works in one commit; each succeeds or fails alone.

A work is a coroutine function that awaits only its transaction, and a transaction on SQLite never suspends: so a single
step runs the work from start to end, inside its own savepoint.
"""

from __future__ import annotations

import asyncio
import contextvars
from collections.abc import Callable, Generator
from dataclasses import dataclass, field
from typing import Any, cast

import apsw

from ..seam import Row, Value, Work
from .file import BUSY_MS, translate


@dataclass(slots=True, eq=False)
class PendingWork:
    """A queued work and its result."""

    work: Work[Any]  # Any: each work has its own result, which goes to its own future
    future: asyncio.Future[Any]
    context: contextvars.Context
    result: Any = None
    on_commit: list[Callable[[], None]] = field(default_factory=list)

    def succeed(self) -> None:
        """Call the commit callbacks, then return the result to the caller."""
        for callback in self.on_commit:
            callback()
        if not self.future.done():
            self.future.set_result(self.result)

    def fail(self, error: BaseException) -> None:
        """Raise the error in the caller."""
        if self.future.done():
            return
        if isinstance(error, asyncio.CancelledError):
            self.future.cancel()
        else:
            self.future.set_exception(error)


class SqliteTransaction:
    """The `Transaction` of one work. A failed statement dooms it."""

    __slots__ = ("_connection", "_cursor", "_on_commit", "_open", "failure")

    def __init__(self, connection: apsw.Connection, on_commit: list[Callable[[], None]]) -> None:
        self._connection = connection
        self._cursor = connection.cursor()
        self._on_commit = on_commit
        self._open = True
        self.failure: Exception | None = None

    async def row(self, sql: str, *args: Value) -> Row | None:
        """The first row, or None."""
        found = self._execute(sql, args)
        return found[0] if found else None

    async def rows(self, sql: str, *args: Value) -> list[Row]:
        """All rows."""
        return self._execute(sql, args)

    async def run(self, sql: str, *args: Value) -> int:
        """Execute a change; returns the number of affected rows."""
        before = self._connection.total_changes()
        self._execute(sql, args)
        # `changes` refers to the last INSERT, UPDATE or DELETE: other statements leave it unchanged.
        return self._connection.changes() if self._connection.total_changes() != before else 0

    def on_commit(self, callback: Callable[[], None]) -> None:
        """Call `callback` once the transaction is on stable storage; never if it rolls back."""
        self._on_commit.append(callback)

    def end(self) -> None:
        """Reject any use of the transaction after its end."""
        self._open = False
        self._cursor.close()

    def _execute(self, sql: str, args: tuple[Value, ...]) -> list[Row]:
        if not self._open:
            raise RuntimeError("a transaction was used after its end")
        if self.failure is not None:
            raise self.failure
        try:
            return self._cursor.execute(sql, args).fetchall()
        except apsw.Error as error:
            self.failure = translate(error, self._connection)
            raise self.failure from error


def run_batch(connection: apsw.Connection, works: list[PendingWork], *, may_continue: Callable[[], bool]) -> int:
    """Run works in order and commit them together; returns the number of works that ran.

    The futures of works that raised are done. Raises the error of the commit or of the whole transaction: then nothing
    of the batch is visible. Raises BusyError, before any work ran, while a program that bypasses the write lock writes.
    """
    _begin(connection)
    count = 0
    try:
        alone = len(works) == 1
        for pending in works:
            if count and not may_continue():
                break
            count += 1
            if not pending.future.done():  # a waiting caller may have been cancelled
                _run_one(connection, pending, alone=alone)
        if connection.in_transaction:  # a failed single work has rolled it back
            connection.execute("COMMIT")
    except BaseException:
        if connection.in_transaction:
            connection.execute("ROLLBACK")
        raise
    return count


def _begin(connection: apsw.Connection) -> None:
    connection.set_busy_timeout(0)  # waiting inside SQLite would block the loop
    try:
        connection.execute("BEGIN IMMEDIATE")
    finally:
        connection.set_busy_timeout(BUSY_MS)


def _run_one(connection: apsw.Connection, pending: PendingWork, *, alone: bool) -> None:
    if not alone:
        connection.execute("SAVEPOINT work")
    transaction = SqliteTransaction(connection, pending.on_commit)
    try:
        pending.result = pending.context.run(_drive, pending.work, transaction)
        if transaction.failure is not None:
            raise transaction.failure
    except (Exception, asyncio.CancelledError) as error:
        transaction.end()
        if not connection.in_transaction:
            raise  # SQLite rolled back everything: full disk or I/O error
        connection.execute("ROLLBACK" if alone else "ROLLBACK TO work")
        if not alone:
            connection.execute("RELEASE work")
        pending.on_commit.clear()
        pending.fail(error)
    else:
        transaction.end()
        if not alone:
            connection.execute("RELEASE work")


def _drive(work: Work[Any], transaction: SqliteTransaction) -> Any:  # Any: the work's own result
    steps = cast(Generator[Any, None, Any], work(transaction).__await__())
    try:
        next(steps)
    except StopIteration as stop:
        return stop.value
    steps.close()
    raise RuntimeError("a transaction awaited something other than its transaction")
