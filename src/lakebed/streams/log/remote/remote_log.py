"""The part of a log that is in the byte store: sealed segments, written once, listed in a manifest that is swapped.

A segment is there in the form in which it is read, because clients may read it without asking us; every batch is
looked at on its way, so that damage on a disk does not spread. Names of segments and manifests are never used twice:
who lost the place of the home may write what it likes, nothing will refer to it (`log_rows`).
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
from lakebed.streams.seam import Fetched, RemoteSegment, TableBucket

from ..local.segment import Segment, whole_part
from ..local.sparse_index import INDEX_BYTES, SparseIndex
from ..reading.read_format import AS_STORED, ReadFormat
from .log_rows import Fence, LogRow, LogRows
from .manifest import LogLocation, Manifest

__all__ = ["RemoteLog", "RemoteLogs", "RemoteSettings"]

_logger = logging.getLogger(__name__)
_PIECE_BYTES: Final = 4 * 1024 * 1024
_KEPT_INDEXES: Final = 8
WRITERS_SUFFIX: Final = "writer_snapshot"


class _Form(NamedTuple):
    """A form in which a segment is in the byte store."""

    suffix: str
    index_suffix: str


_READ: Final = _Form("log", "index")
_STORED: Final = _Form("stored", "stored_index")
"""For who follows what it wrote itself, where that is not the form that is read."""

_SUFFIXES: Final = (*_READ, *_STORED, WRITERS_SUFFIX)
_OURS: Final = re.compile(rf"metadata/[^/]+\.manifest|[^/]+/\d{{20}}\.({'|'.join(_SUFFIXES)})")
"""Segments and lists of them, below the folder of a log: the tail is somebody else's to look after."""


@dataclass(frozen=True, slots=True)
class RemoteSettings:
    """How logs use the byte store."""

    prefix: str = "streams"
    address: str | None = None
    """What clients put before a segment's key to read it themselves (`s3://bucket`). None: they are not told, and the
    home reads it for them."""

    writer: WriterSettings = field(default_factory=WriterSettings)


class RemoteLogs:
    """What all logs share that are in one byte store."""

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
        """Logs of which nothing is here that nothing refers to, as far as we know."""

    def key(self, name: str) -> Key:
        """The key of something by its name below the prefix."""
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
        """The same logs, whose rows are changed under another fence."""
        rows = self.rows.fenced_by(fence)
        return RemoteLogs(self.storage, self.ownership, rows, self.threads, self.new_id, self.settings, self.retrier)

    async def release_tail(self, bucket: TableBucket) -> None:
        """As `LogRows.release_tail`. Raises NOT_LEADER_OR_FOLLOWER, STORAGE."""
        with storage_failures():
            await self.rows.release_tail(bucket)

    async def open(self, location: LogLocation, manifest: str) -> RemoteLog:
        """The part of a log that is listed under `manifest`, which may be empty. Raises LOG_STORAGE, STORAGE."""
        if not manifest:
            return RemoteLog(self, location, Manifest())
        with storage_failures():
            document = await self.storage.get(Key(manifest))
        return RemoteLog(self, location, Manifest.parse(document), manifest)

    def address_of(self, key: str) -> str:
        """Where clients find what has this key, if they can; its key otherwise."""
        return key if self.settings.address is None else f"{self.settings.address}/{key}"

    async def ends(self, table_id: int, partition_id: int | None) -> list[tuple[TableBucket, str, int]]:
        """Of each bucket with something here: the manifest's key, and the offset after the last that was copied."""
        found = []
        for number, manifest in await self.rows.manifests(table_id, partition_id):
            with storage_failures():
                document = await self.storage.get(Key(manifest))
            found.append((TableBucket(table_id, partition_id, number), manifest, Manifest.parse(document).copied_end))
        return found

    async def remove(self, table_id: int, partition_id: int | None) -> None:
        """Remove all that is here of a table, or of one of its partitions. Idempotent. Raises STORAGE."""
        with storage_failures():
            for folder in await self.rows.folders(table_id, partition_id):
                found = [head async for head in self.storage.list_prefix(f"{folder}/")]
                await self.delete_listed(found, "remote log of a dropped table deleted")
            await self.rows.remove(table_id, partition_id)

    async def delete_listed(self, found: Sequence[ObjectHead], event: str) -> None:
        """Remove objects that a listing found, as `ownership.delete_listed`."""
        await delete_listed(self.storage, self.ownership, found, _logger, event)

    async def delete(self, keys: Sequence[Key]) -> None:
        """Remove objects that this server's metadata names, if the store is the one that they were written to."""
        if keys:
            await self.ownership.confirm()
            await self.storage.delete_many(keys)


