from __future__ import annotations

import asyncio
import dataclasses
import shutil
import ssl
from collections.abc import AsyncIterator, Callable
from contextlib import asynccontextmanager, suppress
from pathlib import Path

import pytest
import uvloop

from lakebed.core.errors import InvalidSetting, Unavailable
from lakebed.net.async_client import AsyncHttpClient
from lakebed.net.http import HttpRequest
from lakebed.net.tls import TlsFiles
from tests.fixtures.raw_server import OK, RawServer, raw_server
from tests.wire.http.certificate import Certificate, make_certificate


def post(server: RawServer, body: bytes = b"{}", scheme: str = "http", seconds: float = 30) -> HttpRequest:
    return HttpRequest("POST", server.url(scheme), {"X-One": "1"}, body, seconds, max_response_bytes=1000)


@pytest.fixture
async def http() -> AsyncIterator[AsyncHttpClient]:
    connections = AsyncHttpClient(resends=True)
    yield connections
    await connections.close()


async def test_connection_is_reused_sequentially(http: AsyncHttpClient) -> None:
    async with raw_server() as server:
        for number in range(5):
            answer = await http(post(server, b"%d" % number))
            assert (answer.status, answer.body) == (200, b"ok")
        assert server.connections == 1
        assert server.bodies == [b"0", b"1", b"2", b"3", b"4"]
        head = server.heads[0].decode()
        assert head.startswith(f"POST /events?a=b HTTP/1.1\r\nHost: 127.0.0.1:{server.port}\r\n")
        assert "X-One: 1\r\n" in head


async def test_concurrent_requests_use_separate_connections(http: AsyncHttpClient) -> None:
    async with raw_server() as server:
        await asyncio.gather(*(http(post(server)) for _ in range(4)))
        assert server.connections == 4
        await asyncio.gather(*(http(post(server)) for _ in range(4)))
        assert server.connections == 4


async def test_kept_connection_closed_by_the_server_is_not_a_failure(http: AsyncHttpClient) -> None:
    async with raw_server() as server:
        server.hangs_up = True
        for _ in range(3):
            assert (await http(post(server))).status == 200
        assert len(server.bodies) == 3


async def test_new_connection_closed_by_the_server_is_a_failure(http: AsyncHttpClient) -> None:
    async with raw_server() as server:
        server.response = lambda head: None
        with pytest.raises(Unavailable, match="path=/events reason=EOFError"):
            await http(post(server))
        assert server.connections == 1


@pytest.mark.parametrize(
    ("answer", "body"),
    [
        (b"HTTP/1.1 200 OK\r\nTransfer-Encoding: chunked\r\n\r\n3\r\nabc\r\n0\r\n\r\n", b"abc"),
        (b"HTTP/1.1 200 OK\r\n\r\nuntil the end", b"until the end"),
        (b"HTTP/1.1 204 No Content\r\nContent-Length: 0\r\n\r\n", b""),
        (b"HTTP/1.1 500 Oh\r\nContent-Length: 2\r\nConnection: close\r\n\r\nno", b"no"),
    ],
)
async def test_response_ends_by_length_chunks_or_close(http: AsyncHttpClient, answer: bytes, body: bytes) -> None:
    async with raw_server() as server:
        server.response = lambda head: answer
        for _ in range(2):
            assert (await http(post(server))).body == body


@pytest.mark.parametrize(
    "answer",
    [
        b"HTTP/1.1 200 OK\r\nContent-Length: 20\r\nConnection: close\r\n\r\nshort",
        b"SSH-2.0-OpenSSH\r\n\r\n",
        b"HTTP/1.1 200 OK\r\nContent-Length: 5000\r\n\r\n" + b"x" * 5000,
    ],
)
async def test_invalid_responses_are_failures(http: AsyncHttpClient, answer: bytes) -> None:
    async with raw_server() as server:
        server.response = lambda head: answer
        with pytest.raises(Unavailable):
            await http(post(server))
        server.response = lambda head: OK
        assert (await http(post(server))).status == 200


async def test_head_response_has_no_body(http: AsyncHttpClient) -> None:
    async with raw_server() as server:
        server.response = lambda head: b"HTTP/1.1 404 Not Found\r\nContent-Length: 1000\r\n\r\n"
        answer = await http(HttpRequest("HEAD", server.url(), {}, b"", 30))
        assert (answer.status, answer.body) == (404, b"")


async def test_silent_server_times_out(http: AsyncHttpClient) -> None:
    async with raw_server() as server:
        server.response = lambda head: b""
        with pytest.raises(Unavailable, match="TimeoutError"):
            await http(post(server, seconds=0.05))


