"""Files that appear whole or not at all, and stay once they were said to be there (ADR 2)."""

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
"""How much is written before the kernel is asked to start writing it out, so that the final sync has little to do."""

_SYNC_FILE_RANGE_WRITE: Final = 2

FIRST_FILES: Final = 5
"""So many of the deleted files are in the log."""

_FULL: Final = frozenset({errno.ENOSPC, errno.EDQUOT})


def storage_error(error: OSError) -> AccessDenied | Unavailable:
    """What the operating system said as the store's error. Missing files are the caller's to explain."""
    if error.errno in _FULL:
        return StorageFull(f"no space left in the folder. errno={error.errno}")
    if isinstance(error, PermissionError):
        return AccessDenied(f"the folder may not be used. errno={error.errno}")
    return Unavailable(f"the folder cannot be used. errno={error.errno} reason={error.strerror}")


@contextmanager
def storage_errors() -> Iterator[None]:
    """Turn every OSError into the store's error."""
    try:
        yield
    except OSError as error:
        raise storage_error(error) from error


def sync_folder(path: str) -> None:
    """Make the names in a folder durable: syncing a file does not promise that its name survives."""
    descriptor = os.open(path, os.O_RDONLY | os.O_DIRECTORY)
    try:
        os.fsync(descriptor)
    finally:
        os.close(descriptor)


def make_folder(path: str) -> None:
    """Make a folder and the missing ones above it, each durable in its parent."""
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
            continue  # somebody removed one of them, empty as it was


def list_tree(path: str) -> list[tuple[str, int]]:
    """A file, or all files in a folder and below, with their sizes. What goes meanwhile is left out."""
    places = [path]
    if os.path.isdir(path):
        places = [os.path.join(folder, name) for folder, _, names in os.walk(path) for name in names]
    found = []
    for place in places:
        with suppress(FileNotFoundError):
            found.append((place, os.stat(place, follow_symlinks=False).st_size))
    return found


def file_deletion_fields(files: Sequence[tuple[str, int]]) -> dict[str, object]:
    """What the log says of files that were deleted, given with their sizes: count, bytes, first files."""
    return {
        "count": len(files),
        "bytes": sum(size for _, size in files),
        "first_files": [path for path, _ in files[:FIRST_FILES]],
    }


def remove_tree(path: str) -> None:
    """Remove a file or a folder with all in it; what is gone already is fine."""
    if os.path.isdir(path):
        shutil.rmtree(path, ignore_errors=True)
    else:
        with suppress(FileNotFoundError):
            os.unlink(path)


def remove_logged(path: str, log: logging.Logger, event: str) -> None:
    """Remove a folder with all in it. Logs `event` with count, bytes and the first files, if there were any. Blocks."""
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
        # Its result is not looked at: this is a hint, and `sync` reports what could not be written.
        function(descriptor, offset, count, _SYNC_FILE_RANGE_WRITE)

    return start_writeback


_start_writeback = _find_sync_file_range()


class NewFile:
    """A file being written under a name that nobody looks at, until `move` gives it its own.

    The order is: `write`…, `stamp`, `sync`, `move`. `discard` undoes all but a `move`.
    """

    __slots__ = ("_descriptor", "_direct", "_flushed", "_path", "size")

    def __init__(self, path: str, *, direct: bool = False) -> None:
        """Create `path`, which must not exist. Raises OSError.

        With `direct`, `write` goes around the page cache where that is possible.
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
        if written < len(body):  # over 2 GiB at once, or the disk has just become full: the next write says
            view = memoryview(body)
            while written < len(view):
                count = os.write(self._descriptor, view[written:])
                written += count
                self.size += count
        if self.size - self._flushed >= _FLUSH_BYTES:
            self._flush()

    def write_from(self, descriptor: int, count: int) -> None:
        """Append `count` bytes of another file from its start, without bringing them here. Raises OSError."""
        self._settle()
        offset = 0
        while offset < count:
            moved = os.sendfile(self._descriptor, descriptor, offset, min(count - offset, _FLUSH_BYTES))
            if moved == 0:
                raise OSError(errno.EIO, "file shorter than it was")
            offset += moved
            self.size += moved
            if self.size - self._flushed >= _FLUSH_BYTES:
                self._flush()

    def stamp(self, modified_ns: int) -> None:
        """Set the time of change, which is part of what `sync` makes durable."""
        self._settle()
        os.utime(self._descriptor, ns=(modified_ns, modified_ns))

    def stat(self) -> os.stat_result:
        """What the file system keeps of it."""
        return os.fstat(self._descriptor)

    def sync(self) -> None:
        """Put bytes, size and stamp on stable storage. After an error the file can only be discarded."""
        self._settle()
        os.fsync(self._descriptor)

    def sync_bytes(self) -> None:
        """Put bytes and size on stable storage; a stamp may be lost with the machine."""
        self._settle()
        os.fdatasync(self._descriptor)

    def move(self, path: str, *, make_missing: bool = True) -> None:
        """Give the file its own name, replacing what has it, and make the name durable.

        Raises OSError when nothing has happened, Unavailable with `undecided` when the name is there and may not last.
        """
        if self._path is None:
            raise ValueError("file was moved or discarded")
        folder = os.path.dirname(path)
        while True:
            try:
                os.rename(self._path, path)
                break
            except FileNotFoundError:
                # The folder was never made, or somebody removed it when its last object went. Once our file is in
                # it, it cannot be removed.
                if not make_missing or not os.path.exists(self._path):
                    raise
                make_folder(folder)
        self._path = None
        self.close()
        try:
            sync_folder(folder)
        except OSError as error:
            raise Unavailable(f"a new name may not be durable. errno={error.errno}", undecided=True) from error

    def discard(self) -> None:
        """Remove the file unless it was moved. Idempotent."""
        self.close()
        if self._path is not None:
            with suppress(FileNotFoundError):
                os.unlink(self._path)
            self._path = None

    def close(self) -> None:
        """Let the descriptor go. Idempotent; the file stays where it is."""
        if self._descriptor >= 0:
            os.close(self._descriptor)
            self._descriptor = -1

    def _settle(self) -> None:
        """Write what direct writing has kept back: all that follows concerns the whole file, and uses the cache."""
        if self._direct is not None:
            self._direct.finish()
            self._direct = None

    def _flush(self) -> None:
        _start_writeback(self._descriptor, self._flushed, self.size - self._flushed)
        self._flushed = self.size
