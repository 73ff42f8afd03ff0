"""Connections: frames in pieces of any size, limits, and concurrent calls."""

from __future__ import annotations

import asyncio
import socket
import struct
from collections.abc import AsyncIterator
from contextlib import asynccontextmanager
from typing import Any

import pytest
import pytest_asyncio

from lakebed.core.access import Principal, root_of
from lakebed.core.errors import Throttled, Unauthenticated
from lakebed.core.secrets import Secret
from lakebed.fluss.errors import ErrorCode, FlussError
from lakebed.objects.model import Caller
from lakebed.wire.fluss import messages_pb2 as pb
from lakebed.wire.fluss.calls import Backpressure, Call, CallResponse, RawCall
from lakebed.wire.fluss.transport.listener import IDLE_SECONDS, STALLED_SECONDS, FlussListener
from lakebed.wire.fluss.transport.response_backpressure import MAX_SLOTS

LIST, EXISTS, ECHO, HELD, SMALL, LARGE = 1003, 1004, 1014, 1015, 1017, 1061
MAX_FRAME = 1024 * 1024
MAX_HELD = 2 * MAX_FRAME
LARGE_BYTES = 4 * 1024 * 1024
SMALL_BYTES = 16 * 1024


class Proof:
    """The root user, until the secret is revoked."""

    def __init__(self) -> None:
        self.is_valid = True

    async def principal(self) -> Principal:
        if not self.is_valid:
            raise Unauthenticated("revoked")
        return root_of("000000000000")


class OnePassword:
    """Accepts one secret for all users."""

    def __init__(self) -> None:
        self.proof = Proof()
        self.is_throttled = False

    async def authenticate(self, name: str, secret: Secret, address: str) -> Proof:
        if self.is_throttled:
            raise Throttled("too many attempts")
        if secret != Secret("right"):
            raise Unauthenticated(f"wrong secret of {name}")
        return self.proof


class Server:
    """A listener with test calls."""

    def __init__(self, max_connections: int = 2) -> None:
        self.authenticator = OnePassword()
        self.release = asyncio.Event()
        self.seen: list[tuple[str, str]] = []
        self.started = self.finished = 0
        self.is_holding = False
        self.listener = FlussListener(
            [
                Call(LIST, "LIST", pb.ListDatabasesRequest, self.list_all),
                Call(EXISTS, "EXISTS", pb.DatabaseExistsRequest, self.exists),
                RawCall(ECHO, "ECHO", self.echo, max_version=1),
                RawCall(HELD, "HELD", self.held),
                RawCall(SMALL, "SMALL", self.small),
                RawCall(LARGE, "LARGE", self.large),
            ],
            self.authenticator,
            max_connections=max_connections,
            max_frame_bytes=MAX_FRAME,
            max_held_bytes=MAX_HELD,
            observe=lambda call, outcome, seconds: self.seen.append((call, outcome)),
        )

    async def list_all(self, caller: Caller, request: pb.ListDatabasesRequest) -> pb.ListDatabasesResponse:
        self.started += 1
        if self.is_holding:
            await self.release.wait()
        self.finished += 1
        return pb.ListDatabasesResponse(database_name=["x" * SMALL_BYTES])

    async def exists(self, caller: Caller, request: pb.DatabaseExistsRequest) -> pb.DatabaseExistsResponse:
        if request.database_name == "broken":
            raise RuntimeError("a bug")
        if request.database_name == "none":
            raise FlussError(ErrorCode.DATABASE_NOT_EXIST, "no such database")
        return pb.DatabaseExistsResponse(exists=True)

    async def echo(self, caller: Caller, body: memoryview, version: int, backpressure: Backpressure) -> CallResponse:
        return [body[:10], bytes(body[10:])]

    async def held(self, caller: Caller, body: memoryview, version: int, backpressure: Backpressure) -> CallResponse:
        self.started += 1
        await self.release.wait()
        return [b"released"]

    async def small(self, caller: Caller, body: memoryview, version: int, backpressure: Backpressure) -> CallResponse:
        await backpressure.wait_until_read()
        self.finished += 1
        return [b"x" * SMALL_BYTES]

    async def large(self, caller: Caller, body: memoryview, version: int, backpressure: Backpressure) -> CallResponse:
        await backpressure.acquire_large()
        self.finished += 1
        return [b"x" * LARGE_BYTES]


