from __future__ import annotations

import pytest
from hypothesis import given
from hypothesis import strategies as st

from lakebed.checkup.model import NEEDS, CheckReport, StepName, StepOutcome, StepResult, missing_prerequisite

PASSED = dict.fromkeys(StepName, StepOutcome.PASSED)


def test_required_steps_precede_a_step() -> None:
    order = list(StepName)
    for step, needed in NEEDS.items():
        assert all(order.index(one) < order.index(step) for one in needed)


def test_no_step_is_missing_if_all_passed() -> None:
    assert [missing_prerequisite(step, PASSED) for step in StepName] == [None] * len(StepName)


@given(st.dictionaries(st.sampled_from(StepName), st.sampled_from(StepOutcome)))
def test_first_failed_requirement_is_named(changed: dict[StepName, StepOutcome]) -> None:
    """Outcomes as in a run: steps without their prerequisites are skipped."""
    outcomes: dict[StepName, StepOutcome] = {}
    for step in StepName:
        named = missing_prerequisite(step, outcomes)
        if named is not None:
            assert outcomes[named] is StepOutcome.FAILED or named is StepName.STS
            outcomes[step] = StepOutcome.SKIPPED
        else:
            outcomes[step] = changed.get(step, StepOutcome.PASSED)


def test_absent_tls_does_not_block_steps() -> None:
    assert missing_prerequisite(StepName.CLOCK, PASSED | {StepName.TLS: StepOutcome.SKIPPED}) is None


@pytest.mark.parametrize("outcome", [StepOutcome.ABSENT, StepOutcome.SKIPPED, StepOutcome.FAILED])
def test_scope_step_is_skipped_without_sts(outcome: StepOutcome) -> None:
    assert missing_prerequisite(StepName.SCOPE, PASSED | {StepName.STS: outcome}) is StepName.STS


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
def test_report_passes_without_failures_and_leftovers(
    outcome: StepOutcome, left: tuple[str, ...], passed: bool
) -> None:
    assert CheckReport("http://h", "b", (StepResult(StepName.PUT, outcome, 0.1, ""),), left).passed is passed
