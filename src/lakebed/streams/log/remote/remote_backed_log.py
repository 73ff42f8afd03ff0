"""A log whose sealed segments go to the object store, and which another server can continue (ADR 30, ADR 45).

Readers see one log, wherever its parts are. With `ack_after_upload` nothing is acknowledged, or read, that the object
store does not have, and any server continues it. Without, the newest records are on this server's disk alone: the row
of the log names this server, and no other opens the log before `return_tail` has uploaded them.
"""

from __future__ import annotations

import asyncio
import logging
from collections.abc import Awaitable, Callable, Sequence
from typing import Final

from lakebed.core.clock import Clock
from lakebed.fluss.errors import ErrorCode, FlussError
from lakebed.fluss.log_batches import LogBuffer
from lakebed.storage.folder.files import file_deletion_fields
from lakebed.streams.seam import Acks, Appended, Fetched

from ..local.folder_log import FolderLog
from ..local.recovery import writers_at
from ..local.segment import Segment
from ..reading.read_format import ReadFormat
from ..retention import RetentionPolicy, expired_segments, local_end, remote_expired
from .remote_log import RemoteLog
from .tails import Tail

__all__ = ["RemoteBackedLog"]

_logger = logging.getLogger(__name__)
_PIECE_BYTES: Final = 16 * 1024 * 1024
_FIRST_PAUSE_SECONDS: Final = 0.1
_LONGEST_PAUSE_SECONDS: Final = 5.0
_SLOW_SECONDS: Final = 1.0
"""After that whoever looks after the server is told what appends wait for."""


