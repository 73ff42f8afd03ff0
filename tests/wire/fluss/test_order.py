"""What a writer sends is begun in the order in which it was sent: writers number their batches of a bucket."""

from __future__ import annotations

import asyncio
from collections.abc import AsyncIterator
from contextlib import asynccontextmanager
from types import SimpleNamespace
from typing import Any, cast

import pytest

from lakebed.core.access import Principal, root_of
from lakebed.core.clock import ManualClock
from lakebed.objects.model import Caller
from lakebed.streams.seam import Acks, Appended
from lakebed.wire.fluss import messages_pb2 as pb
from lakebed.wire.fluss.calls import Answer, Backpressure
from lakebed.wire.fluss.handlers.logs import LogCalls
from lakebed.wire.fluss.transport import connection
from tests.wire.fluss.transport.test_connection import ECHO, Client, Server, client, served, server

__all__ = ["client", "served", "server"]

CALLER = Caller(root_of("000000000000"), request_id="r")


class Begun:
    """Buckets that are open, and what was begun on them in which order."""

    def __init__(self) -> None:
        self.order: list[tuple[int, bytes]] = []

    @asynccontextmanager
    async def using(
        self, table: object, partition_id: int | None, number: int
    ) -> AsyncIterator[Any]:  # Any: of a bucket, its log
        async def append(records: memoryview, acks: Acks) -> Appended:
            self.order.append((number, bytes(records)))
            await asyncio.sleep(0)
            return Appended(0, 1)

        yield SimpleNamespace(log=SimpleNamespace(append=append))


async def nothing(*_: object, **__: object) -> None:
    """Let everybody do everything."""


@pytest.mark.parametrize("sizes", [(2, 1), (1, 2), (3, 1, 2), (1, 1)])
async def test_no_append_overtakes_an_earlier_one(sizes: tuple[int, ...]) -> None:
    begun = Begun()
    table = SimpleNamespace(id=1, path=("fluss", "t"), has_primary_key=False)
    tables, gate = SimpleNamespace(known=lambda table_id: table), SimpleNamespace(authorize=nothing)
    calls = cast(Any, LogCalls)(tables, None, begun, gate, None, ManualClock())

    async def send(number: int, buckets: int) -> None:
        request = pb.ProduceLogRequest(acks=-1, table_id=1, timeout_ms=1000)
        for bucket in range(buckets):
            request.buckets.add(bucket_id=bucket, records=b"%d" % number)
        await calls.produce(CALLER, memoryview(request.SerializeToString()), 0, cast(Backpressure, None))

    await asyncio.gather(*(send(number, buckets) for number, buckets in enumerate(sizes)))
    of_first = [records for bucket, records in begun.order if bucket == 0]
    assert of_first == [b"%d" % number for number in range(len(sizes))]


async def test_who_waits_for_who_it_is_goes_on_in_turn(
    server: Server, client: Client, monkeypatch: pytest.MonkeyPatch
) -> None:
    assert (await client.log_in())[0] == 0
    monkeypatch.setattr(connection, "RECHECK_SECONDS", -1.0)
    asked: list[asyncio.Event] = []
    order: list[bytes] = []

    async def principal() -> Principal:
        asked.append(asyncio.Event())
        await asked[-1].wait()
        return root_of("000000000000")

    async def echo(caller: Caller, body: memoryview, version: int, room: Backpressure) -> Answer:
        order.append(bytes(body))
        return [bytes(body)]

    monkeypatch.setattr(server.authenticator.proof, "principal", principal)
    object.__setattr__(server.listening.calls[ECHO], "answer", echo)
    for number in range(3):
        client.send(ECHO, b"%d" % number, number=number)
    for number in range(3):
        while len(asked) <= number:
            await asyncio.sleep(0)
        # One question at a time; were there several, they could be answered in another order.
        assert len(asked) == number + 1
        asked[number].set()
        if number == 0:
            client.send(ECHO, b"3", number=3)
    while len(asked) < 4:
        await asyncio.sleep(0)
    asked[3].set()
    answers = [(await client.answer())[1] for _ in range(4)]
    assert answers == [0, 1, 2, 3]
    assert order == [b"0", b"1", b"2", b"3"]
