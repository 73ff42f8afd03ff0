"""Logs over a byte store: one log to readers, retention, and homes that take over from each other and lose nothing."""

from __future__ import annotations

import asyncio
import itertools
import shutil
from collections import deque
from collections.abc import AsyncIterator
from dataclasses import replace
from functools import partial
from pathlib import Path
from typing import Any

import pyarrow as pa
import pytest

from lakebed.core.clock import ManualClock
from lakebed.core.errors import Unavailable
from lakebed.meta.leases import Lease, Leases
from lakebed.meta.seam import Transaction
from lakebed.meta.sqlite import SqliteStore
from lakebed.storage.backoff import Retrier, RetryPolicy
from lakebed.storage.memory import MemoryStorage
from lakebed.storage.seam import ByteSource, Key, Metadata, ObjectHead, ObjectVersion
from lakebed.streams.failures import Reason
from lakebed.streams.log import tiered
from lakebed.streams.log.batches import is_whole, walk
from lakebed.streams.log.last_rows import last_batches
from lakebed.streams.log.log_rows import LogRows
from lakebed.streams.log.logs import Logs
from lakebed.streams.log.manifest import LogPlace, Manifest
from lakebed.streams.log.presentation import PLAIN, Presentation
from lakebed.streams.log.projection import shape_of
from lakebed.streams.log.remote import RemoteLogs, RemoteSettings
from lakebed.streams.log.retention import RetentionPolicy
from lakebed.streams.log.settings import LogSettings
from lakebed.streams.log.tiered import TieredLog, open_tiered
from lakebed.streams.seam import Acks, BucketLog, RemoteSegment, TableBucket
from tests.contracts.stream_log import (
    MAX_BATCH_BYTES,
    SCHEMA,
    Doubling,
    LogContract,
    OpenLog,
    arrow_batch,
    offsets,
    plain_batch,
    read_all,
    refused,
    rows,
)
from tests.meta.stores import open_migrated_file

SMALL = LogSettings(segment_bytes=5_000, max_batch_bytes=MAX_BATCH_BYTES, group_bytes=1 << 20, checkpoint_bytes=2_000)
PLACE = LogPlace(TableBucket(7, None, 0), "db", "events")
KEEP = RetentionPolicy(ttl_ms=None, local_segments=1)


class Store(MemoryStorage):
    """A byte store that is away now and then."""

    def __init__(self, clock: ManualClock) -> None:
        super().__init__(clock)
        self.is_away = False
        self.refused = 0
        self.answers = asyncio.Event()
        self.answers.set()

    async def put(self, key: Key, body: ByteSource, *, metadata: Metadata | None = None) -> ObjectVersion:
        await self.answers.wait()
        if self.is_away:
            self.refused += 1
            raise Unavailable("the store is away")
        return await super().put(key, body, metadata=metadata)

    async def names(self, under: str = "") -> list[str]:
        return [head.key async for head in self.list_prefix(f"streams/{under}")]


