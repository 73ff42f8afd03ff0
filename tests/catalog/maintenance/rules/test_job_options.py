from __future__ import annotations

from typing import Any

import pytest

from lakebed.catalog.maintenance.rules.job_options import JOB_OPTIONS, check_options
from lakebed.core.errors import InvalidInput
from lakebed.core.jobs import JobKind
from lakebed.pipeline.jobs import find_job


@pytest.mark.parametrize("job", JobKind)
def test_what_can_be_ordered_is_what_the_job_takes(job: JobKind) -> None:
    assert {option.name for option in find_job(job).options} == set(JOB_OPTIONS[job])


@pytest.mark.parametrize(
    ("job", "given", "argument"),
    [
        (JobKind.COMPACT, {"colour": "red"}, "colour"),
        (JobKind.COMPACT, {"min-input-files": "many"}, "min-input-files"),
        (JobKind.COMPACT, {"interval": 5}, "interval"),
        (JobKind.REWRITE_LAYOUT, {"where": "a = 1"}, "where"),
        (JobKind.VERIFY, {"rows": 3}, "rows"),
    ],
)
def test_options_that_a_job_does_not_take_are_refused_by_name(
    job: JobKind, given: dict[str, Any], argument: str
) -> None:
    with pytest.raises(InvalidInput, match=argument) as refused:
        check_options(job, given)
    assert refused.value.argument == argument


def test_options_are_read_as_the_job_takes_them() -> None:
    assert check_options(JobKind.VERIFY, {"rows": "true"}) == {"rows": True}
    assert check_options(JobKind.COMPACT, {"zorder-columns": "a, b"}) == {"zorder-columns": ["a", "b"]}
