from __future__ import annotations

import io
import threading
from typing import Any

import pytest
from pyspark import SparkJobInfo, SparkStageInfo

from lakebed.pipeline.progress import NoProgress, spark_progress, terminal_progress


class Terminal(io.StringIO):
    def isatty(self) -> bool:
        return True


def test_no_progress_bar_without_a_terminal() -> None:
    output = io.StringIO()
    with terminal_progress(output) as progress:
        assert isinstance(progress, NoProgress)
        progress.stage("compacting")
        progress.tasks(1, 2)
    assert output.getvalue() == ""


def test_terminal_shows_stage_and_progress() -> None:
    output = Terminal()
    with terminal_progress(output) as progress:
        progress.stage("compacting")
        progress.tasks(3, 7)
    assert "compacting" in output.getvalue()
    assert "3/7" in output.getvalue()


class Tracker:
    """Spark's status tracker until it dies. Every attribute of the session is the tracker."""

    def __init__(self) -> None:
        self.has_ended = False

    def __getattr__(self, name: str) -> Tracker:
        return self

    def statusTracker(self) -> Tracker:
        return self

    def getActiveJobsIds(self) -> list[int]:
        if self.has_ended:
            raise ConnectionRefusedError("refused")
        return [1]

    def getJobInfo(self, number: int) -> SparkJobInfo:
        return SparkJobInfo(number, [2, 3], "RUNNING")

    def getStageInfo(self, number: int) -> SparkStageInfo | None:
        return SparkStageInfo(number, 0, "stage", 7, 1, 4, 0) if number == 2 else None


class RecordedProgress(NoProgress):
    """Records task counts, and signals the first."""

    def __init__(self) -> None:
        self.counts: list[tuple[int, int]] = []
        self.was_reported = threading.Event()

    def tasks(self, done: int, total: int) -> None:
        self.counts.append((done, total))
        self.was_reported.set()


@pytest.mark.slow
def test_task_counts_are_reported_until_spark_dies() -> None:
    spark: Any = Tracker()  # Any: a partial session
    recorded = RecordedProgress()
    with spark_progress(spark, recorded):
        assert recorded.was_reported.wait(60)
        spark.has_ended = True
        (watcher,) = [thread for thread in threading.enumerate() if thread.name == "spark-progress"]
        # An exception in the thread would fail the test.
        watcher.join(60)
        assert not watcher.is_alive()
    assert set(recorded.counts) == {(4, 7)}