class Client:
    """A client that sends raw frames."""

    def __init__(self, reader: asyncio.StreamReader, writer: asyncio.StreamWriter) -> None:
        self.reader = reader
        self.writer = writer

    def send(self, key: int, body: bytes = b"", *, version: int = 0, number: int = 1) -> None:
        self.writer.write(frame(key, body, version=version, number=number))

    async def response(self) -> tuple[int, int, bytes]:
        """The response type (1 for an error), the request id, and the message."""
        (length,) = struct.unpack(">i", await self.reader.readexactly(4))
        kind, number = struct.unpack(">bi", await self.reader.readexactly(5))
        return kind, number, await self.reader.readexactly(length - 5)

    async def call(self, key: int, body: bytes = b"", **options: int) -> tuple[int, int, bytes]:
        self.send(key, body, **options)
        return await self.response()

    async def log_in(self, secret: bytes = b"right") -> tuple[int, int, bytes]:
        token = b"\0user\0" + secret
        return await self.call(1038, pb.AuthenticateRequest(protocol="PLAIN", token=token).SerializeToString())

    async def is_closed(self) -> bool:
        try:
            return await asyncio.wait_for(self.reader.read(1), 20) == b""
        except ConnectionResetError:
            return True


def frame(key: int, body: bytes = b"", *, version: int = 0, number: int = 1) -> bytes:
    return struct.pack(">ihhi", 8 + len(body), key, version, number) + body


def failure(message: bytes) -> int:
    return pb.Failure.FromString(message).error_code


@asynccontextmanager
async def serving(max_connections: int = 2) -> AsyncIterator[tuple[Server, int]]:
    """A context with a server and its port."""
    server = Server(max_connections)
    listening = socket.create_server(("127.0.0.1", 0))
    listening.setblocking(False)
    await server.listener.start(listening)
    yield server, listening.getsockname()[1]
    server.release.set()
    await server.listener.drain(1.0)


@pytest_asyncio.fixture
async def served() -> AsyncIterator[tuple[Server, int]]:
    async with serving() as server_and_port:
        yield server_and_port


@pytest.fixture
def server(served: tuple[Server, int]) -> Server:
    return served[0]


@pytest_asyncio.fixture
async def client(served: tuple[Server, int]) -> AsyncIterator[Client]:
    client = await connect(served[1])
    yield client
    client.writer.close()


async def left_at(server: Server, now: float) -> int:
    """The number of connections after the stalled ones at `now` are closed."""
    server.listener.close_stalled(now)
    for _ in range(5):
        await asyncio.sleep(0)
    return server.listener.count


async def connect(port: int) -> Client:
    return Client(*await asyncio.open_connection("127.0.0.1", port))


async def test_api_versions_needs_no_authentication(client: Client) -> None:
    hello = pb.ApiVersionsRequest(client_software_name="t", client_software_version="1").SerializeToString()
    kind, number, message = await client.call(1000, hello, number=77)
    assert (kind, number) == (0, 77)
    versions = pb.ApiVersionsResponse.FromString(message)
    assert {each.api_key: each.max_version for each in versions.api_versions} == {
        1000: 0,
        1038: 0,
        LIST: 0,
        EXISTS: 0,
        ECHO: 1,
        HELD: 0,
        SMALL: 0,
        LARGE: 0,
    }
    assert not versions.HasField("server_type")


async def test_other_calls_require_authentication(client: Client) -> None:
    kind, _, message = await client.call(EXISTS, pb.DatabaseExistsRequest(database_name="d").SerializeToString())
    assert (kind, failure(message)) == (1, 46)
    assert failure((await client.log_in(b"wrong"))[2]) == 46
    assert (await client.log_in())[0] == 0
    assert (await client.call(EXISTS, pb.DatabaseExistsRequest(database_name="d").SerializeToString()))[0] == 0


