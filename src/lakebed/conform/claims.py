"""A claim and the tests that it needs: it is made only if they ran and passed."""

from __future__ import annotations

from dataclasses import dataclass
from enum import StrEnum
from typing import Any

from .evidence import EvidenceSummary


class ClaimStatus(StrEnum):
    """What may be said of a claim."""

    CLAIMED = "claimed"
    NOT_CLAIMED = "not-claimed"
    """A test of it did not run, or there is none."""


@dataclass(frozen=True, slots=True)
class FeatureClaim:
    """Something said of this build. All that its selectors mean must have passed; none means nobody tests it."""

    name: str
    selectors: tuple[str, ...] = ()
    note: str = ""
    """How it is done or, of one that is not made, how things are instead."""


@dataclass(frozen=True, slots=True)
class Verdict:
    """A claim, judged."""

    claim: FeatureClaim
    standing: ClaimStatus
    tests: tuple[str, ...] = ()
    """Selectors of the tests that passed, of a claim that is made."""
    lacks: tuple[str, ...] = ()
    """Of one that is not: tests that were skipped, and selectors of tests that did not run."""

    @property
    def is_claimed(self) -> bool:
        """Whether the claim is made."""
        return self.standing is ClaimStatus.CLAIMED

    def described(self) -> dict[str, Any]:  # Any: JSON
        """As it is printed, but for its name."""
        entry: dict[str, Any] = {"status": self.standing.value, "tests": list(self.tests)}  # Any: JSON
        if self.claim.note:
            entry["note"] = self.claim.note
        if self.lacks:
            entry["lacks"] = list(self.lacks)
        return entry


def judge(claim: FeatureClaim, evidence: EvidenceSummary) -> Verdict:
    """What the tests say of a claim."""
    found = {selector: evidence.result(selector) for selector in claim.selectors}
    absent = {selector for selector, outcome in found.items() if outcome is None}
    skipped = {test for outcome in found.values() if outcome is not None for test in outcome.skipped}
    if not found or absent or skipped:
        return Verdict(claim, ClaimStatus.NOT_CLAIMED, lacks=tuple(sorted(absent | skipped)))
    return Verdict(claim, ClaimStatus.CLAIMED, tests=tuple(sorted(found)))


def judge_client(client: str, evidence: EvidenceSummary) -> ClaimStatus:
    """What the tests say of a client as a whole. What it has no words for is skipped, and counted where it is shown."""
    return ClaimStatus.CLAIMED if evidence.of_client(client).has_passed else ClaimStatus.NOT_CLAIMED
