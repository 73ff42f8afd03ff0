"""One connection of a stream client: calls run beside each other, answers go out as they are ready.

What one connection can hold is bounded: the bytes and the number of its calls under way, its frames (`intake`), the
answers that are made at a time (`room`). Beyond that the socket is not read; nor is it, for a large frame, when all
connections together hold too much (`budget`).
"""

from __future__ import annotations

import asyncio
import contextlib
import logging
import socket
import time
from collections.abc import Callable, Mapping
from typing import Final, Protocol, cast

from google.protobuf.message import DecodeError, Message

from lakebed.core.access import ANONYMOUS, Principal
from lakebed.core.errors import CredentialsExpired, LakebedError, Throttled, Unauthenticated, Unavailable
from lakebed.core.ids import RequestIds
from lakebed.fluss.errors import ErrorCode, FlussError
from lakebed.objects.model import Caller
from lakebed.wire.http.eager import start_eagerly

from .. import messages_pb2 as pb
from ..calls import API_VERSIONS, AUTHENTICATE, Answer, AnyCall, Call
from ..encoding import read_message
from ..errors import UNKNOWN, error_code, failure_message
from .clients import ConnectionClient
from .frame_budget import SMALL_BYTES, FrameBudget
from .frame_reader import FrameReader
from .frames import HEAD_BYTES, answer_head, failure_head, read_head
from .oversized import Oversized
from .response_backpressure import PendingResponses, ResponseSlot
from .sasl import Proof, SaslAuthenticator, read_plain

log = logging.getLogger("lakebed.streams")

__all__ = ["FlussConnection", "FlussConnectionSet", "Observe"]

MAX_CALLS: Final = 1024
"""Calls of one connection under way at once."""

MAX_CALL_BYTES: Final = 64 * 1024 * 1024
"""Bytes of their frames, besides one more frame."""

MAX_STRANGE_FRAME_BYTES: Final = 64 * 1024
"""Longest frame of a client that has not authenticated."""

RECHECK_SECONDS: Final = 2.0
"""How long an identity is cached: a revoked key stops working within this time."""

_SMALLER: Final = (
    "have the client make smaller batches or requests (client.writer.batch-size, client.writer.request-max-size)"
)
_KEEPALIVE: Final = ((socket.TCP_KEEPIDLE, 60), (socket.TCP_KEEPINTVL, 10), (socket.TCP_KEEPCNT, 6))
_WRITE_HIGH_BYTES: Final = 1024 * 1024
_OWN_CALLS: Final = {API_VERSIONS: "API_VERSIONS", AUTHENTICATE: "AUTHENTICATE"}

Observe = Callable[[str, str, float], None]
"""Called with each call's name, its outcome and its seconds."""


class FlussConnectionSet(Protocol):
    """The listener of the connections, and what they share."""

    calls: Mapping[int, AnyCall]
    versions: bytes
    """The list of calls, encoded."""

    authenticator: SaslAuthenticator
    request_ids: RequestIds
    max_frame_bytes: int
    budget: FrameBudget
    observe: Observe

    def opened(self, connection: FlussConnection) -> bool:
        """A connection began; returns whether it is accepted."""
        ...

    def known(self, connection: FlussConnection) -> None:
        """The client has authenticated."""
        ...

    def closed(self, connection: FlussConnection) -> None:
        """A connection ended."""
        ...


