"""Multipart uploads as folders of parts: the blocking part of the folder store's uploads (ADR 2).

    ROOT/uploads/ID/upload   key, metadata and start
    ROOT/uploads/ID/00001    part 1; its ETag is formed like an object's

An upload's folder is created in `tmp/` and removed there, with one rename each, so it exists completely or not at all.
An upload ends under its key's lock: if a complete and an abort race, one of them finds no upload.
"""

from __future__ import annotations

import os
from collections.abc import Mapping, Sequence
from contextlib import suppress

import msgspec

from lakebed.core.clock import Clock
from lakebed.core.errors import InvalidPart, NoSuchUpload
from lakebed.core.ids import new_upload_id

from ..multipart import check_completion, check_part_number
from ..seam import ByteSource, Key, ObjectVersion, OpenUpload, PartReceipt, WriteCondition
from .files import NewFile, make_folder, remove_tree, storage_errors, sync_folder
from .objects import FolderObjects, etag_of

__all__ = ["FolderUploads"]


class _Upload(msgspec.Struct, frozen=True):
    """The content of the file `upload`."""

    key: str
    started_ms: int
    metadata: dict[str, str]


class FolderUploads:
    """Open uploads in a folder. Every method blocks, and may be called from any thread of any process."""

    def __init__(self, objects: FolderObjects, clock: Clock, min_part_bytes: int) -> None:
        self._objects = objects
        self._clock = clock
        self._min_part_bytes = min_part_bytes
        self._uploads = os.path.join(objects.root, "uploads")
        with storage_errors():
            make_folder(self._uploads)

    def start(self, key: Key, metadata: Mapping[str, str]) -> str:
        """Create an upload; its id."""
        upload_id = str(new_upload_id(self._clock))
        upload = _Upload(key, self._clock.now_ms(), dict(metadata))
        with storage_errors():
            folder = self._objects.temporary_path()
            os.mkdir(folder, 0o700)
            try:
                file = NewFile(f"{folder}/upload")
                try:
                    file.write(msgspec.json.encode(upload))
                    file.sync()
                finally:
                    file.close()
                sync_folder(folder)
                os.rename(folder, self._folder(upload_id))
            except BaseException:
                remove_tree(folder)
                raise
            sync_folder(self._uploads)
        return upload_id

    def upload_part(self, upload_id: str, number: int, body: ByteSource) -> PartReceipt:
        """Store a part. Raises NoSuchUpload."""
        check_part_number(number)
        folder = self._folder(upload_id)
        with storage_errors(), self._objects.new_file() as file:
            self._read(upload_id)
            file.write(body)
            file.stamp(self._objects.new_stamp())
            file.sync()
            receipt = PartReceipt(number, etag_of(file.stat()), file.size)
            try:
                file.move(f"{folder}/{number:05d}", make_missing=False)
            except FileNotFoundError as error:
                raise _no_such_upload(upload_id) from error
            return receipt

    def complete(
        self, key: bytes, upload_id: str, parts: Sequence[PartReceipt], condition: WriteCondition | None
    ) -> ObjectVersion:
        """Create the object from the parts. Copies them once, inside the kernel."""
        with storage_errors():
            upload = self._read(upload_id)
            chosen = check_completion(parts, self._parts(upload_id), self._min_part_bytes)
            self._objects.check(key, condition)
            with self._objects.new_file() as file:
                for receipt in chosen:
                    self._append_part(file, upload_id, receipt)
                stamp = self._objects.prepare(file)
                with self._objects.locked(key):
                    self._read(upload_id)
                    version = self._objects.publish(file, stamp, key, upload.metadata, condition)
                    detached = self._detach(upload_id)
            self._remove(detached)
        return version

    def abort(self, key: bytes, upload_id: str) -> None:
        """Delete an upload of this key."""
        with storage_errors():
            try:
                upload = self._read(upload_id)
            except NoSuchUpload:
                return
            if upload.key.encode() != key:
                return
            with self._objects.locked(key):
                detached = self._detach(upload_id)
            self._remove(detached)

    def open_uploads(self, prefix: str) -> list[OpenUpload]:
        """All uploads of keys under `prefix`, by key and id."""
        found: list[OpenUpload] = []
        with storage_errors():
            for upload_id in os.listdir(self._uploads):
                try:
                    upload = self._read(upload_id)
                except NoSuchUpload:
                    continue  # ended meanwhile
                if upload.key.startswith(prefix):
                    found.append(OpenUpload(Key(upload.key), upload_id, upload.started_ms))
        return sorted(found, key=lambda upload: (upload.key.encode(), upload.upload_id))

    def _folder(self, upload_id: str) -> str:
        # Ids come from callers: only a well-formed one may become a path.
        if not upload_id.isascii() or not upload_id.isalnum():
            raise _no_such_upload(upload_id)
        return f"{self._uploads}/{upload_id}"

    def _read(self, upload_id: str) -> _Upload:
        try:
            with open(f"{self._folder(upload_id)}/upload", "rb") as file:
                return msgspec.json.decode(file.read(), type=_Upload)
        except (FileNotFoundError, NotADirectoryError) as error:
            raise _no_such_upload(upload_id) from error

    def _parts(self, upload_id: str) -> dict[int, PartReceipt]:
        parts: dict[int, PartReceipt] = {}
        try:
            with os.scandir(self._folder(upload_id)) as entries:
                for entry in entries:
                    if entry.name.isdigit():
                        found = entry.stat()
                        number = int(entry.name)
                        parts[number] = PartReceipt(number, etag_of(found), found.st_size)
        except FileNotFoundError as error:
            raise _no_such_upload(upload_id) from error
        return parts

    def _append_part(self, file: NewFile, upload_id: str, receipt: PartReceipt) -> None:
        try:
            descriptor = os.open(f"{self._folder(upload_id)}/{receipt.number:05d}", os.O_RDONLY)
        except FileNotFoundError as error:
            raise _no_such_upload(upload_id) from error
        try:
            if etag_of(os.fstat(descriptor)) != receipt.etag:
                raise InvalidPart(f"part was replaced. part={receipt.number} etag={receipt.etag}")
            file.write_from(descriptor, receipt.size)
        finally:
            os.close(descriptor)

    def _detach(self, upload_id: str) -> str:
        """Move an upload's folder to a temporary path, which ends the upload. The caller holds the key's lock."""
        path = self._objects.temporary_path()
        with suppress(FileNotFoundError):
            os.rename(self._folder(upload_id), path)
        return path

    def _remove(self, path: str) -> None:
        sync_folder(self._uploads)
        remove_tree(path)


def _no_such_upload(upload_id: str) -> NoSuchUpload:
    return NoSuchUpload(f"no such upload. upload={upload_id!r}")
