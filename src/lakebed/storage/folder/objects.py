"""Objects as files in a local folder: the blocking part of the folder store (ADR 2).

    ROOT/format      the version of this layout
    ROOT/objects/    one file per object with exactly its bytes, named by `layout`
    ROOT/metadata/   one file for each object with user metadata, named by key and ETag
    ROOT/uploads/    one folder for each open multipart upload
    ROOT/tmp/        files being written; old ones were left by a crash
    ROOT/locks/      lock files for writers of the same key

The invariant: an object's ETag is its file's modification time and size, and the modification time of a key only
increases. So one rename changes bytes and ETag together, a listing only needs `stat`, and ETags survive restarts and
copies that keep times. Writers of a key hold its lock from reading the ETag until the new name is durable; readers take
no lock.
"""

from __future__ import annotations

import fcntl
import hashlib
import os
import zlib
from collections.abc import Iterator, Mapping, Sequence
from contextlib import contextmanager, suppress
from pathlib import Path
from random import Random
from typing import Final

import msgspec

from lakebed.core.clock import Clock
from lakebed.core.errors import AlreadyExists, InvalidSetting, NoSuchKey, PreconditionFailed

from ..seam import ByteSource, IfAbsent, IfMatch, Key, ObjectHead, ObjectVersion, WriteCondition
from .files import NewFile, list_tree, make_folder, remove_tree, storage_error, storage_errors, sync_folder
from .layout import object_path, walk_objects

__all__ = ["FolderObjects", "etag_of"]

_FORMAT: Final = b"lakebed folder 1\n"
_LOCKS: Final = 256
_MAX_ROOT_BYTES: Final = 900
"""A key of 1,024 bytes escapes to about 3,100; Linux limits paths to 4,095."""


class _MetadataFile(msgspec.Struct, frozen=True):
    """The content of a file in `metadata/`."""

    key: str
    metadata: dict[str, str]


def etag_of(found: os.stat_result) -> str:
    """The ETag of a stored file."""
    return f"{found.st_mtime_ns:x}-{found.st_size:x}"


