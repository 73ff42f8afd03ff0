from __future__ import annotations

import asyncio
import logging

import pytest

from lakebed.core.errors import Unavailable
from lakebed.objects.blobs import garbage_collection
from lakebed.objects.blobs.ingest import BLOBS_PREFIX
from lakebed.storage.memory import MemoryStorage
from tests.fixtures.faulty_storage import FailAfter, FailBefore, FailPartway, FaultScript, FaultyStorage
from tests.meta.stores import until
from tests.objects.consistency import check_tables
from tests.objects.stores import ObjectStore, wire

BIG = b"0123456789" * 10


async def _make_garbage(store: ObjectStore, count: int) -> None:
    await store.bucket("bucket")
    for number in range(count):
        await store.put("bucket", f"k{number}", BIG)
        await store.delete("bucket", f"k{number}")


async def _garbage(store: ObjectStore) -> int:
    return len(await store.meta.rows("SELECT id FROM garbage"))


async def test_sweep_deletes_exactly_the_garbage(store: ObjectStore, monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setattr(garbage_collection, "_BATCH", 2)
    await _make_garbage(store, 5)
    await store.put("bucket", "kept", BIG)
    assert await store.garbage_collector.sweep() == 5
    assert await _garbage(store) == 0
    assert len(await store.stored_blobs()) == 1
    assert await store.get("bucket", "kept") == BIG
    assert await store.garbage_collector.sweep() == 0
    await check_tables(store)


async def test_sweep_logs_count_bytes_and_first_keys(store: ObjectStore, caplog: pytest.LogCaptureFixture) -> None:
    await _make_garbage(store, 7)
    stored = sum([head.size async for head in store.storage.list_prefix(BLOBS_PREFIX)])
    with caplog.at_level(logging.INFO, "lakebed.objects"):
        await store.garbage_collector.sweep()
    (record,) = [record for record in caplog.records if record.getMessage() == "garbage blobs deleted"]
    logged = vars(record)
    assert (logged["count"], logged["bytes"], len(logged["first_keys"])) == (7, stored, 5)
    assert stored >= 7 * len(BIG)


async def test_garbage_is_kept_for_the_grace_period(light_store: ObjectStore) -> None:
    store = wire(light_store.meta, light_store.storage, light_store.clock, garbage_grace_ms=60_000)
    await _make_garbage(store, 1)
    store.clock.advance(59.999)
    assert await store.garbage_collector.sweep() == 0
    assert len(await store.stored_blobs()) == 1
    store.clock.advance(0.001)
    assert await store.garbage_collector.sweep() == 1
    assert await store.stored_blobs() == set()


@pytest.mark.parametrize(
    "fault",
    [FailBefore(Unavailable("down")), FailAfter(Unavailable("lost")), FailPartway(Unavailable("broke"), 1)],
    ids=["before", "after", "partway"],
)
async def test_failed_garbage_deletion_is_retried(
    light_store: ObjectStore, fault: FailBefore | FailAfter | FailPartway
) -> None:
    inner = MemoryStorage(light_store.clock)
    faults = FaultScript().on("delete_many", fault)
    store = wire(light_store.meta, FaultyStorage(inner, faults), light_store.clock)
    await _make_garbage(store, 3)
    with pytest.raises(Unavailable):
        await store.garbage_collector.sweep()
    assert await _garbage(store) == 3
    assert await store.garbage_collector.sweep() == 3
    assert await _garbage(store) == 0
    assert await store.stored_blobs() == set()


async def test_sweep_completes_deletion_interrupted_by_a_crash(light_store: ObjectStore) -> None:
    """Bytes are deleted first, so a row whose blob is absent may remain; deleting it again succeeds."""
    await _make_garbage(light_store, 1)
    async for head in light_store.storage.list_prefix("blobs/"):
        await light_store.storage.delete(head.key)
    assert await light_store.garbage_collector.sweep() == 1
    assert await _garbage(light_store) == 0


@pytest.fixture
def _quick(monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setattr(garbage_collection, "_GATHER_SECONDS", 0)


@pytest.mark.usefixtures("_quick")
async def test_new_garbage_is_deleted_soon_after_the_commit(
    store: ObjectStore, monkeypatch: pytest.MonkeyPatch
) -> None:
    monkeypatch.setattr(garbage_collection, "_BATCH", 2)
    running = asyncio.create_task(store.garbage_collector.run())
    await _make_garbage(store, 5)
    async with asyncio.timeout(60):
        while await _garbage(store):
            await asyncio.sleep(0.002)
    assert await store.stored_blobs() == set()
    running.cancel()
    with pytest.raises(asyncio.CancelledError):
        await running


@pytest.mark.usefixtures("_quick")
async def test_background_failure_is_logged_and_left_for_the_sweep(
    light_store: ObjectStore, caplog: pytest.LogCaptureFixture
) -> None:
    faults = FaultScript().on("delete_many", FailBefore(Unavailable("down")))
    store = wire(light_store.meta, FaultyStorage(MemoryStorage(light_store.clock), faults), light_store.clock)
    with caplog.at_level(logging.WARNING, logger="lakebed.objects"):
        running = asyncio.create_task(store.garbage_collector.run())
        await _make_garbage(store, 1)
        await until(lambda: bool(caplog.records))
        assert [record.getMessage() for record in caplog.records] == ["garbage deletion failed"]
        assert await _garbage(store) == 1
        # New garbage is still deleted.
        await store.put("bucket", "again", BIG)
        await store.delete("bucket", "again")
        async with asyncio.timeout(60):
            while await _garbage(store) > 1:
                await asyncio.sleep(0.002)
    running.cancel()
    with pytest.raises(asyncio.CancelledError):
        await running
    assert await store.garbage_collector.sweep() == 1
    assert await store.stored_blobs() == set()
