"""A log in files of a local folder. Acknowledged appends survive a loss of power.

An append assigns offsets on the event loop and queues its batches. A thread writes all queued batches with one call,
syncs once, and continues with those that came meanwhile, without the event loop in between: a group commit. Readers and
appenders see a group once it is synced. So a log consists of stable records, which are in the index; one group that is
being written; and queued batches in memory.

If the disk fails, all waiters get the error and the log takes no more appends. It must be reopened to find out which
records were stored. Closing it truncates the file to the stable records.
"""

from __future__ import annotations

import asyncio
import logging
import os
import time
from bisect import bisect_right
from collections.abc import Awaitable, Callable, Sequence
from concurrent.futures import Executor
from typing import Final, TypeAlias, TypeVar

from awscrt.checksums import crc32c

from lakebed.core.clock import Clock
from lakebed.fluss.errors import ErrorCode, FlussError
from lakebed.fluss.log_batches import LogBuffer, has_valid_checksum, iterate_batches
from lakebed.storage.folder.files import remove_tree, sync_folder
from lakebed.streams.durations import Durations
from lakebed.streams.seam import Acks, AppendResult, FetchResult

from ..offset_assignment import AssignedBatches, OffsetAssigner
from ..offset_waiters import OffsetWaiters
from ..reading.read_format import AS_STORED, ReadFormat
from ..settings import LogSizes
from .append_queue import AppendGroup, AppendQueue
from .recovery import CHECKPOINT, recover, replace_file, write_checkpoint
from .segment import Segment, segment_path, valid_prefix

__all__ = ["FolderLog"]

T = TypeVar("T")

_logger = logging.getLogger(__name__)
Replicate: TypeAlias = Callable[[int, int, Sequence[LogBuffer]], Awaitable[None]]

_MOST_PIECES: Final = 1024
"""Maximum number of buffers in one system call (IOV_MAX)."""

_MOST_GROUPS: Final = 16
"""Groups that a thread writes before it yields to other logs."""

_WARM_BYTES: Final = 32 * 1024 * 1024
"""The last bytes written are in the page cache, so reading them does not block. Older batches may be read from the
disk: in a thread, and with their checksums verified, which not all clients do."""


