from __future__ import annotations

import asyncio
import logging
from collections.abc import AsyncIterator
from itertools import product
from pathlib import Path

import pytest

from lakebed.core.clock import ManualClock
from lakebed.core.errors import StateConflict, StoreMismatch
from lakebed.core.ids import DeploymentId, new_blob_id
from lakebed.meta.deployment import establish_deployment_id
from lakebed.meta.seam import MetaStore
from lakebed.objects.blobs.garbage_collection import BlobGarbageCollector
from lakebed.objects.blobs.ingest import blob_key
from lakebed.objects.blobs.orphan_sweep import OrphanSweep, SweepReport
from lakebed.objects.blobs.store_attachment import ReferenceSample, StoreAttachment, StoreEvidence, StoreVerdict, decide
from lakebed.server.streams.composition import SERVERS_PREFIX
from lakebed.storage.memory import MemoryStorage
from lakebed.storage.ownership import MARKER_KEY, DeploymentMarker, claim_marker, read_marker
from lakebed.storage.seam import Key, ObjectHead
from tests.meta.stores import open_migrated_file

OURS, THEIRS = DeploymentId("a" * 26), DeploymentId("b" * 26)
WINDOW_MS = 60_000


@pytest.mark.parametrize(("is_empty", "references"), list(product([True, False], ReferenceSample)))
def test_deployment_id_in_the_store_decides(is_empty: bool, references: ReferenceSample) -> None:
    assert decide(StoreEvidence(OURS, OURS, is_empty, references)) is StoreVerdict.BELONGS
    assert decide(StoreEvidence(OURS, THEIRS, is_empty, references)) is StoreVerdict.FOREIGN


@pytest.mark.parametrize(
    ("is_empty", "references", "expected"),
    [
        (True, ReferenceSample.NONE, StoreVerdict.CLAIM),
        (True, ReferenceSample.FOUND, StoreVerdict.OBJECTS_MISSING),
        (True, ReferenceSample.MISSING, StoreVerdict.OBJECTS_MISSING),
        (False, ReferenceSample.NONE, StoreVerdict.UNKNOWN_OBJECTS),
        (False, ReferenceSample.MISSING, StoreVerdict.UNKNOWN_OBJECTS),
        (False, ReferenceSample.FOUND, StoreVerdict.ADOPT),
    ],
)
def test_store_without_id_is_decided_by_evidence(
    is_empty: bool, references: ReferenceSample, expected: StoreVerdict
) -> None:
    assert decide(StoreEvidence(OURS, None, is_empty, references)) is expected


class Site:
    """A metadata store and an object store."""

    def __init__(self, meta: MetaStore, storage: MemoryStorage, clock: ManualClock) -> None:
        self.meta = meta
        self.storage = storage
        self.clock = clock
        self.attachment = StoreAttachment(meta, storage, "folder /data/bytes", sample_streams=self._manifests)
        self.manifests: list[Key] = []

    async def blob(self, *, referenced: bool = True, stored: bool = True) -> Key:
        """Create a blob as a PUT does."""
        blob = new_blob_id(self.clock)
        if stored:
            await self.storage.put(blob_key(blob), b"x" * 100)
        if referenced:
            await self.meta.transact(lambda tx: tx.run("INSERT INTO blobs (id) VALUES (?)", blob))
        return blob_key(blob)

    async def sweep(self) -> SweepReport:
        ownership = self.attachment.ownership()
        garbage_collector = BlobGarbageCollector(self.meta, self.storage, ownership, self.clock, grace_ms=0)
        return await OrphanSweep(
            self.meta, self.storage, ownership, garbage_collector, self.clock, window_ms=WINDOW_MS
        ).sweep()

    async def keys(self) -> set[str]:
        return {head.key async for head in self.storage.list_prefix() if head.key != MARKER_KEY}

    async def _manifests(self, limit: int) -> list[Key]:
        return self.manifests[:limit]


@pytest.fixture
async def site(tmp_path: Path) -> AsyncIterator[Site]:
    clock = ManualClock()
    meta = await open_migrated_file(tmp_path / "meta.db")
    yield Site(meta, MemoryStorage(clock), clock)
    await meta.close()


@pytest.fixture
async def other(tmp_path: Path, site: Site) -> AsyncIterator[Site]:
    """A second metadata store on the same object store."""
    meta = await open_migrated_file(tmp_path / "other.db")
    yield Site(meta, site.storage, site.clock)
    await meta.close()


async def test_first_start_gives_both_stores_the_same_id(site: Site) -> None:
    await site.attachment.confirm_at_start()
    assert await read_marker(site.storage) == DeploymentMarker(await establish_deployment_id(site.meta))
    await site.attachment.confirm_at_start()


