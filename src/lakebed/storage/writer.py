"""Many small writes become one object: a single put if they stay small, a multipart upload if they do not.

    Buffering ── finish ──────────────────────────────► Done      one put, nothing left behind
        │ a part is full
     Opening ─► Uploading ── finish ─► Completing ────► Done
        any of these ── abort, cancellation ──────────► Aborted
                     └─ an error for good ────────────► Failed

The invariants:

- Bytes held are at most `part_size_bytes × (max_in_flight + 1)`, besides the caller's chunk: a writer takes bytes only
  into a buffer that has room, and hands a full buffer over before it takes more. Later parts are larger (below); then
  fewer of them are in flight, one at least.
- Whatever ends the writer but success, the upload is aborted after the parts in flight have come to their end, and no
  cancellation stops that. If the store cannot be reached even then, the error carries a note; sweepers find the rest.
- All parts but the last are of equal size as far as 1,000 of them, as some stores want; from then on the size doubles
  every 1,000 parts, so that 10,000 of them are enough for any object.
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
"""Metadata name of the id that a writer knows its object by. Not the one of `retry`, which hides its own."""

T = TypeVar("T")

_MAX_PART_BYTES: Final = 5 * 1024**3
_EQUAL_PARTS: Final = 1000


class WriterState(Enum):
    """Where a writer is."""

    BUFFERING = "buffering"
    OPENING = "opening"
    UPLOADING = "uploading"
    COMPLETING = "completing"
    DONE = "done"
    ABORTED = "aborted"
    FAILED = "failed"


@dataclass(frozen=True, slots=True)
class WriterSettings:
    """Sizes. Checked here, when configuration is read, not when the first upload fails."""

    part_size_bytes: int = 8 * 1024 * 1024
    """Also the size from which on an object is uploaded in parts."""

    max_in_flight: int = 4
    min_part_bytes: int = MIN_PART_BYTES
    """What the store asks for."""

    def __post_init__(self) -> None:
        if not self.min_part_bytes <= self.part_size_bytes <= _MAX_PART_BYTES:
            raise InvalidSetting(
                f"part_size_bytes: must be {self.min_part_bytes} to {_MAX_PART_BYTES}. value={self.part_size_bytes}"
            )
        if self.max_in_flight < 1:
            raise InvalidSetting(f"max_in_flight: must be at least 1. value={self.max_in_flight}")


@dataclass(frozen=True, slots=True)
class WriterResult:
    """What a finished writer made."""

    etag: str
    size: int
    version: str | None = None


def part_size_at(number: int, first_bytes: int) -> int:
    """The size of part `number` when the first one has `first_bytes`."""
    return min(first_bytes << ((number - 1) // _EQUAL_PARTS), _MAX_PART_BYTES)


class BufferedMultipartWriter:
    """Writes one object. One task at a time drives it; `async with` aborts it unless it was finished.

    With a `budget`, the parts in flight of all writers that share it stay within it; each holds one buffer besides.
    Nothing is acknowledged by the store before `finish` returns: until then the bytes may live in this process only.
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
        # Parts that were sent and are kept in case the store gives the upload up (409 at completion). Only while
        # everything together is within the bound anyway, and never against a budget that others wait for.
        self._kept: dict[int, bytearray] | None = {} if condition is not None and budget is None else None

    @property
    def state(self) -> WriterState:
        """Where the writer is."""
        return self._state

    @property
    def held_bytes(self) -> int:
        """Bytes in memory for this writer: buffered, in flight, or kept to be sent again."""
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
            await self._give_up(error)

    async def write(self, body: ByteSource) -> None:
        """Take bytes; waits while too many are in flight. The body may be reused afterwards.

        Raises what stopped an earlier part for good, TooLarge, StateConflict after the end.
        """
        self._require(WriterState.BUFFERING, WriterState.UPLOADING)
        async with self._giving_up_on_error():
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
        """Make the object.

        Raises AlreadyExists or PreconditionFailed if the condition is false, WriteConflict if that is undecided and the
        bytes are not held any more, StateConflict after the end.
        """
        self._require(WriterState.BUFFERING, WriterState.UPLOADING)
        async with self._giving_up_on_error():
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
        """Give up: nothing becomes visible, nothing stays behind. Nothing happens once the writer has ended.

        Raises what kept the store from aborting the upload.
        """
        if self._state not in _ENDED:
            self._end(WriterState.ABORTED)
            await _run_to_end(self._clean_up())

    def _require(self, *states: WriterState) -> None:
        if self._state not in states:
            raise StateConflict(f"writer takes no such call now. state={self._state.value} key={self._key}")

    async def _send_buffer(self) -> None:
        """Hand the buffer over as the next part, once there is room for another one in flight."""
        if self._next_part > MAX_PARTS:
            raise TooLarge(f"object needs too many parts. size={self._size} maximum={MAX_PARTS}")
        if self._kept is not None and self._size > self._slots.total_bytes:
            self._kept = None
        count = len(self._buffer)
        await self._hold(count)
        try:
            self._raise_failure()  # of another part, while we waited
            self._require(WriterState.BUFFERING, WriterState.UPLOADING)
            if self._state is WriterState.BUFFERING:
                self._state = WriterState.OPENING
                await self._open()
                self._require(WriterState.OPENING)  # unless another task has aborted us: then this one cleans up
                self._state = WriterState.UPLOADING
        except BaseException:
            self._release(count)
            raise
        body, self._buffer = self._buffer, bytearray()
        if self._kept is not None:
            self._kept[self._next_part] = body
        self._start_part(self._next_part, body)
        self._next_part += 1

    async def _hold(self, count: int) -> None:
        """Wait for room for `count` bytes in flight: here first, then among all writers."""
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
            self._upload = await self._storage.start_multipart(self._key, metadata=self._mark.on(self._metadata))
            return self._upload

        # An upload that was begun but not noted could never be aborted: so a cancellation waits for the answer.
        await self._retrier.run(lambda _: _run_to_end(begin()))

    def _start_part(self, number: int, body: bytearray) -> None:
        """Send a part in a task of its own. Room for it is held already."""
        if self._upload is None:
            raise StateConflict(f"no upload to send a part to. part={number}")
        task = asyncio.create_task(self._send_part(self._upload, number, body))
        self._tasks.add(task)
        task.add_done_callback(self._tasks.discard)
        # Not in the task: one that is cancelled before its first step never runs at all.
        task.add_done_callback(lambda _: self._release(len(body)))

    async def _send_part(self, upload: MultipartUpload, number: int, body: bytearray) -> None:
        try:
            # A part that lands after the abort could stay behind: so a cancellation waits for the one being sent.
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
        """Send what is kept as a new upload: the store has given the old one up."""
        await self._abort_upload()
        self._receipts.clear()
        await self._open()
        for number, body in (self._kept or {}).items():
            await self._hold(len(body))
            self._start_part(number, body)
        await self._wait_parts()

    @asynccontextmanager
    async def _giving_up_on_error(self) -> AsyncIterator[None]:
        try:
            yield
        except BaseException as error:
            await self._give_up(error)
            raise

    async def _give_up(self, error: BaseException) -> None:
        """End because of `error`, which is more interesting than what may go wrong meanwhile."""
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


async def _run_to_end(work: Coroutine[Any, Any, T]) -> T:  # Any: what a coroutine sends and yields is the loop's affair
    """Run `work` to its end even if we are cancelled meanwhile; the cancellation is raised then."""
    task = asyncio.create_task(work)
    cancelled: asyncio.CancelledError | None = None
    while not task.done():
        try:
            await asyncio.wait({task})
        except asyncio.CancelledError as error:
            cancelled = error
    if cancelled is not None:
        if not task.cancelled():
            task.exception()  # looked at, so that it is not reported as forgotten
        raise cancelled
    return task.result()
