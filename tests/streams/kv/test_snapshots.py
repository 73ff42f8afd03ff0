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
THEIRS = DeploymentId("b" * 26)


async def unfenced(tx: Transaction) -> None:
    """Nobody else is the home."""


class Place:
    """A bucket with an index, and where its snapshots go."""

    def __init__(self, meta: SqliteStore, folder: Path) -> None:
        self.clock = ManualClock()
        self.storage = MemoryStorage(self.clock)
        self.snapshots = KvSnapshots(meta, self.clock)
        self.taking = KvSnapshotter(
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
        taken = await self.taking.take(self.bucket, self.index, unfenced)
        return None if taken is None else taken.id

    async def keys(self) -> list[str]:
        return [head.key async for head in self.storage.list_prefix("kv/")]


@pytest.fixture
async def place(tmp_path: Path) -> AsyncIterator[Place]:
    meta = await open_migrated_file(tmp_path / "meta.db")
    await with_table(meta)
    place = Place(meta, tmp_path)
    yield place
    place.index.close()
    await meta.close()


async def with_table(meta: SqliteStore) -> None:
    async def work(tx: Transaction) -> None:
        await tx.run(
            "INSERT INTO stream_tables (id, database_name, name, schema_id, document, created_ms, modified_ms) "
            "VALUES (1, 'fluss', 't', 1, '{}', 0, 0)"
        )

    await meta.transact(work)


async def test_a_snapshot_becomes_an_index_again(place: Place) -> None:
    place.write(0, 500)
    assert await place.take() == 1
    place.write(500, 10)
    restored = place.folder / "restored"
    assert await place.taking.restore(place.bucket, restored)
    again = RocksIndex(restored, MEMORY)
    assert (again.log_offset, again.row_count) == (500, 500)
    assert again.get_many([b"000000", b"000499", b"000500"]) == [b"\1\0value 0", b"\1\0value 499", None]
    assert again.lineage != place.index.lineage
    again.close()


async def test_others_read_a_snapshot_as_a_plain_database(place: Place) -> None:
    place.write(0, 3)
    await place.take()
    (snapshot,) = await place.snapshots.listed(1, None)
    folder = place.folder / "reader"
    folder.mkdir()
    for file in snapshot.files:
        (folder / file.name).write_bytes(await place.storage.get(file.key))  # type: ignore[arg-type]  # is a key
    db = Rdict(str(folder), Options(raw_mode=True))
    assert list(db.items()) == [(b"%06d" % number, b"\1\0value %d" % number) for number in range(3)]
    db.close()


async def test_nothing_is_taken_while_nothing_changes(place: Place) -> None:
    place.write(0, 1)
    assert [await place.take(), await place.take()] == [1, None]
    place.write(1, 1)
    assert await place.take() == 2


async def test_data_is_sent_once(place: Place) -> None:
    place.write(0, 1000)
    await place.take()
    data = [key for key in await place.keys() if key.endswith(".sst")]
    place.write(1000, 10)
    await place.take()
    first, second = await place.snapshots.listed(1, None)
    names = [{file.key for file in each.files if file.name.endswith(".sst")} for each in (first, second)]
    assert names[0] == set(data)
    assert names[0] < names[1]


async def test_the_newest_stay_and_what_no_snapshot_has_goes(place: Place) -> None:
    for number in range(4):
        place.write(number, 1)
        await place.take()
    left = await place.snapshots.listed(1, None)
    assert [each.id for each in left] == [3, 4]
    assert set(await place.keys()) == {file.key for each in left for file in each.files}
    with pytest.raises(FlussError) as failed:
        await place.snapshots.get(place.bucket, 1)
    assert failed.value.code is ErrorCode.KV_SNAPSHOT_NOT_EXIST


async def test_a_lease_keeps_a_snapshot(place: Place) -> None:
    place.write(0, 1)
    await place.take()
    assert await place.snapshots.lease("job", 60_000, [(place.bucket, 1), (place.bucket, 9)]) == [(place.bucket, 9)]
    for number in range(1, 4):
        place.write(number, 1)
        await place.take()
    assert [each.id for each in await place.snapshots.listed(1, None)] == [1, 3, 4]
    assert await place.snapshots.lease_counts() == (1, 1)
    place.clock.advance(30)
    await place.snapshots.lease("job", 60_000, [])
    place.clock.advance(45)
    place.write(10, 1)
    await place.take()
    assert [each.id for each in await place.snapshots.listed(1, None)] == [1, 4, 5]
    place.clock.advance(16)
    place.write(11, 1)
    await place.take()
    assert [each.id for each in await place.snapshots.listed(1, None)] == [5, 6]
    assert await place.snapshots.lease_counts() == (0, 0)


@pytest.mark.parametrize("way", ["release", "drop"])
async def test_what_a_lease_lets_go_of_goes(place: Place, way: str) -> None:
    place.write(0, 1)
    await place.take()
    await place.snapshots.lease("job", 60_000, [(place.bucket, 1)])
    for _ in range(2):
        if way == "release":
            await place.snapshots.release("job", [place.bucket])
        else:
            await place.snapshots.drop_lease("job")
    for number in range(1, 3):
        place.write(number, 1)
        await place.take()
    assert [each.id for each in await place.snapshots.listed(1, None)] == [2, 3]


async def test_a_server_that_is_not_the_home_takes_none(place: Place) -> None:
    async def fence(tx: Transaction) -> None:
        raise Fenced("another is the home")

    place.write(0, 1)
    with pytest.raises(Fenced):
        await place.taking.take(place.bucket, place.index, fence)
    assert await place.snapshots.listed(1, None) == []
    assert await place.take() == 1


class Successor:
    """Another server, with an index and a disk of its own, that becomes the home while the first is busy."""

    def __init__(self, place: Place) -> None:
        self._place = place
        self._taking = KvSnapshotter(
            place.snapshots, place.storage, ClaimedAtFirstUse(place.storage), "kv", place.folder / "its scratch"
        )
        self.index = RocksIndex(place.folder / "successor", MEMORY)
        self.index.apply({b"theirs": b"\1\0theirs"}, 1000, 1)
        self.is_leader = False

    async def begin(self) -> None:
        if not self.is_leader:
            self.is_leader = True
            await self._taking.take(self._place.bucket, self.index, unfenced)

    async def fence_former(self, tx: Transaction) -> None:
        if self.is_leader:
            raise Fenced("another is the home")

    async def check(self) -> None:
        """Nothing was changed of what it took."""
        folder = self._place.folder / "restored"
        assert await self._place.taking.restore(self._place.bucket, folder)
        again = RocksIndex(folder, MEMORY)
        assert (again.log_offset, again.get_many([b"theirs", b"000000"])) == (1000, [b"\1\0theirs", None])
        again.close()
        self.index.close()


async def test_a_former_home_that_is_still_sending_changes_nothing(
    place: Place, monkeypatch: pytest.MonkeyPatch
) -> None:
    successor, put = Successor(place), place.storage.put

    async def put_late(key: Key, body: ByteSource, *, metadata: Metadata | None = None) -> ObjectVersion:
        await successor.begin()
        return await put(key, body, metadata=metadata)

    place.write(0, 10)
    monkeypatch.setattr(place.storage, "put", put_late)
    with pytest.raises(Fenced):
        await place.taking.take(place.bucket, place.index, successor.fence_former)
    await successor.check()


@pytest.mark.parametrize("at", ["before it looks", "once it has looked"])
async def test_a_former_home_that_still_tidies_up_removes_nothing(
    place: Place, monkeypatch: pytest.MonkeyPatch, at: str
) -> None:
    successor, list_prefix = Successor(place), place.storage.list_prefix

    async def list_late(prefix: str) -> AsyncIterator[ObjectHead]:
        if at == "before it looks":
            await successor.begin()
        found = [head async for head in list_prefix(prefix)]
        await successor.begin()
        for head in found:
            yield head

    place.write(0, 10)
    monkeypatch.setattr(place.storage, "list_prefix", list_late)
    with pytest.raises(Fenced):
        await place.taking.take(place.bucket, place.index, successor.fence_former)
    monkeypatch.undo()
    await successor.check()


async def test_a_table_that_is_dropped_leaves_no_files(place: Place) -> None:
    place.write(0, 1)
    await place.take()
    await place.taking.remove(1, None)
    assert await place.keys() == []


async def test_snapshots_in_a_store_of_another_deployment_stay(place: Place) -> None:
    place.write(0, 1)
    await place.take()
    orphan = Key("kv/1/0/snap-9-another/000001.sst")
    await place.storage.put(orphan, b"another's")
    before = await place.keys()
    await claim_marker(place.storage, DeploymentMarker(THEIRS), replacing=True)
    with pytest.raises(StoreMismatch):
        await place.taking.remove(1, None)
    place.write(1, 1)
    with pytest.raises(StoreMismatch):
        await place.take()
    assert set(before) <= set(await place.keys())


async def test_without_a_snapshot_there_is_nothing_to_restore(place: Place) -> None:
    assert not await place.taking.restore(place.bucket, place.folder / "restored")
