from __future__ import annotations

from collections.abc import Iterator
from typing import Any

import pytest
from pyspark.errors import PySparkRuntimeError

from lakebed.client.access import ServerAccess
from lakebed.client.names import TableRef
from lakebed.core.errors import CommitConflict, WriteConflict
from lakebed.core.secrets import Secret
from lakebed.pipeline import commit_conflicts
from lakebed.pipeline.commit_conflicts import retry_on_conflict
from lakebed.pipeline.progress import NoProgress
from lakebed.pipeline.table_ref import CatalogTable

TABLE = CatalogTable(TableRef("wh", ("ns",), "t"), ServerAccess("http://h", "k", Secret("s")))
LOST = "Caused by: org.apache.iceberg.exceptions.CommitFailedException: gone"
REFUSED = "Caused by: org.apache.iceberg.exceptions.ValidationException: Cannot find field 'x'"


def of_spark(text: str) -> PySparkRuntimeError:
    error = PySparkRuntimeError("x")
    error._message = text
    return error


class Table:
    """A table with scripted snapshots and a job with scripted outcomes."""

    def __init__(self, monkeypatch: pytest.MonkeyPatch, snapshots: list[int], outcomes: list[Exception | str]) -> None:
        self.snapshots: Iterator[int] = iter(snapshots)
        self.outcomes = outcomes
        self.pauses: list[float] = []
        monkeypatch.setattr(commit_conflicts, "current_snapshot", lambda *_: next(self.snapshots))

    def attempt(self) -> str:
        outcome = self.outcomes.pop(0)
        if isinstance(outcome, Exception):
            raise outcome
        return outcome

    def run(self) -> str:
        spark: Any = None  # Any: passed through
        return retry_on_conflict(spark, TABLE, NoProgress(), self.attempt, sleep=self.pauses.append)


def test_conflicting_attempt_is_repeated(monkeypatch: pytest.MonkeyPatch) -> None:
    table = Table(monkeypatch, [1, 2, 3], [of_spark(LOST), CommitConflict("lost"), "done"])
    assert table.run() == "done"
    assert len(table.pauses) == 2


def test_ambiguous_error_is_a_conflict_only_after_another_commit(monkeypatch: pytest.MonkeyPatch) -> None:
    table = Table(monkeypatch, [1, 2, 2], [of_spark(REFUSED), "done"])
    assert table.run() == "done"
    unmoved = Table(monkeypatch, [1, 1], [of_spark(REFUSED)])
    with pytest.raises(PySparkRuntimeError):
        unmoved.run()
    assert unmoved.pauses == []


def test_other_errors_are_not_retried(monkeypatch: pytest.MonkeyPatch) -> None:
    for error in (ZeroDivisionError(), of_spark("java.lang.IllegalArgumentException: wrong")):
        with pytest.raises(type(error)):
            Table(monkeypatch, [1, 1], [error]).run()


def test_job_fails_with_write_conflict_after_all_attempts(monkeypatch: pytest.MonkeyPatch) -> None:
    table = Table(monkeypatch, list(range(20)), [of_spark(LOST) for _ in range(5)])
    with pytest.raises(WriteConflict, match="too many commit conflicts") as caught:
        table.run()
    assert caught.value.retryable
    assert len(table.pauses) == 4
    assert table.pauses[3] > table.pauses[0]
