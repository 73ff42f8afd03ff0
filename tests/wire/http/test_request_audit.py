from __future__ import annotations

import asyncio
import os
from collections.abc import AsyncIterator
from pathlib import Path

from lakebed.core.clock import ManualClock
from lakebed.wire.http import request_audit
from lakebed.wire.http.message import FileSlice, Request, Response
from lakebed.wire.http.protocol import Application

from .serving import request_of, serving, wait_until


class Heard:
    """An application that is attended, and what is noted of it."""

    def __init__(self, application: Application) -> None:
        self.clock = ManualClock()
        self.entries: list[tuple[request_audit.RequestRecord, Request, Response | None]] = []
        self._attend = request_audit.RequestRecorder(lambda *entry: self.entries.append(entry), self.clock).start_record
        self._application = application

    async def __call__(self, request: Request) -> Response:
        self._attend(request)
        return await self._application(request)


async def test_what_is_not_attended_is_not_noted() -> None:
    async def plain(request: Request) -> Response:
        assert request.record is None
        return Response(200, body=b"ok")

    async with serving(plain) as server, await server.connect() as client:
        await client.send(request_of("GET", "/b/k"))
        assert (await client.receive()).status == 200


async def test_bytes_and_times_are_those_of_the_whole_answer() -> None:
    async def slow(request: Request) -> Response:
        assert request.record is not None
        request.record.name("s3", "PutObject", "b", "k")
        body = await request.body.read(100)
        heard.clock.advance(2)

        async def stream() -> AsyncIterator[bytes]:
            yield b"abc"
            heard.clock.advance(3)
            yield b"de"

        return Response(200, stream=stream(), length=len(body))

    heard = Heard(slow)
    async with serving(heard) as server, await server.connect() as client:
        await client.send(request_of("PUT", "/b/k", b"12345"))
        assert (await client.receive()).body == b"abcde"
        await wait_until(lambda: bool(heard.entries))
    ((record, request, response),) = heard.entries
    assert (record.edge, record.operation, record.bucket, record.key) == ("s3", "PutObject", "b", "k")
    assert (record.answered - record.began, record.ended - record.began) == (2, 5)
    assert (request.body.received, record.sent_bytes) == (5, 5)
    assert response is not None
    assert response.status == 200


async def test_files_count_and_a_head_sends_no_body(tmp_path: Path) -> None:
    (tmp_path / "file").write_bytes(b"x" * 1000)

    async def file(request: Request) -> Response:
        piece = FileSlice(os.open(tmp_path / "file", os.O_RDONLY), 0, 1000)
        return Response(200, files=[b"head", piece], length=1004)

    heard = Heard(file)
    async with serving(heard) as server, await server.connect() as client:
        await client.send(request_of("GET", "/b/k"))
        assert len((await client.receive()).body) == 1004
        await wait_until(lambda: len(heard.entries) == 1)
        assert heard.entries[0][0].sent_bytes == 1004
        await client.send(request_of("HEAD", "/b/k"))
        await wait_until(lambda: len(heard.entries) == 2)
        assert heard.entries[1][0].sent_bytes == 0


async def test_a_client_that_goes_away_is_noted_with_what_it_took() -> None:
    gone = asyncio.Event()

    async def endless(request: Request) -> Response:
        async def stream() -> AsyncIterator[bytes]:
            yield b"abc"
            await gone.wait()
            while True:
                await asyncio.sleep(0)
                yield b"x" * 65536

        return Response(200, stream=stream())

    heard = Heard(endless)
    async with serving(heard) as server:
        async with await server.connect() as client:
            await client.send(request_of("GET", "/b/k"))
            await wait_until(lambda: bool(server.connections.protocols[-1]._responder.sent_bytes))
        gone.set()
        await wait_until(lambda: bool(heard.entries))
    assert heard.entries[0][0].sent_bytes >= 3


async def test_a_request_that_nobody_will_answer_is_noted_too() -> None:
    async def given_up(request: Request) -> Response:
        raise asyncio.CancelledError

    heard = Heard(given_up)
    async with serving(heard) as server, await server.connect() as client:
        await client.send(request_of("GET", "/b/k"))
        await wait_until(lambda: bool(heard.entries))
    ((record, _, response),) = heard.entries
    assert response is None
    assert (record.edge, record.operation) == ("http", "Unknown")
