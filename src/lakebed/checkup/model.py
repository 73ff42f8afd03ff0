"""What a check finds: steps, how each came out, and the report of all."""

from __future__ import annotations

from collections.abc import Mapping
from dataclasses import dataclass
from enum import StrEnum
from typing import Final


class StepName(StrEnum):
    """The steps, in the order in which they are tried."""

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
    # A store refuses what is signed by a wrong clock, whoever signs it: to try would only blame the keys.
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
"""What has to be well before a step can tell anything."""


class StepOutcome(StrEnum):
    """How a step came out."""

    PASSED = "passed"
    FAILED = "failed"
    ABSENT = "absent"
    """The store has no such thing, and can be used without."""
    SKIPPED = "skipped"


@dataclass(frozen=True, slots=True)
class StepFinding:
    """What a step that ran to its end found."""

    found: str
    """In a few words, for the table."""
    outcome: StepOutcome = StepOutcome.PASSED
    why: str = ""
    advice: str = ""


class StepFailed(Exception):
    """A step that failed and knows why, in words for whoever reads the report. Never leaves the check."""

    def __init__(self, why: str, advice: str) -> None:
        super().__init__(why)
        self.why = why
        self.advice = advice


@dataclass(frozen=True, slots=True)
class StepResult:
    """A step that was tried, or passed over."""

    step: StepName
    outcome: StepOutcome
    seconds: float
    found: str
    why: str = ""
    """What went wrong, or what follows from it."""
    advice: str = ""
    """What to do next."""


@dataclass(frozen=True, slots=True)
class CheckReport:
    """All steps, and what the check could not take away again."""

    endpoint: str
    bucket: str
    results: tuple[StepResult, ...]
    left_behind: tuple[str, ...] = ()

    @property
    def passed(self) -> bool:
        """Whether nothing failed, and nothing is left behind."""
        return not self.left_behind and all(result.outcome is not StepOutcome.FAILED for result in self.results)


def missing_prerequisite(step: StepName, so_far: Mapping[StepName, StepOutcome]) -> StepName | None:
    """The step because of which this one can tell nothing; None if it can be tried.

    What was passed over for another reason, such as TLS of a plain endpoint, is not lacking. Keys of an STS that there
    is not are: nothing can be tried with them.
    """
    for needed in NEEDS.get(step, ()):
        outcome = so_far[needed]
        if outcome is StepOutcome.FAILED:
            return needed
        if outcome is not StepOutcome.PASSED:
            deeper = missing_prerequisite(needed, so_far)
            if deeper is not None or needed is StepName.STS:
                return deeper or needed
    return None
