"""One connection of a stream client: frames come in, calls run beside each other, answers go out as they are ready.

A frame that is not here whole gets a buffer of its own, which the socket then fills: records are copied by nobody
before they are in the log. Small frames that arrived together are taken out of the buffer that all connections share.

What one connection can hold is bounded: the bytes and the number of its calls under way, its frames, and its large
answers, of which one at a time is made (`turn`). Beyond that the socket is not read; nor is it, for a large frame, when
all connections together hold too much (`budget`).
"""

from __future__ import annotations

import asyncio
import contextlib
import logging
import socket
from collections.abc import Callable, Mapping
from typing import Final, Protocol, cast

from google.protobuf.message import DecodeError, Message

from lakebed.core.access import ANONYMOUS, Principal
from lakebed.core.errors import LakebedError, Throttled, Unauthenticated
from lakebed.core.ids import RequestIds
from lakebed.objects.model import Caller
from lakebed.streams.failures import Reason, StreamFailure
from lakebed.wire.http.eager import start_eagerly

from . import messages_pb2 as pb
from .budget import SMALL_BYTES, FrameBudget
from .calls import API_VERSIONS, AUTHENTICATE, Answer, AnyCall, Call
from .encoding import read_message
from .errors import UNKNOWN, error_code, failure_message
from .frames import HEAD_BYTES, LENGTH_BYTES, answer_head, failure_head, read_head, read_length
from .sasl import Authenticator, Proof, read_plain

log = logging.getLogger("lakebed.streams")

__all__ = ["Connection", "ConnectionSet", "Observe"]

MAX_CALLS: Final = 1024
"""Calls of one connection under way at once."""

MAX_CALL_BYTES: Final = 64 * 1024 * 1024
"""Bytes of their frames, besides one more frame."""

MAX_STRANGE_FRAME_BYTES: Final = 64 * 1024
"""Longest frame of who has not said who it is."""

RECHECK_SECONDS: Final = 2.0
"""How long an identity is taken to be what it was: a key that was taken away is of no use after that."""

_SCRATCH_BYTES: Final = 256 * 1024
_KEEPALIVE: Final = ((socket.TCP_KEEPIDLE, 60), (socket.TCP_KEEPINTVL, 10), (socket.TCP_KEEPCNT, 6))
_WRITE_HIGH_BYTES: Final = 1024 * 1024

Observe = Callable[[str, str, float], None]
"""Told of each call: its name, how it ended, how long it took."""


class ConnectionSet(Protocol):
    """Who watches the connections, and what they have in common."""

    calls: Mapping[int, AnyCall]
    versions: bytes
    """The list of calls, encoded."""

    authenticator: Authenticator
    request_ids: RequestIds
    max_frame_bytes: int
    budget: FrameBudget
    observe: Observe

    def opened(self, connection: Connection) -> bool:
        """A connection began; whether there is room for it."""
        ...

    def closed(self, connection: Connection) -> None:
        """A connection ended."""
        ...


