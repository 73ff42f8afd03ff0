from __future__ import annotations

import logging
import os
from pathlib import Path

import pytest

from lakebed.core.clock import ManualClock
from lakebed.core.ids import BlobId, new_blob_id
from lakebed.objects.blobs import orphan_sweep
from lakebed.objects.blobs.ingest import blob_key
from lakebed.objects.blobs.orphan_sweep import SweepReport
from lakebed.objects.multipart import RESULT_KEPT_MS
from lakebed.storage.folder.storage import FolderStorage
from lakebed.storage.ownership import MARKER_KEY
from lakebed.storage.seam import Key
from tests.objects.consistency import check_tables
from tests.objects.model import md5
from tests.objects.stores import ORPHAN_WINDOW_MS, ROOT, ObjectStore, opened_store

BIG = b"0123456789" * 10
WINDOW_SECONDS = ORPHAN_WINDOW_MS / 1000


async def _leave_orphan(store: ObjectStore) -> BlobId:
    """Store a blob without a transaction."""
    blob = new_blob_id(store.clock)
    await store.storage.put(blob_key(blob), BIG)
    return blob


async def test_orphans_are_deleted_after_the_safety_window(store: ObjectStore) -> None:
    old = await _leave_orphan(store)
    store.clock.advance(WINDOW_SECONDS - 1)
    young = await _leave_orphan(store)
    assert await store.orphan_sweep.sweep() == SweepReport()
    assert await store.stored_blobs() == {old, young}
    store.clock.advance(1)
    assert await store.orphan_sweep.sweep() == SweepReport(orphans=1)
    assert await store.stored_blobs() == {young}
    store.clock.advance(WINDOW_SECONDS)
    assert await store.orphan_sweep.sweep() == SweepReport(orphans=1)
    assert await store.stored_blobs() == set()


async def test_referenced_blobs_are_never_deleted(store: ObjectStore) -> None:
    await store.bucket("bucket")
    await store.put("bucket", "whole", BIG)
    upload = await store.begin("bucket", "parts")
    await store.put_part(upload, 1, BIG)
    finished = await store.begin("bucket", "finished")
    await store.put_part(finished, 1, BIG)
    await store.complete("bucket", finished, [(1, md5(BIG))])
    store.clock.advance(100 * WINDOW_SECONDS)
    assert (await store.orphan_sweep.sweep()).orphans == 0
    assert await store.get("bucket", "whole") == await store.get("bucket", "finished") == BIG
    await store.complete("bucket", upload, [(1, md5(BIG))])
    assert await store.get("bucket", "parts") == BIG
    await check_tables(store)


async def test_safety_window_starts_when_the_blob_is_complete(store: ObjectStore) -> None:
    """The blob id is created when the upload begins; its transaction runs when the upload ends."""
    blob = new_blob_id(store.clock)
    store.clock.advance(2 * WINDOW_SECONDS)
    await store.storage.put(blob_key(blob), BIG)
    assert await store.orphan_sweep.sweep() == SweepReport()
    assert await store.stored_blobs() == {blob}


async def test_garbage_is_not_counted_as_orphans(store: ObjectStore) -> None:
    await store.bucket("bucket")
    await store.put("bucket", "k", BIG)
    await store.delete("bucket", "k")
    store.clock.advance(2 * WINDOW_SECONDS)
    assert await store.orphan_sweep.sweep() == SweepReport(garbage=1)


async def test_many_orphans_are_deleted_in_batches(light_store: ObjectStore, monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setattr(orphan_sweep, "_BATCH", 2)
    for _ in range(5):
        await _leave_orphan(light_store)
    light_store.clock.advance(WINDOW_SECONDS)
    assert await light_store.orphan_sweep.sweep() == SweepReport(orphans=5)
    assert await light_store.stored_blobs() == set()


async def test_objects_that_are_not_blobs_are_kept(store: ObjectStore) -> None:
    names = ["blobs/xx/not-a-blob", f"blobs/zz/{'z' * 32}", f"blobs/00/{'0' * 31}", "elsewhere/file"]
    for name in names:
        await store.storage.put(Key(name), b"x")
    store.clock.advance(100 * WINDOW_SECONDS)
    assert await store.orphan_sweep.sweep() == SweepReport()
    assert sorted([head.key async for head in store.storage.list_prefix()]) == sorted([*names, MARKER_KEY])


async def test_stale_upload_to_the_object_store_is_aborted(store: ObjectStore) -> None:
    old = await store.storage.start_multipart(blob_key(new_blob_id(store.clock)))
    await old.upload_part(1, BIG)
    store.clock.advance(WINDOW_SECONDS)
    young = await store.storage.start_multipart(blob_key(new_blob_id(store.clock)))
    assert await store.orphan_sweep.sweep() == SweepReport(stale_uploads=1)
    left = [upload.upload_id async for upload in store.storage.list_uploads("blobs/")]
    assert left == [young.upload_id]


async def test_old_upload_results_are_deleted(store: ObjectStore, monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setattr(orphan_sweep, "_BATCH", 2)
    await store.bucket("bucket")
    for number in range(3):
        upload = await store.begin("bucket", f"k{number}")
        await store.put_part(upload, 1, BIG)
        await store.complete("bucket", upload, [(1, md5(BIG))])
    under_way = await store.begin("bucket", "under-way")
    store.clock.advance((RESULT_KEPT_MS + 1) / 1000)
    assert await store.orphan_sweep.sweep() == SweepReport(old_results=3)
    assert await store.meta.rows("SELECT id FROM uploads") == [(under_way.id,)]
    await store.uploads.abort(ROOT, "bucket", "under-way", under_way.id)


async def test_sweep_removes_temporary_files_of_crashed_writers(
    tmp_path: Path, caplog: pytest.LogCaptureFixture
) -> None:
    clock = ManualClock()
    async with opened_store(f"sqlite:{tmp_path / 'meta.db'}", "folder", tmp_path / "bytes", clock) as store:
        assert isinstance(store.storage, FolderStorage)
        writer = store.storage.create_file(blob_key(new_blob_id(clock)))
        writer.write(BIG)
        found = [path for path in (tmp_path / "bytes").rglob("*") if path.is_file() and path.stat().st_size == len(BIG)]
        assert len(found) == 1
        # File times come from the system clock, not the test clock.
        at_ns = clock.now_ms() * 1_000_000
        os.utime(found[0], ns=(at_ns, at_ns))
        clock.advance(WINDOW_SECONDS - 1)
        await store.orphan_sweep.sweep()
        assert found[0].exists()
        clock.advance(1)
        with caplog.at_level(logging.INFO, "lakebed.objects"):
            await store.orphan_sweep.sweep()
        assert not found[0].exists()
        (record,) = [record for record in caplog.records if record.message == "temporary files deleted"]
        fields = vars(record)
        assert (fields["count"], fields["bytes"], fields["first_files"]) == (1, len(BIG), [str(found[0])])
        writer.discard()
