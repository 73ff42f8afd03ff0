"""A byte store that tries again, and knows its own writes when it meets them.

A conditional write is not idempotent: if the answer to one that happened is lost, sending it again finds its own object
in the way. So every such write carries an id of its own in the metadata. When an attempt is refused after an earlier
one failed, the object there is asked for its id: ours means that the earlier one did happen.

Another id means one of two things: ours was never written, or it was and somebody has replaced it since. A create is
refused then (AlreadyExists), because keys that are created are not replaced by those who rely on it. A swap lives by
being replaced: if the store said that an earlier attempt may have happened (`Unavailable.undecided`), that is said
again, because a refusal would claim that nothing of it was ever visible. So it is for a completion whose upload has
gone.
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
from .backoff import Retrier, is_worth_retrying
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
"""Metadata name of our ids. Letters only, because some stores restrict metadata names to them."""


def new_write_id() -> str:
    """An id that no other write has."""
    return uuid.uuid4().hex


@dataclass(frozen=True, slots=True)
class WriteIdentity:
    """How a writer knows its own object again: a metadata name and a value that nobody else writes."""

    name: str
    value: str

    def on(self, metadata: Metadata | None) -> Metadata:
        """The metadata with the mark."""
        return {**(metadata or {}), self.name: self.value}

    async def find(self, storage: ObjectStorage, key: Key) -> ObjectVersion | None:
        """The object under `key` if it is ours. One HEAD."""
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
    """Write one object, trying again, and not taking our own object for somebody else's.

    An undecided attempt (WriteConflict) evaluates the condition again. Raises AlreadyExists, PreconditionFailed.
    """

    async def send() -> ObjectVersion:
        match condition:
            case None:
                return await storage.put(key, body, metadata=mark.on(metadata))
            case IfAbsent():
                return await storage.put_if_absent(key, body, metadata=mark.on(metadata))
            case IfMatch(etag):
                return await storage.put_if_match(key, body, etag, metadata=mark.on(metadata))

    return await _repeat(send, storage, key, mark, retrier, is_worth_retrying)


async def complete_with_retries(
    storage: ObjectStorage,
    upload: MultipartUpload,
    parts: Sequence[PartReceipt],
    condition: WriteCondition | None,
    mark: WriteIdentity,
    retrier: Retrier,
) -> ObjectVersion:
    """Complete an upload that was begun with `mark` in its metadata, trying again.

    WriteConflict comes through at once: the store has given the upload up, and the parts must be sent again.
    """

    def may_repeat(error: LakebedError) -> bool:
        return is_worth_retrying(error) and not isinstance(error, WriteConflict)

    return await _repeat(lambda: upload.complete(parts, condition), storage, upload.key, mark, retrier, may_repeat)


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
        except (AlreadyExists, PreconditionFailed, NotFound) as refusal:
            if not failed:
                raise
            return await mark.find(storage, key) or refusal
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
        f"the answer to a write was lost, and another object is there now. key={key}", undecided=True
    ) from outcome


class RetryingStorage:
    """An ObjectStorage around another, with retries.

    Beginning an upload is repeated too: if the answer to the first try was lost, an empty upload stays behind, which
    is what sweepers of `list_uploads` are for. A stream is only begun again, never gone on with: after a pause the
    object may be another one.
    """

    def __init__(self, inner: ObjectStorage, retrier: Retrier, *, new_id: Callable[[], str] = new_write_id) -> None:
        self._inner = inner
        self._retrier = retrier
        self._new_id = new_id

    async def put(self, key: Key, body: ByteSource, *, metadata: Metadata | None = None) -> ObjectVersion:
        """Write the whole object. Idempotent, so it carries no id."""
        return await self._retrier.run(lambda _: self._inner.put(key, body, metadata=metadata))

    async def put_if_absent(self, key: Key, body: ByteSource, *, metadata: Metadata | None = None) -> ObjectVersion:
        """Create `key`. Raises AlreadyExists if another writer was first."""
        return await put_with_retries(self._inner, key, body, IfAbsent(), metadata, self._mark(), self._retrier)

    async def put_if_match(
        self, key: Key, body: ByteSource, etag: str, *, metadata: Metadata | None = None
    ) -> ObjectVersion:
        """Replace `key` if it still has `etag`. Raises PreconditionFailed; Unavailable if it cannot be told."""
        return await put_with_retries(self._inner, key, body, IfMatch(etag), metadata, self._mark(), self._retrier)

    async def start_multipart(self, key: Key, *, metadata: Metadata | None = None) -> MultipartUpload:
        """Begin an upload in parts."""
        mark = self._mark()
        upload = await self._retrier.run(lambda _: self._inner.start_multipart(key, metadata=mark.on(metadata)))
        return _RetryingUpload(self._inner, upload, mark, self._retrier)

    async def list_uploads(self, prefix: str = "") -> AsyncIterator[OpenUpload]:
        """Open uploads. Held all at once, so that an error on the way repeats none of them."""

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
        """Bytes from `start` up to `end`."""
        return await self._retrier.run(lambda _: self._inner.get_range(key, start, end))

    async def stream(self, key: Key, start: int = 0, end: int | None = None) -> AsyncIterator[bytes]:
        """The bytes in pieces. Retries until the first one is there."""

        async def begin(_: int) -> tuple[AsyncIterator[bytes], bytes]:
            pieces = self._inner.stream(key, start, end)
            return pieces, await anext(pieces, b"")

        pieces, piece = await self._retrier.run(begin)
        if piece:
            yield piece
            async for piece in pieces:
                yield piece

    async def head(self, key: Key) -> ObjectHead:
        """Size, ETag, time and the caller's metadata, without our id."""
        head = await self._retrier.run(lambda _: self._inner.head(key))
        return replace(head, metadata={name: value for name, value in head.metadata.items() if name != PUT_ID})

    async def list_prefix(self, prefix: str = "", start_after: str = "") -> AsyncIterator[ObjectHead]:
        """Objects in order. After an error the listing goes on behind the last key told."""
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
        """Remove many. After an error all of them are asked for again."""
        await self._retrier.run(lambda _: self._inner.delete_many(keys))

    async def close(self) -> None:
        """Close the inner store."""
        await self._inner.close()

    def _mark(self) -> WriteIdentity:
        return WriteIdentity(PUT_ID, self._new_id())


class _RetryingUpload:
    """A begun upload whose parts and end are tried again."""

    def __init__(self, storage: ObjectStorage, inner: MultipartUpload, mark: WriteIdentity, retrier: Retrier) -> None:
        self._storage = storage
        self._inner = inner
        self._mark = mark
        self._retrier = retrier

    @property
    def key(self) -> Key:
        """Where the object will be."""
        return self._inner.key

    @property
    def upload_id(self) -> str:
        """The store's name for this upload."""
        return self._inner.upload_id

    async def upload_part(self, number: int, body: ByteSource) -> PartReceipt:
        """Send a part."""
        return await self._retrier.run(lambda _: self._inner.upload_part(number, body))

    async def complete(self, parts: Sequence[PartReceipt], condition: WriteCondition | None = None) -> ObjectVersion:
        """Make the object of these parts."""
        return await complete_with_retries(self._storage, self._inner, parts, condition, self._mark, self._retrier)

    async def abort(self) -> None:
        """Forget the upload and free its parts."""
        await self._retrier.run(lambda _: self._inner.abort())