@pytest.mark.parametrize("token", [b"", b"user\0right", b"\0\0right", b"\0user\0right\0more", b"\0\xff\0right"])
async def test_malformed_tokens_are_refused(client: Client, token: bytes) -> None:
    request = pb.AuthenticateRequest(protocol="PLAIN", token=token).SerializeToString()
    assert failure((await client.call(1038, request))[2]) == 46


async def test_other_sasl_mechanisms_are_refused(client: Client) -> None:
    request = pb.AuthenticateRequest(protocol="SCRAM", token=b"\0user\0right").SerializeToString()
    assert failure((await client.call(1038, request))[2]) == 46


async def test_throttled_authentication_is_retriable(server: Server, client: Client) -> None:
    server.authenticator.is_throttled = True
    assert failure((await client.log_in())[2]) == 51


async def test_revoked_secret_stops_an_open_connection(
    server: Server, client: Client, monkeypatch: pytest.MonkeyPatch
) -> None:
    monkeypatch.setattr("lakebed.wire.fluss.transport.connection.RECHECK_SECONDS", -1.0)
    await client.log_in()
    assert (await client.call(ECHO, b"hello"))[2] == b"hello"
    server.authenticator.proof.is_valid = False
    assert failure((await client.call(ECHO, b"hello"))[2]) == 46


async def test_unknown_calls_and_versions_are_refused(client: Client) -> None:
    await client.log_in()
    for key, version in ((999, 0), (1999, 0), (ECHO, 2), (ECHO, -1)):
        kind, _, message = await client.call(key, version=version)
        assert (kind, failure(message)) == (1, 2)
    assert (await client.call(ECHO, b"x", version=1))[0] == 0


async def test_undecodable_messages_are_refused(client: Client) -> None:
    await client.log_in()
    for body in (b"\xff\xff", b"", b"\x0a\x7f"):
        kind, _, message = await client.call(EXISTS, body)
        assert (kind, failure(message)) == (1, 3)


async def test_crashing_handler_is_answered_and_keeps_the_connection(server: Server, client: Client) -> None:
    await client.log_in()
    broken = pb.DatabaseExistsRequest(database_name="broken").SerializeToString()
    kind, _, message = await client.call(EXISTS, broken)
    assert (kind, failure(message)) == (1, -1)
    assert pb.Failure.FromString(message).error_message == "internal error"
    assert (
        failure((await client.call(EXISTS, pb.DatabaseExistsRequest(database_name="none").SerializeToString()))[2]) == 4
    )
    assert (await client.call(ECHO, b"on"))[2] == b"on"
    assert server.seen[-3:] == [("EXISTS", "crashed"), ("EXISTS", "failed"), ("ECHO", "ok")]


@pytest.mark.parametrize("piece", [1, 3, 7, 1000, 100_000])
async def test_frames_arrive_in_pieces_of_any_size(client: Client, piece: int) -> None:
    await client.log_in()
    bodies = [b"", b"a", b"b" * 100, bytes(range(256)) * (40 if piece < 1000 else 2000), b"end"]
    sent = b"".join(frame(ECHO, body, number=number) for number, body in enumerate(bodies))
    for at in range(0, len(sent), piece):
        client.writer.write(sent[at : at + piece])
        await client.writer.drain()
    assert [await client.response() for _ in bodies] == [(0, number, body) for number, body in enumerate(bodies)]


async def test_waiting_call_does_not_block_others(server: Server, client: Client) -> None:
    await client.log_in()
    client.send(HELD, number=1)
    assert await client.call(ECHO, b"meanwhile", number=2) == (0, 2, b"meanwhile")
    server.release.set()
    assert await client.response() == (0, 1, b"released")


