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


def test_nothing_is_written_to_what_is_no_terminal() -> None:
    output = io.StringIO()
    with terminal_progress(output) as progress:
        assert isinstance(progress, NoProgress)
        progress.stage("compacting")
        progress.tasks(1, 2)
    assert output.getvalue() == ""


def test_terminal_shows_what_is_done_and_how_far() -> None:
    output = Terminal()
    with terminal_progress(output) as progress:
        progress.stage("compacting")
        progress.tasks(3, 7)
    assert "compacting" in output.getvalue()
    assert "3/7" in output.getvalue()


class Tracker:
    """What Spark tells of its jobs, until it is gone; each part of a session is the tracker itself."""

    def __init__(self) -> None:
        self.has_ended = False

    def __getattr__(self, name: str) -> Tracker:
        return self

    def statusTracker(self) -> Tracker:
        return self

    def getActiveJobsIds(self) -> list[int]:
        if self.has_ended:
            raise ConnectionRefusedError("nobody is there")
        return [1]

    def getJobInfo(self, number: int) -> SparkJobInfo:
        return SparkJobInfo(number, [2, 3], "RUNNING")

    def getStageInfo(self, number: int) -> SparkStageInfo | None:
        return SparkStageInfo(number, 0, "stage", 7, 1, 4, 0) if number == 2 else None


class Told(NoProgress):
    """Lets somebody wait until it was told."""

    def __init__(self) -> None:
        self.counts: list[tuple[int, int]] = []
        self.was_told = threading.Event()

    def tasks(self, done: int, total: int) -> None:
        self.counts.append((done, total))
        self.was_told.set()


@pytest.mark.slow
def test_tasks_are_counted_until_spark_is_gone() -> None:
    spark: Any = Tracker()  # Any: a session, as far as this goes
    told = Told()
    with spark_progress(spark, told):
        assert told.was_told.wait(60)
        spark.has_ended = True
        (watcher,) = [thread for thread in threading.enumerate() if thread.name == "spark-progress"]
        # What ends a thread with an error fails the test.
        watcher.join(60)
        assert not watcher.is_alive()
    assert set(told.counts) == {(4, 7)}
