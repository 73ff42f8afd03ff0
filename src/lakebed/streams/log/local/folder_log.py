"""A log in files of a local folder, where an append that was acknowledged survives the machine's power.

An append gives batches their places on the event loop and hands them to a thread, which writes all that have come
meanwhile with one call and puts them on stable storage with one sync, and goes on with those who came since, without
the loop in between: syncs follow each other as fast as the disk can. Readers see a group when it is synced, and only
then is told whoever waits for that. So a log is at any time: what is stable, which is what the index knows; one group
on its way to the disk; and those who came since, in memory.

If the disk refuses, all who wait are told, and the log takes no more: which of the places that it gave will be given
again can only be told by opening it anew. What may be in the file of them is cut off when it is closed.
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
from lakebed.streams.seam import Acks, Appended, Fetched

from ..offset_assignment import AssignedBatches, OffsetAssigner
from ..offset_waiters import OffsetWaiters
from ..reading.read_format import AS_STORED, ReadFormat
from ..settings import LogSizes
from .append_queue import AppendGroup, AppendQueue
from .recovery import CHECKPOINT, recover, replace_file, write_checkpoint
from .segment import Segment, segment_path, whole_part

__all__ = ["FolderLog"]

T = TypeVar("T")

_logger = logging.getLogger(__name__)
Replicate: TypeAlias = Callable[[int, int, Sequence[LogBuffer]], Awaitable[None]]

_MOST_PIECES: Final = 1024
"""How many buffers one call of the kernel takes."""

_MOST_GROUPS: Final = 16
"""That a thread writes before it lets the groups of other logs have their turn."""

_WARM_BYTES: Final = 32 * 1024 * 1024
"""What we wrote last is in the kernel's cache: reading it is a copy, and no reason to wait for a thread. What is older
may come from the disk, and is looked at before it is handed out: not all clients do that."""


class FolderLog:
    """A bucket's log on a local disk. Opened by `open`; for one event loop."""

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
        self._admission = OffsetAssigner(clock, settings.max_batch_bytes, read_format.has_schema)
        self._segments: list[Segment] = []
        self._start = 0
        self._stable = 0
        self._opened_at = 0
        self._line = AppendQueue()
        self._order = asyncio.Lock()
        self._flushing: asyncio.Task[None] | None = None
        self._unnoted_bytes = 0
        self._waiters = OffsetWaiters()
        self._written_waiters = OffsetWaiters()
        self._written = 0
        self._failure: FlussError | None = None
        self.is_closed = False
        self.replicate: Replicate | None = None
        """What has to succeed, besides the sync, before a group is stable: with its offsets and its bytes."""

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
        """Find what `folder` holds, or begin a log at `first_offset`. Raises LOG_STORAGE.

        `flushes` is told how long it takes to write and sync a group.
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
        """The first that can be read here."""
        return self._start

    @property
    def end_offset(self) -> int:
        """The one after the last that has a place."""
        return self._admission.end_offset

    @property
    def stable_offset(self) -> int:
        """The one after the last that is on stable storage."""
        return self._stable

    @property
    def failure(self) -> FlussError | None:
        """Why it takes no more until it is opened anew, if that is so."""
        return self._failure

    @property
    def segments(self) -> Sequence[Segment]:
        """The files, of which all but the last are sealed."""
        return self._segments

    @property
    def size_bytes(self) -> int:
        """How much of it is here."""
        return sum(segment.size for segment in self._segments)

    @property
    def writer_count(self) -> int:
        """How many writers are known."""
        return len(self._admission.writers)

    def enqueue(self, records: bytes | memoryview) -> Appended:
        """Give batches their places, and have them written from here on."""
        self._check_open()
        admitted = self._admission.admit(records)
        self._enqueue(admitted)
        return admitted.appended

    def _enqueue(self, admitted: AssignedBatches) -> None:
        if admitted.entries:
            self._line.join(admitted)
            if self._flushing is None:
                # Begins once the loop comes round: whoever appends until then is in the same group.
                self._flushing = asyncio.get_running_loop().create_task(self._flush())

    async def settle(self, offset: int) -> None:
        """Return when all before `offset` is on stable storage."""
        if offset > self._stable and self._failure is None:
            await self._waiters.wait(offset)
        if offset > self._stable:
            raise self._failure or FlussError(ErrorCode.LOG_STORAGE, "the log was closed before")
        if not self._is_leader():
            raise _fenced()

    async def append(self, records: bytes | memoryview, acks: Acks) -> Appended:
        """Append batches, and answer when that is as stable as `acks` asks."""
        # One at a time waits for room, and the others behind it: what overtook would be refused for its number.
        async with self._order:
            while (ahead := self._line.first_beyond(self._settings.group_bytes)) is not None:
                await self.settle(ahead)
            appended = self.enqueue(records)
        if acks is Acks.ALL:
            await self.settle(appended.end_offset)
        elif acks is Acks.LEADER and appended.end_offset > self._written:
            await self._written_waiters.wait(appended.end_offset)
            if appended.end_offset > self._written:
                raise self._failure or FlussError(ErrorCode.LOG_STORAGE, "the log was closed before")
        return appended

    async def restore(self, records: bytes) -> None:
        """Append batches that have their places already, from the first that is not here. Raises LOG_STORAGE."""
        for batch in iterate_batches(records):
            if batch.base_offset >= self.end_offset:
                if batch.base_offset != self.end_offset or batch.magic != 0 or not has_valid_checksum(batch):
                    raise FlussError(ErrorCode.LOG_STORAGE, f"a batch is damaged. offset={batch.base_offset}")
                self._admission.replay(batch)
                appended = Appended(batch.base_offset, batch.next_offset)
                entries = [(batch.base_offset, len(batch.view))]
                self._enqueue(AssignedBatches(appended, [batch.view], entries, batch.timestamp_ms))
        await self.settle(self.end_offset)

    async def read(self, offset: int, max_bytes: int, columns: Sequence[int] | None = None) -> Fetched:
        """Batches from the one with `offset` on."""
        self._read_format.check(columns)
        found = await self.read_stored(offset, max_bytes)
        if not found.records or not self._read_format.needs_conversion(columns):
            return found
        shown = await self._in_thread(self._read_format.convert, found.records, columns)
        return Fetched(shown, found.next_offset)

    async def read_stored(self, offset: int, max_bytes: int) -> Fetched:
        """The same as they were appended."""
        if not self._start <= offset <= self._stable:
            raise FlussError(
                ErrorCode.LOG_OFFSET_OUT_OF_RANGE,
                f"offset is not in the log. offset={offset} start={self._start} end={self._stable}",
            )
        if offset == self._stable:
            return Fetched(b"", offset)
        segment = self._segment_of(offset)
        is_last = segment is self._segments[-1] and offset >= self._opened_at
        if is_last and segment.size - segment.index.before(offset) <= _WARM_BYTES:
            try:
                return _read(segment, offset, max_bytes)
            except OSError as error:
                raise _failed(error) from error
        return await self._with(segment, _read_checked, segment, offset, max_bytes)

    async def locate(self, offset: int, columns: Sequence[int] | None = None) -> Fetched | None:
        """Nothing is elsewhere."""
        return None

    async def wait_for(self, offset: int) -> None:
        """Return when a record at `offset` or later can be read, or the log is closed."""
        if offset >= self._stable and not self.is_closed:
            await self._waiters.wait(offset + 1)

    def watch(self, offset: int, told: Callable[[], None]) -> Callable[[], None]:
        """Have `told` called when `wait_for` would return."""
        if offset >= self._stable and not self.is_closed:
            return self._waiters.add(offset + 1, told)
        told()
        return lambda: None

    async def find_time(self, timestamp_ms: int) -> int:
        """The offset of the first batch that was committed then or later."""
        for segment in self._segments:
            if segment.timestamp_ms >= timestamp_ms:
                found = await self._with(segment, segment.find_time, timestamp_ms)
                return max(found, self._start)
        return self._stable

    def forget_idle_writers(self) -> None:
        """Let go of what is known of writers who have not written for long."""
        self._admission.writers.forget_idle(self._clock.now_ms())

    def forget(self, offset: int) -> list[Segment]:
        """Let go of sealed segments that end at `offset` or before. Their files go when nobody reads them."""
        gone = [segment for segment in self._segments[:-1] if segment.end_offset <= offset]
        if gone:
            del self._segments[: len(gone)]
            self._start = self._segments[0].base_offset
            for segment in gone:
                for suffix in ("log", "index", "writers"):
                    remove_tree(segment_path(self.folder, segment.base_offset, suffix))
                segment.close()
        return gone

    async def roll(self) -> None:
        """Seal the segment that is written to, unless it is empty."""
        while self._flushing is not None:
            await asyncio.wait({self._flushing})
        self._check_open()
        if self._segments[-1].size:
            self._flushing = asyncio.get_running_loop().create_task(self._flush(sealing=True))
            await asyncio.wait({self._flushing})
            if self._failure is not None:
                raise self._failure

    async def close(self) -> None:
        """Sync what was appended, let go of all who wait and of the files."""
        if self.is_closed:
            return
        self.is_closed = True
        while self._flushing is not None:
            await asyncio.wait({self._flushing})
        self._waiters.release()
        self._written_waiters.release()
        if self._failure is None and self._unnoted_bytes:
            last = self._segments[-1]
            arguments = (self.folder, last, last.index.document(last.size), self._admission.writers.document())
            try:
                await self._in_thread(write_checkpoint, *arguments)
            except OSError as error:
                _logger.warning("a log was closed without its checkpoint. folder=%s reason=%s", self.folder, error)
        if self._failure is not None:
            try:
                await self._in_thread(_cut_off, self._segments[-1])
            except OSError as error:
                _logger.warning("what failed could not be cut off. folder=%s reason=%s", self.folder, error)
        for segment in self._segments:
            segment.close()

    async def remove(self) -> None:
        """Close it, and remove its files."""
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
        """Work with a segment's file in a thread; it stays open until then."""
        try:
            segment.hold()
            try:
                return await self._in_thread(work, *arguments)
            finally:
                segment.let_go()
        except OSError as error:
            raise _failed(error) from error

    async def _flush(self, *, sealing: bool = False) -> None:
        """Write and sync who is in line, group by group, until nobody is."""
        try:
            while self._line or sealing:
                segment = self._segments[-1]
                group, writers = self._take(segment, sealing)
                if group.batches:
                    is_last = writers is not None or self.replicate is not None
                    room = 0 if is_last else self._room(segment) - group.size
                    group = await self._in_thread(self._store, segment, group, room, asyncio.get_running_loop())
                    if self.replicate is not None:
                        await self.replicate(self._stable, group.end_offset, group.pieces)
                    self._stored(segment, group)
                if sealing or segment.size >= self._settings.segment_bytes:
                    await self._seal(segment, writers or b"")
                    sealing = False
                elif writers is not None:
                    index = segment.index.document(segment.size)
                    await self._in_thread(write_checkpoint, self.folder, segment, index, writers)
                    self._unnoted_bytes = 0
        except OSError as error:
            self._fail(_failed(error))
        except FlussError as failure:
            self._fail(failure)
        finally:
            self._flushing = None

    def _room(self, segment: Segment) -> int:
        """How much may be written before something is to be noted of the log."""
        settings = self._settings
        return min(settings.checkpoint_bytes - self._unnoted_bytes, settings.segment_bytes - segment.size)

    def _take(self, segment: Segment, sealing: bool) -> tuple[AppendGroup, bytes | None]:
        """The next group, and who had written what at its end, if that is to be noted."""
        group = self._line.take() or AppendGroup([], self._admission.end_offset, 0)
        # All that has a place is in the group or stored: so what is known of writers now is how it is at its end.
        is_noted = sealing or group.size >= self._room(segment)
        return group, self._admission.writers.document() if is_noted else None

    def _store(self, segment: Segment, group: AppendGroup, room: int, loop: asyncio.AbstractEventLoop) -> AppendGroup:
        """In a thread: write a group at the end of the file and sync it; then those who came meanwhile, for as long as
        there is room. The loop is told of each but the last, which is returned.
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
            following = self._line.take(room) if left else None
            if following is None:
                break
            loop.call_soon_threadsafe(self._stored, segment, group)
            position += group.size
            room -= following.size
            group = following
        return group

    def _was_written(self, offset: int) -> None:
        self._written = max(self._written, offset)
        self._written_waiters.reached(offset)

    def _stored(self, segment: Segment, group: AppendGroup) -> None:
        self._unnoted_bytes += group.size
        for admitted in group.batches:
            for offset, size in admitted.entries:
                segment.grew(offset, size, admitted.timestamp_ms)
        segment.end_offset = self._stable = self._written = group.end_offset
        self._written_waiters.reached(self._stable)
        self._waiters.reached(self._stable)

    async def _seal(self, segment: Segment, writers: bytes) -> None:
        """End a segment, and begin the next one where it ends."""
        index = segment.index.document(segment.size)
        following = Segment(segment_path(self.folder, segment.end_offset), segment.end_offset)
        await self._in_thread(_begin_after, self.folder, segment, index, following, writers)
        self._segments.append(following)
        self._unnoted_bytes = 0

    def _fail(self, failure: FlussError) -> None:
        _logger.error("a log takes no more until it is opened anew. folder=%s reason=%s", self.folder, failure)
        self._failure = failure
        self._line.clear()
        self._written_waiters.release()
        self._waiters.release()

    async def _recover(self, first_offset: int) -> None:
        try:
            self._segments = await self._in_thread(recover, self.folder, self._admission, first_offset)
        except OSError as error:
            raise _failed(error) from error
        self._start = self._segments[0].base_offset
        self._stable = self._written = self._opened_at = self._segments[-1].end_offset
        self.forget_idle_writers()


def _read(segment: Segment, offset: int, max_bytes: int) -> Fetched:
    span = segment.span(offset, max_bytes)
    return Fetched(segment.read(span), span.next_offset)


def _read_checked(segment: Segment, offset: int, max_bytes: int) -> Fetched:
    found = _read(segment, offset, max_bytes)
    size, after = whole_part(found.records, offset, segment.path)
    return found if size == len(found.records) else Fetched(found.records[:size], after)


def _write_all(descriptor: int, pieces: list[LogBuffer], position: int) -> None:
    """Write buffers one after the other. Raises OSError."""
    at = 0
    while at < len(pieces):
        some = pieces[at : at + _MOST_PIECES]
        at += len(some)
        left = sum(map(len, some))
        while left:
            count = os.pwritev(descriptor, some, position)
            position += count
            left -= count
            while left and count >= len(some[0]):  # over 2 GiB at once, or the disk has just become full
                count -= len(some.pop(0))
            if left and count:
                some[0] = memoryview(some[0])[count:]


def _begin_after(folder: str, sealed: Segment, index: bytes, following: Segment, writers: bytes) -> None:
    """In a thread: note what is known of a segment that is whole, and make the file of the next."""
    replace_file(segment_path(folder, sealed.base_offset, "index"), index)
    document = crc32c(writers).to_bytes(4, "little") + writers
    replace_file(segment_path(folder, following.base_offset, "writers"), document)
    remove_tree(os.path.join(folder, CHECKPOINT))
    following.create()
    sync_folder(folder)


def _cut_off(segment: Segment) -> None:
    """In a thread: remove what was written of a group that failed."""
    os.ftruncate(segment.descriptor(), segment.size)


def _failed(error: OSError) -> FlussError:
    return FlussError(ErrorCode.LOG_STORAGE, f"the disk refuses. errno={error.errno} reason={error.strerror or error}")


def _fenced() -> FlussError:
    # Not as a fence, which clients take as final: they are to send it again, to whoever is the home now.
    return FlussError(ErrorCode.NOT_LEADER_OR_FOLLOWER, "this server is not the home of streams any more")
