from __future__ import annotations

import asyncio
import logging
import os
import ssl
from collections.abc import AsyncIterator
from pathlib import Path

import pytest

from lakebed.wire.http.body import CHUNK_BYTES
from lakebed.wire.http.message import FileSlice, Request, Response
from tests.fixtures.descriptors import open_descriptors

from .serving import echo, request_of, responding, serving, wait_until

MIB = 1024 * 1024


async def test_large_bodies_are_received_and_sent(server_tls: ssl.SSLContext, client_tls: ssl.SSLContext) -> None:
    content = b"".join(b"%07d\n" % number for number in range(450_000))
    async with serving(echo, server_tls) as server, await server.connect(client_tls=client_tls) as client:
        for size in (0, 1, CHUNK_BYTES, len(content)):
            sending = asyncio.create_task(client.send(request_of("PUT", "/", content[:size])))
            assert (await client.receive()).body == content[:size]
            await sending


async def test_files_are_sent_and_closed(
    numbered: Path, server_tls: ssl.SSLContext, client_tls: ssl.SSLContext
) -> None:
    content = numbered.read_bytes()

    async def application(request: Request) -> Response:
        assert (request.scheme, request.tls_version) == ("https", "TLSv1.3")
        parts = [(7, 1_000_000), (2_000_000, 800_000)]
        files = [FileSlice(os.open(numbered, os.O_RDONLY), offset, length) for offset, length in parts]
        return Response(200, files=files, length=1_800_000)

    async with serving(application, server_tls) as server, await server.connect(client_tls=client_tls) as client:
        for _ in range(2):
            received = await client.exchange(request_of("GET"))
            assert received.body == content[7:1_000_007] + content[2_000_000:2_800_000]
        await wait_until(lambda: str(numbered) not in open_descriptors().values())


async def test_file_shorter_than_content_length_closes_the_connection(
    numbered: Path, server_tls: ssl.SSLContext, client_tls: ssl.SSLContext, caplog: pytest.LogCaptureFixture
) -> None:
    size = numbered.stat().st_size
    response = Response(200, files=[FileSlice(os.open(numbered, os.O_RDONLY), 10, size)], length=size)
    async with serving(responding(response), server_tls) as server:
        client = await server.connect(client_tls=client_tls)
        await client.send(request_of("GET"))
        with pytest.raises((ConnectionError, ssl.SSLError)):
            await client.receive()
        client.reset()
        await server.wait_ended()
    assert "file is shorter than its object" in caplog.text
    assert str(numbered) not in open_descriptors().values()


async def test_client_that_does_not_read_pauses_the_stream(
    server_tls: ssl.SSLContext, client_tls: ssl.SSLContext
) -> None:
    taken = 0

    async def pieces() -> AsyncIterator[bytes]:
        nonlocal taken
        for _ in range(200):
            taken += 1
            yield b"x" * (256 * 1024)

    response = Response(200, stream=pieces(), length=50 * MIB)
    async with serving(responding(response), server_tls) as server:
        client = await server.connect(client_tls=client_tls)
        await client.send(request_of("GET"))
        await wait_until(lambda: server.protocol._responder.is_blocked)
        held = taken
        assert held < 100
        assert len((await client.receive()).body) == 50 * MIB
        assert taken == 200
        client.close()


async def test_client_gets_the_response_to_a_rejected_upload(
    server_tls: ssl.SSLContext, client_tls: ssl.SSLContext
) -> None:
    response = Response(403, body=b"no")
    async with (
        serving(responding(response), server_tls) as server,
        await server.connect(client_tls=client_tls) as client,
    ):
        await client.send(request_of("PUT", Content_Length=str(10 * MIB)), *[b"x" * MIB] * 10)
        received = await client.receive()
        assert (received.status, received.header("connection")) == (403, "close")


async def test_orderly_close_is_not_logged(
    server_tls: ssl.SSLContext, client_tls: ssl.SSLContext, caplog: pytest.LogCaptureFixture
) -> None:
    release = asyncio.Event()

    async def application(request: Request) -> Response:
        await release.wait()
        return Response(200, body=b"late")

    with caplog.at_level(logging.INFO):
        async with serving(application, server_tls) as server:
            client = await server.connect(client_tls=client_tls)
            await client.send(request_of("GET"))
            await wait_until(lambda: not server.protocol.is_idle)
            client.close()
            await server.wait_ended()
            release.set()
            await wait_until(lambda: server.protocol.is_idle)
    assert [record for record in caplog.records if record.levelno >= logging.WARNING] == []
