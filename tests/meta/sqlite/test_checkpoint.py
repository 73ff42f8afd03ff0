from __future__ import annotations

import asyncio
from collections.abc import Iterator
from pathlib import Path

import apsw
import pytest

from lakebed.meta.sqlite.checkpoint import Checkpointer, start_over
from lakebed.meta.sqlite.file import PAGE_BYTES, connect, open_file
from lakebed.meta.sqlite.write_lock import WriteLock
from tests.meta.stores import until


class Writer:
    """A connection that commits and reports the length of the WAL."""

    def __init__(self, path: Path) -> None:
        self.connection = connect(path)
        self.log_pages = 0
        self.connection.set_wal_hook(self._note)

    def commit(self, commits: int = 1) -> None:
        for _ in range(commits):
            self.connection.execute("INSERT INTO items (body) VALUES (?)", (bytes(PAGE_BYTES),))

    def _note(self, _connection: apsw.Connection, _name: str, pages: int) -> int:
        self.log_pages = pages
        return apsw.SQLITE_OK


@pytest.fixture
def path(tmp_path: Path) -> Path:
    path = tmp_path / "meta.db"
    write_lock = WriteLock(path)
    connection = open_file(path, write_lock)
    connection.execute("CREATE TABLE items (id INTEGER PRIMARY KEY, body BLOB)")
    write_lock.close()
    connection.close()
    return path


@pytest.fixture
def writer(path: Path) -> Iterator[Writer]:
    writer = Writer(path)
    yield writer
    writer.connection.close()


def _small(path: Path) -> Checkpointer:
    return Checkpointer(path, asyncio.get_running_loop(), passive_bytes=10 * PAGE_BYTES, restart_bytes=100 * PAGE_BYTES)


async def _finish(checkpointer: Checkpointer) -> None:
    await until(lambda: not checkpointer.is_running)


async def test_passive_checkpoint_copies_the_wal_which_then_restarts(path: Path, writer: Writer) -> None:
    checkpointer = _small(path)
    writer.commit(20)
    checkpointer.log_has(writer.log_pages)
    await _finish(checkpointer)
    writer.commit()
    assert writer.log_pages < 10
    checkpointer.close()


async def test_large_wal_restarts_although_passive_checkpoints_lag(
    path: Path, writer: Writer, monkeypatch: pytest.MonkeyPatch
) -> None:
    checkpointer = _small(path)
    writer.commit(80)
    # Steady writes, like long reads, keep a passive checkpoint from reaching the end of the WAL.
    reader = connect(path)
    cursor = reader.execute("SELECT id FROM items")
    cursor.fetchone()
    writer.commit(5)
    syncs = 0

    def sync() -> None:
        nonlocal syncs
        syncs += 1
        if syncs == 2:
            cursor.close()

    monkeypatch.setattr(checkpointer, "_sync_database", sync)
    checkpointer.log_has(writer.log_pages)
    await _finish(checkpointer)
    writer.commit()
    assert writer.log_pages < 10
    assert reader.execute("SELECT count(*) FROM items").fetchall() == [(86,)]
    reader.close()
    checkpointer.close()


async def test_long_read_delays_the_wal_restart(path: Path, writer: Writer) -> None:
    checkpointer = _small(path)
    writer.commit(80)
    reader = connect(path)
    cursor = reader.execute("SELECT id FROM items")
    cursor.fetchone()
    writer.commit(5)
    checkpointer.log_has(writer.log_pages)
    await _finish(checkpointer)
    writer.commit()
    assert writer.log_pages > 100
    checkpointer.log_has(writer.log_pages)
    assert not checkpointer.is_running
    cursor.close()
    writer.commit(20)
    checkpointer.log_has(writer.log_pages)
    await _finish(checkpointer)
    writer.commit()
    assert writer.log_pages < 10
    reader.close()
    checkpointer.close()


async def test_only_one_process_runs_checkpoints(path: Path, writer: Writer) -> None:
    first, second = _small(path), _small(path)
    writer.commit(80)
    with first.exclusive() as has_duty:
        assert has_duty
        second.log_has(writer.log_pages)
        await _finish(second)
        writer.commit()
        assert writer.log_pages > 100
    first.log_has(writer.log_pages)
    await _finish(first)
    writer.commit()
    assert writer.log_pages < 10
    first.close()
    second.close()


async def test_failed_checkpoint_is_retried_without_loss(
    path: Path, writer: Writer, monkeypatch: pytest.MonkeyPatch, caplog: pytest.LogCaptureFixture
) -> None:
    checkpointer = _small(path)

    def fail() -> None:
        raise OSError("broken disk")

    with monkeypatch.context() as patched:
        patched.setattr(checkpointer, "_sync_database", fail)
        writer.commit(80)
        checkpointer.log_has(writer.log_pages)
        await _finish(checkpointer)
    assert "broken disk" in caplog.text
    writer.commit(80)
    checkpointer.log_has(writer.log_pages)
    await _finish(checkpointer)
    assert writer.connection.execute("SELECT count(*) FROM items").fetchall() == [(160,)]
    checkpointer.close()


def test_wal_truncation_keeps_every_row(path: Path, writer: Writer) -> None:
    writer.commit(30)
    start_over(path)
    assert path.with_name("meta.db-wal").stat().st_size == 0
    assert writer.connection.execute("SELECT count(*) FROM items").fetchall() == [(30,)]


def test_database_descriptor_of_sqlite_is_found(path: Path) -> None:
    async def find() -> None:
        checkpointer = _small(path)
        checkpointer._sync_database()
        assert checkpointer._database is not None
        checkpointer.close()

    asyncio.run(find())
