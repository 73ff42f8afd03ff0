"""Atomic, durable file operations (ADR 2)."""

from __future__ import annotations

import ctypes
import errno
import logging
import os
import shutil
from collections.abc import Callable, Iterator, Sequence
from contextlib import contextmanager, suppress
from typing import Final

from lakebed.core.errors import AccessDenied, StorageFull, Unavailable

from ..seam import ByteSource
from .direct_io import DirectWriting

__all__ = [
    "NewFile",
    "file_deletion_fields",
    "list_tree",
    "make_folder",
    "remove_logged",
    "remove_tree",
    "storage_error",
    "storage_errors",
    "sync_folder",
]

_FLUSH_BYTES: Final = 8 * 1024 * 1024
"""Bytes after which writeback starts, so that the final sync has little to do."""

_SYNC_FILE_RANGE_WRITE: Final = 2

FIRST_FILES: Final = 5
"""Number of deleted files to log."""

_FULL: Final = frozenset({errno.ENOSPC, errno.EDQUOT})


def storage_error(error: OSError) -> AccessDenied | Unavailable:
    """The storage error for an OS error. Missing files are handled by the caller."""
    if error.errno in _FULL:
        return StorageFull(f"no space left in the folder. errno={error.errno}")
    if isinstance(error, PermissionError):
        return AccessDenied(f"no permission for the folder. errno={error.errno}")
    return Unavailable(f"folder is not usable. errno={error.errno} reason={error.strerror}")


@contextmanager
def storage_errors() -> Iterator[None]:
    """Convert every OSError to a storage error."""
    try:
        yield
    except OSError as error:
        raise storage_error(error) from error


def sync_folder(path: str) -> None:
    """Sync a folder, to make the names in it durable: syncing a file does not make its name durable."""
    descriptor = os.open(path, os.O_RDONLY | os.O_DIRECTORY)
    try:
        os.fsync(descriptor)
    finally:
        os.close(descriptor)


def make_folder(path: str) -> None:
    """Create a folder and its missing parents, each durable in its parent."""
    while True:
        missing: list[str] = []
        probe = path
        while not os.path.isdir(probe):
            missing.append(probe)
            probe = os.path.dirname(probe)
        try:
            for folder in reversed(missing):
                with suppress(FileExistsError):
                    os.mkdir(folder, 0o700)
                sync_folder(os.path.dirname(folder))
            return
        except FileNotFoundError:
            continue  # an empty parent was removed concurrently


def list_tree(path: str) -> list[tuple[str, int]]:
    """A file, or all files in a folder tree, with their sizes. Files removed meanwhile are skipped."""
    places = [path]
    if os.path.isdir(path):
        places = [os.path.join(folder, name) for folder, _, names in os.walk(path) for name in names]
    found = []
    for place in places:
        with suppress(FileNotFoundError):
            found.append((place, os.stat(place, follow_symlinks=False).st_size))
    return found


def file_deletion_fields(files: Sequence[tuple[str, int]]) -> dict[str, object]:
    """Log fields for deleted files, given with their sizes: count, bytes, first files."""
    return {
        "count": len(files),
        "bytes": sum(size for _, size in files),
        "first_files": [path for path, _ in files[:FIRST_FILES]],
    }


def remove_tree(path: str) -> None:
    """Remove a file or a folder tree; absent ones are ignored."""
    if os.path.isdir(path):
        shutil.rmtree(path, ignore_errors=True)
    else:
        with suppress(FileNotFoundError):
            os.unlink(path)


def remove_logged(path: str, log: logging.Logger, event: str) -> None:
    """Remove a folder tree, and log `event` with count, bytes and first files, if there were any. Blocks."""
    found = list_tree(path)
    remove_tree(path)
    if found:
        log.info(event, extra=file_deletion_fields(found))


def _find_sync_file_range() -> Callable[[int, int, int], None]:
    function = getattr(ctypes.CDLL(None, use_errno=True), "sync_file_range", None)
    if function is None:
        return lambda descriptor, offset, count: None
    function.argtypes = (ctypes.c_int, ctypes.c_int64, ctypes.c_int64, ctypes.c_uint)
    function.restype = ctypes.c_int

    def start_writeback(descriptor: int, offset: int, count: int) -> None:
        # A hint whose result is ignored: `sync` reports write errors.
        function(descriptor, offset, count, _SYNC_FILE_RANGE_WRITE)

    return start_writeback


