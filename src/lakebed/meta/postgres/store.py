"""The metadata store on PostgreSQL, for several servers.

Transactions are SERIALIZABLE: PostgreSQL runs them concurrently, and aborts one if no serial order has the same result.
An aborted work runs again, which is why it must have no effect outside its transaction. So does a work that hits a
duplicate key for the first time: another transaction may have committed the row after the work found the key free. The
second attempt sees the row, and its result counts.

A commit that waits for the disk holds its locks, among them the lock for event appends (see `outbox`). So commits
return before they are durable, and waiting writers share a flush (`_flush`): PostgreSQL writes its WAL in order, so one
small synchronous commit makes all earlier commits durable. `transact` returns only after that flush. Reads may see a
commit a moment earlier, as on SQLite; call `sync` before publishing what was read.
"""

from __future__ import annotations

import asyncio
from collections.abc import AsyncIterator, Callable
from contextlib import asynccontextmanager, suppress
from random import Random
from typing import Any, TypeVar

import asyncpg

from lakebed.core.errors import AlreadyExists, InvalidInput, InvalidSetting, StorageFull, Unavailable, WriteConflict
from lakebed.core.shared_runs import SharedRuns

from ..seam import Row, Value, Work
from ..sql_text import numbered

T = TypeVar("T")

_ATTEMPTS = 12
_FIRST_PAUSE_SECONDS = 0.002
_LONGEST_PAUSE_SECONDS = 0.2
_COMMAND_SECONDS = 60.0
_CLOSE_SECONDS = 15.0
_IDLE_SECONDS = 10
"""The database ends a transaction that is idle for so long: its server is paused or cut off, and others wait for its
row locks. Shorter than the lease of the stream leader, whose row may be among them."""

_STATEMENTS = 512

_BEGIN = "BEGIN ISOLATION LEVEL SERIALIZABLE; SET LOCAL synchronous_commit = off"

_FLUSH = "SELECT pg_logical_emit_message(true, 'lakebed', '')"
"""A commit that touches no table, with the durability of the server's `synchronous_commit`. Runs on a separate pool."""

_INTERFERED = (asyncpg.SerializationError, asyncpg.DeadlockDetectedError)
_UNREACHABLE = (
    asyncpg.PostgresConnectionError,
    asyncpg.TooManyConnectionsError,
    asyncpg.OperatorInterventionError,
    asyncpg.IdleInTransactionSessionTimeoutError,
    asyncpg.InsufficientResourcesError,
    asyncpg.InternalClientError,
    OSError,  # and with it TimeoutError
)


class _Interfered(Exception):
    """The transaction was aborted because of a concurrent one: run it again."""

    def __init__(self, message: str, taken: str | None = None) -> None:
        super().__init__(message)
        self.taken = taken


