"""Combines writes into one object: a single put if it stays small, else a multipart upload.

    Buffering ── finish ──────────────────────────────► Done      one put, no upload
        │ a part is full
      Opening ─► Uploading ── finish ─► Completing ────► Done
        any of these ── abort, cancellation ──────────► Aborted
                     └─ permanent error ──────────────► Failed

The invariants:

- At most `part_size_bytes × (max_in_flight + 1)` bytes are held, besides the caller's chunk: bytes are only taken into
  a buffer with room, and a full buffer is sent before more are taken. Later parts are larger (see below); then fewer
  of them are in flight, but at least one.
- Unless the writer succeeds, the upload is aborted after the parts in flight have ended; a cancellation does not stop
  that. If the store cannot be reached, the error has a note, and the orphan sweep aborts the upload.
- All parts but the last have the same size up to 1,000 parts, as some stores require. Then the size doubles every 1,000
  parts, so that 10,000 parts are enough for any object.
"""

from __future__ import annotations

import asyncio
from collections.abc import AsyncIterator, Callable, Coroutine
from contextlib import asynccontextmanager
from dataclasses import dataclass
from enum import Enum
from types import TracebackType
from typing import Any, Final, TypeVar

from ..core.errors import InvalidSetting, LakebedError, StateConflict, TooLarge, WriteConflict
from .backoff import Retrier
from .budget import ByteBudget
from .keys import check_key, check_metadata
from .retry import WriteIdentity, complete_with_retries, new_write_id, put_with_retries
from .seam import (
    MAX_PARTS,
    MIN_PART_BYTES,
    ByteSource,
    Key,
    Metadata,
    MultipartUpload,
    ObjectStorage,
    ObjectVersion,
    PartReceipt,
    WriteCondition,
)

__all__ = ["WRITE_ID", "BufferedMultipartWriter", "WriterResult", "WriterSettings", "WriterState", "part_size_at"]

WRITE_ID: Final = "lakebedwriteid"
"""Metadata name of the id that identifies a writer's object. Not the one of `retry`, which hides its own."""

T = TypeVar("T")

_MAX_PART_BYTES: Final = 5 * 1024**3
_EQUAL_PARTS: Final = 1000


class WriterState(Enum):
    """The state of a writer."""

    BUFFERING = "buffering"
    OPENING = "opening"
    UPLOADING = "uploading"
    COMPLETING = "completing"
    DONE = "done"
    ABORTED = "aborted"
    FAILED = "failed"


@dataclass(frozen=True, slots=True)
class WriterSettings:
    """Part sizes and concurrency, validated when configuration is read."""

    part_size_bytes: int = 8 * 1024 * 1024
    """Also the size from which an object is uploaded in parts."""

    max_in_flight: int = 4
    min_part_bytes: int = MIN_PART_BYTES
    """The store's minimum."""

    def __post_init__(self) -> None:
        if not self.min_part_bytes <= self.part_size_bytes <= _MAX_PART_BYTES:
            raise InvalidSetting(
                f"part_size_bytes: must be {self.min_part_bytes} to {_MAX_PART_BYTES}. value={self.part_size_bytes}"
            )
        if self.max_in_flight < 1:
            raise InvalidSetting(f"max_in_flight: must be at least 1. value={self.max_in_flight}")


@dataclass(frozen=True, slots=True)
class WriterResult:
    """The object that a writer created."""

    etag: str
    size: int
    version: str | None = None