class Server:
    """A server that may be the home of streams, with a disk of its own."""

    def __init__(self, world: World, name: str) -> None:
        self._world = world
        self.name = name
        self.folder = world.folder / name
        self.lease: Lease | None = None
        self.is_home = True
        self.opened: list[TieredLog] = []
        self._logs: Logs | None = None

    async def begin(self) -> None:
        """Be the home, whoever is it now: its time is over."""
        self._world.clock.advance(60)
        self.lease = await Leases(self._world.meta, self._world.clock).acquire("streams", self.name, 30)
        assert self.lease is not None
        self._logs = Logs(str(self.folder), self._world.clock, SMALL)

    @property
    def logs(self) -> Logs:
        """The logs on its disk, while it is running."""
        assert self._logs is not None
        return self._logs

    async def open(
        self,
        presentation: Presentation = PLAIN,
        *,
        place: LogPlace = PLACE,
        ack_after_upload: bool = False,
        address: str | None = None,
    ) -> TieredLog:
        leases = Leases(self._world.meta, self._world.clock)

        async def fence(tx: Transaction) -> int:
            assert self.lease is not None
            await leases.check(tx, self.lease)
            return self.lease.token

        log = await open_tiered(
            self.logs,
            RemoteLogs(
                self._world.storage,
                LogRows(self._world.meta, fence),
                self.logs.threads,
                self._world.new_id,
                RemoteSettings(address=address),
                Retrier(RetryPolicy(max_attempts=1)),
            ),
            place,
            presentation,
            server=self.name,
            clock=self._world.clock,
            is_home=lambda: self.is_home,
            ack_after_upload=ack_after_upload,
        )
        self.opened.append(log)
        return log

    def stop(self) -> None:
        """Let go of all files and of the folder, as the end of a process does, and of nothing else."""
        for log in self.opened:
            for segment in log.local.segments:
                segment.close()
        self.opened.clear()
        if self._logs is not None:
            self._logs.close()
            self._logs = None


class World:
    """A metadata store, a byte store and a clock that servers share."""

    def __init__(self, folder: Path, meta: SqliteStore) -> None:
        self.folder = folder
        self.meta = meta
        self.clock = ManualClock()
        self.storage = Store(self.clock)
        self._numbers = itertools.count(1)
        self.servers: list[Server] = []

    def new_id(self) -> str:
        return f"id-{next(self._numbers):04d}"

    async def server(self, name: str) -> Server:
        """A server that has just become the home."""
        server = Server(self, name)
        await server.begin()
        self.servers.append(server)
        return server

    async def end(self) -> None:
        for server in self.servers:
            for log in server.opened:
                await log.close()
            server.stop()


@pytest.fixture
async def world(tmp_path: Path) -> AsyncIterator[World]:
    meta = await open_migrated_file(tmp_path / "meta.db")
    made = World(tmp_path, meta)
    yield made
    await made.end()
    await meta.close()


class TestTieredLog(LogContract):
    @pytest.fixture(params=[False, True], ids=["on disk", "uploaded"])
    async def open_log(self, world: World, request: pytest.FixtureRequest) -> OpenLog:
        numbers = itertools.count(1)

        async def open_one(clock: ManualClock, presentation: Presentation) -> BucketLog:
            if not world.servers:
                world.clock = clock
                await world.server("one")
            server = world.servers[0]
            place = replace(PLACE, bucket=TableBucket(next(numbers), None, 0))
            return await server.open(presentation, place=place, ack_after_upload=request.param)

        return open_one

    # Its examples each have a loop of their own, which a store that is shared cannot have.
    test_any_read_finds_what_is_there = None  # type: ignore[assignment]


async def fill(log: BucketLog, count: int, *, first: int = 0) -> None:
    for sequence in range(first, first + count):
        log.enqueue(plain_batch(2, bytes([sequence % 251]) * 400, writer_id=7, sequence=sequence))
        if sequence % 4 == 3:
            await log.settle(log.end_offset)
    await log.settle(log.end_offset)


async def test_sealed_segments_are_copied_and_read_from_there(world: World) -> None:
    log = await (await world.server("one")).open()
    await fill(log, 60)
    was = await read_all(log)
    await log.tend(KEEP)
    assert log.start_offset == 0
    assert log.local.start_offset > 40
    assert await read_all(log) == was
    assert await read_all(log, 700) == was
    for offset in range(120):
        found = await log.read(offset, 1)
        assert offsets(found.records) == [(offset - offset % 2, offset - offset % 2 + 2)]


async def test_times_are_found_wherever_they_are(world: World) -> None:
    log = await (await world.server("one")).open()
    start = world.clock.now_ms()
    for number in range(40):
        await fill(log, 1, first=number)
        world.clock.advance(1)
    await log.tend(KEEP)
    assert log.local.start_offset > 20
    assert [await log.find_time(start + 1000 * at) for at in (-1, 0, 5, 39, 40)] == [0, 0, 10, 78, 80]


