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

from .fakes import RULES, FakeDecisionPoint, access_request, user

QUERY = DecisionQuery.of(access_request(), RULES)
OTHER_QUERY = DecisionQuery.of(access_request(user(name="bob")), RULES)


def point_of(fake: FakeDecisionPoint, clock: ManualClock | None = None, cache_seconds: float = 2.0) -> DecisionPoint:
    return DecisionPoint(fake.post, clock or ManualClock(), cache_seconds=cache_seconds, post_batch=fake.post)


@pytest.mark.parametrize(
    ("result", "allowed"),
    [(True, True), (False, False), ({"allow": True}, True), ({"allow": False}, False), ({}, False), (None, False)],
)
async def test_only_true_allows(result: object, allowed: bool) -> None:
    assert await point_of(FakeDecisionPoint(lambda query: result)).allows(QUERY, "R") is allowed


@pytest.mark.parametrize("body", [b"{}", b'{"decision_id": "1"}', b'{"result": null}'])
async def test_undefined_result_denies(body: bytes) -> None:
    fake = FakeDecisionPoint()
    fake.response = HttpResponse(200, body)
    assert not await point_of(fake).allows(QUERY, "R")


@pytest.mark.parametrize(
    "response",
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
async def test_invalid_response_is_unavailable_and_not_cached(response: HttpResponse) -> None:
    fake = FakeDecisionPoint()
    point = point_of(fake)
    fake.response = response
    with pytest.raises(Unavailable):
        await point.allows(QUERY, "R")
    fake.response = None
    assert await point.allows(QUERY, "R")
    assert len(fake.inputs) == 2


@given(st.binary())
def test_random_response_never_allows(body: bytes) -> None:
    fake = FakeDecisionPoint()
    fake.response = HttpResponse(200, body)

    async def decide() -> bool:
        try:
            return await point_of(fake).allows(QUERY, "R")
        except Unavailable:
            return False

    assert not asyncio.run(decide())


async def test_decisions_are_cached_for_the_configured_time() -> None:
    clock, fake = ManualClock(), FakeDecisionPoint()
    point = point_of(fake, clock, cache_seconds=2.0)
    assert await point.allows(QUERY, "R1")
    clock.advance(1.9)
    fake.script = lambda query: False
    assert await point.allows(QUERY, "R2")
    clock.advance(0.2)
    assert not await point.allows(QUERY, "R3")
    assert [query["context"]["request_id"] for query in fake.inputs] == ["R1", "R3"]


async def test_denials_are_cached_too() -> None:
    clock, fake = ManualClock(), FakeDecisionPoint(lambda query: False)
    point = point_of(fake, clock)
    assert not await point.allows(QUERY, "R")
    assert not await point.allows(QUERY, "R")
    assert len(fake.inputs) == 1


async def test_cache_can_be_disabled() -> None:
    fake = FakeDecisionPoint()
    point = point_of(fake, cache_seconds=0)
    assert await point.allows(QUERY, "R")
    assert await point.allows(QUERY, "R")
    assert len(fake.inputs) == 2


async def test_cached_decision_applies_only_to_its_query() -> None:
    fake = FakeDecisionPoint(lambda query: query["actor"]["principal"] == "ann")
    point = point_of(fake)
    assert await point.allows(QUERY, "R")
    assert not await point.allows(OTHER_QUERY, "R")


async def test_cache_is_bounded(monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setattr(module, "MAX_CACHED", 3)
    fake = FakeDecisionPoint()
    point = point_of(fake)
    for name in "abcd":
        await point.allows(DecisionQuery.of(access_request(user(name=name)), RULES), "R")
    assert await point.allows(DecisionQuery.of(access_request(user(name="d")), RULES), "R")
    assert len(fake.inputs) == 4
    assert await point.allows(DecisionQuery.of(access_request(user(name="a")), RULES), "R")
    assert len(fake.inputs) == 5


class Slow(FakeDecisionPoint):
    """Responds when `released` is set."""

    def __init__(self) -> None:
        super().__init__()
        self.released = asyncio.Event()

    async def post(self, body: bytes) -> HttpResponse:
        response = await super().post(body)
        await self.released.wait()
        return response


async def test_concurrent_equal_queries_share_one_request() -> None:
    fake = Slow()
    point = point_of(fake, cache_seconds=0)
    pending = [asyncio.create_task(point.allows(QUERY, f"R{number}")) for number in range(5)]
    await asyncio.sleep(0)
    fake.released.set()
    assert await asyncio.gather(*pending) == [True] * 5
    assert len(fake.inputs) == 1


async def test_cancelled_caller_does_not_cancel_the_shared_request() -> None:
    fake = Slow()
    point = point_of(fake)
    first, second = (asyncio.create_task(point.allows(QUERY, "R")) for _ in range(2))
    await asyncio.sleep(0)
    first.cancel()
    await asyncio.sleep(0)
    fake.released.set()
    assert await second
    assert first.cancelled()


async def test_failure_after_all_callers_are_cancelled_is_not_logged(caplog: pytest.LogCaptureFixture) -> None:
    fake = Slow()
    fake.response = HttpResponse(500, b"")
    pending = asyncio.create_task(point_of(fake).allows(QUERY, "R"))
    await asyncio.sleep(0)
    pending.cancel()
    fake.released.set()
    for _ in range(5):
        await asyncio.sleep(0)
    gc.collect()
    assert pending.cancelled()
    assert caplog.records == []


async def test_failure_of_a_shared_request_reaches_all_callers() -> None:
    fake = FakeDecisionPoint()
    fake.is_down = True
    point = point_of(fake)
    outcomes = await asyncio.gather(*(point.allows(QUERY, "R") for _ in range(3)), return_exceptions=True)
    assert [type(outcome) for outcome in outcomes] == [Unavailable] * 3
    assert len(fake.inputs) == 1


def tables(count: int) -> list[AccessTarget]:
    return [AccessTarget("TABLE_LIKE", ("lake", "ns", f"t{number}")) for number in range(count)]


async def test_lists_are_queried_in_batches(monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setattr(module, "BATCH", 4)
    fake = FakeDecisionPoint(
        lambda query: [i for i, one in enumerate(query["resource"]["targets"]) if one["name"] in allowed_names]
    )
    allowed_names = {"t0", "t3", "t4", "t9"}
    visible = await point_of(fake).visible(QUERY, tables(10), "R")
    assert {target.path[-1] for target in visible} == allowed_names
    assert [target.path[-1] for target in visible] == ["t0", "t3", "t4", "t9"]
    assert len(fake.inputs) == 3


@pytest.mark.parametrize(("result", "visible"), [(None, 0), ([], 0), ([5, -1, 99], 0), ([1, 1], 1)])
async def test_invalid_indexes_are_ignored(result: object, visible: int) -> None:
    assert len(await point_of(FakeDecisionPoint(lambda query: result)).visible(QUERY, tables(3), "R")) == visible


@pytest.mark.parametrize("result", [True, {"allow": True}, ["0"], [0.0], [True], "0", 0])
async def test_batch_result_of_another_type_is_unavailable(result: object) -> None:
    with pytest.raises(Unavailable):
        await point_of(FakeDecisionPoint(lambda query: result)).visible(QUERY, tables(3), "R")
