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

from .serving import GUARD_SECONDS, Serving, answering, later, request_of, serving, settle, wait_until

MIB = 1024 * 1024


def sliced(path: Path, *parts: tuple[int, int]) -> Response:
    """An answer of parts of a file, each with a descriptor of its own."""
    files = [FileSlice(os.open(path, os.O_RDONLY), offset, length) for offset, length in parts]
    return Response(200, files=files, length=sum(length for _, length in parts))


def uses(path: Path) -> int:
    """How many descriptors are open on the file."""
    return list(open_descriptors().values()).count(str(path))


@pytest.fixture
def large(tmp_path: Path) -> Path:
    """A file larger than what sockets hold."""
    path = tmp_path / "large"
    path.write_bytes(os.urandom(MIB) * 24)
    return path


# -- files -----------------------------------------------------------------------------------------------------------


async def test_slices_of_files_are_sent_in_order_and_closed(numbered: Path) -> None:
    content = numbered.read_bytes()
    parts = [(100, 50), (0, 1), (1_000_000, 1_500_000), (len(content) - 7, 7), (5, 0)]
    async with serving(answering(sliced(numbered, *parts))) as server, await server.connect() as client:
        answer = await client.ask(request_of("GET"))
        assert answer.body == b"".join(content[offset : offset + length] for offset, length in parts)
        await wait_until(lambda: uses(numbered) == 0)


async def test_bytes_between_slices_of_files_keep_their_place(numbered: Path) -> None:
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
                    assert (await client.ask(request_of("GET"))).body == whole
        await wait_until(lambda: uses(numbered) == 0)


async def test_answer_may_be_bytes_that_were_not_joined() -> None:
    row = [b"one ", b"", b"t" * (2 * MIB), b" three"]

    async def application(request: Request) -> Response:
        return Response(200, files=row, length=sum(map(len, row)))

    async with serving(application) as server, await server.connect() as client:
        assert (await client.ask(request_of("HEAD"), bare=True)).header("content-length") == str(sum(map(len, row)))
        for _ in range(2):
            assert (await client.ask(request_of("GET"))).body == b"".join(row)


async def test_answers_of_files_follow_each_other_on_one_connection(numbered: Path) -> None:
    content = numbered.read_bytes()

    async def application(request: Request) -> Response:
        start = int(request.raw_path[1:])
        return sliced(numbered, (start, len(content) - start))

    async with serving(application) as server, await server.connect() as client:
        await client.send(b"".join(request_of("GET", f"/{start}") for start in (0, 1, 2_999_999)))
        for start in (0, 1, 2_999_999):
            assert (await client.receive()).body == content[start:]


async def test_a_file_waits_for_an_answer_that_is_still_on_its_way(numbered: Path) -> None:
    content = numbered.read_bytes()
    before = Response(200, body=b"x" * (8 * MIB))
    responses = answering(before, sliced(numbered, (0, len(content))))
    async with serving(responses) as server, await server.connect(receive_buffer=4096) as client:
        await client.send(request_of("GET") + request_of("GET"))
        await settle()
        assert (await client.receive()).body == before.body
        assert (await client.receive()).body == content


async def test_head_closes_the_files_that_it_does_not_send(numbered: Path) -> None:
    responses = answering(sliced(numbered, (0, 10)), Response(200, body=b"ok"))
    async with serving(responses) as server, await server.connect() as client:
        assert (await client.ask(request_of("HEAD"), bare=True)).header("content-length") == "10"
        assert (await client.ask(request_of("GET"))).body == b"ok"
        assert uses(numbered) == 0


async def test_a_file_shorter_than_promised_ends_the_connection(
    numbered: Path, caplog: pytest.LogCaptureFixture
) -> None:
    size = numbered.stat().st_size
    async with serving(answering(sliced(numbered, (0, size + 1)))) as server, await server.connect() as client:
        await client.send(request_of("GET"))
        with pytest.raises(ConnectionError):
            await client.receive()
        await server.wait_ended()
    assert "a file is shorter than its object" in caplog.text
    assert uses(numbered) == 0


