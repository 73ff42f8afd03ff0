"""Two workers on one server share the tasks without duplicates."""

from __future__ import annotations

from collections import Counter
from pathlib import Path
from typing import Final

import pytest

from lakebed.client import TaskState
from lakebed.core.jobs import JobKind
from tests.clients.iceberg.rows import ids_of
from tests.fixtures.server import running_server
from tests.fixtures.spark import find_or_install_java
from tests.pipeline.bench import SPARK_MARKS
from tests.pipeline.maintenance_run import maintained_lake, running_worker, wait_until

pytestmark = [*SPARK_MARKS, pytest.mark.heavy]

TABLES: Final = 8
APPENDS: Final = 3
JOBS: Final = (JobKind.COMPACT, JobKind.REWRITE_MANIFESTS, JobKind.VERIFY)


def test_two_workers_share_tasks_without_duplicates(tmp_path: Path) -> None:
    find_or_install_java()
    # The scheduler plans nothing during the test.
    quiet = ("--set", "pipeline.debounce=1h", "--set", "pipeline.schedule_interval=1h")
    with (
        running_server(tmp_path / "data", *quiet, workers=2) as server,
        maintained_lake(server, tmp_path) as maintained,
    ):
        namespace = maintained.namespace()
        tables = [maintained.table(namespace, f"t{number}", appends=APPENDS) for number in range(TABLES)]
        # Leases shorter than the run: heartbeats extend them.
        with (
            running_worker(maintained, tmp_path, lease_seconds=5) as first,
            running_worker(maintained, tmp_path, lease_seconds=5) as second,
        ):
            tasks = [
                maintained.submit(job, ref, **({"min_input_files": 2} if job is JobKind.COMPACT else {})).id
                for ref in tables
                for job in JOBS
            ]

            def are_done() -> bool:
                return sum(task.state is TaskState.DONE for task in maintained.client.tasks.list()) == len(tasks)

            wait_until(are_done, "the end of all tasks")
            seen = {task.id: task for task in maintained.client.tasks.list()}
            by_worker = Counter(seen[number].worker for number in tasks)
            for worker in (first, second):
                assert worker.stop() == 0, worker.said()
        events = maintained.task_events()
        lines = [line for worker in (first, second) for line in worker.said().splitlines()[1:]]
        done = Counter(line.split()[0] for line in lines)
        print(f"tasks={len(tasks)} done={sum(done.values())} by_worker={sorted(by_worker.values())}")
        assert len(set(tasks)) == len(tasks) == TABLES * len(JOBS)
        assert [events[number] for number in tasks] == [["Planned", "Started", "Succeeded"]] * len(tasks)
        assert {seen[number].attempts for number in tasks} == {1}
        assert done == {str(job): TABLES for job in JOBS}
        assert by_worker.keys() == {first.name, second.name}
        for ref in tables:
            with maintained.loaded(ref) as table:
                replaced = [
                    one for one in table.snapshots() if one.summary and one.summary.operation.value == "replace"
                ]
                assert (len(table.snapshots()), len(replaced) <= 2) == (APPENDS + len(replaced), True)
                assert ids_of(table) == list(range(APPENDS * 10))
            assert len(maintained.data_files(ref)) == 1
