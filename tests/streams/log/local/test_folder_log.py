"""The log in a folder keeps the contract of logs, and what it acknowledged survives what becomes of its files."""

from __future__ import annotations

import asyncio
import errno
import os
import threading
from collections.abc import AsyncIterator, Iterator
from concurrent.futures import ThreadPoolExecutor
from contextlib import suppress
from pathlib import Path

import pytest

from lakebed.core.clock import ManualClock
from lakebed.fluss.errors import ErrorCode
from lakebed.fluss.log_batches import iterate_batches
from lakebed.streams.log.local.folder_log import FolderLog
from lakebed.streams.log.reading.read_format import AS_STORED, ReadFormat
from lakebed.streams.log.settings import LogSizes
from lakebed.streams.seam import Acks, BucketLog
from tests.contracts.stream_log import MAX_BATCH_BYTES, LogContract, OpenLog, offsets, plain_batch, read_all, refused

SMALL = LogSizes(segment_bytes=20_000, max_batch_bytes=MAX_BATCH_BYTES, group_bytes=1 << 20, checkpoint_bytes=8_000)


@pytest.fixture
def threads() -> Iterator[ThreadPoolExecutor]:
    with ThreadPoolExecutor(2) as pool:
        yield pool


class Opener:
    """Opens logs, each in a folder of its own or in one that is given, and closes them."""

    def __init__(self, folder: Path, threads: ThreadPoolExecutor) -> None:
        self._folder = folder
        self._threads = threads
        self._opened: list[FolderLog] = []

    async def __call__(
        self, clock: ManualClock, read_format: ReadFormat = AS_STORED, folder: Path | None = None
    ) -> FolderLog:
        log = await FolderLog.open(
            str(folder or self._folder / f"log-{len(self._opened)}"),
            clock=clock,
            threads=self._threads,
            settings=SMALL,
            read_format=read_format,
        )
        self._opened.append(log)
        return log

    async def close(self) -> None:
        for log in self._opened:
            await log.close()


@pytest.fixture
async def opener(tmp_path: Path, threads: ThreadPoolExecutor) -> AsyncIterator[Opener]:
    made = Opener(tmp_path, threads)
    yield made
    await made.close()


class TestFolderLog(LogContract):
    @pytest.fixture
    def open_log(self, opener: Opener) -> OpenLog:
        async def open_one(clock: ManualClock, read_format: ReadFormat) -> BucketLog:
            return await opener(clock, read_format)

        return open_one


def leave(log: FolderLog, folder: Path, to: Path) -> Path:
    """A copy of a log's files as a crash would leave them."""
    to.mkdir()
    for name in os.listdir(folder):
        # What is being replaced has another name by the time that it is read.
        with suppress(FileNotFoundError):
            (to / name).write_bytes((folder / name).read_bytes())
    return to


async def fill(log: FolderLog, count: int, size: int = 500, writer_id: int = 7, first: int = 0) -> None:
    for sequence in range(first, first + count):
        appended = log.enqueue(plain_batch(3, os.urandom(size), writer_id=writer_id, sequence=sequence))
        if sequence % 10 == 9:
            await log.wait_durable(appended.end_offset)
    await log.wait_durable(log.end_offset)


async def test_a_log_goes_on_where_it_was_closed(opener: Opener, tmp_path: Path) -> None:
    clock, folder = ManualClock(), tmp_path / "one"
    log = await opener(clock, folder=folder)
    await fill(log, 100)
    assert len(log.segments) > 2
    was = await read_all(log)
    await log.close()
    again = await opener(clock, folder=folder)
    assert (again.start_offset, again.high_watermark, again.end_offset) == (0, 300, 300)
    assert await read_all(again) == was
    assert (await again.append(plain_batch(3, writer_id=7, sequence=98), Acks.ALL)).is_duplicate
    assert (await again.append(plain_batch(3, writer_id=7, sequence=100), Acks.ALL)).base_offset == 300
    clock.advance(1)
    assert await again.find_time(clock.now_ms()) == 303


