"""The local log implements the log contract; acknowledged records survive crashes and damaged files."""

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
    """Opens logs in new or given folders, and closes them."""

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
    log_opener = Opener(tmp_path, threads)
    yield log_opener
    await log_opener.close()


class TestFolderLog(LogContract):
    @pytest.fixture
    def open_log(self, opener: Opener) -> OpenLog:
        async def open_one(clock: ManualClock, read_format: ReadFormat) -> BucketLog:
            return await opener(clock, read_format)

        return open_one


def copy_files(log: FolderLog, folder: Path, to: Path) -> Path:
    """Copy the files of a log as a crash would leave them."""
    to.mkdir()
    for name in os.listdir(folder):
        # A file that is being replaced is renamed before it is read.
        with suppress(FileNotFoundError):
            (to / name).write_bytes((folder / name).read_bytes())
    return to


async def fill(log: FolderLog, count: int, size: int = 500, writer_id: int = 7, first: int = 0) -> None:
    for sequence in range(first, first + count):
        appended = log.enqueue(plain_batch(3, os.urandom(size), writer_id=writer_id, sequence=sequence))
        if sequence % 10 == 9:
            await log.wait_durable(appended.end_offset)
    await log.wait_durable(log.end_offset)


async def test_reopened_log_continues(opener: Opener, tmp_path: Path) -> None:
    clock, folder = ManualClock(), tmp_path / "one"
    log = await opener(clock, folder=folder)
    await fill(log, 100)
    assert len(log.segments) > 2
    expected = await read_all(log)
    await log.close()
    again = await opener(clock, folder=folder)
    assert (again.start_offset, again.high_watermark, again.end_offset) == (0, 300, 300)
    assert await read_all(again) == expected
    assert (await again.append(plain_batch(3, writer_id=7, sequence=98), Acks.ALL)).is_duplicate
    assert (await again.append(plain_batch(3, writer_id=7, sequence=100), Acks.ALL)).base_offset == 300
    clock.advance(1)
    assert await again.find_time(clock.now_ms()) == 303


@pytest.mark.parametrize("missing", ["checkpoint", ".index", ".writers", ""])
async def test_log_opens_without_checkpoint_indexes_and_writer_states(
    opener: Opener, tmp_path: Path, missing: str
) -> None:
    clock, folder = ManualClock(), tmp_path / "one"
    log = await opener(clock, folder=folder)
    await fill(log, 100)
    expected = await read_all(log)
    copy = copy_files(log, folder, tmp_path / "copy")
    for name in os.listdir(copy):
        if name.endswith(missing) and not name.endswith(".log"):
            (copy / name).unlink()
    again = await opener(clock, folder=copy)
    assert await read_all(again) == expected
    assert await read_all(again, 3000) == expected
    assert (await again.append(plain_batch(3, writer_id=7, sequence=99), Acks.ALL)).is_duplicate
    assert (await again.append(plain_batch(3, writer_id=7, sequence=100), Acks.ALL)).base_offset == 300


async def test_damaged_checkpoint_is_ignored(opener: Opener, tmp_path: Path) -> None:
    log = await opener(ManualClock(), folder=tmp_path / "one")
    await fill(log, 30)
    expected = await read_all(log)
    await log.close()
    path = tmp_path / "one" / "checkpoint"
    body = bytearray(path.read_bytes())
    body[-3] ^= 1
    path.write_bytes(body)
    assert await read_all(await opener(ManualClock(), folder=tmp_path / "one")) == expected


@pytest.mark.slow
async def test_torn_last_batch_is_truncated(opener: Opener, tmp_path: Path) -> None:
    folder = tmp_path / "one"
    log = await opener(ManualClock(), folder=folder)
    await fill(log, 3, size=40)
    expected = await read_all(log)
    path = folder / f"{0:020d}.log"
    whole = path.read_bytes()
    last = whole.rindex(expected[-(48 + 40) :])
    for size in range(last, len(whole)):
        torn = tmp_path / f"torn-{size}"
        torn.mkdir()
        (torn / path.name).write_bytes(whole[:size])
        again = await opener(ManualClock(), folder=torn)
        assert again.end_offset == 6
        assert await read_all(again) == expected[:last]
        # The batch was not acknowledged: its writer sends it again.
        appended = await again.append(plain_batch(3, writer_id=7, sequence=2), Acks.ALL)
        assert (appended.base_offset, appended.is_duplicate) == (6, False)
        assert offsets(await read_all(again)) == [(0, 3), (3, 6), (6, 9)]
        await again.close()


