"""The metadata store of a larger installation: several servers over one PostgreSQL database.

Transactions are SERIALIZABLE: PostgreSQL lets them run side by side and stops one when their outcome would not be that
of any order. A stopped one is simply run again, which is why a work must touch nothing but its transaction. So is one
that met a taken key for the first time: PostgreSQL may say that of a row which another transaction committed meanwhile,
to a work that has just looked and found the key free. A second attempt sees the row, and what it says then holds.

A caller is answered only after its commit was flushed (`_flush`). Readers may see a commit a moment before that, as on
SQLite; `sync` is for those who tell others of what they saw.
"""

from __future__ import annotations

import asyncio
from collections.abc import AsyncIterator, Callable
from contextlib import asynccontextmanager, suppress
from random import Random
from typing import Any, TypeVar

import asyncpg

from lakebed.core.errors import AlreadyExists, InvalidInput, InvalidSetting, StorageFull, Unavailable, WriteConflict

from ..seam import Row, Value, Work
from ..sql_text import numbered
from .commit_flush import CommitFlush

T = TypeVar("T")

_ATTEMPTS = 12
_FIRST_PAUSE_SECONDS = 0.002
_LONGEST_PAUSE_SECONDS = 0.2
_COMMAND_SECONDS = 60.0
_CLOSE_SECONDS = 15.0
_IDLE_SECONDS = 10
"""After which the database ends a transaction that says nothing. Its server is paused or cut off, and others wait for
the rows that it changed. That it is the home of streams is among them: sooner than its lease is over, nobody waits."""

_STATEMENTS = 512

_BEGIN = "BEGIN ISOLATION LEVEL SERIALIZABLE; SET LOCAL synchronous_commit = off"

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
    """The transaction was stopped for the sake of another: run it again."""

    def __init__(self, message: str, taken: str | None = None) -> None:
        super().__init__(message)
        self.taken = taken


class PostgresStore:
    """A `MetaStore` on a PostgreSQL database. Bound to the event loop that opened it."""

    def __init__(self, pool: Any, flush_pool: Any, random: Random) -> None:  # Any: asyncpg comes without types
        self._pool = pool
        self._flush_pool = flush_pool
        self._flush = CommitFlush(flush_pool)
        self._random = random
        self._under_way = 0
        self._settled = asyncio.Event()
        self._settled.set()
        self._closed = False

    @classmethod
    async def open(cls, dsn: str, *, connections: int = 16, random: Random) -> PostgresStore:
        """Connect, with that many connections at most, and one more to flush with.

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
                "the metadata database acknowledges commits before they are durable: synchronous_commit"
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
        """Run `work` in one transaction and commit it durably, again if another one interfered."""
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
        """Wait until all that is visible to reads is on stable storage too, whichever server wrote it."""
        try:
            await self._flush.wait()
        except Exception as error:
            raise _translate(error) from error

    async def close(self) -> None:
        """Finish what is under way and close the connections, by force if that takes too long. Idempotent."""
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
                continue  # the other one has committed: nothing to wait for
            await asyncio.sleep(pause * (0.5 + self._random.random()))
            pause = min(pause * 2, _LONGEST_PAUSE_SECONDS)
        raise AssertionError("unreachable: the last attempt returns or raises")

    @asynccontextmanager
    async def _lent(self) -> AsyncIterator[Any]:  # Any: asyncpg comes without types
        """A connection of the pool. One whose user was cancelled is not used again: nobody else may get the answers.

        The driver does not mend it either: a statement that was prepared and not run leaves a transaction open on the
        server that it does not know of.
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
        told: list[Callable[[], None]] = []
        async with self._lent() as connection:
            result = await self._commit(connection, work, told, taken)
        try:
            await self._flush.wait()
        except Exception as error:
            raise _answer_lost(error) from error
        for hear in told:
            hear()
        return result

    async def _commit(
        self,
        connection: Any,  # Any: asyncpg comes without types
        work: Work[T],
        told: list[Callable[[], None]],
        taken: str | None,
    ) -> T:
        try:
            await connection.execute(_BEGIN)
        except Exception as error:
            raise _translate(error) from error
        transaction = PostgresTransaction(connection, told)
        try:
            result = await work(transaction)
            if transaction.failure is not None:
                raise transaction.failure
        except Exception as error:
            transaction.end()
            await _roll_back(connection)
            # Whatever the work made of the statement that failed: it runs again.
            if transaction.taken is not None and transaction.taken != taken:
                raise _Interfered("a key is taken", transaction.taken) from error
            if isinstance(transaction.failure, _Interfered) and error is not transaction.failure:
                raise transaction.failure from error
            raise
        transaction.end()
        try:
            outcome = await connection.execute("COMMIT")
        except _INTERFERED as error:
            raise _Interfered(str(error)) from error
        except Exception as error:
            raise _answer_lost(error) from error
        if outcome != "COMMIT":
            raise Unavailable(f"the database did not commit. outcome={outcome}")
        return result


