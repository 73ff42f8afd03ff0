"""Writes responses: small ones in one write, files with sendfile, streams with backpressure."""

from __future__ import annotations

import asyncio
import os
import time
from collections.abc import AsyncIterator
from email.utils import formatdate
from typing import Final

from .message import RAW_ERRORS, REASONS, FileSlice, Response, close_stream

SENDFILE_BYTES: Final = 1024 * 1024
"""Most bytes of one sendfile call: bounds how long a slow disk blocks the event loop."""

_TURN_BYTES: Final = 8 * SENDFILE_BYTES
"""Bytes sent to a fast client before other connections are served."""

_READ_BYTES: Final = 256 * 1024

_BARE: Final = (204, 304)
"""Statuses of responses without a body."""


class BodyLengthMismatch(RuntimeError):
    """The body is longer or shorter than the Content-Length that was sent."""


class _FirstLines:
    """Status line, Date and Server header, by status. Cached for one second, because of the Date."""

    __slots__ = ("_lines", "_second")

    def __init__(self) -> None:
        self._second = -1
        self._lines: dict[int, str] = {}

    def of(self, status: int) -> str:
        second = int(time.time())
        if second != self._second:
            self._second = second
            self._lines.clear()
        lines = self._lines.get(status)
        if lines is None:
            date = formatdate(second, usegmt=True)
            lines = f"HTTP/1.1 {status} {REASONS.get(status, 'Status')}\r\nDate: {date}\r\nServer: Lakebed"
            self._lines[status] = lines
        return lines


_first_lines = _FirstLines()