@pytest.mark.parametrize("missing", ["checkpoint", ".index", ".writers", ""])
async def test_what_belongs_to_a_log_besides_its_batches_can_be_lost(
    opener: Opener, tmp_path: Path, missing: str
) -> None:
    clock, folder = ManualClock(), tmp_path / "one"
    log = await opener(clock, folder=folder)
    await fill(log, 100)
    was = await read_all(log)
    left = leave(log, folder, tmp_path / "left")
    for name in os.listdir(left):
        if name.endswith(missing) and not name.endswith(".log"):
            (left / name).unlink()
    again = await opener(clock, folder=left)
    assert await read_all(again) == was
    assert await read_all(again, 3000) == was
    assert (await again.append(plain_batch(3, writer_id=7, sequence=99), Acks.ALL)).is_duplicate
    assert (await again.append(plain_batch(3, writer_id=7, sequence=100), Acks.ALL)).base_offset == 300


async def test_a_checkpoint_that_is_damaged_is_not_believed(opener: Opener, tmp_path: Path) -> None:
    log = await opener(ManualClock(), folder=tmp_path / "one")
    await fill(log, 30)
    was = await read_all(log)
    await log.close()
    path = tmp_path / "one" / "checkpoint"
    body = bytearray(path.read_bytes())
    body[-3] ^= 1
    path.write_bytes(body)
    assert await read_all(await opener(ManualClock(), folder=tmp_path / "one")) == was


@pytest.mark.slow
async def test_a_tail_torn_at_any_byte_is_cut_off_and_nothing_else(opener: Opener, tmp_path: Path) -> None:
    folder = tmp_path / "one"
    log = await opener(ManualClock(), folder=folder)
    await fill(log, 3, size=40)
    was = await read_all(log)
    path = folder / f"{0:020d}.log"
    whole = path.read_bytes()
    last = whole.rindex(was[-(48 + 40) :])
    for size in range(last, len(whole)):
        torn = tmp_path / f"torn-{size}"
        torn.mkdir()
        (torn / path.name).write_bytes(whole[:size])
        again = await opener(ManualClock(), folder=torn)
        assert again.end_offset == 6
        assert await read_all(again) == was[:last]
        # Its writer never heard of it, and sends it again.
        appended = await again.append(plain_batch(3, writer_id=7, sequence=2), Acks.ALL)
        assert (appended.base_offset, appended.is_duplicate) == (6, False)
        assert offsets(await read_all(again)) == [(0, 3), (3, 6), (6, 9)]
        await again.close()


@pytest.mark.slow
async def test_a_last_batch_with_any_wrong_byte_under_its_checksum_is_cut_off(opener: Opener, tmp_path: Path) -> None:
    folder = tmp_path / "one"
    log = await opener(ManualClock(), folder=folder)
    await fill(log, 3, size=20)
    path = folder / f"{0:020d}.log"
    whole = path.read_bytes()
    for position in range(len(whole) - 68 + 21, len(whole)):
        bad = bytearray(whole)
        bad[position] ^= 0x40
        torn = tmp_path / f"torn-{position}"
        torn.mkdir()
        (torn / path.name).write_bytes(bad)
        again = await opener(ManualClock(), folder=torn)
        assert again.end_offset == 6
        await again.close()


@pytest.mark.parametrize("position", [0, 9, 12, 21, 30, 60])
async def test_a_wrong_byte_before_other_batches_is_told_and_nothing_is_cut(
    opener: Opener, tmp_path: Path, position: int
) -> None:
    folder = tmp_path / "one"
    log = await opener(ManualClock(), folder=folder)
    await fill(log, 5, size=40)
    path = folder / f"{0:020d}.log"
    bad = bytearray(path.read_bytes())
    bad[88 + position] ^= 0x40
    left = tmp_path / "left"
    left.mkdir()
    (left / path.name).write_bytes(bad)
    with refused(ErrorCode.LOG_STORAGE):
        await opener(ManualClock(), folder=left)
    assert (left / path.name).read_bytes() == bad


