"""A running query as messages: what comes when, how it ends, and that the query never outlives its answer."""

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
"""A interval that no test waits for."""

AT_ONCE = 0.0
"""A interval that does not wait: a query that is not ready at once is quiet."""


@dataclass
class Told:
    """What was told of the end of queries."""

    ends: list[tuple[str, QueryStats]] = field(default_factory=list)

    def __call__(self, outcome: str, counts: QueryStats) -> None:
        self.ends.append((outcome, counts))

    @property
    def outcomes(self) -> list[str]:
        return [outcome for outcome, _ in self.ends]


class Case:
    """A query, its answer, and who is told of its end."""

    def __init__(
        self, *steps: Step, progress: bool = False, interval: float = NEVER, knows_its_end: bool = False
    ) -> None:
        found = cast(FoundObject, None)  # its object is of no matter here
        self.query = ScriptedQuery(found, steps, knows_its_end=knows_its_end)
        self.told = Told()
        self.clock = ManualClock()
        self.answer = SelectResponse(self.query, self.clock, progress=progress, ended=self.told, interval=interval)

    async def rest(self) -> list[str]:
        """The names of all messages that are left; the answer is closed then."""
        found = [name async for piece in self.answer for name in names(piece)]
        await self.answer.aclose()
        return found

    async def next(self) -> list[str]:
        return names(await anext(self.answer))


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


async def test_records_are_followed_by_stats_and_the_end() -> None:
    case = Case(b"1,2\n", b"3,4\n")
    sent = b"".join([piece async for piece in case.answer])
    await case.answer.aclose()

    found = parsed(sent)
    assert [message.headers[":event-type"] for message in found] == ["Records", "Records", "Stats", "End"]
    assert found[0].payload + found[1].payload == b"1,2\n3,4\n"
    assert b"<BytesScanned>56</BytesScanned>" in found[2].payload
    assert b"<BytesProcessed>72</BytesProcessed>" in found[2].payload
    assert b"<BytesReturned>8</BytesReturned>" in found[2].payload
    assert case.told.ends == [("done", QueryStats(56, 72, 8))]
    assert case.query.closed == 1


@pytest.mark.parametrize("progress", [False, True])
async def test_the_last_records_of_a_query_that_knows_its_end_go_out_with_it(progress: bool) -> None:
    large = b"x" * (MAX_RECORDS_BYTES + 1)
    case = Case(b"1,2\n", large, progress=progress, knows_its_end=True)
    told = ["Progress"] if progress else []
    assert [names(piece) async for piece in case.answer] == [
        ["Records"],
        ["Records"],
        ["Records", *told, "Stats", "End"],
    ]
    await case.answer.aclose()
    assert case.told.ends == [("done", case.query.counts)]
    assert case.query.counts.returned == 4 + len(large)


async def test_what_goes_wrong_at_the_end_is_told_though_the_end_was_near() -> None:
    case = Case(b"1\n", Corrupted("broken"), knows_its_end=True)
    assert (await case.rest())[0] == "Records"
    assert case.told.outcomes != ["done"]


async def test_a_query_without_records_ends_well() -> None:
    case = Case()
    assert await case.rest() == ["Stats", "End"]


async def test_progress_is_told_at_least_once_to_who_asked() -> None:
    case = Case(b"x", progress=True)
    assert await case.rest() == ["Records", "Progress", "Stats", "End"]


async def test_progress_is_told_between_records_once_its_time_has_come() -> None:
    gate = asyncio.Event()
    case = Case(b"1", b"2", gate, b"3", progress=True, interval=60.0)
    assert await case.next() == ["Records"]
    case.clock.advance(59)
    assert await case.next() == ["Records"]
    case.clock.advance(1)
    assert await case.next() == ["Progress"]
    gate.set()
    assert await case.rest() == ["Records", "Progress", "Stats", "End"]


@pytest.mark.parametrize(("progress", "beat"), [(False, "Cont"), (True, "Progress")])
async def test_a_quiet_query_is_heard_of(progress: bool, beat: str) -> None:
    gate = asyncio.Event()
    case = Case(gate, b"x", progress=progress, interval=AT_ONCE)
    for _ in range(3):
        assert await case.next() == [beat]
    gate.set()
    left = await case.rest()
    assert [name for name in left if name != beat] == ["Records", "Stats", "End"]


