"""Calls are counted without a change of their responses."""

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
from lakebed.wire.fluss.calls import AnyCall, Backpressure, Call, CallResponse, RawCall
from lakebed.wire.fluss.transport.call_counts import CallCount, CallCounts

CALLER = Caller(root_of("000000000000"), request_id="r")


class Rig:
    """Calls on a manual clock."""

    def __init__(self) -> None:
        self.clock = ManualClock()
        self.counts = CallCounts(self.clock.monotonic)
        self.response: CallResponse = (b"12345", b"67")
        self.release = asyncio.Event()
        self.release.set()

        async def wait() -> None:
            self.clock.advance(0.5)

        self._backpressure: Any = SimpleNamespace(acquire_large=wait, wait_until_read=wait)
        calls: tuple[AnyCall, ...] = (
            RawCall(1, "RAW", self._raw, max_version=3),
            Call(2, "CALL", pb.DatabaseExistsRequest, self._call),
            RawCall(3, "UNUSED", self._raw),
        )
        self.raw, self.call, _ = self.counts.counted(calls)

    async def _raw(self, caller: Caller, body: memoryview, version: int, backpressure: Backpressure) -> CallResponse:
        assert (caller, version) == (CALLER, 3)
        await backpressure.acquire_large()
        await backpressure.wait_until_read()
        await self.release.wait()
        self.clock.advance(2)
        if bytes(body) == b"none":
            raise FlussError(ErrorCode.TABLE_NOT_EXIST)
        return self.response

    async def _call(self, caller: Caller, request: pb.DatabaseExistsRequest) -> pb.DatabaseExistsResponse:
        self.clock.advance(4)
        if request.database_name == "none":
            raise FlussError(ErrorCode.DATABASE_NOT_EXIST)
        return pb.DatabaseExistsResponse(exists=True)

    async def call_raw(self, body: bytes) -> CallResponse:
        assert isinstance(self.raw, RawCall)
        return await self.raw.handle(CALLER, memoryview(body), 3, self._backpressure)

    def count(self, name: str) -> CallCount:
        return dict(self.counts)[name]


async def test_raw_calls_count_bytes_and_time() -> None:
    rig = Rig()
    assert (rig.raw.key, rig.raw.name, rig.raw.max_version) == (1, "RAW", 3)
    assert await rig.call_raw(b"body") == rig.response
    rig.response = pb.DatabaseExistsResponse(exists=True)
    assert await rig.call_raw(b"more") is rig.response
    count = rig.count("RAW")
    assert (count.received_bytes, count.sent_bytes) == (8, 7 + rig.response.ByteSize())
    assert (count.handled_seconds, count.waited_seconds, count.in_flight) == (6.0, 1.0, 0)


async def test_message_calls_count_bytes_and_time() -> None:
    rig = Rig()
    assert isinstance(rig.call, Call)
    request = pb.DatabaseExistsRequest(database_name="fluss")
    response = await rig.call.handle(CALLER, request)
    with pytest.raises(FlussError):
        await rig.call.handle(CALLER, pb.DatabaseExistsRequest(database_name="none"))
    count = rig.count("CALL")
    assert count.received_bytes == request.ByteSize() + len(b"none") + 2
    assert (count.sent_bytes, count.handled_seconds, count.in_flight) == (response.ByteSize(), 8.0, 0)


async def test_failed_calls_count_received_bytes_and_time() -> None:
    rig = Rig()
    with pytest.raises(FlussError):
        await rig.call_raw(b"none")
    count = rig.count("RAW")
    assert (count.received_bytes, count.sent_bytes, count.handled_seconds, count.in_flight) == (4, 0, 3.0, 0)


async def test_calls_in_flight_are_counted_and_unused_calls_are_not_listed() -> None:
    rig = Rig()
    assert dict(rig.counts) == {}
    rig.release.clear()
    calling = [asyncio.create_task(rig.call_raw(b"x")) for _ in range(2)]
    await asyncio.sleep(0)
    assert rig.count("RAW").in_flight == 2
    calling[0].cancel()
    rig.release.set()
    await asyncio.gather(*calling, return_exceptions=True)
    assert rig.count("RAW").in_flight == 0
    assert set(dict(rig.counts)) == {"RAW"}
