from __future__ import annotations

import pytest
from hypothesis import given
from hypothesis import strategies as st

from lakebed.core.clock import ManualClock
from lakebed.core.errors import Throttled
from lakebed.governance.tokens.login_throttle import FailureBudget, LoginThrottle

HOME, AWAY = "192.0.2.1", "198.51.100.9"


def attempts(clock: ManualClock) -> LoginThrottle:
    return LoginThrottle(clock, client_failures=3, address_failures=5, refill_seconds=10)


def test_client_is_throttled_after_failures() -> None:
    clock = ManualClock()
    tries = attempts(clock)
    for _ in range(3):
        tries.begin("bob", HOME)
    with pytest.raises(Throttled) as refusal:
        tries.begin("bob", AWAY)
    assert refusal.value.retry_after_seconds == 10
    tries.begin("eve", HOME)
    clock.advance(10)
    tries.begin("bob", AWAY)
    with pytest.raises(Throttled):
        tries.begin("bob", AWAY)


def test_address_is_throttled_after_failures_of_any_client() -> None:
    tries = attempts(ManualClock())
    for number in range(5):
        tries.begin(f"client-{number}", AWAY)
    with pytest.raises(Throttled):
        tries.begin("client-5", AWAY)
    tries.begin("client-5", HOME)


def test_successful_attempts_are_refunded() -> None:
    tries = attempts(ManualClock())
    for _ in range(100):
        tries.succeeded(tries.begin("bob", HOME))
    for _ in range(3):  # the budget is undiminished
        tries.begin("bob", HOME)
    with pytest.raises(Throttled):
        tries.begin("bob", HOME)


def test_concurrent_attempts_are_charged_before_verification() -> None:
    tries = attempts(ManualClock())
    begun = [tries.begin("bob", HOME) for _ in range(3)]
    with pytest.raises(Throttled):
        tries.begin("bob", HOME)
    tries.succeeded(begun[0])
    tries.begin("bob", HOME)


def test_failures_elsewhere_do_not_throttle_known_addresses() -> None:
    tries = attempts(ManualClock())
    tries.succeeded(tries.begin("bob", HOME))
    for _ in range(3):
        tries.begin("bob", AWAY)
    with pytest.raises(Throttled):
        tries.begin("bob", AWAY)
    tries.succeeded(tries.begin("bob", HOME))


def test_failures_at_a_known_address_are_throttled() -> None:
    tries = attempts(ManualClock())
    tries.succeeded(tries.begin("bob", HOME))
    for _ in range(3):
        tries.begin("bob", HOME)
    with pytest.raises(Throttled):
        tries.begin("bob", HOME)


@given(st.lists(st.floats(0, 100), max_size=60))
def test_budget_is_never_exceeded(pauses: list[float]) -> None:
    clock = ManualClock()
    budget = FailureBudget(clock, limit=4, refill_seconds=7)
    spent = 0
    for pause in pauses:
        clock.advance(pause)
        if budget.wait_seconds("x") <= 0:
            budget.consume("x")
            spent += 1
    assert spent <= 4 + clock.monotonic() / 7 + 1e-6


@given(st.integers(0, 20), st.floats(0, 1000))
def test_attempt_is_permitted_after_the_wait(failures: int, pause: float) -> None:
    clock = ManualClock()
    budget = FailureBudget(clock, limit=4, refill_seconds=7)
    for _ in range(failures):
        budget.consume("x")
    clock.advance(pause)
    clock.advance(budget.wait_seconds("x") + 1e-6)
    assert budget.wait_seconds("x") <= 1e-6


def test_tracked_names_are_bounded() -> None:
    budget = FailureBudget(ManualClock(), limit=1)
    for number in range(20_000):
        budget.consume(str(number))
    assert budget.wait_seconds("0") == 0
    assert budget.wait_seconds("19999") > 0
