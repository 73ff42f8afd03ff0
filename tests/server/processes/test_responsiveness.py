from __future__ import annotations

from lakebed.server.processes.responsiveness import TICK_SECONDS, UNRESPONSIVE_SECONDS, Pulse


def silent(pulse: Pulse, seconds: float) -> Pulse:
    """The pulse after so much silence, looked at as often as it should be."""
    for _ in range(round(seconds / TICK_SECONDS)):
        pulse.observe(pulse.beats, TICK_SECONDS)
    return pulse


def test_a_process_that_is_busy_for_two_seconds_responds() -> None:
    assert silent(Pulse(7), 2).is_responsive


def test_a_process_that_is_silent_for_longer_does_not_respond_until_its_next_heartbeat() -> None:
    pulse = silent(Pulse(7), UNRESPONSIVE_SECONDS)
    seen = [pulse.is_responsive]
    pulse.observe(8, TICK_SECONDS)
    seen.append(pulse.is_responsive)
    assert seen == [False, True]


def test_silence_is_noticed_within_five_seconds() -> None:
    # A heartbeat just before a tick, ticks that are late by as much as they are apart.
    assert UNRESPONSIVE_SECONDS + 3 * TICK_SECONDS <= 5


def test_a_pause_of_the_whole_machine_is_no_silence_of_its_processes() -> None:
    pulse = Pulse(7)
    pulse.observe(7, 3600.0)
    assert pulse.is_responsive
