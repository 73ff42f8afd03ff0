from __future__ import annotations

import pytest

from tests.clients.iceberg.kit.expectations import section as catalog_section
from tests.fixtures.versitygw import Run

from .expectations import Expectations, Kind, UnknownTest, load
from .report import count_families, page, table, total
from .test_versitygw import PAGE

DOCUMENT = {
    "excluded": [{"reason": "elsewhere", "names": ["Iam_.*"]}],
    "family": [{"name": "put", "names": ["Put_.*"]}, {"name": "rest", "names": ["Get_.*", "Put.*"]}],
    "failure": [{"kind": "s3", "reason": "it is so", "names": ["Put_b"]}],
}
RUNS = [Run("Put_a", True, "", 0.1), Run("Put_b", False, "FAIL", 0.1), Run("Get_a", False, "FAIL", 0.1)]


def test_first_family_that_matches_the_whole_name_contains_the_test() -> None:
    expectations = Expectations(DOCUMENT)
    assert expectations.family("Put_a") == "put"
    assert expectations.family("Puta") == "rest"
    assert expectations.exclusion("Iam_a") == "elsewhere"
    assert expectations.exclusion("NoIam_a") is None


def test_test_without_a_family_is_reported() -> None:
    with pytest.raises(UnknownTest, match="Head_a"):
        Expectations(DOCUMENT).chosen(["Put_b", "Head_a"])


def test_known_failure_of_a_missing_test_is_reported() -> None:
    with pytest.raises(ValueError, match="Put_b"):
        Expectations(DOCUMENT).chosen(["Put_a"])


def test_failure_listed_twice_is_rejected() -> None:
    with pytest.raises(ValueError, match="twice"):
        Expectations({**DOCUMENT, "failure": DOCUMENT["failure"] * 2})


def test_counts_are_by_family_and_in_total() -> None:
    counts = count_families(Expectations(DOCUMENT), RUNS)
    assert [(count.name, count.passed, count.failed, count.not_s3) for count in counts] == [
        ("put", 1, 1, 1),
        ("rest", 0, 1, 0),
    ]
    assert total(counts).run == 3
    assert "put" in table(counts, 7)


def test_page_gives_each_known_failure_its_reason() -> None:
    written = page(Expectations(DOCUMENT), ["Put_a", "Put_b", "Get_a", "Iam_a"], RUNS)
    assert "Of 3 tests, 1 pass: 33.3%. Without the 1 that contradict S3's documentation it is 50.0% of 2." in written
    assert "- It is so: `Put_b`" in written
    assert "| 1 | elsewhere |" in written


def test_documented_page_has_the_section_of_the_catalog() -> None:
    assert PAGE.read_text().endswith("\n".join(["", *catalog_section(), ""]))


def test_stored_expectations_are_valid() -> None:
    expectations = load()
    assert len(expectations.families) == len(set(expectations.families))
    for name, known in expectations.failures.items():
        assert expectations.exclusion(name) is None, name
        assert expectations.family(name)
        assert known.reason
        assert known.kind in Kind
