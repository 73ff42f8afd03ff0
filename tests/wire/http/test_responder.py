from __future__ import annotations

import asyncio
import os
import socket
from collections.abc import AsyncIterator
from contextlib import suppress
from pathlib import Path

import pytest

from lakebed.wire.http.message import FileSlice, Request, Response
from tests.fixtures.descriptors import open_descriptors, opened_since

from .serving import GUARD_SECONDS, Serving, later, request_of, responding, serving, settle, wait_until

MIB = 1024 * 1024


def sliced(path: Path, *parts: tuple[int, int]) -> Response:
    """A response of parts of a file, each with a separate descriptor."""
    files = [FileSlice(os.open(path, os.O_RDONLY), offset, length) for offset, length in parts]
    return Response(200, files=files, length=sum(length for _, length in parts))


def uses(path: Path) -> int:
    """The number of open descriptors of the file."""
    return list(open_descriptors().values()).count(str(path))


@pytest.fixture
def large(tmp_path: Path) -> Path:
    """A file larger than the buffers of sockets."""
    path = tmp_path / "large"
    path.write_bytes(os.urandom(MIB) * 24)
    return path


# -- files -----------------------------------------------------------------------------------------------------------


async def test_file_slices_are_sent_in_order_and_closed(numbered: Path) -> None:
    content = numbered.read_bytes()
    parts = [(100, 50), (0, 1), (1_000_000, 1_500_000), (len(content) - 7, 7), (5, 0)]
    async with serving(responding(sliced(numbered, *parts))) as server, await server.connect() as client:
        received = await client.exchange(request_of("GET"))
        assert received.body == b"".join(content[offset : offset + length] for offset, length in parts)
        await wait_until(lambda: uses(numbered) == 0)


async def test_bytes_between_file_slices_are_sent_in_order(numbered: Path) -> None:
    content = numbered.read_bytes()

    async def application(request: Request) -> Response:
        files = [FileSlice(os.open(numbered, os.O_RDONLY), offset, 1_500_000) for offset in (7, 1_000_000)]
        row: list[FileSlice | bytes] = [b"<" * MIB, files[0], b"", b"-", b"-" * MIB, files[1], b">" * (3 * MIB)]
        return Response(200, files=row, length=5 * MIB + 1 + 3_000_000)

    whole = b"<" * MIB + content[7:1_500_007] + b"-" * (MIB + 1) + content[1_000_000:2_500_000] + b">" * (3 * MIB)
    async with serving(application) as server:
        for buffer in (None, 4096):
            async with await (server.connect() if buffer is None else server.connect(receive_buffer=buffer)) as client:
                for _ in range(2):
                    assert (await client.exchange(request_of("GET"))).body == whole
        await wait_until(lambda: uses(numbered) == 0)


async def test_response_of_several_byte_strings_is_sent_in_order() -> None:
    row = [b"one ", b"", b"t" * (2 * MIB), b" three"]

    async def application(request: Request) -> Response:
        return Response(200, files=row, length=sum(map(len, row)))

    async with serving(application) as server, await server.connect() as client:
        assert (await client.exchange(request_of("HEAD"), bare=True)).header("content-length") == str(
            sum(map(len, row))
        )
        for _ in range(2):
            assert (await client.exchange(request_of("GET"))).body == b"".join(row)


async def test_pipelined_responses_of_files_are_sent_in_order(numbered: Path) -> None:
    content = numbered.read_bytes()

    async def application(request: Request) -> Response:
        start = int(request.raw_path[1:])
        return sliced(numbered, (start, len(content) - start))

    async with serving(application) as server, await server.connect() as client:
        await client.send(b"".join(request_of("GET", f"/{start}") for start in (0, 1, 2_999_999)))
        for start in (0, 1, 2_999_999):
            assert (await client.receive()).body == content[start:]


async def test_file_waits_until_the_previous_response_is_sent(numbered: Path) -> None:
    content = numbered.read_bytes()
    before = Response(200, body=b"x" * (8 * MIB))
    responses = responding(before, sliced(numbered, (0, len(content))))
    async with serving(responses) as server, await server.connect(receive_buffer=4096) as client:
        await client.send(request_of("GET") + request_of("GET"))
        await settle()
        assert (await client.receive()).body == before.body
        assert (await client.receive()).body == content


async def test_head_closes_files_without_sending_them(numbered: Path) -> None:
    responses = responding(sliced(numbered, (0, 10)), Response(200, body=b"ok"))
    async with serving(responses) as server, await server.connect() as client:
        assert (await client.exchange(request_of("HEAD"), bare=True)).header("content-length") == "10"
        assert (await client.exchange(request_of("GET"))).body == b"ok"
        assert uses(numbered) == 0


