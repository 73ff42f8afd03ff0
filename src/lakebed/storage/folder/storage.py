"""The object store in a local folder, which survives crashes and may be shared by processes (ADR 2).

`objects` and `uploads` do the blocking work; this module runs them in its own threads, and opens files for callers that
let the kernel move the bytes.
"""

from __future__ import annotations

import asyncio
import os
import threading
from collections.abc import AsyncIterator, Callable, Sequence
from concurrent.futures import ThreadPoolExecutor
from contextlib import suppress
from itertools import islice
from pathlib import Path
from random import Random, SystemRandom
from typing import Final, ParamSpec, TypeVar

from lakebed.core.clock import Clock
from lakebed.core.errors import StorageFull, Unavailable

from ..keys import check_key, check_metadata, encode_text
from ..ranges import resolve_range, resolve_stream
from ..seam import (
    MIN_PART_BYTES,
    ByteSource,
    IfAbsent,
    IfMatch,
    Key,
    Metadata,
    ObjectHead,
    ObjectVersion,
    OpenUpload,
    PartReceipt,
    WriteCondition,
)
from .files import NewFile, storage_error, storage_errors
from .objects import FolderObjects
from .uploads import FolderUploads

__all__ = ["FolderStorage"]

P = ParamSpec("P")
T = TypeVar("T")

RESERVE_BYTES: Final = 64 * 1024 * 1024
"""Space that is kept free, or a quarter of a small disk: the metadata store on the same disk may need it while objects
are deleted."""

DIRECT_BYTES: Final = 4 * 1024 * 1024
"""Files of at least this size are written with direct I/O: it takes a third of the kernel time, but a read soon after
goes to the disk. Smaller files are read soon more often, and gain less."""

_PAGE_KEYS: Final = 1000
_PIECE_BYTES: Final = 1024 * 1024


