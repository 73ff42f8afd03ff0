"""Kill -9 of a worker in the middle of a job, or a sleep that outlasts its lease: another worker finishes the job.

The table reads the same before and after, and no file that it refers to is gone: the verification job says so.
"""

from __future__ import annotations

import os
import signal
import time
from collections import Counter
from collections.abc import Iterator
from dataclasses import dataclass, field
from pathlib import Path
from random import Random
from typing import TYPE_CHECKING, Final

import pytest

from lakebed.client import TableRef, TaskState
from lakebed.core.jobs import JobKind, Option
from tests.faults.killing import SEED
from tests.fixtures.server import running_server
from tests.pipeline.bench import SPARK_MARKS, Bench, new_bench
from tests.pipeline.maintenance_run import (
    MaintainedLake,
    RunningWorker,
    maintained_lake,
    own_runner,
    run_tasks,
    start_worker,
    wait_until,
)

from .scenes import SCENES, Scene, new_table

if TYPE_CHECKING:
    from pyspark.sql import SparkSession

pytestmark = [*SPARK_MARKS, pytest.mark.heavy]

KILLS: Final = int(os.environ.get("FAULT_KILLS", "10"))
"""Of each job."""
SLEEPS: Final = 2
DONE: Final = "done"
LEASE_SECONDS: Final = 3.0


@dataclass
class Tally:
    """What one run saw."""

    kills: int = 0
    late: int = 0
    """Jobs that were done before the kill came: these do not count."""
    finished: int = 0
    lost: int = 0
    missing: int = 0
    stages: Counter[str] = field(default_factory=Counter)

    def __str__(self) -> str:
        return (
            f"kills={self.kills} lost={self.lost} missing={self.missing} finished={self.finished} late={self.late}"
            f" seed={SEED} stages={dict(self.stages)}"
        )


@pytest.fixture(scope="module")
def place(tmp_path_factory: pytest.TempPathFactory) -> Iterator[MaintainedLake]:
    """Nothing is planned but what is asked for here."""
    folder = tmp_path_factory.mktemp("kills")
    quiet = ("--set", "pipeline.debounce=1h", "--set", "pipeline.schedule_interval=1h")
    with running_server(folder / "data", *quiet, workers=2) as server, maintained_lake(server, folder) as found:
        yield found


@pytest.fixture(scope="module")
def bench(spark: SparkSession, place: MaintainedLake) -> Bench:
    return new_bench(spark, place.lake, place.worker_keys)


def look(bench: Bench, ref: TableRef, tally: Tally) -> tuple[Option, Option]:
    """What the rows of a table come to, and how many there are. Counts what is wrong with it."""
    table = bench.table(*ref.namespace)
    report = bench.do(JobKind.VERIFY, table, {"checksums": True, "all-snapshots": True})
    tally.missing += len(report.problems)
    assert report.is_well, report.problems
    return report.details["checksum"], report.details["live-rows"]


def wait_for_the_moment(place: MaintainedLake, scene: Scene, task_id: int, random: Random) -> None:
    """Wait until a worker is somewhere in the job: mostly at what the job is about, now and then before."""
    anywhere = random.random() < 0.2

    def is_there() -> bool:
        stage = stage_of(place, task_id)
        return stage not in ("", "starting Spark") if anywhere else stage in (scene.stage, DONE)

    wait_until(is_there, f"{task_id} is worked on")
    time.sleep(random.uniform(0.0, scene.longest_seconds))


def stage_of(place: MaintainedLake, task_id: int) -> str:
    """What a task's worker has said last."""
    task = place.client.tasks.get(task_id)
    return DONE if task.state is TaskState.DONE else str((task.progress or {}).get("stage", ""))


def finish(place: MaintainedLake, task_id: int, tally: Tally) -> None:
    """Have another worker take the task over when its lease has ended."""
    (ended,) = run_tasks(place, own_runner(place))
    assert (ended.task.id, ended.summary) == (task_id, "done")
    assert ended.task.attempts == 2
    tally.finished += place.client.tasks.get(task_id).state is TaskState.DONE


def one_round(
    place: MaintainedLake, bench: Bench, scene: Scene, ref: TableRef, folder: Path, random: Random, tally: Tally
) -> None:
    scene.make_untidy(place, bench, ref, tally.kills + tally.late)
    before = look(bench, ref, tally)
    task = place.submit(scene.job, ref, **scene.options)
    victim = start_worker(place, folder, lease_seconds=LEASE_SECONDS)
    try:
        wait_for_the_moment(place, scene, task.id, random)
    finally:
        stage = stage_of(place, task.id)
        victim.kill(with_java=random.random() < 0.7)
    if place.client.tasks.get(task.id).state is TaskState.DONE:
        tally.late += 1
    else:
        tally.kills += 1
        tally.stages[stage] += 1
        finish(place, task.id, tally)
    tally.lost += look(bench, ref, tally) != before


@pytest.mark.parametrize("job", list(SCENES), ids=str)
def test_a_killed_worker_loses_nothing_and_another_finishes(
    place: MaintainedLake, bench: Bench, job: JobKind, tmp_path: Path
) -> None:
    random, tally = Random(SEED), Tally()
    ref = new_table(place, bench, place.namespace())
    try:
        while tally.kills < KILLS and not (tally.lost or tally.missing) and tally.late < 2 * KILLS:
            one_round(place, bench, SCENES[job], ref, tmp_path, random, tally)
    finally:
        print(f"{job}: {tally}")
    assert (tally.kills, tally.finished, tally.lost, tally.missing) == (KILLS, KILLS, 0, 0)
    # What the killed ones have left behind is found, and is all that is.
    before = look(bench, ref, tally)
    table = bench.table(*ref.namespace)
    cleaned = bench.do(JobKind.REMOVE_ORPHANS, table, {"older-than-ms": 0, "allow-young": True})
    print(f"{job}: left behind and removed: {cleaned.removed.files} files")
    assert look(bench, ref, tally) == before


def fall_asleep(victim: RunningWorker) -> None:
    """Stop every process of a worker, as a machine that is suspended does."""
    os.killpg(victim.process.pid, signal.SIGSTOP)


@pytest.mark.parametrize("job", list(SCENES), ids=str)
def test_a_worker_that_slept_longer_than_its_lease_does_no_harm_when_it_wakes(
    place: MaintainedLake, bench: Bench, job: JobKind, tmp_path: Path
) -> None:
    random, tally, scene = Random(SEED), Tally(), SCENES[job]
    ref = new_table(place, bench, place.namespace())
    slept = 0
    while slept < SLEEPS:
        scene.make_untidy(place, bench, ref, slept + tally.late)
        before = look(bench, ref, tally)
        task = place.submit(scene.job, ref, **scene.options)
        victim = start_worker(place, tmp_path, lease_seconds=LEASE_SECONDS)
        try:
            wait_for_the_moment(place, scene, task.id, random)
            fall_asleep(victim)
            if place.client.tasks.get(task.id).state is TaskState.DONE:
                tally.late += 1
                continue
            slept += 1
            # By what it said before: asleep it says nothing.
            tally.stages[stage_of(place, task.id)] += 1
            finish(place, task.id, tally)
            assert look(bench, ref, tally) == before
            os.killpg(victim.process.pid, signal.SIGCONT)
            wait_until(lambda: ": lease lost" in victim.said(), "the worker detects the lost lease")  # noqa: B023  # waits here
            assert look(bench, ref, tally) == before
        finally:
            victim.kill()
    print(f"{job}: slept={slept} {tally}")
    assert (tally.finished, tally.missing) == (SLEEPS, 0)
