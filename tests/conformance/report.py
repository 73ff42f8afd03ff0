"""The results of a run: counts by family for the terminal, and a page of the documentation."""

from __future__ import annotations

from collections import Counter
from collections.abc import Iterable, Sequence
from dataclasses import dataclass
from itertools import groupby
from typing import Final

from tests.clients.iceberg.kit.expectations import section as catalog_section
from tests.fixtures.versitygw import VERSION, Run

from .expectations import Expectations, Kind, KnownFailure

TITLES: Final = {
    Kind.GAP: "What Lakebed does not support",
    Kind.CHOICE: "Where Lakebed differs on purpose",
    Kind.UNSURE: "Where the suite and Lakebed interpret S3 differently, without documentation that decides it",
    Kind.S3: "Where the suite contradicts S3's documentation",
}


@dataclass(frozen=True, slots=True)
class FamilyCount:
    """The results of one family."""

    name: str
    passed: int
    failed: int
    not_s3: int
    """Failed tests that contradict S3's documentation."""

    @property
    def run(self) -> int:
        return self.passed + self.failed


def count_families(expectations: Expectations, runs: Iterable[Run]) -> list[FamilyCount]:
    """The families with a test in this run, in order."""
    passed: Counter[str] = Counter()
    failed: Counter[str] = Counter()
    not_s3: Counter[str] = Counter()
    for run in runs:
        family = expectations.family(run.name)
        (passed if run.passed else failed)[family] += 1
        known = expectations.failures.get(run.name)
        if not run.passed and known is not None and known.kind is Kind.S3:
            not_s3[family] += 1
    return [
        FamilyCount(name, passed[name], failed[name], not_s3[name])
        for name in expectations.families
        if passed[name] or failed[name]
    ]


def total(counts: Iterable[FamilyCount]) -> FamilyCount:
    """The sum of all families."""
    all_counts = list(counts)
    return FamilyCount(
        "all",
        sum(count.passed for count in all_counts),
        sum(count.failed for count in all_counts),
        sum(count.not_s3 for count in all_counts),
    )


def table(counts: Sequence[FamilyCount], excluded: int) -> str:
    """Format the counts for the terminal."""
    lines = [f"{'family':36} {'run':>5} {'passed':>7} {'failed':>7}"]
    lines += [f"{count.name:36} {count.run:5} {count.passed:7} {count.failed:7}" for count in (*counts, total(counts))]
    return "\n".join([*lines, f"{'excluded':36} {excluded:5}"])


def page(expectations: Expectations, names: Iterable[str], runs: Sequence[Run]) -> str:
    """Format the page: counts by family, each failure with its reason, and excluded tests."""
    counts = count_families(expectations, runs)
    summary = total(counts)
    relevant = summary.run - summary.not_s3
    excluded = Counter(filter(None, map(expectations.exclusion, names)))
    lines = [
        "# S3 conformance",
        "",
        f"The integration tests of [versitygw](https://github.com/versity/versitygw) {VERSION}, run against a",
        "Lakebed server. `pytest -m heavy tests/conformance` runs them and writes this page. It fails if a test fails",
        "that is not listed here, or if a listed one passes.",
        "",
        f"Of {summary.run} tests, {summary.passed} pass: {summary.passed / summary.run:.1%}. Without the"
        f" {summary.not_s3} that contradict S3's documentation it is {summary.passed / relevant:.1%} of {relevant}.",
        "The suite was not run against AWS: the behaviour of S3 is taken from its documentation, the wording of errors",
        "from the suite.",
        "",
        "| family | run | passed | failed | of these, contradict S3 |",
        "|---|--:|--:|--:|--:|",
        *(f"| {c.name} | {c.run} | {c.passed} | {c.failed} | {c.not_s3} |" for c in counts),
        f"| **all** | {summary.run} | {summary.passed} | {summary.failed} | {summary.not_s3} |",
    ]
    failed = {run.name for run in runs if not run.passed}
    for kind, title in TITLES.items():
        known = [(name, expectations.failures[name]) for name in sorted(failed & expectations.failures.keys())]
        lines += _section(title, [(name, why) for name, why in known if why.kind is kind])
    lines += ["", "## Excluded tests", "", "| tests | reason |", "|--:|---|"]
    lines += [f"| {number} | {reason} |" for reason, number in excluded.most_common()]
    return "\n".join([*lines, "", *catalog_section(), ""])


def _section(title: str, failures: list[tuple[str, KnownFailure]]) -> list[str]:
    if not failures:
        return []
    lines = ["", f"## {title}", ""]
    ordered = sorted(failures, key=lambda failure: (failure[1].reason, failure[0]))
    for reason, group in groupby(ordered, key=lambda failure: failure[1].reason):
        lines.append(f"- {reason[0].upper()}{reason[1:]}: {', '.join(f'`{name}`' for name, _ in group)}")
    return lines
