"""The recorder of test results: which results it keeps, when it writes, and the summary."""

from __future__ import annotations

import subprocess
import sys
from datetime import UTC, datetime
from pathlib import Path
from types import SimpleNamespace
from typing import Any, Literal

import pytest

from lakebed.conform.evidence import parse_summary, source_digest
from tests.fixtures import evidence
from tests.fixtures.evidence import VERSIONS, Recorder, SharedTests, client_of, is_kept
from tests.fixtures.recorded_evidence import parse_document, selectors, summarize

ROOT = Path(__file__).parents[2]
PYICEBERG = "tests/clients/iceberg/test_pyiceberg_writing.py::test_a"

Outcome = Literal["passed", "failed", "skipped"]
When = Literal["setup", "call", "teardown"]


@pytest.fixture
def path(tmp_path: Path) -> Path:
    return tmp_path / "evidence.json"


@pytest.fixture
def recorder(path: Path) -> Recorder:
    """A recorder that expects a test of every selector."""
    made = Recorder(path, path.with_name("summary.json"))
    made.expect(suite())
    return made


def suite(*more: str) -> list[str]:
    tests = [one.replace("*", "x") for one in sorted(selectors())]
    return [*(one if "::" in one else f"{one}::test_x" for one in tests), PYICEBERG, *more]


def report(test: str, outcome: Outcome, when: When = "call") -> pytest.TestReport:
    return pytest.TestReport(test, ("", None, ""), {}, outcome, None, when)


def run(recorder: Recorder, *tests: str) -> None:
    for test in tests:
        recorder.pytest_runtest_logreport(report(test, "passed", "setup"))
        recorder.pytest_runtest_logreport(report(test, "passed"))
        recorder.pytest_runtest_logreport(report(test, "passed", "teardown"))


def finish(recorder: Recorder, status: int = pytest.ExitCode.OK) -> int:
    session: Any = SimpleNamespace(exitstatus=status)  # Any: only the used part of a session
    recorder.pytest_sessionfinish(session, status)
    ended: int = session.exitstatus
    return ended


def became(recorder: Recorder, *tests: str) -> dict[str, str]:
    made = recorder.document(datetime(2026, 1, 31, tzinfo=UTC))
    return {one.test: one.status for one in made.records if one.test in tests}


@pytest.mark.parametrize(
    ("file", "client", "scenario"),
    [
        ("tests/clients/iceberg/test_pyiceberg_writing.py", "pyiceberg", "writing"),
        ("tests/clients/test_pyiceberg_vended_credentials.py", "pyiceberg", "vended_credentials"),
        ("tests/clients/iceberg/test_duckdb.py", "duckdb", "all"),
        ("tests/clients/iceberg/test_trino.py", "trino", "all"),
        ("tests/clients/test_mc.py", "mc", "all"),
        ("tests/clients/test_minio_py.py", "minio_py", "all"),
        ("tests/clients/test_boto3.py", "boto3", "all"),
        ("tests/clients/sdk/test_versioning.py", "boto3", "versioning"),
        ("tests/clients/sdk/test_signatures.py", "lakebed", "clients/sdk/test_signatures"),
        ("tests/catalog/commits/test_service.py", "lakebed", "catalog/commits/test_service"),
        ("tests/conform/test_live_run.py", "pyiceberg", "conform"),
    ],
)
def test_client_and_scenario_come_from_the_file_name(file: str, client: str, scenario: str) -> None:
    assert client_of(f"{file}::test_a") == (client, scenario)


def test_every_file_of_client_tests_is_named_for_a_client() -> None:
    folder = ROOT / "tests" / "clients"
    files = [path.relative_to(ROOT).as_posix() for path in (*folder.glob("test_*.py"), *folder.glob("iceberg/test_*"))]
    assert [file for file in files if client_of(file)[0] == "lakebed"] == []


@pytest.mark.slow
@pytest.mark.integration  # the program is made if there is none
@pytest.mark.parametrize("client", VERSIONS)
def test_client_version_starts_with_a_number(client: str) -> None:
    assert VERSIONS[client]().lstrip("v")[0].isdigit()


@pytest.mark.parametrize(
    ("test", "kept"),
    [
        (PYICEBERG, True),
        ("tests/clients/test_boto3.py::TestBoto3::test_a", True),
        ("tests/catalog/commits/test_service.py::test_transaction_changes_all_tables_or_none", True),
        ("tests/core/test_ids.py::test_a", False),
    ],
)
def test_only_tests_of_claims_are_recorded(test: str, kept: bool) -> None:
    assert is_kept(test) is kept


def test_complete_run_writes_results_and_a_summary_that_the_command_reads(recorder: Recorder, path: Path) -> None:
    run(recorder, *suite())
    assert finish(recorder) == pytest.ExitCode.OK
    written = parse_document(path.read_bytes())
    assert {one.test for one in written.records} == set(suite())
    assert written.source_digest == source_digest()
    summary = path.with_name("summary.json")
    known = parse_summary(summary.read_bytes())
    assert known.summary == summarize(written, selectors())
    assert known.versions_of("pyiceberg") == [VERSIONS["pyiceberg"]()]
    assert known.described()["is_of_these_sources"]
    assert all(known.result(selector) is not None for selector in selectors())
    assert str(ROOT) not in path.read_text() + summary.read_text()


