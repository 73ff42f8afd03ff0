from __future__ import annotations

from lakebed.server.processes.responsiveness import TICK_SECONDS, UNRESPONSIVE_SECONDS, Pulse


def silent(pulse: Pulse, seconds: float) -> Pulse:
    """The pulse after this many seconds without a heartbeat, observed at every tick."""
    for _ in range(round(seconds / TICK_SECONDS)):
        pulse.observe(pulse.beats, TICK_SECONDS)
    return pulse


def test_process_that_is_busy_for_two_seconds_is_responsive() -> None:
    assert silent(Pulse(7), 2).is_responsive


def test_process_without_heartbeats_is_unresponsive_until_its_next_one() -> None:
    pulse = silent(Pulse(7), UNRESPONSIVE_SECONDS)
    seen = [pulse.is_responsive]
    pulse.observe(8, TICK_SECONDS)
    seen.append(pulse.is_responsive)
    assert seen == [False, True]


def test_missing_heartbeats_are_detected_within_five_seconds() -> None:
    # A heartbeat just before a tick, with every tick late by one interval.
    assert UNRESPONSIVE_SECONDS + 3 * TICK_SECONDS <= 5


def test_pause_of_the_machine_does_not_count_as_missing_heartbeats() -> None:
    pulse = Pulse(7)
    pulse.observe(7, 3600.0)
    assert pulse.is_responsive