@given(st.integers(1, 24 * 60 * 60))
def test_no_query_of_a_day_has_more_messages_without_records_than_clients_bear(seconds: int) -> None:
    keep_alives, waited = 0, 0.0
    while waited < seconds:
        waited += pause_seconds(keep_alives)
        keep_alives += 1
    assert keep_alives < 900


def test_a_quiet_query_is_heard_of_every_second_at_first() -> None:
    assert [pause_seconds(keep_alives) for keep_alives in (0, 59)] == [1.0, 1.0]


async def test_a_failure_under_way_is_the_last_message() -> None:
    case = Case(b"1\n", SelectError("not a number. value='x'", code=SelectCode.CAST_FAILED))
    sent = parsed(b"".join([piece async for piece in case.answer]))
    await case.answer.aclose()

    assert sent[0].payload == b"1\n"
    assert sent[-1].headers == {
        ":message-type": "error",
        ":error-code": "CastFailed",
        ":error-message": "not a number. value='x'",
    }
    assert len(sent) == 2
    assert case.told.outcomes == ["CastFailed"]
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
async def test_other_failures_have_words_of_s3_and_tell_no_more(error: Exception, code: str) -> None:
    case = Case(b"1\n", error)
    sent = b"".join([piece async for piece in case.answer])
    await case.answer.aclose()

    assert names(sent)[-1] == f"error {code}"
    assert b"secret" not in sent
    assert case.told.outcomes == [code]


# -- before the first byte -------------------------------------------------------------------------------------------


async def test_what_is_wrong_at_once_is_raised_and_the_query_is_closed() -> None:
    case = Case(SelectError("line 1", code=SelectCode.JSON_PARSING_ERROR), interval=NEVER)
    with pytest.raises(SelectError, match="line 1"):
        await case.answer.begin()
    assert case.query.closed == 1
    assert case.told.outcomes == ["JSONParsingError"]
    await case.answer.aclose()
    assert case.query.closed == 1
    assert len(case.told.ends) == 1


async def test_a_beginning_waits_for_records_and_loses_none() -> None:
    case = Case(b"1", b"2", interval=NEVER)
    await case.answer.begin()
    assert await case.rest() == ["Records", "Records", "Stats", "End"]
    assert case.query.returned == 2


async def test_a_beginning_does_not_wait_for_long() -> None:
    gate = asyncio.Event()
    case = Case(gate, b"1", interval=AT_ONCE)
    await case.answer.begin()
    assert await case.next() == ["Cont"]
    gate.set()
    assert "Records" in await case.rest()


async def test_a_beginning_that_is_cancelled_closes_the_query() -> None:
    case = Case(asyncio.Event(), interval=NEVER)
    beginning = asyncio.create_task(case.answer.begin())
    while not case.query.was_read:
        await asyncio.sleep(0)
    beginning.cancel()
    with pytest.raises(asyncio.CancelledError):
        await beginning
    assert case.query.closed == 1
    assert case.told.outcomes == ["cancelled"]


# -- closing -----------------------------------------------------------------------------------------------------------


async def test_an_answer_that_nobody_reads_closes_its_query() -> None:
    case = Case(b"1")
    await case.answer.aclose()
    assert case.query.closed == 1
    assert not case.query.was_read
    assert case.told.outcomes == ["cancelled"]
    assert await case.rest() == []


async def test_closing_between_records_ends_the_query() -> None:
    case = Case(b"1", b"2")
    assert await case.next() == ["Records"]
    await case.answer.aclose()
    await case.answer.aclose()
    assert case.query.closed == 1
    assert case.told.ends == [("cancelled", QueryStats(7, 9, 1))]


async def test_closing_while_the_query_works_ends_it() -> None:
    case = Case(b"1", asyncio.Event(), interval=AT_ONCE)
    assert await case.next() == ["Records"]
    assert await case.next() == ["Cont"]
    await case.answer.aclose()
    assert case.query.closed == 1
    assert case.told.outcomes == ["cancelled"]


async def test_a_failure_that_nobody_hears_of_is_no_complaint() -> None:
    gate = asyncio.Event()
    case = Case(gate, ValueError("late"), interval=AT_ONCE)
    assert await case.next() == ["Cont"]
    gate.set()
    for _ in range(5):
        await asyncio.sleep(0)
    await case.answer.aclose()
    assert case.query.closed == 1


async def test_nothing_is_asked_of_the_query_while_the_client_does_not_read() -> None:
    case = Case(b"1", b"2", b"3")
    assert await case.next() == ["Records"]
    for _ in range(10):
        await asyncio.sleep(0)
    assert case.query.returned == 1
    await case.answer.aclose()