async def test_columns_are_chosen_of_what_is_in_the_byte_store_too(world: World) -> None:
    log = await (await world.server("one")).open(Presentation(lambda _: [shape_of(field.type) for field in SCHEMA]))
    for number in range(6):
        await log.append(arrow_batch(number * 100, 100), Acks.ALL)
    await log.tend(KEEP)
    assert log.local.start_offset > 0
    (batch, *_) = walk((await log.read(0, 1, [0, 2])).records)
    schema = pa.schema([SCHEMA.field(0), SCHEMA.field(2)])
    assert pa.ipc.read_record_batch(pa.py_buffer(batch.body), schema).equals(rows(0, 100).select([0, 2]))


async def read_stored(log: BucketLog) -> bytes:
    found, offset = b"", log.start_offset
    while offset < log.stable_offset:
        fetched = await log.read_stored(offset, 1000)
        found += fetched.records
        offset = fetched.next_offset
    return found


async def test_segments_are_copied_as_they_are_read_and_as_they_were_appended(world: World) -> None:
    first = await world.server("one")
    log = await first.open(Presentation(rendering=Doubling()))
    log.keep_from = lambda: 0
    await fill(log, 30)
    was, stored = await read_all(log), await read_stored(log)
    await log.hand_over()
    second = await world.server("two")
    log = await second.open(Presentation(rendering=Doubling()))
    assert log.local.start_offset == 60
    assert await read_all(log) == was
    assert all(map(is_whole, walk(was)))
    assert await read_stored(log) == stored
    # Whoever follows what it wrote has a copy of its own by now.
    log.keep_from = lambda: 60
    await log.tend(KEEP)
    assert not [name for name in await world.storage.names() if ".stored" in name]
    assert await read_all(log) == was


async def test_what_is_needed_to_follow_is_not_too_old(world: World) -> None:
    log = await (await world.server("one")).open(Presentation(rendering=Doubling()))
    await fill(log, 30)
    log.keep_from = lambda: 20
    world.clock.advance(3600)
    await log.tend(replace(KEEP, ttl_ms=1000))
    assert log.start_offset <= 20
    stored = await log.read_stored(20, 1)
    assert next(walk(stored.records)).base_offset == 20


async def test_clients_are_told_where_segments_are_if_they_can_reach_them(world: World) -> None:
    log = await (await world.server("one")).open(address="s3://lake")
    await fill(log, 60)
    was = await read_all(log)
    await log.tend(KEEP)
    offset, joined = 21, b""
    assert next(walk((await log.read(offset, 1)).records)).base_offset <= offset, "who cannot reach them is read for"
    found = await log.locate(offset)
    assert found is not None
    assert not found.records
    assert await log.locate(log.local.start_offset) is None
    assert log.remote.directory == "s3://lake/streams/log/db/events-7/0"
    for segment in found.remote:
        key = f"streams/log/db/events-7/0/{segment.segment_id}/{segment.start_offset:020d}.log"
        body = await world.storage.get(Key(key))
        assert len(body) == segment.size_bytes
        joined += body[found.remote_start :] if segment is found.remote[0] else body
    assert found.remote[-1].end_offset >= log.local.start_offset
    assert joined in was
    assert next(walk(joined)).base_offset <= offset < next(walk(joined)).base_offset + 20


@pytest.mark.parametrize("address", [None, "s3://lake"])
async def test_the_last_rows_are_found_wherever_they_are(world: World, address: str | None) -> None:
    log = await (await world.server("one")).open(address=address)
    await fill(log, 40)
    await log.tend(KEEP)
    await fill(log, 3, first=40)
    assert log.start_offset < log.local.start_offset
    for count in (1, 5, 30, 86, 1000):
        found = b"".join(await last_batches(log, count, 1 << 20))
        expected = max(0, 86 - count) // 2 * 2
        assert [start for start, _ in offsets(found)] == list(range(expected, 86, 2))
    assert await last_batches(log, 0, 1 << 20) == deque()
    few = b"".join(await last_batches(log, 1000, 3_000))
    assert offsets(few)[-1][1] == 86
    assert offsets(few)[0][0] > 0


