"""`lakebed shell` without Spark; with Spark, see `tests/pipeline/test_programs.py`."""

from __future__ import annotations

import code
from typing import Any

import pytest

from lakebed.cli.main import FAILED
from lakebed.cli.pipeline import shell
from tests.cli.conftest import Lakebed


class Session:
    """The part of a Spark session that the shell uses."""

    version = "4.1.4"

    def __init__(self) -> None:
        self.statements: list[str] = []
        self.is_stopped = False

    def sql(self, statement: str) -> Any:  # Any: the part of a DataFrame that the shell uses
        self.statements.append(statement)
        if statement == "fails":
            from pyspark.errors import AnalysisException

            raise AnalysisException("[TABLE_OR_VIEW_NOT_FOUND] no t")
        return type("Rows", (), {"columns": ["a"], "show": lambda *_, **__: print("rows")})()

    def stop(self) -> None:
        self.is_stopped = True


@pytest.fixture
def session(lakebed: Lakebed, monkeypatch: pytest.MonkeyPatch) -> Session:
    monkeypatch.setenv("LAKEBED_ACCESS_KEY", "AKEXAMPLE")
    monkeypatch.setenv("LAKEBED_SECRET_KEY", "secret")
    made = Session()
    monkeypatch.setattr(shell, "spark_session", lambda *_: made)
    return made


def test_statement_runs_on_the_catalog(lakebed: Lakebed, session: Session) -> None:
    outcome = lakebed("shell", "--warehouse", "wh", "--sql", "SHOW TABLES")
    assert (outcome.status, outcome.out) == (0, "rows\n")
    assert session.statements == ["USE lakebed", "SHOW TABLES"]
    assert session.is_stopped


def test_failed_statement_is_one_line(lakebed: Lakebed, session: Session) -> None:
    outcome = lakebed("shell", "--warehouse", "wh", "--sql", "fails")
    assert outcome.status == FAILED
    assert "TABLE_OR_VIEW_NOT_FOUND" in outcome.err
    assert "Traceback" not in outcome.err
    assert session.is_stopped


def test_shell_has_the_session(lakebed: Lakebed, session: Session, monkeypatch: pytest.MonkeyPatch) -> None:
    given: dict[str, Any] = {}

    def interact(**arguments: Any) -> None:
        given.update(arguments)

    monkeypatch.setattr(code, "interact", interact)
    assert lakebed("shell", "--warehouse", "wh").status == 0
    assert given["local"]["spark"] is session
    assert "table bucket wh" in given["banner"]
