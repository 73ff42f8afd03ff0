from __future__ import annotations

import ast
from pathlib import Path

import pytest

from lakebed.conform.claims import Claim, Standing, judge, judge_client
from lakebed.conform.evidence import Status
from lakebed.conform.inventories import selectors

from .records import NOTHING, evidence, record

ROOT = Path(__file__).parents[2]
CLAIM = Claim("it works", ("tests/a.py", "tests/b.py::test_b"))


def test_claim_stands_when_every_selector_has_a_test_that_passed() -> None:
    verdict = judge(CLAIM, evidence(record("tests/a.py::test_a"), record("tests/b.py::test_b")))
    assert verdict.standing is Standing.SHOWN
    assert verdict.tests == ("tests/a.py::test_a", "tests/b.py::test_b")


def test_nothing_is_claimed_without_evidence() -> None:
    assert judge(CLAIM, NOTHING).standing is Standing.NOT_CLAIMED
    assert judge_client("spark", NOTHING) is Standing.NOT_CLAIMED


def test_claim_with_no_tests_is_never_made() -> None:
    assert judge(Claim("hope"), evidence(record("tests/a.py::test_a"))).standing is Standing.NOT_CLAIMED


@pytest.mark.parametrize("missing", ["absent", "skipped"])
def test_test_that_did_not_run_shows_nothing(missing: str) -> None:
    records = [record("tests/a.py::test_a")]
    if missing == "skipped":
        records.append(record("tests/b.py::test_b", "skipped"))
    verdict = judge(CLAIM, evidence(*records))
    assert verdict.standing is Standing.NOT_CLAIMED
    assert verdict.tests == ()


def test_one_failure_is_enough() -> None:
    known = evidence(record("tests/a.py::test_a"), record("tests/a.py::test_c", "failed"), record("tests/b.py::test_b"))
    verdict = judge(CLAIM, known)
    assert verdict.standing is Standing.FAILING
    assert verdict.tests == ("tests/a.py::test_c",)


@pytest.mark.parametrize(
    ("statuses", "standing"),
    [
        (["passed", "skipped"], Standing.SHOWN),
        (["skipped"], Standing.NOT_CLAIMED),
        (["passed", "failed"], Standing.FAILING),
    ],
)
def test_client_stands_when_nothing_of_it_failed(statuses: list[Status], standing: Standing) -> None:
    known = evidence(*(record(f"tests/a.py::test_{n}", one, client="duckdb") for n, one in enumerate(statuses)))
    assert judge_client("duckdb", known) is standing


@pytest.mark.parametrize("selector", sorted(one for one in selectors() if "::" in one and "*" not in one))
def test_test_that_a_claim_names_is_there(selector: str) -> None:
    file, _, name = selector.partition("::")
    tree = ast.parse((ROOT / file).read_text())
    names = {node.name for node in ast.walk(tree) if isinstance(node, ast.FunctionDef | ast.AsyncFunctionDef)}
    assert name in names
