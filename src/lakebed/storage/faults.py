"""A byte store that fails on purpose: what reality cannot do on demand, for tests."""

from __future__ import annotations

from collections import Counter
from collections.abc import AsyncIterator, Awaitable, Callable, Sequence
from dataclasses import dataclass
from random import Random
from typing import Protocol, TypeVar

from ..core.errors import LakebedError, Throttled, Unavailable
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

__all__ = [
    "Delay",
    "DelayAnswer",
    "FailAfter",
    "FailBefore",
    "FailPartway",
    "Fault",
    "FaultScript",
    "Faults",
    "FaultyStorage",
    "SeededFaults",
]

T = TypeVar("T")


@dataclass(frozen=True, slots=True)
class FailBefore:
    """The request never arrives."""

    error: LakebedError


@dataclass(frozen=True, slots=True)
class FailAfter:
    """The request is carried out and its answer lost. One that is refused is told so."""

    error: LakebedError


@dataclass(frozen=True, slots=True)
class FailPartway:
    """Some of it happens: a stream breaks after `count` bytes, a listing or batch after `count` items.

    Other operations are whole or not at all in every store, so for them this is FailBefore.
    """

    error: LakebedError
    count: int


@dataclass(frozen=True, slots=True)
class Delay:
    """The request waits for something before it is carried out: a pause, or an event that the test sets."""

    wait: Callable[[], Awaitable[object]]


@dataclass(frozen=True, slots=True)
class DelayAnswer:
    """The request is carried out at once, and its answer waits for something. Streams and listings end late."""

    wait: Callable[[], Awaitable[object]]


Fault = FailBefore | FailAfter | FailPartway | Delay | DelayAnswer


class Faults(Protocol):
    """Decides what goes wrong."""

    def next_fault(self, operation: str, key: str) -> Fault | None:
        """The fault of the call that is about to be made. Asked once for each call."""
        ...


class FaultScript:
    """Faults by operation and count: `FaultScript().on("put", FailAfter(Unavailable()), at=2)`.

    Operations are the methods of ObjectStorage and of MultipartUpload by name. The first call has number 1.
    """

    def __init__(self) -> None:
        self._faults: dict[tuple[str, int], Fault] = {}
        self._always: dict[str, Fault] = {}
        self._calls: Counter[str] = Counter()

    def on(self, operation: str, *faults: Fault, at: int = 1) -> FaultScript:
        """Let calls number `at`, `at + 1`, … of an operation meet these faults."""
        for number, fault in enumerate(faults, at):
            self._faults[operation, number] = fault
        return self

    def always(self, operation: str, fault: Fault) -> FaultScript:
        """Let every call of an operation that has no fault of its own meet this one."""
        self._always[operation] = fault
        return self

    def calls(self, operation: str) -> int:
        """How many calls were made so far."""
        return self._calls[operation]

    def next_fault(self, operation: str, key: str) -> Fault | None:
        """The fault of the call that is about to be made."""
        self._calls[operation] += 1
        return self._faults.get((operation, self._calls[operation]), self._always.get(operation))


class SeededFaults:
    """Random faults, the same for the same seed and order of calls: a share `rate` of all calls fails, at most
    `in_a_row` of one operation, so that whoever tries more often succeeds.
    """

    def __init__(self, random: Random, rate: float, *, in_a_row: int = 3) -> None:
        self._random = random
        self._rate = rate
        self._in_a_row = in_a_row
        self._failed: Counter[tuple[str, str]] = Counter()

    def next_fault(self, operation: str, key: str) -> Fault | None:
        """The fault of the call that is about to be made."""
        call = operation, key
        if self._failed[call] >= self._in_a_row or self._random.random() >= self._rate:
            self._failed[call] = 0
            return None
        self._failed[call] += 1
        match self._random.randrange(4):
            case 0:
                return FailBefore(Unavailable("injected: request lost"))
            case 1:
                return FailBefore(Throttled("injected: slow down"))
            case 2:
                return FailPartway(Unavailable("injected: connection broke"), self._random.randrange(1, 2000))
            case _:
                return FailAfter(Unavailable("injected: answer lost", undecided=True))