async def test_a_batch_damaged_in_the_middle_of_a_segment_is_told_and_not_handed_out(
    opener: Opener, tmp_path: Path
) -> None:
    folder = tmp_path / "one"
    log = await opener(ManualClock(), folder=folder)
    await fill(log, 120)
    path = folder / f"{0:020d}.log"
    was = path.read_bytes()
    starts = [0]
    for batch in iterate_batches(was):
        starts.append(starts[-1] + len(batch.view))
    sixth, seventh = starts[6:8]
    for position in (*range(sixth, sixth + 8), *range(sixth + 8, sixth + 13), *range(sixth + 21, seventh, 31)):
        bad = bytearray(was)
        bad[position] ^= 0x41
        path.write_bytes(bad)
        with refused(ErrorCode.LOG_STORAGE):
            await log.read(18, 1 << 20)
        for most in (1 << 20, starts[6] + 10, 2000):
            found = await log.read(log.start_offset, most)
            assert offsets(found.records)[0] == (0, 3), "what is before it can be read"
            assert found.next_offset == offsets(found.records)[-1][1] <= 18
        assert (await log.read(300, 1 << 20)).records, "and what is behind it"
    path.write_bytes(was)
    assert offsets((await log.read(18, 2000)).records)[0] == (18, 21)


async def test_blocks_that_were_never_written_are_a_torn_tail_though_batches_follow(
    opener: Opener, tmp_path: Path
) -> None:
    folder = tmp_path / "one"
    log = await opener(ManualClock(), folder=folder)
    await fill(log, 3, size=5000)
    path = folder / f"{0:020d}.log"
    bad = bytearray(path.read_bytes())
    bad[8192:12288] = bytes(4096)
    left = tmp_path / "left"
    left.mkdir()
    (left / path.name).write_bytes(bad)
    assert (await opener(ManualClock(), folder=left)).end_offset == 3


async def test_a_segment_that_is_missing_is_told(opener: Opener, tmp_path: Path) -> None:
    folder = tmp_path / "one"
    log = await opener(ManualClock(), folder=folder)
    await fill(log, 120)
    left = leave(log, folder, tmp_path / "left")
    names = sorted(name for name in os.listdir(left) if name.endswith(".log"))
    (left / names[1]).unlink()
    with refused(ErrorCode.LOG_STORAGE):
        await opener(ManualClock(), folder=left)