def test_parametrized_test_is_one_result_that_passed_if_all_parameters_passed(recorder: Recorder) -> None:
    whole, partly = PYICEBERG.replace("test_a", "test_whole"), PYICEBERG.replace("test_a", "test_partly")
    recorder.expect(suite(f"{whole}[a]", f"{whole}[b]", f"{partly}[a]", f"{partly}[b]"))
    run(recorder, f"{whole}[a]", f"{whole}[b]", f"{partly}[a]")
    recorder.pytest_runtest_logreport(report(f"{partly}[b]", "skipped", "setup"))
    assert became(recorder, whole, partly) == {whole: "passed", partly: "skipped"}


def test_client_that_only_skipped_has_no_version(recorder: Recorder) -> None:
    recorder.pytest_runtest_logreport(report(PYICEBERG, "skipped", "setup"))
    made = recorder.document(datetime(2026, 1, 31, tzinfo=UTC))
    assert [one.status for one in made.records] == ["skipped"]
    assert made.client_versions == {}


@pytest.mark.parametrize("status", [pytest.ExitCode.TESTS_FAILED, pytest.ExitCode.INTERRUPTED])
def test_failed_run_leaves_the_file_unchanged(recorder: Recorder, path: Path, status: int) -> None:
    run(recorder, *suite())
    assert finish(recorder, status) == status
    assert not any(path.parent.iterdir())


def test_run_that_omits_a_test_leaves_the_file_unchanged_and_fails(recorder: Recorder, path: Path) -> None:
    run(recorder, *(one for one in suite() if one != PYICEBERG))
    assert recorder.gaps(pytest.ExitCode.OK) == [f"1 of its tests did not run, such as {PYICEBERG}"]
    assert finish(recorder) == pytest.ExitCode.TESTS_FAILED
    assert not any(path.parent.iterdir())


def test_run_without_a_test_of_a_claim_writes_nothing(recorder: Recorder) -> None:
    recorder.expect([PYICEBERG])
    run(recorder, PYICEBERG)
    assert "no test matches tests/catalog/test_idempotency.py" in recorder.gaps(pytest.ExitCode.OK)


def test_run_of_some_paths_writes_nothing(path: Path) -> None:
    recorder = Recorder(path, is_whole=False)
    recorder.expect(suite())
    run(recorder, *suite())
    assert recorder.gaps(pytest.ExitCode.OK) == ["paths were given, but claims require the whole suite"]


def test_run_whose_sources_changed_meanwhile_writes_nothing(
    recorder: Recorder, monkeypatch: pytest.MonkeyPatch
) -> None:
    run(recorder, *suite())
    monkeypatch.setattr(evidence, "source_digest", lambda: "another")
    assert recorder.gaps(pytest.ExitCode.OK) == ["the sources changed meanwhile"]


def test_empty_run_writes_nothing(path: Path) -> None:
    recorder = Recorder(path)
    run(recorder, *suite())
    assert recorder.gaps(pytest.ExitCode.OK) == ["none of its tests were collected"]


def test_worker_processes_report_the_tests_they_must_run(path: Path) -> None:
    recorder = Recorder(path)
    output: dict[str, Any] = {}
    config: Any = SimpleNamespace(workeroutput=output)  # Any: likewise
    items: list[Any] = [SimpleNamespace(nodeid=one) for one in suite(f"{PYICEBERG}[a@b]")]
    SharedTests(is_alone=False).pytest_collection_modifyitems(config, items)
    recorder.pytest_testnodedown(SimpleNamespace(workeroutput=output))
    recorder.pytest_testnodedown(SimpleNamespace())
    assert recorder.gaps(pytest.ExitCode.OK)[0].startswith(f"{len(items)} of its tests did not run")
    run(recorder, *(f"{item.nodeid}@engines" for item in items))
    assert recorder.gaps(pytest.ExitCode.OK) == []


def test_option_runs_only_recorded_tests(path: Path) -> None:
    recorder = Recorder(path, is_alone=True)
    left_out: list[Any] = []
    hook = SimpleNamespace(pytest_deselected=lambda items: left_out.extend(items))
    config: Any = SimpleNamespace(hook=hook)  # Any: likewise
    kept, other = SimpleNamespace(nodeid=f"{PYICEBERG}[x]"), SimpleNamespace(nodeid="tests/core/test_ids.py::test_a")
    items: list[Any] = [kept, other]
    recorder.pytest_collection_modifyitems(config, items)
    assert (items, left_out) == ([kept], [other])


@pytest.mark.slow
def test_partial_run_reports_why_it_writes_nothing(path: Path) -> None:
    command = [sys.executable, "-m", "pytest", "-q", "-p", "no:cacheprovider", "--evidence", str(path)]
    done = subprocess.run(
        [*command, "tests/conform/test_vended.py"], cwd=ROOT, capture_output=True, text=True, check=False
    )
    assert done.returncode == pytest.ExitCode.TESTS_FAILED
    assert "is unchanged: paths were given" in done.stdout
    assert not path.exists()
