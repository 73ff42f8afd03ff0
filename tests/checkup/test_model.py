from __future__ import annotations

import pytest
from hypothesis import given
from hypothesis import strategies as st

from lakebed.checkup.model import NEEDS, CheckReport, StepName, StepOutcome, StepResult, missing_prerequisite

WELL = dict.fromkeys(StepName, StepOutcome.PASSED)


def test_whatever_a_step_needs_is_tried_before_it() -> None:
    order = list(StepName)
    for step, needed in NEEDS.items():
        assert all(order.index(one) < order.index(step) for one in needed)


def test_nothing_is_lacking_where_all_is_well() -> None:
    assert [missing_prerequisite(step, WELL) for step in StepName] == [None] * len(StepName)


@given(st.dictionaries(st.sampled_from(StepName), st.sampled_from(StepOutcome)))
def test_the_first_failure_on_the_way_is_what_is_named(changed: dict[StepName, StepOutcome]) -> None:
    """Outcomes as a run would have them: a step that cannot be tried is skipped."""
    outcomes: dict[StepName, StepOutcome] = {}
    for step in StepName:
        named = missing_prerequisite(step, outcomes)
        if named is not None:
            assert outcomes[named] is StepOutcome.FAILED or named is StepName.STS
            outcomes[step] = StepOutcome.SKIPPED
        else:
            outcomes[step] = changed.get(step, StepOutcome.PASSED)


def test_plain_http_is_no_hindrance() -> None:
    assert missing_prerequisite(StepName.CLOCK, WELL | {StepName.TLS: StepOutcome.SKIPPED}) is None


@pytest.mark.parametrize("outcome", [StepOutcome.ABSENT, StepOutcome.SKIPPED, StepOutcome.FAILED])
def test_keys_that_there_are_not_are_not_tried_out_of_scope(outcome: StepOutcome) -> None:
    assert missing_prerequisite(StepName.SCOPE, WELL | {StepName.STS: outcome}) is StepName.STS


@pytest.mark.parametrize(
    ("outcome", "left", "passed"),
    [
        (StepOutcome.PASSED, (), True),
        (StepOutcome.ABSENT, (), True),
        (StepOutcome.SKIPPED, (), True),
        (StepOutcome.FAILED, (), False),
        (StepOutcome.PASSED, ("bucket/key",), False),
    ],
)
def test_a_report_is_well_if_nothing_failed_and_nothing_is_left(
    outcome: StepOutcome, left: tuple[str, ...], passed: bool
) -> None:
    assert CheckReport("http://h", "b", (StepResult(StepName.PUT, outcome, 0.1, ""),), left).passed is passed
