"""Retries with backoff: which errors are retried, how often, and after which pause."""

from __future__ import annotations

import asyncio
from collections.abc import Awaitable, Callable
from dataclasses import dataclass
from random import Random, SystemRandom
from typing import TypeVar

from ..core.clock import Clock, SystemClock
from ..core.errors import IntegrityMismatch, InvalidSetting, LakebedError, StorageFull, Throttled

__all__ = ["Retrier", "RetryPolicy", "is_retryable"]

T = TypeVar("T")

_Sleep = Callable[[float], Awaitable[None]]


@dataclass(frozen=True, slots=True)
class RetryPolicy:
    """Limits of retries. Pauses are random between zero and a limit that doubles (full jitter)."""

    max_attempts: int = 8
    base_seconds: float = 0.1
    throttled_base_seconds: float = 0.5
    """Initial limit after a throttling response."""
    max_pause_seconds: float = 10.0
    timeout_seconds: float = 180.0
    """No attempt starts after this."""

    def __post_init__(self) -> None:
        if self.max_attempts < 1:
            raise InvalidSetting(f"retry.max_attempts: must be at least 1. value={self.max_attempts}")

    def pause_limit(self, failures: int, error: LakebedError) -> float:
        """The longest pause after this number of failures, the last of them `error`."""
        base = self.throttled_base_seconds if isinstance(error, Throttled) else self.base_seconds
        return min(self.max_pause_seconds, base * 2.0 ** min(failures - 1, 60))


def is_retryable(error: LakebedError) -> bool:
    """Whether the same call may succeed soon.

    A full disk stays full for longer than retries last. Bytes damaged in transit may arrive intact the next time.
    """
    if isinstance(error, IntegrityMismatch):
        return True
    return error.retryable and not isinstance(error, StorageFull)


class Retrier:
    """Runs an operation until it succeeds, fails permanently, or the policy ends.

    A digest mismatch is retried once only: a second one does not come from the transfer.
    """

    def __init__(
        self,
        policy: RetryPolicy | None = None,
        clock: Clock | None = None,
        *,
        sleep: _Sleep = asyncio.sleep,
        random: Random | None = None,
    ) -> None:
        self.policy = RetryPolicy() if policy is None else policy
        self._clock = SystemClock() if clock is None else clock
        self._sleep = sleep
        self._random = SystemRandom() if random is None else random

    async def run(
        self,
        operation: Callable[[int], Awaitable[T]],
        *,
        retryable: Callable[[LakebedError], bool] = is_retryable,
    ) -> T:
        """The result of `operation`, which receives the number of failed attempts. Raises its last error."""
        started = self._clock.monotonic()
        failures = 0
        damaged = False
        while True:
            try:
                return await operation(failures)
            except LakebedError as error:
                failures += 1
                if not retryable(error) or failures >= self.policy.max_attempts:
                    raise
                if isinstance(error, IntegrityMismatch):
                    if damaged:
                        raise
                    damaged = True
                pause = self._random.uniform(0.0, self.policy.pause_limit(failures, error))
                if self._clock.monotonic() - started + pause > self.policy.timeout_seconds:
                    raise
            await self._sleep(pause)