async def test_file_shorter_than_content_length_closes_the_connection(
    numbered: Path, caplog: pytest.LogCaptureFixture
) -> None:
    size = numbered.stat().st_size
    async with serving(responding(sliced(numbered, (0, size + 1)))) as server, await server.connect() as client:
        await client.send(request_of("GET"))
        with pytest.raises(ConnectionError):
            await client.receive()
        await server.wait_ended()
    assert "file is shorter than its object" in caplog.text
    assert uses(numbered) == 0


async def test_disconnect_while_a_file_is_sent_closes_its_descriptor(large: Path) -> None:
    before = open_descriptors()
    async with serving(responding(*(sliced(large, (0, 24 * MIB)) for _ in range(4)))) as server:
        for leave in ("reset", "close", "reset", "close"):
            client = await server.connect()
            await client.send(request_of("GET"))
            await wait_until(lambda: server.protocol._responder.is_blocked)
            await client.exactly(100_000)
            getattr(client, leave)()
            await server.wait_ended()
        await wait_until(lambda: uses(large) == 0)
    assert not opened_since(before)


async def test_disconnect_before_the_response_closes_its_files(numbered: Path) -> None:
    release = asyncio.Event()
    done = asyncio.Event()

    async def application(request: Request) -> Response:
        await release.wait()
        done.set()
        return sliced(numbered, (0, 100), (200, 100))

    before = open_descriptors()
    async with serving(application) as server:
        client = await server.connect()
        await client.send(request_of("GET"))
        await settle()
        client.reset()
        await server.wait_ended()
        release.set()
        await done.wait()
        await settle()
        assert uses(numbered) == 0
    assert not opened_since(before)


async def test_late_response_is_not_sent_to_a_reused_socket_descriptor(numbered: Path) -> None:
    release = asyncio.Event()
    number = 0
    turned = False

    async def application(request: Request) -> Response:
        nonlocal number, turned
        number = server.protocol._transport.get_extra_info("socket").fileno()
        await release.wait()
        turned = True
        return sliced(numbered, (0, 100))

    async with serving(application) as server:
        client = await server.connect()
        await client.send(request_of("GET"))
        await wait_until(lambda: number != 0)
        client.reset()
        await server.wait_ended()
        await settle()
        assert number not in open_descriptors()
        mine, theirs = socket.socketpair()
        with mine, theirs:
            if number not in (mine.fileno(), theirs.fileno()):
                os.dup2(theirs.fileno(), number)
            mine.setblocking(False)
            theirs.setblocking(False)
            release.set()
            await wait_until(lambda: turned)
            await settle()
            for end in (mine, theirs):
                with pytest.raises(BlockingIOError):
                    end.recv(1)
            if number not in (mine.fileno(), theirs.fileno()):
                os.close(number)


async def test_fast_download_yields_to_other_connections(numbered: Path, monkeypatch: pytest.MonkeyPatch) -> None:
    """A client on another core can read from the socket as fast as the server writes."""
    turns = 0
    seen: list[int] = []

    def endless(target: int, source: int, offset: int, count: int) -> int:
        seen.append(turns)
        return count

    async def others() -> None:
        nonlocal turns
        while True:
            turns += 1
            await asyncio.sleep(0)

    monkeypatch.setattr(os, "sendfile", endless)
    async with serving(responding(sliced(numbered, (0, 100 * MIB)))) as server, await server.connect() as client:
        ticking = asyncio.create_task(others())
        await client.send(request_of("GET"))
        await wait_until(lambda: len(seen) == 100 and server.protocol.is_idle)
        assert len(set(seen)) >= 10
        ticking.cancel()
        with suppress(asyncio.CancelledError):
            await ticking


# -- streams ---------------------------------------------------------------------------------------------------------


class Source:
    """A stream that counts the pieces it yielded, and records whether it was closed."""

    def __init__(self, pieces: int, size: int = 256 * 1024) -> None:
        self._pieces = pieces
        self._size = size
        self.taken = 0
        self.closed = False

    async def stream(self) -> AsyncIterator[bytes]:
        try:
            for number in range(self._pieces):
                self.taken += 1
                yield bytes([number % 256]) * self._size
                await asyncio.sleep(0)
        finally:
            self.closed = True

    @property
    def content(self) -> bytes:
        return b"".join(bytes([number % 256]) * self._size for number in range(self._pieces))


async def test_stream_of_known_length_is_sent_unchunked() -> None:
    source = Source(5)
    response = Response(200, stream=source.stream(), length=len(source.content))
    async with serving(responding(response)) as server, await server.connect() as client:
        received = await client.exchange(request_of("GET"))
        assert (received.header("transfer-encoding"), received.header("content-length")) == (None, str(5 * 256 * 1024))
        assert received.body == source.content
        assert source.closed


