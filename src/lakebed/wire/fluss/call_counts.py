"""Counts calls by name: bytes, seconds and how many are under way. Plain numbers, read at intervals for metrics."""

from __future__ import annotations

from collections.abc import Callable, Coroutine, Iterable, Iterator
from dataclasses import replace

from google.protobuf.message import Message

from lakebed.objects.model import Caller

from .calls import Answer, AnyCall, Call, Raw, Room


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
        return tuple(self._raw(call) if isinstance(call, Raw) else self._call(call) for call in calls)

    def _raw(self, call: Raw) -> Raw:
        count, now, handle = self._counts.setdefault(call.name, CallCount()), self._now, call.answer

        async def answer(caller: Caller, body: memoryview, version: int, room: Room) -> Answer:
            count.is_used = True
            count.received_bytes += len(body)
            count.under_way += 1
            began = now()
            try:
                made = await handle(caller, body, version, _TimedRoom(room, count, now))
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


class _TimedRoom:
    """Room for answers, with the time that was waited for it. Implements `calls.Room`."""

    __slots__ = ("_count", "_now", "_room")

    def __init__(self, room: Room, count: CallCount, now: Callable[[], float]) -> None:
        self._room = room
        self._count = count
        self._now = now

    def ready(self) -> Coroutine[object, object, None]:
        """Wait until answers are taken. Not timed: it is asked for by small calls, of which there are many."""
        return self._room.ready()

    async def turn(self) -> None:
        """Wait for the turn."""
        began = self._now()
        await self._room.turn()
        self._count.waited_seconds += self._now() - began
