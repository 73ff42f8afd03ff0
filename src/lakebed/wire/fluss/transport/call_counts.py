"""Counts calls by API: bytes, seconds and calls in flight. Plain numbers that metrics read at intervals."""

from __future__ import annotations

from collections.abc import Callable, Coroutine, Iterable, Iterator
from dataclasses import replace

from google.protobuf.message import Message

from lakebed.objects.model import Caller
from lakebed.wire.fluss.calls import Backpressure

from ..calls import AnyCall, Call, CallResponse, RawCall


class CallCount:
    """The numbers of one API."""

    __slots__ = ("handled_seconds", "in_flight", "is_used", "received_bytes", "sent_bytes", "waited_seconds")

    def __init__(self) -> None:
        self.is_used = False
        """Whether it was ever called."""
        self.in_flight = 0
        """Calls being handled now."""
        self.received_bytes = 0
        """Bytes of requests, without frame headers."""
        self.sent_bytes = 0
        """Bytes of successful responses, without frame headers."""
        self.handled_seconds = 0.0
        """Time in handlers."""
        self.waited_seconds = 0.0
        """The part of `handled_seconds` spent waiting for the client to read an earlier large response."""


class CallCounts:
    """The counts of all APIs."""

    def __init__(self, now: Callable[[], float]) -> None:
        """`now` is a monotonic clock in seconds."""
        self._now = now
        self._counts: dict[str, CallCount] = {}

    def __iter__(self) -> Iterator[tuple[str, CallCount]]:
        return ((name, count) for name, count in self._counts.items() if count.is_used)

    def counted(self, calls: Iterable[AnyCall]) -> tuple[AnyCall, ...]:
        """The same calls with counting handlers."""
        return tuple(self._raw(call) if isinstance(call, RawCall) else self._call(call) for call in calls)

    def _raw(self, call: RawCall) -> RawCall:
        count, now = self._counts.setdefault(call.name, CallCount()), self._now

        async def handle(caller: Caller, body: memoryview, version: int, backpressure: Backpressure) -> CallResponse:
            count.is_used = True
            count.received_bytes += len(body)
            count.in_flight += 1
            started = now()
            try:
                response = await call.handle(caller, body, version, _TimedBackpressure(backpressure, count, now))
            finally:
                count.in_flight -= 1
                count.handled_seconds += now() - started
            count.sent_bytes += response.ByteSize() if isinstance(response, Message) else sum(map(len, response))
            return response

        return replace(call, handle=handle)

    def _call(self, call: Call[Message]) -> AnyCall:
        count, now = self._counts.setdefault(call.name, CallCount()), self._now

        async def handle(caller: Caller, request: Message) -> Message:
            count.is_used = True
            count.received_bytes += request.ByteSize()
            count.in_flight += 1
            started = now()
            try:
                response = await call.handle(caller, request)
            finally:
                count.in_flight -= 1
                count.handled_seconds += now() - started
            count.sent_bytes += response.ByteSize()
            return response

        return replace(call, handle=handle)


class _TimedBackpressure:
    """Backpressure that counts waiting time. Implements `calls.Backpressure`."""

    __slots__ = ("_count", "_now", "_timed")

    def __init__(self, timed: Backpressure, count: CallCount, now: Callable[[], float]) -> None:
        self._timed = timed
        self._count = count
        self._now = now

    def wait_until_read(self) -> Coroutine[object, object, None]:
        """Wait until the client reads its responses. Not timed, because frequent small calls use it."""
        return self._timed.wait_until_read()

    async def acquire_large(self) -> None:
        """Wait until no other large response is being sent."""
        started = self._now()
        await self._timed.acquire_large()
        self._count.waited_seconds += self._now() - started
