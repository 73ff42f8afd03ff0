"""Logs with remote storage: one log for readers, and leaders that succeed each other without losing records."""

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
from tests.streams.log.log_cluster import KEEP, LARGE, LOCATION, LogCluster, fill


class TestRemoteBackedLog(LogContract):
    @pytest.fixture(params=[False, True], ids=["on disk", "uploaded"])
    async def open_log(self, cluster: LogCluster, request: pytest.FixtureRequest) -> OpenLog:
        numbers = itertools.count(1)

        async def open_one(clock: ManualClock, read_format: ReadFormat) -> BucketLog:
            if not cluster.servers:
                cluster.clock = clock
                await cluster.server("one")
            server = cluster.servers[0]
            location = replace(LOCATION, bucket=TableBucket(next(numbers), None, 0))
            return await server.open(read_format, location=location, ack_after_upload=request.param)

        return open_one

    # Each Hypothesis example has its own event loop, which a shared store does not support.
    test_any_read_returns_the_batches_from_its_offset = None  # type: ignore[assignment]


async def test_sealed_segments_are_uploaded_and_read_from_the_object_store(cluster: LogCluster) -> None:
    log = await (await cluster.server("one")).open()
    await fill(log, 60)
    expected = await read_all(log)
    await log.maintain(KEEP)
    assert log.start_offset == 0
    assert log.local.start_offset > 40
    assert await read_all(log) == expected
    assert await read_all(log, 700) == expected
    for offset in range(120):
        found = await log.read(offset, 1)
        assert offsets(found.records) == [(offset - offset % 2, offset - offset % 2 + 2)]


async def test_offsets_by_time_are_found_in_local_and_remote_segments(cluster: LogCluster) -> None:
    log = await (await cluster.server("one")).open()
    start = cluster.clock.now_ms()
    for number in range(40):
        await fill(log, 1, first=number)
        cluster.clock.advance(1)
    await log.maintain(KEEP)
    assert log.local.start_offset > 20
    assert [await log.find_time(start + 1000 * at) for at in (-1, 0, 5, 39, 40)] == [0, 0, 10, 78, 80]


async def test_projection_of_remote_segments(cluster: LogCluster) -> None:
    log = await (await cluster.server("one")).open(ReadFormat(lambda _: [shape_of(field.type) for field in SCHEMA]))
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


async def test_changelog_segments_are_uploaded_rendered_and_stored(cluster: LogCluster) -> None:
    first = await cluster.server("one")
    log = await first.open(ReadFormat(rendering=Doubling()))
    log.keep_from = lambda: 0
    await fill(log, 30)
    expected, stored = await read_all(log), await read_stored(log)
    await log.hand_over()
    second = await cluster.server("two")
    log = await second.open(ReadFormat(rendering=Doubling()))
    assert log.local.start_offset == 60
    assert await read_all(log) == expected
    assert all(map(has_valid_checksum, iterate_batches(expected)))
    assert await read_stored(log) == stored
    # The KV index no longer needs the stored form.
    log.keep_from = lambda: 60
    await log.maintain(KEEP)
    assert not [name for name in await cluster.storage.names() if ".stored" in name]
    assert await read_all(log) == expected


async def test_clients_with_remote_access_receive_segment_locations(cluster: LogCluster) -> None:
    log = await (await cluster.server("one")).open(address="s3://lake")
    await fill(log, 60)
    expected = await read_all(log)
    await log.maintain(KEEP)
    offset, joined = 21, b""
    assert next(iterate_batches((await log.read(offset, 1)).records)).base_offset <= offset, (
        "clients without remote access are read for"
    )
    found = await log.locate(offset)
    assert found is not None
    assert not found.records
    assert await log.locate(log.local.start_offset) is None
    assert log.remote.directory == "s3://lake/streams/log/db/events-7/0"
    for segment in found.remote:
        key = f"streams/log/db/events-7/0/{segment.segment_id}/{segment.start_offset:020d}.log"
        body = await cluster.storage.get(Key(key))
        assert len(body) == segment.size_bytes
        joined += body[found.remote_start :] if segment is found.remote[0] else body
    assert found.remote[-1].end_offset >= log.local.start_offset
    assert joined in expected
    assert next(iterate_batches(joined)).base_offset <= offset < next(iterate_batches(joined)).base_offset + 20


@pytest.mark.parametrize("address", [None, "s3://lake"])
async def test_last_rows_are_found_in_local_and_remote_segments(cluster: LogCluster, address: str | None) -> None:
    log = await (await cluster.server("one")).open(address=address)
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