class PostgresStore:
    """A `MetaStore` on a PostgreSQL database. Bound to the event loop that opened it."""

    def __init__(self, pool: Any, flush_pool: Any, random: Random) -> None:  # Any: asyncpg comes without types
        self._pool = pool
        self._flush_pool = flush_pool
        self._flush = SharedRuns(lambda: flush_pool.execute(_FLUSH))
        self._random = random
        self._under_way = 0
        self._settled = asyncio.Event()
        self._settled.set()
        self._closed = False

    @classmethod
    async def open(cls, dsn: str, *, connections: int = 16, random: Random) -> PostgresStore:
        """Connect, with at most `connections` connections, and one more for flushes.

        Raises Unavailable; InvalidSetting if the server acknowledges commits that are not durable.
        """
        pool = await _connect(dsn, connections)
        try:
            flush_pool = await _connect(dsn, 1)
        except BaseException:
            pool.terminate()
            raise
        store = cls(pool, flush_pool, random)
        setting = await store.row("SELECT current_setting('synchronous_commit')")
        if setting is None or setting[0] == "off":
            await store.close()
            raise InvalidSetting(
                "the metadata database acknowledges commits before they are durable: set synchronous_commit to on"
            )
        return store

    @property
    def dialect(self) -> str:
        """`postgres`."""
        return "postgres"

    async def row(self, sql: str, *args: Value) -> Row | None:
        """The first row, or None."""
        async with self._lent() as connection:
            try:
                found = await connection.fetchrow(numbered(sql), *args)
            except Exception as error:
                raise _translate(error) from error
        return None if found is None else tuple(found)

    async def rows(self, sql: str, *args: Value) -> list[Row]:
        """All rows."""
        async with self._lent() as connection:
            try:
                return [tuple(found) for found in await connection.fetch(numbered(sql), *args)]
            except Exception as error:
                raise _translate(error) from error

    async def transact(self, work: Work[T]) -> T:
        """Run `work` in one transaction and commit it durably; repeats it after an interference."""
        if self._closed:
            raise Unavailable("the metadata store is closed")
        self._under_way += 1
        self._settled.clear()
        try:
            return await self._repeat(work)
        finally:
            self._under_way -= 1
            if not self._under_way:
                self._settled.set()

    async def sync(self) -> None:
        """Wait until everything visible to reads is on stable storage, whichever server wrote it."""
        try:
            await self._flush.wait()
        except Exception as error:
            raise _translate(error) from error

    async def close(self) -> None:
        """Finish running transactions and close the connections, by force after a timeout. Idempotent."""
        self._closed = True
        try:
            async with asyncio.timeout(_CLOSE_SECONDS):
                await self._settled.wait()
                await self._pool.close()
                await self._flush_pool.close()
        except TimeoutError:
            self._pool.terminate()
            self._flush_pool.terminate()

    async def _repeat(self, work: Work[T]) -> T:
        pause = _FIRST_PAUSE_SECONDS
        taken: str | None = None
        for attempt in range(1, _ATTEMPTS + 1):
            try:
                return await self._attempt(work, taken)
            except _Interfered as error:
                if attempt == _ATTEMPTS:
                    raise WriteConflict(f"other transactions kept interfering. attempts={attempt}") from error
                taken = error.taken
            if taken is not None:
                continue  # the other transaction has committed
            await asyncio.sleep(pause * (0.5 + self._random.random()))
            pause = min(pause * 2, _LONGEST_PAUSE_SECONDS)
        raise AssertionError("unreachable: the last attempt returns or raises")

    @asynccontextmanager
    async def _lent(self) -> AsyncIterator[Any]:  # Any: asyncpg comes without types
        """A connection of the pool. Dropped if its user was cancelled: another user would get the pending responses.

        The driver does not repair it either: a statement that was prepared and not executed leaves a transaction open
        on the server without the driver's knowledge.
        """
        try:
            connection = await self._pool.acquire()
        except Exception as error:
            raise _translate(error) from error
        try:
            yield connection
        except Exception:
            raise
        except BaseException:
            _drop(connection)
            raise
        finally:
            await self._pool.release(connection)

    async def _attempt(self, work: Work[T], taken: str | None) -> T:
        callbacks: list[Callable[[], None]] = []
        async with self._lent() as connection:
            result = await self._commit(connection, work, callbacks, taken)
        try:
            await self._flush.wait()
        except Exception as error:
            raise _commit_error(error) from error
        for callback in callbacks:
            callback()
        return result

    async def _commit(
        self,
        connection: Any,  # Any: asyncpg comes without types
        work: Work[T],
        callbacks: list[Callable[[], None]],
        taken: str | None,
    ) -> T:
        try:
            await connection.execute(_BEGIN)
        except Exception as error:
            raise _translate(error) from error
        transaction = PostgresTransaction(connection, callbacks)
        try:
            result = await work(transaction)
            if transaction.failure is not None:
                raise transaction.failure
        except Exception as error:
            transaction.end()
            await _roll_back(connection)
            # Even if the work handled the failed statement, it runs again.
            if transaction.taken is not None and transaction.taken != taken:
                raise _Interfered("duplicate key", transaction.taken) from error
            if isinstance(transaction.failure, _Interfered) and error is not transaction.failure:
                raise transaction.failure from error
            raise
        transaction.end()
        try:
            outcome = await connection.execute("COMMIT")
        except _INTERFERED as error:
            raise _Interfered(str(error)) from error
        except Exception as error:
            raise _commit_error(error) from error
        if outcome != "COMMIT":
            raise Unavailable(f"the database did not commit. outcome={outcome}")
        return result


