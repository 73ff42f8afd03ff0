"""A connection of a Fluss client: calls run concurrently, and responses are sent as they are ready.

Memory per connection is bounded: bytes and number of calls in flight, frames (`frame_reader`), and responses being
built (`response_backpressure`). At a limit the socket is not read. Neither is it for a large frame while all
connections together exceed the `frame_budget`.
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
from ..calls import API_VERSIONS, AUTHENTICATE, AnyCall, Call, CallResponse
from ..encoding import read_message
from ..errors import failure_message
from .clients import ConnectionClient
from .frame_budget import SMALL_BYTES, FrameBudget
from .frame_reader import FrameReader
from .frames import HEAD_BYTES, error_head, read_head, response_head
from .oversized import OversizedRequest
from .response_backpressure import PendingResponses, ResponseSlot
from .sasl import Proof, SaslAuthenticator, read_plain

log = logging.getLogger("lakebed.streams")

__all__ = ["FlussConnection", "FlussConnectionSet", "Observe"]

MAX_CALLS: Final = 1024
"""Calls in flight per connection."""

MAX_CALL_BYTES: Final = 64 * 1024 * 1024
"""Bytes of frames of calls in flight per connection, beyond which no further frame is read."""

MAX_UNAUTHENTICATED_FRAME_BYTES: Final = 64 * 1024
"""Longest frame of a client that has not authenticated."""

RECHECK_SECONDS: Final = 2.0
"""How long an identity is cached: a revoked key stops working within this time."""

_REDUCE_SIZE: Final = "reduce the client's client.writer.batch-size or client.writer.request-max-size"
_KEEPALIVE: Final = ((socket.TCP_KEEPIDLE, 60), (socket.TCP_KEEPINTVL, 10), (socket.TCP_KEEPCNT, 6))
_WRITE_HIGH_BYTES: Final = 1024 * 1024
_OWN_CALLS: Final = {API_VERSIONS: "API_VERSIONS", AUTHENTICATE: "AUTHENTICATE"}

Observe = Callable[[str, str, float], None]
"""Called with the name, outcome and seconds of each call."""


class FlussConnectionSet(Protocol):
    """The listener of connections, with their shared state."""

    calls: Mapping[int, AnyCall]
    versions: bytes
    """The encoded response to API_VERSIONS."""

    authenticator: SaslAuthenticator
    request_ids: RequestIds
    max_frame_bytes: int
    budget: FrameBudget
    observe: Observe

    def opened(self, connection: FlussConnection) -> bool:
        """Register a new connection; False refuses it."""
        ...

    def authenticated(self, connection: FlussConnection) -> None:
        """Note that the client has authenticated."""
        ...

    def closed(self, connection: FlussConnection) -> None:
        """Remove a closed connection."""
        ...


class FlussConnection(FrameReader):
    """The server's side of one connection."""

    __slots__ = (
        "_bytes_in_flight",
        "_calls_in_flight",
        "_checked_at",
        "_client",
        "_connections",
        "_eof",
        "_host",
        "_is_last",
        "_order",
        "_oversized",
        "_pending",
        "_principal",
        "_proof",
        "_waiting_calls",
        "_writable",
        "opened_at",
    )

    def __init__(self, connections: FlussConnectionSet) -> None:
        super().__init__(connections.budget, MAX_UNAUTHENTICATED_FRAME_BYTES)
        self._connections = connections
        self._host = ""
        self._client = ConnectionClient()
        self._calls_in_flight = 0
        self._bytes_in_flight = 0
        self._eof = False
        self._is_last = False
        self._oversized: OversizedRequest | None = None
        self._pending = PendingResponses()
        self._writable = self._pending.writable
        self._proof: Proof | None = None
        self._principal: Principal = ANONYMOUS
        self._checked_at = 0.0
        self._order = asyncio.Lock()
        self._waiting_calls = 0
        self.opened_at = self.last_activity

    # -- asyncio callbacks ----------------------------------------------------------------------------------------

    def connection_made(self, transport: asyncio.BaseTransport) -> None:
        """Keep the transport and the addresses of both ends."""
        self._transport = cast(asyncio.Transport, transport)
        self._transport.set_write_buffer_limits(high=_WRITE_HIGH_BYTES)
        peer = transport.get_extra_info("peername")
        self._peer = peer[0] if isinstance(peer, tuple) else ""
        local = transport.get_extra_info("sockname")
        self._host = local[0] if isinstance(local, tuple) else ""
        connection = transport.get_extra_info("socket")
        if connection is not None:
            tune_socket(connection)
        if not self._connections.opened(self):
            self.abort()

    def connection_lost(self, exc: BaseException | None) -> None:
        """Release everything, including the calls that wait to write."""
        self._is_closing = True
        self._release_frames()
        self._writable.set()
        self._connections.closed(self)

    def pause_writing(self) -> None:
        """Stop reading until the client reads its responses."""
        self._writable.clear()
        self._apply_limits()

    def resume_writing(self) -> None:
        """Read again."""
        self.last_activity = self._now()
        self._writable.set()
        self._apply_limits()

    def eof_received(self) -> bool:
        """Accept no more frames; responses to calls in flight are still delivered."""
        self._eof = self._is_last = True
        return self._calls_in_flight > 0

    # -- frames ---------------------------------------------------------------------------------------------------

    def _handle_frame(self, frame: memoryview) -> None:
        if self._is_closing:
            self._budget.release(len(frame))
            return
        self._calls_in_flight += 1
        self._bytes_in_flight += len(frame)
        start_eagerly(self._respond(frame), self._loop)
        self._apply_limits()

    def _refuse_frame(self, head: memoryview, length: int) -> None:
        """Prepare an error: a client whose connection is only closed repeats the same request forever."""
        log.warning("frame too large, refused", extra={"peer": self._peer, "bytes": length})
        key, _, request_id = read_head(head)
        hint = _REDUCE_SIZE if self._proof is not None else "authenticate first"
        failure = FlussError(
            ErrorCode.RECORD_TOO_LARGE, f"request too large: {hint}. bytes={length} limit={self._max_frame_bytes}"
        )
        self._oversized = OversizedRequest(key, request_id, length - HEAD_BYTES, failure)

    def _discard(self, data: memoryview) -> None:
        oversized = self._oversized
        if oversized is None:
            return
        try:
            response = oversized.feed(data)
            if response is None:
                return
            self._send(oversized.request_id, response)
        except FlussError as failure:
            self._send_error(oversized.request_id, failure)
        self._oversized = None
        self._linger()
        self._is_last = True
        if not self._calls_in_flight:
            self._finish()

    # -- calls ----------------------------------------------------------------------------------------------------

    async def _respond(self, frame: memoryview) -> None:
        """Respond to one frame. Raises only on cancellation."""
        key, version, request_id = read_head(frame)
        started = time.monotonic()  # more precise than the clock of the loop
        slot = ResponseSlot(self._pending)
        name, outcome = _OWN_CALLS.get(key, "UNKNOWN"), "ok"
        try:
            call = self._connections.calls.get(key)
            if call is not None:
                name = call.name
            self._send(request_id, await self._dispatch(key, version, frame[HEAD_BYTES:], call, slot))
        except LakebedError as error:
            outcome = "failed"
            self._send_error(request_id, error)
        except DecodeError as error:
            outcome = "failed"
            self._send_error(request_id, FlussError(ErrorCode.CORRUPT_MESSAGE, f"cannot decode the message: {error}"))
        except Exception:
            outcome = "crashed"
            log.exception("call crashed", extra={"call": name})
            self._send_error(request_id, LakebedError("internal error"))
        except BaseException:
            self.abort()
            raise
        finally:
            slot.release()
            self._calls_in_flight -= 1
            self._bytes_in_flight -= len(frame)
            self._budget.release(len(frame))
            self._connections.observe(name, outcome, time.monotonic() - started)
        if self._is_last and not self._calls_in_flight:
            self._finish()
        else:
            self._apply_limits()

    async def _dispatch(
        self, key: int, version: int, body: memoryview, call: AnyCall | None, slot: ResponseSlot
    ) -> CallResponse:
        if key == API_VERSIONS:
            request = read_message(pb.ApiVersionsRequest, body)
            self._client.set_software(request.client_software_name, request.client_software_version)
            return (self._connections.versions,)
        if key == AUTHENTICATE:
            return await self._authenticate(read_message(pb.AuthenticateRequest, body))
        if call is None or not 0 <= version <= call.max_version:
            raise FlussError(
                ErrorCode.UNSUPPORTED_VERSION, f"unsupported API key or version. key={key} version={version}"
            )
        proof = self._proof
        if proof is None:
            raise FlussError(ErrorCode.AUTHENTICATE, "authenticate first (SASL PLAIN)")
        if isinstance(call, Call):
            await slot.acquire()
            if self._is_closing:
                raise Unavailable("client disconnected before its call was handled")
        # Calls with records are frequent and use the cached identity; all others refresh it.
        if self._waiting_calls or isinstance(call, Call) or self._is_check_due:
            await self._refresh_identity(proof, is_due=isinstance(call, Call))
        caller = Caller(
            self._principal,
            self._connections.request_ids.next(),
            self._peer,
            user_agent=self._client.software,
            host=self._host,
            connection=self._client,
        )
        if isinstance(call, Call):
            return await call.handle(caller, read_message(call.request, body))
        return await call.handle(caller, body, version, slot)

    async def _refresh_identity(self, proof: Proof, *, is_due: bool) -> None:
        """Check the identity again if that is due, and keep the order in which calls arrived.

        Batches of a writer have sequence numbers, so a call that arrives while others wait is queued behind them.
        """
        self._waiting_calls += 1
        try:
            async with self._order:
                if is_due or self._is_check_due:
                    self._principal = await proof.principal()
                    self._checked_at = self._now()
        finally:
            self._waiting_calls -= 1

    @property
    def _is_check_due(self) -> bool:
        return self._now() - self._checked_at > RECHECK_SECONDS

    async def _authenticate(self, request: pb.AuthenticateRequest) -> Message:
        """Authenticate the client. After a wrong secret the connection stays open: the client may try again."""
        if request.protocol.upper() != "PLAIN":
            raise FlussError(ErrorCode.AUTHENTICATE, f"only SASL PLAIN is supported. protocol={request.protocol[:40]}")
        user, secret = read_plain(request.token)
        try:
            proof = await self._connections.authenticator.authenticate(user, secret, self._peer)
            self._principal = await proof.principal()
        except CredentialsExpired as error:
            raise FlussError(ErrorCode.AUTHENTICATE, str(error)) from None
        except Unauthenticated:
            # The same message for an unknown user and for a wrong secret.
            raise FlussError(ErrorCode.AUTHENTICATE, "wrong user name or secret") from None
        except Throttled as error:
            raise FlussError(ErrorCode.RETRIABLE_AUTHENTICATE, str(error)) from None
        self._proof = proof
        self._max_frame_bytes = self._connections.max_frame_bytes
        self._connections.authenticated(self)
        self._checked_at = self._now()
        return pb.AuthenticateResponse()

    def _send(self, request_id: int, response: CallResponse) -> None:
        if self._is_closing or self._transport.is_closing():
            return
        if isinstance(response, Message):
            body = response.SerializeToString()
            self._transport.write(response_head(request_id, len(body)) + body)
            return
        size = sum(map(len, response))
        self._transport.writelines([response_head(request_id, size), *response])

    def _send_error(self, request_id: int, error: LakebedError) -> None:
        if self._is_closing or self._transport.is_closing():
            return
        body = failure_message(error).SerializeToString()
        self._transport.write(error_head(request_id, len(body)) + body)

    # -- flow control and shutdown --------------------------------------------------------------------------------

    def _apply_limits(self) -> None:
        """Pause or resume reading, by the limits of the connection and of the budget."""
        most = SMALL_BYTES if self._budget.is_full else MAX_CALL_BYTES
        is_full = (
            self._calls_in_flight >= MAX_CALLS
            or self._bytes_in_flight >= most
            or not self._writable.is_set()
            or self._waits_for_budget
        )
        if is_full != self._is_full:
            self._set_paused(is_full)

    def _finish(self) -> None:
        """Close after the last response."""
        if self._is_closing or self._transport.is_closing():
            return
        if self._eof:
            self._transport.close()
        else:
            # Only the sending half: closing while the client sends would reset the connection before it reads the
            # response.
            self._transport.write_eof()

    @property
    def is_idle(self) -> bool:
        """Whether no call is in flight."""
        return self._calls_in_flight == 0

    @property
    def awaits_client(self) -> bool:
        """Whether the client is in the middle of sending a frame or reading a response."""
        return self.is_receiving or not self._writable.is_set()

    def close(self) -> None:
        """Close after the client has read what was written."""
        self._is_closing = True
        self._transport.close()

    def abort(self) -> None:
        """Close at once."""
        self._is_closing = True
        self._transport.abort()


def tune_socket(connection: socket.socket) -> None:
    """Set TCP_NODELAY and TCP keepalive."""
    with contextlib.suppress(OSError):
        connection.setsockopt(socket.SOL_SOCKET, socket.SO_KEEPALIVE, 1)
        for option, value in _KEEPALIVE:
            connection.setsockopt(socket.IPPROTO_TCP, option, value)
        connection.setsockopt(socket.IPPROTO_TCP, socket.TCP_NODELAY, 1)