class Responder:
    """Writes the responses of one connection."""

    __slots__ = (
        "_lost",
        "_paused",
        "_socket_descriptor",
        "_transport",
        "_version_1_0",
        "_zero_copy",
        "keep_alive",
        "last_progress",
        "sent_bytes",
        "started",
    )

    def __init__(self, transport: asyncio.Transport, *, zero_copy: bool) -> None:
        self._transport = transport
        self._zero_copy = zero_copy
        self._paused: asyncio.Future[None] | None = None
        self._lost = False
        self._socket_descriptor = -1
        self._version_1_0 = False
        self.keep_alive = True
        self.started = False
        """Whether a part of the response was written."""
        self.sent_bytes = 0
        """Bytes sent of the body of the current or last response."""
        self.last_progress = 0.0
        """When a blocked sendfile could last continue."""

    def begin(self, *, keep_alive: bool, version_1_0: bool) -> None:
        """Prepare for the response to a new request."""
        self.keep_alive = keep_alive
        self.started = False
        self.sent_bytes = 0
        self._version_1_0 = version_1_0

    def send_continue(self) -> None:
        """Send 100 Continue."""
        if not self._lost:
            self._transport.write(b"HTTP/1.1 100 Continue\r\n\r\n")

    def send_now(self, response: Response, *, is_head: bool = False) -> None:
        """Write a response whose body is bytes. Not a coroutine: waiting is rarely necessary.

        Raises ConnectionError if the client disconnected. If `is_blocked` afterwards, the caller awaits `drained`.
        """
        if response.close:
            self.keep_alive = False
        body = response.body
        head = self._head(response, len(body) if response.length is None else response.length)
        self._check_alive()
        self.started = True
        if is_head or response.status in _BARE:
            self._transport.write(head)
        else:
            self._transport.write(head + body)
            self.sent_bytes = len(body)

    async def send_long(self, response: Response, *, is_head: bool) -> None:
        """Write a response of files or a stream, and always close them.

        Raises ConnectionError if the client disconnects. After any other error a part may have been sent (see
        `started`); then the caller must close the connection.
        """
        if response.close:
            self.keep_alive = False
        try:
            await self._send_long(response, is_bare=is_head or response.status in _BARE)
        finally:
            await _close(response)

    # -- bodies ---------------------------------------------------------------------------------------------------

    async def _send_long(self, response: Response, *, is_bare: bool) -> None:
        chunked = response.stream is not None and response.length is None and not self._version_1_0
        if response.length is None and not chunked:
            # The end of the body is the end of the connection.
            self.keep_alive = False
        head = self._head(response, response.length, chunked=chunked)
        self._check_alive()
        self.started = True
        self._transport.write(head)
        if is_bare:
            return
        if response.stream is None:
            for piece in response.files:
                if isinstance(piece, bytes):
                    self._transport.write(piece)
                    self.sent_bytes += len(piece)
                    await self.drained()
                else:
                    await (self._sendfile(piece) if self._zero_copy else self._copyfile(piece))
        else:
            await self._send_stream(response.stream, response.length, chunked=chunked)

    async def _send_stream(self, stream: AsyncIterator[bytes], length: int | None, *, chunked: bool) -> None:
        sent = 0
        async for piece in stream:
            if not piece:
                continue
            sent += len(piece)
            if length is not None and sent > length:
                raise BodyLengthMismatch(f"stream is longer than its Content-Length. length={length}")
            await self.drained()
            self._transport.write(b"%x\r\n%b\r\n" % (len(piece), piece) if chunked else piece)
            self.sent_bytes = sent
        if length is not None and sent < length:
            raise BodyLengthMismatch(f"stream is shorter than its Content-Length. sent={sent} length={length}")
        await self.drained()
        if chunked:
            self._transport.write(b"0\r\n\r\n")

    async def _sendfile(self, piece: FileSlice) -> None:
        await self._flushed()
        offset, left = piece.offset, piece.length
        target = self._descriptor()
        turn = _TURN_BYTES
        while left:
            try:
                sent = os.sendfile(target, piece.descriptor, offset, min(left, SENDFILE_BYTES))
            except BlockingIOError:
                await self._writable(target)
                turn = _TURN_BYTES
                continue
            if sent == 0:
                raise BodyLengthMismatch(f"file is shorter than its object. missing={left}")
            offset += sent
            left -= sent
            turn -= sent
            self.sent_bytes += sent
            if turn <= 0:
                await asyncio.sleep(0)
                self._check_alive()
                turn = _TURN_BYTES

    async def _copyfile(self, piece: FileSlice) -> None:
        loop = asyncio.get_running_loop()
        offset, left = piece.offset, piece.length
        while left:
            data = await loop.run_in_executor(None, os.pread, piece.descriptor, min(left, _READ_BYTES), offset)
            if not data:
                raise BodyLengthMismatch(f"file is shorter than its object. missing={left}")
            await self.drained()
            self._transport.write(data)
            self.sent_bytes += len(data)
            offset += len(data)
            left -= len(data)
        await self.drained()

    # -- flow control ---------------------------------------------------------------------------------------------

    def pause(self) -> None:
        """Block `drained`: the transport's buffer is full."""
        if self._paused is None:
            self._paused = asyncio.get_running_loop().create_future()

    def resume(self) -> None:
        """Release `drained`: the transport's buffer has drained."""
        paused, self._paused = self._paused, None
        if paused is not None and not paused.done():
            paused.set_result(None)

    def lost(self) -> None:
        """Fail pending writes: the connection is closed."""
        self._lost = True
        if self._socket_descriptor >= 0:
            asyncio.get_running_loop().remove_writer(self._socket_descriptor)
            os.close(self._socket_descriptor)
            self._socket_descriptor = -1
        self.resume()

    @property
    def is_blocked(self) -> bool:
        """Whether the client reads more slowly than the server writes."""
        return self._paused is not None

    def _check_alive(self) -> None:
        # Called before writing: a closed transport raises another error.
        if self._lost:
            raise ConnectionResetError("the client disconnected")

    async def drained(self) -> None:
        """Wait until the client has read most of the written bytes. Raises ConnectionError if it disconnected."""
        if self._paused is not None:
            await self._paused
        self._check_alive()

    async def _flushed(self) -> None:
        """Wait until the transport's buffer is empty: sendfile bypasses it."""
        transport = self._transport
        if transport.get_write_buffer_size():
            # With a high-water mark of zero, the transport pauses until its buffer is empty.
            transport.set_write_buffer_limits(high=0)
            await self.drained()
            transport.set_write_buffer_limits()

    def _descriptor(self) -> int:
        """A duplicate of the socket: the loop does not watch a descriptor that a transport owns.

        Only while the connection is open: afterwards the descriptor may belong to another connection.
        """
        if self._socket_descriptor < 0:
            self._check_alive()
            self._socket_descriptor = os.dup(self._transport.get_extra_info("socket").fileno())
        return self._socket_descriptor

    async def _writable(self, descriptor: int) -> None:
        loop = asyncio.get_running_loop()
        # `lost` resolves `_paused` if the client disconnects.
        waiter = self._paused = loop.create_future()
        loop.add_writer(descriptor, self.resume)
        try:
            await waiter
        finally:
            if not self._lost:
                self._paused = None
                loop.remove_writer(descriptor)
        self._check_alive()
        self.last_progress = loop.time()

    # -- heads ----------------------------------------------------------------------------------------------------

    def _head(self, response: Response, length: int | None, *, chunked: bool = False) -> bytes:
        status = response.status
        lines = [_first_lines.of(status), *[f"{name}: {value}" for name, value in response.headers]]
        if chunked:
            lines.append("Transfer-Encoding: chunked")
        elif length is not None and status not in _BARE:
            lines.append(f"Content-Length: {length}")
        if not self.keep_alive:
            lines.append("Connection: close")
        elif self._version_1_0:
            lines.append("Connection: keep-alive")
        breaks = len(lines) + 3  # the first element has three lines, and the head ends with an empty line
        lines.append("\r\n")
        head = "\r\n".join(lines).encode("utf-8", RAW_ERRORS)
        if not head.count(b"\n") == head.count(b"\r") == breaks:
            # Response splitting: a value with a line break could inject headers.
            raise ValueError("response header contains a line break")
        return head


async def _close(response: Response) -> None:
    """Close the files and the stream of a response."""
    for piece in response.files:
        if isinstance(piece, FileSlice):
            os.close(piece.descriptor)
    if response.stream is not None:
        await close_stream(response.stream)