async def test_concurrent_first_starts_all_succeed(site: Site) -> None:
    attachments = [StoreAttachment(site.meta, site.storage, "store") for _ in range(4)]
    await asyncio.gather(*(each.confirm_at_start() for each in attachments))
    await attachments[0].ownership().confirm()


async def test_mismatch_error_contains_both_ids(site: Site, other: Site) -> None:
    await site.attachment.confirm_at_start()
    own, theirs = await establish_deployment_id(other.meta), await establish_deployment_id(site.meta)
    with pytest.raises(StoreMismatch) as refused:
        await other.attachment.confirm_at_start()
    assert f"store_deployment={theirs} metadata_deployment={own}" in str(refused.value)
    assert f"lakebed storage attach --replace {theirs}" in str(refused.value)
    assert "folder /data/bytes" in str(refused.value)


async def test_store_with_unknown_objects_is_rejected(site: Site) -> None:
    key = await site.blob(referenced=False)
    with pytest.raises(StoreMismatch, match="does not know"):
        await site.attachment.confirm_at_start()
    assert await site.keys() == {key}
    assert await read_marker(site.storage) is None


async def test_empty_store_is_rejected_if_metadata_references_objects(site: Site) -> None:
    await site.blob(stored=False)
    with pytest.raises(StoreMismatch, match="mounted"):
        await site.attachment.confirm_at_start()


async def test_metadata_without_references_claims_an_empty_store(site: Site) -> None:
    await establish_deployment_id(site.meta)
    await site.attachment.confirm_at_start()


async def test_store_without_id_is_adopted_if_it_has_referenced_objects(site: Site) -> None:
    await site.blob(stored=False)
    await site.blob()
    await site.attachment.confirm_at_start()
    marker = await read_marker(site.storage)
    assert marker == DeploymentMarker(await establish_deployment_id(site.meta), attached=True)


async def test_objects_of_stream_tables_are_evidence_too(site: Site) -> None:
    site.manifests = [Key("streams/log/fluss/orders-1/0/metadata/a.manifest")]
    await site.storage.put(site.manifests[0], b"{}")
    await site.attachment.confirm_at_start()
    await site.storage.delete(MARKER_KEY)
    await site.storage.delete(site.manifests[0])
    with pytest.raises(StoreMismatch, match="mounted"):
        await site.attachment.confirm_at_start()


async def test_objects_outside_the_server_prefixes_are_ignored(site: Site) -> None:
    await site.storage.put(Key("photos/cat.jpg"), b"meow")
    await site.attachment.confirm_at_start()


async def test_sweep_deletes_nothing_of_another_deployment(site: Site, other: Site) -> None:
    await site.attachment.confirm_at_start()
    key, upload = await site.blob(), await site.storage.start_multipart(blob_key(new_blob_id(site.clock)))
    await upload.upload_part(1, b"x")
    site.clock.advance(10 * WINDOW_MS / 1000)
    with pytest.raises(StoreMismatch):
        await other.sweep()
    assert await site.keys() == {key}
    assert [each.upload_id async for each in site.storage.list_uploads()] == [upload.upload_id]


async def test_sweep_stops_when_the_store_is_attached_elsewhere(site: Site) -> None:
    await site.attachment.confirm_at_start()
    key = await site.blob(referenced=False)
    site.clock.advance(10 * WINDOW_MS / 1000)
    await claim_marker(site.storage, DeploymentMarker(THEIRS), replacing=True)
    with pytest.raises(StoreMismatch):
        await site.sweep()
    assert await site.keys() == {key}


class ReattachedWhileListed(MemoryStorage):
    """A store that is attached elsewhere and back while a sweep lists it."""

    own = THEIRS

    async def list_prefix(self, prefix: str = "", start_after: str = "") -> AsyncIterator[ObjectHead]:
        async for head in super().list_prefix(prefix, start_after):
            yield head
        await claim_marker(self, DeploymentMarker(self.own, attached=True), replacing=True)


async def test_sweep_rereads_the_attachment_time_before_each_batch(site: Site) -> None:
    storage = ReattachedWhileListed(site.clock)
    reattached = Site(site.meta, storage, site.clock)
    await claim_marker(storage, DeploymentMarker(await establish_deployment_id(site.meta)))
    storage.own = await establish_deployment_id(site.meta)
    key = await reattached.blob(referenced=False)
    site.clock.advance(10 * WINDOW_MS / 1000)
    assert (await reattached.sweep()).orphans == 0
    assert await reattached.keys() == {key}