async def test_what_nothing_refers_to_is_removed(world: World, monkeypatch: pytest.MonkeyPatch) -> None:
    server = await world.server("one")
    log = await server.open()
    await fill(log, 40)
    await log.tend(KEEP)
    # The store goes away at each step of a copy in turn.
    for failing in range(1, 5):
        await fill(log, 20, first=20 + 20 * failing)
        await log.local.roll()
        with monkeypatch.context() as patched:
            count = itertools.count(1)

            async def refuse(put: Any, last: int, numbers: Any, *args: Any, **named: Any) -> Any:
                if next(numbers) >= last:
                    raise Unavailable("the store is away")
                return await put(*args, **named)

            patched.setattr(world.storage, "put", partial(refuse, world.storage.put, failing, count))
            with refused(Reason.STORAGE):
                await log.tend(KEEP)
    await log.tend(KEEP)
    assert await world.storage.names() == sorted(expected_names(log))
    # And while segments that are too old are removed.
    world.clock.advance(60)
    with monkeypatch.context() as patched:

        async def away(keys: Any) -> None:
            raise Unavailable("the store is away")

        patched.setattr(world.storage, "delete_many", away)
        with refused(Reason.STORAGE):
            await log.tend(replace(KEEP, ttl_ms=1_000))
    assert len(await world.storage.names()) > 1
    await log.tend(replace(KEEP, ttl_ms=1_000))
    assert await world.storage.names() == sorted(expected_names(log))


async def test_a_crash_in_the_middle_of_a_copy_leaves_nothing_for_long(world: World) -> None:
    log = await (await world.server("one")).open()
    await fill(log, 40)
    await log.tend(KEEP)
    left = Key(f"streams/{PLACE.folder}/id-of-nobody/{200:020d}.log")
    tail = Key(f"streams/{PLACE.folder}/tail/something.log")
    for key in (left, tail):
        await world.storage.put(key, b"records")
    await log.tend(KEEP)
    assert left in await world.storage.names(), "it is looked for once, not every minute"
    world.servers[0].stop()
    again = await (await world.server("one")).open()
    await again.tend(KEEP)
    assert await world.storage.names() == sorted([*expected_names(again), tail])


async def test_a_former_home_removes_nothing(world: World, monkeypatch: pytest.MonkeyPatch) -> None:
    log = await (await world.server("one")).open(ack_after_upload=True)
    await fill(log, 40)
    list_prefix = world.storage.list_prefix
    successors: list[TieredLog] = []

    async def list_late(prefix: str) -> AsyncIterator[ObjectHead]:
        if not successors and prefix.endswith("/0/"):
            monkeypatch.undo()
            successors.append(await (await world.server("two")).open(ack_after_upload=True))
            await successors[0].local.roll()
            await successors[0].tend(KEEP)
        async for head in list_prefix(prefix):
            yield head

    monkeypatch.setattr(world.storage, "list_prefix", list_late)
    with refused(Reason.NOT_LEADER):
        await log.tend(KEEP)
    (successor,) = successors
    assert successor.remote.manifest.segments
    assert set(expected_names(successor)) <= set(await world.storage.names())
    assert offsets(await read_all(successor))[-1][1] == 80


def expected_names(log: TieredLog) -> list[str]:
    """What the byte store has to have of a log."""
    remote = log.remote
    names = [
        PLACE.segment(segment, suffix)
        for segment in remote.manifest.segments
        for suffix in ("log", "index", "writer_snapshot")
    ]
    return [f"streams/{name}" for name in names] + [remote.manifest_key]