async def test_a_client_that_leaves_while_a_file_is_sent_leaves_no_descriptor(large: Path) -> None:
    before = open_descriptors()
    async with serving(answering(*(sliced(large, (0, 24 * MIB)) for _ in range(4)))) as server:
        for leave in ("reset", "close", "reset", "close"):
            client = await server.connect()
            await client.send(request_of("GET"))
            await wait_until(lambda: server.protocol._responder.is_blocked)
            await client.exactly(100_000)
            getattr(client, leave)()
            await server.wait_ended()
        await wait_until(lambda: uses(large) == 0)
    assert not opened_since(before)


async def test_a_client_that_left_before_its_answer_leaves_no_descriptor(numbered: Path) -> None:
    turn = asyncio.Event()
    done = asyncio.Event()

    async def application(request: Request) -> Response:
        await turn.wait()
        done.set()
        return sliced(numbered, (0, 100), (200, 100))

    before = open_descriptors()
    async with serving(application) as server:
        client = await server.connect()
        await client.send(request_of("GET"))
        await settle()
        client.reset()
        await server.wait_ended()
        turn.set()
        await done.wait()
        await settle()
        assert uses(numbered) == 0
    assert not opened_since(before)


async def test_a_late_answer_never_reaches_whoever_has_the_number_of_the_socket_now(numbered: Path) -> None:
    turn = asyncio.Event()
    number = 0
    turned = False

    async def application(request: Request) -> Response:
        nonlocal number, turned
        number = server.protocol._transport.get_extra_info("socket").fileno()
        await turn.wait()
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
            turn.set()
            await wait_until(lambda: turned)
            await settle()
            for end in (mine, theirs):
                with pytest.raises(BlockingIOError):
                    end.recv(1)
            if number not in (mine.fileno(), theirs.fileno()):
                os.close(number)


async def test_a_fast_download_lets_others_have_their_turn(numbered: Path, monkeypatch: pytest.MonkeyPatch) -> None:
    """A client on a core of its own can empty the socket as fast as it is filled."""
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
    async with serving(answering(sliced(numbered, (0, 100 * MIB)))) as server, await server.connect() as client:
        ticking = asyncio.create_task(others())
        await client.send(request_of("GET"))
        await wait_until(lambda: len(seen) == 100 and server.protocol.is_idle)
        assert len(set(seen)) >= 10
        ticking.cancel()
        with suppress(asyncio.CancelledError):
            await ticking


# -- streams ---------------------------------------------------------------------------------------------------------


class Source:
    """A stream that knows what was taken of it, and whether it was closed."""

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


async def test_a_stream_of_known_length_is_sent_as_it_is() -> None:
    source = Source(5)
    response = Response(200, stream=source.stream(), length=len(source.content))
    async with serving(answering(response)) as server, await server.connect() as client:
        answer = await client.ask(request_of("GET"))
        assert (answer.header("transfer-encoding"), answer.header("content-length")) == (None, str(5 * 256 * 1024))
        assert answer.body == source.content
        assert source.closed


async def test_a_stream_of_unknown_length_is_sent_in_chunks_and_the_connection_goes_on() -> None:
    async def pieces() -> AsyncIterator[bytes]:
        for piece in (b"one", b"", b"two", b"x" * 100_000):
            yield piece

    responses = answering(Response(200, stream=pieces()), Response(200, body=b"next"))
    async with serving(responses) as server, await server.connect() as client:
        answer = await client.ask(request_of("GET"))
        assert (answer.header("transfer-encoding"), answer.header("content-length")) == ("chunked", None)
        assert answer.body == b"onetwo" + b"x" * 100_000
        assert (await client.ask(request_of("GET"))).body == b"next"


