"""Writes answers: small ones in one write, files by sendfile, streams with backpressure."""

from __future__ import annotations

import asyncio
import os
import time
from collections.abc import AsyncIterator
from email.utils import formatdate
from typing import Final

from .message import RAW_ERRORS, REASONS, FileSlice, Response, close_stream

SENDFILE_BYTES: Final = 1024 * 1024
"""Most bytes of one sendfile call: a disk that has to be waited for holds the loop no longer than that."""

_TURN_BYTES: Final = 8 * SENDFILE_BYTES
"""After so many bytes to a client that takes them as fast as they come, other connections have their turn."""

_READ_BYTES: Final = 256 * 1024

_BARE: Final = (204, 304)
"""Answers that never have a body, whatever their headers say."""


class BrokenPromise(RuntimeError):
    """The head of an answer promised another body than there is."""


class _FirstLines:
    """The lines that answers begin with, by status. Made once a second, because of the Date."""

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
    """The writing half of one connection."""

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
        """Whether something of the answer was written."""
        self.sent_bytes = 0
        """Of the body of the answer that is under way, or was last."""
        self.last_progress = 0.0
        """When a client that had let us wait last took bytes of a file."""

    def begin(self, *, keep_alive: bool, version_1_0: bool) -> None:
        """A request has arrived: note how its answer has to end."""
        self.keep_alive = keep_alive
        self.started = False
        self.sent_bytes = 0
        self._version_1_0 = version_1_0

    def send_continue(self) -> None:
        """Ask the client for its body."""
        if not self._lost:
            self._transport.write(b"HTTP/1.1 100 Continue\r\n\r\n")

    def send_now(self, response: Response, *, is_head: bool = False) -> None:
        """Write an answer whose body is bytes. No coroutine: hardly ever is anything waited for.

        Raises ConnectionError if the client went away. Where `is_blocked` says that it takes bytes slower than they
        are written, wait until they are `drained`.
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
        """Write an answer of files or of a stream, and close those, whatever happens.

        Raises ConnectionError if the client goes away before its end. After any other error a part may have been sent
        (see `started`), and only ending the connection tells the client.
        """
        if response.close:
            self.keep_alive = False
        try:
            await self._send_long(response, is_bare=is_head or response.status in _BARE)
        finally:
            await _let_go(response)

    # -- bodies ---------------------------------------------------------------------------------------------------

    async def _send_long(self, response: Response, *, is_bare: bool) -> None:
        chunked = response.stream is not None and response.length is None and not self._version_1_0
        if response.length is None and not chunked:
            # Only the connection's end tells where the body ends.
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
                raise BrokenPromise(f"a stream is longer than its answer said. promised={length}")
            await self.drained()
            self._transport.write(b"%x\r\n%b\r\n" % (len(piece), piece) if chunked else piece)
            self.sent_bytes = sent
        if length is not None and sent < length:
            raise BrokenPromise(f"a stream is shorter than its answer said. sent={sent} promised={length}")
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
                raise BrokenPromise(f"a file is shorter than its object. missing={left}")
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
                raise BrokenPromise(f"a file is shorter than its object. missing={left}")
            await self.drained()
            self._transport.write(data)
            self.sent_bytes += len(data)
            offset += len(data)
            left -= len(data)
        await self.drained()

    # -- flow -----------------------------------------------------------------------------------------------------

    def pause(self) -> None:
        """The transport's buffer is full."""
        if self._paused is None:
            self._paused = asyncio.get_running_loop().create_future()

    def resume(self) -> None:
        """The transport's buffer has drained."""
        paused, self._paused = self._paused, None
        if paused is not None and not paused.done():
            paused.set_result(None)

    def lost(self) -> None:
        """The connection is gone: whoever waits to write learns it."""
        self._lost = True
        if self._socket_descriptor >= 0:
            asyncio.get_running_loop().remove_writer(self._socket_descriptor)
            os.close(self._socket_descriptor)
            self._socket_descriptor = -1
        self.resume()

    @property
    def is_blocked(self) -> bool:
        """Whether the client does not take what we send."""
        return self._paused is not None

    def _check_alive(self) -> None:
        # Asked before writing: a transport that was closed refuses with an error of its own.
        if self._lost:
            raise ConnectionResetError("the client went away")

    async def drained(self) -> None:
        """Wait until the client has taken most of what was written. Raises ConnectionError if it went away."""
        if self._paused is not None:
            await self._paused
        self._check_alive()

    async def _flushed(self) -> None:
        """Wait until nothing is left in the transport's own buffer: sendfile goes past it."""
        transport = self._transport
        if transport.get_write_buffer_size():
            # With a high mark of zero any byte left makes the transport pause us, until none is.
            transport.set_write_buffer_limits(high=0)
            await self.drained()
            transport.set_write_buffer_limits()

    def _descriptor(self) -> int:
        """A duplicate of the socket: the loop refuses to watch a descriptor that a transport owns.

        Made only while the connection lives: afterwards the number may be another connection's.
        """
        if self._socket_descriptor < 0:
            self._check_alive()
            self._socket_descriptor = os.dup(self._transport.get_extra_info("socket").fileno())
        return self._socket_descriptor

    async def _writable(self, descriptor: int) -> None:
        loop = asyncio.get_running_loop()
        # A client that goes away wakes us through `lost`, which resolves `_paused`.
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
        breaks = len(lines) + 3  # two more within the first lines, and the empty line
        lines.append("\r\n")
        head = "\r\n".join(lines).encode("utf-8", RAW_ERRORS)
        if not head.count(b"\n") == head.count(b"\r") == breaks:
            # A value with a line break would let its author write headers of his own.
            raise ValueError("a response header holds a line break")
        return head


async def _let_go(response: Response) -> None:
    """Close what an answer was to be made of."""
    for piece in response.files:
        if isinstance(piece, FileSlice):
            os.close(piece.descriptor)
    if response.stream is not None:
        await close_stream(response.stream)