class RemoteLog:
    """One log's segments in the byte store. One task at a time changes it."""

    def __init__(self, logs: RemoteLogs, location: LogLocation, manifest: Manifest, manifest_key: str = "") -> None:
        self._logs = logs
        self._location = location
        self._manifest = manifest
        self._manifest_key = manifest_key
        self._indexes: OrderedDict[tuple[str, _Form], tuple[SparseIndex, int]] = OrderedDict()
        self._stored_from = 0

    @property
    def manifest(self) -> Manifest:
        """What there is."""
        return self._manifest

    @property
    def manifest_key(self) -> str:
        """Where that is listed; nowhere yet, if it is empty."""
        return self._manifest_key

    @property
    def directory(self) -> str | None:
        """Where clients find the segments themselves, if they may."""
        if self._logs.settings.address is None:
            return None
        return self._logs.address_of(self._logs.key(self._location.folder))

    async def upload(self, segment: Segment, read_format: ReadFormat, writers: bytes) -> None:
        """Copy a sealed segment, and list it. `writers` is who had written what at its end.

        Raises LOG_STORAGE if a batch of it is damaged, STORAGE, NOT_LEADER_OR_FOLLOWER.
        """
        name = self._logs.new_id()
        sent = RemoteSegment(name, segment.base_offset, segment.end_offset, 0, segment.timestamp_ms)
        try:
            segment.hold()
        except OSError as error:
            raise FlussError(ErrorCode.LOG_STORAGE, f"a segment cannot be read. reason={error}") from error
        with self._leaving_nothing():
            try:
                with storage_failures():
                    if read_format.renders:
                        await self._copy(segment, sent, _STORED, AS_STORED)
                    size = await self._copy(segment, sent, _READ, read_format)
                    await self._put(self._location.segment(sent, WRITERS_SUFFIX), writers)
            finally:
                segment.let_go()
            await self._publish(self._manifest.followed_by(replace(sent, size_bytes=size)))

    async def _copy(self, segment: Segment, sent: RemoteSegment, form: _Form, read_format: ReadFormat) -> int:
        """Write a segment in one form, and its index; how large it is."""
        index = SparseIndex()
        position = 0
        key = self._logs.key(self._location.segment(sent, form.suffix))
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
        await self._put(self._location.segment(sent, form.index_suffix), index.document(position))
        self._keep(sent.segment_id, form, index, position)
        return position

    async def drop_stored(self, offset: int) -> None:
        """Remove what is here in the form in which it was appended, of segments that end at `offset` or before."""
        gone = [it for it in self._manifest.segments if self._stored_from < it.end_offset <= offset]
        if gone:
            names = [
                self._location.segment(it, suffix) for it in gone for suffix in (_STORED.suffix, _STORED.index_suffix)
            ]
            with storage_failures():
                await self._logs.delete([self._logs.key(name) for name in names])
            self._stored_from = gone[-1].end_offset

    async def trim(self, count: int) -> None:
        """Remove the first segments: from the list, then from the byte store.

        Raises STORAGE, NOT_LEADER_OR_FOLLOWER.
        """
        gone = self._manifest.segments[:count]
        if not gone:
            return
        with self._leaving_nothing():
            await self._publish(self._manifest.without(count))
            for segment in gone:
                for form in (_READ, _STORED):
                    self._indexes.pop((segment.segment_id, form), None)
                names = [self._location.segment(segment, suffix) for suffix in _SUFFIXES]
                with storage_failures():
                    await self._logs.delete([self._logs.key(name) for name in names])
            _logger.info(
                "remote log segments deleted by retention",
                extra={
                    "count": len(gone),
                    "bytes": sum(segment.size_bytes for segment in gone),
                    "first_keys": [self._logs.key(self._location.segment(segment)) for segment in gone[:FIRST_KEYS]],
                },
            )

    @contextmanager
    def _leaving_nothing(self) -> Iterator[None]:
        """Should what is done now fail, something may be left for `sweep`."""
        was_swept = self._location.bucket in self._logs.swept
        self._logs.swept.discard(self._location.bucket)
        yield
        if was_swept:
            self._logs.swept.add(self._location.bucket)

    async def sweep(self) -> None:
        """Remove what nothing refers to: of copies that a crash ended, and what could not be removed when it was to be.

        Raises STORAGE, NOT_LEADER_OR_FOLLOWER.
        """
        if self._location.bucket in self._logs.swept:
            return
        folder = self._logs.key(self._location.folder)
        with storage_failures():
            # In this order: whoever becomes the home after we have been found to be it has sent nothing yet that was
            # found. Names are never used twice.
            found = [head async for head in self._logs.storage.list_prefix(f"{folder}/")]
            if await self._logs.rows.manifest(self._location.bucket) != self._manifest_key:
                return  # the last list was published though we were told that it was not: it is again, with the next
            needed = {
                self._logs.key(self._location.segment(it, end)) for it in self._manifest.segments for end in _SUFFIXES
            }
            needed.add(Key(self._manifest_key))
            ours = [head for head in found if _OURS.fullmatch(head.key.removeprefix(f"{folder}/"))]
            orphans = [head for head in ours if head.key not in needed]
            await self._logs.delete_listed(orphans, "orphan remote log segments deleted")
        self._logs.swept.add(self._location.bucket)

    async def read(self, offset: int, max_bytes: int) -> Fetched:
        """Batches from the one with `offset` on, of one segment, as they are read."""
        return await self._read(offset, max_bytes, _READ)

    async def read_stored(self, offset: int, max_bytes: int) -> Fetched:
        """The same as they were appended, where that is another form."""
        return await self._read(offset, max_bytes, _STORED)

    async def _read(self, offset: int, max_bytes: int, form: _Form) -> Fetched:
        found = self._manifest.find(offset)
        if not found:
            raise FlussError(ErrorCode.LOG_OFFSET_OUT_OF_RANGE, f"offset is not in the byte store. offset={offset}")
        segment = found[0]
        index, size = await self._index(segment, form)
        start = index.before(offset)
        # The index knows a batch every few kilobytes: what lies before the one that is meant is read and dropped.
        wanted = max(max_bytes, HEADER_BYTES) + INDEX_BYTES
        while True:
            body = await self._range(segment, form, start, min(start + wanted, size))
            first, end, after = _cut(body, offset, max_bytes)
            if end > first:
                return Fetched(body[first:end], after)
            if start + len(body) >= size:
                raise FlussError(
                    ErrorCode.LOG_STORAGE, f"a segment in the byte store is cut off. segment={segment.segment_id}"
                )
            # The batch that is meant begins too late in what was read, or is larger than that.
            start += first
            head = body[first : first + HEADER_BYTES]
            wanted = max(read_position(head).size if len(head) == HEADER_BYTES else 0, wanted)

    async def locate(self, offset: int) -> Fetched:
        """Where clients find `offset` themselves."""
        found = self._manifest.find(offset)
        start = (await self._index(found[0], _READ))[0].before(offset) if found else 0
        return Fetched(b"", offset, found, start, self.directory or "")

    async def find_time(self, timestamp_ms: int) -> int | None:
        """The offset of the first batch here that was committed then or later; None if there is none."""
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
        """Return if the object store is the one that this log was copied to. Raises STORAGE."""
        with storage_failures():
            await self._logs.ownership.confirm()

    async def check_leads(self) -> None:
        """Return if this server leads. Raises NOT_LEADER_OR_FOLLOWER, STORAGE."""
        with storage_failures():
            await self._logs.rows.check()

    async def release_tail(self) -> None:
        """All that was acknowledged is here. Raises NOT_LEADER_OR_FOLLOWER, STORAGE."""
        await self._logs.release_tail(self._location.bucket)

    async def writers(self) -> bytes:
        """Who had written what at the end of the last segment."""
        if not self._manifest.segments:
            return b""
        name = self._location.segment(self._manifest.segments[-1], WRITERS_SUFFIX)
        with storage_failures():
            return await self._logs.storage.get(self._logs.key(name))

    async def _publish(self, manifest: Manifest) -> None:
        name = f"{self._location.folder}/metadata/{self._logs.new_id()}.manifest"
        with storage_failures():
            await self._put(name, manifest.document(self._location))
            await self._logs.rows.publish(self._location.bucket, self._logs.key(name), manifest.copied_end)
        former, self._manifest_key = self._manifest_key, self._logs.key(name)
        self._manifest = manifest
        if former:
            try:
                await self._logs.delete([Key(former)])
            except LakebedError as error:
                _logger.warning("a former manifest stays behind. key=%s reason=%s", former, error)

    async def _index(self, segment: RemoteSegment, form: _Form) -> tuple[SparseIndex, int]:
        found = self._indexes.get((segment.segment_id, form))
        if found is None:
            with storage_failures():
                key = self._logs.key(self._location.segment(segment, form.index_suffix))
                document = await self._logs.storage.get(key)
            try:
                found = SparseIndex.parse_sized(document)
            except ValueError as error:
                raise FlussError(
                    ErrorCode.LOG_STORAGE, f"index of a segment is damaged. segment={segment.segment_id} reason={error}"
                ) from error
            self._keep(segment.segment_id, form, *found)
        return found

    def _keep(self, name: str, form: _Form, index: SparseIndex, size: int) -> None:
        self._indexes[name, form] = index, size
        while len(self._indexes) > _KEPT_INDEXES:
            self._indexes.popitem(last=False)

    async def _range(self, segment: RemoteSegment, form: _Form, start: int, end: int) -> bytes:
        with storage_failures():
            key = self._logs.key(self._location.segment(segment, form.suffix))
            return await self._logs.storage.get_range(key, start, end)

    async def _put(self, name: str, body: bytes) -> None:
        await self._logs.retrier.run(lambda _: self._logs.storage.put(self._logs.key(name), body))

    async def _piece(self, segment: Segment, offset: int, read_format: ReadFormat) -> tuple[bytes, int]:
        loop = asyncio.get_running_loop()
        return await loop.run_in_executor(self._logs.threads, _checked_piece, segment, offset, read_format)


def _checked_piece(segment: Segment, offset: int, read_format: ReadFormat) -> tuple[bytes, int]:
    """In a thread: the next batches of a segment as they are read, each found whole; and the offset after them."""
    span = segment.span(offset, _PIECE_BYTES)
    body = segment.read(span)
    size, after = whole_part(body, offset, segment.path)
    body = body[:size]
    return (read_format.convert(body, None) if read_format.needs_conversion(None) else body), after


def _cut(body: bytes, offset: int, max_bytes: int) -> tuple[int, int, int]:
    """Where the batch with `offset` begins, where the last whole one within `max_bytes` ends, and the offset after."""
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
    """What the stores say as a failure of streams; their own reasons stay in the words."""
    try:
        yield
    except FlussError:
        raise
    except Fenced as error:
        raise FlussError(
            ErrorCode.NOT_LEADER_OR_FOLLOWER, f"this server may not change the log any more. reason={error}"
        ) from error
    except NotFound as error:
        raise FlussError(ErrorCode.LOG_STORAGE, f"a part of a log is not in the byte store. reason={error}") from error
    except LakebedError as error:
        raise FlussError(ErrorCode.STORAGE, f"the byte store cannot be used now. reason={error}") from error