class FolderStorage:
    """Objects in a folder: an ObjectStorage, and FileBacked.

    Several processes may use one folder. Cancelling a call does not stop its thread: the write may still happen, as
    with a remote store.
    """

    def __init__(
        self,
        root: Path,
        clock: Clock,
        *,
        random: Random | None = None,
        threads: int = 8,
        min_part_bytes: int = MIN_PART_BYTES,
    ) -> None:
        """Open or create the folder. Blocks. Raises InvalidSetting if it cannot provide the guarantees."""
        self._objects = FolderObjects(root, clock, SystemRandom() if random is None else random)
        self._uploads = FolderUploads(self._objects, clock, min_part_bytes)
        self._threads = ThreadPoolExecutor(threads, thread_name_prefix="lakebed-folder")

    async def put(self, key: Key, body: ByteSource, *, metadata: Metadata | None = None) -> ObjectVersion:
        """Write an object. Two syncs; two more with metadata."""
        return await self._put(key, body, metadata, None)

    async def put_if_absent(self, key: Key, body: ByteSource, *, metadata: Metadata | None = None) -> ObjectVersion:
        """Create `key`. Raises AlreadyExists."""
        return await self._put(key, body, metadata, IfAbsent())

    async def put_if_match(
        self, key: Key, body: ByteSource, etag: str, *, metadata: Metadata | None = None
    ) -> ObjectVersion:
        """Replace `key` if it still has `etag`. Raises PreconditionFailed."""
        return await self._put(key, body, metadata, IfMatch(etag))

    async def start_multipart(self, key: Key, *, metadata: Metadata | None = None) -> _FolderUpload:
        """Create a multipart upload."""
        check_key(key)
        upload_id = await self._run(self._uploads.start, key, check_metadata(metadata))
        return _FolderUpload(self, key, upload_id)

    async def list_uploads(self, prefix: str = "") -> AsyncIterator[OpenUpload]:
        """Open uploads by key and id. Reads one small file each."""
        for upload in await self._run(self._uploads.open_uploads, prefix):
            yield upload

    async def abort_upload(self, key: Key, upload_id: str) -> None:
        """Abort an upload found by `list_uploads`."""
        await self._run(self._uploads.abort, check_key(key), upload_id)

    async def get(self, key: Key) -> bytes:
        """The whole object. Raises NotFound."""
        return await self._run(self._read, check_key(key), None)

    async def get_range(self, key: Key, start: int, end: int) -> bytes:
        """Bytes from `start` to `end`, exclusive. Raises NotFound, InvalidRange."""
        return await self._run(self._read, check_key(key), (start, end))

    async def stream(self, key: Key, start: int = 0, end: int | None = None) -> AsyncIterator[bytes]:
        """A range in pieces of 1 MiB, from the version of the object at the first step."""
        reader = _PieceReader(self._objects, check_key(key), start, end)
        try:
            while piece := await self._run(reader.read):
                yield piece
        finally:
            try:
                # In a thread: a cancelled read may still run in another thread, and must end first.
                self._threads.submit(reader.close)
            except RuntimeError:
                reader.close()  # the store is closed, so no thread is reading

    async def head(self, key: Key) -> ObjectHead:
        """Size, ETag, time and metadata. Raises NotFound."""
        return await self._run(self._objects.head, check_key(key))

    async def list_prefix(self, prefix: str = "", start_after: str = "") -> AsyncIterator[ObjectHead]:
        """Objects under `prefix` after `start_after`. Sorts the names of one folder at a time."""
        found = self._objects.scan(encode_text(prefix), encode_text(start_after))

        def next_page() -> list[ObjectHead]:
            with storage_errors():
                return list(islice(found, _PAGE_KEYS))

        while page := await self._run(next_page):
            for head in page:
                yield head

    async def delete(self, key: Key) -> None:
        """Remove the object."""
        await self._run(self._objects.delete, [check_key(key)])

    async def delete_many(self, keys: Sequence[Key]) -> None:
        """Remove objects."""
        await self._run(self._objects.delete, [check_key(key) for key in keys])

    async def close(self) -> None:
        """Wait for running calls and stop the threads."""
        await asyncio.to_thread(self._threads.shutdown)

    async def sweep_temporary(self, older_than_ms: int) -> list[tuple[str, int]]:
        """Remove leftovers of crashed writers not modified for this time; those files with their sizes."""
        return await self._run(self._objects.sweep_temporary, older_than_ms)

    def check_capacity(self, size: int) -> None:
        """Raise StorageFull unless `size` bytes fit and leave the reserve free. One system call."""
        with storage_errors():
            disk = os.statvfs(self._objects.root)
        reserve = min(RESERVE_BYTES, disk.f_blocks * disk.f_frsize // 4)
        free = disk.f_bavail * disk.f_frsize
        if size + reserve > free:
            raise StorageFull(f"no space left in the folder. size={size} free={free} reserve={reserve}")

    def create_file(self, key: Key, size_hint: int | None = None) -> _FolderWriter:
        """Create a write-once object. Raises StorageFull at once if `size_hint` bytes do not fit. Blocks."""
        path = self._objects.path(check_key(key))
        self.check_capacity(size_hint or 0)
        direct = size_hint is not None and size_hint >= DIRECT_BYTES
        with storage_errors():
            return _FolderWriter(self._objects, NewFile(self._objects.temporary_path(), direct=direct), path)

    def remove_files(self, keys: Sequence[Key]) -> None:
        """Remove write-once objects, without syncs, and without removing folders that new objects will need."""
        paths = [self._objects.path(check_key(key)) for key in keys]
        with storage_errors():
            for path in paths:
                with suppress(FileNotFoundError):
                    os.unlink(path)

    def open_file(self, key: Key) -> int:
        """A read-only descriptor of the object's file. Raises NotFound."""
        return self._objects.open_object(check_key(key))

    async def _run(self, work: Callable[P, T], *args: P.args, **kwargs: P.kwargs) -> T:
        return await asyncio.get_running_loop().run_in_executor(self._threads, lambda: work(*args, **kwargs))

    async def _put(
        self, key: Key, body: ByteSource, metadata: Metadata | None, condition: WriteCondition | None
    ) -> ObjectVersion:
        return await self._run(self._objects.put, check_key(key), body, check_metadata(metadata), condition)

    def _read(self, key: bytes, wanted: tuple[int, int] | None) -> bytes:
        descriptor = self._objects.open_object(key)
        try:
            with storage_errors():
                size = os.fstat(descriptor).st_size
                first, stop = (0, size) if wanted is None else resolve_range(size, *wanted)
                return _read_fully(descriptor, first, stop - first)
        finally:
            os.close(descriptor)


class _FolderUpload:
    """A multipart upload to a FolderStorage."""

    def __init__(self, storage: FolderStorage, key: Key, upload_id: str) -> None:
        self._storage = storage
        self.key = key
        self.upload_id = upload_id

    async def upload_part(self, number: int, body: ByteSource) -> PartReceipt:
        """Store part `number`, replacing an earlier one."""
        storage = self._storage
        return await storage._run(storage._uploads.upload_part, self.upload_id, number, body)

    async def complete(self, parts: Sequence[PartReceipt], condition: WriteCondition | None = None) -> ObjectVersion:
        """Create the object from these parts. Copies every byte once, inside the kernel."""
        storage = self._storage
        return await storage._run(storage._uploads.complete, self.key.encode(), self.upload_id, parts, condition)

    async def abort(self) -> None:
        """Delete the upload and its parts."""
        await self._storage.abort_upload(self.key, self.upload_id)


class _FolderWriter:
    """A FileWriter. One thread at a time."""

    __slots__ = ("_file", "_objects", "_path")

    def __init__(self, objects: FolderObjects, file: NewFile, path: str) -> None:
        self._objects = objects
        self._file = file
        self._path = path

    def write(self, body: ByteSource) -> None:
        """Append bytes. Raises StorageFull."""
        try:
            self._file.write(body)
        except OSError as error:
            raise storage_error(error) from error

    def commit(self) -> None:
        """Sync the bytes, rename the file, sync the name. A failed commit leaves nothing, unless it is undecided."""
        try:
            with storage_errors():
                self._file.stamp(self._objects.new_stamp())
                self._file.sync_bytes()
                self._file.move(self._path)
        except BaseException:
            self._file.discard()
            raise

    def discard(self) -> None:
        """Remove what was written. Idempotent; does nothing after `commit`."""
        self._file.discard()


class _PieceReader:
    """Reads a range of one file in pieces. The first read opens the file in its thread, so that a cancelled call cannot
    leak a descriptor.
    """

    def __init__(self, objects: FolderObjects, key: bytes, start: int, end: int | None) -> None:
        self._objects = objects
        self._key = key
        self._wanted = start, end
        self._turn = threading.Lock()
        self._descriptor: int | None = None
        self._position = 0
        self._stop = 0
        self._closed = False

    def read(self) -> bytes:
        """The next piece; empty at the end. The first call raises NotFound and InvalidRange."""
        with self._turn, storage_errors():
            if self._closed:
                return b""
            if self._descriptor is None:
                self._descriptor = self._objects.open_object(self._key)
                size = os.fstat(self._descriptor).st_size
                self._position, self._stop = resolve_stream(size, *self._wanted)
            count = min(_PIECE_BYTES, self._stop - self._position)
            piece = _read_fully(self._descriptor, self._position, count)
            self._position += count
            return piece

    def close(self) -> None:
        """Close the file, after a running read."""
        with self._turn:
            self._closed = True
            if self._descriptor is not None:
                os.close(self._descriptor)
                self._descriptor = None


def _read_fully(descriptor: int, offset: int, count: int) -> bytes:
    """Exactly `count` bytes. Stored files never shrink, so fewer bytes mean damage."""
    piece = os.pread(descriptor, count, offset)
    if len(piece) == count:
        return piece
    pieces = [piece]
    missing = count - len(piece)
    while missing:  # one call reads at most 2 GiB
        piece = os.pread(descriptor, missing, offset + count - missing)
        if not piece:
            raise Unavailable(f"file was truncated. missing={missing}")
        pieces.append(piece)
        missing -= len(piece)
    return b"".join(pieces)
