"""Times an operation that is repeated sequentially."""

from __future__ import annotations

import gc
import statistics
import time
from collections.abc import Awaitable, Callable

import msgspec

Work = Callable[[], Awaitable[object]]


class Timed(msgspec.Struct, frozen=True):
    """Times of one operation: medians over the rounds."""

    title: str
    p50_seconds: float
    p99_seconds: float
    a_second: float
    """Sequentially, including waiting."""
    goal_seconds: float | None = None
    """Upper bound of the median."""

    @property
    def is_met(self) -> bool:
        """Whether the median meets the goal, if there is one."""
        return self.goal_seconds is None or self.p50_seconds < self.goal_seconds


async def timed(
    title: str,
    work: Work,
    *,
    rounds: int,
    seconds: float,
    before: Work | None = None,
    goal_seconds: float | None = None,
) -> Timed:
    """Repeat `work` for `seconds` in each round; `before` runs before each call and is not timed."""
    middles, worst, speeds = [], [], []
    for _ in range(rounds):
        gc.collect()
        taken = await _round(work, before, seconds)
        taken.sort()
        middles.append(statistics.median(taken))
        worst.append(taken[min(len(taken) - 1, len(taken) * 99 // 100)])
        speeds.append(len(taken) / sum(taken))
    return Timed(title, statistics.median(middles), statistics.median(worst), statistics.median(speeds), goal_seconds)


async def _round(work: Work, before: Work | None, seconds: float) -> list[float]:
    taken: list[float] = []
    ends = time.perf_counter() + seconds
    while True:
        if before is not None:
            await before()
        began = time.perf_counter()
        await work()
        ended = time.perf_counter()
        taken.append(ended - began)
        if ended >= ends:
            return taken