async def test_unreachable_server_is_unavailable_and_unsendable_request_is_reported(http: AsyncHttpClient) -> None:
    async with raw_server() as server:
        bad = HttpRequest("POST", server.url(), {"X-Bad": "a\r\nX-Evil: hunter2"}, b"", 5)
        with pytest.raises(InvalidSetting) as caught:
            await http(bad)
        assert "hunter2" not in str(caught.value)
    with pytest.raises(Unavailable, match="ConnectionRefusedError"):
        await http(post(server))


async def test_closed_client_sends_nothing(http: AsyncHttpClient) -> None:
    async with raw_server() as server:
        await http(post(server))
        await http.close()
        await http.close()
        with pytest.raises(Unavailable, match="closed"):
            await http(post(server))


# -- TLS --------------------------------------------------------------------------------------------------------


def new_certificate(folder: Path) -> Certificate:
    folder.mkdir()
    return make_certificate(folder)


def serving(own: Certificate, trusted: Certificate | None = None) -> ssl.SSLContext:
    context = ssl.create_default_context(ssl.Purpose.CLIENT_AUTH)
    context.load_cert_chain(own.certificate, own.key)
    if trusted is not None:
        context.verify_mode = ssl.CERT_REQUIRED
        context.load_verify_locations(trusted.certificate)
    return context


async def status(tls: TlsFiles, server: RawServer) -> int:
    http = AsyncHttpClient(tls, resends=True)
    try:
        return (await http(post(server, scheme="https"))).status
    finally:
        await http.close()


async def test_untrusted_certificate_is_rejected_unless_verification_is_off(tmp_path: Path) -> None:
    own = new_certificate(tmp_path / "own")
    other = new_certificate(tmp_path / "other")
    async with raw_server(serving(own)) as server:
        assert await status(TlsFiles(ca=str(own.certificate)), server) == 200
        for tls in (TlsFiles(), TlsFiles(ca=str(other.certificate))):
            with pytest.raises(Unavailable, match="certificate verification failed"):
                await status(tls, server)
        assert await status(TlsFiles(verifies=False), server) == 200
        with pytest.raises(Unavailable, match="unusable TLS files"):
            await status(TlsFiles(ca=str(tmp_path / "none.pem")), server)


async def test_client_certificate_is_presented(tmp_path: Path) -> None:
    own, mine = new_certificate(tmp_path / "own"), new_certificate(tmp_path / "mine")
    trusting = TlsFiles(ca=str(own.certificate))
    async with raw_server(serving(own, mine)) as server:
        shown = dataclasses.replace(trusting, cert=str(mine.certificate), key=str(mine.key))
        assert await status(shown, server) == 200
        with pytest.raises(Unavailable):
            await status(trusting, server)


async def test_replaced_tls_files_are_used_by_the_next_connection(tmp_path: Path) -> None:
    old, new = new_certificate(tmp_path / "old"), new_certificate(tmp_path / "new")
    trusted = tmp_path / "trusted.pem"
    shutil.copy(old.certificate, trusted)
    http = AsyncHttpClient(TlsFiles(ca=str(trusted)), resends=True)
    async with raw_server(serving(old)) as server:
        assert (await http(post(server, scheme="https"))).status == 200
        await server.stop()
        await server.start(serving(new))
        with pytest.raises(Unavailable, match="certificate verification failed"):
            await http(post(server, scheme="https"))
        shutil.copy(new.certificate, trusted)
        assert (await http(post(server, scheme="https"))).status == 200
    await http.close()


# -- proxies ----------------------------------------------------------------------------------------------------


@dataclasses.dataclass
class ConnectProxy:
    """A proxy that accepts CONNECT, or refuses it with a response."""

    refusal: bytes = b""
    requests: list[bytes] = dataclasses.field(default_factory=list)
    port: int = 0

    async def serve(self, reader: asyncio.StreamReader, writer: asyncio.StreamWriter) -> None:
        self.requests.append(await reader.readuntil(b"\r\n\r\n"))
        if self.refusal:
            writer.write(self.refusal)
            writer.close()
            return
        host, _, port = self.requests[-1].split()[1].decode().rpartition(":")
        there, onward = await asyncio.open_connection(host, int(port))
        writer.write(b"HTTP/1.1 200 Connection established\r\n\r\n")
        await asyncio.gather(carry(reader, onward), carry(there, writer))


async def carry(reader: asyncio.StreamReader, writer: asyncio.StreamWriter) -> None:
    with suppress(ConnectionError):
        while piece := await reader.read(65536):
            writer.write(piece)
    writer.close()


