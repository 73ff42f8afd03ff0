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


class Audited:
    """An application with records of its requests."""

    def __init__(self, application: Application) -> None:
        self.clock = ManualClock()
        self.entries: list[tuple[request_audit.RequestRecord, Request, Response | None]] = []
        self._start_record = request_audit.RequestRecorder(
            lambda *entry: self.entries.append(entry), self.clock
        ).start_record
        self._application = application

    async def __call__(self, request: Request) -> Response:
        self._start_record(request)
        return await self._application(request)


async def test_request_has_no_record_without_a_recorder() -> None:
    async def plain(request: Request) -> Response:
        assert request.record is None
        return Response(200, body=b"ok")

    async with serving(plain) as server, await server.connect() as client:
        await client.send(request_of("GET", "/b/k"))
        assert (await client.receive()).status == 200


async def test_record_has_bytes_and_times_of_the_whole_response() -> None:
    async def slow(request: Request) -> Response:
        assert request.record is not None
        request.record.name("s3", "PutObject", "b", "k")
        body = await request.body.read(100)
        audited.clock.advance(2)

        async def stream() -> AsyncIterator[bytes]:
            yield b"abc"
            audited.clock.advance(3)
            yield b"de"

        return Response(200, stream=stream(), length=len(body))

    audited = Audited(slow)
    async with serving(audited) as server, await server.connect() as client:
        await client.send(request_of("PUT", "/b/k", b"12345"))
        assert (await client.receive()).body == b"abcde"
        await wait_until(lambda: bool(audited.entries))
    ((record, request, response),) = audited.entries
    assert (record.edge, record.operation, record.bucket, record.key) == ("s3", "PutObject", "b", "k")
    assert (record.responded - record.began, record.ended - record.began) == (2, 5)
    assert (request.body.received, record.sent_bytes) == (5, 5)
    assert response is not None
    assert response.status == 200


async def test_record_counts_bytes_of_files_but_none_for_head(tmp_path: Path) -> None:
    (tmp_path / "file").write_bytes(b"x" * 1000)

    async def file(request: Request) -> Response:
        piece = FileSlice(os.open(tmp_path / "file", os.O_RDONLY), 0, 1000)
        return Response(200, files=[b"head", piece], length=1004)

    audited = Audited(file)
    async with serving(audited) as server, await server.connect() as client:
        await client.send(request_of("GET", "/b/k"))
        assert len((await client.receive()).body) == 1004
        await wait_until(lambda: len(audited.entries) == 1)
        assert audited.entries[0][0].sent_bytes == 1004
        await client.send(request_of("HEAD", "/b/k"))
        await wait_until(lambda: len(audited.entries) == 2)
        assert audited.entries[1][0].sent_bytes == 0


async def test_record_of_a_disconnected_client_has_the_bytes_sent() -> None:
    gone = asyncio.Event()

    async def endless(request: Request) -> Response:
        async def stream() -> AsyncIterator[bytes]:
            yield b"abc"
            await gone.wait()
            while True:
                await asyncio.sleep(0)
                yield b"x" * 65536

        return Response(200, stream=stream())

    audited = Audited(endless)
    async with serving(audited) as server:
        async with await server.connect() as client:
            await client.send(request_of("GET", "/b/k"))
            await wait_until(lambda: bool(server.connections.protocols[-1]._responder.sent_bytes))
        gone.set()
        await wait_until(lambda: bool(audited.entries))
    assert audited.entries[0][0].sent_bytes >= 3


async def test_request_without_a_response_is_recorded() -> None:
    async def cancelled(request: Request) -> Response:
        raise asyncio.CancelledError

    audited = Audited(cancelled)
    async with serving(audited) as server, await server.connect() as client:
        await client.send(request_of("GET", "/b/k"))
        await wait_until(lambda: bool(audited.entries))
    ((record, _, response),) = audited.entries
    assert response is None
    assert (record.edge, record.operation) == ("http", "Unknown")
