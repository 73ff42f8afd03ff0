"""Runs versitygw's S3 integration tests against Lakebed: all of them (heavy), or a sample of each family."""

from __future__ import annotations

import random
from collections.abc import Iterable
from itertools import groupby
from pathlib import Path

import pytest

from tests.fixtures.versitygw import Run, Suite

from .expectations import Expectations, load
from .lanes import run_all
from .report import count_families, page, table

PAGE = Path(__file__).parents[2] / "docs" / "conformance.md"
SAMPLE = 60
SEED = 20261115
"""Selects the sample; fixed, so that failures are reproducible."""

SLOW = frozenset({"GetObject_large_object"})


def surprises(expectations: Expectations, runs: Iterable[Run]) -> list[str]:
    """Unexpected results of a run."""
    found = []
    for run in runs:
        known = expectations.failures.get(run.name)
        if run.passed and known is not None:
            found.append(f"{run.name} passes now; remove it from the known failures ({known.reason})")
        elif not run.passed and known is None:
            found.append(f"{run.name} fails:\n{run.output[-2000:]}")
    return found


def sample(expectations: Expectations, chosen: list[str]) -> list[str]:
    """Some passing tests of each family, more of larger ones."""
    passing = [name for name in chosen if name not in expectations.failures and name not in SLOW]
    picked: list[str] = []
    by_family = sorted(passing, key=lambda name: (expectations.family(name), name))
    for _, group in groupby(by_family, key=expectations.family):
        names = list(group)
        share = max(1, round(len(names) * SAMPLE / len(passing)))
        picked += random.Random(SEED).sample(names, min(share, len(names)))
    return picked


@pytest.mark.integration
@pytest.mark.slow
def test_sample_of_each_family_passes(versitygw: Suite, tmp_path: Path) -> None:
    expectations = load()
    names = sample(expectations, expectations.chosen(versitygw.names()))
    runs = run_all(versitygw, names, tmp_path)
    assert len(runs) == len(names) >= SAMPLE // 2
    assert surprises(expectations, runs) == []


@pytest.mark.heavy
@pytest.mark.integration
def test_whole_suite_has_the_expected_results(
    versitygw: Suite, tmp_path: Path, capsys: pytest.CaptureFixture[str]
) -> None:
    expectations = load()
    names = versitygw.names()
    chosen = expectations.chosen(names)
    runs = run_all(versitygw, chosen, tmp_path)
    with capsys.disabled():
        print("\n" + table(count_families(expectations, runs), len(names) - len(chosen)))
    assert surprises(expectations, runs) == []
    PAGE.write_text(page(expectations, names, runs))
