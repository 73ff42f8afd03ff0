"""A byte store that counts: calls, bytes, time and errors of every operation."""

from __future__ import annotations

from bisect import bisect_left
from collections import Counter
from collections.abc import AsyncIterator, Iterator, Mapping, Sequence
from contextlib import contextmanager
from dataclasses import dataclass
from types import MappingProxyType
from typing import Final

from ..core.clock import Clock
from .seam import (
    ByteSource,
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

__all__ = ["BUCKET_SECONDS", "InstrumentedStorage", "OperationStatistics"]

BUCKET_SECONDS: Final = (0.001, 0.0025, 0.005, 0.01, 0.025, 0.05, 0.1, 0.25, 0.5, 1.0, 2.5, 5.0, 10.0, 30.0)
"""Upper ends of the duration buckets; the last bucket of all has none."""


@dataclass(frozen=True, slots=True)
class OperationStatistics:
    """What one operation has done since the start."""

    calls: int
    """Finished calls, failed ones among them. A listing or stream is one call from its first step to its last."""

    in_flight: int
    bytes_sent: int
    bytes_received: int
    seconds: float
    """Time of all finished calls together."""

    buckets: tuple[int, ...]
    """Finished calls by duration: one count for each of `BUCKET_SECONDS`, and one for longer ones."""

    errors: Mapping[str, int]
    """Failed calls by the name of the error's class; `CancelledError` among them."""


class _Tally:
    """The growing numbers of one operation."""

    __slots__ = ("buckets", "calls", "errors", "in_flight", "received", "seconds", "sent")

    def __init__(self) -> None:
        self.calls = 0
        self.in_flight = 0
        self.sent = 0
        self.received = 0
        self.seconds = 0.0
        self.buckets = [0] * (len(BUCKET_SECONDS) + 1)
        self.errors: Counter[str] = Counter()

    def snapshot(self) -> OperationStatistics:
        return OperationStatistics(
            self.calls,
            self.in_flight,
            self.sent,
            self.received,
            self.seconds,
            tuple(self.buckets),
            MappingProxyType(dict(self.errors)),
        )


class InstrumentedStorage:
    """An ObjectStorage around another that knows what was asked of it. Names of operations are those of the methods."""

    def __init__(self, inner: ObjectStorage, clock: Clock) -> None:
        self._inner = inner
        self._clock = clock
        self._tallies: dict[str, _Tally] = {}

    def statistics(self) -> Mapping[str, OperationStatistics]:
        """The numbers as they are now, by operation, in an order that does not change. They never change themselves."""
        return MappingProxyType({name: self._tallies[name].snapshot() for name in sorted(self._tallies)})

    async def put(self, key: Key, body: ByteSource, *, metadata: Metadata | None = None) -> ObjectVersion:
        """Write the whole object."""
        with self._measured("put") as tally:
            version = await self._inner.put(key, body, metadata=metadata)
            tally.sent += len(body)
            return version

    async def put_if_absent(self, key: Key, body: ByteSource, *, metadata: Metadata | None = None) -> ObjectVersion:
        """Create `key`."""
        with self._measured("put_if_absent") as tally:
            version = await self._inner.put_if_absent(key, body, metadata=metadata)
            tally.sent += len(body)
            return version

    async def put_if_match(
        self, key: Key, body: ByteSource, etag: str, *, metadata: Metadata | None = None
    ) -> ObjectVersion:
        """Replace `key` if it still has `etag`."""
        with self._measured("put_if_match") as tally:
            version = await self._inner.put_if_match(key, body, etag, metadata=metadata)
            tally.sent += len(body)
            return version

    async def start_multipart(self, key: Key, *, metadata: Metadata | None = None) -> MultipartUpload:
        """Begin an upload in parts."""
        with self._measured("start_multipart"):
            return _InstrumentedUpload(self, await self._inner.start_multipart(key, metadata=metadata))

    async def list_uploads(self, prefix: str = "") -> AsyncIterator[OpenUpload]:
        """Open uploads."""
        with self._measured("list_uploads"):
            async for upload in self._inner.list_uploads(prefix):
                yield upload

    async def abort_upload(self, key: Key, upload_id: str) -> None:
        """Abort an upload found by `list_uploads`."""
        with self._measured("abort_upload"):
            await self._inner.abort_upload(key, upload_id)

    async def get(self, key: Key) -> bytes:
        """The whole object."""
        with self._measured("get") as tally:
            body = await self._inner.get(key)
            tally.received += len(body)
            return body

    async def get_range(self, key: Key, start: int, end: int) -> bytes:
        """Bytes from `start` up to `end`."""
        with self._measured("get_range") as tally:
            body = await self._inner.get_range(key, start, end)
            tally.received += len(body)
            return body

    async def stream(self, key: Key, start: int = 0, end: int | None = None) -> AsyncIterator[bytes]:
        """The bytes in pieces. The time includes what the caller takes between them."""
        with self._measured("stream") as tally:
            async for piece in self._inner.stream(key, start, end):
                tally.received += len(piece)
                yield piece

    async def head(self, key: Key) -> ObjectHead:
        """Size, ETag, time and metadata."""
        with self._measured("head"):
            return await self._inner.head(key)

    async def list_prefix(self, prefix: str = "", start_after: str = "") -> AsyncIterator[ObjectHead]:
        """Objects in order. The time includes what the caller takes between them."""
        with self._measured("list_prefix"):
            async for head in self._inner.list_prefix(prefix, start_after):
                yield head

    async def delete(self, key: Key) -> None:
        """Remove the object."""
        with self._measured("delete"):
            await self._inner.delete(key)

    async def delete_many(self, keys: Sequence[Key]) -> None:
        """Remove many."""
        with self._measured("delete_many"):
            await self._inner.delete_many(keys)

    async def close(self) -> None:
        """Close the inner store."""
        await self._inner.close()

    @contextmanager
    def _measured(self, operation: str) -> Iterator[_Tally]:
        tally = self._tallies.get(operation)
        if tally is None:
            tally = self._tallies[operation] = _Tally()
        started = self._clock.monotonic()
        tally.in_flight += 1
        try:
            yield tally
        except GeneratorExit:
            raise  # the caller has read as much as it wanted, which is no error
        except BaseException as error:
            tally.errors[type(error).__name__] += 1
            raise
        finally:
            seconds = self._clock.monotonic() - started
            tally.in_flight -= 1
            tally.calls += 1
            tally.seconds += seconds
            tally.buckets[bisect_left(BUCKET_SECONDS, seconds)] += 1


class _InstrumentedUpload:
    """A begun upload whose operations are counted as `upload_part`, `complete` and `abort`."""

    def __init__(self, storage: InstrumentedStorage, inner: MultipartUpload) -> None:
        self._storage = storage
        self._inner = inner

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
        with self._storage._measured("upload_part") as tally:
            receipt = await self._inner.upload_part(number, body)
            tally.sent += len(body)
            return receipt

    async def complete(self, parts: Sequence[PartReceipt], condition: WriteCondition | None = None) -> ObjectVersion:
        """Make the object of these parts."""
        with self._storage._measured("complete"):
            return await self._inner.complete(parts, condition)

    async def abort(self) -> None:
        """Forget the upload and free its parts."""
        with self._storage._measured("abort"):
            await self._inner.abort()