async def test_connection_beyond_the_limit_is_closed(served: tuple[Server, int], client: Client) -> None:
    await client.log_in()
    second = await connect(served[1])
    await second.log_in()
    third = await connect(served[1])
    assert await third.is_closed()
    assert (await client.call(ECHO, b"still"))[2] == b"still"
    for other in (second, third):
        other.writer.close()


async def test_one_large_response_is_built_for_a_client_that_does_not_read(
    served: tuple[Server, int], client: Client
) -> None:
    server = served[0]
    await client.log_in()
    for number in range(50):
        client.send(LARGE, number=number)
    other = await connect(served[1])
    await other.log_in()
    for _ in range(20):
        # Other connections are not blocked, and no further responses are built for the client that does not read.
        assert (await other.call(ECHO, b"quick"))[2] == b"quick"
    assert server.finished < 10
    for _ in range(50):
        assert len((await client.response())[2]) == LARGE_BYTES
    other.writer.close()


async def test_large_frames_wait_for_the_frame_budget_and_small_ones_do_not(
    served: tuple[Server, int], client: Client
) -> None:
    server = served[0]
    budget = server.listener.budget
    await client.log_in()
    body = bytes(900_000)
    client.writer.write(b"".join(frame(HELD, body, number=number) for number in range(6)))
    other = await connect(served[1])
    await other.log_in()
    while not budget.is_full:
        await asyncio.sleep(0.01)
    assert (await other.call(ECHO, b"small"))[2] == b"small"
    other.writer.write(frame(ECHO, body, number=9))
    for _ in range(20):
        await asyncio.sleep(0.005)
    assert MAX_HELD <= budget.held_bytes < MAX_HELD + len(body), "three large frames"
    assert await left_at(server, asyncio.get_running_loop().time() + STALLED_SECONDS + 10) == 2, (
        "the server waits for the budget, not for the clients"
    )
    server.release.set()
    assert sorted([(await client.response())[1] for _ in range(6)]) == list(range(6))
    assert await other.response() == (0, 9, body)
    assert budget.held_bytes == 0
    other.writer.close()


async def test_disconnected_client_releases_its_frame_budget(served: tuple[Server, int], client: Client) -> None:
    server = served[0]
    await client.log_in()
    for whole_frames in (0, 3):
        server.release.clear()
        other = await connect(served[1])
        await other.log_in()
        other.writer.write(frame(HELD, bytes(900_000)) * whole_frames + frame(ECHO, bytes(900_000))[:-1])
        while server.listener.budget.held_bytes < 900_000 * (whole_frames or 1):
            await asyncio.sleep(0.01)
        other.writer.transport.abort()
        server.release.set()
        while server.listener.count > 1 or server.listener.budget.held_bytes:
            await asyncio.sleep(0)
    assert (await client.call(ECHO, bytes(900_000)))[0] == 0


async def test_client_that_stalls_within_a_frame_is_disconnected(server: Server, client: Client) -> None:
    await client.log_in()
    client.writer.write(frame(ECHO, b"never whole")[:-3])
    await client.writer.drain()
    while server.listener.count and not _awaits_client(server):
        await asyncio.sleep(0.01)
    assert await left_at(server, asyncio.get_running_loop().time() + STALLED_SECONDS - 10) == 1
    server.listener.close_stalled(asyncio.get_running_loop().time() + STALLED_SECONDS + 10)
    assert await client.is_closed()


async def test_idle_connection_is_closed_but_not_during_a_call(server: Server, client: Client) -> None:
    await client.log_in()
    client.send(HELD)
    assert await client.call(ECHO, b"on", number=2) == (0, 2, b"on")
    now = asyncio.get_running_loop().time
    assert await left_at(server, now() + IDLE_SECONDS + 10) == 1, "a call is in flight"
    server.release.set()
    await client.response()
    assert await left_at(server, now() + IDLE_SECONDS - 10) == 1
    server.listener.close_stalled(now() + IDLE_SECONDS + 10)
    assert await client.is_closed()


