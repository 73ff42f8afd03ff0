"""A server with table maintenance, and workers for it: as processes or in this process."""

from __future__ import annotations

import os
import signal
import subprocess
import sys
import threading
import time
import uuid
from collections import defaultdict
from collections.abc import Callable, Iterator, Mapping, Sequence
from contextlib import contextmanager, suppress
from dataclasses import dataclass
from pathlib import Path
from typing import Final

from pyiceberg.table import Table

from lakebed.client import LakebedClient, ServerAccess, TableRef, Task, TaskState
from lakebed.client.policies import namespace_target
from lakebed.core.jobs import JobKind, Option, TaskSpec
from lakebed.core.secrets import Secret
from lakebed.core.settings import PipelineSettings
from lakebed.pipeline.spark.job_runner import SparkJobRunner
from lakebed.pipeline.worker import TaskResult, Worker
from tests.clients.boto import Keys
from tests.clients.iceberg.lake import Lake, new_lake
from tests.clients.iceberg.rows import SCHEMA, people
from tests.clients.users import user_with_actions
from tests.fixtures.server import RunningServer

SOON: Final = {"LAKEBED_PIPELINE__DEBOUNCE": "100ms", "LAKEBED_PIPELINE__SCHEDULE_INTERVAL": "1h"}
"""Settings of a server that plans soon after commits, and not by the timer."""

GUARD_SECONDS: Final = 300.0
"""Timeout of every wait. Starting Java takes a minute on a busy machine."""

WORKER_PERMISSIONS: Final = ("s3tables:*", "lakebed:RunTasks")
"""The permissions of a worker. None in S3: it uses vended credentials."""

_SMALL_JAVA: Final = "-XX:TieredStopAtLevel=1 -XX:+UseSerialGC"


@dataclass(frozen=True, slots=True)
class MaintainedLake:
    """A table bucket of a server with maintenance."""

    lake: Lake
    client: LakebedClient
    """A client with root's credentials."""
    worker_keys: Keys

    @property
    def worker_access(self) -> ServerAccess:
        return ServerAccess(self.lake.server.endpoint, self.worker_keys.access_key, Secret(self.worker_keys.secret_key))

    def namespace(self) -> str:
        """Create a namespace with a unique name."""
        name = f"ns_{uuid.uuid4().hex[:16]}"
        self.lake.call("POST", "namespaces", {"namespace": [name]})
        return name

    def attach(self, namespace: str, policy_type: str, **config: Option) -> str:
        """Attach a policy to a namespace; returns its name. Option names have underscores."""
        name, content = policy_type.rpartition(".")[2], {"enable": True, "config": dashed(config)}
        self.client.policies.create(self.lake.warehouse, (namespace,), name, policy_type, content)
        self.client.policies.attach(self.lake.warehouse, (namespace,), name, namespace_target((namespace,)))
        return name

    def table(self, namespace: str, name: str = "t", *, appends: int = 0, rows: int = 10) -> TableRef:
        """Create a table with one small file per append."""
        with self.lake.catalog() as catalog:
            table = catalog.create_table((namespace, name), SCHEMA)
            for number in range(appends):
                table.append(people(*range(number * rows, (number + 1) * rows)))
        return TableRef(self.lake.warehouse, (namespace,), name)

    @contextmanager
    def loaded(self, ref: TableRef) -> Iterator[Table]:
        """Load a table with PyIceberg."""
        with self.lake.catalog() as catalog:
            yield catalog.load_table((*ref.namespace, ref.table))

    def data_files(self, ref: TableRef) -> list[str]:
        """The paths of a table's current data files."""
        with self.loaded(ref) as table:
            return sorted(task.file.file_path for task in table.scan().plan_files())

    def rename(self, ref: TableRef, name: str) -> TableRef:
        document = {
            part: {"namespace": list(ref.namespace), "name": one}
            for part, one in (("source", ref.table), ("destination", name))
        }
        self.lake.call("POST", "tables/rename", document)
        return ref._replace(table=name)

    def drop(self, ref: TableRef) -> None:
        self.lake.call("DELETE", f"namespaces/{'.'.join(ref.namespace)}/tables/{ref.table}")

    def submit(self, job: JobKind, ref: TableRef, **options: Option) -> Task:
        """Submit a job. Option names have underscores."""
        spec = TaskSpec(
            job=job, warehouse=ref.warehouse, namespace=ref.namespace, table=ref.table, options=dashed(options)
        )
        return self.client.tasks.submit(spec).task

    def tasks_of(self, ref: TableRef) -> list[Task]:
        return [
            task
            for task in self.client.tasks.list()
            if (task.spec.namespace, task.spec.table) == (ref.namespace, ref.table)
        ]

    def task_events(self) -> dict[int, list[str]]:
        """The event kinds of each task in order, without their prefix."""
        events: dict[int, list[str]] = defaultdict(list)
        for page in self.client.events.pages(kinds=("lakebed:Task*",)):
            for event in page.events:
                events[event.payload["task"]].append(event.kind.removeprefix("lakebed:Task"))
        return events

    def wait_done(self, task_id: int) -> Task:
        """Wait until a task is done. It must not be dead."""
        wait_until(
            lambda: self.client.tasks.get(task_id).state in (TaskState.DONE, TaskState.DEAD), f"end of {task_id}"
        )
        task = self.client.tasks.get(task_id)
        assert task.state is TaskState.DONE, task.failure
        return task