async def test_a_damaged_batch_is_not_copied(world: World) -> None:
    server = await world.server("one")
    log = await server.open()
    await fill(log, 30)
    path = Path(log.local.segments[0].path)
    body = bytearray(path.read_bytes())
    body[900] ^= 1
    path.write_bytes(body)
    with refused(Reason.LOG_STORAGE):
        await log.tend(KEEP)
    assert await world.storage.names() == []


async def test_what_is_too_old_goes_wherever_it_is(world: World) -> None:
    log = await (await world.server("one")).open()
    policy = replace(KEEP, ttl_ms=10_000)
    await fill(log, 40)
    await log.tend(policy)
    world.clock.advance(6)
    await fill(log, 40, first=40)
    await log.tend(policy)
    assert log.start_offset == 0
    world.clock.advance(6)
    await log.tend(policy)
    assert 60 < log.start_offset <= 80
    assert (await log.read(log.start_offset, 1)).records
    with refused(Reason.OFFSET_OUT_OF_RANGE):
        await log.read(log.start_offset - 1, 1)
    world.clock.advance(60)
    await log.tend(policy)
    assert log.start_offset == log.end_offset == 160
    assert [name for name in await world.storage.names() if not name.endswith(".manifest")] == []
    assert (await log.append(plain_batch(2, writer_id=7, sequence=80), Acks.ALL)).base_offset == 160


@pytest.mark.parametrize("local_segments", [1, 100])
async def test_what_is_too_old_goes_however_much_is_kept_here(world: World, local_segments: int) -> None:
    log = await (await world.server("one")).open()
    policy = replace(KEEP, ttl_ms=10_000, local_segments=local_segments)
    for first in range(0, 100, 10):
        await fill(log, 10, first=first)
        await log.local.roll()
        world.clock.advance(2)
        await log.tend(policy)
    # Written every two seconds and kept for ten: five of ten.
    assert log.start_offset == 100
    with refused(Reason.OFFSET_OUT_OF_RANGE):
        await log.read(99, 1)


async def test_who_has_not_written_for_long_is_forgotten_while_the_log_is_open(world: World) -> None:
    log = await (await world.server("one")).open()
    await fill(log, 1)
    assert log.local.writer_count == 1
    world.clock.advance(8 * 24 * 3600)
    await log.tend(KEEP)
    assert log.local.writer_count == 0


async def test_a_log_that_is_too_large_loses_its_oldest_segments(world: World) -> None:
    log = await (await world.server("one")).open()
    await fill(log, 100)
    await log.tend(replace(KEEP, max_bytes=20_000))
    await log.tend(replace(KEEP, max_bytes=20_000))
    kept = len(await read_all(log))
    assert 10_000 < kept <= 20_000
    assert log.end_offset == 200


async def test_what_is_needed_here_stays_here(world: World) -> None:
    log = await (await world.server("one")).open()
    await fill(log, 60)
    log.keep_from = lambda: 30
    await log.tend(KEEP)
    assert log.local.start_offset <= 30
    assert (await log.read_stored(30, 1)).records


async def test_a_server_goes_on_after_a_crash_with_what_is_on_its_disk(world: World) -> None:
    first = await world.server("one")
    log = await first.open()
    await fill(log, 30)
    await log.tend(KEEP)
    await fill(log, 5, first=30)
    was = await read_all(log)
    first.stop()  # and nothing is closed
    again = await world.server("one")
    log = await again.open()
    assert await read_all(log) == was
    assert (await log.append(plain_batch(2, writer_id=7, sequence=34), Acks.ALL)).is_repeated
    assert (await log.append(plain_batch(2, writer_id=7, sequence=35), Acks.ALL)).base_offset == 70


async def test_no_other_server_goes_on_while_acknowledged_records_are_only_on_a_disk(world: World) -> None:
    first = await world.server("one")
    log = await first.open()
    await fill(log, 3)
    second = await world.server("two")
    with refused(Reason.NO_LEADER):
        await second.open()
    first.stop()
    again = await world.server("one")
    assert (await again.open()).end_offset == 6


