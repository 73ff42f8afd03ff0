"""Progress of a job: stages, Spark task counts, and a progress bar for terminals."""

from __future__ import annotations

import logging
import threading
from collections.abc import Iterable, Iterator
from contextlib import contextmanager
from typing import TYPE_CHECKING, Any, Final, Protocol, TextIO

from .spark.session import has_java

if TYPE_CHECKING:
    from pyspark import StatusTracker
    from pyspark.sql import SparkSession
    from rich.progress import Progress as Bars
    from rich.progress import TaskID

log = logging.getLogger("lakebed.pipeline")

_POLL_SECONDS: Final = 0.5


class Progress(Protocol):
    """Receives progress. Called from several threads; must not block."""

    def stage(self, text: str) -> None:
        """Start a stage of the job."""
        ...

    def tasks(self, done: int, total: int) -> None:
        """Set the number of finished Spark tasks, and of those known so far."""
        ...


class NoProgress:
    """Discards progress."""

    def stage(self, text: str) -> None:
        """Do nothing."""

    def tasks(self, done: int, total: int) -> None:
        """Do nothing."""


class TerminalProgress:
    """A progress bar on a terminal."""

    def __init__(self, bars: Bars, line: TaskID) -> None:
        self._bars = bars
        self._line = line

    def stage(self, text: str) -> None:
        """Show the stage."""
        self._bars.update(self._line, description=text, completed=0, total=None)

    def tasks(self, done: int, total: int) -> None:
        """Move the bar."""
        self._bars.update(self._line, completed=done, total=total)


@contextmanager
def terminal_progress(output: TextIO) -> Iterator[Progress]:
    """A progress bar if the output is a terminal; otherwise none."""
    if not output.isatty():
        yield NoProgress()
        return
    from rich.console import Console
    from rich.progress import BarColumn, MofNCompleteColumn, SpinnerColumn, TextColumn, TimeElapsedColumn
    from rich.progress import Progress as Bars

    columns = (
        SpinnerColumn(),
        TextColumn("{task.description}"),
        BarColumn(),
        MofNCompleteColumn(),
        TimeElapsedColumn(),
    )
    with Bars(*columns, console=Console(file=output), transient=True) as bars:
        yield TerminalProgress(bars, bars.add_task("starting", total=None))


@contextmanager
def spark_progress(spark: SparkSession, progress: Progress) -> Iterator[None]:
    """Report Spark's task counts while the block runs."""
    if not has_java(spark):
        with _connect_progress(spark, progress):
            yield
        return
    over = threading.Event()
    watcher = threading.Thread(target=_watch, args=(spark, progress, over), name="spark-progress", daemon=True)
    watcher.start()
    try:
        yield
    finally:
        over.set()
        watcher.join()


def _watch(spark: SparkSession, progress: Progress, over: threading.Event) -> None:
    tracker = spark.sparkContext.statusTracker()
    while not over.wait(_POLL_SECONDS):
        try:
            done, total = _count(tracker)
        except Exception as error:  # Py4J errors after the JVM has exited: the job reports those
            log.debug("Spark progress unavailable", exc_info=error)
            return
        if total:
            progress.tasks(done, total)


def _count(tracker: StatusTracker) -> tuple[int, int]:
    """Finished and total tasks of the active Spark jobs."""
    done = total = 0
    for job_id in tracker.getActiveJobsIds():
        job = tracker.getJobInfo(job_id)
        for stage_id in job.stageIds if job is not None else ():
            stage = tracker.getStageInfo(stage_id)
            if stage is not None:
                done += stage.numCompletedTasks
                total += stage.numTasks
    return done, total


@contextmanager
def _connect_progress(spark: SparkSession, progress: Progress) -> Iterator[None]:
    def report(stages: Iterable[Any] | None, inflight_tasks: int, operation_id: str, done: bool) -> None:
        counts = [(stage.num_completed_tasks, stage.num_tasks) for stage in stages or ()]
        progress.tasks(sum(one[0] for one in counts), sum(one[1] for one in counts))

    spark.registerProgressHandler(report)
    try:
        yield
    finally:
        spark.removeProgressHandler(report)
