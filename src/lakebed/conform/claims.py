"""A claim and the tests it needs: it is made only if they ran and passed."""

from __future__ import annotations

from collections.abc import Iterable
from dataclasses import dataclass
from enum import StrEnum
from typing import Any

from .evidence import Evidence, Record


class Standing(StrEnum):
    """What may be said of a claim."""

    SHOWN = "shown"
    FAILING = "failing"
    """A test of it failed in the recorded run."""
    NOT_CLAIMED = "not-claimed"
    """A test of it did not run, or there is none."""


@dataclass(frozen=True, slots=True)
class Claim:
    """Something said of this build. Every selector must find a test that passed; none means nobody tests it."""

    name: str
    selectors: tuple[str, ...] = ()


@dataclass(frozen=True, slots=True)
class Verdict:
    """A claim, judged."""

    claim: Claim
    standing: Standing
    tests: tuple[str, ...]
    """The tests that passed; for a failing claim, those that failed."""

    def described(self) -> dict[str, Any]:  # Any: JSON
        """As it is printed."""
        return {"claim": self.claim.name, "status": self.standing.value, "tests": list(self.tests)}


def judge(claim: Claim, evidence: Evidence) -> Verdict:
    """What the tests say of a claim."""
    found = [evidence.matching([selector]) for selector in claim.selectors]
    failed = _tests(record for records in found for record in records if record.status == "failed")
    if failed:
        return Verdict(claim, Standing.FAILING, failed)
    passed = [[record for record in records if record.status == "passed"] for records in found]
    if not passed or not all(passed):
        return Verdict(claim, Standing.NOT_CLAIMED, ())
    return Verdict(claim, Standing.SHOWN, _tests(record for records in passed for record in records))


def judge_client(client: str, evidence: Evidence) -> Standing:
    """What the tests say of a client as a whole."""
    statuses = {record.status for record in evidence.of_client(client)}
    if "failed" in statuses:
        return Standing.FAILING
    return Standing.SHOWN if "passed" in statuses else Standing.NOT_CLAIMED


def _tests(records: Iterable[Record]) -> tuple[str, ...]:
    return tuple(sorted({record.test for record in records}))
