"""Reads frames from a socket: in the order of their arrival, and within the memory budget of the process.

An incomplete frame gets a buffer of its own, which the socket then fills: records are not copied before they are in the
log. Small frames that arrived together are cut from the buffer that all connections share.

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

    # More of them than instances share their names for: without slots each would be looked up.
    __slots__ = (
        "_budget",
        "_fill",
        "_fill_used",
        "_fill_view",
        "_frame_bytes",
        "_frame_since",
        "_is_closing",
        "_is_dropping",
        "_is_full",
        "_is_going_on",
        "_is_paused",
        "_is_starved",
        "_loop",
        "_max_frame_bytes",
        "_now",
        "_paused_at",
        "_peer",
        "_rest",
        "_transport",
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
        self._is_starved = False
        self._is_paused = False
        self._paused_at = 0.0
        self._is_going_on = False
        self._is_dropping = False
        self._is_closing = False
        self.last_activity = self._now()

    # -- for the other half ---------------------------------------------------------------------------------------

    @abstractmethod
    def _begin(self, frame: memoryview) -> None:
        """Handle a whole frame, which the budget counts."""

    @abstractmethod
    def _refuse_frame(self, head: memoryview, length: int) -> None:
        """Refuse a frame that is too large, given its head. No frame is read after it."""

    @abstractmethod
    def _let_pass(self, data: memoryview) -> None:
        """Handle the bytes after the head of such a frame."""

    @abstractmethod
    def _heed_limits(self) -> None:
        """Call `_hold_back` with whether a limit is reached."""

    @abstractmethod
    def abort(self) -> None:
        """End the connection at once."""

    # -- asyncio callbacks ----------------------------------------------------------------------------------------

    def get_buffer(self, sizehint: int) -> memoryview:
        """The buffer for the next bytes."""
        return self._scratch_view if self._fill is None else self._fill_view[self._fill_used :]

    def buffer_updated(self, nbytes: int) -> None:
        """Handle bytes that arrived in the buffer of `get_buffer`."""
        self.last_activity = self._now()
        fill = self._fill
        if fill is None:
            self._take(self._scratch_view[:nbytes])
            return
        self._fill_used += nbytes
        if self._fill_used == len(fill):
            frame, self._fill = self._fill_view, None
            self._begin(frame)

    # -- frames ---------------------------------------------------------------------------------------------------

    def _take(self, data: memoryview) -> None:
        """Begin the whole frames within the limits, and keep the rest."""
        if self._is_dropping:
            self._let_pass(data)
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
                    break  # the request id is still to come
                self._drop(data[at:end], length)
                return
            begin = at + LENGTH_BYTES
            if end - begin < length:
                if length > SMALL_BYTES and self._budget.is_full:
                    self._starve()
                    break
                self._grow(data[at:end], since)
                return
            at = begin + length
            self._budget.hold(length)
            self._begin(memoryview(bytes(data[begin:at])))
            if self._is_closing:
                return
            since = now
        if at < end:
            self._keep(data[at:end], since)

    def _keep(self, rest: memoryview, since: float) -> None:
        # Waiting bytes are taken frame by frame: they are not copied for each.
        is_ours = self._is_full and rest.obj is not self._scratch
        self._rest = rest if is_ours else memoryview(bytes(rest))
        self._frame_since = since
        self._frame_bytes = 0

    def _grow(self, part: memoryview, since: float) -> None:
        """Let the socket fill a buffer with the rest of a frame."""
        length = read_length(part, 0)
        self._budget.hold(length)
        self._fill = bytearray(length)
        self._fill_view = memoryview(self._fill)
        self._fill_used = len(part) - LENGTH_BYTES
        self._fill_view[: self._fill_used] = part[LENGTH_BYTES:]
        self._frame_since = since
        self._frame_bytes = length

    def _drop(self, part: memoryview, length: int) -> None:
        """Discard this frame and all that follows."""
        self._is_dropping = True
        self._frame_since = self.last_activity
        self._frame_bytes = length
        begin = LENGTH_BYTES + HEAD_BYTES
        self._refuse_frame(part[LENGTH_BYTES:begin], length)
        self._let_pass(part[begin:])

    def _linger(self) -> None:
        """The error was sent: the client has some time to read it and to close."""
        self._frame_since = self.last_activity
        self._frame_bytes = 0

    def _forget(self) -> None:
        """Release everything that was not begun."""
        self._budget.leave(self)
        if self._fill is not None:
            self._budget.let_go(len(self._fill))
        self._fill = None
        self._rest = _NOTHING

    # -- limits ---------------------------------------------------------------------------------------------------

    def _starve(self) -> None:
        """Wait for budget: all connections together hold too much for the next frame."""
        self._is_starved = True
        self._budget.wait(self)
        self._heed_limits()

    def go_on(self) -> None:
        """Go on with the budget that is free now, and take it at once."""
        self._is_starved = False
        self.last_activity = self._now()
        begun, self._rest = self._rest, _NOTHING
        self._grow(begun, self.last_activity)
        self._heed_limits()

    def _hold_back(self, is_full: bool) -> None:
        """Stop reading, or go on."""
        if self._is_closing or self._is_dropping or self._transport.is_closing():
            return
        self._is_full = is_full
        if is_full:
            if not self._is_paused:
                self._is_paused = True
                self._paused_at = self._now()
                self._transport.pause_reading()
        elif not self._rest:
            self._read_on()
        elif not self._is_going_on:
            # Not here: a call may have just ended, and no other can begin in the middle of its task.
            self._is_going_on = True
            self._loop.call_soon(self._take_rest)

    def _take_rest(self) -> None:
        """Begin the waiting frames; when all have begun, read the socket again."""
        self._is_going_on = False
        if self._is_full or self._is_closing or self._transport.is_closing():
            return
        self.last_activity = self._paused_at = self._now()
        rest, self._rest = self._rest, _NOTHING
        self._take(rest)
        if not self._is_full and not self._is_closing and not self._transport.is_closing():
            self._read_on()

    def _read_on(self) -> None:
        if self._is_paused:
            self._is_paused = False
            # Time in which the socket was not read does not count.
            self.last_activity = self._now()
            self._frame_since += self.last_activity - self._paused_at
            self._transport.resume_reading()

    # -- deadlines ------------------------------------------------------------------------------------------------

    @property
    def is_held_back(self) -> bool:
        """Whether the client may have sent bytes that are not read now."""
        return self._is_paused

    @property
    def is_receiving(self) -> bool:
        """Whether the client is in the middle of a frame, and the server waits for nothing else."""
        return not self._is_paused and (self._fill is not None or bool(self._rest) or self._is_dropping)

    def is_late(self, now: float) -> bool:
        """Whether the current frame takes too long, or the client stays connected too long after an error."""
        return (
            self.is_receiving and now - self._frame_since > FRAME_SECONDS + self._frame_bytes / FRAME_BYTES_PER_SECOND
        )
