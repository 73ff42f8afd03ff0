"""An ObjectStorage over a blocking client, in a bounded thread pool.

Requests are sent once; the retry wrapper retries. Cancelling a caller does not stop its request; its result is dropped.
"""

from __future__ import annotations

import asyncio
from collections.abc import AsyncIterator, Callable, Sequence
from concurrent.futures import ThreadPoolExecutor
from dataclasses import replace
from functools import partial
from typing import Final, TypeVar

from ...core.errors import InvalidRange, NoSuchBucket, NotFound, NotSupported
from ..keys import check_metadata, encode_text, full_key, own_key
from ..seam import (
    ByteSource,
    IfAbsent,
    IfMatch,
    Key,
    Metadata,
    MultipartUpload,
    ObjectHead,
    ObjectVersion,
    OpenUpload,
    WriteCondition,
)
from .client import CloudClient

T = TypeVar("T")

_DELETES_AT_ONCE: Final = 1000


class CloudStorage:
    """Objects in one container or bucket, under a prefix. Used from one event loop.

    Multipart uploads are not supported, unless a subclass adds them.
    """

    def __init__(
        self,
        client: CloudClient,
        *,
        key_prefix: str,
        max_concurrency: int,
        keeps_order: Callable[[str], bool] = lambda key: True,
    ) -> None:
        """`keeps_order` is true for keys that the service lists in byte order relative to all others; see `_sorted`."""
        self._client = client
        self._key_prefix = key_prefix
        self._keeps_order = keeps_order
        self._threads = ThreadPoolExecutor(max_concurrency, thread_name_prefix="cloud-storage")

    async def put(self, key: Key, body: ByteSource, *, metadata: Metadata | None = None) -> ObjectVersion:
        """Write an object, replacing an existing one."""
        return await self._put(key, body, metadata, None)

    async def put_if_absent(self, key: Key, body: ByteSource, *, metadata: Metadata | None = None) -> ObjectVersion:
        """Create `key`. Raises AlreadyExists; WriteConflict if undecided."""
        return await self._put(key, body, metadata, IfAbsent())

    async def put_if_match(
        self, key: Key, body: ByteSource, etag: str, *, metadata: Metadata | None = None
    ) -> ObjectVersion:
        """Replace `key` if it still has `etag`. Raises PreconditionFailed; WriteConflict if undecided."""
        return await self._put(key, body, metadata, IfMatch(etag))

    async def start_multipart(self, key: Key, *, metadata: Metadata | None = None) -> MultipartUpload:
        """Raises NotSupported."""
        raise NotSupported(f"this object store has no multipart uploads. key={key!r}")

    def list_uploads(self, prefix: str = "") -> AsyncIterator[OpenUpload]:
        """Raises NotSupported."""
        raise NotSupported(f"this object store cannot list multipart uploads. prefix={prefix!r}")

    async def abort_upload(self, key: Key, upload_id: str) -> None:
        """Raises NotSupported, because no uploads are listed."""
        raise NotSupported(f"this object store cannot abort multipart uploads by id. key={key!r} upload={upload_id!r}")

    async def get(self, key: Key) -> bytes:
        """The whole object. Raises NotFound."""
        full = self.full_key(key)
        return await self.run(lambda: self._client.get(full))

    async def get_range(self, key: Key, start: int, end: int) -> bytes:
        """Bytes from `start` to `end`, exclusive. Raises NotFound, InvalidRange."""
        full = self.full_key(key)
        _check_range(start, end)
        found = await self.run(lambda: self._client.get_range(full, start, end))
        if not found:  # some services return nothing instead of an error for the range of an empty object
            raise InvalidRange(f"range not satisfiable. start={start} end={end} size=0", size=0)
        return found

    async def stream(self, key: Key, start: int = 0, end: int | None = None) -> AsyncIterator[bytes]:
        """A range in pieces, all of one version. Raises Unavailable if the object is replaced meanwhile."""
        full = self.full_key(key)
        _check_range(start, end)
        try:
            pieces = await self.run(lambda: self._client.open_stream(full, start, end))
        except InvalidRange:
            if start == 0:  # only an empty object has no first byte
                return
            raise
        found = False
        while (piece := await self.run(lambda: next(pieces, None))) is not None:
            if piece:
                found = True
                yield piece
        if start > 0 and not found:
            raise InvalidRange(f"range not satisfiable. start={start} size=0", size=0)

    async def head(self, key: Key) -> ObjectHead:
        """Size, ETag, time and metadata. Raises NotFound."""
        full = self.full_key(key)
        return replace(await self.run(lambda: self._client.head(full)), key=key)

    async def list_prefix(self, prefix: str = "", start_after: str = "") -> AsyncIterator[ObjectHead]:
        """Objects under `prefix` after `start_after`. Names that are not a valid `Key` are skipped."""
        wanted, after = encode_text(prefix), encode_text(start_after)
        if after > wanted and not after.startswith(wanted):
            return  # every key under the prefix is before the position
        listing = self._list(self._key_prefix + prefix, start_after if after.startswith(wanted) else "")
        async for head in self._sorted(listing):
            if head.key.encode() > after:
                yield head

    async def delete(self, key: Key) -> None:
        """Remove the object."""
        await self._delete(self.full_key(key))

    async def delete_many(self, keys: Sequence[Key]) -> None:
        """Remove objects, one request each."""
        full_keys = [self.full_key(key) for key in keys]
        for first in range(0, len(full_keys), _DELETES_AT_ONCE):
            some = full_keys[first : first + _DELETES_AT_ONCE]
            for outcome in await asyncio.gather(*map(self._delete, some), return_exceptions=True):
                if isinstance(outcome, BaseException):
                    raise outcome

    async def close(self) -> None:
        """Wait for running requests, then close connections and threads. Idempotent."""
        await asyncio.to_thread(self._threads.shutdown)
        await asyncio.to_thread(self._client.close)

    def full_key(self, key: Key) -> str:
        """The key in the container or bucket. Raises InvalidName."""
        return full_key(self._key_prefix, key)

    async def run(self, work: Callable[[], T]) -> T:
        """The result of blocking `work` in one of the threads."""
        return await asyncio.get_running_loop().run_in_executor(self._threads, work)

    async def _put(
        self, key: Key, body: ByteSource, metadata: Metadata | None, condition: WriteCondition | None
    ) -> ObjectVersion:
        full, checked = self.full_key(key), check_metadata(metadata)
        # A copy, in case the caller's buffer changes while a thread sends it; bytes are not copied.
        sent = bytes(body)
        return await self.run(lambda: self._client.put(full, sent, checked, condition))

    async def _list(self, full_prefix: str, start_after: str) -> AsyncIterator[ObjectHead]:
        start_from = self._key_prefix + start_after if start_after else None
        token: str | None = None
        while True:
            page = await self.run(partial(self._client.list_page, full_prefix, start_from, token))
            for head in page.heads:
                key = own_key(self._key_prefix, head.key)
                if key is not None:
                    yield replace(head, key=key)
            token = page.next_token
            if token is None:
                return

    async def _sorted(self, listing: AsyncIterator[ObjectHead]) -> AsyncIterator[ObjectHead]:
        """The listing in the order of UTF-8 bytes.

        Keys that keep the order separate the others, so only runs of others are held and sorted.
        """
        held: list[ObjectHead] = []
        async for head in listing:
            if not self._keeps_order(head.key):
                held.append(head)
                continue
            for earlier in sorted(held, key=_by_bytes):
                yield earlier
            held.clear()
            yield head
        for last in sorted(held, key=_by_bytes):
            yield last

    async def _delete(self, full: str) -> None:
        try:
            await self.run(lambda: self._client.delete(full))
        except NoSuchBucket:
            raise
        except NotFound:
            return


def _check_range(start: int, end: int | None) -> None:
    if start < 0 or (end is not None and end <= start):
        raise InvalidRange(f"range not satisfiable. start={start} end={end}", requested=f"{start}-{end}")


def _by_bytes(head: ObjectHead) -> bytes:
    return head.key.encode()
