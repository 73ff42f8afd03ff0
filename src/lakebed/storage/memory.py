"""An in-memory object store with all guarantees of ObjectStorage except durability."""

from __future__ import annotations

import asyncio
import hashlib
from bisect import bisect_left, bisect_right, insort
from collections.abc import AsyncIterator, Mapping, Sequence
from dataclasses import dataclass, field
from itertools import islice
from types import MappingProxyType
from typing import Final

from ..core.clock import Clock
from ..core.errors import AlreadyExists, NoSuchKey, NoSuchUpload, PreconditionFailed
from ..core.ids import new_upload_id
from .keys import check_key, check_metadata, encode_text
from .multipart import check_completion, check_part_number
from .ranges import resolve_range, resolve_stream
from .seam import (
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

__all__ = ["MemoryStorage"]

_PAGE_KEYS: Final = 1000
_PIECE_BYTES: Final = 256 * 1024


@dataclass(frozen=True, slots=True)
class _Stored:
    body: bytes
    head: ObjectHead


@dataclass(slots=True)
class _Upload:
    key: Key
    started_ms: int
    metadata: Mapping[str, str]
    parts: dict[int, tuple[PartReceipt, bytes]] = field(default_factory=dict)


class MemoryStorage:
    """Objects in a dictionary, for one event loop.

    Every call yields to other tasks first, like a remote store. Reading and changing happen without interruption, so
    conditional writes are atomic.
    """

    def __init__(self, clock: Clock, *, min_part_bytes: int = MIN_PART_BYTES) -> None:
        self._clock = clock
        self._min_part_bytes = min_part_bytes
        self._objects: dict[bytes, _Stored] = {}
        self._order: list[bytes] = []
        self._uploads: dict[str, _Upload] = {}

    async def put(self, key: Key, body: ByteSource, *, metadata: Metadata | None = None) -> ObjectVersion:
        """Write an object, replacing an existing one."""
        return await self._put(key, body, metadata, None)

    async def put_if_absent(self, key: Key, body: ByteSource, *, metadata: Metadata | None = None) -> ObjectVersion:
        """Create `key`. Raises AlreadyExists."""
        return await self._put(key, body, metadata, IfAbsent())

    async def put_if_match(
        self, key: Key, body: ByteSource, etag: str, *, metadata: Metadata | None = None
    ) -> ObjectVersion:
        """Replace `key` if it still has `etag`. Raises PreconditionFailed."""
        return await self._put(key, body, metadata, IfMatch(etag))

    async def start_multipart(self, key: Key, *, metadata: Metadata | None = None) -> _MemoryUpload:
        """Create a multipart upload."""
        check_key(key)
        checked = check_metadata(metadata)
        await asyncio.sleep(0)
        upload_id = new_upload_id(self._clock)
        self._uploads[upload_id] = _Upload(key, self._clock.now_ms(), checked)
        return _MemoryUpload(self, key, upload_id)

    async def list_uploads(self, prefix: str = "") -> AsyncIterator[OpenUpload]:
        """Open uploads by key and id."""
        await asyncio.sleep(0)
        found = [
            OpenUpload(upload.key, upload_id, upload.started_ms)
            for upload_id, upload in self._uploads.items()
            if upload.key.startswith(prefix)
        ]
        for upload in sorted(found, key=lambda upload: (upload.key.encode(), upload.upload_id)):
            yield upload

    async def abort_upload(self, key: Key, upload_id: str) -> None:
        """Abort an upload found by `list_uploads`."""
        check_key(key)
        await asyncio.sleep(0)
        upload = self._uploads.get(upload_id)
        if upload is not None and upload.key == key:
            del self._uploads[upload_id]

    async def get(self, key: Key) -> bytes:
        """The whole object. Raises NotFound."""
        return (await self._find(key)).body

    async def get_range(self, key: Key, start: int, end: int) -> bytes:
        """Bytes from `start` to `end`, exclusive. Raises NotFound, InvalidRange."""
        stored = await self._find(key)
        first, stop = resolve_range(stored.head.size, start, end)
        return stored.body[first:stop]

    async def stream(self, key: Key, start: int = 0, end: int | None = None) -> AsyncIterator[bytes]:
        """A range in pieces, from the version of the object at the first step."""
        stored = await self._find(key)
        first, stop = resolve_stream(stored.head.size, start, end)
        for position in range(first, stop, _PIECE_BYTES):
            yield stored.body[position : min(position + _PIECE_BYTES, stop)]
            await asyncio.sleep(0)

    async def head(self, key: Key) -> ObjectHead:
        """Size, ETag, time and metadata. Raises NotFound."""
        return (await self._find(key)).head

    async def list_prefix(self, prefix: str = "", start_after: str = "") -> AsyncIterator[ObjectHead]:
        """Objects under `prefix` after `start_after`, each page from the state at its read."""
        wanted, position = encode_text(prefix), encode_text(start_after)
        while True:
            await asyncio.sleep(0)
            first = max(bisect_left(self._order, wanted), bisect_right(self._order, position))
            page = [key for key in islice(self._order, first, first + _PAGE_KEYS) if key.startswith(wanted)]
            for key in page:
                stored = self._objects.get(key)
                if stored is not None:
                    head = stored.head
                    yield ObjectHead(head.key, head.size, head.etag, head.modified_ms)
            if len(page) < _PAGE_KEYS:
                return
            position = page[-1]

    async def delete(self, key: Key) -> None:
        """Remove the object."""
        encoded = check_key(key)
        await asyncio.sleep(0)
        self._remove(encoded)

    async def delete_many(self, keys: Sequence[Key]) -> None:
        """Remove objects."""
        encoded = [check_key(key) for key in keys]
        await asyncio.sleep(0)
        for one in encoded:
            self._remove(one)

    async def close(self) -> None:
        """Do nothing: the objects stay readable, as on a disk."""

    async def _put(
        self, key: Key, body: ByteSource, metadata: Metadata | None, condition: WriteCondition | None
    ) -> ObjectVersion:
        encoded = check_key(key)
        checked = check_metadata(metadata)
        data = bytes(body)
        await asyncio.sleep(0)
        etag = hashlib.md5(data, usedforsecurity=False).hexdigest()
        return self._publish(encoded, key, data, etag, checked, condition)

    def _publish(
        self,
        encoded: bytes,
        key: Key,
        body: bytes,
        etag: str,
        metadata: Mapping[str, str],
        condition: WriteCondition | None,
    ) -> ObjectVersion:
        current = self._objects.get(encoded)
        if isinstance(condition, IfAbsent) and current is not None:
            raise AlreadyExists(f"object exists. key={key}")
        if isinstance(condition, IfMatch) and (current is None or current.head.etag != condition.etag):
            found = None if current is None else current.head.etag
            raise PreconditionFailed(f"etag differs. key={key} expected={condition.etag} found={found}")
        if current is None:
            insort(self._order, encoded)
        head = ObjectHead(key, len(body), etag, self._clock.now_ms(), MappingProxyType(dict(metadata)))
        self._objects[encoded] = _Stored(body, head)
        return ObjectVersion(etag)

    async def _find(self, key: Key) -> _Stored:
        encoded = check_key(key)
        await asyncio.sleep(0)
        stored = self._objects.get(encoded)
        if stored is None:
            raise NoSuchKey(f"no such object. key={key}")
        return stored

    def _remove(self, encoded: bytes) -> None:
        if self._objects.pop(encoded, None) is not None:
            del self._order[bisect_left(self._order, encoded)]

    def _find_upload(self, upload_id: str) -> _Upload:
        upload = self._uploads.get(upload_id)
        if upload is None:
            raise NoSuchUpload(f"no such upload. upload={upload_id}")
        return upload

    async def _upload_part(self, upload_id: str, number: int, body: ByteSource) -> PartReceipt:
        check_part_number(number)
        data = bytes(body)
        await asyncio.sleep(0)
        upload = self._find_upload(upload_id)
        receipt = PartReceipt(number, hashlib.md5(data, usedforsecurity=False).hexdigest(), len(data))
        upload.parts[number] = (receipt, data)
        return receipt

    async def _complete(
        self, upload_id: str, parts: Sequence[PartReceipt], condition: WriteCondition | None
    ) -> ObjectVersion:
        await asyncio.sleep(0)
        upload = self._find_upload(upload_id)
        stored = {number: receipt for number, (receipt, _) in upload.parts.items()}
        chosen = check_completion(parts, stored, self._min_part_bytes)
        body = b"".join(upload.parts[receipt.number][1] for receipt in chosen)
        digests = b"".join(bytes.fromhex(receipt.etag) for receipt in chosen)
        etag = f"{hashlib.md5(digests, usedforsecurity=False).hexdigest()}-{len(chosen)}"
        version = self._publish(upload.key.encode(), upload.key, body, etag, upload.metadata, condition)
        del self._uploads[upload_id]
        return version


class _MemoryUpload:
    """A multipart upload to a MemoryStorage."""

    def __init__(self, storage: MemoryStorage, key: Key, upload_id: str) -> None:
        self._storage = storage
        self.key = key
        self.upload_id = upload_id

    async def upload_part(self, number: int, body: ByteSource) -> PartReceipt:
        """Store part `number`, replacing an earlier one."""
        return await self._storage._upload_part(self.upload_id, number, body)

    async def complete(self, parts: Sequence[PartReceipt], condition: WriteCondition | None = None) -> ObjectVersion:
        """Create the object from these parts."""
        return await self._storage._complete(self.upload_id, parts, condition)

    async def abort(self) -> None:
        """Delete the upload and its parts."""
        await self._storage.abort_upload(self.key, self.upload_id)
