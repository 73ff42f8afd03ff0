from __future__ import annotations

import threading
from pathlib import Path

import pytest

from lakebed.meta.sqlite.write_lock import WriteLock
from tests.meta.stores import until


@pytest.fixture
def database(tmp_path: Path) -> Path:
    return tmp_path / "meta.db"


def test_write_lock_is_exclusive(database: Path) -> None:
    first, second = WriteLock(database), WriteLock(database)
    assert first.try_acquire()
    assert not second.try_acquire()
    first.release()
    assert second.try_acquire()
    first.close()
    second.close()


def test_close_releases_the_write_lock(database: Path) -> None:
    first, second = WriteLock(database), WriteLock(database)
    first.acquire()
    first.close()
    assert second.try_acquire()
    second.close()


async def test_releaser_cannot_overtake_a_waiter(database: Path) -> None:
    holder, waiter, observer = WriteLock(database), WriteLock(database), WriteLock(database)
    for _ in range(50):
        holder.acquire()
        taken = threading.Event()

        def wait(taken: threading.Event = taken) -> None:
            waiter.acquire()
            taken.set()

        thread = threading.Thread(target=wait)
        thread.start()
        await until(observer.has_waiters)
        holder.release()
        assert not holder.try_acquire()
        thread.join()
        assert taken.is_set()
        waiter.release()
    for write_lock in (holder, waiter, observer):
        write_lock.close()
