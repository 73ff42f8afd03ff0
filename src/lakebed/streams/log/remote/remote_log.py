"""The remote part of a log: immutable sealed segments in the object store, listed in a manifest.

Segments are stored as clients read them, because clients can read them directly. Every batch is verified during upload,
so that disk damage does not spread. Names of segments and manifests are never reused: nothing refers to the uploads of
a previous leader (`log_rows`).
"""

from __future__ import annotations

import asyncio
import logging
import re
from collections import OrderedDict
from collections.abc import Callable, Iterator, Sequence
from concurrent.futures import Executor
from contextlib import contextmanager
from dataclasses import dataclass, field, replace
from typing import Final, NamedTuple

from lakebed.core.errors import Fenced, LakebedError, NotFound
from lakebed.fluss.errors import ErrorCode, FlussError
from lakebed.fluss.log_batches import HEADER_BYTES, iterate_batches, read_position
from lakebed.storage.backoff import Retrier
from lakebed.storage.ownership import FIRST_KEYS, Ownership, delete_listed
from lakebed.storage.seam import Key, ObjectHead, ObjectStorage
from lakebed.storage.writer import BufferedMultipartWriter, WriterSettings
from lakebed.streams.seam import FetchResult, RemoteSegment, TableBucket

from ..local.segment import Segment, valid_prefix
from ..local.sparse_index import INDEX_BYTES, SparseIndex
from ..reading.read_format import AS_STORED, ReadFormat
from .log_rows import Fence, LogRow, LogRows
from .manifest import LogLocation, Manifest

__all__ = ["RemoteLog", "RemoteLogs", "RemoteSettings"]

_logger = logging.getLogger(__name__)
_PIECE_BYTES: Final = 4 * 1024 * 1024
_CACHED_INDEXES: Final = 8
WRITERS_SUFFIX: Final = "writer_snapshot"


class _Format(NamedTuple):
    """A format of a segment in the object store, by its file suffixes."""

    suffix: str
    index_suffix: str


_READ: Final = _Format("log", "index")
_STORED: Final = _Format("stored", "stored_index")
"""As appended, if that differs: a KV index replays its log in this format."""

_SUFFIXES: Final = (*_READ, *_STORED, WRITERS_SUFFIX)
_SEGMENT_FILE: Final = re.compile(rf"metadata/[^/]+\.manifest|[^/]+/\d{{20}}\.({'|'.join(_SUFFIXES)})")
"""Segments and manifests, in the folder of a log. Other files there belong to the tail, which deletes its own."""


@dataclass(frozen=True, slots=True)
class RemoteSettings:
    """How logs use the object store."""

    prefix: str = "streams"
    address: str | None = None
    """Prepended to a segment's key for clients that read it directly (`s3://bucket`). None: the leader reads for
    them."""

    writer: WriterSettings = field(default_factory=WriterSettings)