async def test_stream_of_unknown_length_is_chunked_and_the_connection_stays_open() -> None:
    async def pieces() -> AsyncIterator[bytes]:
        for piece in (b"one", b"", b"two", b"x" * 100_000):
            yield piece

    responses = responding(Response(200, stream=pieces()), Response(200, body=b"next"))
    async with serving(responses) as server, await server.connect() as client:
        received = await client.exchange(request_of("GET"))
        assert (received.header("transfer-encoding"), received.header("content-length")) == ("chunked", None)
        assert received.body == b"onetwo" + b"x" * 100_000
        assert (await client.exchange(request_of("GET"))).body == b"next"


async def test_http_1_0_stream_of_unknown_length_ends_with_the_connection() -> None:
    source = Source(3, 1000)
    async with serving(responding(Response(200, stream=source.stream()))) as server, await server.connect() as client:
        received = await client.exchange(b"GET / HTTP/1.0\r\nConnection: keep-alive\r\n\r\n")
        assert (received.header("connection"), received.header("transfer-encoding")) == ("close", None)
        assert received.body == source.content


@pytest.mark.parametrize("declared", [99, 101])
async def test_stream_of_another_length_closes_the_connection(declared: int, caplog: pytest.LogCaptureFixture) -> None:
    source = Source(10, 10)
    response = Response(200, stream=source.stream(), length=declared)
    async with serving(responding(response)) as server, await server.connect() as client:
        await client.send(request_of("GET"))
        with suppress(ConnectionError):
            await client.until(b"\r\n\r\n")
            assert len(await client.rest()) < declared
        await server.wait_ended()
    assert "than its Content-Length" in caplog.text
    assert source.closed


async def test_head_does_not_start_a_stream() -> None:
    source = Source(3)
    responses = responding(Response(200, stream=source.stream(), length=100), Response(200, body=b"ok"))
    async with serving(responses) as server, await server.connect() as client:
        assert (await client.exchange(request_of("HEAD"), bare=True)).header("content-length") == "100"
        assert (await client.exchange(request_of("GET"))).body == b"ok"
    assert source.taken == 0


async def test_client_that_does_not_read_pauses_the_stream_and_gets_all_bytes_later() -> None:
    source = Source(60)
    response = Response(200, stream=source.stream(), length=len(source.content))
    async with serving(responding(response)) as server, await server.connect(receive_buffer=4096) as client:
        await client.send(request_of("GET"))
        await wait_until(lambda: server.protocol._responder.is_blocked)
        await settle()
        # The yielded pieces are in the two sockets or in the transport: one piece above its high-water mark of 64 KiB.
        assert source.taken < 20
        assert server.protocol._transport.get_write_buffer_size() <= 2 * 256 * 1024
        assert (await client.receive()).body == source.content


async def test_disconnect_closes_the_stream() -> None:
    source = Source(60)
    response = Response(200, stream=source.stream(), length=len(source.content))
    async with serving(responding(response)) as server:
        client = await server.connect(receive_buffer=4096)
        await client.send(request_of("GET"))
        await wait_until(lambda: server.protocol._responder.is_blocked)
        client.reset()
        await server.wait_ended()
        await wait_until(lambda: source.closed)
        assert source.taken < 20


# -- progress --------------------------------------------------------------------------------------------------------


async def stalled_since(server: Serving) -> float:
    """Wait until the connection is stalled; the time since when."""
    async with asyncio.timeout(GUARD_SECONDS):
        while True:
            since = await later()
            for _ in range(5):
                await later()
            if server.protocol.is_stalled(since):
                return since


async def test_download_is_stalled_exactly_while_the_client_does_not_read(large: Path) -> None:
    async with serving(responding(sliced(large, (0, 24 * MIB)))) as server, await server.connect() as client:
        await client.send(request_of("GET"))
        await client.until(b"\r\n\r\n")
        left = 24 * MIB
        for _ in range(3):
            stalled = await stalled_since(server)
            left -= len(await client.exactly(4 * MIB))
            await wait_until(lambda since=stalled: not server.protocol.is_stalled(since))  # type: ignore[misc]  # mypy cannot infer a lambda with a default
        await client.exactly(left)


async def test_buffered_response_is_stalled_exactly_while_the_client_does_not_read() -> None:
    response = Response(200, body=b"x" * (24 * MIB))
    async with serving(responding(response)) as server, await server.connect() as client:
        await client.send(request_of("GET"))
        await client.until(b"\r\n\r\n")
        for _ in range(3):
            stalled = await stalled_since(server)
            await client.exactly(4 * MIB)
            await wait_until(lambda since=stalled: not server.protocol.is_stalled(since))  # type: ignore[misc]  # mypy cannot infer a lambda with a default
