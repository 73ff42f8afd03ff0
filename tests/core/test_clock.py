from __future__ import annotations

from lakebed.core.clock import Clock, ManualClock, SystemClock


def test_manual_clock_stands_still_until_advanced() -> None:
    clock = ManualClock(now_ms=5_000)
    assert (clock.now_ms(), clock.monotonic()) == (5_000, 0.0)
    assert (clock.now_ms(), clock.monotonic()) == (5_000, 0.0)


def test_manual_clock_advances_both_times() -> None:
    clock = ManualClock(now_ms=5_000)
    clock.advance(1.5)
    assert (clock.now_ms(), clock.monotonic()) == (6_500, 1.5)


def test_system_clock_is_utc_in_milliseconds() -> None:
    clock: Clock = SystemClock()
    assert 1_700_000_000_000 < clock.now_ms() < 10_000_000_000_000


def test_system_clock_is_monotonic() -> None:
    clock = SystemClock()
    readings = [clock.monotonic() for _ in range(100)]
    assert readings == sorted(readings)