@pytest.mark.parametrize("count", [1, 30])
async def test_what_is_handed_over_is_whole_and_its_writers_go_on(world: World, count: int) -> None:
    first = await world.server("one")
    log = await first.open()
    await fill(log, count)
    was = await read_all(log)
    await log.hand_over()
    await log.close()
    second = await world.server("two")
    log = await second.open()
    assert (log.start_offset, log.end_offset) == (0, 2 * count)
    assert await read_all(log) == was
    assert (await log.append(plain_batch(2, writer_id=7, sequence=count - 1), Acks.ALL)).is_repeated
    assert (await log.append(plain_batch(2, writer_id=7, sequence=count), Acks.ALL)).base_offset == 2 * count
    # And back: what the first has on its disk is not the log any more.
    await log.hand_over()
    await log.close()
    first.stop()
    log = await (await world.server("one")).open()
    assert log.end_offset == 2 * count + 2
    assert (await log.append(plain_batch(2, writer_id=7, sequence=count + 1), Acks.ALL)).base_offset == 2 * count + 2


async def test_a_former_home_changes_nothing(world: World) -> None:
    first = await world.server("one")
    log = await first.open()
    await fill(log, 30)
    await log.hand_over()
    second = await world.server("two")
    taken = await second.open()
    await fill(taken, 30, first=30)
    manifest = taken.remote.manifest
    # The first has not noticed yet.
    appended = log.enqueue(plain_batch(2, writer_id=7, sequence=30))
    await log.settle(appended.end_offset)
    with refused(Reason.NOT_LEADER):
        await log.hand_over()
    first.is_home = False
    with refused(Reason.NOT_LEADER):
        await log.append(plain_batch(2, writer_id=7, sequence=31), Acks.ALL)
    with refused(Reason.NOT_LEADER):
        await first.open()
    await taken.tend(KEEP)
    assert taken.remote.manifest.segments[: len(manifest.segments)] == manifest.segments
    assert len(list(walk(await read_all(taken)))) == 60


async def test_with_uploads_nothing_acknowledged_is_lost_with_a_disk(world: World) -> None:
    first = await world.server("one")
    log = await first.open(ack_after_upload=True)
    await fill(log, 30)
    await log.tend(KEEP)
    await fill(log, 5, first=30)
    was = await read_all(log)
    first.stop()
    shutil.rmtree(first.folder)
    second = await world.server("two")
    log = await second.open(ack_after_upload=True)
    assert await read_all(log) == was
    assert (await log.append(plain_batch(2, writer_id=7, sequence=34), Acks.ALL)).is_repeated
    assert (await log.append(plain_batch(2, writer_id=7, sequence=35), Acks.ALL)).base_offset == 70


async def test_appends_wait_for_the_byte_store_and_go_on(world: World) -> None:
    log = await (await world.server("one")).open(ack_after_upload=True)
    world.storage.is_away = True
    waiting = asyncio.create_task(log.append(plain_batch(2), Acks.ALL))
    reading = asyncio.create_task(log.wait_for(0))
    while world.storage.refused < 2:
        await asyncio.sleep(0.01)
    assert not waiting.done()
    assert not reading.done()
    assert log.stable_offset == 0
    world.storage.is_away = False
    assert (await waiting).base_offset == 0
    await reading
    assert await world.storage.names("log/db/events-7/0/tail/")


async def test_who_looks_after_the_server_is_told_of_a_byte_store_that_does_not_answer(
    world: World, monkeypatch: pytest.MonkeyPatch, caplog: pytest.LogCaptureFixture
) -> None:
    monkeypatch.setattr(tiered, "_SLOW_SECONDS", 0.01)
    log = await (await world.server("one")).open(ack_after_upload=True)
    world.storage.answers.clear()
    waiting = asyncio.create_task(log.append(plain_batch(2), Acks.ALL))
    while "appends wait for the byte store. from=0 to=2" not in caplog.messages:
        await asyncio.sleep(0.01)
    assert not waiting.done()
    world.storage.answers.set()
    assert (await waiting).end_offset == 2


