"""A worker is killed during a job, or suspended longer than its lease: another worker finishes the job.

The verification job confirms that the table reads the same before and after, and that no referenced file is missing.
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

from .scenarios import SCENARIOS, Scenario, new_table

if TYPE_CHECKING:
    from pyspark.sql import SparkSession

pytestmark = [*SPARK_MARKS, pytest.mark.heavy]

KILLS: Final = int(os.environ.get("FAULT_KILLS", "10"))
"""Kills per job."""
SUSPENSIONS: Final = 2
DONE: Final = "done"
LEASE_SECONDS: Final = 3.0


@dataclass
class Tally:
    """The results of one run."""

    kills: int = 0
    late: int = 0
    """Jobs that finished before the kill, which do not count."""
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
def maintained(tmp_path_factory: pytest.TempPathFactory) -> Iterator[MaintainedLake]:
    """A server that plans no maintenance by itself."""
    folder = tmp_path_factory.mktemp("kills")
    quiet = ("--set", "pipeline.debounce=1h", "--set", "pipeline.schedule_interval=1h")
    with running_server(folder / "data", *quiet, workers=2) as server, maintained_lake(server, folder) as found:
        yield found


@pytest.fixture(scope="module")
def bench(spark: SparkSession, maintained: MaintainedLake) -> Bench:
    return new_bench(spark, maintained.lake, maintained.worker_keys)


def verify(bench: Bench, ref: TableRef, tally: Tally) -> tuple[Option, Option]:
    """The checksum and number of the rows of a table. Counts its problems."""
    table = bench.table(*ref.namespace)
    report = bench.do(JobKind.VERIFY, table, {"checksums": True, "all-snapshots": True})
    tally.missing += len(report.problems)
    assert report.is_well, report.problems
    return report.details["checksum"], report.details["live-rows"]


def wait_for_kill_point(maintained: MaintainedLake, scenario: Scenario, task_id: int, random: Random) -> None:
    """Wait until a worker is in the main stage of the job, or sometimes in any stage."""
    anywhere = random.random() < 0.2

    def is_reached() -> bool:
        stage = stage_of(maintained, task_id)
        return stage not in ("", "starting Spark") if anywhere else stage in (scenario.stage, DONE)

    wait_until(is_reached, f"{task_id} is worked on")
    time.sleep(random.uniform(0.0, scenario.longest_seconds))


def stage_of(maintained: MaintainedLake, task_id: int) -> str:
    """The last progress stage of a task."""
    task = maintained.client.tasks.get(task_id)
    return DONE if task.state is TaskState.DONE else str((task.progress or {}).get("stage", ""))


def finish(maintained: MaintainedLake, task_id: int, tally: Tally) -> None:
    """Let another worker take over the task after its lease expires."""
    (ended,) = run_tasks(maintained, own_runner(maintained))
    assert (ended.task.id, ended.summary) == (task_id, "done")
    assert ended.task.attempts == 2
    tally.finished += maintained.client.tasks.get(task_id).state is TaskState.DONE


def one_round(
    maintained: MaintainedLake,
    bench: Bench,
    scenario: Scenario,
    ref: TableRef,
    folder: Path,
    random: Random,
    tally: Tally,
) -> None:
    scenario.prepare(maintained, bench, ref, tally.kills + tally.late)
    before = verify(bench, ref, tally)
    task = maintained.submit(scenario.job, ref, **scenario.options)
    victim = start_worker(maintained, folder, lease_seconds=LEASE_SECONDS)
    try:
        wait_for_kill_point(maintained, scenario, task.id, random)
    finally:
        stage = stage_of(maintained, task.id)
        victim.kill(with_java=random.random() < 0.7)
    if maintained.client.tasks.get(task.id).state is TaskState.DONE:
        tally.late += 1
    else:
        tally.kills += 1
        tally.stages[stage] += 1
        finish(maintained, task.id, tally)
    tally.lost += verify(bench, ref, tally) != before


@pytest.mark.parametrize("job", list(SCENARIOS), ids=str)
def test_killed_worker_loses_nothing_and_another_finishes(
    maintained: MaintainedLake, bench: Bench, job: JobKind, tmp_path: Path
) -> None:
    random, tally = Random(SEED), Tally()
    ref = new_table(maintained, bench, maintained.namespace())
    try:
        while tally.kills < KILLS and not (tally.lost or tally.missing) and tally.late < 2 * KILLS:
            one_round(maintained, bench, SCENARIOS[job], ref, tmp_path, random, tally)
    finally:
        print(f"{job}: {tally}")
    assert (tally.kills, tally.finished, tally.lost, tally.missing) == (KILLS, KILLS, 0, 0)
    # Orphan removal finds the files of the killed workers, and no others.
    before = verify(bench, ref, tally)
    table = bench.table(*ref.namespace)
    cleaned = bench.do(JobKind.REMOVE_ORPHANS, table, {"older-than-ms": 0, "allow-young": True})
    print(f"{job}: orphans removed: {cleaned.removed.files} files")
    assert verify(bench, ref, tally) == before


def suspend(victim: RunningWorker) -> None:
    """Stop every process of a worker, like a suspended machine."""
    os.killpg(victim.process.pid, signal.SIGSTOP)


@pytest.mark.parametrize("job", list(SCENARIOS), ids=str)
def test_worker_suspended_longer_than_its_lease_does_no_harm_when_it_resumes(
    maintained: MaintainedLake, bench: Bench, job: JobKind, tmp_path: Path
) -> None:
    random, tally, scenario = Random(SEED), Tally(), SCENARIOS[job]
    ref = new_table(maintained, bench, maintained.namespace())
    suspended = 0
    while suspended < SUSPENSIONS:
        scenario.prepare(maintained, bench, ref, suspended + tally.late)
        before = verify(bench, ref, tally)
        task = maintained.submit(scenario.job, ref, **scenario.options)
        victim = start_worker(maintained, tmp_path, lease_seconds=LEASE_SECONDS)
        try:
            wait_for_kill_point(maintained, scenario, task.id, random)
            suspend(victim)
            if maintained.client.tasks.get(task.id).state is TaskState.DONE:
                tally.late += 1
                continue
            suspended += 1
            # The last stage before the suspension.
            tally.stages[stage_of(maintained, task.id)] += 1
            finish(maintained, task.id, tally)
            assert verify(bench, ref, tally) == before
            os.killpg(victim.process.pid, signal.SIGCONT)
            wait_until(lambda: ": lease lost" in victim.said(), "the worker detects the lost lease")  # noqa: B023  # waits here
            assert verify(bench, ref, tally) == before
        finally:
            victim.kill()
    print(f"{job}: suspended={suspended} {tally}")
    assert (tally.finished, tally.missing) == (SUSPENSIONS, 0)
