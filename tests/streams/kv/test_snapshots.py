from __future__ import annotations

from collections.abc import AsyncIterator
from pathlib import Path

import pytest
from rocksdict import Options, Rdict

from lakebed.core.clock import ManualClock
from lakebed.core.errors import Fenced, StoreMismatch
from lakebed.core.ids import DeploymentId
from lakebed.fluss.errors import ErrorCode, FlussError
from lakebed.meta.seam import Transaction
from lakebed.meta.sqlite.store import SqliteStore
from lakebed.storage.memory import MemoryStorage
from lakebed.storage.ownership import DeploymentMarker, claim_marker
from lakebed.storage.seam import ByteSource, Key, Metadata, ObjectHead, ObjectVersion
from lakebed.streams.kv.index.rocksdb import RocksIndex, RocksMemory
from lakebed.streams.kv.snapshot_files import KvSnapshotter
from lakebed.streams.kv.snapshots import KvSnapshots
from lakebed.streams.seam import TableBucket
from tests.meta.stores import open_migrated_file
from tests.storage.ownership import ClaimedAtFirstUse

MEMORY = RocksMemory(8 << 20, 8 << 20)
OTHER_DEPLOYMENT = DeploymentId("b" * 26)


async def unfenced(tx: Transaction) -> None:
    """No other server leads."""


class IndexedBucket:
    """A bucket with an index and its snapshots."""

    def __init__(self, meta: SqliteStore, folder: Path) -> None:
        self.clock = ManualClock()
        self.storage = MemoryStorage(self.clock)
        self.snapshots = KvSnapshots(meta, self.clock)
        self.snapshotter = KvSnapshotter(
            self.snapshots, self.storage, ClaimedAtFirstUse(self.storage), "kv", folder / "scratch"
        )
        self.bucket = TableBucket(1, None, 0)
        self.folder = folder
        self.index = RocksIndex(folder / "index", MEMORY)
        self.offset = 0

    def write(self, first: int, count: int) -> None:
        self.offset += count
        values = {b"%06d" % number: b"\1\0value %d" % number for number in range(first, first + count)}
        self.index.apply(values, self.offset, self.offset)

    async def take(self) -> int | None:
        taken = await self.snapshotter.take(self.bucket, self.index, unfenced)
        return None if taken is None else taken.id

    async def keys(self) -> list[str]:
        return [head.key async for head in self.storage.list_prefix("kv/")]


@pytest.fixture
async def kv(tmp_path: Path) -> AsyncIterator[IndexedBucket]:
    meta = await open_migrated_file(tmp_path / "meta.db")
    await with_table(meta)
    kv = IndexedBucket(meta, tmp_path)
    yield kv
    kv.index.close()
    await meta.close()


async def with_table(meta: SqliteStore) -> None:
    async def work(tx: Transaction) -> None:
        await tx.run(
            "INSERT INTO stream_tables (id, database_name, name, schema_id, document, created_ms, modified_ms) "
            "VALUES (1, 'fluss', 't', 1, '{}', 0, 0)"
        )

    await meta.transact(work)


async def test_snapshot_is_restored_to_an_index(kv: IndexedBucket) -> None:
    kv.write(0, 500)
    assert await kv.take() == 1
    kv.write(500, 10)
    restored = kv.folder / "restored"
    assert await kv.snapshotter.restore(kv.bucket, restored)
    again = RocksIndex(restored, MEMORY)
    assert (again.log_offset, again.row_count) == (500, 500)
    assert again.get_many([b"000000", b"000499", b"000500"]) == [b"\1\0value 0", b"\1\0value 499", None]
    assert again.lineage != kv.index.lineage
    again.close()


async def test_snapshot_is_a_plain_rocksdb_database(kv: IndexedBucket) -> None:
    kv.write(0, 3)
    await kv.take()
    (snapshot,) = await kv.snapshots.listed(1, None)
    folder = kv.folder / "reader"
    folder.mkdir()
    for file in snapshot.files:
        (folder / file.name).write_bytes(await kv.storage.get(file.key))  # type: ignore[arg-type]  # a valid key
    db = Rdict(str(folder), Options(raw_mode=True))
    assert list(db.items()) == [(b"%06d" % number, b"\1\0value %d" % number) for number in range(3)]
    db.close()


async def test_no_snapshot_without_changes(kv: IndexedBucket) -> None:
    kv.write(0, 1)
    assert [await kv.take(), await kv.take()] == [1, None]
    kv.write(1, 1)
    assert await kv.take() == 2


async def test_data_files_are_uploaded_once(kv: IndexedBucket) -> None:
    kv.write(0, 1000)
    await kv.take()
    data = [key for key in await kv.keys() if key.endswith(".sst")]
    kv.write(1000, 10)
    await kv.take()
    first, second = await kv.snapshots.listed(1, None)
    names = [{file.key for file in each.files if file.name.endswith(".sst")} for each in (first, second)]
    assert names[0] == set(data)
    assert names[0] < names[1]


async def test_newest_snapshots_are_kept_and_unreferenced_files_removed(kv: IndexedBucket) -> None:
    for number in range(4):
        kv.write(number, 1)
        await kv.take()
    left = await kv.snapshots.listed(1, None)
    assert [each.id for each in left] == [3, 4]
    assert set(await kv.keys()) == {file.key for each in left for file in each.files}
    with pytest.raises(FlussError) as failed:
        await kv.snapshots.get(kv.bucket, 1)
    assert failed.value.code is ErrorCode.KV_SNAPSHOT_NOT_EXIST


