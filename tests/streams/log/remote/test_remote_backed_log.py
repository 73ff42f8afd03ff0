"""Logs over a byte store: one log to readers, retention, and homes that take over from each other and lose nothing."""

from __future__ import annotations

import asyncio
import itertools
import shutil
from collections import deque
from dataclasses import replace
from pathlib import Path
from typing import Any

import pyarrow as pa
import pytest

from lakebed.core.clock import ManualClock
from lakebed.core.errors import Unavailable
from lakebed.fluss.errors import ErrorCode
from lakebed.fluss.log_batches import has_valid_checksum, iterate_batches
from lakebed.meta.seam import Row, Value
from lakebed.storage.seam import ByteSource, Key, Metadata, ObjectVersion
from lakebed.streams.log.reading.last_rows import last_batches
from lakebed.streams.log.reading.projection import shape_of
from lakebed.streams.log.reading.read_format import ReadFormat
from lakebed.streams.log.remote import remote_backed_log
from lakebed.streams.log.remote.manifest import LogLocation, Manifest
from lakebed.streams.seam import Acks, BucketLog, RemoteSegment, TableBucket
from tests.contracts.stream_log import (
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
from tests.streams.log.tiered_world import KEEP, LARGE, PLACE, World, fill


class TestTieredLog(LogContract):
    @pytest.fixture(params=[False, True], ids=["on disk", "uploaded"])
    async def open_log(self, world: World, request: pytest.FixtureRequest) -> OpenLog:
        numbers = itertools.count(1)

        async def open_one(clock: ManualClock, read_format: ReadFormat) -> BucketLog:
            if not world.servers:
                world.clock = clock
                await world.server("one")
            server = world.servers[0]
            place = replace(PLACE, bucket=TableBucket(next(numbers), None, 0))
            return await server.open(read_format, place=place, ack_after_upload=request.param)

        return open_one

    # Its examples each have a loop of their own, which a store that is shared cannot have.
    test_any_read_returns_the_batches_from_its_offset = None  # type: ignore[assignment]


async def test_sealed_segments_are_copied_and_read_from_there(world: World) -> None:
    log = await (await world.server("one")).open()
    await fill(log, 60)
    was = await read_all(log)
    await log.maintain(KEEP)
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
    await log.maintain(KEEP)
    assert log.local.start_offset > 20
    assert [await log.find_time(start + 1000 * at) for at in (-1, 0, 5, 39, 40)] == [0, 0, 10, 78, 80]


async def test_columns_are_chosen_of_what_is_in_the_byte_store_too(world: World) -> None:
    log = await (await world.server("one")).open(ReadFormat(lambda _: [shape_of(field.type) for field in SCHEMA]))
    for number in range(6):
        await log.append(arrow_batch(number * 100, 100), Acks.ALL)
    await log.maintain(KEEP)
    assert log.local.start_offset > 0
    (batch, *_) = iterate_batches((await log.read(0, 1, [0, 2])).records)
    schema = pa.schema([SCHEMA.field(0), SCHEMA.field(2)])
    assert pa.ipc.read_record_batch(pa.py_buffer(batch.body), schema).equals(rows(0, 100).select([0, 2]))


async def read_stored(log: BucketLog) -> bytes:
    found, offset = b"", log.start_offset
    while offset < log.high_watermark:
        fetched = await log.read_stored(offset, 1000)
        found += fetched.records
        offset = fetched.next_offset
    return found


async def test_segments_are_copied_as_they_are_read_and_as_they_were_appended(world: World) -> None:
    first = await world.server("one")
    log = await first.open(ReadFormat(rendering=Doubling()))
    log.keep_from = lambda: 0
    await fill(log, 30)
    was, stored = await read_all(log), await read_stored(log)
    await log.hand_over()
    second = await world.server("two")
    log = await second.open(ReadFormat(rendering=Doubling()))
    assert log.local.start_offset == 60
    assert await read_all(log) == was
    assert all(map(has_valid_checksum, iterate_batches(was)))
    assert await read_stored(log) == stored
    # Whoever follows what it wrote has a copy of its own by now.
    log.keep_from = lambda: 60
    await log.maintain(KEEP)
    assert not [name for name in await world.storage.names() if ".stored" in name]
    assert await read_all(log) == was


async def test_clients_are_told_where_segments_are_if_they_can_reach_them(world: World) -> None:
    log = await (await world.server("one")).open(address="s3://lake")
    await fill(log, 60)
    was = await read_all(log)
    await log.maintain(KEEP)
    offset, joined = 21, b""
    assert next(iterate_batches((await log.read(offset, 1)).records)).base_offset <= offset, (
        "who cannot reach them is read for"
    )
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
    assert next(iterate_batches(joined)).base_offset <= offset < next(iterate_batches(joined)).base_offset + 20


@pytest.mark.parametrize("address", [None, "s3://lake"])
async def test_the_last_rows_are_found_wherever_they_are(world: World, address: str | None) -> None:
    log = await (await world.server("one")).open(address=address)
    await fill(log, 40)
    await log.maintain(KEEP)
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


async def test_a_damaged_batch_is_not_copied(world: World) -> None:
    server = await world.server("one")
    log = await server.open()
    await fill(log, 30)
    path = Path(log.local.segments[0].path)
    body = bytearray(path.read_bytes())
    body[900] ^= 1
    path.write_bytes(body)
    with refused(ErrorCode.LOG_STORAGE):
        await log.maintain(KEEP)
    assert await world.storage.names() == []


async def test_a_server_goes_on_after_a_crash_with_what_is_on_its_disk(world: World) -> None:
    first = await world.server("one")
    log = await first.open()
    await fill(log, 30)
    await log.maintain(KEEP)
    await fill(log, 5, first=30)
    was = await read_all(log)
    first.stop()  # and nothing is closed
    again = await world.server("one")
    log = await again.open()
    assert await read_all(log) == was
    assert (await log.append(plain_batch(2, writer_id=7, sequence=34), Acks.ALL)).is_duplicate
    assert (await log.append(plain_batch(2, writer_id=7, sequence=35), Acks.ALL)).base_offset == 70


async def test_no_other_server_goes_on_while_acknowledged_records_are_only_on_a_disk(world: World) -> None:
    first = await world.server("one")
    log = await first.open()
    await fill(log, 3)
    second = await world.server("two")
    with refused(ErrorCode.LEADER_NOT_AVAILABLE):
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
    assert (await log.append(plain_batch(2, writer_id=7, sequence=count - 1), Acks.ALL)).is_duplicate
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
    await log.wait_durable(appended.end_offset)
    with refused(ErrorCode.NOT_LEADER_OR_FOLLOWER):
        await log.hand_over()
    first.is_leader = False
    with refused(ErrorCode.NOT_LEADER_OR_FOLLOWER):
        await log.append(plain_batch(2, writer_id=7, sequence=31), Acks.ALL)
    with refused(ErrorCode.NOT_LEADER_OR_FOLLOWER):
        await first.open()
    await taken.maintain(KEEP)
    assert taken.remote.manifest.segments[: len(manifest.segments)] == manifest.segments
    assert len(list(iterate_batches(await read_all(taken)))) == 60


async def test_with_uploads_nothing_acknowledged_is_lost_with_a_disk(world: World) -> None:
    first = await world.server("one")
    log = await first.open(ack_after_upload=True)
    await fill(log, 30)
    await log.maintain(KEEP)
    await fill(log, 5, first=30)
    was = await read_all(log)
    first.stop()
    shutil.rmtree(first.folder)
    second = await world.server("two")
    log = await second.open(ack_after_upload=True)
    assert await read_all(log) == was
    assert (await log.append(plain_batch(2, writer_id=7, sequence=34), Acks.ALL)).is_duplicate
    assert (await log.append(plain_batch(2, writer_id=7, sequence=35), Acks.ALL)).base_offset == 70


async def test_a_tail_of_many_small_objects_is_merged_and_read_by_another_server(world: World) -> None:
    world.settings = LARGE
    first = await world.server("one")
    log = await first.open(ack_after_upload=True)
    for sequence in range(100):
        await log.append(plain_batch(2, bytes([sequence]) * 50, writer_id=7, sequence=sequence), Acks.ALL)
    was = await read_all(log)
    before = await world.storage.names("log/db/events-7/0/tail/")
    await log.maintain(KEEP)
    after = await world.storage.names("log/db/events-7/0/tail/")
    assert len(before) == 100
    assert len(after) == 1
    await log.append(plain_batch(2, b"last", writer_id=7, sequence=100), Acks.ALL)
    first.stop()
    shutil.rmtree(first.folder)
    log = await (await world.server("two")).open(ack_after_upload=True)
    assert (await read_all(log)).startswith(was)
    assert log.end_offset == 202
    assert (await log.append(plain_batch(2, writer_id=7, sequence=99), Acks.ALL)).is_duplicate


async def test_records_that_arrive_while_a_segment_is_uploaded_are_read_by_another_server(
    world: World, monkeypatch: pytest.MonkeyPatch
) -> None:
    first = await world.server("one")
    log = await first.open(ack_after_upload=True)
    numbers = itertools.count()

    async def append() -> None:
        number = next(numbers)
        await log.append(plain_batch(2, bytes([number % 251]) * 50, writer_id=7, sequence=number), Acks.ALL)

    async def append_until_sealed() -> None:
        sealed = len(log.local.segments)
        while len(log.local.segments) == sealed:
            await append()

    await append_until_sealed()
    upload = log.remote.upload

    async def upload_slowly(*arguments: Any) -> None:
        await upload(*arguments)
        await append_until_sealed()
        await append()

    monkeypatch.setattr(log.remote, "upload", upload_slowly)
    await log.maintain(KEEP)
    monkeypatch.setattr(log.remote, "upload", upload)
    await log.maintain(KEEP)
    was = await read_all(log)
    first.stop()
    shutil.rmtree(first.folder)
    second = await world.server("two")
    assert await read_all(await second.open(ack_after_upload=True)) == was


async def test_a_damaged_object_of_the_tail_is_not_merged(world: World) -> None:
    world.settings = LARGE
    server = await world.server("one")
    log = await server.open(ack_after_upload=True)
    for sequence in range(40):
        await log.append(plain_batch(2, writer_id=7, sequence=sequence), Acks.ALL)
    await log.close()
    names = await world.storage.names("log/db/events-7/0/tail/")
    await world.storage.put(Key(names[-1]), await world.storage.get(Key(names[-1])) + b"more than the log has")
    log = await server.open(ack_after_upload=True)
    with refused(ErrorCode.LOG_STORAGE):
        await log.maintain(KEEP)
    assert await world.storage.names("log/db/events-7/0/tail/") == names


async def test_a_former_leader_removes_nothing_of_the_tail(world: World) -> None:
    world.settings = LARGE
    first = await world.server("one")
    log = await first.open(ack_after_upload=True)
    for sequence in range(40):
        await log.append(plain_batch(2, bytes([sequence]) * 50, writer_id=7, sequence=sequence), Acks.ALL)
    was = await read_all(log)
    await world.server("two")
    before = set(await world.storage.names("log/db/events-7/0/tail/"))
    with refused(ErrorCode.NOT_LEADER_OR_FOLLOWER):
        await log.maintain(KEEP)
    assert before <= set(await world.storage.names("log/db/events-7/0/tail/"))
    assert await read_all(await world.servers[1].open(ack_after_upload=True)) == was


async def test_appends_wait_for_the_byte_store_and_go_on(world: World) -> None:
    log = await (await world.server("one")).open(ack_after_upload=True)
    world.storage.is_away = True
    waiting = asyncio.create_task(log.append(plain_batch(2), Acks.ALL))
    reading = asyncio.create_task(log.wait_for(0))
    while world.storage.refused < 2:
        await asyncio.sleep(0.01)
    assert not waiting.done()
    assert not reading.done()
    assert log.high_watermark == 0
    world.storage.is_away = False
    assert (await waiting).base_offset == 0
    await reading
    assert await world.storage.names("log/db/events-7/0/tail/")


async def test_who_looks_after_the_server_is_told_of_a_byte_store_that_does_not_answer(
    world: World, monkeypatch: pytest.MonkeyPatch, caplog: pytest.LogCaptureFixture
) -> None:
    monkeypatch.setattr(remote_backed_log, "_SLOW_SECONDS", 0.01)
    log = await (await world.server("one")).open(ack_after_upload=True)
    world.storage.answers.clear()
    waiting = asyncio.create_task(log.append(plain_batch(2), Acks.ALL))
    while "appends wait for the object store. from=0 to=2" not in caplog.messages:
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
    with refused(ErrorCode.STORAGE):
        await waiting
    world.storage.is_away = False
    log = await server.open(ack_after_upload=True)
    assert not (await log.append(plain_batch(2, writer_id=7, sequence=1), Acks.ALL)).is_duplicate
    assert offsets(await read_all(log)) == [(0, 2), (2, 4)]


async def test_what_a_former_home_sends_too_late_is_not_the_log(world: World) -> None:
    first = await world.server("one")
    old = await first.open(ack_after_upload=True)
    await fill(old, 2)
    second = await world.server("two")
    new = await second.open(ack_after_upload=True)
    await fill(new, 3, first=2)
    was = await read_all(new)
    # By its own clock the first leads still.
    with refused(ErrorCode.NOT_LEADER_OR_FOLLOWER):
        await old.append(plain_batch(9), Acks.ALL)
    assert old.high_watermark == 4, "nor is it read there"
    second.stop()
    shutil.rmtree(second.folder)
    third = await world.server("three")
    assert await read_all(await third.open(ack_after_upload=True)) == was


async def test_a_log_is_not_opened_by_a_server_that_another_overtook(
    world: World, monkeypatch: pytest.MonkeyPatch
) -> None:
    first = await world.server("one")
    log = await first.open(ack_after_upload=True)
    await fill(log, 1)
    world.storage.is_away = True
    waiting = asyncio.create_task(log.append(plain_batch(2, writer_id=7, sequence=1), Acks.ALL))
    while not world.storage.refused:
        await asyncio.sleep(0.01)
    shutil.copytree(first.folder, world.folder / "as the kill left it")
    await log.close()
    await asyncio.gather(waiting, return_exceptions=True)
    first.stop()
    shutil.rmtree(first.folder)
    (world.folder / "as the kill left it").rename(first.folder)
    world.storage.is_away = False
    first.run()
    await first.begin()
    put = world.storage.put

    async def put_late(key: Key, body: ByteSource, *, metadata: Metadata | None = None) -> ObjectVersion:
        monkeypatch.setattr(world.storage, "put", put)
        await (await world.server("two")).open(ack_after_upload=True)
        return await put(key, body, metadata=metadata)

    monkeypatch.setattr(world.storage, "put", put_late)
    # It would answer that record, sent again, as acknowledged.
    with refused(ErrorCode.NOT_LEADER_OR_FOLLOWER):
        await first.open(ack_after_upload=True)


async def test_appends_wait_for_the_metadata_store_and_go_on(world: World, monkeypatch: pytest.MonkeyPatch) -> None:
    log = await (await world.server("one")).open(ack_after_upload=True)
    asked = asyncio.Event()
    row = world.meta.row

    async def is_away(sql: str, *values: Value) -> Row | None:
        asked.set()
        raise Unavailable("the metadata store is away")

    monkeypatch.setattr(world.meta, "row", is_away)
    waiting = asyncio.create_task(log.append(plain_batch(2), Acks.ALL))
    await asyncio.wait({waiting, asyncio.ensure_future(asked.wait())}, return_when=asyncio.FIRST_COMPLETED)
    assert not waiting.done()
    assert log.high_watermark == 0
    monkeypatch.setattr(world.meta, "row", row)
    assert (await waiting).end_offset == 2


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


def test_a_manifest_is_read_as_it_was_written() -> None:
    segments = (RemoteSegment("a", 0, 10, 500, 3), RemoteSegment("b", 10, 20, 600, 4))
    manifest = Manifest(segments, 20)
    assert Manifest.parse(manifest.document(PLACE)) == manifest
    partitioned = LogLocation(TableBucket(7, 9, 3), "db", "events", "2026$eu")
    assert partitioned.folder == "log/db/events-7/2026$eu-p9/3"
    assert Manifest.parse(manifest.without(1).document(partitioned)) == Manifest(segments[1:], 20)
    with refused(ErrorCode.LOG_STORAGE):
        Manifest.parse(b"{}")
    with pytest.raises(ValueError, match="gap"):
        Manifest((segments[0], segments[0]), 10)
