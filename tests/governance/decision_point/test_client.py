from __future__ import annotations

import asyncio
import gc

import pytest
from hypothesis import given
from hypothesis import strategies as st

from lakebed.core.access import AccessTarget
from lakebed.core.clock import ManualClock
from lakebed.core.errors import Unavailable
from lakebed.governance.decision_point import DecisionPoint, DecisionQuery
from lakebed.governance.decision_point import client as module
from lakebed.net.http import HttpResponse

from .asking import RULES, Oracle, question, user

ASKED = DecisionQuery.of(question(), RULES)
OTHER = DecisionQuery.of(question(user(name="bob")), RULES)


def point_of(oracle: Oracle, clock: ManualClock | None = None, remember: float = 2.0) -> DecisionPoint:
    return DecisionPoint(oracle.post, clock or ManualClock(), cache_seconds=remember, post_batch=oracle.post)


@pytest.mark.parametrize(
    ("result", "allowed"),
    [(True, True), (False, False), ({"allow": True}, True), ({"allow": False}, False), ({}, False), (None, False)],
)
async def test_only_a_clear_yes_allows(result: object, allowed: bool) -> None:
    assert await point_of(Oracle(lambda asked: result)).allows(ASKED, "R") is allowed


@pytest.mark.parametrize("body", [b"{}", b'{"decision_id": "1"}', b'{"result": null}'])
async def test_undefined_is_a_no(body: bytes) -> None:
    oracle = Oracle()
    oracle.answer = HttpResponse(200, body)
    assert not await point_of(oracle).allows(ASKED, "R")


@pytest.mark.parametrize(
    "answer",
    [
        HttpResponse(500, b'{"result": true}'),
        HttpResponse(404, b'{"result": true}'),
        HttpResponse(401, b""),
        HttpResponse(302, b'{"result": true}'),
        HttpResponse(200, b""),
        HttpResponse(200, b"true"),
        HttpResponse(200, b'{"result": "yes"}'),
        HttpResponse(200, b'{"result": 1}'),
        HttpResponse(200, b'{"result": [true]}'),
        HttpResponse(200, b'{"result": {"allow": "true"}}'),
        HttpResponse(200, b"[" * 100_000),
        HttpResponse(200, b'{"result": \xff}'),
    ],
)
async def test_what_is_no_answer_allows_nothing_and_is_not_remembered(answer: HttpResponse) -> None:
    oracle = Oracle()
    point = point_of(oracle)
    oracle.answer = answer
    with pytest.raises(Unavailable):
        await point.allows(ASKED, "R")
    oracle.answer = None
    assert await point.allows(ASKED, "R")
    assert len(oracle.asked) == 2


@given(st.binary())
def test_noise_is_never_a_yes(noise: bytes) -> None:
    oracle = Oracle()
    oracle.answer = HttpResponse(200, noise)

    async def ask() -> bool:
        try:
            return await point_of(oracle).allows(ASKED, "R")
        except Unavailable:
            return False

    assert not asyncio.run(ask())


async def test_answers_are_remembered_for_as_long_as_the_settings_say() -> None:
    clock, oracle = ManualClock(), Oracle()
    point = point_of(oracle, clock, remember=2.0)
    assert await point.allows(ASKED, "R1")
    clock.advance(1.9)
    oracle.script = lambda asked: False
    assert await point.allows(ASKED, "R2")
    clock.advance(0.2)
    assert not await point.allows(ASKED, "R3")
    assert [asked["context"]["request_id"] for asked in oracle.asked] == ["R1", "R3"]


async def test_refusals_are_remembered_like_allowances() -> None:
    clock, oracle = ManualClock(), Oracle(lambda asked: False)
    point = point_of(oracle, clock)
    assert not await point.allows(ASKED, "R")
    assert not await point.allows(ASKED, "R")
    assert len(oracle.asked) == 1


async def test_nothing_is_remembered_where_the_settings_say_so() -> None:
    oracle = Oracle()
    point = point_of(oracle, remember=0)
    assert await point.allows(ASKED, "R")
    assert await point.allows(ASKED, "R")
    assert len(oracle.asked) == 2