def part_size_at(number: int, first_bytes: int) -> int:
    """The size of part `number` if the first one has `first_bytes`."""
    return min(first_bytes << ((number - 1) // _EQUAL_PARTS), _MAX_PART_BYTES)


class BufferedMultipartWriter:
    """Writes one object. Used by one task at a time; `async with` aborts it unless it was finished.

    With a `budget`, the parts in flight of all writers that share it stay within it; each holds one buffer in addition.
    Nothing is durable before `finish` returns: until then bytes may exist in this process only.
    """

    def __init__(
        self,
        storage: ObjectStorage,
        key: Key,
        *,
        condition: WriteCondition | None = None,
        metadata: Metadata | None = None,
        settings: WriterSettings | None = None,
        retrier: Retrier | None = None,
        budget: ByteBudget | None = None,
        new_id: Callable[[], str] = new_write_id,
    ) -> None:
        check_key(key)
        self._storage = storage
        self._key = key
        self._condition = condition
        self._mark = WriteIdentity(WRITE_ID, new_id())
        self._metadata = check_metadata(metadata)
        self._settings = WriterSettings() if settings is None else settings
        self._retrier = Retrier() if retrier is None else retrier
        self._slots = ByteBudget(self._settings.part_size_bytes * self._settings.max_in_flight)
        self._budget = budget
        self._state = WriterState.BUFFERING
        self._buffer = bytearray()
        self._size = 0
        self._upload: MultipartUpload | None = None
        self._next_part = 1
        self._tasks: set[asyncio.Task[None]] = set()
        self._receipts: dict[int, PartReceipt] = {}
        self._failure: Exception | None = None
        # Sent parts, kept in case the store discards the upload (409 at completion). Only while all of them are within
        # the bound anyway, and not with a budget, which other writers wait for.
        self._kept: dict[int, bytearray] | None = {} if condition is not None and budget is None else None

    @property
    def state(self) -> WriterState:
        """The writer's state."""
        return self._state

    @property
    def held_bytes(self) -> int:
        """Bytes in memory for this writer: buffered, in flight, or kept for another upload."""
        kept = 0 if self._kept is None else sum(map(len, self._kept.values()))
        return len(self._buffer) + (kept or self._slots.held_bytes)

    async def __aenter__(self) -> BufferedMultipartWriter:
        return self

    async def __aexit__(
        self, kind: type[BaseException] | None, error: BaseException | None, traceback: TracebackType | None
    ) -> None:
        if self._state in _ENDED:
            return
        if error is None:
            await self.abort()
        else:
            await self._fail(error)

    async def write(self, body: ByteSource) -> None:
        """Add bytes; waits while too many are in flight. The body may be reused afterwards.

        Raises the permanent error of an earlier part, TooLarge, StateConflict after the end.
        """
        self._require(WriterState.BUFFERING, WriterState.UPLOADING)
        async with self._failing_on_error():
            self._raise_failure()
            view = memoryview(body)
            while view:
                room = part_size_at(self._next_part, self._settings.part_size_bytes) - len(self._buffer)
                piece, view = view[:room], view[room:]
                self._buffer += piece
                self._size += len(piece)
                if len(piece) == room:
                    await self._send_buffer()

    async def finish(self) -> WriterResult:
        """Create the object.

        Raises AlreadyExists or PreconditionFailed if the condition is false, WriteConflict if that is undecided and the
        parts are not kept, StateConflict after the end.
        """
        self._require(WriterState.BUFFERING, WriterState.UPLOADING)
        async with self._failing_on_error():
            if self._state is WriterState.BUFFERING:
                self._state = WriterState.COMPLETING
                version = await put_with_retries(
                    self._storage, self._key, self._buffer, self._condition, self._metadata, self._mark, self._retrier
                )
            else:
                if self._buffer:
                    await self._send_buffer()
                await self._wait_parts()
                self._state = WriterState.COMPLETING
                version = await self._retrier.run(self._complete, retryable=self._can_send_again)
        self._end(WriterState.DONE)
        return WriterResult(version.etag, self._size, version.version)

    async def abort(self) -> None:
        """Abort the upload: nothing becomes visible and nothing remains. Does nothing after the end.

        Raises the store's error if the upload could not be aborted.
        """
        if self._state not in _ENDED:
            self._end(WriterState.ABORTED)
            await _run_to_end(self._clean_up())

    def _require(self, *states: WriterState) -> None:
        if self._state not in states:
            raise StateConflict(f"writer is not in a state for this call. state={self._state.value} key={self._key}")

    async def _send_buffer(self) -> None:
        """Send the buffer as the next part, once another part may be in flight."""
        if self._next_part > MAX_PARTS:
            raise TooLarge(f"object exceeds the limit of parts. size={self._size} maximum={MAX_PARTS}")
        if self._kept is not None and self._size > self._slots.total_bytes:
            self._kept = None
        count = len(self._buffer)
        await self._acquire(count)
        try:
            self._raise_failure()  # of another part, during the wait
            self._require(WriterState.BUFFERING, WriterState.UPLOADING)
            if self._state is WriterState.BUFFERING:
                self._state = WriterState.OPENING
                await self._open()
                self._require(WriterState.OPENING)  # unless another task aborted: then this one cleans up
                self._state = WriterState.UPLOADING
        except BaseException:
            self._release(count)
            raise
        body, self._buffer = self._buffer, bytearray()
        if self._kept is not None:
            self._kept[self._next_part] = body
        self._start_part(self._next_part, body)
        self._next_part += 1

    async def _acquire(self, count: int) -> None:
        """Reserve `count` bytes in flight: in this writer first, then in the shared budget."""
        await self._slots.acquire(count)
        if self._budget is not None:
            try:
                await self._budget.acquire(count)
            except BaseException:
                self._slots.release(count)
                raise

    def _release(self, count: int) -> None:
        self._slots.release(count)
        if self._budget is not None:
            self._budget.release(count)

    async def _open(self) -> None:
        async def begin() -> MultipartUpload:
            self._upload = await self._storage.start_multipart(self._key, metadata=self._mark.add_to(self._metadata))
            return self._upload

        # A cancellation waits for the response: an upload whose id is unknown could never be aborted.
        await self._retrier.run(lambda _: _run_to_end(begin()))

    def _start_part(self, number: int, body: bytearray) -> None:
        """Send a part in its own task. Its bytes are reserved already."""
        if self._upload is None:
            raise StateConflict(f"no upload to send a part to. part={number}")
        task = asyncio.create_task(self._send_part(self._upload, number, body))
        self._tasks.add(task)
        task.add_done_callback(self._tasks.discard)
        # A callback, because a task that is cancelled before its first step never runs.
        task.add_done_callback(lambda _: self._release(len(body)))

    async def _send_part(self, upload: MultipartUpload, number: int, body: bytearray) -> None:
        try:
            # A cancellation waits for the request: a part that lands after the abort could remain.
            receipt = await self._retrier.run(lambda _: _run_to_end(upload.upload_part(number, body)))
        except Exception as error:
            if self._failure is None:
                self._failure = error
            for task in self._tasks - {asyncio.current_task()}:
                task.cancel()
        else:
            self._receipts[number] = receipt

    async def _wait_parts(self) -> None:
        while self._tasks:
            await asyncio.wait(self._tasks)
        self._raise_failure()

    def _raise_failure(self) -> None:
        if self._failure is not None:
            raise self._failure

    async def _complete(self, conflicts: int) -> ObjectVersion:
        if conflicts:
            await self._send_again()
        if self._upload is None:
            raise StateConflict(f"no upload to complete. key={self._key}")
        parts = [self._receipts[number] for number in range(1, self._next_part)]
        return await complete_with_retries(
            self._storage, self._upload, parts, self._condition, self._mark, self._retrier
        )

    def _can_send_again(self, error: LakebedError) -> bool:
        return isinstance(error, WriteConflict) and self._kept is not None

    async def _send_again(self) -> None:
        """Send the kept parts as a new upload, because the store discarded the old one."""
        await self._abort_upload()
        self._receipts.clear()
        await self._open()
        for number, body in (self._kept or {}).items():
            await self._acquire(len(body))
            self._start_part(number, body)
        await self._wait_parts()

    @asynccontextmanager
    async def _failing_on_error(self) -> AsyncIterator[None]:
        try:
            yield
        except BaseException as error:
            await self._fail(error)
            raise

    async def _fail(self, error: BaseException) -> None:
        """End because of `error`. A further error is added to it as a note."""
        if self._state not in _ENDED:
            self._end(WriterState.ABORTED if isinstance(error, asyncio.CancelledError) else WriterState.FAILED)
        try:
            await _run_to_end(self._clean_up())
        except LakebedError as second:
            error.add_note(f"the upload could not be aborted: {second}")

    async def _clean_up(self) -> None:
        for task in self._tasks:
            task.cancel()
        while self._tasks:
            await asyncio.wait(self._tasks)
        await self._abort_upload()

    async def _abort_upload(self) -> None:
        if self._upload is not None:
            upload = self._upload
            await self._retrier.run(lambda _: upload.abort())
            self._upload = None

    def _end(self, state: WriterState) -> None:
        self._state = state
        self._buffer = bytearray()
        self._kept = None


_ENDED: Final = frozenset({WriterState.DONE, WriterState.ABORTED, WriterState.FAILED})


async def _run_to_end(work: Coroutine[Any, Any, T]) -> T:  # Any: send and yield types concern only the event loop
    """Run `work` to its end even if this task is cancelled meanwhile; the cancellation is raised afterwards."""
    task = asyncio.create_task(work)
    cancelled: asyncio.CancelledError | None = None
    while not task.done():
        try:
            await asyncio.wait({task})
        except asyncio.CancelledError as error:
            cancelled = error
    if cancelled is not None:
        if not task.cancelled():
            task.exception()  # retrieved, so that asyncio does not log it
        raise cancelled
    return task.result()
