"""The embedded metadata store: one SQLite file in WAL mode, shared by the processes of one server.

Every statement runs on the event loop's thread, on one connection: a point read takes a few microseconds, less than a
thread switch. Concurrent writers share one commit. ADR 4 has the measurements.

Invariants:

- A batch holds the write lock (`_write_lock`) from BEGIN to COMMIT and never suspends in between: no read of this
  process and no write of another one falls into it.
- `transact` returns only after the WAL was synced (`_wal`) past its commit. Reads may see a commit a moment earlier;
  call `sync` before publishing what was read.
"""

from __future__ import annotations

import asyncio
import contextvars
import shutil
import tempfile
from collections import deque
from contextlib import ExitStack
from pathlib import Path
from typing import TypeVar

import apsw

from lakebed.core.errors import StorageFull, Unavailable

from ..seam import Row, Value, Work
from .batch import PendingWork, run_batch
from .call_thread import CallThread
from .checkpoint import Checkpointer, start_over
from .file import NO_SPACE, beside, open_file, translate
from .wal_sync import WalSync
from .write_lock import WriteLock

T = TypeVar("T")

_BATCH_WORKS = 128
"""The maximum of works in one commit."""

_BATCH_SECONDS = 0.004
"""A batch starts no further work after this time, so that other processes and coroutines can run."""

_OUTSIDER_PAUSE_SECONDS = 0.05
_OUTSIDER_ATTEMPTS = 100
"""Attempts to get SQLite's own write lock while a program that bypasses the write lock holds it."""