async def test_garbage_is_not_deleted_from_another_store(site: Site) -> None:
    await site.attachment.confirm_at_start()
    blob = new_blob_id(site.clock)
    await site.storage.put(blob_key(blob), b"x")
    await site.meta.transact(lambda tx: tx.run("INSERT INTO garbage (id, due_ms) VALUES (?, 0)", blob))
    await claim_marker(site.storage, DeploymentMarker(THEIRS), replacing=True)
    with pytest.raises(StoreMismatch):
        await BlobGarbageCollector(site.meta, site.storage, site.attachment.ownership(), site.clock, grace_ms=0).sweep()
    assert await site.keys() == {blob_key(blob)}


async def test_sweep_logs_deleted_blobs(site: Site, caplog: pytest.LogCaptureFixture) -> None:
    await site.attachment.confirm_at_start()
    key = await site.blob(referenced=False)
    site.clock.advance(10 * WINDOW_MS / 1000)
    with caplog.at_level(logging.INFO, "lakebed.objects"):
        assert (await site.sweep()).orphans == 1
    (record,) = [record for record in caplog.records if record.message == "orphan blobs deleted"]
    fields = vars(record)
    assert (fields["count"], fields["bytes"], fields["first_keys"]) == (1, 100, [key])


async def test_attached_store_keeps_unknown_objects(site: Site, other: Site) -> None:
    await site.attachment.confirm_at_start()
    theirs = await establish_deployment_id(site.meta)
    foreign = await site.blob()
    upload = await site.storage.start_multipart(blob_key(new_blob_id(site.clock)))
    site.clock.advance(1)
    await other.attachment.attach(replacing=theirs, accept_loss=False)
    await other.attachment.confirm_at_start()
    site.clock.advance(1)
    orphan = await other.blob(referenced=False)
    site.clock.advance(10 * WINDOW_MS / 1000)
    assert (await other.sweep()).orphans == 1
    assert foreign in await site.keys()
    assert orphan not in await site.keys()
    assert [each.upload_id async for each in site.storage.list_uploads()] == [upload.upload_id]
    with pytest.raises(StoreMismatch):
        await site.attachment.ownership().confirm()


async def test_attached_store_keeps_unknown_objects_after_a_copy_without_times(site: Site) -> None:
    blob = new_blob_id(site.clock)
    site.clock.advance(1)
    await claim_marker(site.storage, DeploymentMarker(await establish_deployment_id(site.meta), attached=True))
    site.clock.advance(1)
    await site.storage.put(blob_key(blob), b"x")
    site.clock.advance(10 * WINDOW_MS / 1000)
    assert (await site.sweep()).orphans == 0
    assert await site.keys() == {blob_key(blob)}


async def test_markers_of_stream_servers_are_not_stream_tables(site: Site, other: Site) -> None:
    await site.attachment.confirm_at_start()
    theirs = await establish_deployment_id(site.meta)
    await site.storage.put(Key(f"{SERVERS_PREFIX}/0123456789abcdef"), b"")
    await other.attachment.attach(replacing=theirs, accept_loss=False)
    await other.attachment.confirm_at_start()


async def test_attaching_requires_the_id_to_replace(site: Site, other: Site) -> None:
    await site.attachment.confirm_at_start()
    for wrong in (None, THEIRS):
        with pytest.raises(StateConflict, match="than the one to replace"):
            await other.attachment.attach(replacing=wrong, accept_loss=False)
    assert await read_marker(site.storage) == DeploymentMarker(await establish_deployment_id(site.meta))


async def test_store_without_referenced_objects_is_attached_only_with_accept_loss(site: Site) -> None:
    await site.blob(stored=False)
    with pytest.raises(StateConflict, match="does not have"):
        await site.attachment.attach(replacing=None, accept_loss=False)
    await site.attachment.attach(replacing=None, accept_loss=True)
    await site.attachment.confirm_at_start()


async def test_servers_of_the_former_store_are_deleted_before_attaching(site: Site) -> None:
    markers: list[DeploymentMarker | None] = []

    async def forget_servers() -> None:
        markers.append(await read_marker(site.storage))

    attachment = StoreAttachment(site.meta, site.storage, "store", before_attaching=forget_servers)
    await attachment.attach(replacing=None, accept_loss=False)
    await attachment.attach(replacing=None, accept_loss=False)
    assert markers == [None], "once, and again only if the attaching did not succeed"


async def test_store_with_stream_tables_of_another_deployment_is_rejected(site: Site) -> None:
    await site.storage.put(Key("streams/log/fluss/orders-1/0/metadata/a.manifest"), b"{}")
    with pytest.raises(StateConflict, match="stream tables of another deployment"):
        await site.attachment.attach(replacing=None, accept_loss=False)


async def test_attaching_an_attached_store_changes_nothing(site: Site) -> None:
    await site.attachment.confirm_at_start()
    before = await site.storage.head(MARKER_KEY)
    await site.attachment.attach(replacing=None, accept_loss=False)
    assert await site.storage.head(MARKER_KEY) == before