class FaultyStorage:
    """An ObjectStorage around another whose calls go wrong as `faults` decides."""

    def __init__(self, inner: ObjectStorage, faults: Faults) -> None:
        self._inner = inner
        self._faults = faults

    async def put(self, key: Key, body: ByteSource, *, metadata: Metadata | None = None) -> ObjectVersion:
        """Write the whole object."""
        return await self._call("put", key, lambda: self._inner.put(key, body, metadata=metadata))

    async def put_if_absent(self, key: Key, body: ByteSource, *, metadata: Metadata | None = None) -> ObjectVersion:
        """Create `key`."""
        return await self._call("put_if_absent", key, lambda: self._inner.put_if_absent(key, body, metadata=metadata))

    async def put_if_match(
        self, key: Key, body: ByteSource, etag: str, *, metadata: Metadata | None = None
    ) -> ObjectVersion:
        """Replace `key` if it still has `etag`."""
        return await self._call(
            "put_if_match", key, lambda: self._inner.put_if_match(key, body, etag, metadata=metadata)
        )

    async def start_multipart(self, key: Key, *, metadata: Metadata | None = None) -> MultipartUpload:
        """Begin an upload in parts."""
        upload = await self._call("start_multipart", key, lambda: self._inner.start_multipart(key, metadata=metadata))
        return _FaultyUpload(self, upload)

    def list_uploads(self, prefix: str = "") -> AsyncIterator[OpenUpload]:
        """Open uploads."""
        return self._iterate("list_uploads", prefix, lambda: self._inner.list_uploads(prefix))

    async def abort_upload(self, key: Key, upload_id: str) -> None:
        """Abort an upload found by `list_uploads`."""
        await self._call("abort_upload", key, lambda: self._inner.abort_upload(key, upload_id))

    async def get(self, key: Key) -> bytes:
        """The whole object."""
        return await self._call("get", key, lambda: self._inner.get(key))

    async def get_range(self, key: Key, start: int, end: int) -> bytes:
        """Bytes from `start` up to `end`."""
        return await self._call("get_range", key, lambda: self._inner.get_range(key, start, end))

    async def stream(self, key: Key, start: int = 0, end: int | None = None) -> AsyncIterator[bytes]:
        """The bytes in pieces. FailPartway counts bytes."""
        fault = await self._meet("stream", key)
        left = fault.count if isinstance(fault, FailPartway) else None
        async for piece in self._inner.stream(key, start, end):
            if left is not None and isinstance(fault, FailPartway):
                if len(piece) > left:
                    if left:
                        yield piece[:left]
                    raise fault.error
                left -= len(piece)
            yield piece
        await self._answer(fault)

    async def head(self, key: Key) -> ObjectHead:
        """Size, ETag, time and metadata."""
        return await self._call("head", key, lambda: self._inner.head(key))

    def list_prefix(self, prefix: str = "", start_after: str = "") -> AsyncIterator[ObjectHead]:
        """Objects in order."""
        return self._iterate("list_prefix", prefix, lambda: self._inner.list_prefix(prefix, start_after))

    async def delete(self, key: Key) -> None:
        """Remove the object."""
        await self._call("delete", key, lambda: self._inner.delete(key))

    async def delete_many(self, keys: Sequence[Key]) -> None:
        """Remove many. FailPartway counts keys."""
        fault = await self._meet("delete_many", keys[0] if keys else "")
        if isinstance(fault, FailPartway):
            await self._inner.delete_many(keys[: fault.count])
            raise fault.error
        await self._inner.delete_many(keys)
        await self._answer(fault)

    async def close(self) -> None:
        """Close the inner store."""
        await self._inner.close()

    async def _meet(self, operation: str, key: str) -> Fault | None:
        """Let happen what happens before the call; the fault, for what happens later."""
        fault = self._faults.next_fault(operation, key)
        if isinstance(fault, FailBefore):
            raise fault.error
        if isinstance(fault, Delay):
            await fault.wait()
        return fault

    async def _answer(self, fault: Fault | None) -> None:
        """Let happen what happens to the answer."""
        if isinstance(fault, FailAfter):
            raise fault.error
        if isinstance(fault, DelayAnswer):
            await fault.wait()

    async def _call(self, operation: str, key: str, work: Callable[[], Awaitable[T]]) -> T:
        fault = await self._meet(operation, key)
        if isinstance(fault, FailPartway):
            raise fault.error
        result = await work()
        await self._answer(fault)
        return result

    async def _iterate(self, operation: str, key: str, work: Callable[[], AsyncIterator[T]]) -> AsyncIterator[T]:
        fault = await self._meet(operation, key)
        told = 0
        async for item in work():
            if isinstance(fault, FailPartway) and told >= fault.count:
                raise fault.error
            told += 1
            yield item
        await self._answer(fault)


class _FaultyUpload:
    """A begun upload whose calls go wrong."""

    def __init__(self, storage: FaultyStorage, inner: MultipartUpload) -> None:
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
        return await self._storage._call("upload_part", self.key, lambda: self._inner.upload_part(number, body))

    async def complete(self, parts: Sequence[PartReceipt], condition: WriteCondition | None = None) -> ObjectVersion:
        """Make the object of these parts."""
        return await self._storage._call("complete", self.key, lambda: self._inner.complete(parts, condition))

    async def abort(self) -> None:
        """Forget the upload and free its parts."""
        await self._storage._call("abort", self.key, self._inner.abort)