@pytest.mark.slow
async def test_corrupt_last_batch_is_truncated(opener: Opener, tmp_path: Path) -> None:
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
async def test_corruption_before_other_batches_is_reported_and_nothing_is_truncated(
    opener: Opener, tmp_path: Path, position: int
) -> None:
    folder = tmp_path / "one"
    log = await opener(ManualClock(), folder=folder)
    await fill(log, 5, size=40)
    path = folder / f"{0:020d}.log"
    bad = bytearray(path.read_bytes())
    bad[88 + position] ^= 0x40
    copy = tmp_path / "copy"
    copy.mkdir()
    (copy / path.name).write_bytes(bad)
    with refused(ErrorCode.LOG_STORAGE):
        await opener(ManualClock(), folder=copy)
    assert (copy / path.name).read_bytes() == bad


async def test_corrupt_batch_inside_a_segment_is_reported_and_not_returned(opener: Opener, tmp_path: Path) -> None:
    folder = tmp_path / "one"
    log = await opener(ManualClock(), folder=folder)
    await fill(log, 120)
    path = folder / f"{0:020d}.log"
    expected = path.read_bytes()
    starts = [0]
    for batch in iterate_batches(expected):
        starts.append(starts[-1] + len(batch.view))
    sixth, seventh = starts[6:8]
    for position in (*range(sixth, sixth + 8), *range(sixth + 8, sixth + 13), *range(sixth + 21, seventh, 31)):
        bad = bytearray(expected)
        bad[position] ^= 0x41
        path.write_bytes(bad)
        with refused(ErrorCode.LOG_STORAGE):
            await log.read(18, 1 << 20)
        for most in (1 << 20, starts[6] + 10, 2000):
            found = await log.read(log.start_offset, most)
            assert offsets(found.records)[0] == (0, 3), "batches before it are readable"
            assert found.next_offset == offsets(found.records)[-1][1] <= 18
        assert (await log.read(300, 1 << 20)).records, "batches after it are readable"
    path.write_bytes(expected)
    assert offsets((await log.read(18, 2000)).records)[0] == (18, 21)


async def test_zeroed_block_before_valid_batches_is_truncated_as_a_torn_tail(opener: Opener, tmp_path: Path) -> None:
    folder = tmp_path / "one"
    log = await opener(ManualClock(), folder=folder)
    await fill(log, 3, size=5000)
    path = folder / f"{0:020d}.log"
    bad = bytearray(path.read_bytes())
    bad[8192:12288] = bytes(4096)
    copy = tmp_path / "copy"
    copy.mkdir()
    (copy / path.name).write_bytes(bad)
    assert (await opener(ManualClock(), folder=copy)).end_offset == 3


async def test_missing_segment_is_reported(opener: Opener, tmp_path: Path) -> None:
    folder = tmp_path / "one"
    log = await opener(ManualClock(), folder=folder)
    await fill(log, 120)
    copy = copy_files(log, folder, tmp_path / "copy")
    names = sorted(name for name in os.listdir(copy) if name.endswith(".log"))
    (copy / names[1]).unlink()
    with refused(ErrorCode.LOG_STORAGE):
        await opener(ManualClock(), folder=copy)


