from __future__ import annotations

import asyncio

from lakebed.core.buffers import ALIGNMENT, address_of
from lakebed.core.errors import Incomplete
from lakebed.wire.http.body import CHUNK_BYTES, MAX_WAITING
from lakebed.wire.http.message import Request, Response
from tests.fixtures.descriptors import open_descriptors, opened_since

from .serving import echo, later, request_of, serving, settle, wait_until

MIB = 1024 * 1024
SCRATCH_BYTES = 256 * 1024


async def test_handler_that_does_not_read_blocks_the_client_and_bounds_memory() -> None:
    release = asyncio.Event()
    bodies: list[Request] = []

    async def application(request: Request) -> Response:
        bodies.append(request)
        await release.wait()
        size = 0
        while (piece := await request.body.next_chunk()) is not None:
            size += len(piece)
        return Response(200, body=b"%d" % size)

    size = 64 * MIB
    async with serving(application) as server, await server.connect() as client:
        await client.send(request_of("PUT", Content_Length=str(size)))
        sent = await client.send_until_stuck(b"x" * MIB, size)
        assert sent < size
        held = bodies[0].body.received + server.protocol._fill_used
        assert held <= SCRATCH_BYTES + (MAX_WAITING + 1) * CHUNK_BYTES
        release.set()
        await client.send(b"x" * (size - sent))
        assert (await client.receive()).body == b"%d" % size


async def test_unread_chunked_body_blocks_the_client() -> None:
    release = asyncio.Event()
    bodies: list[Request] = []

    async def application(request: Request) -> Response:
        bodies.append(request)
        await release.wait()
        return Response(403)

    async with serving(application) as server, await server.connect() as client:
        await client.send(b"PUT / HTTP/1.1\r\nHost: here\r\nTransfer-Encoding: chunked\r\n\r\n")
        chunk = b"100000\r\n" + b"x" * MIB + b"\r\n"
        sent = await client.send_until_stuck(chunk, 64 * len(chunk))
        assert sent < 64 * len(chunk)
        assert bodies[0].body.received <= (MAX_WAITING + 1) * SCRATCH_BYTES
        release.set()
        assert (await client.receive()).status == 403


async def test_slow_reader_gets_every_byte() -> None:
    content = b"".join(b"%07d\n" % number for number in range(400_000))

    async def application(request: Request) -> Response:
        pieces = []
        while (piece := await request.body.next_chunk()) is not None:
            pieces.append(bytes(piece))
            await settle()
        return Response(200, body=b"".join(pieces))

    async with serving(application) as server, await server.connect() as client:
        sending = asyncio.create_task(client.send(request_of("PUT", "/", content)))
        assert (await client.receive()).body == content
        await sending