class FolderLog:
    """A bucket's log on a local disk. Created by `open`; for one event loop."""

    def __init__(
        self,
        folder: str,
        *,
        clock: Clock,
        threads: Executor,
        settings: LogSizes,
        read_format: ReadFormat,
        is_leader: Callable[[], bool],
        flushes: Durations,
    ) -> None:
        self.folder = folder
        self._clock = clock
        self._threads = threads
        self._settings = settings
        self._read_format = read_format
        self._is_leader = is_leader
        self._flushes = flushes
        self._assigner = OffsetAssigner(clock, settings.max_batch_bytes, read_format.has_schema)
        self._segments: list[Segment] = []
        self._start = 0
        self._stable = 0
        self._recovered_end = 0
        self._queue = AppendQueue()
        self._order = asyncio.Lock()
        self._flushing: asyncio.Task[None] | None = None
        self._bytes_since_checkpoint = 0
        self._waiters = OffsetWaiters()
        self._written_waiters = OffsetWaiters()
        self._written = 0
        self._failure: FlussError | None = None
        self.is_closed = False
        self.replicate: Replicate | None = None
        """Must succeed, besides the sync, before a group is stable. Gets its offsets and bytes."""

    @classmethod
    async def open(
        cls,
        folder: str,
        *,
        clock: Clock,
        threads: Executor,
        settings: LogSizes | None = None,
        read_format: ReadFormat = AS_STORED,
        is_leader: Callable[[], bool] = lambda: True,
        first_offset: int = 0,
        flushes: Durations | None = None,
    ) -> FolderLog:
        """Recover the log in `folder`, or create one that starts at `first_offset`. Raises LOG_STORAGE.

        `flushes` collects the duration of each write with its sync.
        """
        log = cls(
            folder,
            clock=clock,
            threads=threads,
            settings=LogSizes() if settings is None else settings,
            read_format=read_format,
            is_leader=is_leader,
            flushes=Durations() if flushes is None else flushes,
        )
        await log._recover(first_offset)
        return log

    @property
    def start_offset(self) -> int:
        """The first offset that is stored locally."""
        return self._start

    @property
    def end_offset(self) -> int:
        """The offset of the next record to append."""
        return self._assigner.end_offset

    @property
    def high_watermark(self) -> int:
        """The end of the records on stable storage."""
        return self._stable

    @property
    def failure(self) -> FlussError | None:
        """Why the log takes no more appends until it is reopened, or None."""
        return self._failure

    @property
    def segments(self) -> Sequence[Segment]:
        """The segments. All but the last are sealed."""
        return self._segments

    @property
    def size_bytes(self) -> int:
        """The local size."""
        return sum(segment.size for segment in self._segments)

    @property
    def writer_count(self) -> int:
        """The number of known writers."""
        return len(self._assigner.writers)

    def enqueue(self, records: bytes | memoryview) -> AppendResult:
        """Assign offsets to batches and queue them."""
        self._check_open()
        assigned = self._assigner.assign(records)
        self._enqueue(assigned)
        return assigned.appended

    def _enqueue(self, assigned: AssignedBatches) -> None:
        if assigned.entries:
            self._queue.add(assigned)
            if self._flushing is None:
                # Starts in the next iteration of the event loop: appends until then join the group.
                self._flushing = asyncio.get_running_loop().create_task(self._flush())

    async def wait_durable(self, offset: int) -> None:
        """Return when all records before `offset` are on stable storage."""
        if offset > self._stable and self._failure is None:
            await self._waiters.wait(offset)
        if offset > self._stable:
            raise self._failure or FlussError(ErrorCode.LOG_STORAGE, "log was closed before the append was stored")
        if not self._is_leader():
            raise _fenced()

    async def append(self, records: bytes | memoryview, acks: Acks) -> AppendResult:
        """Append batches and wait as `acks` requires."""
        # Appends wait for queue space in order: a batch that overtook another would be rejected by its sequence.
        async with self._order:
            while (ahead := self._queue.first_end_if_over(self._settings.group_bytes)) is not None:
                await self.wait_durable(ahead)
            appended = self.enqueue(records)
        if acks is Acks.ALL:
            await self.wait_durable(appended.end_offset)
        elif acks is Acks.LEADER and appended.end_offset > self._written:
            await self._written_waiters.wait(appended.end_offset)
            if appended.end_offset > self._written:
                raise self._failure or FlussError(ErrorCode.LOG_STORAGE, "log was closed before the append was stored")
        return appended

    async def restore(self, records: bytes) -> None:
        """Append batches that already have offsets, skipping those in the log. Raises LOG_STORAGE."""
        for batch in iterate_batches(records):
            if batch.base_offset >= self.end_offset:
                if batch.base_offset != self.end_offset or batch.magic != 0 or not has_valid_checksum(batch):
                    raise FlussError(ErrorCode.LOG_STORAGE, f"batch is damaged. offset={batch.base_offset}")
                self._assigner.replay(batch)
                appended = AppendResult(batch.base_offset, batch.next_offset)
                entries = [(batch.base_offset, len(batch.view))]
                self._enqueue(AssignedBatches(appended, [batch.view], entries, batch.timestamp_ms))
        await self.wait_durable(self.end_offset)

    async def read(self, offset: int, max_bytes: int, columns: Sequence[int] | None = None) -> FetchResult:
        """Read batches from the one that contains `offset`."""
        self._read_format.check(columns)
        found = await self.read_stored(offset, max_bytes)
        if not found.records or not self._read_format.needs_conversion(columns):
            return found
        converted = await self._in_thread(self._read_format.convert, found.records, columns)
        return FetchResult(converted, found.next_offset)

    async def read_stored(self, offset: int, max_bytes: int) -> FetchResult:
        """Read batches as stored."""
        if not self._start <= offset <= self._stable:
            raise FlussError(
                ErrorCode.LOG_OFFSET_OUT_OF_RANGE,
                f"offset is out of range. offset={offset} start={self._start} end={self._stable}",
            )
        if offset == self._stable:
            return FetchResult(b"", offset)
        segment = self._segment_of(offset)
        is_last = segment is self._segments[-1] and offset >= self._recovered_end
        if is_last and segment.size - segment.index.before(offset) <= _WARM_BYTES:
            try:
                return _read(segment, offset, max_bytes)
            except OSError as error:
                raise _failed(error) from error
        return await self._with(segment, _read_checked, segment, offset, max_bytes)

    async def locate(self, offset: int, columns: Sequence[int] | None = None) -> FetchResult | None:
        """None: the whole log is local."""
        return None

    async def wait_for(self, offset: int) -> None:
        """Return when a record at `offset` or later is readable, or the log is closed."""
        if offset >= self._stable and not self.is_closed:
            await self._waiters.wait(offset + 1)

    def watch(self, offset: int, callback: Callable[[], None]) -> Callable[[], None]:
        """Call `callback` when `wait_for` would return."""
        if offset >= self._stable and not self.is_closed:
            return self._waiters.add(offset + 1, callback)
        callback()
        return lambda: None

    async def find_time(self, timestamp_ms: int) -> int:
        """The offset of the first batch committed at this time or later."""
        for segment in self._segments:
            if segment.timestamp_ms >= timestamp_ms:
                found = await self._with(segment, segment.find_time, timestamp_ms)
                return max(found, self._start)
        return self._stable

    def forget_idle_writers(self) -> None:
        """Forget writers that have not written for long."""
        self._assigner.writers.forget_idle(self._clock.now_ms())

    def forget(self, offset: int) -> list[Segment]:
        """Remove sealed segments that end at `offset` or before. Open files are closed after their last read."""
        removed = [segment for segment in self._segments[:-1] if segment.end_offset <= offset]
        if removed:
            del self._segments[: len(removed)]
            self._start = self._segments[0].base_offset
            for segment in removed:
                for suffix in ("log", "index", "writers"):
                    remove_tree(segment_path(self.folder, segment.base_offset, suffix))
                segment.close()
        return removed

    async def roll(self) -> None:
        """Seal the active segment, unless it is empty."""
        while self._flushing is not None:
            await asyncio.wait({self._flushing})
        self._check_open()
        if self._segments[-1].size:
            self._flushing = asyncio.get_running_loop().create_task(self._flush(sealing=True))
            await asyncio.wait({self._flushing})
            if self._failure is not None:
                raise self._failure

    async def close(self) -> None:
        """Sync appended records, release all waiters and close the files."""
        if self.is_closed:
            return
        self.is_closed = True
        while self._flushing is not None:
            await asyncio.wait({self._flushing})
        self._waiters.release()
        self._written_waiters.release()
        if self._failure is None and self._bytes_since_checkpoint:
            last = self._segments[-1]
            arguments = (self.folder, last, last.index.document(last.size), self._assigner.writers.document())
            try:
                await self._in_thread(write_checkpoint, *arguments)
            except OSError as error:
                _logger.warning("log checkpoint failed at close. folder=%s reason=%s", self.folder, error)
        if self._failure is not None:
            try:
                await self._in_thread(_truncate, self._segments[-1])
            except OSError as error:
                _logger.warning("truncating a failed write failed. folder=%s reason=%s", self.folder, error)
        for segment in self._segments:
            segment.close()

    async def remove(self) -> None:
        """Close the log and delete its files."""
        await self.close()
        await self._in_thread(remove_tree, self.folder)

    def _check_open(self) -> None:
        if self.is_closed:
            raise FlussError(ErrorCode.NOT_LEADER_OR_FOLLOWER, "log is closed")
        if self._failure is not None:
            raise self._failure
        if not self._is_leader():
            raise _fenced()

    def _segment_of(self, offset: int) -> Segment:
        last = self._segments[-1]
        if offset >= last.base_offset:
            return last
        return self._segments[bisect_right(self._segments, offset, key=lambda it: it.base_offset) - 1]

    async def _in_thread(self, work: Callable[..., T], *arguments: object) -> T:
        return await asyncio.get_running_loop().run_in_executor(self._threads, work, *arguments)

    async def _with(self, segment: Segment, work: Callable[..., T], *arguments: object) -> T:
        """Run `work` with a segment's file in a thread. The file stays open meanwhile."""
        try:
            segment.acquire()
            try:
                return await self._in_thread(work, *arguments)
            finally:
                segment.release()
        except OSError as error:
            raise _failed(error) from error

    async def _flush(self, *, sealing: bool = False) -> None:
        """Write and sync queued groups until the queue is empty."""
        try:
            while self._queue or sealing:
                segment = self._segments[-1]
                group, writers = self._take(segment, sealing)
                if group.batches:
                    is_last = writers is not None or self.replicate is not None
                    space = 0 if is_last else self._space(segment) - group.size
                    group = await self._in_thread(self._store, segment, group, space, asyncio.get_running_loop())
                    if self.replicate is not None:
                        await self.replicate(self._stable, group.end_offset, group.pieces)
                    self._stored(segment, group)
                if sealing or segment.size >= self._settings.segment_bytes:
                    await self._seal(segment, writers or b"")
                    sealing = False
                elif writers is not None:
                    index = segment.index.document(segment.size)
                    await self._in_thread(write_checkpoint, self.folder, segment, index, writers)
                    self._bytes_since_checkpoint = 0
        except OSError as error:
            self._fail(_failed(error))
        except FlussError as failure:
            self._fail(failure)
        finally:
            self._flushing = None

    def _space(self, segment: Segment) -> int:
        """How many bytes may be written before the next checkpoint or the end of the segment."""
        settings = self._settings
        return min(settings.checkpoint_bytes - self._bytes_since_checkpoint, settings.segment_bytes - segment.size)

    def _take(self, segment: Segment, sealing: bool) -> tuple[AppendGroup, bytes | None]:
        """The next group, and the writer state at its end if a checkpoint or a seal follows it."""
        group = self._queue.take() or AppendGroup([], self._assigner.end_offset, 0)
        # All records with offsets are in this group or stored, so the current writer state is that at its end.
        needs_writers = sealing or group.size >= self._space(segment)
        return group, self._assigner.writers.document() if needs_writers else None

    def _store(self, segment: Segment, group: AppendGroup, space: int, loop: asyncio.AbstractEventLoop) -> AppendGroup:
        """In a thread: append groups to the file and sync each, while more are queued and there is space.

        Notifies the event loop of all but the last group, which is returned.
        """
        descriptor = segment.descriptor()
        position = segment.size
        for left in reversed(range(_MOST_GROUPS)):
            began = time.monotonic()
            _write_all(descriptor, group.pieces, position)
            if len(self._written_waiters):
                loop.call_soon_threadsafe(self._was_written, group.end_offset)
            os.fdatasync(descriptor)
            self._flushes.add(time.monotonic() - began)
            following = self._queue.take(space) if left else None
            if following is None:
                break
            loop.call_soon_threadsafe(self._stored, segment, group)
            position += group.size
            space -= following.size
            group = following
        return group

    def _was_written(self, offset: int) -> None:
        self._written = max(self._written, offset)
        self._written_waiters.reached(offset)

    def _stored(self, segment: Segment, group: AppendGroup) -> None:
        self._bytes_since_checkpoint += group.size
        for assigned in group.batches:
            for offset, size in assigned.entries:
                segment.extend(offset, size, assigned.timestamp_ms)
        segment.end_offset = self._stable = self._written = group.end_offset
        self._written_waiters.reached(self._stable)
        self._waiters.reached(self._stable)

    async def _seal(self, segment: Segment, writers: bytes) -> None:
        """Seal a segment and create the next one."""
        index = segment.index.document(segment.size)
        following = Segment(segment_path(self.folder, segment.end_offset), segment.end_offset)
        await self._in_thread(_create_next, self.folder, segment, index, following, writers)
        self._segments.append(following)
        self._bytes_since_checkpoint = 0

    def _fail(self, failure: FlussError) -> None:
        _logger.error("log write failed; the log must be reopened. folder=%s reason=%s", self.folder, failure)
        self._failure = failure
        self._queue.clear()
        self._written_waiters.release()
        self._waiters.release()

    async def _recover(self, first_offset: int) -> None:
        try:
            self._segments = await self._in_thread(recover, self.folder, self._assigner, first_offset)
        except OSError as error:
            raise _failed(error) from error
        self._start = self._segments[0].base_offset
        self._stable = self._written = self._recovered_end = self._segments[-1].end_offset
        self.forget_idle_writers()