class RemoteLogs:
    """What the remote logs of all buckets share."""

    def __init__(
        self,
        storage: ObjectStorage,
        ownership: Ownership,
        rows: LogRows,
        threads: Executor,
        new_id: Callable[[], str],
        settings: RemoteSettings | None = None,
        retrier: Retrier | None = None,
    ) -> None:
        self.storage = storage
        self.ownership = ownership
        self.rows = rows
        self.threads = threads
        self.new_id = new_id
        self.settings = RemoteSettings() if settings is None else settings
        self.retrier = Retrier() if retrier is None else retrier
        self.swept: set[TableBucket] = set()
        """Logs without known orphans."""

    def key(self, name: str) -> Key:
        """The key of a name below the prefix."""
        return Key(f"{self.settings.prefix}/{name}")

    async def claim(self, location: LogLocation, server: str) -> tuple[LogRow, int]:
        """As `LogRows.claim`. Raises LEADER_NOT_AVAILABLE, NOT_LEADER_OR_FOLLOWER, STORAGE."""
        with storage_failures():
            return await self.rows.claim(location.bucket, self.key(location.folder), server)

    async def keep_tail(self, bucket: TableBucket, server: str, uploaded_end: int, end: int) -> None:
        """As `LogRows.keep_tail`. Raises NOT_LEADER_OR_FOLLOWER, STORAGE."""
        with storage_failures():
            await self.rows.keep_tail(bucket, server, uploaded_end, end)

    def fenced_by(self, fence: Fence) -> RemoteLogs:
        """The same logs with another fence for changes of their rows."""
        rows = self.rows.fenced_by(fence)
        return RemoteLogs(self.storage, self.ownership, rows, self.threads, self.new_id, self.settings, self.retrier)

    async def release_tail(self, bucket: TableBucket) -> None:
        """As `LogRows.release_tail`. Raises NOT_LEADER_OR_FOLLOWER, STORAGE."""
        with storage_failures():
            await self.rows.release_tail(bucket)

    async def open(self, location: LogLocation, manifest: str) -> RemoteLog:
        """The remote log with this manifest; empty without a manifest. Raises LOG_STORAGE, STORAGE."""
        if not manifest:
            return RemoteLog(self, location, Manifest())
        with storage_failures():
            document = await self.storage.get(Key(manifest))
        return RemoteLog(self, location, Manifest.parse(document), manifest)

    def address_of(self, key: str) -> str:
        """The address of an object for clients; its key if clients do not read directly."""
        return key if self.settings.address is None else f"{self.settings.address}/{key}"

    async def ends(self, table_id: int, partition_id: int | None) -> list[tuple[TableBucket, str, int]]:
        """For each bucket with a manifest: the manifest's key, and the end of the uploaded records."""
        found = []
        for number, manifest in await self.rows.manifests(table_id, partition_id):
            with storage_failures():
                document = await self.storage.get(Key(manifest))
            found.append((TableBucket(table_id, partition_id, number), manifest, Manifest.parse(document).uploaded_end))
        return found

    async def remove(self, table_id: int, partition_id: int | None) -> None:
        """Remove all objects of a table or partition. Idempotent. Raises STORAGE."""
        with storage_failures():
            for folder in await self.rows.folders(table_id, partition_id):
                found = [head async for head in self.storage.list_prefix(f"{folder}/")]
                await self.delete_listed(found, "remote log of a dropped table deleted")
            await self.rows.remove(table_id, partition_id)

    async def delete_listed(self, found: Sequence[ObjectHead], event: str) -> None:
        """Delete listed objects, as `ownership.delete_listed`."""
        await delete_listed(self.storage, self.ownership, found, _logger, event)

    async def delete(self, keys: Sequence[Key]) -> None:
        """Delete objects by key, if this is the store that they were written to."""
        if keys:
            await self.ownership.confirm()
            await self.storage.delete_many(keys)


