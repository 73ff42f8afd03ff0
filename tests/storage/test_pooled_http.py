from __future__ import annotations

import asyncio
import json
import socket
from collections.abc import AsyncIterator, Awaitable, Callable
from contextlib import asynccontextmanager

import pytest
from hypothesis import given
from hypothesis import strategies as st
from tests.fixtures.scripted_http import Answer, Asked, scripted_server

from lakebed.core.errors import InvalidSetting, Unavailable
from lakebed.net.http import HttpRequest
from lakebed.net.sync_client import threaded_http
from lakebed.storage.pooled_http import PooledHttp

Serve = Callable[[asyncio.StreamReader, asyncio.StreamWriter], Awaitable[None]]


@asynccontextmanager
async def speaking(serve: Serve) -> AsyncIterator[str]:
    """A server that says what it likes; its URL."""

    async def handle(reader: asyncio.StreamReader, writer: asyncio.StreamWriter) -> None:
        try:
            await serve(reader, writer)
        except (ConnectionError, asyncio.IncompleteReadError):
            pass
        finally:
            writer.close()

    server = await asyncio.start_server(handle, "127.0.0.1", 0)
    try:
        yield f"http://127.0.0.1:{server.sockets[0].getsockname()[1]}"
    finally:
        server.close()


@pytest.fixture
async def http() -> AsyncIterator[PooledHttp]:
    pooled = PooledHttp()
    yield pooled
    await pooled.close()


async def test_request_arrives_as_with_the_other_implementation(http: PooledHttp) -> None:
    def script(asked: Asked) -> Answer:
        return Answer(201, json.dumps({"method": asked.method, "path": asked.path}).encode(), {"ETag": '"x"'})

    with scripted_server(script) as server:
        request = HttpRequest("POST", f"{server.url}/a%20b?c=d", {"X-One": "1"}, b"body")
        answers = [await http(request), await threaded_http()(request)]
    assert answers[0].status == answers[1].status == 201
    assert answers[0].body == answers[1].body
    assert answers[0].headers["etag"] == answers[1].headers["etag"] == '"x"'
    first, second = server.asked
    assert (first.method, first.path, first.body) == (second.method, second.path, second.body)
    assert first.headers["x-one"] == second.headers["x-one"] == "1"


async def test_connections_are_kept_and_used_again(http: PooledHttp) -> None:
    connections = 0

    async def serve(reader: asyncio.StreamReader, writer: asyncio.StreamWriter) -> None:
        nonlocal connections
        connections += 1
        while await reader.readuntil(b"\r\n\r\n"):
            writer.write(b"HTTP/1.1 200 OK\r\nContent-Length: 2\r\n\r\nok")
            await writer.drain()

    async with speaking(serve) as url:
        for _ in range(3):
            assert (await http(HttpRequest("GET", url))).body == b"ok"
        assert connections == 1
        await asyncio.gather(*(http(HttpRequest("GET", url)) for _ in range(4)))
        assert 1 < connections <= 4


async def test_connection_that_the_other_side_has_closed_is_not_used(http: PooledHttp) -> None:
    closed = asyncio.Event()

    async def serve(reader: asyncio.StreamReader, writer: asyncio.StreamWriter) -> None:
        await reader.readuntil(b"\r\n\r\n")
        writer.write(b"HTTP/1.1 200 OK\r\nContent-Length: 2\r\n\r\nok")
        await writer.drain()
        writer.close()
        await writer.wait_closed()
        closed.set()

    async with speaking(serve) as url:
        for _ in range(3):
            assert (await http(HttpRequest("POST", url, body=b"x"))).status == 200
            await closed.wait()
            closed.clear()
            # The end of the connection is on its way to this side.
            async with asyncio.timeout(10):
                while not all(kept.reader.at_eof() for idle in http._idle.values() for kept in idle):
                    await asyncio.sleep(0)


@pytest.mark.parametrize(
    "said",
    [
        b"HTTP/1.1 200 OK\r\nTransfer-Encoding: chunked\r\n\r\n3\r\nabc\r\n2\r\nde\r\n0\r\n\r\n",
        b"HTTP/1.1 100 Continue\r\n\r\nHTTP/1.1 200 OK\r\nContent-Length: 5\r\n\r\nabcde",
        b"HTTP/1.0 200 OK\r\n\r\nabcde",
        b"HTTP/1.1 200 OK\r\nConnection: close\r\nContent-Length: 5\r\n\r\nabcde",
    ],
)
async def test_every_way_to_end_a_body_is_understood(http: PooledHttp, said: bytes) -> None:
    async def serve(reader: asyncio.StreamReader, writer: asyncio.StreamWriter) -> None:
        await reader.readuntil(b"\r\n\r\n")
        writer.write(said)
        await writer.drain()

    async with speaking(serve) as url:
        answer = await http(HttpRequest("GET", url))
    assert (answer.status, answer.body) == (200, b"abcde")


@pytest.mark.parametrize(("method", "head"), [("HEAD", b"200 OK\r\nContent-Length: 50"), ("GET", b"304 Not Modified")])
async def test_answers_without_a_body_do_not_wait_for_one(http: PooledHttp, method: str, head: bytes) -> None:
    async def serve(reader: asyncio.StreamReader, writer: asyncio.StreamWriter) -> None:
        while await reader.readuntil(b"\r\n\r\n"):
            writer.write(b"HTTP/1.1 " + head + b"\r\n\r\n")
            await writer.drain()

    async with speaking(serve) as url:
        for _ in range(2):
            assert (await http(HttpRequest(method, url))).body == b""


