from __future__ import annotations

import asyncio
import logging
from collections.abc import AsyncIterator
from itertools import pairwise

import pytest
from hypothesis import given, settings
from hypothesis import strategies as st

from lakebed.core.errors import Incomplete
from lakebed.wire.http.body import CHUNK_BYTES
from lakebed.wire.http.head import MAX_HEAD_BYTES
from lakebed.wire.http.message import HeadFault, Request, Response
from lakebed.wire.http.protocol import LINGER_BYTES, MAX_PENDING_BYTES, SKIP_BYTES

from .serving import echo, request_of, responding, serving, settle, wait_until

SCRATCH_BYTES = 256 * 1024
OK = Response(200, body=b"ok")


async def unread(request: Request) -> Response:
    """Respond without reading the body."""
    return Response(403, body=b"no")


def pattern(size: int) -> bytes:
    return (b"".join(b"%07d\n" % number for number in range(size // 8 + 1)))[:size]


# -- heads -----------------------------------------------------------------------------------------------------------


async def test_head_split_at_any_byte_is_the_same_request() -> None:
    request = request_of("PUT", "/bucket/key?x=1", b"the body", X_Amz_Date="now", Accept="*/*")
    async with serving(echo) as server:
        for place in range(1, len(request)):
            async with await server.connect() as client:
                await client.send(request[:place])
                await settle()
                await client.send(request[place:])
                received = await client.receive()
                assert (received.status, received.body) == (200, b"the body")
                assert received.header("x-path") == "/bucket/key"


@settings(max_examples=40)
@given(st.data())
async def test_pipelined_requests_split_anywhere_get_responses_in_order(data: st.DataObject) -> None:
    bodies = data.draw(st.lists(st.binary(max_size=60), min_size=1, max_size=5))
    stream = b"".join(request_of("PUT", f"/{number}", body) for number, body in enumerate(bodies))
    places = data.draw(st.lists(st.integers(0, len(stream)), max_size=12).map(sorted))
    edges = [0, *places, len(stream)]
    async with serving(echo) as server, await server.connect() as client:
        for start, end in pairwise(edges):
            await client.send(stream[start:end])
            await asyncio.sleep(0)
        responses = [await client.receive() for _ in bodies]
    assert [response.body for response in responses] == bodies
    assert [response.header("x-path") for response in responses] == [f"/{number}" for number in range(len(bodies))]


async def test_empty_lines_before_a_request_are_ignored() -> None:
    async with serving(echo) as server, await server.connect() as client:
        assert (await client.exchange(b"\r\n\r\n" + request_of("GET"))).header("x-method") == "GET"
        await client.send(b"\r\n\r\n\r\n")
        assert (await client.exchange(b"\r\n" + request_of("HEAD"), bare=True)).header("x-method") == "HEAD"


async def test_requests_have_peer_scheme_and_unique_ids() -> None:
    seen: list[Request] = []

    async def application(request: Request) -> Response:
        seen.append(request)
        return Response(200)

    async with serving(application) as server, await server.connect() as client:
        await client.exchange(request_of("GET", "/a"))
        await client.exchange(request_of("GET", "/b"))
    assert [(request.peer, request.scheme) for request in seen] == [("127.0.0.1", "http")] * 2
    assert seen[0].request_id != seen[1].request_id


async def test_head_over_the_limit_gets_431() -> None:
    async with serving(echo) as server:
        for filling in (MAX_HEAD_BYTES, 4 * MAX_HEAD_BYTES):
            async with await server.connect() as client:
                received = await client.exchange(b"GET / HTTP/1.1\r\nHost: here\r\nX: " + b"v" * filling + b"\r\n\r\n")
                assert (received.status, received.header("connection")) == (431, "close")
                assert received.header("x-request-id")
                assert await client.is_ended()


async def test_head_without_an_end_is_rejected_at_the_limit() -> None:
    async with serving(echo) as server, await server.connect() as client:
        await client.send(*[b"GET / HTTP/1.1\r\nHost: here\r\nX: " + b"v" * 1000] * (MAX_HEAD_BYTES // 1000 + 1))
        assert (await client.receive()).status == 431


@pytest.mark.parametrize(
    "noise",
    [
        b"\x16\x03\x01\x02\x00\x01\x00\x01\xfc\x03\x03",
        b"GET / HTTP/1.1\r\nHost: here\r\nBad Header: x\r\n\r\n",
        b"PRI * HTTP/2.0\r\n\r\nSM\r\n\r\n",
        b"PUT / HTTP/1.1\r\nHost: here\r\nContent-Length: x\r\n\r\n",
        b"CONNECT h:443 HTTP/1.1\r\nHost: here\r\n\r\n",
        b"GET /\r\n\r\n",
    ],
)
async def test_malformed_request_gets_400_and_the_connection_closes(noise: bytes) -> None:
    async with serving(echo) as server, await server.connect() as client:
        received = await client.exchange(noise)
        assert (received.status, received.header("connection")) == (400, "close")
        assert await client.is_ended()


async def test_tls_handshake_on_a_plain_http_port_gets_400_and_is_logged(caplog: pytest.LogCaptureFixture) -> None:
    with caplog.at_level(logging.INFO, "lakebed.http"):
        async with serving(responding(Response(200))) as server, await server.connect() as client:
            received = await client.exchange(b"\x16\x03\x01\x02\x00\x01\x00\x01\xfc\x03\x03")
            assert received.status == 400
            assert b"this port serves plain HTTP" in received.body
    assert [record.getMessage() for record in caplog.records] == ["TLS handshake on a port that serves plain HTTP"]


async def test_bytes_after_a_rejected_head_are_not_served() -> None:
    async with serving(echo) as server, await server.connect() as client:
        await client.send(b"GET / HTTP/1.1\r\nHost: here\r\nBad Header: x\r\n\r\n" + request_of("GET", "/smuggled"))
        assert (await client.receive()).status == 400
        assert await client.is_ended()


async def test_request_with_upgrade_gets_an_http_1_1_response() -> None:
    async with serving(echo) as server, await server.connect() as client:
        for body in (None, b"body"):
            received = await client.exchange(request_of("PUT", "/", body, Upgrade="TLS/1.2", Connection="Upgrade"))
            assert (received.status, received.body) == (200, body or b"")


# -- responses -------------------------------------------------------------------------------------------------------


async def test_response_has_date_content_length_and_its_headers() -> None:
    headers = [("X-A", "1"), ("X-B", "caf\udce9"), ("ETag", '"e"')]
    async with serving(responding(Response(200, headers, b"ok"))) as server, await server.connect() as client:
        await client.send(request_of("GET"))
        raw = await client.until(b"\r\n\r\n")
    assert raw.startswith(b"HTTP/1.1 200 OK\r\nDate: ")
    assert b'\r\nX-A: 1\r\nX-B: caf\xe9\r\nETag: "e"\r\nContent-Length: 2' in raw
    assert b"Connection:" not in raw


async def test_head_returns_content_length_without_a_body() -> None:
    responses = (Response(200, length=1000), Response(200, body=b"left out"), OK)
    async with serving(responding(*responses)) as server, await server.connect() as client:
        assert (await client.exchange(request_of("HEAD"), bare=True)).header("content-length") == "1000"
        assert (await client.exchange(request_of("HEAD"), bare=True)).header("content-length") == "8"
        assert (await client.exchange(request_of("GET"))).body == b"ok"


@pytest.mark.parametrize("status", [204, 304])
async def test_responses_204_and_304_have_no_content_length(status: int) -> None:
    responses = (Response(status), Response(status, body=b"omitted"), OK)
    async with serving(responding(*responses)) as server, await server.connect() as client:
        for _ in range(2):
            received = await client.exchange(request_of("GET"))
            assert (received.status, received.header("content-length")) == (status, None)
        assert (await client.exchange(request_of("GET"))).body == b"ok"


@pytest.mark.parametrize("value", ["a\r\nX-Evil: 1", "a\nX-Evil: 1", "a\rX-Evil: 1", "a\r\n\r\n<html>"])
@pytest.mark.parametrize("place", ["value", "name"])
async def test_line_break_in_a_response_header_is_not_sent(
    value: str, place: str, caplog: pytest.LogCaptureFixture
) -> None:
    header = ("X-Given", value) if place == "value" else (value, "v")
    async with serving(responding(Response(200, [header], b"ok"))) as server, await server.connect() as client:
        received = await client.exchange(request_of("GET"))
        assert (received.status, received.header("x-evil")) == (500, None)
        assert await client.is_ended()
    assert "line break" in caplog.text


# -- connections -----------------------------------------------------------------------------------------------------


async def test_connection_serves_requests_until_connection_close() -> None:
    async with serving(echo) as server, await server.connect() as client:
        for _ in range(3):
            assert (await client.exchange(request_of("GET"))).header("connection") is None
        assert (await client.exchange(request_of("GET", Connection="close"))).header("connection") == "close"
        assert await client.is_ended()
        await server.wait_ended()


async def test_http_1_0_connection_closes_unless_keep_alive_is_requested() -> None:
    async with serving(echo) as server, await server.connect() as client:
        received = await client.exchange(b"GET / HTTP/1.0\r\nConnection: keep-alive\r\n\r\n")
        assert received.header("connection") == "keep-alive"
        assert (await client.exchange(b"GET / HTTP/1.0\r\n\r\n")).header("connection") == "close"
        assert await client.is_ended()


async def test_response_can_close_the_connection() -> None:
    async with serving(responding(Response(200, close=True))) as server, await server.connect() as client:
        assert (await client.exchange(request_of("GET"))).header("connection") == "close"
        assert await client.is_ended()


async def test_pipelined_requests_wait_for_the_previous_response() -> None:
    release = asyncio.Event()
    begun: list[str] = []

    async def application(request: Request) -> Response:
        begun.append(request.raw_path)
        if request.raw_path == "/first":
            await release.wait()
        return Response(200, body=request.raw_path.encode())

    async with serving(application) as server, await server.connect() as client:
        await client.send(b"".join(request_of("GET", f"/{name}") for name in ("first", "second", "third")))
        await settle()
        assert begun == ["/first"]
        release.set()
        assert [(await client.receive()).body for _ in range(3)] == [b"/first", b"/second", b"/third"]


async def test_client_that_pipelines_without_reading_is_paused() -> None:
    flood = request_of("GET") * 5000
    async with serving(echo) as server, await server.connect() as client:
        sent = await client.send_until_stuck(flood, 200 * len(flood))
        assert sent < 200 * len(flood)
        assert len(server.protocol._pending) <= MAX_PENDING_BYTES + SCRATCH_BYTES


async def test_all_pipelined_requests_get_responses_with_bounded_buffering() -> None:
    waiting: list[int] = []

    async def application(request: Request) -> Response:
        waiting.append(len(server.protocol._pending))
        return Response(200, body=request.raw_path.encode())

    requests = [request_of("GET", f"/{number}", X_Padding="x" * 1000) for number in range(2000)]
    async with serving(application) as server, await server.connect() as client:
        sending = asyncio.create_task(client.send(b"".join(requests)))
        for number in range(len(requests)):
            assert (await client.receive()).body == b"/%d" % number
        await sending
    assert max(waiting) <= MAX_PENDING_BYTES + SCRATCH_BYTES


@pytest.mark.parametrize("waits", [False, True])
async def test_half_closed_connection_gets_all_responses(waits: bool) -> None:
    async def application(request: Request) -> Response:
        if waits:
            await asyncio.sleep(0)
        return Response(200, body=request.raw_path.encode())

    async with serving(application) as server, await server.connect() as client:
        await client.send(b"".join(request_of("GET", f"/{name}") for name in "abc"))
        client.finish_sending()
        assert [(await client.receive()).body for _ in range(3)] == [b"/a", b"/b", b"/c"]
        assert await client.is_ended()


async def test_half_close_within_a_request_closes_the_connection() -> None:
    async with serving(echo) as server:
        async with await server.connect() as client:
            await client.send(request_of("GET") + b"GET /half HTT")
            client.finish_sending()
            assert (await client.receive()).status == 200
            assert await client.is_ended()
        await server.wait_ended()


async def test_draining_server_sends_connection_close() -> None:
    release = asyncio.Event()

    async def application(request: Request) -> Response:
        await release.wait()
        return Response(200)

    async with serving(application) as server, await server.connect() as client, await server.connect() as idle:
        await client.send(request_of("GET"))
        await settle()
        server.connections.draining = True
        for protocol in server.connections.protocols:
            protocol.close_when_idle()
        assert await idle.is_ended()
        release.set()
        assert (await client.receive()).header("connection") == "close"
        assert await client.is_ended()


# -- bodies ----------------------------------------------------------------------------------------------------------


@pytest.mark.parametrize(
    "size",
    [
        0,
        1,
        SCRATCH_BYTES - 1,
        SCRATCH_BYTES,
        SCRATCH_BYTES + 1,
        CHUNK_BYTES - 1,
        CHUNK_BYTES,
        CHUNK_BYTES + 1,
        CHUNK_BYTES + SCRATCH_BYTES,
        CHUNK_BYTES + SCRATCH_BYTES + 1,
        3 * CHUNK_BYTES,
        3 * CHUNK_BYTES + 1,
        5 * CHUNK_BYTES + 12345,
    ],
)
async def test_body_of_any_size_arrives_whole_with_the_next_request_after_it(size: int) -> None:
    body = pattern(size)
    async with serving(echo) as server, await server.connect() as client:
        sending = asyncio.create_task(client.send(request_of("PUT", "/a", body) + request_of("PUT", "/b", b"next")))
        assert (await client.receive()).body == body
        assert (await client.receive()).body == b"next"
        await sending


@pytest.mark.parametrize("first", [1, 1000, SCRATCH_BYTES])
async def test_large_body_split_at_its_beginning_arrives_whole(first: int) -> None:
    body = pattern(2 * CHUNK_BYTES + 77)
    request = request_of("PUT", "/a", body)
    head = len(request) - len(body)
    async with serving(echo) as server, await server.connect() as client:
        await client.send(request[:head])
        await settle()
        await client.send(body[:first])
        await settle()
        sending = asyncio.create_task(client.send(body[first:]))
        assert (await client.receive()).body == body
        await sending


CHUNKED = b"PUT /c HTTP/1.1\r\nHost: here\r\nTransfer-Encoding: chunked\r\n\r\n"


async def test_chunked_body_arrives_whole_with_the_next_request_after_it() -> None:
    body = pattern(700_000)
    pieces = [body[start : start + 100_000] for start in range(0, len(body), 100_000)]
    framed = b"".join(b"%x\r\n%b\r\n" % (len(piece), piece) for piece in pieces) + b"0\r\nX-Trailer: 1\r\n\r\n"
    async with serving(echo) as server, await server.connect() as client:
        sending = asyncio.create_task(client.send(CHUNKED + framed + request_of("PUT", "/b", b"next")))
        assert (await client.receive()).body == body
        received = await client.receive()
        assert (received.body, received.header("x-path")) == (b"next", "/b")
        await sending


async def test_chunked_body_split_at_any_byte_is_the_same_body() -> None:
    framed = CHUNKED + b"5\r\nhello\r\n6;x=y\r\n world\r\n0\r\n\r\n"
    async with serving(echo) as server:
        for place in range(len(CHUNKED), len(framed)):
            async with await server.connect() as client:
                await client.send(framed[:place])
                await settle()
                await client.send(framed[place:])
                assert (await client.receive()).body == b"hello world"


@pytest.mark.slow
async def test_chunks_of_one_byte_do_not_accumulate() -> None:
    waiting: list[int] = []

    async def application(request: Request) -> Response:
        size = 0
        while (piece := await request.body.next_chunk()) is not None:
            size += len(piece)
            waiting.append(len(request.body._pieces))
            await asyncio.sleep(0)
        return Response(200, body=b"%d" % size)

    async with serving(application) as server, await server.connect() as client:
        sending = asyncio.create_task(client.send(CHUNKED + b"1\r\nx\r\n" * 90_000 + b"0\r\n\r\n"))
        assert (await client.receive()).body == b"90000"
        await sending
    assert max(waiting) <= 2


async def test_malformed_chunks_raise_incomplete_and_the_client_gets_the_response() -> None:
    async def application(request: Request) -> Response:
        try:
            await request.body.read(1 << 20)
        except Incomplete:
            return Response(400, body=b"broken")
        return Response(200)

    async with serving(application) as server, await server.connect() as client:
        received = await client.exchange(CHUNKED + b"5\r\nhelloX\r\n" + b"x" * 1000)
        assert (received.status, received.body, received.header("connection")) == (400, b"broken", "close")
        assert await client.is_ended()


async def test_first_read_sends_100_continue() -> None:
    release = asyncio.Event()

    async def application(request: Request) -> Response:
        await release.wait()
        return Response(200, body=await request.body.read(100))

    head = request_of("PUT", Expect="100-continue", Content_Length="4")
    async with serving(application) as server, await server.connect() as client:
        await client.send(head)
        await settle()
        waiting = asyncio.create_task(client.receive())
        await settle()
        assert not waiting.done()
        release.set()
        assert (await waiting).status == 100
        await client.send(b"body")
        assert (await client.receive()).body == b"body"
        assert (await client.exchange(request_of("PUT", "/next", b"more"))).body == b"more"


async def test_response_before_the_first_read_replaces_100_continue() -> None:
    async with serving(unread) as server, await server.connect() as client:
        received = await client.exchange(request_of("PUT", Expect="100-continue", Content_Length="4"))
        assert (received.status, received.header("connection")) == (403, "close")
        assert await client.is_ended()


async def test_empty_body_gets_no_100_continue() -> None:
    async with serving(echo) as server, await server.connect() as client:
        assert (await client.exchange(request_of("PUT", Expect="100-continue", Content_Length="0"))).status == 200


async def test_disconnect_before_100_continue_raises_incomplete() -> None:
    outcome: list[str] = []
    release = asyncio.Event()

    async def application(request: Request) -> Response:
        await release.wait()
        try:
            await request.body.read(100)
        except Incomplete:
            outcome.append("incomplete")
        return Response(400)

    async with serving(application) as server:
        client = await server.connect()
        await client.send(request_of("PUT", Expect="100-continue", Content_Length="4"))
        await settle()
        client.reset()
        await server.wait_ended()
        release.set()
        await wait_until(lambda: outcome == ["incomplete"])


async def test_small_unread_body_is_skipped_and_the_connection_stays_open() -> None:
    async with serving(unread) as server, await server.connect() as client:
        await client.send(request_of("PUT", Content_Length=str(SKIP_BYTES)), b"x" * 10)
        assert (await client.receive()).header("connection") is None
        await client.send(b"x" * (SKIP_BYTES - 10 - 7))
        await settle()
        await client.send(b"x" * 7 + request_of("GET"))
        assert (await client.receive()).status == 403


async def test_large_unread_body_is_discarded_so_that_the_client_gets_the_response() -> None:
    size = 20 * 1024 * 1024
    async with serving(unread) as server:
        async with await server.connect() as client:
            await client.send(request_of("PUT", Content_Length=str(size)))
            # Like simple clients: send the whole body, then read the response.
            await client.send(*[b"x" * (1024 * 1024)] * 20)
            received = await client.receive()
            assert (received.status, received.header("connection")) == (403, "close")
            assert await client.rest() == b""
        await server.wait_ended()


async def test_discarding_an_unread_body_is_bounded() -> None:
    async with serving(unread) as server, await server.connect() as client:
        await client.send(request_of("PUT", Content_Length=str(10 * LINGER_BYTES)))
        assert (await client.receive()).status == 403
        with pytest.raises(ConnectionError):
            await client.send(*[b"x" * (1024 * 1024)] * (2 * LINGER_BYTES // (1024 * 1024)))
        await server.wait_ended()


async def test_truncated_body_raises_incomplete_and_the_client_gets_the_response() -> None:
    async def application(request: Request) -> Response:
        try:
            await request.body.read(100)
        except Incomplete as error:
            return Response(400, body=str(error).encode())
        return Response(200)

    async with serving(application) as server, await server.connect() as client:
        await client.send(request_of("PUT", Content_Length="10"), b"half")
        client.finish_sending()
        received = await client.receive()
        assert (received.status, b"received=4 expected=10" in received.body) == (400, True)
        assert await client.is_ended()


# -- failures --------------------------------------------------------------------------------------------------------


@pytest.mark.parametrize("when", ["at once", "after a wait"])
async def test_failed_handler_is_logged_and_gets_500_and_connection_close(
    when: str, caplog: pytest.LogCaptureFixture
) -> None:
    async def application(request: Request) -> Response:
        if when == "after a wait":
            await asyncio.sleep(0)
        raise RuntimeError("handler is broken")

    async with serving(application) as server, await server.connect() as client:
        received = await client.exchange(request_of("GET"))
        assert (received.status, received.header("connection")) == (500, "close")
        assert b"broken" not in received.body
        assert await client.is_ended()
        await server.wait_ended()
    (record,) = [record for record in caplog.records if record.name == "lakebed.http"]
    assert record.levelno == logging.ERROR
    assert record.exc_info is not None
    assert str(record.exc_info[1]) == "handler is broken"
    assert vars(record)["request_id"] == received.header("x-request-id")


async def test_failed_pipelined_request_gets_500() -> None:
    async def application(request: Request) -> Response:
        if request.raw_path == "/bad":
            raise RuntimeError("broken")
        return Response(200)

    async with serving(application) as server, await server.connect() as client:
        await client.send(request_of("GET", "/good") + request_of("GET", "/bad") + request_of("GET", "/never"))
        assert [(await client.receive()).status for _ in range(2)] == [200, 500]
        assert await client.is_ended()


async def test_failed_stream_closes_the_connection_without_the_last_chunk(caplog: pytest.LogCaptureFixture) -> None:
    async def pieces() -> AsyncIterator[bytes]:
        yield b"first"
        raise RuntimeError("the source broke")

    async with serving(responding(Response(200, stream=pieces()))) as server, await server.connect() as client:
        await client.send(request_of("GET"))
        with pytest.raises(ConnectionError):
            await client.receive()
        await server.wait_ended()
    assert "the source broke" in caplog.text


async def test_disconnect_before_the_response_is_not_logged(caplog: pytest.LogCaptureFixture) -> None:
    release = asyncio.Event()

    async def application(request: Request) -> Response:
        await release.wait()
        return Response(200, body=b"late")

    async with serving(application) as server:
        client = await server.connect()
        await client.send(request_of("GET"))
        await settle()
        client.reset()
        await server.wait_ended()
        release.set()
        await wait_until(lambda: server.protocol.is_idle)
    assert caplog.records == []


async def test_cancelled_handler_closes_its_connection() -> None:
    outcome: list[str] = []

    async def application(request: Request) -> Response:
        try:
            await request.body.read(100)
        except asyncio.CancelledError:
            outcome.append("cancelled")
            raise
        return Response(200)

    async with serving(application) as server, await server.connect() as client:
        before = asyncio.all_tasks()
        await client.send(request_of("PUT", Content_Length="10"))
        await settle()
        (task,) = asyncio.all_tasks() - before
        task.cancel()
        assert await client.is_ended()
    assert outcome == ["cancelled"]


async def test_handler_that_awaits_a_cancelled_future_closes_its_connection() -> None:
    async def application(request: Request) -> Response:
        cancelled: asyncio.Future[None] = asyncio.get_running_loop().create_future()
        asyncio.get_running_loop().call_soon(cancelled.cancel)
        await cancelled
        return Response(200)

    async with serving(application) as server, await server.connect() as client:
        await client.send(request_of("GET"))
        assert await client.is_ended()
        await server.wait_ended()


async def test_rejected_connection_gets_the_response_even_after_sending_a_request() -> None:
    async with serving(echo) as server, await server.connect() as client:
        await client.send(request_of("GET"))
        server.protocol.reject(HeadFault(503, "full"))
        received = await client.receive()
        assert (received.status, received.body, received.header("connection")) == (503, b"full", "close")
        assert await client.rest() == b""
