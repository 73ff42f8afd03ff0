from __future__ import annotations

import asyncio
import errno
import functools
import os
import sys
import threading
from collections.abc import AsyncIterator
from contextlib import suppress
from contextvars import ContextVar
from pathlib import Path

import apsw
import pytest

from lakebed.core.errors import Corrupted, StorageFull, Unavailable
from lakebed.meta.seam import Transaction, Work
from lakebed.meta.sqlite import store as store_module
from lakebed.meta.sqlite.checkpoint import Checkpointer
from lakebed.meta.sqlite.store import SqliteStore
from tests.contracts.meta import MetaContract
from tests.meta.stores import until


class TestSqliteStore(MetaContract):
    @pytest.fixture
    def address(self, tmp_path: Path) -> str:
        return f"sqlite:{tmp_path / 'meta.db'}"


@pytest.fixture
def path(tmp_path: Path) -> Path:
    return tmp_path / "meta.db"


@pytest.fixture
async def store(path: Path) -> AsyncIterator[SqliteStore]:
    store = await SqliteStore.open(path)
    await store.transact(_create)
    yield store
    await store.close()


async def _create(tx: Transaction) -> None:
    await tx.run("CREATE TABLE items (id INTEGER PRIMARY KEY, body BLOB)")


def _insert(number: int, body: bytes = b"") -> Work[None]:
    async def work(tx: Transaction) -> None:
        await tx.run("INSERT INTO items (id, body) VALUES (?, ?)", number, body)

    return work


async def _ids(store: SqliteStore) -> list[int]:
    return [number for (number,) in await store.rows("SELECT id FROM items ORDER BY id")]


_request: ContextVar[str | None] = ContextVar("request", default=None)


def _fill(ballast: Path) -> None:
    with ballast.open("wb", buffering=0) as file, suppress(OSError):
        while file.write(bytes(4096)):
            pass


class Disk:
    """Replaces `os.fdatasync`: counts, waits or fails on request."""

    def __init__(self, monkeypatch: pytest.MonkeyPatch) -> None:
        self._real = os.fdatasync
        self._lock = threading.Lock()
        self.may_sync = threading.Event()
        self.may_sync.set()
        self.calls = 0
        self.failures: list[OSError] = []
        monkeypatch.setattr(os, "fdatasync", self._sync)

    def _sync(self, descriptor: int) -> None:
        with self._lock:
            self.calls += 1
        assert self.may_sync.wait(60)
        if self.failures:
            raise self.failures.pop()
        self._real(descriptor)


async def test_commit_is_acknowledged_after_the_sync(store: SqliteStore, monkeypatch: pytest.MonkeyPatch) -> None:
    disk = Disk(monkeypatch)
    disk.may_sync.clear()
    caller = asyncio.create_task(store.transact(_insert(1)))
    await until(lambda: disk.calls == 1)
    assert await _ids(store) == [1]  # as documented: visible shortly before it is durable
    assert not caller.done()
    disk.may_sync.set()
    await caller


async def test_commits_during_a_sync_share_the_next(store: SqliteStore, monkeypatch: pytest.MonkeyPatch) -> None:
    disk = Disk(monkeypatch)
    disk.may_sync.clear()
    callers = [asyncio.create_task(store.transact(_insert(0)))]
    await until(lambda: disk.calls == 1)
    for number in range(1, 6):
        callers.append(asyncio.create_task(store.transact(_insert(number))))
        await asyncio.sleep(0)
        await asyncio.sleep(0)
    assert await _ids(store) == [0, 1, 2, 3, 4, 5]
    assert disk.calls == 1
    disk.may_sync.set()
    await asyncio.gather(*callers)
    assert disk.calls == 2


async def test_sync_covers_everything_visible_at_its_request(
    store: SqliteStore, monkeypatch: pytest.MonkeyPatch
) -> None:
    disk = Disk(monkeypatch)
    disk.may_sync.clear()
    caller = asyncio.create_task(store.transact(_insert(1)))
    await until(lambda: disk.calls == 1)
    teller = asyncio.create_task(store.sync())
    disk.may_sync.set()
    await teller
    await caller
    # The first sync may have started before the write: the caller waited for the next.
    assert disk.calls == 2