async def test_a_client_of_1_0_gets_a_stream_of_unknown_length_until_the_end_of_the_connection() -> None:
    source = Source(3, 1000)
    async with serving(answering(Response(200, stream=source.stream()))) as server, await server.connect() as client:
        answer = await client.ask(b"GET / HTTP/1.0\r\nConnection: keep-alive\r\n\r\n")
        assert (answer.header("connection"), answer.header("transfer-encoding")) == ("close", None)
        assert answer.body == source.content


@pytest.mark.parametrize("promised", [99, 101])
async def test_a_stream_that_breaks_its_promise_ends_the_connection(
    promised: int, caplog: pytest.LogCaptureFixture
) -> None:
    source = Source(10, 10)
    response = Response(200, stream=source.stream(), length=promised)
    async with serving(answering(response)) as server, await server.connect() as client:
        await client.send(request_of("GET"))
        with suppress(ConnectionError):
            await client.until(b"\r\n\r\n")
            assert len(await client.rest()) < promised
        await server.wait_ended()
    assert "than its answer said" in caplog.text
    assert source.closed


async def test_head_does_not_begin_a_stream() -> None:
    source = Source(3)
    responses = answering(Response(200, stream=source.stream(), length=100), Response(200, body=b"ok"))
    async with serving(responses) as server, await server.connect() as client:
        assert (await client.ask(request_of("HEAD"), bare=True)).header("content-length") == "100"
        assert (await client.ask(request_of("GET"))).body == b"ok"
    assert source.taken == 0


async def test_a_client_that_does_not_read_stops_the_source_and_gets_all_when_it_does() -> None:
    source = Source(60)
    response = Response(200, stream=source.stream(), length=len(source.content))
    async with serving(answering(response)) as server, await server.connect(receive_buffer=4096) as client:
        await client.send(request_of("GET"))
        await wait_until(lambda: server.protocol._responder.is_blocked)
        await settle()
        # What the source gave is in the two sockets or in the transport: a piece over its high mark of 64 KiB.
        assert source.taken < 20
        assert server.protocol._transport.get_write_buffer_size() <= 2 * 256 * 1024
        assert (await client.receive()).body == source.content


async def test_a_client_that_leaves_stops_the_source_and_closes_it() -> None:
    source = Source(60)
    response = Response(200, stream=source.stream(), length=len(source.content))
    async with serving(answering(response)) as server:
        client = await server.connect(receive_buffer=4096)
        await client.send(request_of("GET"))
        await wait_until(lambda: server.protocol._responder.is_blocked)
        client.reset()
        await server.wait_ended()
        await wait_until(lambda: source.closed)
        assert source.taken < 20


# -- progress --------------------------------------------------------------------------------------------------------


async def standing(server: Serving) -> float:
    """Wait until the server has been waiting for its client for some time; since when."""
    async with asyncio.timeout(GUARD_SECONDS):
        while True:
            since = await later()
            for _ in range(5):
                await later()
            if server.protocol.is_stalled(since):
                return since


async def test_a_download_that_moves_is_not_stalled_and_one_that_stands_is(large: Path) -> None:
    async with serving(answering(sliced(large, (0, 24 * MIB)))) as server, await server.connect() as client:
        await client.send(request_of("GET"))
        await client.until(b"\r\n\r\n")
        left = 24 * MIB
        for _ in range(3):
            stood = await standing(server)
            left -= len(await client.exactly(4 * MIB))
            await wait_until(lambda since=stood: not server.protocol.is_stalled(since))  # type: ignore[misc]  # mypy cannot infer a lambda with a default
        await client.exactly(left)


async def test_a_buffered_answer_that_moves_is_not_stalled_and_one_that_stands_is() -> None:
    response = Response(200, body=b"x" * (24 * MIB))
    async with serving(answering(response)) as server, await server.connect() as client:
        await client.send(request_of("GET"))
        await client.until(b"\r\n\r\n")
        for _ in range(3):
            stood = await standing(server)
            await client.exactly(4 * MIB)
            await wait_until(lambda since=stood: not server.protocol.is_stalled(since))  # type: ignore[misc]  # mypy cannot infer a lambda with a default
