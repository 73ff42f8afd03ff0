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


def test_after_some_mistakes_a_client_waits() -> None:
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


def test_after_some_mistakes_an_address_waits_whoever_it_says_it_is() -> None:
    tries = attempts(ManualClock())
    for number in range(5):
        tries.begin(f"client-{number}", AWAY)
    with pytest.raises(Throttled):
        tries.begin("client-5", AWAY)
    tries.begin("client-5", HOME)


def test_right_secrets_cost_nothing() -> None:
    tries = attempts(ManualClock())
    for _ in range(100):
        tries.succeeded(tries.begin("bob", HOME))
    for _ in range(3):  # as many mistakes are free as at first
        tries.begin("bob", HOME)
    with pytest.raises(Throttled):
        tries.begin("bob", HOME)


def test_many_tries_at_once_count_before_any_of_them_is_known_to_be_wrong() -> None:
    tries = attempts(ManualClock())
    begun = [tries.begin("bob", HOME) for _ in range(3)]
    with pytest.raises(Throttled):
        tries.begin("bob", HOME)
    tries.succeeded(begun[0])
    tries.begin("bob", HOME)


def test_guesses_from_elsewhere_do_not_shut_a_client_out_at_home() -> None:
    tries = attempts(ManualClock())
    tries.succeeded(tries.begin("bob", HOME))
    for _ in range(3):
        tries.begin("bob", AWAY)
    with pytest.raises(Throttled):
        tries.begin("bob", AWAY)
    tries.succeeded(tries.begin("bob", HOME))


def test_home_is_no_place_to_guess_from_either() -> None:
    tries = attempts(ManualClock())
    tries.succeeded(tries.begin("bob", HOME))
    for _ in range(3):
        tries.begin("bob", HOME)
    with pytest.raises(Throttled):
        tries.begin("bob", HOME)


@given(st.lists(st.floats(0, 100), max_size=60))
def test_no_more_is_spent_than_there_was_and_grew_back(pauses: list[float]) -> None:
    clock = ManualClock()
    allowance = FailureBudget(clock, limit=4, refill_seconds=7)
    spent = 0
    for pause in pauses:
        clock.advance(pause)
        if allowance.wait_seconds("x") <= 0:
            allowance.consume("x")
            spent += 1
    assert spent <= 4 + clock.monotonic() / 7 + 1e-6


@given(st.integers(0, 20), st.floats(0, 1000))
def test_whoever_waits_as_long_as_told_may_try_again(mistakes: int, pause: float) -> None:
    clock = ManualClock()
    allowance = FailureBudget(clock, limit=4, refill_seconds=7)
    for _ in range(mistakes):
        allowance.consume("x")
    clock.advance(pause)
    clock.advance(allowance.wait_seconds("x") + 1e-6)
    assert allowance.wait_seconds("x") <= 1e-6


def test_what_is_remembered_is_bounded() -> None:
    allowance = FailureBudget(ManualClock(), limit=1)
    for number in range(20_000):
        allowance.consume(str(number))
    assert allowance.wait_seconds("0") == 0
    assert allowance.wait_seconds("19999") > 0
