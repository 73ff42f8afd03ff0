"""Calls of stream clients are counted as they are made, and answered as they were."""

from __future__ import annotations

import asyncio
from types import SimpleNamespace
from typing import Any

import pytest

from lakebed.core.access import root_of
from lakebed.core.clock import ManualClock
from lakebed.fluss.errors import ErrorCode, FlussError
from lakebed.objects.model import Caller
from lakebed.wire.fluss import messages_pb2 as pb
from lakebed.wire.fluss.calls import Answer, AnyCall, Backpressure, Call, RawCall
from lakebed.wire.fluss.transport.call_counts import CallCount, CallCounts

CALLER = Caller(root_of("000000000000"), request_id="r")


class Rig:
    """Two calls on a clock that is moved by hand."""

    def __init__(self) -> None:
        self.clock = ManualClock()
        self.counts = CallCounts(self.clock.monotonic)
        self.answer: Answer = (b"12345", b"67")
        self.release = asyncio.Event()
        self.release.set()

        async def wait() -> None:
            self.clock.advance(0.5)

        self._room: Any = SimpleNamespace(acquire_large=wait, wait_until_read=wait)
        calls: tuple[AnyCall, ...] = (
            RawCall(1, "RAW", self._raw, max_version=3),
            Call(2, "CALL", pb.DatabaseExistsRequest, self._call),
            RawCall(3, "UNUSED", self._raw),
        )
        self.raw, self.call, _ = self.counts.counted(calls)

    async def _raw(self, caller: Caller, body: memoryview, version: int, backpressure: Backpressure) -> Answer:
        assert (caller, version) == (CALLER, 3)
        await backpressure.acquire_large()
        await backpressure.wait_until_read()
        await self.release.wait()
        self.clock.advance(2)
        if bytes(body) == b"none":
            raise FlussError(ErrorCode.TABLE_NOT_EXIST)
        return self.answer

    async def _call(self, caller: Caller, request: pb.DatabaseExistsRequest) -> pb.DatabaseExistsResponse:
        self.clock.advance(4)
        if request.database_name == "none":
            raise FlussError(ErrorCode.DATABASE_NOT_EXIST)
        return pb.DatabaseExistsResponse(exists=True)

    async def make(self, body: bytes) -> Answer:
        assert isinstance(self.raw, RawCall)
        return await self.raw.answer(CALLER, memoryview(body), 3, self._room)

    def count(self, name: str) -> CallCount:
        return dict(self.counts)[name]


async def test_bytes_and_time_of_calls_that_read_themselves() -> None:
    rig = Rig()
    assert (rig.raw.key, rig.raw.name, rig.raw.max_version) == (1, "RAW", 3)
    assert await rig.make(b"body") == rig.answer
    rig.answer = pb.DatabaseExistsResponse(exists=True)
    assert await rig.make(b"more") is rig.answer
    count = rig.count("RAW")
    assert (count.received_bytes, count.sent_bytes) == (8, 7 + rig.answer.ByteSize())
    assert (count.handled_seconds, count.waited_seconds, count.under_way) == (6.0, 1.0, 0)


async def test_bytes_and_time_of_calls_with_messages() -> None:
    rig = Rig()
    assert isinstance(rig.call, Call)
    request = pb.DatabaseExistsRequest(database_name="fluss")
    answer = await rig.call.answer(CALLER, request)
    with pytest.raises(FlussError):
        await rig.call.answer(CALLER, pb.DatabaseExistsRequest(database_name="none"))
    count = rig.count("CALL")
    assert count.received_bytes == request.ByteSize() + len(b"none") + 2
    assert (count.sent_bytes, count.handled_seconds, count.under_way) == (answer.ByteSize(), 8.0, 0)


async def test_a_call_that_fails_was_received_and_took_its_time() -> None:
    rig = Rig()
    with pytest.raises(FlussError):
        await rig.make(b"none")
    count = rig.count("RAW")
    assert (count.received_bytes, count.sent_bytes, count.handled_seconds, count.under_way) == (4, 0, 3.0, 0)


async def test_calls_under_way_are_known_and_those_that_nobody_makes_are_not_told_of() -> None:
    rig = Rig()
    assert dict(rig.counts) == {}
    rig.release.clear()
    making = [asyncio.create_task(rig.make(b"x")) for _ in range(2)]
    await asyncio.sleep(0)
    assert rig.count("RAW").under_way == 2
    making[0].cancel()
    rig.release.set()
    await asyncio.gather(*making, return_exceptions=True)
    assert rig.count("RAW").under_way == 0
    assert set(dict(rig.counts)) == {"RAW"}
