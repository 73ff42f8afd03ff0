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


class ScriptedSubscription:
    """A subscription that returns these batches of events."""

    def __init__(self, *batches: Sequence[str]) -> None:
        self._batches = list(batches)
        self.after = 0

    async def next(self, timeout_seconds: float) -> list[OutboxEntry]:
        if not self._batches:
            return []
        return [OutboxEntry(1, OutboxEvent(kind, "s", b"", 0)) for kind in self._batches.pop(0)]


def pieces(
    subscription: ScriptedSubscription,
    *,
    turns: int,
    heartbeat_seconds: float = 1000,
    denial: LakebedError | None = None,
) -> AsyncIterator[bytes]:
    """The bytes sent in `turns` iterations, after which the client has disconnected."""
    left = turns

    def may_wait() -> bool:
        nonlocal left
        left -= 1
        return left >= 0

    async def authorize() -> None:
        if denial is not None:
            raise denial

    request = Request("GET", "/", "", {}, RequestBody(0), "http", "", "R", may_wait=may_wait)
    return streaming.stream_subscription(
        request,
        cast(LiveSubscription, subscription),
        lambda entry: entry.event.kind.encode() + b";",
        heartbeat=lambda: b".",
        heartbeat_seconds=heartbeat_seconds,
        authorize=authorize,
    )


async def test_events_of_a_batch_are_sent_together() -> None:
    assert [piece async for piece in pieces(ScriptedSubscription("AB", "", "C"), turns=5)] == [b"A;B;", b"C;"]


async def test_keep_alives_are_sent_while_no_events_arrive() -> None:
    assert [piece async for piece in pieces(ScriptedSubscription("A", ""), turns=3, heartbeat_seconds=0)] == [
        b"A;",
        b".",
        b".",
    ]


async def test_disconnected_client_is_sent_nothing() -> None:
    assert [piece async for piece in pieces(ScriptedSubscription("A"), turns=0)] == []


@pytest.mark.parametrize("denial", [AccessDenied("no"), NoSuchBucket("gone")])
async def test_stream_ends_when_the_permission_is_revoked(
    denial: LakebedError, monkeypatch: pytest.MonkeyPatch
) -> None:
    monkeypatch.setattr(streaming, "AUTHORIZE_SECONDS", 0)
    assert [piece async for piece in pieces(ScriptedSubscription("A", "B"), turns=5, denial=denial)] == [b"A;"]
    assert [piece async for piece in pieces(ScriptedSubscription("A", "B"), turns=5)] == [b"A;", b"B;"]


async def test_other_errors_are_raised_from_the_stream(monkeypatch: pytest.MonkeyPatch) -> None:
    """Closing the connection shows the client that the stream is incomplete."""
    monkeypatch.setattr(streaming, "AUTHORIZE_SECONDS", 0)
    stream = pieces(ScriptedSubscription("A", "B"), turns=5, denial=Unavailable("gone"))
    async with aclosing(stream) as opened:  # type: ignore[type-var]  # it is a generator
        assert await anext(opened) == b"A;"
        with pytest.raises(Unavailable):
            await anext(opened)