async def test_failed_write_is_not_acknowledged(
    opener: Opener, tmp_path: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    folder = tmp_path / "one"
    log = await opener(ManualClock(), folder=folder)
    await fill(log, 2)
    expected = await read_all(log)

    def refuse(descriptor: int) -> None:
        raise OSError(errno.EIO, "input/output error")

    with monkeypatch.context() as patch:
        patch.setattr(os, "fdatasync", refuse)
        with refused(ErrorCode.LOG_STORAGE):
            await log.append(plain_batch(3, writer_id=7, sequence=2), Acks.ALL)
    assert log.failure is not None
    with refused(ErrorCode.LOG_STORAGE):
        await log.append(plain_batch(), Acks.NONE)
    assert await read_all(log) == expected
    await log.close()
    again = await opener(ManualClock(), folder=folder)
    assert again.end_offset == 6
    assert not (await again.append(plain_batch(3, writer_id=7, sequence=2), Acks.ALL)).is_duplicate


class SlowDisk:
    """Delays the first sync until the test continues it, and can fail later ones."""

    def __init__(self, *, fails: bool = False) -> None:
        self.is_syncing = threading.Event()
        self.may_continue = threading.Event()
        self.threads: list[int] = []
        self._fails = fails
        self._sync = os.fdatasync

    def fdatasync(self, descriptor: int) -> None:
        self.threads.append(threading.get_ident())
        if len(self.threads) == 1:
            self.is_syncing.set()
            self.may_continue.wait(60)
        elif self._fails:
            raise OSError(errno.EIO, "input/output error")
        self._sync(descriptor)


async def test_batches_that_arrive_during_a_sync_are_written_next_by_the_same_thread(
    opener: Opener, tmp_path: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    folder, disk = tmp_path / "one", SlowDisk()
    log = await opener(ManualClock(), folder=folder)
    with monkeypatch.context() as patch:
        patch.setattr(os, "fdatasync", disk.fdatasync)
        log.enqueue(plain_batch(3))
        await asyncio.to_thread(disk.is_syncing.wait)
        log.enqueue(plain_batch(3))
        log.enqueue(plain_batch(3))
        assert (log.end_offset, log.high_watermark) == (9, 0)
        disk.may_continue.set()
        await log.wait_durable(9)
    assert len(disk.threads) == 2
    assert len(set(disk.threads)) == 1
    assert offsets(await read_all(log)) == [(0, 3), (3, 6), (6, 9)]
    copy = copy_files(log, folder, tmp_path / "copy")
    assert offsets(await read_all(await opener(ManualClock(), folder=copy))) == [(0, 3), (3, 6), (6, 9)]


async def test_failed_group_does_not_affect_the_previous_one(
    opener: Opener, tmp_path: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    folder, disk = tmp_path / "one", SlowDisk(fails=True)
    log = await opener(ManualClock(), folder=folder)
    with monkeypatch.context() as patch:
        patch.setattr(os, "fdatasync", disk.fdatasync)
        first = asyncio.create_task(log.append(plain_batch(3), Acks.ALL))
        await asyncio.to_thread(disk.is_syncing.wait)
        log.enqueue(plain_batch(3))
        disk.may_continue.set()
        assert (await first).end_offset == 3
        with refused(ErrorCode.LOG_STORAGE):
            await log.wait_durable(6)
    assert offsets(await read_all(log)) == [(0, 3)]
    await log.close()
    assert offsets(await read_all(await opener(ManualClock(), folder=folder))) == [(0, 3)]


async def test_former_leader_acknowledges_nothing(tmp_path: Path, threads: ThreadPoolExecutor) -> None:
    leads = [True]
    log = await FolderLog.open(str(tmp_path / "one"), clock=ManualClock(), threads=threads, is_leader=lambda: leads[0])
    await log.append(plain_batch(), Acks.ALL)
    appended = log.enqueue(plain_batch())
    leads[0] = False
    with refused(ErrorCode.NOT_LEADER_OR_FOLLOWER):
        await log.wait_durable(appended.end_offset)
    with refused(ErrorCode.NOT_LEADER_OR_FOLLOWER):
        log.enqueue(plain_batch())
    await log.close()


async def test_forgotten_segments_are_removed_from_the_folder(opener: Opener, tmp_path: Path) -> None:
    folder = tmp_path / "one"
    log = await opener(ManualClock(), folder=folder)
    await fill(log, 120)
    second = log.segments[1]
    removed = log.forget(second.end_offset)
    assert [segment.base_offset for segment in removed] == [0, second.base_offset]
    assert log.start_offset == second.end_offset
    with refused(ErrorCode.LOG_OFFSET_OUT_OF_RANGE):
        await log.read(0, 100)
    batches = list(iterate_batches(await read_all(log)))
    assert (batches[0].base_offset, batches[-1].next_offset) == (second.end_offset, 360)
    await log.close()
    assert (await opener(ManualClock(), folder=folder)).start_offset == second.end_offset


async def test_removed_log_leaves_no_files(opener: Opener, tmp_path: Path) -> None:
    log = await opener(ManualClock(), folder=tmp_path / "one")
    await fill(log, 3)
    await log.remove()
    assert not (tmp_path / "one").exists()


async def test_roll_seals_the_active_segment(opener: Opener, tmp_path: Path) -> None:
    log = await opener(ManualClock(), folder=tmp_path / "one")
    await log.roll()
    assert len(log.segments) == 1
    await fill(log, 3)
    await log.roll()
    assert [segment.base_offset for segment in log.segments] == [0, 9]
    await fill(log, 1, first=3)
    assert offsets(await read_all(log)) == [(0, 3), (3, 6), (6, 9), (9, 12)]


async def test_appends_that_wait_for_buffer_space_keep_their_order(
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
