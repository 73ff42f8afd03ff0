"""Steps of a storage check, their outcomes, and the report."""

from __future__ import annotations

from collections.abc import Mapping
from dataclasses import dataclass
from enum import StrEnum
from typing import Final


class StepName(StrEnum):
    """The steps, in order."""

    DNS = "dns"
    TCP = "tcp"
    TLS = "tls"
    CLOCK = "clock"
    CREDENTIALS = "credentials"
    BUCKET = "bucket"
    STS = "sts"
    PUT = "put"
    CONDITIONAL_PUT = "conditional put"
    MULTIPART = "multipart"
    LIST = "list"
    RANGE_GET = "range get"
    SCOPE = "out of scope"
    VENDED = "vended keys"
    DELETE = "delete"


NEEDS: Final[Mapping[StepName, tuple[StepName, ...]]] = {
    StepName.TCP: (StepName.DNS,),
    StepName.TLS: (StepName.TCP,),
    StepName.CLOCK: (StepName.TLS,),
    # A store rejects every signature of a wrong clock: trying would blame the credentials.
    StepName.CREDENTIALS: (StepName.CLOCK,),
    StepName.BUCKET: (StepName.CREDENTIALS,),
    StepName.STS: (StepName.BUCKET,),
    StepName.PUT: (StepName.BUCKET,),
    StepName.CONDITIONAL_PUT: (StepName.PUT,),
    StepName.MULTIPART: (StepName.PUT,),
    StepName.LIST: (StepName.BUCKET,),
    StepName.RANGE_GET: (StepName.PUT,),
    StepName.SCOPE: (StepName.STS, StepName.PUT),
    StepName.VENDED: (StepName.BUCKET,),
    StepName.DELETE: (StepName.PUT,),
}
"""The steps that must pass before a step is meaningful."""


class StepOutcome(StrEnum):
    """The outcome of a step."""

    PASSED = "passed"
    FAILED = "failed"
    ABSENT = "absent"
    """The store lacks an optional feature."""
    SKIPPED = "skipped"


@dataclass(frozen=True, slots=True)
class StepFinding:
    """The result of a step that completed."""

    found: str
    """A short text for the table."""
    outcome: StepOutcome = StepOutcome.PASSED
    why: str = ""
    advice: str = ""


class StepFailed(Exception):
    """A step failed for a known reason. Caught inside the check."""

    def __init__(self, why: str, advice: str) -> None:
        super().__init__(why)
        self.why = why
        self.advice = advice


@dataclass(frozen=True, slots=True)
class StepResult:
    """A step that ran, or was skipped."""

    step: StepName
    outcome: StepOutcome
    seconds: float
    found: str
    why: str = ""
    """The reason of a failure, or a consequence."""
    advice: str = ""
    """The next step for the operator."""


@dataclass(frozen=True, slots=True)
class CheckReport:
    """All steps, and the names of objects that could not be removed."""

    endpoint: str
    bucket: str
    results: tuple[StepResult, ...]
    left_behind: tuple[str, ...] = ()

    @property
    def passed(self) -> bool:
        """Whether no step failed and no object is left behind."""
        return not self.left_behind and all(result.outcome is not StepOutcome.FAILED for result in self.results)


def missing_prerequisite(step: StepName, outcomes: Mapping[StepName, StepOutcome]) -> StepName | None:
    """The step without which this one is meaningless; None if it can run.

    Steps skipped for another reason, such as TLS of a plain endpoint, are not missing. An absent STS is: without its
    credentials nothing can be tested.
    """
    for needed in NEEDS.get(step, ()):
        outcome = outcomes[needed]
        if outcome is StepOutcome.FAILED:
            return needed
        if outcome is not StepOutcome.PASSED:
            deeper = missing_prerequisite(needed, outcomes)
            if deeper is not None or needed is StepName.STS:
                return deeper or needed
    return None
