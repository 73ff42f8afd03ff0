"""Delay until a worker starts a task: its first, for which it starts Spark, and later ones.

The worker is a process as an operator starts it. The delay is from the task's due time to the start of its job, which
is the time of completion minus the duration in the job's report.
"""

from __future__ import annotations

import os
import subprocess
import sys
import time
from collections.abc import Iterator
from contextlib import closing, contextmanager
from pathlib import Path
from typing import Final

import msgspec
import pyarrow as pa
from pyiceberg.catalog.rest import RestCatalog

from benchmarks.pipeline.site import NAMESPACE, WAREHOUSE, access_to
from benchmarks.servers import Server
from benchmarks.session import report_progress
from lakebed.client import LakebedClient, ServerAccess, Task, TaskState
from lakebed.core.jobs import JobKind, TaskSpec

GOAL_SECONDS: Final = 1.0
"""For later tasks."""
FILES: Final = 3
"""Files of a table to compact."""

_TIMEOUT_SECONDS: Final = 300.0
_POLL_SECONDS: Final = 0.25
_SETTLED_SECONDS: Final = 2.0
"""Pause after a task, so that the worker is waiting when the next one is due."""


class WorkerStart(msgspec.Struct, frozen=True):
    """Delays of one worker."""

    first_seconds: float
    following_seconds: list[float]


def measure(server: Server, folder: Path, *, workers: int, tasks: int) -> list[WorkerStart]:
    """Start workers one after the other, each for `tasks` tasks on different tables."""
    access = access_to(server)
    folder.mkdir()
    found: list[WorkerStart] = []
    for number in range(1, workers + 1):
        names = [f"worker_{number}_{index}" for index in range(tasks)]
        _make_tables(access, names)
        with LakebedClient(access=access) as client, _running_worker(access, folder / f"worker-{number}.log"):
            first, *following = (_start_delay(client, name) for name in names)
        found.append(WorkerStart(first, following))
        report_progress(f"worker {number}: first {first:.2f} s, then {', '.join(f'{one:.2f}' for one in following)} s")
    return found


def _start_delay(client: LakebedClient, table: str) -> float:
    """Submit a compaction; return the seconds until its job started."""
    spec = TaskSpec(
        job=JobKind.COMPACT,
        warehouse=WAREHOUSE,
        namespace=(NAMESPACE,),
        table=table,
        options={"min-input-files": FILES},
    )
    ended = _ended(client, client.tasks.submit(spec).task.id)
    if ended.state is not TaskState.DONE or ended.report is None or ended.report["read"]["files"] != FILES:
        raise RuntimeError(f"task failed. task={ended}")
    time.sleep(_SETTLED_SECONDS)
    # A submitted task is due at once.
    return (ended.changed_ms - ended.created_ms) / 1000 - float(ended.report["seconds"])


def _ended(client: LakebedClient, task_id: int) -> Task:
    deadline = time.monotonic() + _TIMEOUT_SECONDS
    while time.monotonic() < deadline:
        task = client.tasks.get(task_id)
        if task.state in (TaskState.DONE, TaskState.DEAD):
            return task
        time.sleep(_POLL_SECONDS)
    raise RuntimeError(f"task did not end. task={client.tasks.get(task_id)}")


def _make_tables(access: ServerAccess, names: list[str]) -> None:
    properties = {
        "uri": access.catalog_uri,
        "warehouse": WAREHOUSE,
        "rest.sigv4-enabled": "true",
        "rest.signing-name": "s3",
        "rest.signing-region": access.region,
        "client.access-key-id": access.access_key_id,
        "client.secret-access-key": access.secret_access_key.reveal(),
    }
    rows = pa.table({"id": list(range(100))})
    with closing(RestCatalog("lakebed", **properties)) as catalog:
        for name in names:
            table = catalog.create_table((NAMESPACE, name), rows.schema)
            for _ in range(FILES):
                table.append(rows)


@contextmanager
def _running_worker(access: ServerAccess, log: Path) -> Iterator[None]:
    """Run `lakebed pipeline worker` with its defaults."""
    inherited = {name: value for name, value in os.environ.items() if not name.startswith(("LAKEBED_", "AWS_"))}
    variables = {
        "LAKEBED_ENDPOINT": access.endpoint,
        "LAKEBED_ACCESS_KEY": access.access_key_id,
        "LAKEBED_SECRET_KEY": access.secret_access_key.reveal(),
    }
    program = Path(sys.executable).with_name("lakebed")
    with log.open("wb") as output:
        process = subprocess.Popen(
            [program, "pipeline", "worker"], stdout=output, stderr=output, env={**inherited, **variables}
        )
    try:
        yield
    except RuntimeError as error:
        error.add_note(f"end of the worker's log: {log.read_text(errors='replace')[-2000:]}")
        raise
    finally:
        process.terminate()
        try:
            process.wait(timeout=60)
        except subprocess.TimeoutExpired:
            process.kill()
            process.wait()
