from __future__ import annotations

import fnmatch
import subprocess
import sys
from pathlib import Path

import pytest

from lakebed.conform.claims import ClaimStatus, FeatureClaim, judge, judge_client
from tests.fixtures.recorded_evidence import Status, selectors, selects

from .records import NOTHING, evidence, record

ROOT = Path(__file__).parents[2]
CLAIM = FeatureClaim("it works", ("tests/a.py", "tests/b.py::test_b"))


def test_claim_is_made_when_all_tests_of_its_selectors_passed() -> None:
    verdict = judge(CLAIM, evidence(record("tests/a.py::test_a"), record("tests/b.py::test_b"), named=CLAIM.selectors))
    assert verdict.is_claimed
    assert verdict.tests == CLAIM.selectors
    assert verdict.described() == {"status": "claimed", "tests": list(verdict.tests)}


def test_nothing_is_claimed_without_evidence() -> None:
    assert not judge(CLAIM, NOTHING).is_claimed
    assert judge_client("spark", NOTHING) is ClaimStatus.NOT_CLAIMED


def test_claim_without_tests_is_never_made() -> None:
    verdict = judge(FeatureClaim("hope", (), "soon"), evidence(record("tests/a.py::test_a"), named=CLAIM.selectors))
    assert verdict.described() == {"status": "not-claimed", "tests": [], "note": "soon"}


@pytest.mark.parametrize(
    ("more", "lacks"),
    [
        ([], "tests/b.py::test_b"),
        ([("tests/b.py::test_b", "skipped")], "tests/b.py::test_b"),
        ([("tests/b.py::test_b", "passed"), ("tests/a.py::test_other", "skipped")], "tests/a.py::test_other"),
    ],
    ids=["absent", "skipped", "skipped beside one that passed"],
)
def test_claim_with_a_test_that_did_not_run_is_not_made(more: list[tuple[str, Status]], lacks: str) -> None:
    known = evidence(record("tests/a.py::test_a"), *(record(*one) for one in more), named=CLAIM.selectors)
    verdict = judge(CLAIM, known)
    assert not verdict.is_claimed
    assert verdict.tests == ()
    assert verdict.lacks == (lacks,)
    assert verdict.described()["lacks"] == [lacks]


@pytest.mark.parametrize(
    ("statuses", "standing"),
    [(["passed", "skipped"], ClaimStatus.CLAIMED), (["skipped"], ClaimStatus.NOT_CLAIMED)],
)
def test_client_is_claimed_if_any_test_passed(statuses: list[Status], standing: ClaimStatus) -> None:
    known = evidence(*(record(f"tests/a.py::test_{n}", one, client="duckdb") for n, one in enumerate(statuses)))
    assert judge_client("duckdb", known) is standing


@pytest.fixture(scope="module")
def collected() -> list[str]:
    """The tests that pytest collects from the files of selectors."""
    files = sorted(path.relative_to(ROOT).as_posix() for path in (ROOT / "tests").rglob("test_*.py"))
    meant = {selector.partition("::")[0] for selector in selectors()}
    named = [file for file in files if any(fnmatch.fnmatchcase(file, one) for one in meant)]
    command = [sys.executable, "-m", "pytest", "--collect-only", "-q", "-p", "no:cacheprovider", *named]
    done = subprocess.run(command, cwd=ROOT, capture_output=True, text=True, check=False)
    assert done.returncode == 0, done.stdout[-4000:] + done.stderr
    return [line.partition("[")[0] for line in done.stdout.splitlines() if "::" in line]


@pytest.mark.slow
@pytest.mark.parametrize("selector", sorted(selectors()))
def test_selector_matches_a_collected_test(selector: str, collected: list[str]) -> None:
    assert any(selects(selector, test) for test in collected)
