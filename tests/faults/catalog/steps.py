"""A catalog in a separate process that dies at a chosen step of a request.

Steps are the points at which a death leaves partial work: around the writing of a file, between the statements of a
transaction, around its commit. Thin wrappers around the real stores count them.
"""

from __future__ import annotations

import asyncio
import json
import os
import signal
import time
from collections.abc import AsyncIterator, Callable
from contextlib import AsyncExitStack, asynccontextmanager
from pathlib import Path
from typing import Final, TypeVar

from lakebed.core.clock import ManualClock
from lakebed.meta.seam import MetaStore, Row, Transaction, Value, Work
from lakebed.server.stores.metadata import SQLITE_FILE
from lakebed.server.stores.object_store import BYTES_FOLDER
from lakebed.storage.folder.storage import FolderStorage
from lakebed.storage.seam import ByteSource, FileWriter, Key
from tests.meta.stores import open_migrated_file
from tests.objects.stores import wire
from tests.wire.iceberg.lake import BASE, Lake, wire_lake

from .wire import Call

T = TypeVar("T")

PASSED_FILE: Final = "passed.json"
"""Where a process that does not die stores the names of its steps."""

COMMITTED: Final = "committed"
"""From this step on the change has happened."""


class Steps:
    """Counts the steps of a request, and dies at one."""

    def __init__(self, fatal: int | None = None) -> None:
        self.passed: list[str] = []
        self.counts = False
        """Whether the request has begun: opening the stores is not counted."""
        self._fatal = fatal

    def __call__(self, name: str) -> None:
        if not self.counts:
            return
        if len(self.passed) == self._fatal:
            os.kill(os.getpid(), signal.SIGKILL)
        self.passed.append(name)


class _CountedTransaction:
    def __init__(self, inner: Transaction, step: Steps) -> None:
        self._inner = inner
        self._step = step

    async def row(self, sql: str, *args: Value) -> Row | None:
        found = await self._inner.row(sql, *args)
        self._step(_shortened(sql))
        return found

    async def rows(self, sql: str, *args: Value) -> list[Row]:
        found = await self._inner.rows(sql, *args)
        self._step(_shortened(sql))
        return found

    async def run(self, sql: str, *args: Value) -> int:
        touched = await self._inner.run(sql, *args)
        self._step(_shortened(sql))
        return touched

    def on_commit(self, callback: Callable[[], None]) -> None:
        self._inner.on_commit(callback)


class CountedStore:
    """A metadata store with steps in its transactions."""

    def __init__(self, inner: MetaStore, step: Steps) -> None:
        self._inner = inner
        self._step = step

    @property
    def dialect(self) -> str:
        return self._inner.dialect

    async def row(self, sql: str, *args: Value) -> Row | None:
        return await self._inner.row(sql, *args)

    async def rows(self, sql: str, *args: Value) -> list[Row]:
        return await self._inner.rows(sql, *args)

    async def transact(self, work: Work[T]) -> T:
        async def counted(tx: Transaction) -> T:
            self._step("transaction begun")
            result = await work(_CountedTransaction(tx, self._step))
            self._step("transaction about to commit")
            return result

        self._step("before the transaction")
        result = await self._inner.transact(counted)
        self._step(COMMITTED)
        return result

    async def sync(self) -> None:
        await self._inner.sync()

    async def close(self) -> None:
        await self._inner.close()


class _CountedWriter:
    def __init__(self, inner: FileWriter, step: Steps) -> None:
        self._inner = inner
        self._step = step

    def write(self, body: ByteSource) -> None:
        self._inner.write(body)

    def commit(self) -> None:
        self._step("file written")
        self._inner.commit()
        self._step("file stored")

    def discard(self) -> None:
        self._inner.discard()


class CountedFolder(FolderStorage):
    """A storage backend with steps around the writing of files."""

    def __init__(self, root: Path, clock: ManualClock, step: Steps) -> None:
        super().__init__(root, clock)
        self._step = step

    def create_file(  # type: ignore[override]  # callers use the protocol, which requires no more
        self, key: Key, size_hint: int | None = None
    ) -> FileWriter:
        self._step("before the file")
        return _CountedWriter(super().create_file(key, size_hint), self._step)


@asynccontextmanager
async def open_catalog(data: Path, step: Steps, *, hours_later: int = 0) -> AsyncIterator[Lake]:
    """A catalog on a folder, at the present time or later."""
    clock = ManualClock(time.time_ns() // 1_000_000 + hours_later * 3_600_000)
    async with AsyncExitStack() as stack:
        meta = await open_migrated_file(data / SQLITE_FILE)
        stack.push_async_callback(meta.close)
        storage = CountedFolder(data / BYTES_FOLDER, clock, step)
        stack.push_async_callback(storage.close)
        store = wire(CountedStore(meta, step), storage, clock)
        stack.callback(store.object_context.ingester.close)
        yield wire_lake(store)


def run(data: Path, call: Call, fatal: int | None) -> None:
    """Handle one request, and die at step `fatal` unless it is None. Runs in a separate process."""
    asyncio.run(_run(data, call, fatal))


async def _run(data: Path, call: Call, fatal: int | None) -> None:
    step = Steps(fatal)
    async with open_catalog(data, step) as lake:
        step.counts = True
        status = await send(lake, call)
        step("before the response")
        step.counts = False
    assert status in (200, 204), status
    (data / PASSED_FILE).write_text(json.dumps(step.passed))


async def send(lake: Lake, call: Call) -> int:
    """Send a request. Returns its status."""
    body = b"" if call.document is None else json.dumps(call.document).encode()
    headers = {"idempotency-key": call.key} if call.key else {}
    return (await lake.send(call.method, f"{BASE}/{call.path}", body, headers)).status


def _shortened(sql: str) -> str:
    """A short form of a statement: `INSERT INTO entry_commits`."""
    words = sql.split()
    at = next((n for n, word in enumerate(words) if word in ("FROM", "INTO", "UPDATE")), 0)
    return f"{words[0]} {words[at + 1]}" if at + 1 < len(words) else words[0]
