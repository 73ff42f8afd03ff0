"""Appends start in the order of their requests, as the batch sequences of writers require."""

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
from lakebed.streams.seam import Acks, AppendResult
from lakebed.wire.fluss import messages_pb2 as pb
from lakebed.wire.fluss.calls import Backpressure, CallResponse
from lakebed.wire.fluss.handlers.logs import LogCalls
from lakebed.wire.fluss.transport import connection
from tests.wire.fluss.transport.test_connection import ECHO, Client, Server, client, served, server

__all__ = ["client", "served", "server"]

CALLER = Caller(root_of("000000000000"), request_id="r")


class RecordingBuckets:
    """Open buckets that record the order of appends."""

    def __init__(self) -> None:
        self.order: list[tuple[int, bytes]] = []

    @asynccontextmanager
    async def using(
        self, table: object, partition_id: int | None, number: int
    ) -> AsyncIterator[Any]:  # Any: an open bucket with only a log
        async def append(records: memoryview, acks: Acks) -> AppendResult:
            self.order.append((number, bytes(records)))
            await asyncio.sleep(0)
            return AppendResult(0, 1)

        yield SimpleNamespace(log=SimpleNamespace(append=append))


async def allow_all(*_: object, **__: object) -> None:
    """Authorize everything."""


@pytest.mark.parametrize("sizes", [(2, 1), (1, 2), (3, 1, 2), (1, 1)])
async def test_no_append_overtakes_an_earlier_one(sizes: tuple[int, ...]) -> None:
    buckets = RecordingBuckets()
    table = SimpleNamespace(id=1, path=("fluss", "t"), has_primary_key=False)
    tables, authorizer = SimpleNamespace(known=lambda table_id: table), SimpleNamespace(authorize=allow_all)
    calls = cast(Any, LogCalls)(tables, None, buckets, authorizer, None, ManualClock())

    async def send(number: int, bucket_count: int) -> None:
        request = pb.ProduceLogRequest(acks=-1, table_id=1, timeout_ms=1000)
        for bucket in range(bucket_count):
            request.buckets.add(bucket_id=bucket, records=b"%d" % number)
        await calls.produce(CALLER, memoryview(request.SerializeToString()), 0, cast(Backpressure, None))

    await asyncio.gather(*(send(number, bucket_count) for number, bucket_count in enumerate(sizes)))
    first_bucket = [records for bucket, records in buckets.order if bucket == 0]
    assert first_bucket == [b"%d" % number for number in range(len(sizes))]


async def test_calls_keep_their_order_while_the_identity_is_refreshed(
    server: Server, client: Client, monkeypatch: pytest.MonkeyPatch
) -> None:
    assert (await client.log_in())[0] == 0
    monkeypatch.setattr(connection, "RECHECK_SECONDS", -1.0)
    checks: list[asyncio.Event] = []
    order: list[bytes] = []

    async def principal() -> Principal:
        checks.append(asyncio.Event())
        await checks[-1].wait()
        return root_of("000000000000")

    async def echo(caller: Caller, body: memoryview, version: int, backpressure: Backpressure) -> CallResponse:
        order.append(bytes(body))
        return [bytes(body)]

    monkeypatch.setattr(server.authenticator.proof, "principal", principal)
    object.__setattr__(server.listener.calls[ECHO], "handle", echo)
    for number in range(3):
        client.send(ECHO, b"%d" % number, number=number)
    for number in range(3):
        while len(checks) <= number:
            await asyncio.sleep(0)
        # One check at a time: concurrent checks could finish in another order.
        assert len(checks) == number + 1
        checks[number].set()
        if number == 0:
            client.send(ECHO, b"3", number=3)
    while len(checks) < 4:
        await asyncio.sleep(0)
    checks[3].set()
    assert [(await client.response())[1] for _ in range(4)] == [0, 1, 2, 3]
    assert order == [b"0", b"1", b"2", b"3"]