class Connection(asyncio.BufferedProtocol):
    """The server's side of one connection."""

    # One scratch buffer serves every connection of the loop: its bytes are consumed before the callback returns.
    _scratch = bytearray(_SCRATCH_BYTES)
    _scratch_view = memoryview(_scratch)

    def __init__(self, connections: ConnectionSet) -> None:
        self._connections = connections
        self._budget = connections.budget
        self._transport: asyncio.Transport = None  # type: ignore[assignment]  # set by connection_made before any use
        self._loop = asyncio.get_running_loop()
        self._now = self._loop.time
        self._peer = self._host = ""
        self._pending = b""
        self._fill: bytearray | None = None
        self._fill_view = self._scratch_view
        self._fill_used = 0
        self._calls_under_way = 0
        self._bytes_under_way = 0
        self._is_reading_paused = False
        self._is_starved = False
        self._is_closing = False
        self._eof = False
        self._writable = asyncio.Event()
        self._writable.set()
        self._turn = asyncio.Lock()
        self._proof: Proof | None = None
        self._principal: Principal = ANONYMOUS
        self._checked_at = 0.0
        self._line = asyncio.Lock()
        self._in_line = 0
        self.last_activity = self._now()

    # -- asyncio callbacks ----------------------------------------------------------------------------------------

    def connection_made(self, transport: asyncio.BaseTransport) -> None:
        """Keep the transport and note who is on the other side."""
        self._transport = cast(asyncio.Transport, transport)
        self._transport.set_write_buffer_limits(high=_WRITE_HIGH_BYTES)
        peer = transport.get_extra_info("peername")
        self._peer = peer[0] if isinstance(peer, tuple) else ""
        ours = transport.get_extra_info("sockname")
        self._host = ours[0] if isinstance(ours, tuple) else ""
        connection = transport.get_extra_info("socket")
        if connection is not None:
            tune_socket(connection)
        if not self._connections.opened(self):
            self.abort()

    def connection_lost(self, exc: BaseException | None) -> None:
        """The other side is gone; whoever waits to write is let go."""
        self._is_closing = True
        self._budget.leave(self)
        if self._fill is not None:
            self._budget.let_go(len(self._fill))
        self._fill = None
        self._pending = b""
        self._writable.set()
        self._connections.closed(self)

    def pause_writing(self) -> None:
        """The client does not take what it asked for: it is not heard until it does."""
        self._writable.clear()
        self._heed_limits()

    def resume_writing(self) -> None:
        """It has."""
        self.last_activity = self._now()
        self._writable.set()
        self._heed_limits()

    def eof_received(self) -> bool:
        """The client will send no more; answers under way are still delivered."""
        self._eof = True
        return self._calls_under_way > 0

    def get_buffer(self, sizehint: int) -> memoryview:
        """Where the next bytes go."""
        return self._scratch_view if self._fill is None else self._fill_view[self._fill_used :]

    def buffer_updated(self, nbytes: int) -> None:
        """Bytes have arrived in the buffer that `get_buffer` gave."""
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
        """Begin what is whole of the shared buffer, and keep the rest."""
        if self._pending:
            data = memoryview(self._pending + bytes(data))
            self._pending = b""
        at, end = 0, len(data)
        while end - at >= LENGTH_BYTES:
            length = read_length(data, at)
            most = self._connections.max_frame_bytes if self._proof is not None else MAX_STRANGE_FRAME_BYTES
            if not HEAD_BYTES <= length <= most:
                # Whatever this is, what follows cannot be told from it.
                log.warning("a frame is refused", extra={"peer": self._peer, "bytes": length})
                self.abort()
                return
            at += LENGTH_BYTES
            if end - at < length:
                if length > SMALL_BYTES and self._budget.is_full:
                    self._pending = bytes(data[at - LENGTH_BYTES : end])
                    self._starve()
                    return
                self._budget.hold(length)
                self._fill = bytearray(length)
                self._fill_view = memoryview(self._fill)
                self._fill_used = end - at
                self._fill_view[: end - at] = data[at:end]
                return
            self._budget.hold(length)
            self._begin(memoryview(bytes(data[at : at + length])))
            if self._is_closing:
                return
            at += length
        self._pending = bytes(data[at:end])

    def _begin(self, frame: memoryview) -> None:
        if self._is_closing:
            self._budget.let_go(len(frame))
            return
        self._calls_under_way += 1
        self._bytes_under_way += len(frame)
        start_eagerly(self._answer(frame), self._loop)
        self._heed_limits()

    # -- answering ------------------------------------------------------------------------------------------------

    async def _answer(self, frame: memoryview) -> None:
        """Answer one frame. Never raises but for cancellation: nobody is there to take it."""
        key, version, number = read_head(frame)
        began = self._now()
        room = _Room(self)
        name, outcome = "UNKNOWN", "ok"
        try:
            call = self._connections.calls.get(key)
            if call is not None:
                name = call.name
            self._send(number, await self._asked(key, version, frame[HEAD_BYTES:], call, room))
        except LakebedError as error:
            outcome = "failed"
            self._refuse(number, error)
        except DecodeError as error:
            outcome = "failed"
            self._refuse(number, StreamFailure(Reason.CORRUPT_MESSAGE, f"the message cannot be read: {error}"))
        except Exception:
            outcome = "crashed"
            log.exception("a handler failed", extra={"call": name})
            self._refuse(number, LakebedError("internal error"))
        except BaseException:
            self.abort()
            raise
        finally:
            room.leave()
            self._calls_under_way -= 1
            self._bytes_under_way -= len(frame)
            self._budget.let_go(len(frame))
            self._connections.observe(name, outcome, self._now() - began)
        if self._eof and not self._calls_under_way:
            self._transport.close()
        else:
            self._heed_limits()

    async def _asked(self, key: int, version: int, body: memoryview, call: AnyCall | None, room: _Room) -> Answer:
        if key == API_VERSIONS:
            read_message(pb.ApiVersionsRequest, body)
            return (self._connections.versions,)
        if key == AUTHENTICATE:
            return await self._authenticate(read_message(pb.AuthenticateRequest, body))
        if call is None or not 0 <= version <= call.max_version:
            raise StreamFailure(Reason.UNSUPPORTED_VERSION, f"no such call here. key={key} version={version}")
        proof = self._proof
        if proof is None:
            raise StreamFailure(Reason.AUTHENTICATION_FAILED, "say first who you are (SASL PLAIN)")
        # Records are many a second and go by what was so a moment ago; everything else by what is so now.
        if self._in_line or isinstance(call, Call) or self._is_check_due:
            await self._check_again(proof, is_due=isinstance(call, Call))
        caller = Caller(self._principal, self._connections.request_ids.next(), self._peer, host=self._host)
        if isinstance(call, Call):
            return await call.answer(caller, read_message(call.request, body))
        return await call.answer(caller, body, version, room)

    async def _check_again(self, proof: Proof, *, is_due: bool) -> None:
        """Know who that is by now, if it is due; and go on in the order of asking.

        Writers number what they send. Whoever comes while others are in line is the last of them, also when what they
        wait for is there already and they have not gone on yet.
        """
        self._in_line += 1
        try:
            async with self._line:
                if is_due or self._is_check_due:
                    self._principal = await proof.principal()
                    self._checked_at = self._now()
        finally:
            self._in_line -= 1

    @property
    def _is_check_due(self) -> bool:
        return self._now() - self._checked_at > RECHECK_SECONDS

    async def _authenticate(self, request: pb.AuthenticateRequest) -> Message:
        """Take the client's word for who it is, if the secret is right. A wrong one ends nothing: it may try again."""
        if request.protocol.upper() != "PLAIN":
            raise StreamFailure(
                Reason.AUTHENTICATION_FAILED, f"SASL PLAIN is spoken here. protocol={request.protocol[:40]}"
            )
        user, secret = read_plain(request.token)
        try:
            proof = await self._connections.authenticator.authenticate(user, secret, self._peer)
            self._principal = await proof.principal()
        except Unauthenticated:
            # In the same words for an unknown user as for a wrong secret.
            raise StreamFailure(Reason.AUTHENTICATION_FAILED, "the user or its secret is wrong") from None
        except Throttled as error:
            raise StreamFailure(Reason.RETRY_AUTHENTICATION, str(error)) from None
        self._proof = proof
        self._checked_at = self._now()
        return pb.AuthenticateResponse()

    def _send(self, number: int, answer: Answer) -> None:
        if self._is_closing or self._transport.is_closing():
            return
        if isinstance(answer, Message):
            body = answer.SerializeToString()
            self._transport.write(answer_head(number, len(body)) + body)
            return
        size = sum(map(len, answer))
        self._transport.writelines([answer_head(number, size), *answer])

    def _refuse(self, number: int, error: LakebedError) -> None:
        if self._is_closing or self._transport.is_closing():
            return
        if error_code(error) == UNKNOWN and not isinstance(error, StreamFailure):
            log.warning("a call failed", exc_info=error)
        body = failure_message(error).SerializeToString()
        self._transport.write(failure_head(number, len(body)) + body)

    # -- flow control and life ------------------------------------------------------------------------------------

    def _heed_limits(self) -> None:
        """Read on, or do not."""
        most = SMALL_BYTES if self._budget.is_full else MAX_CALL_BYTES
        is_full = (
            self._calls_under_way >= MAX_CALLS
            or self._bytes_under_way >= most
            or not self._writable.is_set()
            or self._is_starved
        )
        if is_full == self._is_reading_paused or self._is_closing or self._transport.is_closing():
            return
        self._is_reading_paused = is_full
        if is_full:
            self._transport.pause_reading()
        else:
            self._transport.resume_reading()

    def _starve(self) -> None:
        """All connections together hold too much for the frame that comes: it stays where it is."""
        self._is_starved = True
        self._budget.wait(self)
        self._heed_limits()

    def go_on(self) -> None:
        """There is room for it now."""
        self._is_starved = False
        self.last_activity = self._now()
        begun, self._pending = self._pending, b""
        self._take(memoryview(begun))
        self._heed_limits()

    async def wait_until_taken(self) -> None:
        """Wait until the client has taken most of what was written."""
        if not self._writable.is_set():
            await self._writable.wait()

    async def wait_for_turn(self) -> None:
        """Wait until no large answer is on its way."""
        await self._turn.acquire()
        await self._writable.wait()

    def end_turn(self) -> None:
        """The next one may be made."""
        self._turn.release()

    @property
    def is_idle(self) -> bool:
        """Whether nothing is being answered."""
        return self._calls_under_way == 0

    @property
    def awaits_client(self) -> bool:
        """Whether the other side is in the middle of something: of sending a frame, or of taking an answer."""
        is_sending = self._fill is not None or (bool(self._pending) and not self._is_starved)
        return is_sending or not self._writable.is_set()

    def close(self) -> None:
        """End it once what was written is taken."""
        self._is_closing = True
        self._transport.close()

    def abort(self) -> None:
        """End it at once."""
        self._is_closing = True
        self._transport.abort()


def tune_socket(connection: socket.socket) -> None:
    """No waiting for more to send, and a look now and then whether the other side is there at all."""
    with contextlib.suppress(OSError):
        connection.setsockopt(socket.SOL_SOCKET, socket.SO_KEEPALIVE, 1)
        for option, value in _KEEPALIVE:
            connection.setsockopt(socket.IPPROTO_TCP, option, value)
        connection.setsockopt(socket.IPPROTO_TCP, socket.TCP_NODELAY, 1)


class _Room:
    """One call's right to make a large answer. Implements `calls.Room`."""

    __slots__ = ("_connection", "_has_turn")

    def __init__(self, connection: Connection) -> None:
        self._connection = connection
        self._has_turn = False

    async def ready(self) -> None:
        """Wait until answers are taken."""
        await self._connection.wait_until_taken()

    async def turn(self) -> None:
        """Wait for the turn."""
        if not self._has_turn:
            await self._connection.wait_for_turn()
            self._has_turn = True

    def leave(self) -> None:
        """The answer is written, or there is none."""
        if self._has_turn:
            self._connection.end_turn()
