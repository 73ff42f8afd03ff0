from __future__ import annotations

import fnmatch
from collections.abc import Callable
from pathlib import Path

import msgspec
import pytest
from hypothesis import given
from hypothesis import strategies as st

from lakebed.conform.evidence import (
    FILE,
    SCHEMA,
    ClientResults,
    EvidenceSummary,
    ScenarioCounts,
    SelectorResult,
    packaged_evidence,
    parse_summary,
    source_digest,
)
from lakebed.core.errors import Corrupted
from tests.fixtures.recorded_evidence import OWN_TESTS, parse_document, selected, selects, summarize

from .records import NOTHING, document, evidence, record

RESULTS = Path(__file__).parent / "evidence.json"


@pytest.mark.parametrize(
    ("selector", "is_meant"),
    [
        ("tests/a/test_b.py", True),
        ("tests/a/test_b.py::test_c", True),
        ("tests/a/*.py", True),
        ("tests/a/test_*.py::*_c", True),
        ("tests/a/test_b.py::test_d", False),
        ("tests/a", False),
        ("tests/a/test_bb.py", False),
        ("", False),
    ],
)
def test_selector_matches_a_file_or_a_test(selector: str, is_meant: bool) -> None:
    assert selects(selector, "tests/a/test_b.py::test_c") is is_meant
    assert selected(["tests/none.py", selector], "tests/a/test_b.py::test_c") is is_meant


def test_document_round_trips() -> None:
    made = document(record("tests/a.py::test_a"), record("tests/b.py::test_b", "skipped", client="duckdb"))
    assert parse_document(msgspec.json.encode(made)) == made
    summary = summarize(made, {"tests/a.py", "tests/b.py"})
    assert parse_summary(msgspec.json.encode(summary)).summary == summary


@given(st.binary())
def test_malformed_data_is_rejected(data: bytes) -> None:
    with pytest.raises(Corrupted):
        parse_summary(data)


@pytest.mark.parametrize("change", [{"schema": "other"}, {"schema_version": 2}])
def test_unknown_schemas_are_rejected(change: dict[str, object]) -> None:
    fields = {**msgspec.to_builtins(summarize(document(), ())), **change}
    with pytest.raises(Corrupted, match="schema"):
        parse_summary(msgspec.json.encode(fields))
    with pytest.raises(ValueError, match="schema"):
        parse_document(msgspec.json.encode({**msgspec.to_builtins(document()), **change}))


@pytest.mark.parametrize("status", ["failed", "believed"])
def test_status_other_than_passed_or_skipped_is_rejected(status: str) -> None:
    fields = msgspec.to_builtins(document(record("tests/a.py::test_a")))
    fields["records"][0]["status"] = status
    with pytest.raises(msgspec.ValidationError):
        parse_document(msgspec.json.encode(fields))


def test_results_are_found_by_client_and_selector() -> None:
    first, second = record("tests/a.py::test_a", client="spark"), record("tests/b.py::test_b")
    skipped = record("tests/b.py::test_c", "skipped")
    known = evidence(first, second, skipped, named=["tests/b.py", "tests/none.py"])
    assert known.clients == ["spark"]
    assert known.of_client("spark") == ClientResults(("tests/a.py",), {"all": ScenarioCounts(passed=1)})
    assert known.result("tests/b.py") == SelectorResult(1, ("tests/b.py::test_c",))
    assert known.result("tests/none.py") is None
    assert (known.versions_of("spark"), known.versions_of("trino")) == (["1.2.3"], [])
    assert NOTHING.versions_of("spark") == []
    assert not NOTHING.of_client("spark").has_passed
    assert NOTHING.result("tests/b.py") is None


@pytest.mark.parametrize("is_same", [True, False])
def test_evidence_reports_whether_it_matches_the_running_sources(is_same: bool) -> None:
    made = summarize(document(record("tests/a.py::test_a", client="spark")), ())
    if is_same:
        made = msgspec.structs.replace(made, source_digest=source_digest())
    assert EvidenceSummary(made).described() == {
        "recorded": True,
        "date_utc": "2026-01-31T12:00:00Z",
        "lakebed_version": "0.1",
        "is_of_these_sources": is_same,
        "client_versions": {"spark": "1.2.3"},
        "tests": 1,
    }
    assert NOTHING.described() == {"recorded": False}


def test_packaged_summary_matches_the_recorded_results() -> None:
    packaged = packaged_evidence().summary
    assert packaged is not None
    assert packaged.schema == SCHEMA
    recorded = parse_document(RESULTS.read_bytes())
    tests = [one.test for one in recorded.records]
    assert fnmatch.filter(tests, "tests/*.py::*") == tests
    assert (packaged.date_utc, packaged.source_digest, packaged.tests, packaged.client_versions) == (
        recorded.date_utc,
        recorded.source_digest,
        len(tests),
        recorded.client_versions,
    )
    of_clients = [one.status for one in recorded.records if one.client != OWN_TESTS]
    counts = [counts for results in packaged.clients.values() for counts in results.scenarios.values()]
    assert sum(one.passed for one in counts) == of_clients.count("passed")
    assert sum(one.skipped for one in counts) == of_clients.count("skipped")


@pytest.fixture
def package(tmp_path: Path) -> Path:
    root = tmp_path / "package"
    (root / "inner").mkdir(parents=True)
    (root / "a.py").write_text("a = 1\n")
    (root / "inner" / "b.sql").write_text("SELECT 1")
    return root


def _write(name: str, text: str) -> Callable[[Path], object]:
    return lambda root: (root / name).write_text(text)


@pytest.mark.parametrize(
    "change",
    [
        _write("a.py", "a = 2\n"),
        _write("c.py", ""),
        _write("inner/b.sql", "SELECT 2"),
        lambda root: (root / "a.py").rename(root / "b.py"),
        lambda root: (root / "a.py").unlink(),
    ],
    ids=["edited", "added", "other kind", "renamed", "removed"],
)
def test_source_change_changes_the_digest(package: Path, change: Callable[[Path], object]) -> None:
    before = source_digest(package)
    change(package)
    assert source_digest(package) != before


@pytest.mark.parametrize("name", [FILE, "a.pyc", "lanes.so"])
def test_generated_files_do_not_change_the_digest(package: Path, name: str) -> None:
    before = source_digest(package)
    (package / name).write_text("made")
    assert source_digest(package) == before


def test_digest_covers_this_package_by_default() -> None:
    assert source_digest() == source_digest(Path(__file__).parents[2] / "src" / "lakebed")
