from __future__ import annotations

from hypothesis import given
from hypothesis import strategies as st

from lakebed.events.delivery.circuit_breaker import LONGEST_PAUSE_SECONDS, PATIENCE, CircuitBreaker


def down() -> CircuitBreaker:
    outage = CircuitBreaker()
    for _ in range(PATIENCE):
        outage.fail(0, 0.0)
    return outage


def test_a_few_failures_are_no_outage_and_many_in_a_row_are() -> None:
    outage = CircuitBreaker()
    seen: list[bool] = []
    for answers in ([False] * (PATIENCE - 1), [True], [False] * (PATIENCE - 1), [False]):
        for is_good in answers:
            outage.succeed() if is_good else outage.fail(0, 0.0)
        seen.append(outage.is_down)
    assert seen == [False, False, False, True]
    assert not outage.goes_on()


def test_while_it_is_down_one_is_sent_now_and_then() -> None:
    outage = down()
    assert not outage.begin(999)
    assert outage.begin(1000)
    assert outage.goes_on()
    outage.fail(1000, 0.0)
    assert not outage.goes_on()
    # The next pause is longer.
    assert not outage.begin(2999)
    assert outage.begin(3000)
    outage.succeed()
    assert not outage.is_down
    assert outage.goes_on()


def test_those_that_were_under_way_when_it_went_down_do_not_make_it_longer() -> None:
    outage = down()
    for _ in range(10):
        outage.fail(0, 0.0)
    assert outage.begin(1000)


@given(st.integers(1, 40), st.floats(0, 1))
def test_pauses_are_never_longer_than_the_longest(probes: int, chance: float) -> None:
    outage = down()
    now_ms = 0
    for _ in range(probes):
        now_ms += round(LONGEST_PAUSE_SECONDS * 1000)
        assert outage.begin(now_ms)
        outage.fail(now_ms, chance)
    assert outage.has_lasted == (probes >= 3)
