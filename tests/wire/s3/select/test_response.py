"""Messages of a running query: order, keep-alives and outcomes; the query never outlives its response."""

from __future__ import annotations

import asyncio
from dataclasses import dataclass, field
from typing import Any, cast

import pytest
from botocore.eventstream import EventStreamBuffer
from hypothesis import given
from hypothesis import strategies as st

from lakebed.core.clock import ManualClock
from lakebed.core.errors import AccessDenied, Corrupted, LakebedError, SelectError, Throttled, Unavailable
from lakebed.objects.reading import FoundObject
from lakebed.select.errors import SelectCode
from lakebed.select.model import QueryStats
from lakebed.wire.s3.select.messages import MAX_RECORDS_BYTES
from lakebed.wire.s3.select.response import SelectResponse, pause_seconds
from tests.wire.s3.select.scripted import ScriptedQuery, Step

NEVER = 1e9
"""A keep-alive interval longer than any test."""

AT_ONCE = 0.0
"""A keep-alive interval of zero: keep-alives are sent until the query has records."""


@dataclass
class Outcomes:
    """The reported outcomes of queries."""

    ends: list[tuple[str, QueryStats]] = field(default_factory=list)

    def __call__(self, outcome: str, counts: QueryStats) -> None:
        self.ends.append((outcome, counts))

    @property
    def outcomes(self) -> list[str]:
        return [outcome for outcome, _ in self.ends]


class Case:
    """A query, its response and its outcome."""

    def __init__(
        self, *steps: Step, progress: bool = False, interval: float = NEVER, knows_its_end: bool = False
    ) -> None:
        found = cast(FoundObject, None)  # the object is not used
        self.query = ScriptedQuery(found, steps, knows_its_end=knows_its_end)
        self.reported = Outcomes()
        self.clock = ManualClock()
        self.response = SelectResponse(
            self.query, self.clock, progress=progress, ended=self.reported, interval=interval
        )

    async def rest(self) -> list[str]:
        """The names of all remaining messages; closes the response."""
        found = [name async for piece in self.response for name in names(piece)]
        await self.response.aclose()
        return found

    async def next(self) -> list[str]:
        return names(await anext(self.response))


def parsed(data: bytes) -> list[Any]:  # Any: botocore has no types
    buffer = EventStreamBuffer()
    buffer.add_data(data)
    return list(buffer)


def names(data: bytes) -> list[str]:
    found = []
    for message in parsed(data):
        headers = message.headers
        found.append(headers.get(":event-type") or f"{headers[':message-type']} {headers[':error-code']}")
    return found


async def test_records_are_followed_by_stats_and_end() -> None:
    case = Case(b"1,2\n", b"3,4\n")
    sent = b"".join([piece async for piece in case.response])
    await case.response.aclose()

    found = parsed(sent)
    assert [message.headers[":event-type"] for message in found] == ["Records", "Records", "Stats", "End"]
    assert found[0].payload + found[1].payload == b"1,2\n3,4\n"
    assert b"<BytesScanned>56</BytesScanned>" in found[2].payload
    assert b"<BytesProcessed>72</BytesProcessed>" in found[2].payload
    assert b"<BytesReturned>8</BytesReturned>" in found[2].payload
    assert case.reported.ends == [("done", QueryStats(56, 72, 8))]
    assert case.query.closed == 1


@pytest.mark.parametrize("progress", [False, True])
async def test_last_records_are_sent_together_with_the_closing_messages(progress: bool) -> None:
    large = b"x" * (MAX_RECORDS_BYTES + 1)
    case = Case(b"1,2\n", large, progress=progress, knows_its_end=True)
    reported = ["Progress"] if progress else []
    assert [names(piece) async for piece in case.response] == [
        ["Records"],
        ["Records"],
        ["Records", *reported, "Stats", "End"],
    ]
    await case.response.aclose()
    assert case.reported.ends == [("done", case.query.counts)]
    assert case.query.counts.returned == 4 + len(large)


async def test_failure_after_the_last_records_is_reported() -> None:
    case = Case(b"1\n", Corrupted("broken"), knows_its_end=True)
    assert (await case.rest())[0] == "Records"
    assert case.reported.outcomes != ["done"]


async def test_query_without_records_sends_stats_and_end() -> None:
    case = Case()
    assert await case.rest() == ["Stats", "End"]


async def test_requested_progress_is_sent_at_least_once() -> None:
    case = Case(b"x", progress=True)
    assert await case.rest() == ["Records", "Progress", "Stats", "End"]


async def test_progress_is_sent_between_records_at_its_interval() -> None:
    ready = asyncio.Event()
    case = Case(b"1", b"2", ready, b"3", progress=True, interval=60.0)
    assert await case.next() == ["Records"]
    case.clock.advance(59)
    assert await case.next() == ["Records"]
    case.clock.advance(1)
    assert await case.next() == ["Progress"]
    ready.set()
    assert await case.rest() == ["Records", "Progress", "Stats", "End"]


