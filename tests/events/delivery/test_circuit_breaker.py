from __future__ import annotations

from hypothesis import given
from hypothesis import strategies as st

from lakebed.events.delivery.circuit_breaker import FAILURE_THRESHOLD, MAX_PAUSE_SECONDS, CircuitBreaker


def open_breaker() -> CircuitBreaker:
    breaker = CircuitBreaker()
    for _ in range(FAILURE_THRESHOLD):
        breaker.record_failure(0, 0.0)
    return breaker


def test_breaker_opens_after_threshold_of_consecutive_failures() -> None:
    breaker = CircuitBreaker()
    seen: list[bool] = []
    for answers in ([False] * (FAILURE_THRESHOLD - 1), [True], [False] * (FAILURE_THRESHOLD - 1), [False]):
        for is_good in answers:
            breaker.record_success() if is_good else breaker.record_failure(0, 0.0)
        seen.append(breaker.is_open)
    assert seen == [False, False, False, True]
    assert not breaker.may_send()


def test_open_breaker_sends_probes_with_growing_pauses() -> None:
    breaker = open_breaker()
    assert not breaker.start_round(999)
    assert breaker.start_round(1000)
    assert breaker.may_send()
    breaker.record_failure(1000, 0.0)
    assert not breaker.may_send()
    # The next pause is twice as long.
    assert not breaker.start_round(2999)
    assert breaker.start_round(3000)
    breaker.record_success()
    assert not breaker.is_open
    assert breaker.may_send()


def test_failures_of_events_in_flight_do_not_extend_the_pause() -> None:
    breaker = open_breaker()
    for _ in range(10):
        breaker.record_failure(0, 0.0)
    assert breaker.start_round(1000)


@given(st.integers(1, 40), st.floats(0, 1))
def test_pauses_do_not_exceed_the_maximum(probes: int, chance: float) -> None:
    breaker = open_breaker()
    now_ms = 0
    for _ in range(probes):
        now_ms += round(MAX_PAUSE_SECONDS * 1000)
        assert breaker.start_round(now_ms)
        breaker.record_failure(now_ms, chance)
    assert breaker.is_long_open == (probes >= 3)