@asynccontextmanager
async def running_proxy(monkeypatch: pytest.MonkeyPatch) -> AsyncIterator[ConnectProxy]:
    proxy = ConnectProxy()
    server = await asyncio.start_server(proxy.serve, "127.0.0.1", 0)
    monkeypatch.setenv("https_proxy", f"http://me:secret@127.0.0.1:{server.sockets[0].getsockname()[1]}")
    monkeypatch.delenv("no_proxy", raising=False)
    monkeypatch.delenv("NO_PROXY", raising=False)
    async with server:
        yield proxy


@pytest.mark.parametrize("loop_factory", [asyncio.new_event_loop, uvloop.new_event_loop], ids=["asyncio", "uvloop"])
def test_tls_is_tunnelled_through_a_proxy(
    loop_factory: Callable[[], asyncio.AbstractEventLoop], tmp_path: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    own = new_certificate(tmp_path / "own")

    async def work() -> None:
        http = AsyncHttpClient(TlsFiles(ca=str(own.certificate)), resends=True)
        async with running_proxy(monkeypatch) as proxy, raw_server(serving(own)) as server:
            request = dataclasses.replace(post(server, scheme="https"), through_proxy=True)
            for _ in range(3):
                assert (await http(request)).body == b"ok"
            assert len(proxy.requests) == server.connections == 1
            assert proxy.requests[0].startswith(f"CONNECT 127.0.0.1:{server.port} HTTP/1.1\r\n".encode())
            assert b"Proxy-Authorization: Basic " in proxy.requests[0]
            await http.close()

    with asyncio.Runner(loop_factory=loop_factory) as runner:
        runner.run(work())


async def test_refusal_by_the_proxy_is_reported(http: AsyncHttpClient, monkeypatch: pytest.MonkeyPatch) -> None:
    async with running_proxy(monkeypatch) as proxy, raw_server() as server:
        proxy.refusal = b"HTTP/1.1 407 Proxy Authentication Required\r\n\r\n"
        with pytest.raises(Unavailable, match="the proxy refused the connection"):
            await http(dataclasses.replace(post(server, scheme="https"), through_proxy=True))
        assert not server.connections


# -- unexpected responses ---------------------------------------------------------------------------------------


async def test_unrequested_response_is_discarded(http: AsyncHttpClient) -> None:
    async with raw_server() as server:
        server.response = lambda head: OK + b"HTTP/1.1 500 Oh\r\nContent-Length: 2\r\nX: 1\r\n\r\nno"
        for _ in range(2):
            answer = await http(post(server))
            assert (answer.status, answer.body) == (200, b"ok")
        assert server.connections == 2


async def test_late_response_is_not_used_for_the_next_request(http: AsyncHttpClient) -> None:
    async with raw_server() as server:
        server.response = lambda head: b""
        with pytest.raises(Unavailable, match="TimeoutError"):
            await http(post(server, seconds=0.05))
        server.response = lambda head: OK
        assert (await http(post(server, seconds=0.2))).status == 200
        assert server.connections == 2
        # Longer than the first timeout: each request has its own.
        await asyncio.sleep(0.06)
        assert (await http(post(server))).status == 200
        assert server.connections == 2


# -- bounds -----------------------------------------------------------------------------------------------------


async def test_requests_above_the_limit_wait_within_their_timeout() -> None:
    http = AsyncHttpClient(max_concurrency=2)
    async with raw_server() as server:
        answers = await asyncio.gather(*(http(post(server)) for _ in range(6)))
        assert [answer.body for answer in answers] == [b"ok"] * 6
        assert server.connections == 2
        server.response = lambda head: b""
        silent = [asyncio.create_task(http(post(server, seconds=0.2))) for _ in range(2)]
        await asyncio.sleep(0)
        with pytest.raises(Unavailable, match="TimeoutError") as waited:
            await http(post(server, seconds=0.05))
        assert not waited.value.undecided  # never sent
        assert all(isinstance(error, Unavailable) for error in await asyncio.gather(*silent, return_exceptions=True))
        server.response = lambda head: OK
        assert (await http(post(server))).status == 200
    await http.close()


async def test_mutation_on_a_stale_connection_is_undecided_without_resending() -> None:
    http = AsyncHttpClient()
    async with raw_server() as server:
        assert (await http(post(server))).status == 200
        server.response = lambda head: None
        with pytest.raises(Unavailable, match="EOFError") as lost:
            await http(post(server))
        assert lost.value.undecided
        assert server.connections == 1
    await http.close()