async def test_corrupt_batch_is_not_uploaded(cluster: LogCluster) -> None:
    server = await cluster.server("one")
    log = await server.open()
    await fill(log, 30)
    path = Path(log.local.segments[0].path)
    body = bytearray(path.read_bytes())
    body[900] ^= 1
    path.write_bytes(body)
    with refused(ErrorCode.LOG_STORAGE):
        await log.maintain(KEEP)
    assert await cluster.storage.names() == []


async def test_server_continues_from_its_disk_after_a_crash(cluster: LogCluster) -> None:
    first = await cluster.server("one")
    log = await first.open()
    await fill(log, 30)
    await log.maintain(KEEP)
    await fill(log, 5, first=30)
    expected = await read_all(log)
    first.stop()  # without closing the log
    again = await cluster.server("one")
    log = await again.open()
    assert await read_all(log) == expected
    assert (await log.append(plain_batch(2, writer_id=7, sequence=34), Acks.ALL)).is_duplicate
    assert (await log.append(plain_batch(2, writer_id=7, sequence=35), Acks.ALL)).base_offset == 70


async def test_no_other_server_takes_over_while_records_exist_only_on_a_disk(cluster: LogCluster) -> None:
    first = await cluster.server("one")
    log = await first.open()
    await fill(log, 3)
    second = await cluster.server("two")
    with refused(ErrorCode.LEADER_NOT_AVAILABLE):
        await second.open()
    first.stop()
    again = await cluster.server("one")
    assert (await again.open()).end_offset == 6


@pytest.mark.parametrize("count", [1, 30])
async def test_handed_over_log_is_complete_and_deduplicates_writers(cluster: LogCluster, count: int) -> None:
    first = await cluster.server("one")
    log = await first.open()
    await fill(log, count)
    expected = await read_all(log)
    await log.hand_over()
    await log.close()
    second = await cluster.server("two")
    log = await second.open()
    assert (log.start_offset, log.end_offset) == (0, 2 * count)
    assert await read_all(log) == expected
    assert (await log.append(plain_batch(2, writer_id=7, sequence=count - 1), Acks.ALL)).is_duplicate
    assert (await log.append(plain_batch(2, writer_id=7, sequence=count), Acks.ALL)).base_offset == 2 * count
    # And back: the files on the first disk are stale.
    await log.hand_over()
    await log.close()
    first.stop()
    log = await (await cluster.server("one")).open()
    assert log.end_offset == 2 * count + 2
    assert (await log.append(plain_batch(2, writer_id=7, sequence=count + 1), Acks.ALL)).base_offset == 2 * count + 2


async def test_former_leader_changes_nothing(cluster: LogCluster) -> None:
    first = await cluster.server("one")
    log = await first.open()
    await fill(log, 30)
    await log.hand_over()
    second = await cluster.server("two")
    taken_over = await second.open()
    await fill(taken_over, 30, first=30)
    manifest = taken_over.remote.manifest
    # The first server has not noticed yet.
    appended = log.enqueue(plain_batch(2, writer_id=7, sequence=30))
    await log.wait_durable(appended.end_offset)
    with refused(ErrorCode.NOT_LEADER_OR_FOLLOWER):
        await log.hand_over()
    first.is_leader = False
    with refused(ErrorCode.NOT_LEADER_OR_FOLLOWER):
        await log.append(plain_batch(2, writer_id=7, sequence=31), Acks.ALL)
    with refused(ErrorCode.NOT_LEADER_OR_FOLLOWER):
        await first.open()
    await taken_over.maintain(KEEP)
    assert taken_over.remote.manifest.segments[: len(manifest.segments)] == manifest.segments
    assert len(list(iterate_batches(await read_all(taken_over)))) == 60


async def test_ack_after_upload_survives_the_loss_of_the_disk(cluster: LogCluster) -> None:
    first = await cluster.server("one")
    log = await first.open(ack_after_upload=True)
    await fill(log, 30)
    await log.maintain(KEEP)
    await fill(log, 5, first=30)
    expected = await read_all(log)
    first.stop()
    shutil.rmtree(first.folder)
    second = await cluster.server("two")
    log = await second.open(ack_after_upload=True)
    assert await read_all(log) == expected
    assert (await log.append(plain_batch(2, writer_id=7, sequence=34), Acks.ALL)).is_duplicate
    assert (await log.append(plain_batch(2, writer_id=7, sequence=35), Acks.ALL)).base_offset == 70


