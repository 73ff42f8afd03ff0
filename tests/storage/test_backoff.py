"""Retries: retried errors, number of attempts, pauses."""

from __future__ import annotations

from random import Random

import pytest

from lakebed.core.clock import ManualClock
from lakebed.core.errors import (
    AlreadyExists,
    IntegrityMismatch,
    InvalidSetting,
    LakebedError,
    StorageFull,
    Throttled,
    Unavailable,
    WriteConflict,
)
from lakebed.storage.backoff import Retrier, RetryPolicy


class Pauses:
    """A sleep that advances the clock and records its duration."""

    def __init__(self) -> None:
        self.clock = ManualClock()
        self.seconds: list[float] = []

    async def __call__(self, seconds: float) -> None:
        self.seconds.append(seconds)
        self.clock.advance(seconds)


class Longest(Random):
    """A generator that returns the upper bound."""

    def uniform(self, a: float, b: float) -> float:
        return b


class Operation:
    """Fails with these errors in order, then succeeds."""

    def __init__(self, *errors: LakebedError) -> None:
        self.errors = list(errors)
        self.failures_seen: list[int] = []

    async def __call__(self, failures: int) -> str:
        self.failures_seen.append(failures)
        if self.errors:
            raise self.errors.pop(0)
        return "done"


@pytest.fixture
def pauses() -> Pauses:
    return Pauses()


@pytest.mark.parametrize("error", [Unavailable(), Throttled(), WriteConflict()])
async def test_retryable_error_is_retried(pauses: Pauses, error: LakebedError) -> None:
    operation = Operation(error, error)
    assert await Retrier(clock=pauses.clock, sleep=pauses).run(operation) == "done"
    assert operation.failures_seen == [0, 1, 2]


@pytest.mark.parametrize("error", [AlreadyExists(), StorageFull()])
async def test_permanent_error_is_raised_at_once(pauses: Pauses, error: LakebedError) -> None:
    with pytest.raises(type(error)):
        await Retrier(clock=pauses.clock, sleep=pauses).run(Operation(error))
    assert pauses.seconds == []


async def test_digest_mismatch_is_retried_once(pauses: Pauses) -> None:
    retrier = Retrier(clock=pauses.clock, sleep=pauses)
    assert await retrier.run(Operation(IntegrityMismatch())) == "done"
    with pytest.raises(IntegrityMismatch):
        await retrier.run(Operation(IntegrityMismatch(), IntegrityMismatch()))


async def test_last_error_is_raised_after_the_last_attempt(pauses: Pauses) -> None:
    operation = Operation(Unavailable("1"), Unavailable("2"), Unavailable("3"), Unavailable("4"))
    with pytest.raises(Unavailable, match="3"):
        await Retrier(RetryPolicy(max_attempts=3), pauses.clock, sleep=pauses).run(operation)
    assert len(pauses.seconds) == 2


async def test_pause_limit_doubles_up_to_its_maximum(pauses: Pauses) -> None:
    policy = RetryPolicy(max_attempts=7, base_seconds=1, max_pause_seconds=10)
    retrier = Retrier(policy, pauses.clock, sleep=pauses, random=Longest())
    await retrier.run(Operation(*[Unavailable()] * 6))
    assert pauses.seconds == [1, 2, 4, 8, 10, 10]


async def test_throttling_causes_longer_pauses(pauses: Pauses) -> None:
    policy = RetryPolicy(base_seconds=1, throttled_base_seconds=5, max_pause_seconds=100)
    retrier = Retrier(policy, pauses.clock, sleep=pauses, random=Longest())
    await retrier.run(Operation(Throttled(), Throttled()))
    assert pauses.seconds == [5, 10]


async def test_pauses_are_spread_over_the_whole_range(pauses: Pauses) -> None:
    policy = RetryPolicy(max_attempts=200, base_seconds=1, max_pause_seconds=1, timeout_seconds=1000)
    retrier = Retrier(policy, pauses.clock, sleep=pauses, random=Random(7))
    await retrier.run(Operation(*[Unavailable()] * 199))
    assert min(pauses.seconds) < 0.1
    assert max(pauses.seconds) > 0.9


async def test_no_attempt_starts_after_the_timeout(pauses: Pauses) -> None:
    policy = RetryPolicy(max_attempts=100, base_seconds=4, max_pause_seconds=4, timeout_seconds=10)
    retrier = Retrier(policy, pauses.clock, sleep=pauses, random=Longest())
    with pytest.raises(Unavailable):
        await retrier.run(Operation(*[Unavailable()] * 99))
    assert pauses.seconds == [4, 4]


def test_policy_without_attempts_is_rejected() -> None:
    with pytest.raises(InvalidSetting, match=r"^retry\.max_attempts"):
        RetryPolicy(max_attempts=0)
