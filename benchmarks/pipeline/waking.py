"""How soon a worker begins with a task: with its first, for which it starts Spark, and with those that follow.

The worker is a process as an operator starts it. What counts is the time from when a task is due until its job begins,
by what everybody can see of it: when it was due, when its end was variables, and how long the job says that it took.
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
"""For a task that is not the worker's first."""
FILES: Final = 3
"""Of a table that is to be compacted."""

_GUARD_SECONDS: Final = 300.0
_LOOK_SECONDS: Final = 0.25
_SETTLED_SECONDS: Final = 2.0
"""After a task has ended, so that the worker waits for the next one when it comes."""


class Begun(msgspec.Struct, frozen=True):
    """How soon one worker began with its tasks."""

    first_seconds: float
    following_seconds: list[float]


def measure(server: Server, folder: Path, *, workers: int, tasks: int) -> list[Begun]:
    """Start workers, one after the other, each for so many tasks. Each task is about a table of its own."""
    access = access_to(server)
    folder.mkdir()
    found: list[Begun] = []
    for number in range(1, workers + 1):
        names = [f"worker_{number}_{index}" for index in range(tasks)]
        _make_tables(access, names)
        with LakebedClient(access=access) as client, _running_worker(access, folder / f"worker-{number}.log"):
            first, *following = (_began_after(client, name) for name in names)
        found.append(Begun(first, following))
        report_progress(f"worker {number}: first {first:.2f} s, then {', '.join(f'{one:.2f}' for one in following)} s")
    return found


def _began_after(client: LakebedClient, table: str) -> float:
    """Have a table compacted; the seconds that the task waited for its job to begin."""
    spec = TaskSpec(
        job=JobKind.COMPACT,
        warehouse=WAREHOUSE,
        namespace=(NAMESPACE,),
        table=table,
        options={"min-input-files": FILES},
    )
    ended = _ended(client, client.tasks.submit(spec).task.id)
    if ended.state is not TaskState.DONE or ended.report is None or ended.report["read"]["files"] != FILES:
        raise RuntimeError(f"the task was not done. task={ended}")
    time.sleep(_SETTLED_SECONDS)
    # What somebody asks for is due when it is asked for.
    return (ended.changed_ms - ended.created_ms) / 1000 - float(ended.report["seconds"])


def _ended(client: LakebedClient, task_id: int) -> Task:
    deadline = time.monotonic() + _GUARD_SECONDS
    while time.monotonic() < deadline:
        task = client.tasks.get(task_id)
        if task.state in (TaskState.DONE, TaskState.DEAD):
            return task
        time.sleep(_LOOK_SECONDS)
    raise RuntimeError(f"the task did not end. task={client.tasks.get(task_id)}")


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
    """`lakebed pipeline worker` with its defaults, stopped at the end."""
    kept = {name: value for name, value in os.environ.items() if not name.startswith(("LAKEBED_", "AWS_"))}
    variables = {
        "LAKEBED_ENDPOINT": access.endpoint,
        "LAKEBED_ACCESS_KEY": access.access_key_id,
        "LAKEBED_SECRET_KEY": access.secret_access_key.reveal(),
    }
    program = Path(sys.executable).with_name("lakebed")
    with log.open("wb") as output:
        process = subprocess.Popen(
            [program, "pipeline", "worker"], stdout=output, stderr=output, env={**kept, **variables}
        )
    try:
        yield
    except RuntimeError as error:
        error.add_note(f"worker's last output: {log.read_text(errors='replace')[-2000:]}")
        raise
    finally:
        process.terminate()
        try:
            process.wait(timeout=60)
        except subprocess.TimeoutExpired:
            process.kill()
            process.wait()