async def test_nobody_is_told_that_a_refused_write_was_stored(
    opener: Opener, tmp_path: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    folder = tmp_path / "one"
    log = await opener(ManualClock(), folder=folder)
    await fill(log, 2)
    was = await read_all(log)

    def refuse(descriptor: int) -> None:
        raise OSError(errno.EIO, "input/output error")

    with monkeypatch.context() as patch:
        patch.setattr(os, "fdatasync", refuse)
        with refused(ErrorCode.LOG_STORAGE):
            await log.append(plain_batch(3, writer_id=7, sequence=2), Acks.ALL)
    assert log.failure is not None
    with refused(ErrorCode.LOG_STORAGE):
        await log.append(plain_batch(), Acks.NONE)
    assert await read_all(log) == was
    await log.close()
    again = await opener(ManualClock(), folder=folder)
    assert again.end_offset == 6
    assert not (await again.append(plain_batch(3, writer_id=7, sequence=2), Acks.ALL)).is_duplicate


class SlowDisk:
    """Takes the first sync when it is let, and may refuse those after it."""

    def __init__(self, *, refuses: bool = False) -> None:
        self.is_asked = threading.Event()
        self.may_go_on = threading.Event()
        self.threads: list[int] = []
        self._refuses = refuses
        self._sync = os.fdatasync

    def fdatasync(self, descriptor: int) -> None:
        self.threads.append(threading.get_ident())
        if len(self.threads) == 1:
            self.is_asked.set()
            self.may_go_on.wait(60)
        elif self._refuses:
            raise OSError(errno.EIO, "input/output error")
        self._sync(descriptor)


async def test_those_who_come_during_a_sync_are_written_next_by_who_did_it(
    opener: Opener, tmp_path: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    folder, disk = tmp_path / "one", SlowDisk()
    log = await opener(ManualClock(), folder=folder)
    with monkeypatch.context() as patch:
        patch.setattr(os, "fdatasync", disk.fdatasync)
        log.enqueue(plain_batch(3))
        await asyncio.to_thread(disk.is_asked.wait)
        log.enqueue(plain_batch(3))
        log.enqueue(plain_batch(3))
        assert (log.end_offset, log.high_watermark) == (9, 0)
        disk.may_go_on.set()
        await log.wait_durable(9)
    assert len(disk.threads) == 2
    assert len(set(disk.threads)) == 1
    assert offsets(await read_all(log)) == [(0, 3), (3, 6), (6, 9)]
    left = leave(log, folder, tmp_path / "left")
    assert offsets(await read_all(await opener(ManualClock(), folder=left))) == [(0, 3), (3, 6), (6, 9)]


async def test_a_group_that_is_refused_takes_nothing_from_the_one_before(
    opener: Opener, tmp_path: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    folder, disk = tmp_path / "one", SlowDisk(refuses=True)
    log = await opener(ManualClock(), folder=folder)
    with monkeypatch.context() as patch:
        patch.setattr(os, "fdatasync", disk.fdatasync)
        first = asyncio.create_task(log.append(plain_batch(3), Acks.ALL))
        await asyncio.to_thread(disk.is_asked.wait)
        log.enqueue(plain_batch(3))
        disk.may_go_on.set()
        assert (await first).end_offset == 3
        with refused(ErrorCode.LOG_STORAGE):
            await log.wait_durable(6)
    assert offsets(await read_all(log)) == [(0, 3)]
    await log.close()
    assert offsets(await read_all(await opener(ManualClock(), folder=folder))) == [(0, 3)]


async def test_who_is_not_the_home_any_more_acknowledges_nothing(tmp_path: Path, threads: ThreadPoolExecutor) -> None:
    homes = [True]
    log = await FolderLog.open(str(tmp_path / "one"), clock=ManualClock(), threads=threads, is_leader=lambda: homes[0])
    await log.append(plain_batch(), Acks.ALL)
    appended = log.enqueue(plain_batch())
    homes[0] = False
    with refused(ErrorCode.NOT_LEADER_OR_FOLLOWER):
        await log.wait_durable(appended.end_offset)
    with refused(ErrorCode.NOT_LEADER_OR_FOLLOWER):
        log.enqueue(plain_batch())
    await log.close()


async def test_segments_that_are_forgotten_are_gone_from_the_folder(opener: Opener, tmp_path: Path) -> None:
    folder = tmp_path / "one"
    log = await opener(ManualClock(), folder=folder)
    await fill(log, 120)
    second = log.segments[1]
    gone = log.forget(second.end_offset)
    assert [segment.base_offset for segment in gone] == [0, second.base_offset]
    assert log.start_offset == second.end_offset
    with refused(ErrorCode.LOG_OFFSET_OUT_OF_RANGE):
        await log.read(0, 100)
    batches = list(iterate_batches(await read_all(log)))
    assert (batches[0].base_offset, batches[-1].next_offset) == (second.end_offset, 360)
    await log.close()
    assert (await opener(ManualClock(), folder=folder)).start_offset == second.end_offset


async def test_a_log_that_is_removed_leaves_nothing(opener: Opener, tmp_path: Path) -> None:
    log = await opener(ManualClock(), folder=tmp_path / "one")
    await fill(log, 3)
    await log.remove()
    assert not (tmp_path / "one").exists()


async def test_a_log_can_be_sealed_by_hand(opener: Opener, tmp_path: Path) -> None:
    log = await opener(ManualClock(), folder=tmp_path / "one")
    await log.roll()
    assert len(log.segments) == 1
    await fill(log, 3)
    await log.roll()
    assert [segment.base_offset for segment in log.segments] == [0, 9]
    await fill(log, 1, first=3)
    assert offsets(await read_all(log)) == [(0, 3), (3, 6), (6, 9), (9, 12)]


async def test_appends_that_wait_for_room_are_not_overtaken(
    tmp_path: Path, threads: ThreadPoolExecutor, monkeypatch: pytest.MonkeyPatch
) -> None:
    settings = LogSizes(segment_bytes=1 << 20, max_batch_bytes=4_000, group_bytes=1_000, checkpoint_bytes=1 << 20)
    log = await FolderLog.open(str(tmp_path / "log"), clock=ManualClock(), threads=threads, settings=settings)
    synced, sync = threading.Event(), os.fdatasync

    def sync_late(descriptor: int) -> None:
        synced.wait()
        sync(descriptor)

    monkeypatch.setattr(os, "fdatasync", sync_late)
    appends = []
    for sequence in range(30):
        batch = plain_batch(1, bytes(400), writer_id=7, sequence=sequence)
        appends.append(asyncio.create_task(log.append(batch, Acks.ALL)))
        await asyncio.sleep(0.002)
        if sequence == 20:
            synced.set()
    appended = await asyncio.gather(*appends)
    assert [each.base_offset for each in appended] == list(range(30))
    await log.close()