@pytest.mark.parametrize(("code", "kind"), [(errno.EIO, Unavailable), (errno.ENOSPC, StorageFull)])
async def test_failed_sync_is_undecided(
    store: SqliteStore, monkeypatch: pytest.MonkeyPatch, code: int, kind: type[Unavailable]
) -> None:
    disk = Disk(monkeypatch)
    disk.failures.append(OSError(code, os.strerror(code)))
    with pytest.raises(kind) as raised:
        await store.transact(_insert(1))
    assert raised.value.undecided
    disk.failures.append(OSError(code, os.strerror(code)))
    with pytest.raises(kind):
        await store.sync()
    await store.transact(_insert(2))
    await store.sync()


async def test_after_a_failed_sync_commits_wait_for_a_wal_restart(
    store: SqliteStore, path: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    disk = Disk(monkeypatch)
    disk.failures.append(OSError(errno.EIO, "broken"))
    log = path.with_name("meta.db-wal")
    with pytest.raises(Unavailable):
        await store.transact(_insert(1))
    assert log.stat().st_size > 0
    await store.transact(_insert(2))
    assert log.stat().st_size == 0
    assert await _ids(store) == [1, 2]


async def test_commits_fail_while_the_wal_cannot_restart(
    store: SqliteStore, path: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    disk = Disk(monkeypatch)
    disk.failures.append(OSError(errno.EIO, "broken"))
    reader = apsw.Connection(str(path))
    cursor = reader.execute("SELECT name FROM sqlite_schema UNION ALL SELECT 1")
    cursor.fetchone()  # holds its snapshot, and so the WAL
    with pytest.raises(Unavailable):
        await store.transact(_insert(1))
    with pytest.raises(Unavailable) as raised:
        await store.transact(_insert(2))
    assert raised.value.undecided
    cursor.close()
    reader.close()
    await store.transact(_insert(3))
    assert await _ids(store) == [1, 2, 3]


async def test_work_that_awaits_something_else_is_rolled_back_alone(store: SqliteStore) -> None:
    async def work(tx: Transaction) -> None:
        await tx.run("INSERT INTO items (id) VALUES (?)", 1)
        await asyncio.sleep(0)

    bystander = asyncio.create_task(store.transact(_insert(2)))
    with pytest.raises(RuntimeError, match="awaited something other than its transaction"):
        await store.transact(work)
    await bystander
    assert await _ids(store) == [2]


async def test_work_cannot_read_from_the_store(store: SqliteStore) -> None:
    async def one(_: Transaction) -> None:
        await store.row("SELECT id FROM items")

    async def many(_: Transaction) -> None:
        await store.rows("SELECT id FROM items")

    for work in (one, many):
        with pytest.raises(RuntimeError, match="instead of from itself"):
            await store.transact(work)


async def test_cancelled_queued_work_does_not_run(store: SqliteStore) -> None:
    first = asyncio.create_task(store.transact(_insert(1)))
    second = asyncio.create_task(store.transact(_insert(2)))
    await asyncio.sleep(0)
    first.cancel()
    await second
    assert await _ids(store) == [2]


async def test_work_runs_in_the_context_of_its_caller(store: SqliteStore) -> None:
    async def call(name: str) -> str | None:
        async def work(_: Transaction) -> str | None:
            return _request.get()

        _request.set(name)
        return await store.transact(work)

    assert list(await asyncio.gather(*map(call, "abc"))) == ["a", "b", "c"]


async def test_works_are_committed_in_order_in_bounded_batches(
    store: SqliteStore, monkeypatch: pytest.MonkeyPatch
) -> None:
    monkeypatch.setattr(store_module, "_BATCH_WORKS", 10)
    order: list[int] = []

    def noting(number: int) -> Work[None]:
        async def work(tx: Transaction) -> None:
            order.append(number)
            await tx.run("INSERT INTO items (id) VALUES (?)", number)

        return work

    commits = 0

    def count(_connection: apsw.Connection, _name: str, _pages: int) -> int:
        nonlocal commits
        commits += 1
        return apsw.SQLITE_OK

    store._connection.set_wal_hook(count)
    await asyncio.gather(*(store.transact(noting(number)) for number in range(95)))
    assert order == list(range(95))
    assert commits == 10


async def test_slow_batch_leaves_the_rest_to_the_next(store: SqliteStore, monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setattr(store_module, "_BATCH_SECONDS", -1.0)
    await asyncio.gather(*(store.transact(_insert(number)) for number in range(10)))
    assert await _ids(store) == list(range(10))


async def test_reading_one_of_many_rows_leaves_no_open_snapshot(store: SqliteStore) -> None:
    await asyncio.gather(*(store.transact(_insert(number)) for number in range(10)))
    assert await store.row("SELECT id FROM items ORDER BY id") == (0,)
    assert store._connection.txn_state("main") == apsw.SQLITE_TXN_NONE
    assert await store.row("SELECT id FROM items ORDER BY id DESC") == (9,)


async def test_full_file_is_storage_full_until_there_is_space(store: SqliteStore) -> None:
    pages = store._connection.pragma("page_count")
    store._connection.pragma("max_page_count", pages + 4)
    with pytest.raises(StorageFull) as raised:
        await store.transact(_insert(1, b"x" * 100_000))
    assert not raised.value.undecided
    assert await _ids(store) == []
    store._connection.pragma("max_page_count", 1 << 30)
    await store.transact(_insert(1, b"x" * 100_000))
    assert await _ids(store) == [1]


@pytest.mark.integration
@pytest.mark.skipif(os.geteuid() != 0, reason="only root can mount a small disk")
async def test_full_disk_fails_writers_until_there_is_space(tmp_path: Path) -> None:
    mount = await asyncio.create_subprocess_exec("mount", "-t", "tmpfs", "-o", "size=2m", "tmpfs", tmp_path)
    if await mount.wait():
        pytest.skip("this machine does not let us mount a small disk")
    try:
        store = await SqliteStore.open(tmp_path / "meta.db")
        await store.transact(_create)
        ballast = tmp_path / "ballast"
        _fill(ballast)
        results = await asyncio.gather(
            *(store.transact(_insert(number, b"x" * 100_000)) for number in range(3)), return_exceptions=True
        )
        assert all(isinstance(result, StorageFull) and not result.undecided for result in results), results
        assert await _ids(store) == []
        ballast.unlink()
        await asyncio.gather(*(store.transact(_insert(number, b"x" * 100_000)) for number in range(3)))
        assert await _ids(store) == [0, 1, 2]
        await store.close()
    finally:
        await (await asyncio.create_subprocess_exec("umount", tmp_path)).wait()


async def test_file_that_is_not_a_database_is_rejected(path: Path) -> None:
    path.write_bytes(b"neither SQLite nor anything else" * 100)
    with pytest.raises(Corrupted):
        await SqliteStore.open(path)


async def test_missing_folder_is_rejected(tmp_path: Path) -> None:
    with pytest.raises(Unavailable, match="cannot open the metadata file"):
        await SqliteStore.open(tmp_path / "nowhere" / "meta.db")


async def test_files_have_mode_0600(store: SqliteStore, path: Path) -> None:
    await store.transact(_insert(1))
    files = list(path.parent.iterdir())
    assert path in files
    assert {file.stat().st_mode & 0o777 for file in files} == {0o600}


async def test_temporary_store_removes_its_files(tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setattr("tempfile.tempdir", str(tmp_path))
    store = await SqliteStore.temporary()
    await store.transact(_create)
    assert list(tmp_path.iterdir())
    await store.close()
    assert not list(tmp_path.iterdir())


async def test_concurrent_opens_of_a_new_file_succeed(path: Path) -> None:
    stores = await asyncio.gather(*(SqliteStore.open(path) for _ in range(8)))
    await stores[0].transact(_create)
    await asyncio.gather(*(store.transact(_insert(number)) for number, store in enumerate(stores)))
    assert await _ids(stores[-1]) == list(range(8))
    for store in stores:
        await store.close()


async def test_writers_wait_for_a_program_that_bypasses_the_write_lock(store: SqliteStore, path: Path) -> None:
    outsider = apsw.Connection(str(path))
    outsider.execute("BEGIN IMMEDIATE; INSERT INTO items (id) VALUES (100)")
    caller = asyncio.create_task(store.transact(_insert(1)))
    await until(lambda: store._outsider_attempts > 0)
    assert await _ids(store) == []  # reads continue
    outsider.execute("COMMIT")
    outsider.close()
    await caller
    assert await _ids(store) == [1, 100]


async def test_writers_give_up_on_a_program_that_keeps_the_lock(
    store: SqliteStore, path: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    monkeypatch.setattr(store_module, "_OUTSIDER_ATTEMPTS", 2)
    monkeypatch.setattr(store_module, "_OUTSIDER_PAUSE_SECONDS", 0.0)
    outsider = apsw.Connection(str(path))
    outsider.execute("BEGIN IMMEDIATE")
    with pytest.raises(Unavailable):
        await store.transact(_insert(1))
    outsider.execute("ROLLBACK")
    outsider.close()
    await store.transact(_insert(1))
    assert await _ids(store) == [1]


async def test_write_lock_of_a_killed_process_passes_to_waiters(
    store: SqliteStore, path: Path, pytestconfig: pytest.Config
) -> None:
    hold = (
        "import pathlib, sys; from lakebed.meta.sqlite.write_lock import WriteLock; "
        "WriteLock(pathlib.Path(sys.argv[1])).acquire(); print('held', flush=True); sys.stdin.read()"
    )
    holder = await asyncio.create_subprocess_exec(
        sys.executable, "-c", hold, path, stdin=asyncio.subprocess.PIPE, stdout=asyncio.subprocess.PIPE
    )
    assert holder.stdout is not None
    assert await holder.stdout.readline() == b"held\n"
    callers = [asyncio.create_task(store.transact(_insert(number))) for number in range(3)]
    for _ in range(10):
        await asyncio.sleep(0)
    assert await _ids(store) == []  # the loop is not blocked; writers wait
    assert not any(caller.done() for caller in callers)
    holder.kill()
    await asyncio.gather(*callers)
    await holder.wait()
    assert await _ids(store) == [0, 1, 2]


@pytest.mark.slow
async def test_wal_size_is_bounded(path: Path, monkeypatch: pytest.MonkeyPatch) -> None:
    small = functools.partial(Checkpointer, passive_bytes=128 << 10, restart_bytes=512 << 10)
    monkeypatch.setattr(store_module, "Checkpointer", small)
    store = await SqliteStore.open(path)
    await store.transact(_create)
    written = 0
    for number in range(0, 2000, 20):
        await asyncio.gather(*(store.transact(_insert(number + step, bytes(4096))) for step in range(20)))
        written += 20 * 4096
        await until(lambda: not store._checkpointer.is_running)
    log = path.with_name("meta.db-wal").stat().st_size
    assert log < 2 << 20 < written
    assert len(await _ids(store)) == 2000
    await store.close()


async def test_recreated_wal_is_synced(store: SqliteStore, path: Path, monkeypatch: pytest.MonkeyPatch) -> None:
    await store.transact(_insert(1))
    log = path.with_name("meta.db-wal")
    copy = log.with_name("copy")
    copy.write_bytes(log.read_bytes())
    copy.rename(log)
    synced: list[int] = []
    real = os.fdatasync

    def note(descriptor: int) -> None:
        synced.append(os.fstat(descriptor).st_ino)
        real(descriptor)

    monkeypatch.setattr(os, "fdatasync", note)
    await store.sync()
    assert synced == [log.stat().st_ino]
