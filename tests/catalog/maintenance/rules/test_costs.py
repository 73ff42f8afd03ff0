from __future__ import annotations

import pytest
from hypothesis import given
from hypothesis import strategies as st

from lakebed.catalog.maintenance.rules.costs import BYTES_PER_SECOND, estimate_cost, measured_speed, smoothed_speed
from lakebed.core.jobs import JobKind


def test_every_job_has_a_default_speed() -> None:
    assert set(BYTES_PER_SECOND) == set(JobKind)


def test_estimate_uses_the_measured_speed() -> None:
    guessed = estimate_cost(JobKind.COMPACT, 10, 320 * 1024 * 1024, {})
    assert (guessed.input_files, guessed.input_bytes, guessed.estimated_seconds) == (10, 320 * 1024 * 1024, 12.0)
    measured = estimate_cost(JobKind.COMPACT, 10, 320 * 1024 * 1024, {JobKind.COMPACT: 320 * 1024 * 1024})
    assert measured.estimated_seconds == 3.0


@pytest.mark.parametrize(("size", "seconds"), [(0, 10.0), (-5, 10.0), (1_000_000, 0.4)])
def test_too_short_runs_are_not_measured(size: int, seconds: float) -> None:
    assert measured_speed(size, seconds) is None


def test_speed_is_a_moving_average() -> None:
    assert measured_speed(1000, 10.0) == 100
    assert smoothed_speed(None, 100) == 100
    assert smoothed_speed(1000, 0) == 700


@given(
    st.sampled_from(JobKind),
    st.integers(0, 10**9),
    st.integers(0, 2**60),
    st.one_of(st.none(), st.integers(0, 2**50)),
)
def test_estimate_includes_the_startup_cost(job: JobKind, files: int, size: int, speed: int | None) -> None:
    cost = estimate_cost(job, files, size, {} if speed is None else {job: speed})
    assert cost.estimated_seconds >= 2.0
    assert cost.estimated_seconds <= estimate_cost(job, files, size + 10**9, {job: 1}).estimated_seconds
