"""How far a job is: told by the job, counted from Spark's tasks, and drawn where somebody looks."""

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

_LOOK_SECONDS: Final = 0.5


class Progress(Protocol):
    """Who is told how far a job is. Called from several threads, and never for long."""

    def stage(self, text: str) -> None:
        """The job begins something."""
        ...

    def tasks(self, done: int, total: int) -> None:
        """So many of Spark's tasks are done, of those that are known by now."""
        ...


class NoProgress:
    """Tells nobody."""

    def stage(self, text: str) -> None:
        """Nobody is told."""

    def tasks(self, done: int, total: int) -> None:
        """Nobody is told."""


class TerminalProgress:
    """Draws a line on a terminal."""

    def __init__(self, bars: Bars, line: TaskID) -> None:
        self._bars = bars
        self._line = line

    def stage(self, text: str) -> None:
        """Say what is being done."""
        self._bars.update(self._line, description=text, completed=0, total=None)

    def tasks(self, done: int, total: int) -> None:
        """Move the bar."""
        self._bars.update(self._line, completed=done, total=total)


@contextmanager
def terminal_progress(output: TextIO) -> Iterator[Progress]:
    """Progress on a terminal; nothing is written to what is none."""
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
    """Tell of Spark's tasks while a block runs."""
    if not has_java(spark):
        with _told_by_server(spark, progress):
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
    while not over.wait(_LOOK_SECONDS):
        try:
            done, total = _count(tracker)
        except Exception as error:  # of the bridge to Java, if that has ended: what is to be said, the job says
            log.debug("Spark did not tell how far it is", exc_info=error)
            return
        if total:
            progress.tasks(done, total)


def _count(tracker: StatusTracker) -> tuple[int, int]:
    """How many tasks are done, and how many there are, of all that runs now."""
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
def _told_by_server(spark: SparkSession, progress: Progress) -> Iterator[None]:
    def tell(stages: Iterable[Any] | None, inflight_tasks: int, operation_id: str, done: bool) -> None:
        counts = [(stage.num_completed_tasks, stage.num_tasks) for stage in stages or ()]
        progress.tasks(sum(one[0] for one in counts), sum(one[1] for one in counts))

    spark.registerProgressHandler(tell)
    try:
        yield
    finally:
        spark.removeProgressHandler(tell)