class FolderObjects:
    """Objects in a folder. Every method blocks, and may be called from any thread of any process."""

    def __init__(self, root: Path, clock: Clock, random: Random) -> None:
        self._root = os.path.abspath(root)
        self._clock = clock
        self._random = random
        self._objects = os.path.join(self._root, "objects")
        self._metadata = os.path.join(self._root, "metadata")
        self._temporary = os.path.join(self._root, "tmp")
        self._locks = os.path.join(self._root, "locks")
        if len(os.fsencode(self._root)) > _MAX_ROOT_BYTES:
            raise InvalidSetting(f"storage.root: path is too long. maximum={_MAX_ROOT_BYTES}")
        with storage_errors():
            is_new = self._check_format()
            for folder in (self._objects, self._metadata, self._temporary, self._locks):
                make_folder(folder)
            self._check_times()
            if is_new:
                self._write_format()

    @property
    def root(self) -> str:
        """The root folder."""
        return self._root

    def put(
        self, key: bytes, body: ByteSource, metadata: Mapping[str, str], condition: WriteCondition | None
    ) -> ObjectVersion:
        """Write an object if the condition holds."""
        with storage_errors():
            self.check(key, condition)
            with self.new_file() as file:
                file.write(body)
                stamp = self.prepare(file)
                with self.locked(key):
                    return self.publish(file, stamp, key, metadata, condition)

    def prepare(self, file: NewFile) -> int:
        """Sync a written file before its key's lock is taken; its modification time."""
        stamp = self.new_stamp()
        file.stamp(stamp)
        file.sync()
        return stamp

    def publish(
        self, file: NewFile, stamp: int, key: bytes, metadata: Mapping[str, str], condition: WriteCondition | None
    ) -> ObjectVersion:
        """Make a prepared file the object under `key`, if the condition holds. The caller holds the key's lock."""
        path = self.path(key)
        current = _stat(path)
        _check_condition(key, condition, current)
        if current is not None and current.st_mtime_ns >= stamp:
            stamp = current.st_mtime_ns + 1  # the clock went back, or two writes in one millisecond
            file.stamp(stamp)
            file.sync()
        etag = f"{stamp:x}-{file.size:x}"
        if metadata:
            self._write_metadata(key, etag, metadata)
        file.move(path)
        if current is not None:
            self._remove_metadata(key, etag_of(current))
        return ObjectVersion(etag)

    def check(self, key: bytes, condition: WriteCondition | None) -> None:
        """Raise if the condition is already false, before useless work. Raises OSError too."""
        if condition is None:
            return
        path = self.path(key)
        try:
            _check_condition(key, condition, _stat(path))
        except (AlreadyExists, PreconditionFailed):
            with self.locked(key):  # the other write may not be durable yet: it holds the lock until it is
                _check_condition(key, condition, _stat(path))

    def head(self, key: bytes) -> ObjectHead:
        """The object's size, ETag, time and metadata. Raises NoSuchKey."""
        path = self.path(key)
        with storage_errors():
            found = self._require(path, key)
            while True:
                metadata = self._read_metadata(key, etag_of(found))
                if metadata is not None:
                    break
                # No metadata file: the object has no metadata, or it was replaced and its file removed meanwhile.
                again = self._require(path, key)
                if etag_of(again) == etag_of(found):
                    metadata = {}
                    break
                found = again
        return _head(key, found, metadata)

    def open_object(self, key: bytes) -> int:
        """A read-only descriptor of the object's file. Raises NoSuchKey."""
        try:
            return os.open(self.path(key), os.O_RDONLY)
        except FileNotFoundError as error:
            raise NoSuchKey(f"no such object. key={key.decode()}") from error
        except OSError as error:
            raise storage_error(error) from error

    def scan(self, prefix: bytes, after: bytes) -> Iterator[ObjectHead]:
        """Objects under `prefix` after `after`, without metadata. One `stat` each."""
        for key, path in walk_objects(self._objects, prefix, after):
            found = _stat(path)
            if found is not None:
                yield _head(key, found, {})

    def delete(self, keys: Sequence[bytes]) -> None:
        """Remove objects, and the folders that become empty. Absent objects are ignored. One sync per folder."""
        changed: set[str] = set()
        with storage_errors():
            for key in keys:
                path = self.path(key)
                with self.locked(key):
                    found = _stat(path)
                    if found is None:
                        continue
                    os.unlink(path)
                    self._remove_metadata(key, etag_of(found))
                changed.add(self._remove_empty(os.path.dirname(path)))
            for folder in changed:
                self._sync_nearest(folder)

    def sweep_temporary(self, older_than_ms: int) -> list[tuple[str, int]]:
        """Remove leftovers of crashes that were not modified for this time; those files with their sizes."""
        removed: list[tuple[str, int]] = []
        latest_ms = self._clock.now_ms() - older_than_ms
        with storage_errors():
            for name in os.listdir(self._temporary):
                path = os.path.join(self._temporary, name)
                found = _stat(path)
                if found is not None and found.st_mtime_ns // 1_000_000 <= latest_ms:
                    removed += list_tree(path)
                    remove_tree(path)
            for shard in os.listdir(self._metadata):
                folder = os.path.join(self._metadata, shard)
                for name in os.listdir(folder):
                    removed += self._sweep_metadata(os.path.join(folder, name), latest_ms)
        return removed

    def path(self, key: bytes) -> str:
        """The object's file."""
        return f"{self._objects}/{object_path(key)}"

    def temporary_path(self) -> str:
        """A new name in `tmp/`."""
        return f"{self._temporary}/{os.getpid()}-{self._random.getrandbits(64):016x}"

    @contextmanager
    def new_file(self) -> Iterator[NewFile]:
        """A temporary file, which is removed afterwards unless it was moved."""
        file = NewFile(self.temporary_path())
        try:
            yield file
        finally:
            file.discard()

    def new_stamp(self) -> int:
        """The current time in nanoseconds, with random digits below a millisecond.

        Writes of a key never share a time, because of the lock. A write after a delete does not know the deleted
        object's time; the random digits make a collision practically impossible.
        """
        return self._clock.now_ms() * 1_000_000 + self._random.randrange(1_000_000)

    @contextmanager
    def locked(self, key: bytes) -> Iterator[None]:
        """Hold the key's lock, across threads and processes. Keys may share a lock: never take two."""
        descriptor = os.open(f"{self._locks}/{zlib.crc32(key) % _LOCKS:02x}", os.O_RDWR | os.O_CREAT, 0o600)
        try:
            fcntl.flock(descriptor, fcntl.LOCK_EX)
            yield
        finally:
            os.close(descriptor)  # releases the lock, as the end of the process would

    def _require(self, path: str, key: bytes) -> os.stat_result:
        found = _stat(path)
        if found is None:
            raise NoSuchKey(f"no such object. key={key.decode()}")
        return found

    def _remove_empty(self, folder: str) -> str:
        """Remove empty folders from here upwards; the first that remains."""
        while folder != self._objects:
            try:
                os.rmdir(folder)
            except FileNotFoundError:
                pass  # removed by another delete
            except OSError:
                break  # not empty
            folder = os.path.dirname(folder)
        return folder

    def _sync_nearest(self, folder: str) -> None:
        """Sync a folder, or its nearest parent if another delete removed it."""
        while True:
            try:
                return sync_folder(folder)
            except FileNotFoundError:
                folder = os.path.dirname(folder)

    def _metadata_path(self, key: bytes, etag: str) -> str:
        name = hashlib.sha256(key).hexdigest()
        return f"{self._metadata}/{name[:2]}/{name[2:]}@{etag}"

    def _write_metadata(self, key: bytes, etag: str, metadata: Mapping[str, str]) -> None:
        with self.new_file() as file:
            file.write(msgspec.json.encode(_MetadataFile(key.decode(), dict(metadata))))
            file.sync()
            file.move(self._metadata_path(key, etag))

    def _read_metadata(self, key: bytes, etag: str) -> Mapping[str, str] | None:
        try:
            with open(self._metadata_path(key, etag), "rb") as file:
                return msgspec.json.decode(file.read(), type=_MetadataFile).metadata
        except FileNotFoundError:
            return None

    def _remove_metadata(self, key: bytes, etag: str) -> None:
        # Not synced: a file that reappears after a crash belongs to no object, and the sweep removes it.
        with suppress(FileNotFoundError):
            os.unlink(self._metadata_path(key, etag))

    def _sweep_metadata(self, path: str, latest_ms: int) -> list[tuple[str, int]]:
        """Remove a metadata file whose object was replaced or deleted; its path and size if removed."""
        found = _stat(path)
        if found is None or found.st_mtime_ns // 1_000_000 > latest_ms:
            return []
        with open(path, "rb") as file:
            key = msgspec.json.decode(file.read(), type=_MetadataFile).key.encode()
        with self.locked(key):
            current = _stat(self.path(key))
            if current is not None and path == self._metadata_path(key, etag_of(current)):
                return []
            remove_tree(path)
        return [(path, found.st_size)]

    def _check_times(self) -> None:
        probe = 1_700_000_000_123_456_789
        with self.new_file() as file:
            file.stamp(probe)
            if file.stat().st_mtime_ns != probe:
                raise InvalidSetting(
                    f"storage.root: the file system does not store times in nanoseconds. path={self._root}"
                )

    def _check_format(self) -> bool:
        """Whether the folder is new. Raises InvalidSetting if it belongs to another program or version."""
        try:
            with open(f"{self._root}/format", "rb") as file:
                found = file.read()
        except FileNotFoundError:
            return True
        if found != _FORMAT:
            raise InvalidSetting(f"storage.root: the folder belongs to another program or version. path={self._root}")
        return False

    def _write_format(self) -> None:
        with self.new_file() as file:
            file.write(_FORMAT)
            file.sync()
            file.move(f"{self._root}/format")


def _check_condition(key: bytes, condition: WriteCondition | None, current: os.stat_result | None) -> None:
    """Raise AlreadyExists or PreconditionFailed unless the condition holds for the current file."""
    if isinstance(condition, IfAbsent) and current is not None:
        raise AlreadyExists(f"object exists. key={key.decode()}")
    if isinstance(condition, IfMatch):
        found = None if current is None else etag_of(current)
        if found != condition.etag:
            raise PreconditionFailed(f"etag differs. key={key.decode()} expected={condition.etag} found={found}")


def _stat(path: str) -> os.stat_result | None:
    try:
        return os.stat(path)
    except (FileNotFoundError, NotADirectoryError):
        return None


def _head(key: bytes, found: os.stat_result, metadata: Mapping[str, str]) -> ObjectHead:
    return ObjectHead(Key(key.decode()), found.st_size, etag_of(found), found.st_mtime_ns // 1_000_000, metadata)