async def test_large_body_arrives_in_full_aligned_buffers_except_for_the_last() -> None:
    pieces: list[bytes | memoryview] = []

    async def application(request: Request) -> Response:
        while (piece := await request.body.next_chunk()) is not None:
            pieces.append(piece)
        return Response(200)

    body = b"".join(b"%07d\n" % number for number in range(3 * CHUNK_BYTES // 8)) + b"end"
    async with serving(application) as server, await server.connect() as client:
        # The first bytes of the body follow the head in one write.
        await client.send(request_of("PUT", Content_Length=str(len(body))) + body[:1000])
        await client.send(body[1000:])
        await client.receive()
    assert b"".join(pieces) == body
    assert [len(piece) for piece in pieces] == [CHUNK_BYTES] * 3 + [3]
    assert all(address_of(piece) % ALIGNMENT == 0 for piece in pieces if isinstance(piece, memoryview))
    assert all(isinstance(piece, memoryview) for piece in pieces)


async def test_buffers_held_by_a_reader_are_not_overwritten_by_later_bodies() -> None:
    kept: list[memoryview] = []

    async def application(request: Request) -> Response:
        while (piece := await request.body.next_chunk()) is not None:
            # A part of each buffer, as decoders return.
            kept.append(memoryview(piece)[100:200])
        return Response(200)

    async with serving(application) as server, await server.connect() as client:
        for number in range(20):
            await client.send(request_of("PUT", Content_Length=str(2 * CHUNK_BYTES)))
            await client.send(bytes([number]) * 2 * CHUNK_BYTES)
            await client.receive()
    assert [bytes(view) for view in kept] == [bytes([number]) * 100 for number in range(20) for _ in range(2)]


async def test_disconnect_within_a_body_raises_incomplete() -> None:
    outcomes: list[str] = []

    async def application(request: Request) -> Response:
        try:
            while await request.body.next_chunk() is not None:
                pass
        except Incomplete as error:
            outcomes.append(str(error))
        return Response(400)

    before = open_descriptors()
    async with serving(application) as server:
        for leave, sent in (("reset", 0), ("close", 1000), ("reset", 300_000), ("close", 2 * MIB), ("reset", 5 * MIB)):
            client = await server.connect()
            await client.send(request_of("PUT", Content_Length=str(8 * MIB)), b"x" * sent)
            await settle()
            getattr(client, leave)()
            await server.wait_ended()
        await wait_until(lambda: len(outcomes) == 5)
    assert all("expected=8388608" in outcome for outcome in outcomes)
    assert not opened_since(before)


async def test_disconnect_while_reading_is_paused_is_detected_when_it_resumes() -> None:
    release = asyncio.Event()
    outcomes: list[int] = []

    async def application(request: Request) -> Response:
        await release.wait()
        try:
            while await request.body.next_chunk() is not None:
                pass
        except Incomplete:
            outcomes.append(request.body.received)
        return Response(400)

    async with serving(application) as server:
        client = await server.connect()
        await client.send(request_of("PUT", Content_Length=str(64 * MIB)))
        sent = await client.send_until_stuck(b"x" * MIB, 64 * MIB)
        client.close()
        release.set()
        await wait_until(lambda: len(outcomes) == 1)
        assert outcomes[0] <= sent
        await server.wait_ended()


async def test_connection_is_stalled_while_it_waits_for_the_client() -> None:
    loop = asyncio.get_running_loop()
    release = asyncio.Event()

    async def application(request: Request) -> Response:
        await request.body.next_chunk()
        await release.wait()
        await request.body.next_chunk()
        return Response(200)

    async with serving(application) as server, await server.connect() as client:
        protocol = server.protocol

        def is_stalled() -> bool:
            return protocol.is_stalled(loop.time() + 1)

        assert is_stalled()  # no request
        await client.send(request_of("PUT", Content_Length="2"))
        await settle()
        assert is_stalled()  # none of its body
        await client.send(b"a")
        await settle()
        assert not is_stalled()  # the handler is busy
        release.set()
        await settle()
        assert is_stalled()  # the other half of the body
        await client.send(b"b")
        assert (await client.receive()).status == 200
        assert is_stalled()  # the next request


async def test_body_that_makes_progress_is_not_stalled() -> None:
    async with serving(echo) as server, await server.connect() as client:
        await client.send(request_of("PUT", Content_Length="5"))
        await settle()
        for _ in range(5):
            since = await later()
            assert server.protocol.is_stalled(since)
            await client.send(b"x")
            await wait_until(lambda: not server.protocol.is_stalled(since))  # noqa: B023  # evaluated before the next iteration
        await client.receive()


async def test_head_sent_byte_by_byte_is_stalled() -> None:
    async with serving(echo) as server, await server.connect() as client:
        await client.send(b"G")
        await settle()
        since = await later()
        for byte in b"ET / HTTP/1.1\r\nX: ":
            await client.send(bytes([byte]))
            await settle()
        assert server.protocol.is_stalled(since)


async def test_connection_is_lingering_after_a_response_to_an_unread_body() -> None:
    async def application(request: Request) -> Response:
        return Response(403)

    async with serving(application) as server, await server.connect() as client:
        assert not server.protocol.is_lingering
        await client.send(request_of("PUT", Content_Length=str(8 * MIB)))
        assert (await client.receive()).status == 403
        assert server.protocol.is_lingering


async def test_long_poll_ends_when_the_client_disconnects_or_the_server_stops() -> None:
    requests: list[Request] = []
    news = asyncio.Event()

    async def application(request: Request) -> Response:
        requests.append(request)
        await news.wait()
        return Response(200)

    async with serving(application) as server, await server.connect() as client:
        await client.send(request_of("GET"))
        await wait_until(lambda: bool(requests))
        assert requests[0].may_wait()
        server.connections.draining = True
        assert not requests[0].may_wait()
        server.connections.draining = False
        assert requests[0].may_wait()
        client.finish_sending()
        await wait_until(lambda: not requests[0].may_wait())
        news.set()
        assert (await client.receive()).status == 200


async def test_closed_connections_leave_no_descriptors() -> None:
    before = open_descriptors()
    async with serving(echo) as server:
        for kind in range(40):
            client = await server.connect()
            whole = request_of("PUT", "/", b"x" * 1000)
            await client.send(whole[: len(whole) * (kind % 4) // 3])
            if kind % 4 == 3:
                assert (await client.receive()).status == 200
            (client.reset if kind % 2 else client.close)()
        await server.wait_ended()
    assert not opened_since(before)