async def test_clients_that_disconnect_within_a_frame_leave_no_connections(
    served: tuple[Server, int], client: Client
) -> None:
    server = served[0]
    await client.log_in()
    for _ in range(20):
        other = await connect(served[1])
        await other.log_in()
        other.writer.write(struct.pack(">ihhi", MAX_FRAME, ECHO, 0, 1) + bytes(1000))
        await other.writer.drain()
        other.writer.transport.abort()
        while server.listener.count > 1:
            await asyncio.sleep(0)
    assert (await client.call(ECHO, b"still"))[2] == b"still"


async def test_client_that_never_reads_is_disconnected(server: Server, client: Client) -> None:
    await client.log_in()
    for number in range(10):
        client.send(LARGE, number=number)
    await client.writer.drain()
    while not _awaits_client(server):
        await asyncio.sleep(0.01)
    server.listener.close_stalled(asyncio.get_running_loop().time() + STALLED_SECONDS + 10)
    while server.listener.count:
        await asyncio.sleep(0)
    assert server.finished < 10


async def test_small_raw_responses_wait_for_a_client_that_does_not_read(
    served: tuple[Server, int], client: Client
) -> None:
    server = served[0]
    await client.log_in()
    client.writer.write(b"".join(frame(SMALL, number=number) for number in range(2000)))
    other = await connect(served[1])
    await other.log_in()
    while not _awaits_client(server):
        await asyncio.sleep(0.01)
    for _ in range(20):
        assert (await other.call(ECHO, b"quick"))[2] == b"quick"
    assert server.finished < 1000
    for _ in range(2000):
        assert len((await client.response())[2]) == SMALL_BYTES
    other.writer.close()


async def test_message_responses_wait_for_a_client_that_does_not_read(
    served: tuple[Server, int], client: Client
) -> None:
    server = served[0]
    await client.log_in()
    client.writer.write(b"".join(frame(LIST, number=number) for number in range(2000)))
    other = await connect(served[1])
    await other.log_in()
    while not _awaits_client(server):
        await asyncio.sleep(0.01)
    for _ in range(20):
        assert (await other.call(ECHO, b"quick"))[2] == b"quick"
    assert server.finished < 1000
    responses = [await client.response() for _ in range(2000)]
    assert sorted(number for _, number, _ in responses) == list(range(2000))
    assert all(kind == 0 and len(message) > SMALL_BYTES for kind, _, message in responses)
    other.writer.close()


async def test_few_message_calls_run_at_once(server: Server, client: Client) -> None:
    await client.log_in()
    server.is_holding = True
    client.writer.write(b"".join(frame(LIST, number=number) for number in range(100)))
    # Calls with records do not wait for them.
    assert await client.call(ECHO, b"record", number=100) == (0, 100, b"record")
    while server.started < MAX_SLOTS:
        await asyncio.sleep(0)
    assert await client.call(ECHO, b"record", number=101) == (0, 101, b"record")
    assert server.started == MAX_SLOTS
    server.release.set()
    assert sorted([(await client.response())[1] for _ in range(100)]) == list(range(100))


async def test_queued_calls_of_a_disconnected_client_are_not_handled(server: Server, client: Client) -> None:
    await client.log_in()
    server.is_holding = True
    client.writer.write(b"".join(frame(LIST, number=number) for number in range(100)))
    while server.started < MAX_SLOTS:
        await asyncio.sleep(0)
    for each in list(server.listener._open):
        each.abort()
    while server.listener.count:
        await asyncio.sleep(0)
    server.release.set()
    while server.listener.budget.held_bytes:
        await asyncio.sleep(0)
    assert server.started == MAX_SLOTS


async def test_client_that_half_closes_still_gets_its_responses(server: Server, client: Client) -> None:
    await client.log_in()
    client.send(HELD)
    await client.writer.drain()
    client.writer.write_eof()
    await asyncio.sleep(0.05)
    server.release.set()
    assert await client.response() == (0, 1, b"released")
    assert await client.is_closed()


def _awaits_client(server: Any) -> bool:
    return any(each.awaits_client for each in server.listener._open)
