from __future__ import annotations

import asyncio
import os
from collections.abc import AsyncIterator
from pathlib import Path

import pytest

from lakebed.core.errors import StorageFull
from lakebed.meta.seam import Transaction
from lakebed.meta.sqlite.disk_reserve import RESERVE_BYTES, DiskReserve
from lakebed.meta.sqlite.store import SqliteStore

_BLOCK = 4096


@pytest.fixture
async def store() -> AsyncIterator[SqliteStore]:
    store = await SqliteStore.temporary()

    async def work(tx: Transaction) -> None:
        await tx.run("CREATE TABLE bodies (id INTEGER PRIMARY KEY, body BLOB)")

    await store.transact(work)
    yield store
    await store.close()


class _Disk:
    """The result of `statvfs`."""

    def __init__(self, free: int, size: int = 1 << 40) -> None:
        self.free = free
        self.size = size
        self.looks = 0

    def statvfs(self, _: object) -> os.statvfs_result:
        self.looks += 1
        free, size = self.free // _BLOCK, self.size // _BLOCK
        return os.statvfs_result((_BLOCK, _BLOCK, size, free, free, 0, 0, 0, 0, 255))


async def _add(store: SqliteStore, key: int, size: int) -> None:
    async def work(tx: Transaction) -> None:
        await tx.run("INSERT INTO bodies (id, body) VALUES (?, ?)", key, bytes(size))

    await store.transact(work)


async def _remove(store: SqliteStore, key: int) -> None:
    async def work(tx: Transaction) -> None:
        await tx.run("DELETE FROM bodies WHERE id = ?", key)

    await store.transact(work)


async def test_row_is_rejected_before_the_reserve_is_used(
    store: SqliteStore, tmp_path: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    disk = _Disk(free=RESERVE_BYTES + (4 << 20))
    monkeypatch.setattr(os, "statvfs", disk.statvfs)
    reserve = DiskReserve(store, tmp_path)
    await reserve.check(64 << 10)
    disk.free = RESERVE_BYTES
    with pytest.raises(StorageFull):
        await reserve.check(2 << 20)
    with pytest.raises(StorageFull):
        await reserve.check(1)
    disk.free = RESERVE_BYTES + (4 << 20)
    await reserve.check(1)


async def test_reserve_is_at_most_a_quarter_of_the_disk(
    store: SqliteStore, tmp_path: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    disk = _Disk(free=30 << 20, size=100 << 20)
    monkeypatch.setattr(os, "statvfs", disk.statvfs)
    await DiskReserve(store, tmp_path).check(1 << 20)
    disk.free = 25 << 20
    with pytest.raises(StorageFull):
        await DiskReserve(store, tmp_path).check(1 << 20)


async def test_free_pages_are_reused(store: SqliteStore, tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> None:
    await _add(store, 1, 8 << 20)
    monkeypatch.setattr(os, "statvfs", _Disk(free=0).statvfs)
    reserve = DiskReserve(store, tmp_path)
    with pytest.raises(StorageFull):
        await reserve.check(1 << 20)
    await _remove(store, 1)
    await reserve.check(1 << 20)


async def test_disk_is_checked_once_per_mebibyte(
    store: SqliteStore, tmp_path: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    disk = _Disk(free=1 << 39)
    monkeypatch.setattr(os, "statvfs", disk.statvfs)
    reserve = DiskReserve(store, tmp_path)
    for _ in range(1 + 1024):
        await reserve.check(4 << 10)
    assert disk.looks == 1 + 4


async def test_storage_full_fails_only_works_that_need_space(store: SqliteStore) -> None:
    for key in range(10):
        await _add(store, key, 100)
    (pages,) = (await store.rows("PRAGMA page_count"))[0]
    await store.rows(f"PRAGMA max_page_count={pages}")
    works = [_add(store, 100 + key, 1 << 20) if key % 2 else _remove(store, key) for key in range(10)]
    outcomes = await asyncio.gather(*works, return_exceptions=True)
    assert [isinstance(outcome, StorageFull) for outcome in outcomes] == [key % 2 == 1 for key in range(10)]
    assert [key for (key,) in await store.rows("SELECT id FROM bodies ORDER BY id")] == [1, 3, 5, 7, 9]
