"""Reads frames from a socket: in the order of their arrival, and within the memory budget of the process.

An incomplete frame gets its own buffer, which the socket then fills: records are not copied before they are in the log.
Small frames that arrived together are cut from the buffer that all connections share.

Without budget the socket is not read, and bytes that were read already wait: at most the size of the shared buffer. A
frame that is too large is discarded as it arrives, and so is all that follows: the client can read the error only while
the connection stays open.
"""

from __future__ import annotations

import asyncio
import logging
from abc import ABC, abstractmethod
from typing import Final

from .frame_budget import SMALL_BYTES, FrameBudget
from .frames import HEAD_BYTES, LENGTH_BYTES, read_length

log = logging.getLogger("lakebed.streams")

__all__ = ["FRAME_BYTES_PER_SECOND", "FRAME_SECONDS", "FrameReader"]

FRAME_SECONDS: Final = 60.0
"""Longest time from a frame's first byte to its last, while the socket is read."""

FRAME_BYTES_PER_SECOND: Final = 64 * 1024
"""A large frame may take its size at this rate in addition."""

_SCRATCH_BYTES: Final = 256 * 1024
_NOTHING: Final = memoryview(b"")


class FrameReader(asyncio.BufferedProtocol, ABC):
    """The receiving half of a connection. The subclass handles frames, and decides when to stop reading."""

    # Python shares attribute names between instances only up to a limit, so slots make access faster.
    __slots__ = (
        "_budget",
        "_fill",
        "_fill_used",
        "_fill_view",
        "_frame_bytes",
        "_frame_since",
        "_is_closing",
        "_is_discarding",
        "_is_full",
        "_is_paused",
        "_is_resuming",
        "_loop",
        "_max_frame_bytes",
        "_now",
        "_paused_at",
        "_peer",
        "_rest",
        "_transport",
        "_waits_for_budget",
        "last_activity",
    )

    # One scratch buffer serves every connection of the loop: its bytes are consumed before the callback returns.
    _scratch = bytearray(_SCRATCH_BYTES)
    _scratch_view = memoryview(_scratch)

    def __init__(self, budget: FrameBudget, max_frame_bytes: int) -> None:
        self._budget = budget
        self._max_frame_bytes = max_frame_bytes
        self._transport: asyncio.Transport = None  # type: ignore[assignment]  # set by connection_made before any use
        self._loop = asyncio.get_running_loop()
        self._now = self._loop.time
        self._peer = ""
        self._rest = _NOTHING
        self._fill: bytearray | None = None
        self._fill_view = self._scratch_view
        self._fill_used = 0
        self._frame_since = 0.0
        self._frame_bytes = 0
        self._is_full = False
        self._waits_for_budget = False
        self._is_paused = False
        self._paused_at = 0.0
        self._is_resuming = False
        self._is_discarding = False
        self._is_closing = False
        self.last_activity = self._now()

    # -- implemented by the subclass ------------------------------------------------------------------------------

    @abstractmethod
    def _handle_frame(self, frame: memoryview) -> None:
        """Handle a whole frame, which the budget counts."""

    @abstractmethod
    def _refuse_frame(self, head: memoryview, length: int) -> None:
        """Refuse a frame that is too large, given its header. No frame is read after it."""

    @abstractmethod
    def _discard(self, data: memoryview) -> None:
        """Handle the bytes after the header of a refused frame."""

    @abstractmethod
    def _apply_limits(self) -> None:
        """Call `_set_paused` with whether a limit is reached."""

    @abstractmethod
    def abort(self) -> None:
        """Close the connection at once."""

    # -- asyncio callbacks ----------------------------------------------------------------------------------------

    def get_buffer(self, sizehint: int) -> memoryview:
        """The buffer for the next bytes."""
        return self._scratch_view if self._fill is None else self._fill_view[self._fill_used :]

    def buffer_updated(self, nbytes: int) -> None:
        """Handle bytes that arrived in the buffer of `get_buffer`."""
        self.last_activity = self._now()
        fill = self._fill
        if fill is None:
            self._process(self._scratch_view[:nbytes])
            return
        self._fill_used += nbytes
        if self._fill_used == len(fill):
            frame, self._fill = self._fill_view, None
            self._handle_frame(frame)

    # -- frames ---------------------------------------------------------------------------------------------------

    def _process(self, data: memoryview) -> None:
        """Handle the whole frames within the limits, and keep the rest."""
        if self._is_discarding:
            self._discard(data)
            return
        since = now = self.last_activity
        if self._rest:
            data, since = memoryview(bytes(self._rest) + bytes(data)), self._frame_since
            self._rest = _NOTHING
        at, end = 0, len(data)
        while end - at >= LENGTH_BYTES and not self._is_full:
            length = read_length(data, at)
            if not HEAD_BYTES <= length <= self._max_frame_bytes:
                if length < HEAD_BYTES:
                    # Not the protocol: the next frame cannot be found.
                    log.warning(
                        "invalid frame length, closing the connection", extra={"peer": self._peer, "bytes": length}
                    )
                    self.abort()
                    return
                if end - at < LENGTH_BYTES + HEAD_BYTES:
                    break  # the header is incomplete
                self._start_discarding(data[at:end], length)
                return
            begin = at + LENGTH_BYTES
            if end - begin < length:
                if length > SMALL_BYTES and self._budget.is_full:
                    self._wait_for_budget()
                    break
                self._start_fill(data[at:end], since)
                return
            at = begin + length
            self._budget.acquire(length)
            self._handle_frame(memoryview(bytes(data[begin:at])))
            if self._is_closing:
                return
            since = now
        if at < end:
            self._keep_rest(data[at:end], since)

    def _keep_rest(self, rest: memoryview, since: float) -> None:
        # Bytes that wait already are not copied again for each frame.
        is_copied = self._is_full and rest.obj is not self._scratch
        self._rest = rest if is_copied else memoryview(bytes(rest))
        self._frame_since = since
        self._frame_bytes = 0

    def _start_fill(self, part: memoryview, since: float) -> None:
        """Let the socket fill a buffer with the rest of a frame."""
        length = read_length(part, 0)
        self._budget.acquire(length)
        self._fill = bytearray(length)
        self._fill_view = memoryview(self._fill)
        self._fill_used = len(part) - LENGTH_BYTES
        self._fill_view[: self._fill_used] = part[LENGTH_BYTES:]
        self._frame_since = since
        self._frame_bytes = length

    def _start_discarding(self, part: memoryview, length: int) -> None:
        """Discard this frame and all that follows."""
        self._is_discarding = True
        self._frame_since = self.last_activity
        self._frame_bytes = length
        begin = LENGTH_BYTES + HEAD_BYTES
        self._refuse_frame(part[LENGTH_BYTES:begin], length)
        self._discard(part[begin:])

    def _linger(self) -> None:
        """Give the client some time to read the error and to close."""
        self._frame_since = self.last_activity
        self._frame_bytes = 0

    def _release_frames(self) -> None:
        """Release the buffers and the budget of frames that were not handled."""
        self._budget.cancel_wait(self)
        if self._fill is not None:
            self._budget.release(len(self._fill))
        self._fill = None
        self._rest = _NOTHING

    # -- limits ---------------------------------------------------------------------------------------------------

    def _wait_for_budget(self) -> None:
        """Stop reading until there is budget for the next frame."""
        self._waits_for_budget = True
        self._budget.wait(self)
        self._apply_limits()

    def resume(self) -> None:
        """Start the waiting frame with the budget that is free now."""
        self._waits_for_budget = False
        self.last_activity = self._now()
        part, self._rest = self._rest, _NOTHING
        self._start_fill(part, self.last_activity)
        self._apply_limits()

    def _set_paused(self, is_full: bool) -> None:
        """Stop or resume reading."""
        if self._is_closing or self._is_discarding or self._transport.is_closing():
            return
        self._is_full = is_full
        if is_full:
            if not self._is_paused:
                self._is_paused = True
                self._paused_at = self._now()
                self._transport.pause_reading()
        elif not self._rest:
            self._resume_reading()
        elif not self._is_resuming:
            # Later: this may run in the task of a call that ends, in which no other call can start.
            self._is_resuming = True
            self._loop.call_soon(self._process_rest)

    def _process_rest(self) -> None:
        """Handle the waiting frames, then read the socket again."""
        self._is_resuming = False
        if self._is_full or self._is_closing or self._transport.is_closing():
            return
        self.last_activity = self._paused_at = self._now()
        rest, self._rest = self._rest, _NOTHING
        self._process(rest)
        if not self._is_full and not self._is_closing and not self._transport.is_closing():
            self._resume_reading()

    def _resume_reading(self) -> None:
        if self._is_paused:
            self._is_paused = False
            # Time without reading does not count against the client.
            self.last_activity = self._now()
            self._frame_since += self.last_activity - self._paused_at
            self._transport.resume_reading()

    # -- deadlines ------------------------------------------------------------------------------------------------

    @property
    def is_paused(self) -> bool:
        """Whether the client may have sent bytes that are not read now."""
        return self._is_paused

    @property
    def is_receiving(self) -> bool:
        """Whether the client is in the middle of a frame, and the server waits for nothing else."""
        return not self._is_paused and (self._fill is not None or bool(self._rest) or self._is_discarding)

    def is_late(self, now: float) -> bool:
        """Whether the current frame takes too long, or the client stays connected too long after an error."""
        return (
            self.is_receiving and now - self._frame_since > FRAME_SECONDS + self._frame_bytes / FRAME_BYTES_PER_SECOND
        )