def _read(segment: Segment, offset: int, max_bytes: int) -> FetchResult:
    span = segment.span(offset, max_bytes)
    return FetchResult(segment.read(span), span.next_offset)


def _read_checked(segment: Segment, offset: int, max_bytes: int) -> FetchResult:
    found = _read(segment, offset, max_bytes)
    size, after = valid_prefix(found.records, offset, segment.path)
    return found if size == len(found.records) else FetchResult(found.records[:size], after)


def _write_all(descriptor: int, pieces: list[LogBuffer], position: int) -> None:
    """Write buffers in order. Raises OSError."""
    at = 0
    while at < len(pieces):
        some = pieces[at : at + _MOST_PIECES]
        at += len(some)
        left = sum(map(len, some))
        while left:
            count = os.pwritev(descriptor, some, position)
            position += count
            left -= count
            while left and count >= len(some[0]):  # a partial write: over 2 GiB, or the disk is full
                count -= len(some.pop(0))
            if left and count:
                some[0] = memoryview(some[0])[count:]


def _create_next(folder: str, sealed: Segment, index: bytes, following: Segment, writers: bytes) -> None:
    """In a thread: store the index and writer state of a sealed segment, and create the next segment."""
    replace_file(segment_path(folder, sealed.base_offset, "index"), index)
    document = crc32c(writers).to_bytes(4, "little") + writers
    replace_file(segment_path(folder, following.base_offset, "writers"), document)
    remove_tree(os.path.join(folder, CHECKPOINT))
    following.create()
    sync_folder(folder)


def _truncate(segment: Segment) -> None:
    """In a thread: remove a partially written group."""
    os.ftruncate(segment.descriptor(), segment.size)


def _failed(error: OSError) -> FlussError:
    return FlussError(ErrorCode.LOG_STORAGE, f"disk error. errno={error.errno} reason={error.strerror or error}")


def _fenced() -> FlussError:
    # Not FENCED_LEADER_EPOCH, which clients do not retry: they must retry with the new leader.
    return FlussError(ErrorCode.NOT_LEADER_OR_FOLLOWER, "this server is not the stream leader any more")
