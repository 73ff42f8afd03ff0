from __future__ import annotations

import asyncio
from collections.abc import Awaitable, Callable

import pytest

from lakebed.core.clock import ManualClock
from lakebed.core.errors import Fenced, Unavailable
from lakebed.meta.leases import Leases
from lakebed.meta.periodic import LEASE_SECONDS, PeriodicJob, PeriodicRun, wait_ms
from lakebed.meta.seam import MetaStore

HOUR_MS = 3_600_000
HOUR = 3600.0

Work = Callable[[], Awaitable[None]]
MakeJob = Callable[[str, Work], PeriodicJob]


@pytest.fixture
def job(core_store: MetaStore, clock: ManualClock) -> MakeJob:
    """The same hourly job in another process."""
    leases = Leases(core_store, clock)
    return lambda holder, work: PeriodicJob(core_store, leases, clock, "sweep", holder, HOUR, work)


class Counted:
    """Work that counts its runs."""

    def __init__(self) -> None:
        self.runs = 0

    async def __call__(self) -> None:
        self.runs += 1


class Blocked:
    """Work that runs until it is released or cancelled."""

    def __init__(self) -> None:
        self.began, self.release, self.cancelled = asyncio.Event(), asyncio.Event(), False

    async def __call__(self) -> None:
        self.began.set()
        try:
            await self.release.wait()
        except asyncio.CancelledError:
            self.cancelled = True
            raise


async def start(job: PeriodicJob, work: Blocked) -> asyncio.Task[float]:
    """Run a step until its work has begun."""
    step = asyncio.create_task(job.step())
    await work.began.wait()
    return step


# -- due times ------------------------------------------------------------------------------------------------------


@pytest.mark.parametrize(
    ("last", "wait"),
    [
        (None, 0),
        (PeriodicRun(1_000_000, failed=False), HOUR_MS),
        (PeriodicRun(1_000_000 - HOUR_MS, failed=False), 0),
        (PeriodicRun(1_000_000 - HOUR_MS + 5, failed=False), 5),
        (PeriodicRun(1_000_000 + 2000, failed=False), HOUR_MS + 2000),
        (PeriodicRun(1_000_000 + 2 * HOUR_MS, failed=False), 0),
        (PeriodicRun(1_000_000, failed=True), 60_000),
        (PeriodicRun(1_000_000 - 60_000, failed=True), 0),
    ],
)
def test_job_is_due_after_its_interval_and_sooner_after_a_failure(last: PeriodicRun | None, wait: int) -> None:
    assert wait_ms(last, 1_000_000, HOUR_MS) == wait


def test_retry_delay_is_at_most_the_interval() -> None:
    assert wait_ms(PeriodicRun(1000, failed=True), 1000, 200) == 200


# -- runs ------------------------------------------------------------------------------------------------------------


async def test_job_runs_once_per_interval_in_all_processes(job: MakeJob, clock: ManualClock) -> None:
    work = Counted()
    first, second = job("a", work), job("b", work)
    assert await first.step() == HOUR
    assert await second.step() == HOUR
    clock.advance(HOUR - 1)
    assert await second.step() == 1.0
    assert work.runs == 1
    clock.advance(1)
    await second.step()
    await first.step()
    assert work.runs == 2


async def test_restart_neither_delays_nor_repeats_a_job(job: MakeJob, clock: ManualClock) -> None:
    work = Counted()
    await job("before", work).step()
    clock.advance(HOUR / 2)
    assert await job("after", work).step() == HOUR / 2
    clock.advance(HOUR / 2)
    await job("after", work).step()
    assert work.runs == 2


async def test_job_runs_in_one_process_at_a_time(job: MakeJob) -> None:
    blocked, other = Blocked(), Counted()
    running = await start(job("a", blocked), blocked)
    assert await job("b", other).step() == LEASE_SECONDS / 2
    blocked.release.set()
    assert await running == HOUR
    assert other.runs == 0


async def test_stopped_process_releases_its_job_at_once(job: MakeJob) -> None:
    blocked, other = Blocked(), Counted()
    running = await start(job("a", blocked), blocked)
    running.cancel()
    with pytest.raises(asyncio.CancelledError):
        await running
    assert blocked.cancelled
    await job("b", other).step()
    assert other.runs == 1


async def test_killed_process_delays_its_job_by_at_most_the_lease(
    core_store: MetaStore, job: MakeJob, clock: ManualClock
) -> None:
    assert await Leases(core_store, clock).acquire("sweep", "killed", LEASE_SECONDS) is not None
    other = Counted()
    assert await job("b", other).step() == LEASE_SECONDS / 2
    clock.advance(LEASE_SECONDS)
    await job("b", other).step()
    assert other.runs == 1


async def test_failed_run_is_retried_soon_by_any_process(job: MakeJob, clock: ManualClock) -> None:
    async def fail() -> None:
        raise Unavailable("the store is away")

    with pytest.raises(Unavailable):
        await job("a", fail).step()
    other = Counted()
    assert await job("b", other).step() == 60.0
    clock.advance(60)
    assert await job("b", other).step() == HOUR
    assert other.runs == 1


# -- the lease of a run ----------------------------------------------------------------------------------------------


async def test_long_run_renews_its_lease(job: MakeJob, clock: ManualClock, monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setattr("lakebed.meta.periodic.LEASE_SECONDS", 0.04)
    renewed, blocked, other = asyncio.Event(), Blocked(), Counted()
    renew = Leases.renew

    async def seen(*arguments: object) -> object:
        lease = await renew(*arguments)  # type: ignore[arg-type]  # passed through
        renewed.set()
        return lease

    monkeypatch.setattr(Leases, "renew", seen)
    running = await start(job("a", blocked), blocked)
    for _ in range(5):
        clock.advance(0.03)
        renewed.clear()
        await renewed.wait()
    assert await job("b", other).step() == 0.02
    blocked.release.set()
    assert await running == HOUR
    assert other.runs == 0


async def test_run_with_a_lost_lease_is_cancelled(
    job: MakeJob, clock: ManualClock, monkeypatch: pytest.MonkeyPatch
) -> None:
    monkeypatch.setattr("lakebed.meta.periodic.LEASE_SECONDS", 0.04)
    blocked, other = Blocked(), Counted()
    running = await start(job("paused", blocked), blocked)
    clock.advance(1)
    await job("b", other).step()
    with pytest.raises(Fenced):
        await running
    assert blocked.cancelled
    assert other.runs == 1


async def test_run_is_cancelled_when_the_store_is_unavailable_beyond_the_lease(
    job: MakeJob, clock: ManualClock, monkeypatch: pytest.MonkeyPatch
) -> None:
    monkeypatch.setattr("lakebed.meta.periodic.LEASE_SECONDS", 0.04)

    async def away(*_: object) -> None:
        clock.advance(0.02)
        raise Unavailable("the store is away")

    monkeypatch.setattr(Leases, "renew", away)
    blocked = Blocked()
    running = await start(job("a", blocked), blocked)
    with pytest.raises(Fenced, match="expired before it was renewed"):
        await running
    assert blocked.cancelled
