"""An object store wrapper that retries, and recognizes its own writes.

A conditional write is not idempotent: if the response to a successful one is lost, the retry conflicts with its own
object. So every such write stores a unique id in the metadata. If an attempt is rejected after an earlier one failed,
the id of the existing object is read: the same id means that the earlier attempt succeeded.

With another id, either the write never happened, or the object was replaced since. A create is rejected
(AlreadyExists), because created keys are not replaced. A compare-and-swap is usually replaced: if an earlier attempt
may have happened (`Unavailable.undecided`), the result is Unavailable again, because a rejection would claim that it
never was visible. The same holds for a completion whose upload no longer exists.
"""

from __future__ import annotations

import uuid
from collections.abc import AsyncIterator, Awaitable, Callable, Sequence
from dataclasses import dataclass, replace
from typing import Final

from ..core.errors import (
    AlreadyExists,
    LakebedError,
    NotFound,
    PreconditionFailed,
    Throttled,
    Unavailable,
    WriteConflict,
)
from .backoff import Retrier, is_retryable
from .seam import (
    ByteSource,
    IfAbsent,
    IfMatch,
    Key,
    Metadata,
    MultipartUpload,
    ObjectHead,
    ObjectStorage,
    ObjectVersion,
    OpenUpload,
    PartReceipt,
    WriteCondition,
)

__all__ = ["PUT_ID", "RetryingStorage", "WriteIdentity", "complete_with_retries", "new_write_id", "put_with_retries"]

PUT_ID: Final = "lakebedputid"
"""Metadata name of the ids. Letters only, because some stores restrict metadata names."""


def new_write_id() -> str:
    """A unique id for a write."""
    return uuid.uuid4().hex


@dataclass(frozen=True, slots=True)
class WriteIdentity:
    """Identifies a writer's object by a metadata name and a unique value."""

    name: str
    value: str

    def add_to(self, metadata: Metadata | None) -> Metadata:
        """The metadata with the identity."""
        return {**(metadata or {}), self.name: self.value}

    async def find(self, storage: ObjectStorage, key: Key) -> ObjectVersion | None:
        """The object under `key` if this writer wrote it. One HEAD."""
        try:
            head = await storage.head(key)
        except NotFound:
            return None
        if head.metadata.get(self.name) != self.value:
            return None
        return ObjectVersion(head.etag, head.version)


async def put_with_retries(
    storage: ObjectStorage,
    key: Key,
    body: ByteSource,
    condition: WriteCondition | None,
    metadata: Metadata | None,
    mark: WriteIdentity,
    retrier: Retrier,
) -> ObjectVersion:
    """Write one object with retries, recognizing this writer's own object.

    After an undecided attempt (WriteConflict) the condition is evaluated again. Raises AlreadyExists,
    PreconditionFailed.
    """

    async def send() -> ObjectVersion:
        match condition:
            case None:
                return await storage.put(key, body, metadata=mark.add_to(metadata))
            case IfAbsent():
                return await storage.put_if_absent(key, body, metadata=mark.add_to(metadata))
            case IfMatch(etag):
                return await storage.put_if_match(key, body, etag, metadata=mark.add_to(metadata))

    return await _repeat(send, storage, key, mark, retrier, is_retryable)


async def complete_with_retries(
    storage: ObjectStorage,
    upload: MultipartUpload,
    parts: Sequence[PartReceipt],
    condition: WriteCondition | None,
    mark: WriteIdentity,
    retrier: Retrier,
) -> ObjectVersion:
    """Complete an upload, created with `mark` in its metadata, with retries.

    WriteConflict is raised at once: the store has discarded the upload, and the parts must be sent again.
    """

    def may_retry(error: LakebedError) -> bool:
        return is_retryable(error) and not isinstance(error, WriteConflict)

    return await _repeat(lambda: upload.complete(parts, condition), storage, upload.key, mark, retrier, may_retry)


async def _repeat(
    send: Callable[[], Awaitable[ObjectVersion]],
    storage: ObjectStorage,
    key: Key,
    mark: WriteIdentity,
    retrier: Retrier,
    retryable: Callable[[LakebedError], bool],
) -> ObjectVersion:
    failed = may_have_happened = False

    async def attempt(_: int) -> ObjectVersion | LakebedError:
        nonlocal failed, may_have_happened
        try:
            return await send()
        except (AlreadyExists, PreconditionFailed, NotFound) as rejection:
            if not failed:
                raise
            return await mark.find(storage, key) or rejection
        except (Unavailable, Throttled) as error:
            failed = True
            may_have_happened |= isinstance(error, Unavailable) and error.undecided
            raise

    outcome = await retrier.run(attempt, retryable=retryable)
    if isinstance(outcome, ObjectVersion):
        return outcome
    if isinstance(outcome, AlreadyExists) or not may_have_happened:
        raise outcome
    raise Unavailable(
        f"the response to a write was lost, and another object has replaced it. key={key}", undecided=True
    ) from outcome