@pytest.mark.parametrize(("progress", "keep_alive"), [(False, "Cont"), (True, "Progress")])
async def test_keep_alives_are_sent_while_the_query_has_no_records(progress: bool, keep_alive: str) -> None:
    ready = asyncio.Event()
    case = Case(ready, b"x", progress=progress, interval=AT_ONCE)
    for _ in range(3):
        assert await case.next() == [keep_alive]
    ready.set()
    left = await case.rest()
    assert [name for name in left if name != keep_alive] == ["Records", "Stats", "End"]


@given(st.integers(1, 24 * 60 * 60))
def test_number_of_keep_alives_is_bounded_for_long_queries(seconds: int) -> None:
    keep_alives, waited = 0, 0.0
    while waited < seconds:
        waited += pause_seconds(keep_alives)
        keep_alives += 1
    assert keep_alives < 900


def test_first_keep_alives_are_sent_every_second() -> None:
    assert [pause_seconds(keep_alives) for keep_alives in (0, 59)] == [1.0, 1.0]


async def test_failure_is_the_last_message() -> None:
    case = Case(b"1\n", SelectError("not a number. value='x'", code=SelectCode.CAST_FAILED))
    sent = parsed(b"".join([piece async for piece in case.response]))
    await case.response.aclose()

    assert sent[0].payload == b"1\n"
    assert sent[-1].headers == {
        ":message-type": "error",
        ":error-code": "CastFailed",
        ":error-message": "not a number. value='x'",
    }
    assert len(sent) == 2
    assert case.reported.outcomes == ["CastFailed"]
    assert case.query.closed == 1


@pytest.mark.parametrize(
    ("error", "code"),
    [
        (Unavailable("the pool is exhausted"), "Busy"),
        (Throttled("four run"), "SlowDown"),
        (AccessDenied("no"), "AccessDenied"),
        (Corrupted("checksum"), "InternalError"),
        (LakebedError("secret detail"), "InternalError"),
        (ValueError("secret detail"), "InternalError"),
    ],
)
async def test_other_failures_have_s3_codes_and_reveal_no_details(error: Exception, code: str) -> None:
    case = Case(b"1\n", error)
    sent = b"".join([piece async for piece in case.response])
    await case.response.aclose()

    assert names(sent)[-1] == f"error {code}"
    assert b"secret" not in sent
    assert case.reported.outcomes == [code]


# -- before the first message ----------------------------------------------------------------------------------------


async def test_error_before_the_first_records_is_raised_and_the_query_is_closed() -> None:
    case = Case(SelectError("line 1", code=SelectCode.JSON_PARSING_ERROR), interval=NEVER)
    with pytest.raises(SelectError, match="line 1"):
        await case.response.begin()
    assert case.query.closed == 1
    assert case.reported.outcomes == ["JSONParsingError"]
    await case.response.aclose()
    assert case.query.closed == 1
    assert len(case.reported.ends) == 1


async def test_begin_waits_for_records_and_loses_none() -> None:
    case = Case(b"1", b"2", interval=NEVER)
    await case.response.begin()
    assert await case.rest() == ["Records", "Records", "Stats", "End"]
    assert case.query.returned == 2


async def test_begin_waits_only_briefly() -> None:
    ready = asyncio.Event()
    case = Case(ready, b"1", interval=AT_ONCE)
    await case.response.begin()
    assert await case.next() == ["Cont"]
    ready.set()
    assert "Records" in await case.rest()


async def test_cancelling_begin_closes_the_query() -> None:
    case = Case(asyncio.Event(), interval=NEVER)
    beginning = asyncio.create_task(case.response.begin())
    while not case.query.was_read:
        await asyncio.sleep(0)
    beginning.cancel()
    with pytest.raises(asyncio.CancelledError):
        await beginning
    assert case.query.closed == 1
    assert case.reported.outcomes == ["cancelled"]


# -- closing -----------------------------------------------------------------------------------------------------------


async def test_closing_an_unread_response_closes_the_query() -> None:
    case = Case(b"1")
    await case.response.aclose()
    assert case.query.closed == 1
    assert not case.query.was_read
    assert case.reported.outcomes == ["cancelled"]
    assert await case.rest() == []


async def test_closing_between_records_closes_the_query() -> None:
    case = Case(b"1", b"2")
    assert await case.next() == ["Records"]
    await case.response.aclose()
    await case.response.aclose()
    assert case.query.closed == 1
    assert case.reported.ends == [("cancelled", QueryStats(7, 9, 1))]


async def test_closing_while_waiting_for_records_closes_the_query() -> None:
    case = Case(b"1", asyncio.Event(), interval=AT_ONCE)
    assert await case.next() == ["Records"]
    assert await case.next() == ["Cont"]
    await case.response.aclose()
    assert case.query.closed == 1
    assert case.reported.outcomes == ["cancelled"]


async def test_closing_ignores_a_late_failure_of_the_query() -> None:
    ready = asyncio.Event()
    case = Case(ready, ValueError("late"), interval=AT_ONCE)
    assert await case.next() == ["Cont"]
    ready.set()
    for _ in range(5):
        await asyncio.sleep(0)
    await case.response.aclose()
    assert case.query.closed == 1


async def test_query_is_paused_while_the_client_does_not_read() -> None:
    case = Case(b"1", b"2", b"3")
    assert await case.next() == ["Records"]
    for _ in range(10):
        await asyncio.sleep(0)
    assert case.query.returned == 1
    await case.response.aclose()