async def test_merged_tail_objects_are_read_by_another_server(cluster: LogCluster) -> None:
    cluster.settings = LARGE
    first = await cluster.server("one")
    log = await first.open(ack_after_upload=True)
    for sequence in range(100):
        await log.append(plain_batch(2, bytes([sequence]) * 50, writer_id=7, sequence=sequence), Acks.ALL)
    expected = await read_all(log)
    before = await cluster.storage.names("log/db/events-7/0/tail/")
    await log.maintain(KEEP)
    after = await cluster.storage.names("log/db/events-7/0/tail/")
    assert len(before) == 100
    assert len(after) == 1
    await log.append(plain_batch(2, b"last", writer_id=7, sequence=100), Acks.ALL)
    first.stop()
    shutil.rmtree(first.folder)
    log = await (await cluster.server("two")).open(ack_after_upload=True)
    assert (await read_all(log)).startswith(expected)
    assert log.end_offset == 202
    assert (await log.append(plain_batch(2, writer_id=7, sequence=99), Acks.ALL)).is_duplicate


async def test_records_appended_during_a_segment_upload_are_read_by_another_server(
    cluster: LogCluster, monkeypatch: pytest.MonkeyPatch
) -> None:
    first = await cluster.server("one")
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
    expected = await read_all(log)
    first.stop()
    shutil.rmtree(first.folder)
    second = await cluster.server("two")
    assert await read_all(await second.open(ack_after_upload=True)) == expected


async def test_corrupt_tail_object_is_not_merged(cluster: LogCluster) -> None:
    cluster.settings = LARGE
    server = await cluster.server("one")
    log = await server.open(ack_after_upload=True)
    for sequence in range(40):
        await log.append(plain_batch(2, writer_id=7, sequence=sequence), Acks.ALL)
    await log.close()
    names = await cluster.storage.names("log/db/events-7/0/tail/")
    await cluster.storage.put(Key(names[-1]), await cluster.storage.get(Key(names[-1])) + b"more than the log has")
    log = await server.open(ack_after_upload=True)
    with refused(ErrorCode.LOG_STORAGE):
        await log.maintain(KEEP)
    assert await cluster.storage.names("log/db/events-7/0/tail/") == names


async def test_former_leader_removes_no_tail_objects(cluster: LogCluster) -> None:
    cluster.settings = LARGE
    first = await cluster.server("one")
    log = await first.open(ack_after_upload=True)
    for sequence in range(40):
        await log.append(plain_batch(2, bytes([sequence]) * 50, writer_id=7, sequence=sequence), Acks.ALL)
    expected = await read_all(log)
    await cluster.server("two")
    before = set(await cluster.storage.names("log/db/events-7/0/tail/"))
    with refused(ErrorCode.NOT_LEADER_OR_FOLLOWER):
        await log.maintain(KEEP)
    assert before <= set(await cluster.storage.names("log/db/events-7/0/tail/"))
    assert await read_all(await cluster.servers[1].open(ack_after_upload=True)) == expected


async def test_appends_wait_for_the_object_store_and_continue(cluster: LogCluster) -> None:
    log = await (await cluster.server("one")).open(ack_after_upload=True)
    cluster.storage.is_down = True
    waiting = asyncio.create_task(log.append(plain_batch(2), Acks.ALL))
    reading = asyncio.create_task(log.wait_for(0))
    while cluster.storage.refused < 2:
        await asyncio.sleep(0.01)
    assert not waiting.done()
    assert not reading.done()
    assert log.high_watermark == 0
    cluster.storage.is_down = False
    assert (await waiting).base_offset == 0
    await reading
    assert await cluster.storage.names("log/db/events-7/0/tail/")


async def test_appends_that_wait_for_the_object_store_are_logged(
    cluster: LogCluster, monkeypatch: pytest.MonkeyPatch, caplog: pytest.LogCaptureFixture
) -> None:
    monkeypatch.setattr(remote_backed_log, "_SLOW_SECONDS", 0.01)
    log = await (await cluster.server("one")).open(ack_after_upload=True)
    cluster.storage.is_responding.clear()
    waiting = asyncio.create_task(log.append(plain_batch(2), Acks.ALL))
    while "appends wait for the object store. from=0 to=2" not in caplog.messages:
        await asyncio.sleep(0.01)
    assert not waiting.done()
    cluster.storage.is_responding.set()
    assert (await waiting).end_offset == 2


async def test_closing_does_not_wait_for_an_unavailable_object_store(cluster: LogCluster) -> None:
    server = await cluster.server("one")
    log = await server.open(ack_after_upload=True)
    await fill(log, 1)
    cluster.storage.is_down = True
    waiting = asyncio.create_task(log.append(plain_batch(2, writer_id=7, sequence=1), Acks.ALL))
    while not cluster.storage.refused:
        await asyncio.sleep(0.01)
    await log.close()
    with refused(ErrorCode.STORAGE):
        await waiting
    cluster.storage.is_down = False
    log = await server.open(ack_after_upload=True)
    assert not (await log.append(plain_batch(2, writer_id=7, sequence=1), Acks.ALL)).is_duplicate
    assert offsets(await read_all(log)) == [(0, 2), (2, 4)]