class FlussConnection(FrameReader):
    """The server's side of one connection."""

    __slots__ = (
        "_bytes_under_way",
        "_calls_under_way",
        "_checked_at",
        "_client",
        "_connections",
        "_eof",
        "_host",
        "_in_line",
        "_is_last",
        "_line",
        "_oversized",
        "_pending",
        "_principal",
        "_proof",
        "_writable",
        "opened_at",
    )

    def __init__(self, connections: FlussConnectionSet) -> None:
        super().__init__(connections.budget, MAX_STRANGE_FRAME_BYTES)
        self._connections = connections
        self._host = ""
        self._client = ConnectionClient()
        self._calls_under_way = 0
        self._bytes_under_way = 0
        self._eof = False
        self._is_last = False
        self._oversized: Oversized | None = None
        self._pending = PendingResponses()
        self._writable = self._pending.writable
        self._proof: Proof | None = None
        self._principal: Principal = ANONYMOUS
        self._checked_at = 0.0
        self._line = asyncio.Lock()
        self._in_line = 0
        self.opened_at = self.last_activity

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
        self._forget()
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
        self._eof = self._is_last = True
        return self._calls_under_way > 0

    # -- frames ---------------------------------------------------------------------------------------------------

    def _begin(self, frame: memoryview) -> None:
        if self._is_closing:
            self._budget.let_go(len(frame))
            return
        self._calls_under_way += 1
        self._bytes_under_way += len(frame)
        start_eagerly(self._answer(frame), self._loop)
        self._heed_limits()

    def _refuse_frame(self, head: memoryview, length: int) -> None:
        """Have words for it: a client that only loses its connection sends the same again, and again."""
        log.warning("a frame is refused", extra={"peer": self._peer, "bytes": length})
        key, _, number = read_head(head)
        hint = _SMALLER if self._proof is not None else "say first who you are"
        words = f"the request is too large: {hint}. bytes={length} limit={self._max_frame_bytes}"
        self._oversized = Oversized(key, number, length - HEAD_BYTES, FlussError(ErrorCode.RECORD_TOO_LARGE, words))

    def _let_pass(self, data: memoryview) -> None:
        passing = self._oversized
        if passing is None:
            return
        try:
            answer = passing.take(data)
            if answer is None:
                return
            self._send(passing.number, answer)
        except FlussError as failure:
            self._refuse(passing.number, failure)
        self._oversized = None
        self._linger()
        self._is_last = True
        if not self._calls_under_way:
            self._end()

    # -- answering ------------------------------------------------------------------------------------------------

    async def _answer(self, frame: memoryview) -> None:
        """Respond to one frame. Never raises but for cancellation."""
        key, version, number = read_head(frame)
        began = time.monotonic()  # finer than the loop's own clock, which stands still between its turns
        slot = ResponseSlot(self._pending)
        name, outcome = _OWN_CALLS.get(key, "UNKNOWN"), "ok"
        try:
            call = self._connections.calls.get(key)
            if call is not None:
                name = call.name
            self._send(number, await self._asked(key, version, frame[HEAD_BYTES:], call, slot))
        except LakebedError as error:
            outcome = "failed"
            self._refuse(number, error)
        except DecodeError as error:
            outcome = "failed"
            self._refuse(number, FlussError(ErrorCode.CORRUPT_MESSAGE, f"the message cannot be read: {error}"))
        except Exception:
            outcome = "crashed"
            log.exception("a handler failed", extra={"call": name})
            self._refuse(number, LakebedError("internal error"))
        except BaseException:
            self.abort()
            raise
        finally:
            slot.release()
            self._calls_under_way -= 1
            self._bytes_under_way -= len(frame)
            self._budget.let_go(len(frame))
            self._connections.observe(name, outcome, time.monotonic() - began)
        if self._is_last and not self._calls_under_way:
            self._end()
        else:
            self._heed_limits()

    async def _asked(
        self, key: int, version: int, body: memoryview, call: AnyCall | None, slot: ResponseSlot
    ) -> Answer:
        if key == API_VERSIONS:
            asked = read_message(pb.ApiVersionsRequest, body)
            self._client.is_called(asked.client_software_name, asked.client_software_version)
            return (self._connections.versions,)
        if key == AUTHENTICATE:
            return await self._authenticate(read_message(pb.AuthenticateRequest, body))
        if call is None or not 0 <= version <= call.max_version:
            raise FlussError(ErrorCode.UNSUPPORTED_VERSION, f"no such call here. key={key} version={version}")
        proof = self._proof
        if proof is None:
            raise FlussError(ErrorCode.AUTHENTICATE, "say first who you are (SASL PLAIN)")
        if isinstance(call, Call):
            await slot.acquire()
            if self._is_closing:
                raise Unavailable("the client left before its turn came")
        # Calls with records are frequent and use the cached identity; all others check it again.
        if self._in_line or isinstance(call, Call) or self._is_check_due:
            await self._check_again(proof, is_due=isinstance(call, Call))
        caller = Caller(
            self._principal,
            self._connections.request_ids.next(),
            self._peer,
            user_agent=self._client.software,
            host=self._host,
            connection=self._client,
        )
        if isinstance(call, Call):
            return await call.answer(caller, read_message(call.request, body))
        return await call.answer(caller, body, version, slot)

    async def _check_again(self, proof: Proof, *, is_due: bool) -> None:
        """Check the identity again if that is due, and keep the order in which calls arrived.

        Writers number their batches. A call that arrives while others wait goes last, even if they could go on already.
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
        """Authenticate the client. After a wrong secret the connection stays open: the client may try again."""
        if request.protocol.upper() != "PLAIN":
            raise FlussError(ErrorCode.AUTHENTICATE, f"SASL PLAIN is spoken here. protocol={request.protocol[:40]}")
        user, secret = read_plain(request.token)
        try:
            proof = await self._connections.authenticator.authenticate(user, secret, self._peer)
            self._principal = await proof.principal()
        except CredentialsExpired as error:
            raise FlussError(ErrorCode.AUTHENTICATE, str(error)) from None
        except Unauthenticated:
            # In the same words for an unknown user as for a wrong secret.
            raise FlussError(ErrorCode.AUTHENTICATE, "the user or its secret is wrong") from None
        except Throttled as error:
            raise FlussError(ErrorCode.RETRIABLE_AUTHENTICATE, str(error)) from None
        self._proof = proof
        self._max_frame_bytes = self._connections.max_frame_bytes
        self._connections.known(self)
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
        if error_code(error) == UNKNOWN and not isinstance(error, FlussError):
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
        if is_full != self._is_full:
            self._hold_back(is_full)

    def _end(self) -> None:
        """Everything is answered, and nothing more is taken."""
        if self._is_closing or self._transport.is_closing():
            return
        if self._eof:
            self._transport.close()
        else:
            # Only this half: to close on who is still sending would take the answer from it before it is read.
            self._transport.write_eof()

    @property
    def is_idle(self) -> bool:
        """Whether nothing is being answered."""
        return self._calls_under_way == 0

    @property
    def awaits_client(self) -> bool:
        """Whether the other side is in the middle of something: of sending a frame, or of taking an answer."""
        return self.is_receiving or not self._writable.is_set()

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