class RetryingStorage:
    """An ObjectStorage around another, with retries.

    Creating an upload is retried too: if the first response was lost, an empty upload remains, for the sweep of
    `list_uploads` to abort. A stream is only retried from its start, never resumed: the object may have been replaced.
    """

    def __init__(self, inner: ObjectStorage, retrier: Retrier, *, new_id: Callable[[], str] = new_write_id) -> None:
        self._inner = inner
        self._retrier = retrier
        self._new_id = new_id

    async def put(self, key: Key, body: ByteSource, *, metadata: Metadata | None = None) -> ObjectVersion:
        """Write an object. Idempotent, so without an id."""
        return await self._retrier.run(lambda _: self._inner.put(key, body, metadata=metadata))

    async def put_if_absent(self, key: Key, body: ByteSource, *, metadata: Metadata | None = None) -> ObjectVersion:
        """Create `key`. Raises AlreadyExists if another writer was first."""
        return await put_with_retries(self._inner, key, body, IfAbsent(), metadata, self._mark(), self._retrier)

    async def put_if_match(
        self, key: Key, body: ByteSource, etag: str, *, metadata: Metadata | None = None
    ) -> ObjectVersion:
        """Replace `key` if it still has `etag`. Raises PreconditionFailed; Unavailable if the outcome is unknown."""
        return await put_with_retries(self._inner, key, body, IfMatch(etag), metadata, self._mark(), self._retrier)

    async def start_multipart(self, key: Key, *, metadata: Metadata | None = None) -> MultipartUpload:
        """Create a multipart upload."""
        mark = self._mark()
        upload = await self._retrier.run(lambda _: self._inner.start_multipart(key, metadata=mark.add_to(metadata)))
        return _RetryingUpload(self._inner, upload, mark, self._retrier)

    async def list_uploads(self, prefix: str = "") -> AsyncIterator[OpenUpload]:
        """Open uploads. Collected first, so that a retry does not repeat any."""

        async def collect(_: int) -> list[OpenUpload]:
            return [upload async for upload in self._inner.list_uploads(prefix)]

        for upload in await self._retrier.run(collect):
            yield upload

    async def abort_upload(self, key: Key, upload_id: str) -> None:
        """Abort an upload found by `list_uploads`."""
        await self._retrier.run(lambda _: self._inner.abort_upload(key, upload_id))

    async def get(self, key: Key) -> bytes:
        """The whole object."""
        return await self._retrier.run(lambda _: self._inner.get(key))

    async def get_range(self, key: Key, start: int, end: int) -> bytes:
        """Bytes from `start` to `end`, exclusive."""
        return await self._retrier.run(lambda _: self._inner.get_range(key, start, end))

    async def stream(self, key: Key, start: int = 0, end: int | None = None) -> AsyncIterator[bytes]:
        """The bytes in pieces. Retries until the first piece has arrived."""

        async def begin(_: int) -> tuple[AsyncIterator[bytes], bytes]:
            pieces = self._inner.stream(key, start, end)
            return pieces, await anext(pieces, b"")

        pieces, piece = await self._retrier.run(begin)
        if piece:
            yield piece
            async for piece in pieces:
                yield piece

    async def head(self, key: Key) -> ObjectHead:
        """Size, ETag, time and the caller's metadata, without the write id."""
        head = await self._retrier.run(lambda _: self._inner.head(key))
        return replace(head, metadata={name: value for name, value in head.metadata.items() if name != PUT_ID})

    async def list_prefix(self, prefix: str = "", start_after: str = "") -> AsyncIterator[ObjectHead]:
        """Objects in order. After an error the listing resumes after the last key returned."""
        position = start_after
        listing = self._inner.list_prefix(prefix, position)

        async def step(failures: int) -> ObjectHead | None:
            nonlocal listing
            if failures:
                listing = self._inner.list_prefix(prefix, position)
            return await anext(listing, None)

        while (head := await self._retrier.run(step)) is not None:
            position = head.key
            yield head

    async def delete(self, key: Key) -> None:
        """Remove the object."""
        await self._retrier.run(lambda _: self._inner.delete(key))

    async def delete_many(self, keys: Sequence[Key]) -> None:
        """Remove objects. After an error all of them are sent again."""
        await self._retrier.run(lambda _: self._inner.delete_many(keys))

    async def close(self) -> None:
        """Close the inner store."""
        await self._inner.close()

    def _mark(self) -> WriteIdentity:
        return WriteIdentity(PUT_ID, self._new_id())


class _RetryingUpload:
    """A multipart upload with retries."""

    def __init__(self, storage: ObjectStorage, inner: MultipartUpload, mark: WriteIdentity, retrier: Retrier) -> None:
        self.key = inner.key
        self.upload_id = inner.upload_id
        self._storage = storage
        self._inner = inner
        self._mark = mark
        self._retrier = retrier

    async def upload_part(self, number: int, body: ByteSource) -> PartReceipt:
        """Upload a part."""
        return await self._retrier.run(lambda _: self._inner.upload_part(number, body))

    async def complete(self, parts: Sequence[PartReceipt], condition: WriteCondition | None = None) -> ObjectVersion:
        """Create the object from these parts."""
        return await complete_with_retries(self._storage, self._inner, parts, condition, self._mark, self._retrier)

    async def abort(self) -> None:
        """Delete the upload and its parts."""
        await self._retrier.run(lambda _: self._inner.abort())