_start_writeback = _find_sync_file_range()


class NewFile:
    """A file written under a temporary name, until `move` renames it.

    Call in the order `write`…, `stamp`, `sync`, `move`. `discard` undoes all but a `move`.
    """

    __slots__ = ("_descriptor", "_direct", "_flushed", "_path", "size")

    def __init__(self, path: str, *, direct: bool = False) -> None:
        """Create `path`, which must not exist. Raises OSError.

        With `direct`, `write` bypasses the page cache if possible.
        """
        self._descriptor = os.open(path, os.O_RDWR | os.O_CREAT | os.O_EXCL, 0o600)
        self._path: str | None = path
        self._direct = DirectWriting(self._descriptor) if direct else None
        self._flushed = 0
        self.size = 0

    def write(self, body: ByteSource) -> None:
        """Append bytes. Raises OSError."""
        if self._direct is not None:
            self._direct.write(body)
            self.size += len(body)
            return
        written = os.write(self._descriptor, body)
        self.size += written
        if written < len(body):  # over 2 GiB at once, or the disk became full: then the next write fails
            view = memoryview(body)
            while written < len(view):
                count = os.write(self._descriptor, view[written:])
                written += count
                self.size += count
        if self.size - self._flushed >= _FLUSH_BYTES:
            self._flush()

    def write_from(self, descriptor: int, count: int) -> None:
        """Append the first `count` bytes of another file inside the kernel. Raises OSError."""
        self._finish_direct()
        offset = 0
        while offset < count:
            moved = os.sendfile(self._descriptor, descriptor, offset, min(count - offset, _FLUSH_BYTES))
            if moved == 0:
                raise OSError(errno.EIO, "source file was truncated")
            offset += moved
            self.size += moved
            if self.size - self._flushed >= _FLUSH_BYTES:
                self._flush()

    def stamp(self, modified_ns: int) -> None:
        """Set the modification time, which `sync` makes durable."""
        self._finish_direct()
        os.utime(self._descriptor, ns=(modified_ns, modified_ns))

    def stat(self) -> os.stat_result:
        """The file's status."""
        return os.fstat(self._descriptor)

    def sync(self) -> None:
        """Sync bytes, size and modification time. After an error, the file can only be discarded."""
        self._finish_direct()
        os.fsync(self._descriptor)

    def sync_bytes(self) -> None:
        """Sync bytes and size; a power loss may lose the modification time."""
        self._finish_direct()
        os.fdatasync(self._descriptor)

    def move(self, path: str, *, make_missing: bool = True) -> None:
        """Rename the file to `path`, replacing an existing file, and make the name durable.

        Raises OSError if nothing happened, Unavailable with `undecided` if the name exists and may not be durable.
        """
        if self._path is None:
            raise ValueError("file was already moved or discarded")
        folder = os.path.dirname(path)
        while True:
            try:
                os.rename(self._path, path)
                break
            except FileNotFoundError:
                # The folder does not exist, or was removed with its last object. It cannot be removed once it contains
                # the new file.
                if not make_missing or not os.path.exists(self._path):
                    raise
                make_folder(folder)
        self._path = None
        self.close()
        try:
            sync_folder(folder)
        except OSError as error:
            raise Unavailable(f"file name may not be durable. errno={error.errno}", undecided=True) from error

    def discard(self) -> None:
        """Remove the file unless it was moved. Idempotent."""
        self.close()
        if self._path is not None:
            with suppress(FileNotFoundError):
                os.unlink(self._path)
            self._path = None

    def close(self) -> None:
        """Close the descriptor. Idempotent; the file remains."""
        if self._descriptor >= 0:
            os.close(self._descriptor)
            self._descriptor = -1

    def _finish_direct(self) -> None:
        """Write the buffer of direct I/O: what follows concerns the whole file and uses the page cache."""
        if self._direct is not None:
            self._direct.finish()
            self._direct = None

    def _flush(self) -> None:
        _start_writeback(self._descriptor, self._flushed, self.size - self._flushed)
        self._flushed = self.size
