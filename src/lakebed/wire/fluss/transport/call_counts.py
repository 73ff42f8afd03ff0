"""Counts calls by name: bytes, seconds and how many are under way. Plain numbers, read at intervals for metrics."""

from __future__ import annotations

from collections.abc import Callable, Coroutine, Iterable, Iterator
from dataclasses import replace

from google.protobuf.message import Message

from lakebed.objects.model import Caller
from lakebed.wire.fluss.calls import Backpressure

from ..calls import Answer, AnyCall, Call, RawCall


class CallCount:
    """Numbers of one call, since they were last read."""

    __slots__ = ("handled_seconds", "is_used", "received_bytes", "sent_bytes", "under_way", "waited_seconds")

    def __init__(self) -> None:
        self.is_used = False
        """Whether anybody ever made it."""
        self.under_way = 0
        """Now."""
        self.received_bytes = 0
        """Of its messages, without the heads of their frames."""
        self.sent_bytes = 0
        """The same of answers that are no failure."""
        self.handled_seconds = 0.0
        """From when its handler began until there was an answer."""
        self.waited_seconds = 0.0
        """Of these, for the turn to make a large answer: until the client had taken the one before."""


class CallCounts:
    """Counts of all calls."""

    def __init__(self, now: Callable[[], float]) -> None:
        """`now` is in seconds, from any start."""
        self._now = now
        self._counts: dict[str, CallCount] = {}

    def __iter__(self) -> Iterator[tuple[str, CallCount]]:
        return ((name, count) for name, count in self._counts.items() if count.is_used)

    def counted(self, calls: Iterable[AnyCall]) -> tuple[AnyCall, ...]:
        """The same calls, each of which is counted when it is made."""
        return tuple(self._raw(call) if isinstance(call, RawCall) else self._call(call) for call in calls)

    def _raw(self, call: RawCall) -> RawCall:
        count, now, handle = self._counts.setdefault(call.name, CallCount()), self._now, call.answer

        async def answer(caller: Caller, body: memoryview, version: int, backpressure: Backpressure) -> Answer:
            count.is_used = True
            count.received_bytes += len(body)
            count.under_way += 1
            began = now()
            try:
                made = await handle(caller, body, version, _TimedBackpressure(backpressure, count, now))
            finally:
                count.under_way -= 1
                count.handled_seconds += now() - began
            count.sent_bytes += made.ByteSize() if isinstance(made, Message) else sum(map(len, made))
            return made

        return replace(call, answer=answer)

    def _call(self, call: Call[Message]) -> AnyCall:
        count, now, handle = self._counts.setdefault(call.name, CallCount()), self._now, call.answer

        async def answer(caller: Caller, request: Message) -> Message:
            count.is_used = True
            count.received_bytes += request.ByteSize()
            count.under_way += 1
            began = now()
            try:
                made = await handle(caller, request)
            finally:
                count.under_way -= 1
                count.handled_seconds += now() - began
            count.sent_bytes += made.ByteSize()
            return made

        return replace(call, answer=answer)


class _TimedBackpressure:
    """Backpressure that counts the time waited for it. Implements `calls.Backpressure`."""

    __slots__ = ("_count", "_now", "_timed")

    def __init__(self, timed: Backpressure, count: CallCount, now: Callable[[], float]) -> None:
        self._timed = timed
        self._count = count
        self._now = now

    def wait_until_read(self) -> Coroutine[object, object, None]:
        """Wait until the client reads its responses. Not timed, because small and frequent calls use it."""
        return self._timed.wait_until_read()

    async def acquire_large(self) -> None:
        """Wait until no other large response is being sent."""
        began = self._now()
        await self._timed.acquire_large()
        self._count.waited_seconds += self._now() - began