async def test_closing_does_not_wait_for_a_byte_store_that_is_away(world: World) -> None:
    server = await world.server("one")
    log = await server.open(ack_after_upload=True)
    await fill(log, 1)
    world.storage.is_away = True
    waiting = asyncio.create_task(log.append(plain_batch(2, writer_id=7, sequence=1), Acks.ALL))
    while not world.storage.refused:
        await asyncio.sleep(0.01)
    await log.close()
    with refused(Reason.STORAGE):
        await waiting
    world.storage.is_away = False
    log = await server.open(ack_after_upload=True)
    assert not (await log.append(plain_batch(2, writer_id=7, sequence=1), Acks.ALL)).is_repeated
    assert offsets(await read_all(log)) == [(0, 2), (2, 4)]


async def test_what_a_former_home_sends_too_late_is_not_the_log(world: World) -> None:
    first = await world.server("one")
    old = await first.open(ack_after_upload=True)
    await fill(old, 2)
    second = await world.server("two")
    new = await second.open(ack_after_upload=True)
    await fill(new, 3, first=2)
    was = await read_all(new)
    await old.append(plain_batch(9), Acks.NONE)
    await old.local.settle(13)
    second.stop()
    shutil.rmtree(second.folder)
    third = await world.server("three")
    assert await read_all(await third.open(ack_after_upload=True)) == was


async def test_a_tail_that_was_only_here_is_uploaded_once_that_is_asked_for(world: World) -> None:
    first = await world.server("one")
    log = await first.open()
    await fill(log, 3)
    await log.close()
    log = await first.open(ack_after_upload=True)
    await fill(log, 1, first=3)
    first.stop()
    log = await (await world.server("two")).open(ack_after_upload=True)
    assert log.end_offset == 8


async def test_segments_replace_the_small_objects_of_a_tail(world: World) -> None:
    log = await (await world.server("one")).open(ack_after_upload=True)
    await fill(log, 30)
    before = len(await world.storage.names("log/db/events-7/0/tail/"))
    await log.tend(KEEP)
    assert len(await world.storage.names("log/db/events-7/0/tail/")) < before / 2


async def test_a_table_that_is_dropped_leaves_nothing(world: World) -> None:
    server = await world.server("one")
    log = await server.open(ack_after_upload=True)
    await fill(log, 30)
    await log.tend(KEEP)
    await log.remove()

    async def fence(tx: Transaction) -> int:
        return 1

    remotes = RemoteLogs(world.storage, LogRows(world.meta, fence), server.logs.threads, world.new_id)
    ((bucket, manifest, end),) = await remotes.ends(7, None)
    assert bucket == PLACE.bucket
    assert manifest in await world.storage.names()
    assert end == log.remote.manifest.copied_end
    await remotes.remove(7, None)
    await remotes.remove(7, None)
    assert await world.storage.names() == []
    assert await remotes.ends(7, None) == []


def test_a_manifest_is_read_as_it_was_written() -> None:
    segments = (RemoteSegment("a", 0, 10, 500, 3), RemoteSegment("b", 10, 20, 600, 4))
    manifest = Manifest(segments, 20)
    assert Manifest.parse(manifest.document(PLACE)) == manifest
    partitioned = LogPlace(TableBucket(7, 9, 3), "db", "events", "2026$eu")
    assert partitioned.folder == "log/db/events-7/2026$eu-p9/3"
    assert Manifest.parse(manifest.without(1).document(partitioned)) == Manifest(segments[1:], 20)
    with refused(Reason.LOG_STORAGE):
        Manifest.parse(b"{}")
    with pytest.raises(ValueError, match="follow"):
        Manifest((segments[0], segments[0]), 10)