class RemoteLog:
    """The segments of one log in the object store. Only one task at a time may change it."""

    def __init__(self, logs: RemoteLogs, location: LogLocation, manifest: Manifest, manifest_key: str = "") -> None:
        self._logs = logs
        self._location = location
        self._manifest = manifest
        self._manifest_key = manifest_key
        self._indexes: OrderedDict[tuple[str, _Format], tuple[SparseIndex, int]] = OrderedDict()
        self._stored_from = 0

    @property
    def manifest(self) -> Manifest:
        """The current manifest."""
        return self._manifest

    @property
    def manifest_key(self) -> str:
        """The key of the manifest; empty if there is none."""
        return self._manifest_key

    @property
    def directory(self) -> str | None:
        """The folder of segments as clients address it; None if they do not read directly."""
        if self._logs.settings.address is None:
            return None
        return self._logs.address_of(self._logs.key(self._location.folder))

    async def upload(self, segment: Segment, read_format: ReadFormat, writers: bytes) -> None:
        """Upload a sealed segment and publish it. `writers` is the writer state at its end.

        Raises LOG_STORAGE if a batch is damaged, STORAGE, NOT_LEADER_OR_FOLLOWER.
        """
        name = self._logs.new_id()
        sent = RemoteSegment(name, segment.base_offset, segment.end_offset, 0, segment.timestamp_ms)
        try:
            segment.acquire()
        except OSError as error:
            raise FlussError(ErrorCode.LOG_STORAGE, f"segment cannot be read. reason={error}") from error
        with self._tracking_orphans():
            try:
                with storage_failures():
                    if read_format.renders:
                        await self._upload_as(segment, sent, _STORED, AS_STORED)
                    size = await self._upload_as(segment, sent, _READ, read_format)
                    await self._put(self._location.segment(sent, WRITERS_SUFFIX), writers)
            finally:
                segment.release()
            await self._publish(self._manifest.followed_by(replace(sent, size_bytes=size)))

    async def _upload_as(self, segment: Segment, sent: RemoteSegment, format_: _Format, read_format: ReadFormat) -> int:
        """Upload a segment in one format, with its index. Returns its size."""
        index = SparseIndex()
        position = 0
        key = self._logs.key(self._location.segment(sent, format_.suffix))
        async with BufferedMultipartWriter(
            self._logs.storage, key, settings=self._logs.settings.writer, retrier=self._logs.retrier
        ) as writer:
            offset = segment.base_offset
            while offset < segment.end_offset:
                body, offset = await self._piece(segment, offset, read_format)
                for batch in iterate_batches(body):
                    index.add(batch.base_offset, position, batch.timestamp_ms)
                    position += len(batch.view)
                await writer.write(body)
            await writer.finish()
        await self._put(self._location.segment(sent, format_.index_suffix), index.document(position))
        self._cache_index(sent.segment_id, format_, index, position)
        return position

    async def drop_stored(self, offset: int) -> None:
        """Delete the stored format of segments that end at `offset` or before."""
        obsolete = [it for it in self._manifest.segments if self._stored_from < it.end_offset <= offset]
        if obsolete:
            names = [
                self._location.segment(it, suffix)
                for it in obsolete
                for suffix in (_STORED.suffix, _STORED.index_suffix)
            ]
            with storage_failures():
                await self._logs.delete([self._logs.key(name) for name in names])
            self._stored_from = obsolete[-1].end_offset

    async def trim(self, count: int) -> None:
        """Remove the first `count` segments: from the manifest, then from the object store.

        Raises STORAGE, NOT_LEADER_OR_FOLLOWER.
        """
        expired = self._manifest.segments[:count]
        if not expired:
            return
        with self._tracking_orphans():
            await self._publish(self._manifest.without(count))
            for segment in expired:
                for format_ in (_READ, _STORED):
                    self._indexes.pop((segment.segment_id, format_), None)
                names = [self._location.segment(segment, suffix) for suffix in _SUFFIXES]
                with storage_failures():
                    await self._logs.delete([self._logs.key(name) for name in names])
            _logger.info(
                "remote log segments deleted by retention",
                extra={
                    "count": len(expired),
                    "bytes": sum(segment.size_bytes for segment in expired),
                    "first_keys": [self._logs.key(self._location.segment(segment)) for segment in expired[:FIRST_KEYS]],
                },
            )

    @contextmanager
    def _tracking_orphans(self) -> Iterator[None]:
        """Mark the log for `sweep` if the operation fails: it may leave orphans."""
        was_swept = self._location.bucket in self._logs.swept
        self._logs.swept.discard(self._location.bucket)
        yield
        if was_swept:
            self._logs.swept.add(self._location.bucket)

    async def sweep(self) -> None:
        """Delete objects that nothing refers to: remains of interrupted uploads and failed deletions.

        Raises STORAGE, NOT_LEADER_OR_FOLLOWER.
        """
        if self._location.bucket in self._logs.swept:
            return
        folder = self._logs.key(self._location.folder)
        with storage_failures():
            # List first: a server that begins to lead after the check below has uploaded nothing that was listed,
            # since names are never reused.
            found = [head async for head in self._logs.storage.list_prefix(f"{folder}/")]
            if await self._logs.rows.manifest(self._location.bucket) != self._manifest_key:
                return  # the last manifest was published despite an error; the next publication resolves it
            needed = {
                self._logs.key(self._location.segment(it, end)) for it in self._manifest.segments for end in _SUFFIXES
            }
            needed.add(Key(self._manifest_key))
            segments = [head for head in found if _SEGMENT_FILE.fullmatch(head.key.removeprefix(f"{folder}/"))]
            orphans = [head for head in segments if head.key not in needed]
            await self._logs.delete_listed(orphans, "orphan remote log segments deleted")
        self._logs.swept.add(self._location.bucket)

    async def read(self, offset: int, max_bytes: int) -> FetchResult:
        """Read batches of one segment, from the one that contains `offset`."""
        return await self._read(offset, max_bytes, _READ)

    async def read_stored(self, offset: int, max_bytes: int) -> FetchResult:
        """Read batches as appended, if they are stored in that format too."""
        return await self._read(offset, max_bytes, _STORED)

    async def _read(self, offset: int, max_bytes: int, format_: _Format) -> FetchResult:
        found = self._manifest.find(offset)
        if not found:
            raise FlussError(ErrorCode.LOG_OFFSET_OUT_OF_RANGE, f"offset is not in remote segments. offset={offset}")
        segment = found[0]
        index, size = await self._index(segment, format_)
        start = index.before(offset)
        # The index is sparse: batches before the requested one are read and dropped.
        wanted = max(max_bytes, HEADER_BYTES) + INDEX_BYTES
        while True:
            body = await self._range(segment, format_, start, min(start + wanted, size))
            first, end, after = _cut(body, offset, max_bytes)
            if end > first:
                return FetchResult(body[first:end], after)
            if start + len(body) >= size:
                raise FlussError(ErrorCode.LOG_STORAGE, f"remote segment is truncated. segment={segment.segment_id}")
            # The requested batch begins too late in the range, or is larger than the range.
            start += first
            head = body[first : first + HEADER_BYTES]
            wanted = max(read_position(head).size if len(head) == HEADER_BYTES else 0, wanted)

    async def locate(self, offset: int) -> FetchResult:
        """The remote segments from `offset` on."""
        found = self._manifest.find(offset)
        start = (await self._index(found[0], _READ))[0].before(offset) if found else 0
        return FetchResult(b"", offset, found, start, self.directory or "")

    async def find_time(self, timestamp_ms: int) -> int | None:
        """The offset of the first remote batch committed at this time or later; None if there is none."""
        for segment in self._manifest.segments:
            if segment.max_timestamp_ms >= timestamp_ms:
                index, size = await self._index(segment, _READ)
                position = index.before_time(timestamp_ms)
                while position < size:
                    head = await self._range(segment, _READ, position, min(position + HEADER_BYTES, size))
                    location = read_position(head)
                    if location.timestamp_ms >= timestamp_ms:
                        return location.base_offset
                    position += location.size
        return None

    async def confirm_store(self) -> None:
        """Return if the object store is the one that this log was uploaded to. Raises STORAGE."""
        with storage_failures():
            await self._logs.ownership.confirm()

    async def check_leader(self) -> None:
        """Return if this server leads. Raises NOT_LEADER_OR_FOLLOWER, STORAGE."""
        with storage_failures():
            await self._logs.rows.check()

    async def release_tail(self) -> None:
        """Record that all acknowledged records are uploaded. Raises NOT_LEADER_OR_FOLLOWER, STORAGE."""
        await self._logs.release_tail(self._location.bucket)

    async def writers(self) -> bytes:
        """The writer state at the end of the last segment."""
        if not self._manifest.segments:
            return b""
        name = self._location.segment(self._manifest.segments[-1], WRITERS_SUFFIX)
        with storage_failures():
            return await self._logs.storage.get(self._logs.key(name))

    async def _publish(self, manifest: Manifest) -> None:
        name = f"{self._location.folder}/metadata/{self._logs.new_id()}.manifest"
        with storage_failures():
            await self._put(name, manifest.document(self._location))
            await self._logs.rows.publish(self._location.bucket, self._logs.key(name), manifest.uploaded_end)
        previous, self._manifest_key = self._manifest_key, self._logs.key(name)
        self._manifest = manifest
        if previous:
            try:
                await self._logs.delete([Key(previous)])
            except LakebedError as error:
                _logger.warning("deleting a replaced manifest failed. key=%s reason=%s", previous, error)

    async def _index(self, segment: RemoteSegment, format_: _Format) -> tuple[SparseIndex, int]:
        found = self._indexes.get((segment.segment_id, format_))
        if found is None:
            with storage_failures():
                key = self._logs.key(self._location.segment(segment, format_.index_suffix))
                document = await self._logs.storage.get(key)
            try:
                found = SparseIndex.parse_sized(document)
            except ValueError as error:
                raise FlussError(
                    ErrorCode.LOG_STORAGE, f"segment index is damaged. segment={segment.segment_id} reason={error}"
                ) from error
            self._cache_index(segment.segment_id, format_, *found)
        return found

    def _cache_index(self, name: str, format_: _Format, index: SparseIndex, size: int) -> None:
        self._indexes[name, format_] = index, size
        while len(self._indexes) > _CACHED_INDEXES:
            self._indexes.popitem(last=False)

    async def _range(self, segment: RemoteSegment, format_: _Format, start: int, end: int) -> bytes:
        with storage_failures():
            key = self._logs.key(self._location.segment(segment, format_.suffix))
            return await self._logs.storage.get_range(key, start, end)

    async def _put(self, name: str, body: bytes) -> None:
        await self._logs.retrier.run(lambda _: self._logs.storage.put(self._logs.key(name), body))

    async def _piece(self, segment: Segment, offset: int, read_format: ReadFormat) -> tuple[bytes, int]:
        loop = asyncio.get_running_loop()
        return await loop.run_in_executor(self._logs.threads, _checked_piece, segment, offset, read_format)


