"""Writes answers: small ones in one write, files by sendfile, streams with backpressure."""

from __future__ import annotations

import asyncio
import os
import time
from collections.abc import Sequence
from email.utils import formatdate
from typing import Final

from .message import RAW_ERRORS, REASONS, FileSlice, Headers, Response

SENDFILE_BYTES: Final = 1024 * 1024
"""Most bytes of one sendfile call: a disk that has to be waited for holds the loop no longer than that."""

_READ_BYTES: Final = 256 * 1024


class _DateHeader:
    """The Date header, formatted once a second."""

    __slots__ = ("_second", "_text")

    def __init__(self) -> None:
        self._second = -1
        self._text = ""

    def text(self) -> str:
        second = int(time.time())
        if second != self._second:
            self._second = second
            self._text = formatdate(second, usegmt=True)
        return self._text


_date = _DateHeader()


class Responder:
    """The writing half of one connection."""

    __slots__ = ("_lost", "_paused", "_socket_descriptor", "_transport", "_version_1_0", "_zero_copy", "keep_alive")

    def __init__(self, transport: asyncio.Transport, *, zero_copy: bool) -> None:
        self._transport = transport
        self._zero_copy = zero_copy
        self._paused: asyncio.Future[None] | None = None
        self._lost = False
        self._socket_descriptor = -1
        self._version_1_0 = False
        self.keep_alive = True

    def begin(self, *, keep_alive: bool, version_1_0: bool) -> None:
        """A request has arrived: note how its answer has to end."""
        self.keep_alive = keep_alive
        self._version_1_0 = version_1_0

    def send_continue(self) -> None:
        """Ask the client for its body."""
        self._transport.write(b"HTTP/1.1 100 Continue\r\n\r\n")

    def send_now(self, response: Response) -> None:
        """Write an answer whose body is bytes."""
        self._transport.write(self._head(response, len(response.body)) + response.body)

    async def send(self, response: Response, *, is_head: bool) -> None:
        """Write the answer. Raises ConnectionError if the client goes away before its end."""
        if response.close:
            self.keep_alive = False
        if not response.files and response.stream is None:
            length = len(response.body) if response.length is None else response.length
            head = self._head(response, length)
            self._transport.write(head if is_head else head + response.body)
            if self._paused is not None:
                await self._drained()
            return
        try:
            if is_head:
                self._transport.write(self._head(response, response.length))
            elif response.files:
                self._transport.write(self._head(response, response.length))
                await self._send_files(response.files)
            else:
                await self._send_stream(response)
        finally:
            for piece in response.files:
                os.close(piece.descriptor)

    # -- bodies ---------------------------------------------------------------------------------------------------

    async def _send_stream(self, response: Response) -> None:
        stream = response.stream
        assert stream is not None  # noqa: S101  # the caller has checked
        chunked = response.length is None and not self._version_1_0
        if response.length is None and self._version_1_0:
            self.keep_alive = False
        self._transport.write(self._head(response, response.length, chunked=chunked))
        sent = 0
        try:
            async for piece in stream:
                if not piece:
                    continue
                await self._drained()
                sent += len(piece)
                self._transport.write(b"%x\r\n%b\r\n" % (len(piece), piece) if chunked else piece)
        except BaseException:
            # The head has promised a body that will not come: only closing tells the client.
            self.keep_alive = False
            self._transport.abort()
            raise
        if chunked:
            self._transport.write(b"0\r\n\r\n")
        elif response.length is not None and sent != response.length:
            self._transport.abort()
            raise ConnectionError(f"the stream ended early. sent={sent} promised={response.length}")
        await self._drained()

    async def _send_files(self, files: Sequence[FileSlice]) -> None:
        try:
            for piece in files:
                if self._zero_copy:
                    await self._sendfile(piece)
                else:
                    await self._copyfile(piece)
        except BaseException:
            self.keep_alive = False
            self._transport.abort()
            raise

    async def _sendfile(self, piece: FileSlice) -> None:
        await self._flushed()
        offset, left = piece.offset, piece.length
        target = self._descriptor()
        while left:
            try:
                sent = os.sendfile(target, piece.descriptor, offset, min(left, SENDFILE_BYTES))
            except BlockingIOError:
                await self._writable(target)
                continue
            if sent == 0:
                raise ConnectionError("a file is shorter than its object")
            offset += sent
            left -= sent
            if self._lost:
                raise ConnectionResetError("the client went away")

    async def _copyfile(self, piece: FileSlice) -> None:
        loop = asyncio.get_running_loop()
        offset, left = piece.offset, piece.length
        while left:
            data = await loop.run_in_executor(None, os.pread, piece.descriptor, min(left, _READ_BYTES), offset)
            if not data:
                raise ConnectionError("a file is shorter than its object")
            await self._drained()
            self._transport.write(data)
            offset += len(data)
            left -= len(data)
        await self._drained()

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

    async def _drained(self) -> None:
        if self._paused is not None:
            await self._paused
        if self._lost:
            raise ConnectionResetError("the client went away")

    async def _flushed(self) -> None:
        """Wait until nothing is left in the transport's own buffer: sendfile goes past it."""
        if self._transport.get_write_buffer_size() == 0:
            return
        self._transport.set_write_buffer_limits(high=0)
        try:
            # With a high mark of zero, any bytes left make the transport pause us until they are gone.
            if self._paused is None and self._transport.get_write_buffer_size():
                await asyncio.sleep(0)
            while self._transport.get_write_buffer_size() and not self._lost:
                if self._paused is not None:
                    await self._paused
                else:
                    await asyncio.sleep(0)
        finally:
            self._transport.set_write_buffer_limits()
        if self._lost:
            raise ConnectionResetError("the client went away")

    def _descriptor(self) -> int:
        """A duplicate of the socket: the loop refuses to watch a descriptor that a transport owns."""
        if self._socket_descriptor < 0:
            self._socket_descriptor = os.dup(self._transport.get_extra_info("socket").fileno())
        return self._socket_descriptor

    async def _writable(self, descriptor: int) -> None:
        loop = asyncio.get_running_loop()
        waiter: asyncio.Future[None] = loop.create_future()
        # A client that goes away wakes us through `lost`, which resolves `_paused`.
        self._paused = waiter
        loop.add_writer(descriptor, self.resume)
        try:
            await waiter
        finally:
            if not self._lost:
                loop.remove_writer(descriptor)
        if self._lost:
            raise ConnectionResetError("the client went away")

    # -- heads ----------------------------------------------------------------------------------------------------

    def _head(self, response: Response, length: int | None, *, chunked: bool = False) -> bytes:
        status = response.status
        lines = [f"HTTP/1.1 {status} {REASONS.get(status, 'Status')}\r\nDate: {_date.text()}\r\nServer: Lakebed\r\n"]
        lines += [f"{name}: {value}\r\n" for name, value in response.headers]
        if chunked:
            lines.append("Transfer-Encoding: chunked\r\n")
        elif length is not None and status not in (204, 304):
            lines.append(f"Content-Length: {length}\r\n")
        if not self.keep_alive:
            lines.append("Connection: close\r\n")
        elif self._version_1_0:
            lines.append("Connection: keep-alive\r\n")
        head_lines = len(lines) - len(response.headers) + 3
        lines.append("\r\n")
        head = "".join(lines)
        if head.count("\n") != len(response.headers) + head_lines:
            # A value with a line break would let its author write headers of his own.
            raise ValueError("a response header holds a line break")
        return head.encode("utf-8", RAW_ERRORS)


def header_value(headers: Headers, name: str) -> str | None:
    """The first value of a response header, by its lower-case name."""
    for candidate, value in headers:
        if candidate.lower() == name:
            return value
    return None
