"""The contract of both clients, over real local servers."""

from __future__ import annotations

import asyncio
import json
import socket
import ssl
from collections.abc import AsyncIterator, Awaitable, Callable
from contextlib import asynccontextmanager
from pathlib import Path

import pytest
from hypothesis import given
from hypothesis import strategies as st

from lakebed.core.errors import InvalidSetting, Unavailable
from lakebed.net.async_client import AsyncHttpClient
from lakebed.net.http import Http, HttpFailure, HttpRequest, HttpResponse
from lakebed.net.sync_client import SyncHttpClient, _is_open, in_threads
from lakebed.net.tls import TlsFiles
from tests.fixtures.scripted_http import ScriptedRequest, ScriptedResponse, scripted_server
from tests.wire.http.certificate import make_certificate

Serve = Callable[[asyncio.StreamReader, asyncio.StreamWriter], Awaitable[None]]
OK = b"HTTP/1.1 200 OK\r\nContent-Length: 2\r\n\r\nok"


@asynccontextmanager
async def serving(serve: Serve, tls: ssl.SSLContext | None = None) -> AsyncIterator[str]:
    """Run a server with this handler; yields its URL."""

    async def handle(reader: asyncio.StreamReader, writer: asyncio.StreamWriter) -> None:
        try:
            await serve(reader, writer)
        except (ConnectionError, asyncio.IncompleteReadError):
            pass
        finally:
            writer.close()

    server = await asyncio.start_server(handle, "127.0.0.1", 0, ssl=tls)
    try:
        scheme = "http" if tls is None else "https"
        yield f"{scheme}://127.0.0.1:{server.sockets[0].getsockname()[1]}"
    finally:
        server.close()


def respond_with(response: bytes, *, keeps: bool = False) -> Serve:
    """A handler that sends these bytes and closes the connection, or with `keeps` sends them to every request."""

    async def serve(reader: asyncio.StreamReader, writer: asyncio.StreamWriter) -> None:
        while await reader.readuntil(b"\r\n\r\n"):
            writer.write(response)
            await writer.drain()
            if not keeps:
                return

    return serve


class Async:
    """The async client without resending."""

    def __init__(self, tls: TlsFiles = TlsFiles()) -> None:  # noqa: B008  # frozen
        self._client = AsyncHttpClient(tls, max_concurrency=64)
        self.http: Http = self._client

    async def send(self, request: HttpRequest) -> HttpResponse:
        return await self._client.send(request)

    def has_seen_closes(self) -> bool:
        """Whether the client has seen the close of every kept connection."""
        return not any(kept.is_usable for idle in self._client._idle.values() for kept in idle)

    async def close(self) -> None:
        await self._client.close()


class Sync:
    """The sync client in threads."""

    def __init__(self, tls: TlsFiles = TlsFiles()) -> None:  # noqa: B008  # frozen
        self._client = SyncHttpClient(tls, max_idle=8)
        self.http = in_threads(self._client)

    async def send(self, request: HttpRequest) -> HttpResponse:
        return await asyncio.to_thread(self._client.send, request)

    def has_seen_closes(self) -> bool:
        kept = [one.sock for idle in self._client._idle.values() for one, _ in idle]
        return not any(_is_open(sock) for sock in kept)

    async def close(self) -> None:
        self._client.close()


Client = Async | Sync
Make = type[Async] | type[Sync]


@pytest.fixture(params=[Async, Sync], ids=["async", "sync"])
def make(request: pytest.FixtureRequest) -> Make:
    kind: Make = request.param
    return kind


@pytest.fixture
async def client(make: Make) -> AsyncIterator[Client]:
    made = make()
    yield made
    await made.close()


@pytest.fixture
def http(client: Client) -> Http:
    return client.http


async def test_request_is_sent_unchanged(http: Http) -> None:
    def script(request: ScriptedRequest) -> ScriptedResponse:
        return ScriptedResponse(
            201, json.dumps({"method": request.method, "path": request.path}).encode(), {"ETag": '"x"'}
        )

    with scripted_server(script) as server:
        response = await http(HttpRequest("POST", f"{server.url}/a%20b?c=d", {"X-One": "1"}, b"body"))
    assert response.status == 201
    assert json.loads(response.body) == {"method": "POST", "path": "/a%20b?c=d"}
    assert response.headers["etag"] == '"x"'
    (request,) = server.requests
    assert (request.method, request.path, request.body) == ("POST", "/a%20b?c=d", b"body")
    assert request.headers["x-one"] == "1"
    assert request.headers["host"] == server.url.removeprefix("http://")
    assert request.headers["content-length"] == "4"


async def test_host_header_of_a_signed_request_is_sent_once(http: Http) -> None:
    heads: list[bytes] = []

    async def serve(reader: asyncio.StreamReader, writer: asyncio.StreamWriter) -> None:
        heads.append(await reader.readuntil(b"\r\n\r\n"))
        writer.write(OK)
        await writer.drain()

    async with serving(serve) as url:
        await http(HttpRequest("GET", url, {"host": "signed.example"}))
    assert heads[0].lower().count(b"\r\nhost:") == 1
    assert b"host: signed.example\r\n" in heads[0]


