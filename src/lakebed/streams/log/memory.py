"""A log in memory: the twin for tests, with the same decisions and nothing on a disk."""

from __future__ import annotations

import bisect
from collections.abc import Callable, Sequence

from lakebed.core.clock import Clock, SystemClock
from lakebed.fluss.errors import ErrorCode, FlussError
from lakebed.streams.seam import Acks, Appended, Fetched

from .admission import Admission
from .presentation import PLAIN, Presentation
from .waiting import Waiters

__all__ = ["MemoryLog"]


class MemoryLog:
    """A bucket's log that is gone with the process. What is appended is as stable as it gets at once."""

    def __init__(
        self,
        clock: Clock | None = None,
        *,
        presentation: Presentation = PLAIN,
        max_batch_bytes: int = 16 * 1024 * 1024,
    ) -> None:
        self._admission = Admission(SystemClock() if clock is None else clock, max_batch_bytes, presentation.knows)
        self._presentation = presentation
        self._batches: list[bytes] = []
        self._offsets: list[int] = []
        self._times: list[int] = []
        self._start = 0
        self._waiters = Waiters()
        self.is_closed = False

    @property
    def start_offset(self) -> int:
        """The first that can be read."""
        return self._start

    @property
    def end_offset(self) -> int:
        """The one after the last that was written."""
        return self._admission.end_offset

    @property
    def stable_offset(self) -> int:
        """The same: there is nothing more stable than memory here."""
        return self._admission.end_offset

    def enqueue(self, records: bytes | memoryview) -> Appended:
        """Give batches their places, and have them."""
        if self.is_closed:
            raise FlussError(ErrorCode.NOT_LEADER_OR_FOLLOWER, "log is closed")
        admitted = self._admission.admit(records)
        body = b"".join(admitted.pieces)
        position = 0
        for offset, size in admitted.entries:
            self._batches.append(body[position : position + size])
            self._offsets.append(offset)
            self._times.append(admitted.timestamp_ms)
            position += size
        self._waiters.reached(self.end_offset)
        return admitted.appended

    async def settle(self, offset: int) -> None:
        """Nothing to wait for."""

    async def append(self, records: bytes | memoryview, acks: Acks) -> Appended:
        """Append batches."""
        return self.enqueue(records)

    async def read(self, offset: int, max_bytes: int, columns: Sequence[int] | None = None) -> Fetched:
        """Batches from the one with `offset` on."""
        self._presentation.check(columns)
        found = await self.read_stored(offset, max_bytes)
        if not found.records or not self._presentation.changes(columns):
            return found
        return Fetched(self._presentation.present(found.records, columns), found.next_offset)

    async def read_stored(self, offset: int, max_bytes: int) -> Fetched:
        """The same as they were appended."""
        if not self._start <= offset <= self.end_offset:
            raise FlussError(
                ErrorCode.LOG_OFFSET_OUT_OF_RANGE,
                f"offset is not in the log. offset={offset} start={self._start} end={self.end_offset}",
            )
        if offset == self.end_offset:
            return Fetched(b"", offset)
        first = last = bisect.bisect_right(self._offsets, offset) - 1
        size = 0
        while last < len(self._batches) and (last == first or size + len(self._batches[last]) <= max_bytes):
            size += len(self._batches[last])
            last += 1
        after = self._offsets[last] if last < len(self._offsets) else self.end_offset
        return Fetched(b"".join(self._batches[first:last]), after)

    async def locate(self, offset: int, columns: Sequence[int] | None = None) -> Fetched | None:
        """Nothing is elsewhere."""
        return None

    async def wait_for(self, offset: int) -> None:
        """Return when a record at `offset` or later can be read, or the log is closed."""
        if offset >= self.end_offset and not self.is_closed:
            await self._waiters.wait(offset + 1)

    def watch(self, offset: int, told: Callable[[], None]) -> Callable[[], None]:
        """Have `told` called when `wait_for` would return."""
        if offset >= self.end_offset and not self.is_closed:
            return self._waiters.add(offset + 1, told)
        told()
        return lambda: None

    async def find_time(self, timestamp_ms: int) -> int:
        """The offset of the first batch that was committed then or later."""
        at = bisect.bisect_left(self._times, timestamp_ms)
        return self._offsets[at] if at < len(self._offsets) else self.end_offset

    def forget(self, offset: int) -> None:
        """Let go of the batches whose records are all before `offset`, as retention does."""
        at = max(bisect.bisect_right(self._offsets, offset) - 1, 0)
        del self._batches[:at], self._offsets[:at], self._times[:at]
        self._start = self._offsets[0] if self._offsets else self.end_offset

    @property
    def failure(self) -> FlussError | None:
        """None: memory does not refuse."""
        return None

    async def close(self) -> None:
        """Let go of all who wait."""
        self.is_closed = True
        self._waiters.release()

    async def remove(self) -> None:
        """Close it and let go of all there is."""
        await self.close()
        self._batches, self._offsets, self._times = [], [], []
