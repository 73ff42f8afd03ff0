"""Claims about this build. A claim requires that all its tests ran and passed."""

from __future__ import annotations

from dataclasses import dataclass
from enum import StrEnum
from typing import Any

from .evidence import EvidenceSummary


class ClaimStatus(StrEnum):
    """Status of a claim."""

    CLAIMED = "claimed"
    NOT_CLAIMED = "not-claimed"
    """A test did not run, or there is none."""


@dataclass(frozen=True, slots=True)
class FeatureClaim:
    """A claim. All tests of its selectors must have passed; without selectors it is untested and not claimed."""

    name: str
    selectors: tuple[str, ...] = ()
    note: str = ""
    """The implementation or, for a claim that is not made, the limitation."""


@dataclass(frozen=True, slots=True)
class Verdict:
    """The status of a claim, with its tests."""

    claim: FeatureClaim
    standing: ClaimStatus
    tests: tuple[str, ...] = ()
    """Selectors of passed tests, if claimed."""
    lacks: tuple[str, ...] = ()
    """Skipped tests and selectors without results, if not claimed."""

    @property
    def is_claimed(self) -> bool:
        """Whether the status is CLAIMED."""
        return self.standing is ClaimStatus.CLAIMED

    def described(self) -> dict[str, Any]:  # Any: JSON
        """The JSON of reports, without the name."""
        entry: dict[str, Any] = {"status": self.standing.value, "tests": list(self.tests)}  # Any: JSON
        if self.claim.note:
            entry["note"] = self.claim.note
        if self.lacks:
            entry["lacks"] = list(self.lacks)
        return entry


def judge(claim: FeatureClaim, evidence: EvidenceSummary) -> Verdict:
    """Judge a claim by the test results."""
    found = {selector: evidence.result(selector) for selector in claim.selectors}
    absent = {selector for selector, outcome in found.items() if outcome is None}
    skipped = {test for outcome in found.values() if outcome is not None for test in outcome.skipped}
    if not found or absent or skipped:
        return Verdict(claim, ClaimStatus.NOT_CLAIMED, lacks=tuple(sorted(absent | skipped)))
    return Verdict(claim, ClaimStatus.CLAIMED, tests=tuple(sorted(found)))


def judge_client(client: str, evidence: EvidenceSummary) -> ClaimStatus:
    """Judge a client: claimed if any of its tests passed. Skipped tests are counted in the reports."""
    return ClaimStatus.CLAIMED if evidence.of_client(client).has_passed else ClaimStatus.NOT_CLAIMED