async def test_leased_snapshot_is_kept(kv: IndexedBucket) -> None:
    kv.write(0, 1)
    await kv.take()
    assert await kv.snapshots.lease("job", 60_000, [(kv.bucket, 1), (kv.bucket, 9)]) == [(kv.bucket, 9)]
    for number in range(1, 4):
        kv.write(number, 1)
        await kv.take()
    assert [each.id for each in await kv.snapshots.listed(1, None)] == [1, 3, 4]
    assert await kv.snapshots.lease_counts() == (1, 1)
    kv.clock.advance(30)
    await kv.snapshots.lease("job", 60_000, [])
    kv.clock.advance(45)
    kv.write(10, 1)
    await kv.take()
    assert [each.id for each in await kv.snapshots.listed(1, None)] == [1, 4, 5]
    kv.clock.advance(16)
    kv.write(11, 1)
    await kv.take()
    assert [each.id for each in await kv.snapshots.listed(1, None)] == [5, 6]
    assert await kv.snapshots.lease_counts() == (0, 0)


@pytest.mark.parametrize("way", ["release", "drop"])
async def test_released_snapshot_is_removed(kv: IndexedBucket, way: str) -> None:
    kv.write(0, 1)
    await kv.take()
    await kv.snapshots.lease("job", 60_000, [(kv.bucket, 1)])
    for _ in range(2):
        if way == "release":
            await kv.snapshots.release("job", [kv.bucket])
        else:
            await kv.snapshots.drop_lease("job")
    for number in range(1, 3):
        kv.write(number, 1)
        await kv.take()
    assert [each.id for each in await kv.snapshots.listed(1, None)] == [2, 3]


async def test_fenced_server_takes_no_snapshot(kv: IndexedBucket) -> None:
    async def fence(tx: Transaction) -> None:
        raise Fenced("another server leads")

    kv.write(0, 1)
    with pytest.raises(Fenced):
        await kv.snapshotter.take(kv.bucket, kv.index, fence)
    assert await kv.snapshots.listed(1, None) == []
    assert await kv.take() == 1


class Successor:
    """Another server with its own index and disk that becomes the leader while the first is busy."""

    def __init__(self, kv: IndexedBucket) -> None:
        self._kv = kv
        self._snapshotter = KvSnapshotter(
            kv.snapshots, kv.storage, ClaimedAtFirstUse(kv.storage), "kv", kv.folder / "successor scratch"
        )
        self.index = RocksIndex(kv.folder / "successor", MEMORY)
        self.index.apply({b"theirs": b"\1\0theirs"}, 1000, 1)
        self.is_leader = False

    async def become_leader(self) -> None:
        if not self.is_leader:
            self.is_leader = True
            await self._snapshotter.take(self._kv.bucket, self.index, unfenced)

    async def fence_former(self, tx: Transaction) -> None:
        if self.is_leader:
            raise Fenced("another server leads")

    async def check(self) -> None:
        """Check that its snapshot is unchanged."""
        folder = self._kv.folder / "restored"
        assert await self._kv.snapshotter.restore(self._kv.bucket, folder)
        again = RocksIndex(folder, MEMORY)
        assert (again.log_offset, again.get_many([b"theirs", b"000000"])) == (1000, [b"\1\0theirs", None])
        again.close()
        self.index.close()


async def test_former_leader_during_an_upload_changes_nothing(
    kv: IndexedBucket, monkeypatch: pytest.MonkeyPatch
) -> None:
    successor, put = Successor(kv), kv.storage.put

    async def put_late(key: Key, body: ByteSource, *, metadata: Metadata | None = None) -> ObjectVersion:
        await successor.become_leader()
        return await put(key, body, metadata=metadata)

    kv.write(0, 10)
    monkeypatch.setattr(kv.storage, "put", put_late)
    with pytest.raises(Fenced):
        await kv.snapshotter.take(kv.bucket, kv.index, successor.fence_former)
    await successor.check()


@pytest.mark.parametrize("at", ["before the listing", "after the listing"])
async def test_former_leader_during_cleanup_removes_nothing(
    kv: IndexedBucket, monkeypatch: pytest.MonkeyPatch, at: str
) -> None:
    successor, list_prefix = Successor(kv), kv.storage.list_prefix

    async def list_late(prefix: str) -> AsyncIterator[ObjectHead]:
        if at == "before the listing":
            await successor.become_leader()
        found = [head async for head in list_prefix(prefix)]
        await successor.become_leader()
        for head in found:
            yield head

    kv.write(0, 10)
    monkeypatch.setattr(kv.storage, "list_prefix", list_late)
    with pytest.raises(Fenced):
        await kv.snapshotter.take(kv.bucket, kv.index, successor.fence_former)
    monkeypatch.undo()
    await successor.check()


async def test_dropped_table_leaves_no_files(kv: IndexedBucket) -> None:
    kv.write(0, 1)
    await kv.take()
    await kv.snapshotter.remove(1, None)
    assert await kv.keys() == []


async def test_snapshots_in_a_store_of_another_deployment_stay(kv: IndexedBucket) -> None:
    kv.write(0, 1)
    await kv.take()
    orphan = Key("kv/1/0/snap-9-another/000001.sst")
    await kv.storage.put(orphan, b"another's")
    before = await kv.keys()
    await claim_marker(kv.storage, DeploymentMarker(OTHER_DEPLOYMENT), replacing=True)
    with pytest.raises(StoreMismatch):
        await kv.snapshotter.remove(1, None)
    kv.write(1, 1)
    with pytest.raises(StoreMismatch):
        await kv.take()
    assert set(before) <= set(await kv.keys())


async def test_restore_without_a_snapshot_returns_false(kv: IndexedBucket) -> None:
    assert not await kv.snapshotter.restore(kv.bucket, kv.folder / "restored")
