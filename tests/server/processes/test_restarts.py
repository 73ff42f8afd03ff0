from __future__ import annotations

import pytest

from lakebed.core.errors import Corrupted, Unavailable
from lakebed.server.processes.restarts import FAILED_STARTS, ExitHistory, StartHistory, pause_after_life


def failed(starts: StartHistory, times: int, failure: Unavailable | Corrupted | None = None) -> StartHistory:
    for _ in range(times):
        starts.fail(failure)
    return starts


def test_pauses_grow_with_every_failed_start_to_a_bound() -> None:
    starts, pauses = StartHistory(takes_connections=False), []
    for _ in range(8):
        starts.fail(None)
        pauses.append(starts.pause_seconds)
    assert pauses == [0.5, 1.0, 2.0, 4.0, 8.0, 10.0, 10.0, 10.0]
    assert failed(starts, 5000).pause_seconds == 10.0


def test_one_that_is_ready_begins_the_pauses_anew() -> None:
    starts = failed(StartHistory(takes_connections=False), 4)
    starts.begin()
    starts.fail(None)
    assert starts.pause_seconds == 0.5


def test_who_lived_long_is_replaced_at_once_and_who_did_not_after_a_pause() -> None:
    assert (pause_after_life(0.1), pause_after_life(60)) == (0.5, 0.0)


@pytest.mark.parametrize("failure", [None, Corrupted("it is damaged")])
def test_a_role_that_never_began_is_given_up(failure: Corrupted | None) -> None:
    starts = failed(StartHistory(takes_connections=False), FAILED_STARTS - 1, failure)
    assert not starts.is_hopeless(others_serve=True)
    starts.fail(failure)
    assert starts.is_hopeless(others_serve=True)


def test_a_role_that_waits_for_what_may_pass_is_neither_given_up_nor_waited_for() -> None:
    starts = failed(StartHistory(takes_connections=False), 100, Unavailable("the store is away"))
    assert starts.is_settled
    assert not starts.is_hopeless(others_serve=True)


def test_a_role_that_once_began_is_tried_for_ever() -> None:
    starts = StartHistory(takes_connections=False)
    starts.begin()
    assert not failed(starts, 100).is_hopeless(others_serve=True)


@pytest.mark.parametrize("failure", [None, Unavailable("the store is away")])
def test_workers_are_given_up_when_none_serves(failure: Unavailable | None) -> None:
    starts = StartHistory(takes_connections=True)
    starts.begin()
    failed(starts, FAILED_STARTS, failure)
    assert starts.is_hopeless(others_serve=False)
    assert not starts.is_hopeless(others_serve=True)


def test_a_role_is_waited_for_until_it_has_begun() -> None:
    starts = StartHistory(takes_connections=False)
    assert not starts.is_settled
    starts.fail(None)
    assert not starts.is_settled
    starts.begin()
    assert starts.is_settled


def test_three_ends_within_a_minute_are_a_loop_until_the_minute_is_over() -> None:
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