def _checked_piece(segment: Segment, offset: int, read_format: ReadFormat) -> tuple[bytes, int]:
    """In a thread: the next batches of a segment in read format, verified; and the offset after them."""
    span = segment.span(offset, _PIECE_BYTES)
    body = segment.read(span)
    size, after = valid_prefix(body, offset, segment.path)
    body = body[:size]
    return (read_format.convert(body, None) if read_format.needs_conversion(None) else body), after


def _cut(body: bytes, offset: int, max_bytes: int) -> tuple[int, int, int]:
    """The start of the batch with `offset`, the end of the last whole one within `max_bytes`, the offset after it."""
    first = position = 0
    after = offset
    found = False
    while position + HEADER_BYTES <= len(body):
        location = read_position(body[position : position + HEADER_BYTES])
        end = position + location.size
        if not found:
            if location.next_offset <= offset:
                position = first = end
                continue
            found, first = True, position
            if end > len(body):
                return first, first, offset
        elif end > len(body) or end - first > max_bytes:
            break
        position, after = end, location.next_offset
    return (first, position, after) if found else (first, first, offset)


@contextmanager
def storage_failures() -> Iterator[None]:
    """Convert errors of the object store and the metadata store to FlussError."""
    try:
        yield
    except FlussError:
        raise
    except Fenced as error:
        raise FlussError(
            ErrorCode.NOT_LEADER_OR_FOLLOWER, f"this server cannot change the log any more. reason={error}"
        ) from error
    except NotFound as error:
        raise FlussError(ErrorCode.LOG_STORAGE, f"remote log object is missing. reason={error}") from error
    except LakebedError as error:
        raise FlussError(ErrorCode.STORAGE, f"object store is unavailable. reason={error}") from error
