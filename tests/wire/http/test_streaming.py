from __future__ import annotations

from collections.abc import AsyncIterator, Sequence
from contextlib import aclosing
from typing import cast

import pytest

from lakebed.core.errors import AccessDenied, LakebedError, NoSuchBucket, Unavailable
from lakebed.events.live.feed import LiveSubscription
from lakebed.meta.outbox import OutboxEntry, OutboxEvent
from lakebed.wire.http import streaming
from lakebed.wire.http.body import RequestBody
from lakebed.wire.http.message import Request


class Told:
    """A subscription that has been told what to say."""

    def __init__(self, *batches: Sequence[str]) -> None:
        self._batches = list(batches)
        self.after = 0

    async def next(self, timeout_seconds: float) -> list[OutboxEntry]:
        if not self._batches:
            return []
        return [OutboxEntry(1, OutboxEvent(kind, "s", b"", 0)) for kind in self._batches.pop(0)]


def pieces(
    told: Told, *, turns: int, heartbeat_seconds: float = 1000, refusal: LakebedError | None = None
) -> AsyncIterator[bytes]:
    """What is sent in so many turns, after which the client has hung up."""
    left = turns

    def may_wait() -> bool:
        nonlocal left
        left -= 1
        return left >= 0

    async def admit() -> None:
        if refusal is not None:
            raise refusal

    request = Request("GET", "/", "", {}, RequestBody(0), "http", "", "R", may_wait=may_wait)
    return streaming.stream_subscription(
        request,
        cast(LiveSubscription, told),
        lambda entry: entry.event.kind.encode() + b";",
        heartbeat=lambda: b".",
        heartbeat_seconds=heartbeat_seconds,
        admit=admit,
    )


async def test_events_are_sent_as_they_come_and_together() -> None:
    assert [piece async for piece in pieces(Told("AB", "", "C"), turns=5)] == [b"A;B;", b"C;"]


async def test_silence_is_broken_by_signs_of_life() -> None:
    assert [piece async for piece in pieces(Told("A", ""), turns=3, heartbeat_seconds=0)] == [b"A;", b".", b"."]


async def test_who_has_hung_up_is_sent_nothing() -> None:
    assert [piece async for piece in pieces(Told("A"), turns=0)] == []


@pytest.mark.parametrize("refusal", [AccessDenied("no"), NoSuchBucket("gone")])
async def test_who_may_no_longer_hears_no_more(refusal: LakebedError, monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setattr(streaming, "ADMIT_SECONDS", 0)
    assert [piece async for piece in pieces(Told("A", "B"), turns=5, refusal=refusal)] == [b"A;"]
    assert [piece async for piece in pieces(Told("A", "B"), turns=5)] == [b"A;", b"B;"]


async def test_what_breaks_breaks_the_answer(monkeypatch: pytest.MonkeyPatch) -> None:
    """Only the connection's end tells the client that something is missing."""
    monkeypatch.setattr(streaming, "ADMIT_SECONDS", 0)
    stream = pieces(Told("A", "B"), turns=5, refusal=Unavailable("gone"))
    async with aclosing(stream) as opened:  # type: ignore[type-var]  # it is a generator
        assert await anext(opened) == b"A;"
        with pytest.raises(Unavailable):
            await anext(opened)
