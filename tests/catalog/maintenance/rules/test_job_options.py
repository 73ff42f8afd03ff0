from __future__ import annotations

from typing import Any

import pytest

from lakebed.catalog.maintenance.rules.job_options import JOB_OPTIONS, check_options
from lakebed.core.errors import InvalidInput
from lakebed.core.jobs import JobKind
from lakebed.pipeline.jobs import find_job


@pytest.mark.parametrize("job", JobKind)
def test_task_options_are_the_options_of_the_job(job: JobKind) -> None:
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
def test_unknown_options_are_rejected_by_name(job: JobKind, given: dict[str, Any], argument: str) -> None:
    with pytest.raises(InvalidInput, match=argument) as refused:
        check_options(job, given)
    assert refused.value.argument == argument


def test_options_are_parsed_to_the_types_of_the_job() -> None:
    assert check_options(JobKind.VERIFY, {"rows": "true"}) == {"rows": True}
    assert check_options(JobKind.COMPACT, {"zorder-columns": "a, b"}) == {"zorder-columns": ["a", "b"]}