class PostgresTransaction:
    """The `Transaction` of one work. A statement that failed dooms it, as PostgreSQL itself has it."""

    __slots__ = ("_connection", "_on_commit", "_open", "failure", "taken")

    def __init__(
        self, connection: Any, on_commit: list[Callable[[], None]]
    ) -> None:  # Any: asyncpg comes without types
        self._connection = connection
        self._on_commit = on_commit
        self._open = True
        self.failure: Exception | None = None
        self.taken: str | None = None  # the constraint and the key of the row in the way, if one was

    async def row(self, sql: str, *args: Value) -> Row | None:
        """The first row, or None."""
        found = await self._call(self._connection.fetchrow, sql, args)
        return None if found is None else tuple(found)

    async def rows(self, sql: str, *args: Value) -> list[Row]:
        """All rows."""
        return [tuple(found) for found in await self._call(self._connection.fetch, sql, args)]

    async def run(self, sql: str, *args: Value) -> int:
        """Execute a change; the number of rows it touched."""
        # The answer is "INSERT 0 3", "UPDATE 3" or, for what touches no rows, words alone.
        verb, *rest = (await self._call(self._connection.execute, sql, args)).split()
        return int(rest[-1]) if verb in {"INSERT", "UPDATE", "DELETE", "MERGE"} else 0

    def on_commit(self, told: Callable[[], None]) -> None:
        """Call `told` once the transaction is on stable storage; never if it rolls back."""
        self._on_commit.append(told)

    def end(self) -> None:
        """Refuse what a work does with its transaction after it ended."""
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
    """Roll back; a connection that cannot is not used again."""
    try:
        await connection.execute("ROLLBACK")
    except (asyncpg.PostgresError, asyncpg.InterfaceError, OSError):
        _drop(connection)


def _drop(connection: Any) -> None:  # Any: asyncpg comes without types
    """Have nobody use it again."""
    with suppress(asyncpg.InterfaceError):  # the server ended it, and the pool has heard of that before us
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
        # Its text may name the host and the user, never the password; the address is not repeated here.
        raise Unavailable(f"cannot connect to the metadata database. detail={error}") from error


async def _prepare_connection(connection: Any) -> None:  # Any: asyncpg comes without types
    await connection.execute(f"SET idle_in_transaction_session_timeout = '{_IDLE_SECONDS}s'")
    # A sum of 64-bit integers is `numeric` there; here every number is an int.
    await connection.set_type_codec("numeric", schema="pg_catalog", encoder=str, decoder=int, format="text")


async def _keep_session(connection: Any) -> None:  # Any: asyncpg comes without types
    """Nothing to reset, and a round trip saved a statement: no statement changes the session after it was prepared."""


def _translate(error: Exception) -> Exception:
    """What the driver's error means here. A mistake in a statement stays what it is: nobody can handle it."""
    if isinstance(error, _INTERFERED):
        return _Interfered(str(error))
    if isinstance(error, asyncpg.UniqueViolationError):
        return AlreadyExists(f"a row with that key exists. constraint={error.constraint_name}")
    if isinstance(error, asyncpg.CharacterNotInRepertoireError):
        # Edges refuse it before; what comes here was hidden in a document or token that nobody was to write.
        return InvalidInput("a text holds a character that cannot be stored")
    if isinstance(error, asyncpg.DiskFullError):
        return StorageFull(f"no space left for metadata. detail={error}")
    if isinstance(error, _UNREACHABLE) or _is_closed(error):
        return Unavailable(f"the metadata database cannot be used. detail={type(error).__name__}: {error}")
    return error


def _answer_lost(error: Exception) -> Exception:
    """What an error after the word COMMIT was sent means: if the server was not heard, nobody knows."""
    meaning = _translate(error)
    if isinstance(error, asyncpg.InterfaceError) or type(meaning) is Unavailable:
        return Unavailable(f"the answer to a commit was lost. detail={error}", undecided=True)
    return meaning


def _is_closed(error: Exception) -> bool:
    """Whether an InterfaceError tells of a closed connection or pool, rather than of a mistake in the call."""
    # A connection that the server ended goes back to the pool by itself, from under who uses it.
    return type(error) is asyncpg.InterfaceError and any(word in str(error) for word in ("clos", "released"))