class RemoteBackedLog:
    """A bucket's log, of which the byte store has the older part."""

    def __init__(
        self,
        local: FolderLog,
        remote: RemoteLog,
        read_format: ReadFormat,
        tail: Tail,
        clock: Clock,
        incarnation: str,
        *,
        ack_after_upload: bool = False,
    ) -> None:
        self._local = local
        self._remote = remote
        self._read_format = read_format
        self._tail = tail
        self._clock = clock
        self._closing = asyncio.Event()
        self._maintenance_lock = asyncio.Lock()
        self.incarnation = incarnation
        """Names the log on this disk: another once it was begun anew, as another server had gone on with it. What was
        made here of its former life may have what the log has not."""
        self.keep_from: Callable[[], int] = lambda: local.stable_offset
        """From which offset on records are needed in the form in which they were appended, however old they are."""
        self._acks_uploaded = ack_after_upload
        if ack_after_upload:
            local.replicate = self._replicate

    @property
    def start_offset(self) -> int:
        """The first that can be read."""
        segments = self._remote.manifest.segments
        return min(segments[0].start_offset, self._local.start_offset) if segments else self._local.start_offset

    @property
    def end_offset(self) -> int:
        """The one after the last that has a place."""
        return self._local.end_offset

    @property
    def stable_offset(self) -> int:
        """The one after the last that is where it has to be to be acknowledged."""
        return self._local.stable_offset

    @property
    def failure(self) -> FlussError | None:
        """Why it takes no more until it is opened anew, if that is so."""
        return self._local.failure

    @property
    def is_tail_here(self) -> bool:
        """Whether this disk alone has the newest records that were acknowledged."""
        return not self._acks_uploaded

    @property
    def local(self) -> FolderLog:
        """The part that is here."""
        return self._local

    @property
    def remote(self) -> RemoteLog:
        """The part that is in the byte store. Both parts may have a segment."""
        return self._remote

    def enqueue(self, records: bytes | memoryview) -> Appended:
        """Give batches their places, and have them stored from here on."""
        return self._local.enqueue(records)

    async def settle(self, offset: int) -> None:
        """Return when all before `offset` may be acknowledged."""
        await self._local.settle(offset)

    async def append(self, records: bytes | memoryview, acks: Acks) -> Appended:
        """Append batches, and answer when that is as stable as `acks` asks."""
        return await self._local.append(records, acks)

    async def read(self, offset: int, max_bytes: int, columns: Sequence[int] | None = None) -> Fetched:
        """Batches from the one with `offset` on."""
        if offset >= self._local.start_offset or offset < self.start_offset:
            return await self._local.read(offset, max_bytes, columns)
        self._read_format.check(columns)
        found = await self._remote.read(offset, max_bytes)
        if columns is None:
            return found
        shown = await asyncio.to_thread(self._read_format.convert, found.records, columns, is_rendered=True)
        return Fetched(shown, found.next_offset)

    async def read_stored(self, offset: int, max_bytes: int) -> Fetched:
        """The same as they were appended."""
        if offset >= self._local.start_offset or offset < self.start_offset:
            return await self._local.read_stored(offset, max_bytes)
        if self._read_format.renders:
            return await self._remote.read_stored(offset, max_bytes)
        return await self._remote.read(offset, max_bytes)

    async def locate(self, offset: int, columns: Sequence[int] | None = None) -> Fetched | None:
        """Where in the byte store `offset` is, if it is not here and clients can read there."""
        is_leader = offset >= self._local.start_offset or offset < self.start_offset
        if is_leader or self._remote.directory is None:
            return None
        self._read_format.check(columns)
        return await self._remote.locate(offset)

    async def wait_for(self, offset: int) -> None:
        """Return when a record at `offset` or later can be read, or the log is closed."""
        await self._local.wait_for(offset)

    def watch(self, offset: int, told: Callable[[], None]) -> Callable[[], None]:
        """Have `told` called when `wait_for` would return."""
        return self._local.watch(offset, told)

    @property
    def is_closed(self) -> bool:
        """Whether it was closed."""
        return self._local.is_closed

    async def find_time(self, timestamp_ms: int) -> int:
        """The offset of the first batch that was committed then or later."""
        if self.start_offset < self._local.start_offset:
            found = await self._remote.find_time(timestamp_ms)
            if found is not None and found < self._local.start_offset:
                return found
        return await self._local.find_time(timestamp_ms)

    async def maintain(self, policy: RetentionPolicy) -> None:
        """Copy what is sealed; let go of what is too old, or need not be here.

        Raises STORAGE, LOG_STORAGE, NOT_LEADER_OR_FOLLOWER.
        """
        async with self._maintenance_lock:
            now_ms = self._clock.now_ms()
            last = self._local.segments[-1]
            if policy.ttl_ms is not None and last.size and last.timestamp_ms < now_ms - policy.ttl_ms:
                await self._local.roll()
            manifest = self._remote.manifest
            needed = self.keep_from()
            expired = remote_expired(manifest.segments, self._local.segments, policy, now_ms)
            await self._remote.trim(sum(it.end_offset <= needed for it in manifest.segments[:expired]))
            await self._forget_expired(policy, now_ms)
            self._local.forget_idle_writers()
            await self._upload_sealed()
            spare = local_end(self._local.segments, self._remote.manifest.copied_end, policy, now_ms)
            await self._forget_local(min(spare, needed))
            if self._read_format.renders:
                await self._remote.drop_stored(needed)
            if self._acks_uploaded:
                await self._merge_tail()
            await self._remote.sweep()

    async def hand_over(self) -> None:
        """Have all that was acknowledged in the byte store, for any server to go on.

        Raises STORAGE, NOT_LEADER_OR_FOLLOWER.
        """
        async with self._maintenance_lock:
            await self._local.roll()
            await self._upload_sealed()
            await self._remote.release_tail()

    async def upload_tail(self, offset: int) -> None:
        """Have the byte store have all that is here from `offset` on. Raises STORAGE."""
        offset = max(offset, self._local.start_offset)
        while offset < self._local.stable_offset:
            found = await self._local.read_stored(offset, _PIECE_BYTES)
            await self._tail.put(offset, found.next_offset, [found.records])
            offset = found.next_offset

    async def close(self) -> None:
        """Store what was appended, let go of all who wait and of the files."""
        self._closing.set()
        await self._local.close()

    async def remove(self) -> None:
        """Close it, and remove its files."""
        self._closing.set()
        await self._local.remove()

    async def _forget_expired(self, policy: RetentionPolicy, now_ms: int) -> None:
        """Let go of what is here and is not kept at all: what the byte store let go of, or never had."""
        if self._remote.manifest.segments:
            end = self._remote.manifest.start_offset
        else:
            segments = self._local.segments
            sizes = [(segment.timestamp_ms, segment.size) for segment in segments[:-1]]
            count = expired_segments(sizes, segments[-1].size, policy, now_ms)
            end = segments[count - 1].end_offset if count else 0
        await self._forget_local(min(end, self.keep_from()))

    async def _forget_local(self, end: int) -> None:
        """Remove local segments that end at `end` or before. Raises STORAGE unless the object store is ours now.

        It has the only other copy of most of them.
        """
        if any(segment.end_offset <= end for segment in self._local.segments[:-1]):
            await self._remote.confirm_store()
            gone = self._local.forget(end)
            _logger.info(
                "local log segments deleted by retention",
                extra=file_deletion_fields([(segment.path, segment.size) for segment in gone]),
            )

    async def _upload_sealed(self) -> None:
        for segment in list(self._local.segments[:-1]):
            if segment.base_offset >= self._remote.manifest.copied_end:
                await self._remote.upload(segment, self._read_format, await self._writers_after(segment))
        await self._tail.drop(self._remote.manifest.copied_end)

    async def _merge_tail(self) -> None:
        """Merge what is many small objects of the tail: another leader would read each before it serves the log.

        Only those of the last segment: once a segment that was sealed meanwhile is uploaded, the tail is looked for
        where that ends, and an object that begins before is not found.
        """
        start, end = self._local.segments[-1].base_offset, self._local.stable_offset
        for run in self._tail.runs(self._remote.manifest.copied_end, start, end):
            size, body, offset = self._tail.size_of(run), bytearray(), run[0].start
            while offset < run[-1].end:
                found = await self._local.read_stored(offset, size - len(body))
                body += found.records
                offset = found.next_offset
            if (len(body), offset) != (size, run[-1].end):
                raise FlussError(
                    ErrorCode.LOG_STORAGE, f"log and its tail differ. from={run[0].start} to={run[-1].end}"
                )
            await self._tail.merge(run, bytes(body), self._remote.check_leads)

    async def _writers_after(self, segment: Segment) -> bytes:
        sealed = [each for each in self._local.segments if each.end_offset <= segment.end_offset]
        found = await asyncio.to_thread(writers_at, self._local.folder, segment.end_offset, sealed)
        return found.document()

    async def _replicate(self, start: int, end: int, batches: Sequence[LogBuffer]) -> None:
        """Have the byte store have a group before it is acknowledged; while it is away, appends wait."""
        # Not only when it fails: a store asks again by itself, for long.
        words = "appends wait for the byte store. from=%d to=%d"
        telling = asyncio.get_running_loop().call_later(_SLOW_SECONDS, _logger.warning, words, start, end)
        try:
            await self._insist(lambda: self._tail.put(start, end, batches))
            # The next leader finds what was uploaded before it begins to lead. Clocks differ and stand still, so only
            # the metadata store knows that this was.
            await self._insist(self._remote.check_leads)
        finally:
            telling.cancel()

    async def _insist(self, work: Callable[[], Awaitable[None]]) -> None:
        """Repeat `work` while a store is away. Raises STORAGE once the log is closing, NOT_LEADER_OR_FOLLOWER."""
        pause = _FIRST_PAUSE_SECONDS
        while True:
            try:
                return await work()
            except FlussError as failure:
                if failure.code is not ErrorCode.STORAGE or self._closing.is_set():
                    raise
                _logger.warning("appends wait for the byte store. reason=%s", failure)
            try:
                await asyncio.wait_for(self._closing.wait(), pause)
            except TimeoutError:
                pause = min(2 * pause, _LONGEST_PAUSE_SECONDS)
