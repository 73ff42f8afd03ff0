from __future__ import annotations

import logging
from collections.abc import AsyncIterator
from pathlib import Path

import pytest

from lakebed.core.clock import ManualClock
from lakebed.core.errors import Corrupted, NotSupported, StoreMismatch
from lakebed.core.ids import DeploymentId
from lakebed.storage.folder.storage import FolderStorage
from lakebed.storage.memory import MemoryStorage
from lakebed.storage.ownership import (
    BATCH,
    MARKER_KEY,
    DeploymentMarker,
    StoreOwnership,
    claim_marker,
    delete_listed,
    deletion_fields,
    read_marker,
)
from lakebed.storage.seam import ByteSource, Key, Metadata, ObjectStorage, ObjectVersion

OURS, THEIRS = DeploymentId("a" * 26), DeploymentId("b" * 26)


@pytest.fixture(params=["memory", "folder"])
async def storage(request: pytest.FixtureRequest, tmp_path: Path) -> AsyncIterator[ObjectStorage]:
    clock = ManualClock()
    opened: ObjectStorage = MemoryStorage(clock) if request.param == "memory" else FolderStorage(tmp_path, clock)
    yield opened
    await opened.close()


def ownership(storage: ObjectStorage, own: DeploymentId | None = OURS) -> StoreOwnership:
    async def find_id() -> DeploymentId | None:
        return own

    return StoreOwnership(storage, find_id, "s3://lake/prefix")


async def test_store_with_the_same_id_is_confirmed(storage: ObjectStorage) -> None:
    await claim_marker(storage, DeploymentMarker(OURS))
    assert (await ownership(storage).confirm()).since_ms == 0


async def test_store_with_another_id_is_rejected_with_both_ids(storage: ObjectStorage) -> None:
    await claim_marker(storage, DeploymentMarker(THEIRS))
    with pytest.raises(StoreMismatch, match=f"s3://lake/prefix store_deployment={THEIRS} metadata_deployment={OURS}"):
        await ownership(storage).confirm()


async def test_store_without_id_is_rejected(storage: ObjectStorage) -> None:
    with pytest.raises(StoreMismatch, match="not be mounted"):
        await ownership(storage).confirm()


async def test_metadata_without_id_is_rejected(storage: ObjectStorage) -> None:
    await claim_marker(storage, DeploymentMarker(OURS))
    with pytest.raises(StoreMismatch):
        await ownership(storage, None).confirm()


async def test_ids_are_compared_on_every_call(storage: ObjectStorage) -> None:
    await claim_marker(storage, DeploymentMarker(OURS))
    checked = ownership(storage)
    await checked.confirm()
    await claim_marker(storage, DeploymentMarker(THEIRS), replacing=True)
    with pytest.raises(StoreMismatch):
        await checked.confirm()


async def test_objects_from_before_the_attachment_are_not_deletable(tmp_path: Path) -> None:
    clock = ManualClock()
    storage = MemoryStorage(clock)
    await storage.put(Key("blobs/old"), b"1")
    clock.advance(10)
    await claim_marker(storage, DeploymentMarker(OURS, attached=True))
    clock.advance(10)
    await storage.put(Key("blobs/new"), b"2")
    owned = await ownership(storage).confirm()
    heads = [head async for head in storage.list_prefix("blobs/")]
    assert [head.key for head in owned.deletable(heads)] == ["blobs/new"]


async def test_first_claim_wins(storage: ObjectStorage) -> None:
    assert await claim_marker(storage, DeploymentMarker(OURS)) == DeploymentMarker(OURS)
    assert await claim_marker(storage, DeploymentMarker(THEIRS)) == DeploymentMarker(OURS)
    assert await read_marker(storage) == DeploymentMarker(OURS)


class WithoutConditions(MemoryStorage):
    """A store without conditional writes."""

    async def put_if_absent(self, key: Key, body: ByteSource, *, metadata: Metadata | None = None) -> ObjectVersion:
        raise NotSupported("conditional writes are off")


async def test_store_without_conditional_writes_can_be_claimed() -> None:
    storage = WithoutConditions(ManualClock())
    assert await claim_marker(storage, DeploymentMarker(OURS)) == DeploymentMarker(OURS)
    assert await claim_marker(storage, DeploymentMarker(THEIRS)) == DeploymentMarker(OURS)


async def test_damaged_marker_is_corrupted_not_missing(storage: ObjectStorage) -> None:
    await storage.put(MARKER_KEY, b"{")
    with pytest.raises(Corrupted, match=r"deployment id.*another bucket or prefix.*delete it"):
        await ownership(storage).confirm()


async def test_ownership_is_confirmed_before_each_batch_of_deletions(caplog: pytest.LogCaptureFixture) -> None:
    storage = MemoryStorage(ManualClock())
    await claim_marker(storage, DeploymentMarker(OURS))
    for number in range(BATCH + 1):
        await storage.put(Key(f"blobs/{number:04d}"), b"x")
    heads = [head async for head in storage.list_prefix("blobs/")]
    is_ours = [True, False]

    async def find_id() -> DeploymentId:
        return OURS if is_ours.pop(0) else THEIRS

    checked = StoreOwnership(storage, find_id, "store")
    with caplog.at_level(logging.INFO), pytest.raises(StoreMismatch):
        await delete_listed(storage, checked, heads, logging.getLogger("lakebed.test"), "blobs deleted")
    assert [head.key async for head in storage.list_prefix("blobs/")] == [heads[-1].key]
    (record,) = caplog.records
    assert (record.message, vars(record)["count"]) == ("blobs deleted", BATCH)


async def test_deletions_are_logged_with_count_bytes_and_first_keys(storage: ObjectStorage) -> None:
    for number in range(7):
        await storage.put(Key(f"blobs/{number}"), b"x" * number)
    heads = [head async for head in storage.list_prefix("blobs/")]
    assert deletion_fields(heads) == {
        "count": 7,
        "bytes": 21,
        "first_keys": [f"blobs/{number}" for number in range(5)],
    }
