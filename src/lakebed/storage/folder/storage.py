"""The byte store of a laptop: a local folder that survives crashes and is shared by processes (ADR 2).

The work is done by `folder_objects` and `folder_uploads`, which block; this module runs them in threads of its own
and hands out files to those who want the kernel to move the bytes.
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
"""Space that is not filled with objects, or a quarter of a small disk: the metadata beside us may need as much while
objects are being removed."""

DIRECT_BYTES: Final = 4 * 1024 * 1024
"""Files of at least this size are written around the page cache: it costs a third of the time in the kernel, and what
is read soon after comes from the disk. Smaller ones are more likely to be read soon, and gain less."""

_PAGE_KEYS: Final = 1000
_PIECE_BYTES: Final = 1024 * 1024


class FolderStorage:
    """Objects in a folder: an ObjectStorage, and FileBacked.

    Several processes may use one folder at the same time. Cancelling a call does not stop the thread that carries it
    out: the write may still happen, as it may across a network.
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
        """Open the folder, made if need be. Blocks. Raises InvalidSetting for one that cannot keep our promises."""
        self._objects = FolderObjects(root, clock, SystemRandom() if random is None else random)
        self._uploads = FolderUploads(self._objects, clock, min_part_bytes)
        self._threads = ThreadPoolExecutor(threads, thread_name_prefix="lakebed-folder")

    async def put(self, key: Key, body: ByteSource, *, metadata: Metadata | None = None) -> ObjectVersion:
        """Write the whole object. Two syncs; two more with metadata."""
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
        """Begin an upload in parts."""
        check_key(key)
        upload_id = await self._run(self._uploads.start, key, check_metadata(metadata))
        return _FolderUpload(self, key, upload_id)

    async def list_uploads(self, prefix: str = "") -> AsyncIterator[OpenUpload]:
        """Open uploads by key, then by id. Reads one small file each."""
        for upload in await self._run(self._uploads.open_uploads, prefix):
            yield upload

    async def abort_upload(self, key: Key, upload_id: str) -> None:
        """Abort an upload found by `list_uploads`."""
        await self._run(self._uploads.abort, check_key(key), upload_id)

    async def get(self, key: Key) -> bytes:
        """The whole object. Raises NotFound."""
        return await self._run(self._read, check_key(key), None)

    async def get_range(self, key: Key, start: int, end: int) -> bytes:
        """Bytes from `start` up to `end`. Raises NotFound, InvalidRange."""
        return await self._run(self._read, check_key(key), (start, end))

    async def stream(self, key: Key, start: int = 0, end: int | None = None) -> AsyncIterator[bytes]:
        """The same bytes in pieces of 1 MiB, all of the object as it was at the first step."""
        reader = _PieceReader(self._objects, check_key(key), start, end)
        try:
            while piece := await self._run(reader.read):
                yield piece
        finally:
            try:
                # In a thread, because a cancelled read may still be going on in another and must end first.
                self._threads.submit(reader.close)
            except RuntimeError:
                reader.close()  # the store was closed before its reader, so no thread is left that could read

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
        """Remove many."""
        await self._run(self._objects.delete, [check_key(key) for key in keys])

    async def close(self) -> None:
        """Finish what is under way and release the threads."""
        await asyncio.to_thread(self._threads.shutdown)

    async def sweep_temporary(self, older_than_ms: int) -> list[tuple[str, int]]:
        """Remove what crashed writers left and nobody has touched for so long; those files with their sizes."""
        return await self._run(self._objects.sweep_temporary, older_than_ms)

    def check_capacity(self, size: int) -> None:
        """Raise StorageFull unless so many more bytes fit and leave the reserve free. One system call."""
        with storage_errors():
            disk = os.statvfs(self._objects.root)
        reserve = min(RESERVE_BYTES, disk.f_blocks * disk.f_frsize // 4)
        free = disk.f_bavail * disk.f_frsize
        if size + reserve > free:
            raise StorageFull(f"no space left in the folder. wanted={size} free={free} reserve={reserve}")

    def create_file(self, key: Key, size_hint: int | None = None) -> _FolderWriter:
        """Begin a write-once object. Raises StorageFull at once if `size_hint` bytes may not be stored. Blocks."""
        path = self._objects.path(check_key(key))
        self.check_capacity(size_hint or 0)
        direct = size_hint is not None and size_hint >= DIRECT_BYTES
        with storage_errors():
            return _FolderWriter(self._objects, NewFile(self._objects.temporary_path(), direct=direct), path)

    def remove_files(self, keys: Sequence[Key]) -> None:
        """Remove write-once objects, without syncs and without tidying folders that the next ones will need."""
        paths = [self._objects.path(check_key(key)) for key in keys]
        with storage_errors():
            for path in paths:
                with suppress(FileNotFoundError):
                    os.unlink(path)

    def open_file(self, key: Key) -> int:
        """A read-only descriptor of the object's bytes and nothing else. Raises NotFound."""
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
    """A begun upload of a FolderStorage."""

    def __init__(self, storage: FolderStorage, key: Key, upload_id: str) -> None:
        self._storage = storage
        self._key = key
        self._upload_id = upload_id

    @property
    def key(self) -> Key:
        """Where the object will be."""
        return self._key

    @property
    def upload_id(self) -> str:
        """The store's name for this upload."""
        return self._upload_id

    async def upload_part(self, number: int, body: ByteSource) -> PartReceipt:
        """Keep part `number`, replacing what was sent under it."""
        storage = self._storage
        return await storage._run(storage._uploads.upload_part, self._upload_id, number, body)

    async def complete(self, parts: Sequence[PartReceipt], condition: WriteCondition | None = None) -> ObjectVersion:
        """Make the object of these parts. Copies every byte once, inside the kernel."""
        storage = self._storage
        return await storage._run(storage._uploads.complete, self._key.encode(), self._upload_id, parts, condition)

    async def abort(self) -> None:
        """Forget the upload and its parts."""
        await self._storage.abort_upload(self._key, self._upload_id)


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
        """Sync the bytes, name the file, sync the name. A failed commit leaves nothing, unless it is undecided."""
        try:
            with storage_errors():
                self._file.stamp(self._objects.new_stamp())
                self._file.sync_bytes()
                self._file.move(self._path)
        except BaseException:
            self._file.discard()
            raise

    def discard(self) -> None:
        """Remove what was written. Idempotent; nothing happens after `commit`."""
        self._file.discard()


class _PieceReader:
    """Reads a range of one file piece by piece. Opens it in the thread that reads first, so that no cancelled call
    can lose a descriptor.
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
        """The next piece; nothing at the end. Raises NotFound and InvalidRange when called first."""
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
        """Let the file go, once nobody reads it."""
        with self._turn:
            self._closed = True
            if self._descriptor is not None:
                os.close(self._descriptor)
                self._descriptor = None


def _read_fully(descriptor: int, offset: int, count: int) -> bytes:
    """Exactly `count` bytes: stored files never shrink, so fewer means damage."""
    piece = os.pread(descriptor, count, offset)
    if len(piece) == count:
        return piece
    pieces = [piece]
    missing = count - len(piece)
    while missing:  # over 2 GiB, which is the most one call reads
        piece = os.pread(descriptor, missing, offset + count - missing)
        if not piece:
            raise Unavailable(f"file shorter than it was. missing={missing}")
        pieces.append(piece)
        missing -= len(piece)
    return b"".join(pieces)