class SqliteStore:
    """A `MetaStore` on one SQLite file. Bound to the event loop that opened it."""

    def __init__(self, path: Path, connection: apsw.Connection, write_lock: WriteLock) -> None:
        self._loop = asyncio.get_running_loop()
        self._connection = connection
        self._cursor = connection.cursor()
        self._write_lock = write_lock
        self._lock_thread = CallThread("lakebed-write-turn", self._loop)
        self._wal = WalSync(beside(path, "-wal"), self._loop, start_over=lambda: start_over(path))
        self._checkpointer = Checkpointer(path, self._loop)
        self._queue: deque[PendingWork] = deque()
        self._scheduled = False
        self._in_batch = False
        self._alone = 0
        self._outsider_attempts = 0
        self._unsettled = 0
        self._settled = asyncio.Event()
        self._settled.set()
        self._closed = False
        self._own_folder: Path | None = None
        connection.set_wal_hook(self._after_commit)

    @classmethod
    async def open(cls, path: Path | str) -> SqliteStore:
        """Open or create the file, in a folder that exists. Raises Unavailable, StorageFull, Corrupted."""
        path = Path(path)
        try:
            write_lock = await asyncio.to_thread(WriteLock, path)
        except OSError as error:
            raise Unavailable(f"cannot open the metadata file. path={path} error={error.strerror}") from error
        with ExitStack() as undo:
            undo.callback(write_lock.close)
            connection = await asyncio.to_thread(open_file, path, write_lock)
            undo.callback(connection.close)
            store = cls(path, connection, write_lock)
            undo.pop_all()
        return store

    @classmethod
    async def temporary(cls) -> SqliteStore:
        """A store in a temporary folder, removed by `close`."""
        folder = Path(await asyncio.to_thread(tempfile.mkdtemp, prefix="lakebed-meta-"))
        store = await cls.open(folder / "meta.db")
        store._own_folder = folder
        return store

    @property
    def dialect(self) -> str:
        """`sqlite`."""
        return "sqlite"

    async def row(self, sql: str, *args: Value) -> Row | None:
        """The first row, or None. Never suspends."""
        self._refuse_inside_batch()
        try:
            found = self._cursor.execute(sql, args)
            row = found.fetchone()
            if row is not None and found.fetchone() is not None:
                # A half-read statement would hold its snapshot, and so the WAL.
                found.close()
                self._cursor = self._connection.cursor()
        except apsw.Error as error:
            raise translate(error, self._connection) from error
        return row

    async def rows(self, sql: str, *args: Value) -> list[Row]:
        """All rows. Never suspends."""
        self._refuse_inside_batch()
        try:
            return self._cursor.execute(sql, args).fetchall()
        except apsw.Error as error:
            raise translate(error, self._connection) from error

    async def transact(self, work: Work[T]) -> T:
        """Run `work` in one transaction and commit it durably. An exception of `work` rolls back and propagates."""
        self._refuse_closed()
        pending = PendingWork(work, self._loop.create_future(), contextvars.copy_context())
        self._queue.append(pending)
        self._unsettled += 1
        self._settled.clear()
        self._schedule()
        result: T = await pending.future
        return result

    async def sync(self) -> None:
        """Wait until everything visible to reads is on stable storage, whichever process wrote it."""
        self._refuse_closed()
        synced: asyncio.Future[None] = self._loop.create_future()

        def report(failure: BaseException | None) -> None:
            if synced.done():
                return
            if failure is None:
                synced.set_result(None)
            else:
                synced.set_exception(_sync_failed(failure))

        self._wal.after_sync(report)
        await synced

    async def close(self) -> None:
        """Finish running transactions and release the store. Idempotent."""
        if self._closed:
            return
        self._closed = True
        await self._settled.wait()
        await asyncio.to_thread(self._release)

    def _release(self) -> None:
        self._lock_thread.close()
        self._wal.close()
        self._checkpointer.close()
        self._connection.close()
        self._write_lock.close()
        if self._own_folder is not None:
            shutil.rmtree(self._own_folder)

    def _refuse_closed(self) -> None:
        if self._closed:
            raise Unavailable("the metadata store is closed")

    def _refuse_inside_batch(self) -> None:
        if self._in_batch:
            raise RuntimeError("a transaction read from the store instead of from itself")

    def _schedule(self) -> None:
        """Schedule a batch. At most one is scheduled: for the next tick, for the write lock, or after an outsider."""
        if not self._scheduled and self._queue:
            self._scheduled = True
            self._loop.call_soon(self._acquire_lock)

    def _acquire_lock(self) -> None:
        if self._write_lock.try_acquire():
            self._run_batch()
        else:
            self._lock_thread.call(self._write_lock.acquire, self._run_with_lock)

    def _run_with_lock(self, failure: BaseException | None) -> None:
        if failure is None:
            self._run_batch()
        else:
            self._scheduled = False
            self._fail(list(self._queue), Unavailable(f"cannot acquire the write lock. error={failure}"))
            self._queue.clear()

    def _run_batch(self) -> None:
        most = 1 if self._alone else _BATCH_WORKS
        self._alone = max(0, self._alone - 1)
        works = [self._queue.popleft() for _ in range(min(len(self._queue), most))]
        deadline = self._loop.time() + _BATCH_SECONDS
        self._in_batch = True
        try:
            count = run_batch(self._connection, works, may_continue=lambda: self._loop.time() < deadline)
        except apsw.BusyError as error:
            self._await_outsider(works, error)
            return
        except apsw.Error as error:
            self._fail_batch(works, translate(error, self._connection))
        except Exception as error:
            self._fail_batch(works, error)
        except BaseException:
            self._fail(works, Unavailable("the process is being interrupted"))
            self._scheduled = False
            self._schedule()
            raise
        else:
            self._queue.extendleft(reversed(works[count:]))
            self._settle_after_sync(works[:count])
        finally:
            self._in_batch = False
            self._write_lock.release()
        self._outsider_attempts = 0
        self._scheduled = False
        self._schedule()

    def _await_outsider(self, works: list[PendingWork], error: apsw.BusyError) -> None:
        """Retry while another program (a shell, a backup) writes the file without the write lock; then give up."""
        self._outsider_attempts += 1
        if self._outsider_attempts < _OUTSIDER_ATTEMPTS:
            self._queue.extendleft(reversed(works))
            self._loop.call_later(_OUTSIDER_PAUSE_SECONDS, self._acquire_lock)
            return
        self._outsider_attempts = 0
        self._fail(works, translate(error))
        self._scheduled = False
        self._schedule()

    def _settle_after_sync(self, works: list[PendingWork]) -> None:
        committed = [pending for pending in works if not pending.future.done()]
        self._count_settled(len(works) - len(committed))
        if committed:
            self._wal.after_sync(lambda failure: self._settle(committed, failure))

    def _settle(self, works: list[PendingWork], failure: BaseException | None) -> None:
        if failure is not None:
            self._fail(works, _sync_failed(failure))
            return
        for pending in works:
            pending.succeed()
        self._count_settled(len(works))

    def _fail_batch(self, works: list[PendingWork], error: Exception) -> None:
        """Nothing of a batch was committed."""
        if not isinstance(error, StorageFull) or len(works) == 1:
            self._fail(works, error)
            return
        # SQLite rolls back the whole transaction on a full disk. Works that free space, or need none, must not fail
        # with the others: each work runs alone.
        for pending in works:
            pending.on_commit.clear()
        self._queue.extendleft(reversed(works))
        self._alone = len(works)

    def _fail(self, works: list[PendingWork], error: Exception) -> None:
        for pending in works:
            pending.fail(error)
        self._count_settled(len(works))

    def _count_settled(self, count: int) -> None:
        self._unsettled -= count
        if not self._unsettled:
            self._settled.set()

    def _after_commit(self, _connection: apsw.Connection, _name: str, log_pages: int) -> int:
        self._checkpointer.log_has(log_pages)
        return apsw.SQLITE_OK


def _sync_failed(failure: BaseException) -> Unavailable:
    """The error of a failed sync: the commit is visible, but may not survive a power loss."""
    message = f"metadata sync failed. error={failure}"
    if isinstance(failure, OSError) and failure.errno in NO_SPACE:
        return StorageFull(message, undecided=True)
    return Unavailable(message, undecided=True)