async def test_late_tail_objects_of_a_former_leader_are_ignored(cluster: LogCluster) -> None:
    first = await cluster.server("one")
    old = await first.open(ack_after_upload=True)
    await fill(old, 2)
    second = await cluster.server("two")
    new = await second.open(ack_after_upload=True)
    await fill(new, 3, first=2)
    expected = await read_all(new)
    # By its own clock the first server still leads.
    with refused(ErrorCode.NOT_LEADER_OR_FOLLOWER):
        await old.append(plain_batch(9), Acks.ALL)
    assert old.high_watermark == 4, "readers of the former leader do not see it either"
    second.stop()
    shutil.rmtree(second.folder)
    third = await cluster.server("three")
    assert await read_all(await third.open(ack_after_upload=True)) == expected


async def test_server_replaced_during_opening_does_not_open_the_log(
    cluster: LogCluster, monkeypatch: pytest.MonkeyPatch
) -> None:
    first = await cluster.server("one")
    log = await first.open(ack_after_upload=True)
    await fill(log, 1)
    cluster.storage.is_down = True
    waiting = asyncio.create_task(log.append(plain_batch(2, writer_id=7, sequence=1), Acks.ALL))
    while not cluster.storage.refused:
        await asyncio.sleep(0.01)
    shutil.copytree(first.folder, cluster.folder / "copy at the kill")
    await log.close()
    await asyncio.gather(waiting, return_exceptions=True)
    first.stop()
    shutil.rmtree(first.folder)
    (cluster.folder / "copy at the kill").rename(first.folder)
    cluster.storage.is_down = False
    first.start()
    await first.become_leader()
    put = cluster.storage.put

    async def put_late(key: Key, body: ByteSource, *, metadata: Metadata | None = None) -> ObjectVersion:
        monkeypatch.setattr(cluster.storage, "put", put)
        await (await cluster.server("two")).open(ack_after_upload=True)
        return await put(key, body, metadata=metadata)

    monkeypatch.setattr(cluster.storage, "put", put_late)
    # It would acknowledge the repeated record as a duplicate, although the log lacks it.
    with refused(ErrorCode.NOT_LEADER_OR_FOLLOWER):
        await first.open(ack_after_upload=True)


async def test_appends_wait_for_the_metadata_store_and_continue(
    cluster: LogCluster, monkeypatch: pytest.MonkeyPatch
) -> None:
    log = await (await cluster.server("one")).open(ack_after_upload=True)
    was_read = asyncio.Event()
    row = cluster.meta.row

    async def is_down(sql: str, *values: Value) -> Row | None:
        was_read.set()
        raise Unavailable("the metadata store is unavailable")

    monkeypatch.setattr(cluster.meta, "row", is_down)
    waiting = asyncio.create_task(log.append(plain_batch(2), Acks.ALL))
    await asyncio.wait({waiting, asyncio.ensure_future(was_read.wait())}, return_when=asyncio.FIRST_COMPLETED)
    assert not waiting.done()
    assert log.high_watermark == 0
    monkeypatch.setattr(cluster.meta, "row", row)
    assert (await waiting).end_offset == 2


async def test_enabling_ack_after_upload_uploads_the_local_tail(cluster: LogCluster) -> None:
    first = await cluster.server("one")
    log = await first.open()
    await fill(log, 3)
    await log.close()
    log = await first.open(ack_after_upload=True)
    await fill(log, 1, first=3)
    first.stop()
    log = await (await cluster.server("two")).open(ack_after_upload=True)
    assert log.end_offset == 8


def test_manifest_survives_serialization() -> None:
    segments = (RemoteSegment("a", 0, 10, 500, 3), RemoteSegment("b", 10, 20, 600, 4))
    manifest = Manifest(segments, 20)
    assert Manifest.parse(manifest.document(LOCATION)) == manifest
    partitioned = LogLocation(TableBucket(7, 9, 3), "db", "events", "2026$eu")
    assert partitioned.folder == "log/db/events-7/2026$eu-p9/3"
    assert Manifest.parse(manifest.without(1).document(partitioned)) == Manifest(segments[1:], 20)
    with refused(ErrorCode.LOG_STORAGE):
        Manifest.parse(b"{}")
    with pytest.raises(ValueError, match="gap"):
        Manifest((segments[0], segments[0]), 10)
