"""The recorder of test results: what it keeps, and what it makes of it."""

from __future__ import annotations

from datetime import UTC, datetime
from pathlib import Path
from typing import Literal

import pytest

from lakebed.conform.evidence import parse_evidence
from tests.fixtures.evidence import Recorder, client_of, is_kept

PYICEBERG = "tests/clients/iceberg/test_pyiceberg_writing.py::test_a"

Outcome = Literal["passed", "failed", "skipped"]
When = Literal["setup", "call", "teardown"]


@pytest.fixture
def recorder(tmp_path: Path) -> Recorder:
    return Recorder(tmp_path / "evidence.json", tmp_path)


def report(test: str, outcome: Outcome, when: When = "call") -> pytest.TestReport:
    return pytest.TestReport(test, ("", None, ""), {}, outcome, None, when)


def became(recorder: Recorder) -> dict[str, str]:
    return {one.test: one.status for one in recorder.document(datetime(2026, 1, 31, tzinfo=UTC)).records}


@pytest.mark.parametrize(
    ("file", "client", "scenario"),
    [
        ("tests/clients/iceberg/test_pyiceberg_writing.py", "pyiceberg", "writing"),
        ("tests/clients/test_pyiceberg_vended_keys.py", "pyiceberg", "vended_keys"),
        ("tests/clients/iceberg/test_duckdb.py", "duckdb", "all"),
        ("tests/clients/test_mc.py", "lakebed", "clients/test_mc"),
        ("tests/tables/test_committing.py", "lakebed", "tables/test_committing"),
        ("tests/conform/test_live_run.py", "pyiceberg", "conform"),
    ],
)
def test_client_and_scenario_are_those_of_the_file(file: str, client: str, scenario: str) -> None:
    assert client_of(f"{file}::test_a") == (client, scenario)


@pytest.mark.parametrize(
    ("test", "kept"),
    [
        (PYICEBERG, True),
        ("tests/tables/test_committing.py::test_tables_change_all_or_none", True),
        ("tests/core/test_ids.py::test_a", False),
        ("tests/clients/test_mc.py::test_a", False),
    ],
)
def test_tests_that_no_claim_needs_are_left_out(test: str, kept: bool) -> None:
    assert is_kept(test) is kept


def test_one_failure_of_many_parameters_is_a_failure(recorder: Recorder) -> None:
    for name, outcome in (("[a]", "passed"), ("[b]", "failed"), ("[c]", "passed")):
        recorder.pytest_runtest_logreport(report(PYICEBERG + name, outcome))  # type: ignore[arg-type]  # of the literals
    assert became(recorder) == {PYICEBERG: "failed"}


@pytest.mark.parametrize("when", ["setup", "teardown"])
def test_failure_around_a_test_is_a_failure(recorder: Recorder, when: When) -> None:
    recorder.pytest_runtest_logreport(report(PYICEBERG, "passed"))
    recorder.pytest_runtest_logreport(report(PYICEBERG, "failed", when))
    assert became(recorder) == {PYICEBERG: "failed"}


def test_skipped_test_has_not_passed(recorder: Recorder) -> None:
    recorder.pytest_runtest_logreport(report(PYICEBERG, "skipped", "setup"))
    recorder.pytest_runtest_logreport(report(PYICEBERG, "passed", "teardown"))
    assert became(recorder) == {PYICEBERG: "skipped"}


def test_file_is_one_that_the_command_reads(recorder: Recorder, tmp_path: Path) -> None:
    recorder.pytest_runtest_logreport(report(PYICEBERG, "passed"))
    recorder.pytest_sessionfinish(pytest.ExitCode.OK)
    known = parse_evidence((tmp_path / "evidence.json").read_bytes())
    assert [one.client for one in known.records] == ["pyiceberg"]
    assert known.records[0].client_version != "unrecorded"


def test_interrupted_session_leaves_the_file_as_it_was(recorder: Recorder, tmp_path: Path) -> None:
    recorder.pytest_runtest_logreport(report(PYICEBERG, "passed"))
    recorder.pytest_sessionfinish(pytest.ExitCode.INTERRUPTED)
    assert not (tmp_path / "evidence.json").exists()