@contextmanager
def maintained_lake(server: RunningServer, folder: Path) -> Iterator[MaintainedLake]:
    """A new table bucket of a server, with a worker's credentials."""
    keys = user_with_actions(server, folder, *WORKER_PERMISSIONS).keys
    root = ServerAccess(server.endpoint, server.access_key, Secret(server.secret_key))
    with LakebedClient(access=root) as client:
        yield MaintainedLake(new_lake(server), client, keys)


def dashed(options: Mapping[str, Option]) -> dict[str, Option]:
    """Options with dashes in their names."""
    return {name.replace("_", "-"): value for name, value in options.items()}


def wait_until(condition: Callable[[], bool], what: str) -> None:
    """Wait for a condition."""
    deadline = time.monotonic() + GUARD_SECONDS
    while not condition():
        if time.monotonic() > deadline:
            raise AssertionError(f"did not happen: {what}")
        time.sleep(0.05)


# -- a worker in this process ------------------------------------------------------------------------------------------


def run_tasks(
    maintained: MaintainedLake, engine: SparkJobRunner, *, count: int = 1, lease_seconds: float = 60.0
) -> list[TaskResult]:
    """Run `count` tasks with a worker in this process; returns their results."""
    results: list[TaskResult] = []
    stop = threading.Event()

    def report(result: TaskResult) -> None:
        results.append(result)
        if len(results) == count:
            stop.set()

    with LakebedClient(access=maintained.worker_access) as client:
        worker = Worker(
            client.tasks,
            engine,
            name="in this process",
            kinds=list(JobKind),
            lease_seconds=lease_seconds,
            idle_seconds=GUARD_SECONDS,
            on_result=report,
        )
        worker.run(stop)
    return results


def own_runner(maintained: MaintainedLake, kind: type[SparkJobRunner] = SparkJobRunner) -> SparkJobRunner:
    """A job runner with the Spark of this process, which a fixture started. Do not close it."""
    return kind(maintained.worker_access, PipelineSettings())


# -- workers as processes ----------------------------------------------------------------------------------------------


@dataclass(frozen=True, slots=True)
class RunningWorker:
    """A `lakebed pipeline worker` process with its own JVM."""

    name: str
    process: subprocess.Popen[bytes]
    log: Path

    def kill(self, *, with_java: bool = True) -> None:
        """Kill it with its JVM, as a power loss does, or without, as the OOM killer does."""
        pids = [self.process.pid, *descendants(self.process.pid)]
        if with_java:
            os.killpg(self.process.pid, signal.SIGKILL)
        else:
            self.process.kill()
        self.process.wait()
        wait_until(lambda: not any(is_alive(pid) for pid in pids), f"the end of {pids}")

    def stop(self) -> int:
        """Send SIGTERM and wait; returns the exit status."""
        self.process.terminate()
        return self.process.wait(GUARD_SECONDS)

    def said(self) -> str:
        return self.log.read_text(errors="replace")