async def test_connections_are_reused(http: Http) -> None:
    connections = 0

    async def serve(reader: asyncio.StreamReader, writer: asyncio.StreamWriter) -> None:
        nonlocal connections
        connections += 1
        await respond_with(OK, keeps=True)(reader, writer)

    async with serving(serve) as url:
        for _ in range(3):
            assert (await http(HttpRequest("GET", url))).body == b"ok"
        assert connections == 1
        await asyncio.gather(*(http(HttpRequest("GET", url)) for _ in range(4)))
        assert 1 < connections <= 4


async def test_connection_closed_by_the_server_is_not_reused(client: Client) -> None:
    closed = asyncio.Event()

    async def serve(reader: asyncio.StreamReader, writer: asyncio.StreamWriter) -> None:
        await reader.readuntil(b"\r\n\r\n")
        writer.write(OK)
        await writer.drain()
        writer.close()
        await writer.wait_closed()
        closed.set()

    async with serving(serve) as url:
        for _ in range(3):
            assert (await client.http(HttpRequest("POST", url, body=b"x"))).status == 200
            await closed.wait()
            closed.clear()
            # The close may not have arrived yet.
            async with asyncio.timeout(10):
                while not client.has_seen_closes():
                    await asyncio.sleep(0)


@pytest.mark.parametrize(
    "data",
    [
        b"HTTP/1.1 200 OK\r\nTransfer-Encoding: chunked\r\n\r\n3\r\nabc\r\n2\r\nde\r\n0\r\n\r\n",
        b"HTTP/1.1 100 Continue\r\n\r\nHTTP/1.1 200 OK\r\nContent-Length: 5\r\n\r\nabcde",
        b"HTTP/1.0 200 OK\r\n\r\nabcde",
        b"HTTP/1.1 200 OK\r\nConnection: close\r\nContent-Length: 5\r\n\r\nabcde",
    ],
)
async def test_every_form_of_body_end_is_parsed(http: Http, data: bytes) -> None:
    async with serving(respond_with(data)) as url:
        response = await http(HttpRequest("GET", url))
    assert (response.status, response.body) == (200, b"abcde")


@pytest.mark.parametrize(
    ("method", "head"),
    [
        ("HEAD", b"200 OK\r\nContent-Length: 50"),
        ("HEAD", b"404 Not Found"),
        ("GET", b"304 Not Modified"),
        ("GET", b"304 Not Modified\r\nContent-Length: 50"),
        ("DELETE", b"204 No Content"),
    ],
)
async def test_responses_without_body_complete_at_once(http: Http, method: str, head: bytes) -> None:
    async with serving(respond_with(b"HTTP/1.1 " + head + b"\r\n\r\n", keeps=True)) as url:
        for _ in range(2):
            assert (await http(HttpRequest(method, url))).body == b""


async def test_repeated_headers_are_joined(http: Http) -> None:
    response = b"HTTP/1.1 200 OK\r\nX-Two: a\r\nx-two: b\r\nContent-Length: 0\r\n\r\n"
    async with serving(respond_with(response)) as url:
        assert (await http(HttpRequest("GET", url))).headers["x-two"] == "a, b"


@pytest.mark.parametrize(
    "response",
    [
        b"",
        b"HTTP/1.1 200 OK\r\n",
        b"HTTP/1.1 200 OK\r\nContent-Length: 9\r\n\r\nabc",
        b"HTTP/1.1 200 OK\r\nTransfer-Encoding: chunked\r\n\r\n9\r\nabc",
        b"HTTP/1.1 101 Switching Protocols\r\nConnection: upgrade\r\nUpgrade: other\r\n\r\n",
        b"what?\r\n\r\n",
    ],
    ids=["nothing", "torn-head", "short-body", "torn-chunk", "upgrade", "no-http"],
)
@pytest.mark.parametrize(("method", "undecided"), [("GET", False), ("POST", True)])
async def test_lost_response_to_a_mutation_is_undecided(
    make: Make, http: Http, response: bytes, method: str, undecided: bool
) -> None:
    if make is Sync and (b" 101 " in response or response.endswith(b"OK\r\n")):
        pytest.skip("the standard library takes that for a response without a body")
    async with serving(respond_with(response)) as url:
        with pytest.raises(Unavailable, match=r"^no response\. host=127\.0\.0\.1 path=/x reason=") as lost:
            await http(HttpRequest(method, f"{url}/x?q=s3cret", {"x-token": "s3cret"}))
    assert lost.value.undecided is undecided
    assert "s3cret" not in str(lost.value)


async def test_unsent_mutation_is_decided(http: Http) -> None:
    with socket.socket() as taken:
        taken.bind(("127.0.0.1", 0))
        with pytest.raises(Unavailable, match="ConnectionRefusedError") as refused:
            await http(HttpRequest("POST", f"http://127.0.0.1:{taken.getsockname()[1]}/x", body=b"x"))
    assert refused.value.undecided is False


