"""Disconnected clients, over real sockets: their queries are closed."""

from __future__ import annotations

import asyncio
from collections.abc import Sequence
from typing import cast

import pytest

from lakebed.core.clock import SystemClock
from lakebed.objects.reading import FoundObject
from lakebed.select.model import QueryStats
from lakebed.wire.http.message import Request, Response
from lakebed.wire.s3.select.response import SelectResponse
from tests.wire.http.serving import GUARD_SECONDS, Client, request_of, serving, wait_until
from tests.wire.s3.select.scripted import ScriptedQuery, Step

MIB = 1024 * 1024
SOON = 0.005
"""A short keep-alive interval, so that disconnects are detected soon."""


class Queries:
    """An application whose queries execute the same script."""

    def __init__(self, steps: Sequence[Step]) -> None:
        self._steps = steps
        self.opened: list[ScriptedQuery] = []
        self.outcomes: list[str] = []
        self.before = asyncio.Event()
        """Responses start when it is set."""
        self.before.set()

    async def __call__(self, request: Request) -> Response:
        query = ScriptedQuery(cast(FoundObject, None), self._steps)  # the object is not used
        self.opened.append(query)
        response = SelectResponse(query, SystemClock(), progress=False, ended=self._ended, interval=SOON)
        await self.before.wait()
        return Response(200, stream=response)

    def _ended(self, outcome: str, counts: QueryStats) -> None:
        self.outcomes.append(outcome)

    async def all_closed(self) -> None:
        await wait_until(lambda: bool(self.opened) and all(query.closed == 1 for query in self.opened))


def leave(client: Client, *, reset: bool) -> None:
    if reset:
        client.reset()
    else:
        client.close()


@pytest.mark.parametrize("reset", [True, False])
async def test_disconnect_during_a_query_without_records_closes_it(reset: bool) -> None:
    queries = Queries([b"first\n", asyncio.Event()])
    async with serving(queries) as server:
        client = await server.connect()
        await client.send(request_of("POST", "/"))
        await client.until(b"Records")
        leave(client, reset=reset)
        await queries.all_closed()
    assert queries.outcomes == ["cancelled"]


@pytest.mark.parametrize("reset", [True, False])
async def test_disconnect_during_a_large_result_closes_the_query(reset: bool) -> None:
    queries = Queries([bytes(MIB)] * 200)
    async with serving(queries) as server:
        client = await server.connect(receive_buffer=16 * 1024)
        await client.send(request_of("POST", "/"))
        await client.exactly(100_000)
        leave(client, reset=reset)
        await queries.all_closed()
    assert queries.outcomes == ["cancelled"]
    assert queries.opened[0].returned < 200 * MIB


@pytest.mark.parametrize("reset", [True, False])
async def test_disconnect_before_the_response_closes_the_query(reset: bool) -> None:
    queries = Queries([asyncio.Event()])
    queries.before.clear()
    async with serving(queries) as server:
        client = await server.connect()
        await client.send(request_of("POST", "/"))
        await wait_until(lambda: bool(queries.opened))
        leave(client, reset=reset)
        queries.before.set()
        await queries.all_closed()
    assert queries.outcomes == ["cancelled"]


async def test_client_that_does_not_read_pauses_its_query() -> None:
    queries = Queries([bytes(MIB)] * 64)
    async with serving(queries) as server:
        client = await server.connect(receive_buffer=16 * 1024)
        await client.send(request_of("POST", "/"))
        await client.until(b"\r\n\r\n")
        last = -1
        async with asyncio.timeout(GUARD_SECONDS):
            while last != queries.opened[0].returned:
                last = queries.opened[0].returned
                for _ in range(200):
                    await asyncio.sleep(0)
        assert last < 64 * MIB
        client.reset()
        await queries.all_closed()


async def test_connection_stays_open_after_a_complete_response() -> None:
    queries = Queries([b"1\n"])
    async with serving(queries) as server, await server.connect() as client:
        first = await client.exchange(request_of("POST", "/"))
        second = await client.exchange(request_of("POST", "/"))
    assert first.header("transfer-encoding") == "chunked"
    assert first.body == second.body
    assert first.body.endswith(bytes.fromhex("cf97d392"))
    assert queries.outcomes == ["done", "done"]