def start_worker(
    maintained: MaintainedLake,
    folder: Path,
    *flags: str,
    name: str = "",
    lease_seconds: float = 60.0,
    environment: Mapping[str, str] | None = None,
    program: Sequence[str] = ("-m", "lakebed"),
) -> RunningWorker:
    """Start a worker with only its user's credentials."""
    name = name or f"worker-{uuid.uuid4().hex[:8]}"
    settings = folder / f"{name}.toml"
    settings.write_text(
        f'[pipeline]\nmaster = "local[2]"\ndriver_memory = "1GiB"\nlease = {lease_seconds}\n'
        f'[pipeline.spark]\n"spark.driver.extraJavaOptions" = "{_SMALL_JAVA}"\n"spark.sql.shuffle.partitions" = "2"\n'
    )
    kept = {one: value for one, value in os.environ.items() if not one.startswith(("LAKEBED_", "AWS_"))}
    access = {
        "LAKEBED_ENDPOINT": maintained.lake.server.endpoint,
        "LAKEBED_ACCESS_KEY": maintained.worker_keys.access_key,
        "LAKEBED_SECRET_KEY": maintained.worker_keys.secret_key,
        "AWS_EC2_METADATA_DISABLED": "true",
    }
    log = folder / f"{name}.log"
    command = [sys.executable, *program, "pipeline", "worker", "--config", str(settings), "--name", name, *flags]
    with log.open("ab") as output:
        process = subprocess.Popen(
            command, stdout=output, stderr=output, env={**kept, **access, **(environment or {})}, start_new_session=True
        )
    return RunningWorker(name, process, log)


@contextmanager
def running_worker(
    maintained: MaintainedLake, folder: Path, *flags: str, lease_seconds: float = 60.0
) -> Iterator[RunningWorker]:
    """A worker that runs during the block."""
    worker = start_worker(maintained, folder, *flags, lease_seconds=lease_seconds)
    try:
        yield worker
    finally:
        if worker.process.poll() is None:
            worker.kill()


def is_alive(pid: int) -> bool:
    """Whether the process runs and is not a zombie."""
    return state_of(pid)[0] not in "ZX"


def descendants(pid: int) -> list[int]:
    """The child processes of a process, and theirs."""
    children: dict[int, list[int]] = defaultdict(list)
    for path in Path("/proc").glob("[0-9]*"):
        children[state_of(int(path.name))[1]].append(int(path.name))
    found, next_ones = [], [pid]
    while next_ones:
        next_ones = [child for one in next_ones for child in children.get(one, ())]
        found += next_ones
    return found


def session_of(leader: int) -> list[int]:
    """The running processes of a session, whatever their parents."""
    found = []
    for path in Path("/proc").glob("[0-9]*"):
        pid = int(path.name)
        with suppress(ProcessLookupError):
            if os.getsid(pid) == leader and is_alive(pid):
                found.append(pid)
    return found


def java_of(leader: int) -> list[int]:
    """The JVMs of a session."""
    return [pid for pid in session_of(leader) if Path(command_of(pid).partition(" ")[0]).name == "java"]


def command_of(pid: int) -> str:
    """The command line of a process."""
    try:
        return Path(f"/proc/{pid}/cmdline").read_bytes().replace(b"\0", b" ").decode(errors="replace")
    except (FileNotFoundError, ProcessLookupError):
        return ""


def state_of(pid: int) -> tuple[str, int]:
    """State and parent of a process; `X` if it does not exist."""
    try:
        words = Path(f"/proc/{pid}/stat").read_text().rpartition(")")[2].split()
    except (FileNotFoundError, ProcessLookupError):
        return "X", 0
    return words[0], int(words[1])
