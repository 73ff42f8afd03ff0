"""A log whose sealed segments go to the object store, and which another server can continue (ADR 30, ADR 45).

Readers see one log. With `ack_after_upload`, records are acknowledged and readable only once they are uploaded, and any
server can continue the log. Without it, the newest records are on this server's disk only: the log row names this
server, and no other opens the log before `upload_local_tail` has uploaded them.
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
from lakebed.streams.seam import Acks, AppendResult, FetchResult

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
"""After this, a warning is logged that appends wait for an upload."""


class RemoteBackedLog:
    """A bucket's log whose older part is in the object store."""

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
        """Identifies the local log. Changes when the log is recreated after another server continued it: a KV index of
        the previous incarnation may contain changes that the log does not have."""
        self.keep_from: Callable[[], int] = lambda: local.high_watermark
        """The offset from which records must be kept as appended, whatever the retention."""
        self._acks_uploaded = ack_after_upload
        if ack_after_upload:
            local.replicate = self._replicate

    @property
    def start_offset(self) -> int:
        """The first readable offset."""
        segments = self._remote.manifest.segments
        return min(segments[0].start_offset, self._local.start_offset) if segments else self._local.start_offset

    @property
    def end_offset(self) -> int:
        """The offset of the next record to append."""
        return self._local.end_offset

    @property
    def high_watermark(self) -> int:
        """The end of the records that are durable enough to be acknowledged."""
        return self._local.high_watermark

    @property
    def failure(self) -> FlussError | None:
        """Why the log takes no more appends until it is reopened, or None."""
        return self._local.failure

    @property
    def is_tail_here(self) -> bool:
        """Whether the newest acknowledged records may be on this disk only."""
        return not self._acks_uploaded

    @property
    def local(self) -> FolderLog:
        """The local part."""
        return self._local

    @property
    def remote(self) -> RemoteLog:
        """The remote part. Segments can be in both parts."""
        return self._remote

    def enqueue(self, records: bytes | memoryview) -> AppendResult:
        """Assign offsets to batches and queue them."""
        return self._local.enqueue(records)

    async def wait_durable(self, offset: int) -> None:
        """Return when all records before `offset` can be acknowledged."""
        await self._local.wait_durable(offset)

    async def append(self, records: bytes | memoryview, acks: Acks) -> AppendResult:
        """Append batches and wait as `acks` requires."""
        return await self._local.append(records, acks)

    async def read(self, offset: int, max_bytes: int, columns: Sequence[int] | None = None) -> FetchResult:
        """Read batches from the one that contains `offset`."""
        if offset >= self._local.start_offset or offset < self.start_offset:
            return await self._local.read(offset, max_bytes, columns)
        self._read_format.check(columns)
        found = await self._remote.read(offset, max_bytes)
        if columns is None:
            return found
        converted = await asyncio.to_thread(self._read_format.convert, found.records, columns, is_rendered=True)
        return FetchResult(converted, found.next_offset)

    async def read_stored(self, offset: int, max_bytes: int) -> FetchResult:
        """Read batches as stored."""
        if offset >= self._local.start_offset or offset < self.start_offset:
            return await self._local.read_stored(offset, max_bytes)
        if self._read_format.renders:
            return await self._remote.read_stored(offset, max_bytes)
        return await self._remote.read(offset, max_bytes)

    async def locate(self, offset: int, columns: Sequence[int] | None = None) -> FetchResult | None:
        """The remote segments from `offset` on, if the offset is not local and clients can read them."""
        is_local = offset >= self._local.start_offset or offset < self.start_offset
        if is_local or self._remote.directory is None:
            return None
        self._read_format.check(columns)
        return await self._remote.locate(offset)

    async def wait_for(self, offset: int) -> None:
        """Return when a record at `offset` or later is readable, or the log is closed."""
        await self._local.wait_for(offset)

    def watch(self, offset: int, callback: Callable[[], None]) -> Callable[[], None]:
        """Call `callback` when `wait_for` would return."""
        return self._local.watch(offset, callback)

    @property
    def is_closed(self) -> bool:
        """Whether the log is closed."""
        return self._local.is_closed

    async def find_time(self, timestamp_ms: int) -> int:
        """The offset of the first batch committed at this time or later."""
        if self.start_offset < self._local.start_offset:
            found = await self._remote.find_time(timestamp_ms)
            if found is not None and found < self._local.start_offset:
                return found
        return await self._local.find_time(timestamp_ms)

    async def maintain(self, policy: RetentionPolicy) -> None:
        """Upload sealed segments, and delete segments that are expired or no longer needed locally.

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
            spare = local_end(self._local.segments, self._remote.manifest.uploaded_end, policy, now_ms)
            await self._forget_local(min(spare, needed))
            if self._read_format.renders:
                await self._remote.drop_stored(needed)
            if self._acks_uploaded:
                await self._merge_tail()
            await self._remote.sweep()

    async def hand_over(self) -> None:
        """Upload all acknowledged records, so that any server can continue the log.

        Raises STORAGE, NOT_LEADER_OR_FOLLOWER.
        """
        async with self._maintenance_lock:
            await self._local.roll()
            await self._upload_sealed()
            await self._remote.release_tail()

    async def upload_tail(self, offset: int) -> None:
        """Upload the local records from `offset` on to the tail. Raises STORAGE."""
        offset = max(offset, self._local.start_offset)
        while offset < self._local.high_watermark:
            found = await self._local.read_stored(offset, _PIECE_BYTES)
            await self._tail.put(offset, found.next_offset, [found.records])
            offset = found.next_offset

    async def close(self) -> None:
        """Store appended records, release all waiters and close the files."""
        self._closing.set()
        await self._local.close()

    async def remove(self) -> None:
        """Close the log and delete its local files."""
        self._closing.set()
        await self._local.remove()

    async def _forget_expired(self, policy: RetentionPolicy, now_ms: int) -> None:
        """Delete expired local segments: those that were deleted remotely, or never uploaded."""
        if self._remote.manifest.segments:
            end = self._remote.manifest.start_offset
        else:
            segments = self._local.segments
            sizes = [(segment.timestamp_ms, segment.size) for segment in segments[:-1]]
            count = expired_segments(sizes, segments[-1].size, policy, now_ms)
            end = segments[count - 1].end_offset if count else 0
        await self._forget_local(min(end, self.keep_from()))

    async def _forget_local(self, end: int) -> None:
        """Delete local segments that end at `end` or before. Raises STORAGE unless the object store is the right one.

        It has the only other copy of most of them.
        """
        if any(segment.end_offset <= end for segment in self._local.segments[:-1]):
            await self._remote.confirm_store()
            removed = self._local.forget(end)
            _logger.info(
                "local log segments deleted by retention",
                extra=file_deletion_fields([(segment.path, segment.size) for segment in removed]),
            )

    async def _upload_sealed(self) -> None:
        for segment in list(self._local.segments[:-1]):
            if segment.base_offset >= self._remote.manifest.uploaded_end:
                await self._remote.upload(segment, self._read_format, await self._writers_after(segment))
        await self._tail.drop(self._remote.manifest.uploaded_end)

    async def _merge_tail(self) -> None:
        """Merge small objects of the tail: another leader reads all of them before it serves the log.

        Only those within the active segment: once a sealed segment is uploaded, the tail is searched from its end on,
        and an object that begins before would not be found.
        """
        start, end = self._local.segments[-1].base_offset, self._local.high_watermark
        for run in self._tail.runs(self._remote.manifest.uploaded_end, start, end):
            size, body, offset = self._tail.size_of(run), bytearray(), run[0].start
            while offset < run[-1].end:
                found = await self._local.read_stored(offset, size - len(body))
                body += found.records
                offset = found.next_offset
            if (len(body), offset) != (size, run[-1].end):
                raise FlussError(
                    ErrorCode.LOG_STORAGE, f"tail does not match the log. from={run[0].start} to={run[-1].end}"
                )
            await self._tail.merge(run, bytes(body), self._remote.check_leader)

    async def _writers_after(self, segment: Segment) -> bytes:
        sealed = [each for each in self._local.segments if each.end_offset <= segment.end_offset]
        found = await asyncio.to_thread(writers_at, self._local.folder, segment.end_offset, sealed)
        return found.document()

    async def _replicate(self, start: int, end: int, batches: Sequence[LogBuffer]) -> None:
        """Upload a group before it is acknowledged. Appends wait while the object store is unavailable."""
        # Warn while waiting, not only on failure: the object store client retries for long.
        message = "appends wait for the object store. from=%d to=%d"
        warning = asyncio.get_running_loop().call_later(_SLOW_SECONDS, _logger.warning, message, start, end)
        try:
            await self._retry(lambda: self._tail.put(start, end, batches))
            # The next leader finds only uploads from before its lease. Check in the metadata store that this was one:
            # clocks differ, and processes are paused.
            await self._retry(self._remote.check_leader)
        finally:
            warning.cancel()

    async def _retry(self, work: Callable[[], Awaitable[None]]) -> None:
        """Repeat `work` while a store is unavailable.

        Raises STORAGE once the log is closing, NOT_LEADER_OR_FOLLOWER.
        """
        pause = _FIRST_PAUSE_SECONDS
        while True:
            try:
                return await work()
            except FlussError as failure:
                if failure.code is not ErrorCode.STORAGE or self._closing.is_set():
                    raise
                _logger.warning("appends wait for the object store. reason=%s", failure)
            try:
                await asyncio.wait_for(self._closing.wait(), pause)
            except TimeoutError:
                pause = min(2 * pause, _LONGEST_PAUSE_SECONDS)
