"""Objects as files of a local folder: the blocking half of the folder store (ADR 2).

    ROOT/format      the version of this layout
    ROOT/objects/    one file an object, named by `layout`; its bytes are the object's bytes and nothing else
    ROOT/metadata/   one file for each object that has user metadata, named by key and ETag
    ROOT/uploads/    one folder for each open multipart upload
    ROOT/tmp/        files on their way; whatever is old here was left by a crash
    ROOT/locks/      the locks that writers of one key take turns by

The invariant: an object's ETag is its file's time of change and size, and the time of change of one key only grows. So
one rename changes bytes and ETag together, a listing needs nothing but `stat`, and ETags survive restarts and copies
that keep times. Writers of a key hold its lock from looking at the ETag until the new name is durable; readers take
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
"""A key of 1,024 bytes escapes to some 3,100; Linux paths end at 4,095."""


class _Notes(msgspec.Struct, frozen=True):
    """What stands in a file of `metadata/`."""

    key: str
    metadata: dict[str, str]


def etag_of(found: os.stat_result) -> str:
    """The ETag of a stored file."""
    return f"{found.st_mtime_ns:x}-{found.st_size:x}"


class FolderObjects:
    """Objects in a folder. Every method blocks; any thread of any process may call any of them."""

    def __init__(self, root: Path, clock: Clock, random: Random) -> None:
        self._root = os.path.abspath(root)
        self._clock = clock
        self._random = random
        self._objects = os.path.join(self._root, "objects")
        self._metadata = os.path.join(self._root, "metadata")
        self._temporary = os.path.join(self._root, "tmp")
        self._locks = os.path.join(self._root, "locks")
        if len(os.fsencode(self._root)) > _MAX_ROOT_BYTES:
            raise InvalidSetting(f"storage.root: path too long. maximum={_MAX_ROOT_BYTES}")
        with storage_errors():
            is_new = self._check_format()
            for folder in (self._objects, self._metadata, self._temporary, self._locks):
                make_folder(folder)
            self._check_times()
            if is_new:
                self._write_format()

    @property
    def root(self) -> str:
        """The folder all of this is in."""
        return self._root

    def put(
        self, key: bytes, body: ByteSource, metadata: Mapping[str, str], condition: WriteCondition | None
    ) -> ObjectVersion:
        """Write one object if the condition holds."""
        with storage_errors():
            self.check(key, condition)
            with self.new_file() as file:
                file.write(body)
                stamp = self.prepare(file)
                with self.locked(key):
                    return self.publish(file, stamp, key, metadata, condition)

    def prepare(self, file: NewFile) -> int:
        """Make a written file durable, before anybody has to wait for a lock; its stamp."""
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
            stamp = current.st_mtime_ns + 1  # the clock went back, or two writes fell into one millisecond
            file.stamp(stamp)
            file.sync()
        etag = f"{stamp:x}-{file.size:x}"
        if metadata:
            self._write_notes(key, etag, metadata)
        file.move(path)
        if current is not None:
            self._remove_notes(key, etag_of(current))
        return ObjectVersion(etag)

    def check(self, key: bytes, condition: WriteCondition | None) -> None:
        """Raise if the condition is false already: asked before work that would be in vain. Raises OSError too."""
        if condition is None:
            return
        path = self.path(key)
        try:
            _check_condition(key, condition, _stat(path))
        except (AlreadyExists, PreconditionFailed):
            with self.locked(key):  # the winner may be visible and not yet durable: it holds the lock until it is
                _check_condition(key, condition, _stat(path))

    def head(self, key: bytes) -> ObjectHead:
        """What is known of the object. Raises NoSuchKey."""
        path = self.path(key)
        with storage_errors():
            found = self._require(path, key)
            while True:
                notes = self._read_notes(key, etag_of(found))
                if notes is not None:
                    break
                # No notes: either the object has none, or it was replaced after we looked and they were removed.
                again = self._require(path, key)
                if etag_of(again) == etag_of(found):
                    notes = {}
                    break
                found = again
        return _head(key, found, notes)

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
        """Remove the objects that are there, and the folders that this leaves empty. One sync a folder."""
        changed: set[str] = set()
        with storage_errors():
            for key in keys:
                path = self.path(key)
                with self.locked(key):
                    found = _stat(path)
                    if found is None:
                        continue
                    os.unlink(path)
                    self._remove_notes(key, etag_of(found))
                changed.add(self._remove_empty(os.path.dirname(path)))
            for folder in changed:
                self._sync_nearest(folder)

    def sweep_temporary(self, older_than_ms: int) -> list[tuple[str, int]]:
        """Remove what crashes left behind and nobody has touched for so long; those files with their sizes."""
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
                    removed += self._sweep_notes(os.path.join(folder, name), latest_ms)
        return removed

    def path(self, key: bytes) -> str:
        """The object's file."""
        return f"{self._objects}/{object_path(key)}"

    def temporary_path(self) -> str:
        """A new name in `tmp/`."""
        return f"{self._temporary}/{os.getpid()}-{self._random.getrandbits(64):016x}"

    @contextmanager
    def new_file(self) -> Iterator[NewFile]:
        """A file to write, which is gone afterwards unless it was moved."""
        file = NewFile(self.temporary_path())
        try:
            yield file
        finally:
            file.discard()

    def new_stamp(self) -> int:
        """Now, in nanoseconds. Those below a millisecond are random.

        Two writes of one key never share a stamp, because of the lock; a write after a delete does not know the stamp
        that went, and this makes meeting it again as good as impossible.
        """
        return self._clock.now_ms() * 1_000_000 + self._random.randrange(1_000_000)

    @contextmanager
    def locked(self, key: bytes) -> Iterator[None]:
        """Hold the key's lock, across threads and processes. Some keys share one: never take two."""
        descriptor = os.open(f"{self._locks}/{zlib.crc32(key) % _LOCKS:02x}", os.O_RDWR | os.O_CREAT, 0o600)
        try:
            fcntl.flock(descriptor, fcntl.LOCK_EX)
            yield
        finally:
            os.close(descriptor)  # which lets the lock go, as the end of the process would

    def _require(self, path: str, key: bytes) -> os.stat_result:
        found = _stat(path)
        if found is None:
            raise NoSuchKey(f"no such object. key={key.decode()}")
        return found

    def _remove_empty(self, folder: str) -> str:
        """Remove empty folders from here upwards; the one that stays."""
        while folder != self._objects:
            try:
                os.rmdir(folder)
            except FileNotFoundError:
                pass  # another delete was here
            except OSError:
                break  # not empty
            folder = os.path.dirname(folder)
        return folder

    def _sync_nearest(self, folder: str) -> None:
        """Sync a folder, or if another delete has removed it since, the one above that tells so."""
        while True:
            try:
                return sync_folder(folder)
            except FileNotFoundError:
                folder = os.path.dirname(folder)

    def _notes_path(self, key: bytes, etag: str) -> str:
        name = hashlib.sha256(key).hexdigest()
        return f"{self._metadata}/{name[:2]}/{name[2:]}@{etag}"

    def _write_notes(self, key: bytes, etag: str, metadata: Mapping[str, str]) -> None:
        with self.new_file() as file:
            file.write(msgspec.json.encode(_Notes(key.decode(), dict(metadata))))
            file.sync()
            file.move(self._notes_path(key, etag))

    def _read_notes(self, key: bytes, etag: str) -> Mapping[str, str] | None:
        try:
            with open(self._notes_path(key, etag), "rb") as file:
                return msgspec.json.decode(file.read(), type=_Notes).metadata
        except FileNotFoundError:
            return None

    def _remove_notes(self, key: bytes, etag: str) -> None:
        # Not synced: notes that come back with a crash belong to no object, and the sweep finds them.
        with suppress(FileNotFoundError):
            os.unlink(self._notes_path(key, etag))

    def _sweep_notes(self, path: str, latest_ms: int) -> list[tuple[str, int]]:
        """Remove notes whose object is another one by now; they and their size, if they were."""
        found = _stat(path)
        if found is None or found.st_mtime_ns // 1_000_000 > latest_ms:
            return []
        with open(path, "rb") as file:
            key = msgspec.json.decode(file.read(), type=_Notes).key.encode()
        with self.locked(key):
            current = _stat(self.path(key))
            if current is not None and path == self._notes_path(key, etag_of(current)):
                return []
            remove_tree(path)
        return [(path, found.st_size)]

    def _check_times(self) -> None:
        probe = 1_700_000_000_123_456_789
        with self.new_file() as file:
            file.stamp(probe)
            if file.stat().st_mtime_ns != probe:
                raise InvalidSetting(f"storage.root: the file system does not keep nanoseconds. path={self._root}")

    def _check_format(self) -> bool:
        """Raise InvalidSetting unless the folder is ours or, which is the answer, new."""
        try:
            with open(f"{self._root}/format", "rb") as file:
                found = file.read()
        except FileNotFoundError:
            return True
        if found != _FORMAT:
            raise InvalidSetting(f"storage.root: the folder of another program or version. path={self._root}")
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
            raise PreconditionFailed(f"etag differs. key={key.decode()} wanted={condition.etag} found={found}")


def _stat(path: str) -> os.stat_result | None:
    try:
        return os.stat(path)
    except (FileNotFoundError, NotADirectoryError):
        return None


def _head(key: bytes, found: os.stat_result, metadata: Mapping[str, str]) -> ObjectHead:
    return ObjectHead(Key(key.decode()), found.st_size, etag_of(found), found.st_mtime_ns // 1_000_000, metadata)
