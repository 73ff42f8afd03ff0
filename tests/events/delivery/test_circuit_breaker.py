from __future__ import annotations

from hypothesis import given
from hypothesis import strategies as st

from lakebed.events.delivery.circuit_breaker import FAILURE_THRESHOLD, MAX_PAUSE_SECONDS, CircuitBreaker


def down() -> CircuitBreaker:
    breaker = CircuitBreaker()
    for _ in range(FAILURE_THRESHOLD):
        breaker.record_failure(0, 0.0)
    return breaker


def test_a_few_failures_are_no_outage_and_many_in_a_row_are() -> None:
    breaker = CircuitBreaker()
    seen: list[bool] = []
    for answers in ([False] * (FAILURE_THRESHOLD - 1), [True], [False] * (FAILURE_THRESHOLD - 1), [False]):
        for is_good in answers:
            breaker.record_success() if is_good else breaker.record_failure(0, 0.0)
        seen.append(breaker.is_open)
    assert seen == [False, False, False, True]
    assert not breaker.may_send()


def test_while_it_is_down_one_is_sent_now_and_then() -> None:
    breaker = down()
    assert not breaker.start_round(999)
    assert breaker.start_round(1000)
    assert breaker.may_send()
    breaker.record_failure(1000, 0.0)
    assert not breaker.may_send()
    # The next pause is longer.
    assert not breaker.start_round(2999)
    assert breaker.start_round(3000)
    breaker.record_success()
    assert not breaker.is_open
    assert breaker.may_send()


def test_those_that_were_under_way_when_it_went_down_do_not_make_it_longer() -> None:
    breaker = down()
    for _ in range(10):
        breaker.record_failure(0, 0.0)
    assert breaker.start_round(1000)


@given(st.integers(1, 40), st.floats(0, 1))
def test_pauses_are_never_longer_than_the_longest(probes: int, chance: float) -> None:
    breaker = down()
    now_ms = 0
    for _ in range(probes):
        now_ms += round(MAX_PAUSE_SECONDS * 1000)
        assert breaker.start_round(now_ms)
        breaker.record_failure(now_ms, chance)
    assert breaker.is_long_open == (probes >= 3)