async def test_request_times_out(client: Client) -> None:
    async def serve(reader: asyncio.StreamReader, writer: asyncio.StreamWriter) -> None:
        await reader.read()

    async with serving(serve) as url:
        with pytest.raises(Unavailable, match="TimeoutError"):
            await client.http(HttpRequest("GET", url, timeout_seconds=0.05))
        with pytest.raises(HttpFailure) as silent:
            await client.send(HttpRequest("GET", url, timeout_seconds=0.05))
    assert isinstance(silent.value.error, TimeoutError)
    assert silent.value.is_sent


async def test_responses_above_the_limit_are_rejected(http: Http) -> None:
    with scripted_server(lambda _: ScriptedResponse(200, b"x" * 1000)) as server:
        with pytest.raises(Unavailable, match="too long"):
            await http(HttpRequest("GET", server.url, max_response_bytes=999))
        assert (await http(HttpRequest("GET", server.url, max_response_bytes=1000))).status == 200


async def test_redirects_are_not_followed(http: Http) -> None:
    with scripted_server(lambda _: ScriptedResponse(307, headers={"Location": "http://169.254.169.254/"})) as server:
        assert (await http(HttpRequest("GET", server.url))).status == 307
    assert len(server.requests) == 1


@pytest.mark.parametrize("value", ["a\r\nx-evil: 1", "a\nb", "a\r\n b", "a\0b", "ä\u20ac"])
async def test_invalid_header_is_rejected_and_not_quoted(http: Http, value: str) -> None:
    with pytest.raises(InvalidSetting) as refused:  # and no connection is opened
        await http(HttpRequest("GET", "http://127.0.0.1:1/", {"authorization": value}))
    assert value not in repr(refused.value)


@given(st.binary(max_size=400))
@pytest.mark.parametrize("make", [Async, Sync], ids=["async", "sync"])
async def test_malformed_responses_are_failures(make: Make, noise: bytes) -> None:
    client = make()
    async with serving(respond_with(noise)) as url:
        try:
            response = await client.http(HttpRequest("GET", url, timeout_seconds=2.0))
        except Unavailable:
            pass
        else:
            assert 200 <= response.status < 1000
    await client.close()


async def test_untrusted_certificate_is_rejected(make: Make, tmp_path: Path) -> None:
    certificate = make_certificate(tmp_path)
    context = ssl.create_default_context(ssl.Purpose.CLIENT_AUTH)
    context.load_cert_chain(certificate.certificate, certificate.key)
    trusting, other = make(TlsFiles(ca=str(certificate.certificate))), make()
    async with serving(respond_with(OK), context) as url:
        assert (await trusting.http(HttpRequest("GET", url))).body == b"ok"
        with pytest.raises(Unavailable, match="certificate verification failed") as refused:
            await other.http(HttpRequest("POST", url))
    assert refused.value.undecided is False
    for client in (trusting, other):
        await client.close()


async def test_cancelled_request_closes_its_connection() -> None:
    """Async client: otherwise its response would be read as that of the next request."""
    requested, ended = asyncio.Event(), asyncio.Event()

    async def serve(reader: asyncio.StreamReader, writer: asyncio.StreamWriter) -> None:
        await reader.readuntil(b"\r\n\r\n")
        requested.set()
        await reader.read()
        ended.set()

    client = AsyncHttpClient(max_concurrency=1)
    async with serving(serve) as url:
        for _ in range(2):  # the limit of one is free again
            task = asyncio.create_task(client(HttpRequest("GET", url)))
            await requested.wait()
            requested.clear()
            task.cancel()
            with pytest.raises(asyncio.CancelledError):
                await task
            async with asyncio.timeout(10):
                await ended.wait()
            ended.clear()
            assert not any(client._idle.values())
    await client.close()


async def test_close_closes_all_connections() -> None:
    """Async client: idle connections, and those in use after their response."""
    begun, ended = 0, 0
    requested, go_on = asyncio.Event(), asyncio.Event()

    async def serve(reader: asyncio.StreamReader, writer: asyncio.StreamWriter) -> None:
        nonlocal begun, ended
        begun += 1
        while head := await reader.readline():
            if head == b"GET /slow HTTP/1.1\r\n":
                requested.set()
                await go_on.wait()
            while await reader.readline() != b"\r\n":
                pass
            writer.write(OK)
            await writer.drain()
        ended += 1

    http = AsyncHttpClient()
    async with serving(serve) as url:
        await asyncio.gather(*(http(HttpRequest("GET", url)) for _ in range(3)))
        slow = asyncio.create_task(http(HttpRequest("GET", f"{url}/slow")))
        await requested.wait()
        unused = [kept for idle in http._idle.values() for kept in idle]
        assert unused
        await http.close()
        assert all(kept._is_lost and kept._transport.is_closing() for kept in unused)
        go_on.set()
        assert (await slow).body == b"ok"
        assert not any(http._idle.values())
        async with asyncio.timeout(10):
            while ended < begun:
                await asyncio.sleep(0)
    assert begun == 3