@pytest.mark.parametrize(
    "said", [b"", b"HTTP/1.1 200 OK\r\n", b"HTTP/1.1 200 OK\r\nContent-Length: 9\r\n\r\nabc", b"what?\r\n\r\n"]
)
@pytest.mark.parametrize(("method", "undecided"), [("GET", False), ("POST", True)])
async def test_lost_answer_to_a_change_leaves_it_undecided(
    http: PooledHttp, said: bytes, method: str, undecided: bool
) -> None:
    async def serve(reader: asyncio.StreamReader, writer: asyncio.StreamWriter) -> None:
        await reader.readuntil(b"\r\n\r\n")
        writer.write(said)
        await writer.drain()

    async with speaking(serve) as url:
        with pytest.raises(Unavailable) as lost:
            await http(HttpRequest(method, url, {"x-token": "s3cret"}))
    assert lost.value.undecided is undecided
    assert "s3cret" not in str(lost.value)


async def test_change_that_was_never_sent_is_decided(http: PooledHttp) -> None:
    with socket.socket() as taken:
        taken.bind(("127.0.0.1", 0))
        with pytest.raises(Unavailable) as refused:
            await http(HttpRequest("POST", f"http://127.0.0.1:{taken.getsockname()[1]}/x", body=b"x"))
    assert refused.value.undecided is False


async def test_silence_ends(http: PooledHttp) -> None:
    async def serve(reader: asyncio.StreamReader, writer: asyncio.StreamWriter) -> None:
        await reader.read()

    async with speaking(serve) as url:
        with pytest.raises(Unavailable, match="TimeoutError"):
            await http(HttpRequest("GET", url, timeout_seconds=0.05))


async def test_answers_past_the_limit_are_refused(http: PooledHttp) -> None:
    with scripted_server(lambda _: Answer(200, b"x" * 1000)) as server:
        with pytest.raises(Unavailable, match="too long"):
            await http(HttpRequest("GET", server.url, max_response_bytes=999))
        assert (await http(HttpRequest("GET", server.url, max_response_bytes=1000))).status == 200


async def test_redirects_are_answers(http: PooledHttp) -> None:
    with scripted_server(lambda _: Answer(307, headers={"Location": "http://169.254.169.254/"})) as server:
        assert (await http(HttpRequest("GET", server.url))).status == 307
    assert len(server.asked) == 1


async def test_name_that_leads_to_the_link_is_not_followed(http: PooledHttp, monkeypatch: pytest.MonkeyPatch) -> None:
    reached: list[str] = []

    async def resolve(host: str, port: int, **_: object) -> list[tuple[object, ...]]:
        return [(socket.AF_INET, socket.SOCK_STREAM, 6, "", ("169.254.169.254", port))]

    async def connect(host: str, *_: object, **__: object) -> None:
        reached.append(host)
        raise ConnectionRefusedError

    monkeypatch.setattr(asyncio.get_running_loop(), "getaddrinfo", resolve, raising=False)
    monkeypatch.setattr(asyncio, "open_connection", connect)
    with pytest.raises(Unavailable):
        await http(HttpRequest("GET", "http://innocent.example/"))
    assert reached == []
    with pytest.raises(Unavailable):
        await http(HttpRequest("GET", "http://169.254.169.254/"))
    assert reached == ["169.254.169.254"]


@pytest.mark.parametrize("value", ["a\r\nx-evil: 1", "a\nb", "a\0b", "ä\u20ac"])
async def test_header_that_cannot_be_sent_is_refused_without_quoting_it(http: PooledHttp, value: str) -> None:
    with pytest.raises(InvalidSetting) as refused:
        await http(HttpRequest("GET", "http://127.0.0.1:1/", {"authorization": value}))
    assert value not in str(refused.value)


@given(st.binary(max_size=400))
async def test_noise_never_crashes(noise: bytes) -> None:
    async def serve(reader: asyncio.StreamReader, writer: asyncio.StreamWriter) -> None:
        await reader.readuntil(b"\r\n\r\n")
        writer.write(noise)
        await writer.drain()

    http = PooledHttp()
    async with speaking(serve) as url:
        try:
            answer = await http(HttpRequest("GET", url, timeout_seconds=2.0))
        except Unavailable:
            pass
        else:
            assert 200 <= answer.status < 1000
    await http.close()


async def test_nothing_is_open_after_the_end(http: PooledHttp) -> None:
    """Neither what nobody used, nor what was in use then and came to its end later."""
    begun, ended = 0, 0
    asked, go_on = asyncio.Event(), asyncio.Event()

    async def serve(reader: asyncio.StreamReader, writer: asyncio.StreamWriter) -> None:
        nonlocal begun, ended
        begun += 1
        while head := await reader.readline():
            if head == b"GET /slow HTTP/1.1\r\n":
                asked.set()
                await go_on.wait()
            while await reader.readline() != b"\r\n":
                pass
            writer.write(b"HTTP/1.1 200 OK\r\nContent-Length: 2\r\n\r\nok")
            await writer.drain()
        ended += 1

    async with speaking(serve) as url:
        await asyncio.gather(*(http(HttpRequest("GET", url)) for _ in range(3)))
        slow = asyncio.create_task(http(HttpRequest("GET", f"{url}/slow")))
        await asked.wait()
        unused = [kept.writer for idle in http._idle.values() for kept in idle]
        assert unused
        await http.close()
        assert all(writer.is_closing() for writer in unused)
        go_on.set()
        assert (await slow).body == b"ok"
        assert not any(http._idle.values())
        async with asyncio.timeout(10):
            while ended < begun:
                await asyncio.sleep(0)
    assert begun == 3
