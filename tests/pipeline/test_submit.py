"""Command lines of jobs as programs."""

from __future__ import annotations

import json
import statistics
import subprocess
import sys
from pathlib import Path
from typing import ClassVar

import pytest

from lakebed.core.errors import InvalidInput
from lakebed.core.jobs import JobKind
from lakebed.pipeline import jobs
from lakebed.pipeline.jobs import MODULES, find_job
from lakebed.pipeline.submit import FAILED, parse_options, run_program
from tests.clients.boto import root_keys
from tests.clients.users import User
from tests.pipeline.bench import SPARK_MARKS, Bench

FOLDER = Path(jobs.__file__).parent
NEEDS_MORE = frozenset({JobKind.COPY_RESTRICTED, JobKind.TIER_STREAM})
"""Jobs that need more than a table: a restricted principal's plan, a server with streams."""


def test_options_are_parsed() -> None:
    assert parse_options(["a=b", "where=x = 1", "empty="]) == {"a": "b", "where": "x = 1", "empty": ""}


@pytest.mark.parametrize("word", ["a", "=b", ""])
def test_malformed_option_is_rejected(word: str) -> None:
    with pytest.raises(InvalidInput, match="name=value"):
        parse_options([word])


@pytest.mark.slow
@pytest.mark.parametrize("kind", list(JobKind))
def test_job_program_help_lists_options(kind: JobKind, tmp_path: Path) -> None:
    program = [sys.executable, str(FOLDER / f"{MODULES[kind]}.py"), "--help"]
    done = subprocess.run(program, cwd=tmp_path, capture_output=True, text=True)
    assert done.returncode == 0, done.stderr
    assert done.stdout.startswith(f"usage: {kind} ")
    for option in find_job(kind).options:
        assert f"  {option.name}: {option.text}" in done.stdout


def test_job_modules_do_not_hide_standard_modules(monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setattr(sys, "path", [str(FOLDER), *sys.path])
    monkeypatch.delitem(sys.modules, "statistics")
    with pytest.raises(SystemExit):
        run_program(find_job(JobKind.COMPACT), ["--help"])
    import statistics as found

    assert found.__file__ == statistics.__file__


@pytest.mark.parametrize(
    ("words", "message"),
    [
        (["--option", "nonsense=1"], "unknown option of compact-table. option=nonsense"),
        (["--option", "min-input-files"], "expected an option as name=value. found='min-input-files'"),
        (["--option", "min-input-files=0"], "min-input-files expects an integer of at least 1. found='0'"),
        (["--catalog-uri", "nowhere"], "nowhere"),
    ],
)
def test_invalid_arguments_fail_before_spark_starts(
    words: list[str], message: str, monkeypatch: pytest.MonkeyPatch, capsys: pytest.CaptureFixture[str]
) -> None:
    monkeypatch.setenv("AWS_ACCESS_KEY_ID", "AKEXAMPLE")
    monkeypatch.setenv("AWS_SECRET_ACCESS_KEY", "hush")
    monkeypatch.setattr("lakebed.pipeline.submit.spark_session", None)
    assert run_program(find_job(JobKind.COMPACT), ["--warehouse", "lake", "--table", "a.b", *words]) == FAILED
    printed = capsys.readouterr()
    assert (printed.out, message in printed.err) == ("", True), printed.err


class TestWithSpark:
    pytestmark: ClassVar = [*SPARK_MARKS, pytest.mark.heavy]

    # The restricted-copy job works only on copies that the server created.
    @pytest.mark.parametrize("kind", [kind for kind in JobKind if kind not in NEEDS_MORE])
    def test_job_program_prints_its_report(
        self,
        kind: JobKind,
        bench: Bench,
        engineer: User,
        namespace: str,
        monkeypatch: pytest.MonkeyPatch,
        capsys: pytest.CaptureFixture[str],
    ) -> None:
        """The content of a job's file, for `spark-submit` and Python."""
        table = bench.table(namespace)
        options = []
        if kind is JobKind.IMPORT:
            source = bench.table(namespace, "source")
            bench.sql(f"CREATE TABLE {source.sql} USING iceberg AS SELECT id FROM range(3)")
            given = {"source-catalog": bench.catalog, "source-table": source.ref.name, "mode": "copy"}
            options = [word for name, value in given.items() for word in ("--option", f"{name}={value}")]
        elif kind is not JobKind.EXPORT_EVENTS:
            bench.sql(f"CREATE TABLE {table.sql} USING iceberg AS SELECT id FROM range(3)")
        monkeypatch.setenv("LAKEBED_ENDPOINT", bench.access.endpoint)
        # Only workers can list pending files.
        keys = root_keys(bench.lake.server) if kind is JobKind.INGEST else engineer.keys
        monkeypatch.setenv("AWS_ACCESS_KEY_ID", keys.access_key)
        monkeypatch.setenv("AWS_SECRET_ACCESS_KEY", keys.secret_key)
        words = ["--warehouse", bench.lake.warehouse, "--table", table.ref.name, "--dry-run", *options]
        assert run_program(find_job(kind), words) == 0
        report = json.loads(capsys.readouterr().out)
        assert (report["job"], report["table"], report["dry-run"]) == (str(kind), str(table), True)
