from __future__ import annotations

import pytest

from lakebed.core.errors import Corrupted, Unavailable
from lakebed.server.processes.restarts import FAILED_STARTS, ExitHistory, StartHistory, pause_after_life


def failed(starts: StartHistory, times: int, failure: Unavailable | Corrupted | None = None) -> StartHistory:
    for _ in range(times):
        starts.fail(failure)
    return starts


def test_pause_grows_with_each_failed_start_up_to_a_limit() -> None:
    starts, pauses = StartHistory(takes_connections=False), []
    for _ in range(8):
        starts.fail(None)
        pauses.append(starts.pause_seconds)
    assert pauses == [0.5, 1.0, 2.0, 4.0, 8.0, 10.0, 10.0, 10.0]
    assert failed(starts, 5000).pause_seconds == 10.0


def test_ready_process_resets_the_pause() -> None:
    starts = failed(StartHistory(takes_connections=False), 4)
    starts.begin()
    starts.fail(None)
    assert starts.pause_seconds == 0.5


def test_process_is_restarted_immediately_only_after_a_long_run() -> None:
    assert (pause_after_life(0.1), pause_after_life(60)) == (0.5, 0.0)


@pytest.mark.parametrize("failure", [None, Corrupted("it is damaged")])
def test_role_that_never_started_is_given_up(failure: Corrupted | None) -> None:
    starts = failed(StartHistory(takes_connections=False), FAILED_STARTS - 1, failure)
    assert not starts.is_hopeless(others_serve=True)
    starts.fail(failure)
    assert starts.is_hopeless(others_serve=True)


def test_role_with_temporary_errors_is_neither_given_up_nor_awaited() -> None:
    starts = failed(StartHistory(takes_connections=False), 100, Unavailable("the store is away"))
    assert starts.is_settled
    assert not starts.is_hopeless(others_serve=True)


def test_role_that_once_started_is_retried_forever() -> None:
    starts = StartHistory(takes_connections=False)
    starts.begin()
    assert not failed(starts, 100).is_hopeless(others_serve=True)


@pytest.mark.parametrize("failure", [None, Unavailable("the store is away")])
def test_workers_are_given_up_if_none_serves(failure: Unavailable | None) -> None:
    starts = StartHistory(takes_connections=True)
    starts.begin()
    failed(starts, FAILED_STARTS, failure)
    assert starts.is_hopeless(others_serve=False)
    assert not starts.is_hopeless(others_serve=True)


def test_role_is_awaited_until_it_has_started() -> None:
    starts = StartHistory(takes_connections=False)
    assert not starts.is_settled
    starts.fail(None)
    assert not starts.is_settled
    starts.begin()
    assert starts.is_settled


def test_three_exits_within_a_minute_are_a_restart_loop_until_the_minute_is_over() -> None:
    deaths = ExitHistory()
    for now in (0.0, 10.0):
        deaths.add(now)
    assert not deaths.is_loop(10)
    deaths.add(20)
    assert deaths.is_loop(20)
    assert deaths.is_loop(59)
    assert not deaths.is_loop(61)
    deaths.add(65)
    assert deaths.is_loop(65)