class PostgresTransaction:
    """The `Transaction` of one work. A failed statement dooms it, as in PostgreSQL itself."""

    __slots__ = ("_connection", "_on_commit", "_open", "failure", "taken")

    def __init__(
        self, connection: Any, on_commit: list[Callable[[], None]]
    ) -> None:  # Any: asyncpg comes without types
        self._connection = connection
        self._on_commit = on_commit
        self._open = True
        self.failure: Exception | None = None
        self.taken: str | None = None  # constraint and key of the conflicting row

    async def row(self, sql: str, *args: Value) -> Row | None:
        """The first row, or None."""
        found = await self._call(self._connection.fetchrow, sql, args)
        return None if found is None else tuple(found)

    async def rows(self, sql: str, *args: Value) -> list[Row]:
        """All rows."""
        return [tuple(found) for found in await self._call(self._connection.fetch, sql, args)]

    async def run(self, sql: str, *args: Value) -> int:
        """Execute a change; returns the number of affected rows."""
        # The command tag is "INSERT 0 3", "UPDATE 3", or words alone for statements without rows.
        verb, *rest = (await self._call(self._connection.execute, sql, args)).split()
        return int(rest[-1]) if verb in {"INSERT", "UPDATE", "DELETE", "MERGE"} else 0

    def on_commit(self, callback: Callable[[], None]) -> None:
        """Call `callback` once the transaction is on stable storage; never if it rolls back."""
        self._on_commit.append(callback)

    def end(self) -> None:
        """Reject any use of the transaction after its end."""
        self._open = False

    async def _call(self, method: Callable[..., Any], sql: str, args: tuple[Value, ...]) -> Any:  # Any: as above
        if not self._open:
            raise RuntimeError("a transaction was used after its end")
        if self.failure is not None:
            raise self.failure
        try:
            return await method(numbered(sql), *args)
        except Exception as error:
            self.failure = _translate(error)
            if isinstance(error, asyncpg.UniqueViolationError):
                self.taken = f"{error.constraint_name}: {error.detail}"
            if self.failure is error:
                raise
            raise self.failure from error


async def _roll_back(connection: Any) -> None:  # Any: asyncpg comes without types
    """Roll back; drops the connection if that fails."""
    try:
        await connection.execute("ROLLBACK")
    except (asyncpg.PostgresError, asyncpg.InterfaceError, OSError):
        _drop(connection)


def _drop(connection: Any) -> None:  # Any: asyncpg comes without types
    """Close the connection, so that the pool does not reuse it."""
    with suppress(asyncpg.InterfaceError):  # the server closed it, and the pool knows
        connection.terminate()


async def _connect(dsn: str, connections: int) -> Any:  # Any: asyncpg comes without types
    try:
        return await asyncpg.create_pool(
            dsn,
            min_size=1,
            max_size=connections,
            init=_prepare_connection,
            reset=_keep_session,
            command_timeout=_COMMAND_SECONDS,
            statement_cache_size=_STATEMENTS,
            max_cached_statement_lifetime=0,
        )
    except (asyncpg.PostgresError, OSError) as error:
        # The error may name host and user, never the password; the URL is not repeated.
        raise Unavailable(f"cannot connect to the metadata database. detail={error}") from error


async def _prepare_connection(connection: Any) -> None:  # Any: asyncpg comes without types
    await connection.execute(f"SET idle_in_transaction_session_timeout = '{_IDLE_SECONDS}s'")
    # A sum of 64-bit integers is `numeric` in PostgreSQL; callers expect an int.
    await connection.set_type_codec("numeric", schema="pg_catalog", encoder=str, decoder=int, format="text")


async def _keep_session(connection: Any) -> None:  # Any: asyncpg comes without types
    """Skip the reset, which saves a round trip per statement: no statement changes the session."""


def _translate(error: Exception) -> Exception:
    """The driver's error as an error of this product. Programming errors stay unchanged: callers cannot handle them."""
    if isinstance(error, _INTERFERED):
        return _Interfered(str(error))
    if isinstance(error, asyncpg.UniqueViolationError):
        return AlreadyExists(f"duplicate key. constraint={error.constraint_name}")
    if isinstance(error, asyncpg.CharacterNotInRepertoireError):
        # Protocols reject it earlier, except inside forged documents and tokens.
        return InvalidInput("text has a character that cannot be stored")
    if isinstance(error, asyncpg.DiskFullError):
        return StorageFull(f"no space left for metadata. detail={error}")
    if isinstance(error, _UNREACHABLE) or _is_closed(error):
        return Unavailable(f"metadata database unavailable. detail={type(error).__name__}: {error}")
    return error


def _commit_error(error: Exception) -> Exception:
    """The error of a failed COMMIT: undecided if no response arrived."""
    translated = _translate(error)
    if isinstance(error, asyncpg.InterfaceError) or type(translated) is Unavailable:
        return Unavailable(f"commit outcome unknown: no response. detail={error}", undecided=True)
    return translated


def _is_closed(error: Exception) -> bool:
    """Whether an InterfaceError is about a closed connection or pool instead of a programming error."""
    # A connection that the server closed returns to the pool while it is in use.
    return type(error) is asyncpg.InterfaceError and any(word in str(error) for word in ("clos", "released"))