async def test_answers_to_one_are_no_answers_to_another() -> None:
    oracle = Oracle(lambda asked: asked["actor"]["principal"] == "ann")
    point = point_of(oracle)
    assert await point.allows(ASKED, "R")
    assert not await point.allows(OTHER, "R")


async def test_memory_is_bounded(monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setattr(module, "MAX_CACHED", 3)
    oracle = Oracle()
    point = point_of(oracle)
    for name in "abcd":
        await point.allows(DecisionQuery.of(question(user(name=name)), RULES), "R")
    assert await point.allows(DecisionQuery.of(question(user(name="d")), RULES), "R")
    assert len(oracle.asked) == 4
    assert await point.allows(DecisionQuery.of(question(user(name="a")), RULES), "R")
    assert len(oracle.asked) == 5


class Slow(Oracle):
    """Answers when it is let."""

    def __init__(self) -> None:
        super().__init__()
        self.let = asyncio.Event()

    async def post(self, body: bytes) -> HttpResponse:
        answer = await super().post(body)
        await self.let.wait()
        return answer


async def test_same_question_is_asked_once_at_a_time() -> None:
    oracle = Slow()
    point = point_of(oracle, remember=0)
    asking = [asyncio.create_task(point.allows(ASKED, f"R{number}")) for number in range(5)]
    await asyncio.sleep(0)
    oracle.let.set()
    assert await asyncio.gather(*asking) == [True] * 5
    assert len(oracle.asked) == 1


async def test_who_gives_up_takes_no_answer_from_others() -> None:
    oracle = Slow()
    point = point_of(oracle)
    first, second = (asyncio.create_task(point.allows(ASKED, "R")) for _ in range(2))
    await asyncio.sleep(0)
    first.cancel()
    await asyncio.sleep(0)
    oracle.let.set()
    assert await second
    assert first.cancelled()


async def test_failure_that_nobody_waits_for_any_more_is_no_fault(caplog: pytest.LogCaptureFixture) -> None:
    oracle = Slow()
    oracle.answer = HttpResponse(500, b"")
    asking = asyncio.create_task(point_of(oracle).allows(ASKED, "R"))
    await asyncio.sleep(0)
    asking.cancel()
    oracle.let.set()
    for _ in range(5):
        await asyncio.sleep(0)
    gc.collect()
    assert asking.cancelled()
    assert caplog.records == []


async def test_all_who_wait_are_told_that_there_is_no_answer() -> None:
    oracle = Oracle()
    oracle.is_down = True
    point = point_of(oracle)
    outcomes = await asyncio.gather(*(point.allows(ASKED, "R") for _ in range(3)), return_exceptions=True)
    assert [type(outcome) for outcome in outcomes] == [Unavailable] * 3
    assert len(oracle.asked) == 1


def tables(count: int) -> list[AccessTarget]:
    return [AccessTarget("TABLE_LIKE", ("lake", "ns", f"t{number}")) for number in range(count)]


async def test_lists_are_asked_about_in_few_questions(monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setattr(module, "BATCH", 4)
    oracle = Oracle(lambda asked: [i for i, one in enumerate(asked["resource"]["targets"]) if one["name"] in wanted])
    wanted = {"t0", "t3", "t4", "t9"}
    shown = await point_of(oracle).visible(ASKED, tables(10), "R")
    assert {target.path[-1] for target in shown} == wanted
    assert [target.path[-1] for target in shown] == ["t0", "t3", "t4", "t9"]
    assert len(oracle.asked) == 3


@pytest.mark.parametrize(("result", "shown"), [(None, 0), ([], 0), ([5, -1, 99], 0), ([1, 1], 1)])
async def test_indexes_that_are_none_show_nothing(result: object, shown: int) -> None:
    assert len(await point_of(Oracle(lambda asked: result)).visible(ASKED, tables(3), "R")) == shown


@pytest.mark.parametrize("result", [True, {"allow": True}, ["0"], [0.0], [True], "0", 0])
async def test_lists_with_an_answer_of_another_form_are_not_shown(result: object) -> None:
    with pytest.raises(Unavailable):
        await point_of(Oracle(lambda asked: result)).visible(ASKED, tables(3), "R")
