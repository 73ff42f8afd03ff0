from __future__ import annotations

import json
import re
import socket
import threading
import time
from collections import Counter
from collections.abc import Callable
from pathlib import Path

import pytest
from msgspec.structs import replace

from lakebed.client import LakebedClient, LeasedTask, TaskState
from lakebed.client.connection import ServerConnection
from lakebed.core.errors import (
    AccessDenied,
    AlreadyExists,
    Fenced,
    InvalidInput,
    NoSuchTable,
    NotFound,
    Unauthenticated,
)
from lakebed.core.jobs import JobKind, TaskSpec
from lakebed.core.sigv4 import signed_headers
from tests.clients.users import user_with_actions
from tests.fixtures.server import running_server

from .conftest import Lake, access_to

pytestmark = [pytest.mark.integration, pytest.mark.slow]

REPORT = {"job": "verify-table", "seconds": 1.5, "read": {"files": 3, "bytes": 99}}


def task_spec(lake: Lake, job: JobKind = JobKind.VERIFY, **options: bool) -> TaskSpec:
    table = lake.table()
    return TaskSpec(
        job=job, warehouse=table.warehouse, namespace=table.namespace, table=table.table, options=dict(options)
    )


def lease(lake: Lake, task_id: int, kind: JobKind = JobKind.VERIFY, lease_seconds: float = 60) -> LeasedTask:
    """Lease all tasks of a kind, and return the given one."""
    leased = lake.client.tasks.lease("worker-1", [kind], lease_seconds=lease_seconds, limit=100)
    return next(task for task in leased if task.id == task_id)


def test_task_is_submitted_leased_heartbeated_and_completed(lake: Lake) -> None:
    tasks = lake.client.tasks
    submitted = tasks.submit(task_spec(lake, checksums=True))
    task = submitted.task
    assert submitted.is_new
    assert (task.state, task.kind, task.attempts, task.worker) == (TaskState.READY, JobKind.VERIFY, 0, None)
    assert task.spec.options == {"checksums": True}
    assert task.spec.requested_by == "root"
    assert task.spec.entry
    again = tasks.submit(TaskSpec(job=JobKind.VERIFY, warehouse=task.spec.warehouse, namespace=("ns",), table="t"))
    assert (again.is_new, again.task.id) == (False, task.id)

    leased = lease(lake, task.id)
    assert (leased.state, leased.worker, leased.attempts, leased.token) == (TaskState.CLAIMED, "worker-1", 1, 1)
    assert tasks.heartbeat(leased, lease_seconds=60, progress={"files-done": 2}) == leased.spec
    seen = tasks.get(task.id)
    assert seen.progress == {"files-done": 2}
    assert seen.due_ms >= leased.due_ms

    tasks.complete(leased, REPORT)
    done = tasks.get(task.id)
    assert (done.state, done.report, done.failure) == (TaskState.DONE, REPORT, None)
    # Responses may be lost: repetitions are idempotent.
    tasks.complete(leased, REPORT)
    assert [one.id for one in tasks.list(state=TaskState.DONE, kind=JobKind.VERIFY)].count(task.id) == 1


def test_failed_task_is_retried_until_dead_and_redriven(lake: Lake) -> None:
    tasks = lake.client.tasks
    spec = task_spec(lake, JobKind.COMPUTE_STATISTICS)
    task_id = tasks.submit(spec).task.id
    leased = lease(lake, task_id, JobKind.COMPUTE_STATISTICS)
    assert tasks.fail(leased, "the engine did not start") is TaskState.READY
    seen = tasks.get(task_id)
    assert (seen.state, seen.failure, seen.worker) == (TaskState.READY, "the engine did not start", None)
    (leased,) = tasks.lease("w", [JobKind.COMPUTE_STATISTICS], lease_seconds=60, wait_seconds=30)
    assert (leased.id, leased.attempts) == (task_id, 2)
    assert tasks.fail(leased, "no such column", retry=False) is TaskState.DEAD
    assert [one.id for one in tasks.list(state=TaskState.DEAD, kind=JobKind.COMPUTE_STATISTICS)] == [task_id]

    redriven = tasks.redrive(task_id)
    assert (redriven.state, redriven.attempts) == (TaskState.READY, 0)
    with pytest.raises(NotFound, match="no such dead task"):
        tasks.redrive(task_id)
    leased = lease(lake, task_id, JobKind.COMPUTE_STATISTICS)
    tasks.fail(leased, "again", retry=False)
    replaced = tasks.submit(spec)
    assert replaced.is_new
    with pytest.raises(AlreadyExists):
        tasks.redrive(task_id)


def test_worker_with_a_lost_lease_gets_fenced(lake: Lake) -> None:
    tasks = lake.client.tasks
    task_id = tasks.submit(task_spec(lake, JobKind.REWRITE_LAYOUT)).task.id
    lost = lease(lake, task_id, JobKind.REWRITE_LAYOUT, lease_seconds=0.001)
    (taken,) = tasks.lease("worker-2", [JobKind.REWRITE_LAYOUT], lease_seconds=60, wait_seconds=30)
    assert (taken.id, taken.token) == (task_id, lost.token + 1)
    for speak in (
        lambda: tasks.heartbeat(lost, lease_seconds=60),
        lambda: tasks.complete(lost, REPORT),
        lambda: tasks.fail(lost, "too late"),
    ):
        with pytest.raises(Fenced):
            speak()
    tasks.complete(taken, REPORT)
    for speak in (lambda: tasks.heartbeat(taken, lease_seconds=60), lambda: tasks.fail(taken, "too late")):
        with pytest.raises(Fenced):
            speak()


def test_concurrent_workers_never_lease_the_same_task(lake: Lake) -> None:
    warehouse = lake.warehouse()
    expected = set()
    for number in range(20):
        table = lake.table(warehouse, f"t{number}")
        spec = TaskSpec(job=JobKind.EXPIRE_SNAPSHOTS, warehouse=warehouse, namespace=table.namespace, table=table.table)
        expected.add(lake.client.tasks.submit(spec).task.id)
    leased: Counter[int] = Counter()
    lock = threading.Lock()

    def work(name: str) -> None:
        with LakebedClient(access=access_to(lake.server)) as client:
            while taken := client.tasks.lease(name, [JobKind.EXPIRE_SNAPSHOTS], lease_seconds=60, limit=2):
                with lock:
                    leased.update(task.id for task in taken)
                for task in taken:
                    client.tasks.complete(task, REPORT)

    threads = [threading.Thread(target=work, args=(f"worker-{number}",)) for number in range(4)]
    for thread in threads:
        thread.start()
    for thread in threads:
        thread.join()
    assert leased == Counter(expected)


def test_lease_request_waits_for_a_task(lake: Lake) -> None:
    spec = task_spec(lake, JobKind.REMOVE_ORPHANS)
    leased: list[LeasedTask] = []

    def wait() -> None:
        with LakebedClient(access=access_to(lake.server)) as client:
            leased.extend(client.tasks.lease("w", [JobKind.REMOVE_ORPHANS], lease_seconds=60, wait_seconds=30))

    waiting = threading.Thread(target=wait)
    waiting.start()
    task_id = lake.client.tasks.submit(spec).task.id
    waiting.join()
    assert [task.id for task in leased] == [task_id]
    assert lake.client.tasks.lease("w", [JobKind.REMOVE_ORPHANS], lease_seconds=60, wait_seconds=0.01) == []


def test_waiting_lease_requests_end_when_the_server_stops(tmp_path: Path) -> None:
    """A long poll must not use up the shutdown grace."""
    with running_server(tmp_path / "data", "--set", "server.shutdown_grace=10s", workers=1) as server:
        responses: list[object] = []

        def wait(poll: Callable[[LakebedClient], object]) -> None:
            with LakebedClient(access=access_to(server)) as client:
                responses.append(poll(client))

        polls: list[Callable[[LakebedClient], object]] = [
            lambda client: client.tasks.lease("w", [JobKind.VERIFY], lease_seconds=60, wait_seconds=30),
            lambda client: client.events.read(1 << 40, wait_seconds=30).events,
        ]
        threads = [threading.Thread(target=wait, args=(poll,)) for poll in polls]
        observer = ServerConnection(access_to(server))
        # The connection of the readiness check may still be open, and must not be counted.
        wait_until(lambda: connections(observer) == 1)
        for thread in threads:
            thread.start()
        wait_until(lambda: connections(observer) == 3)
        observer.close()
        assert server.stop() == 0
        for thread in threads:
            thread.join()
        # A longer wait would have closed the connections without a response.
        assert responses == [[], []]


def test_disconnected_worker_gets_no_lease(lake: Lake) -> None:
    """Otherwise a task would stay leased to a worker that never got it."""
    spec = task_spec(lake, JobKind.REWRITE_MANIFESTS)
    body = json.dumps({"worker": "gone", "kinds": [spec.job], "lease-seconds": 3600, "wait-seconds": 30}).encode()
    access, host = access_to(lake.server), f"127.0.0.1:{lake.server.port}"
    headers = signed_headers(
        "POST",
        host=host,
        path="/lakebed/v1/tasks/claim",
        query="",
        headers={"content-length": str(len(body))},
        body=body,
        region=access.region,
        service="s3",
        credentials=access,
        now_ms=round(time.time() * 1000),
    )
    head = "".join(f"{name}: {value}\r\n" for name, value in headers.items())
    before = connections(lake.connection)
    with socket.create_connection(("127.0.0.1", lake.server.port)) as leaving:
        leaving.sendall(f"POST /lakebed/v1/tasks/claim HTTP/1.1\r\n{head}\r\n".encode() + body)
        wait_until(lambda: connections(lake.connection) == before + 1)
    wait_until(lambda: connections(lake.connection) == before)
    task_id = lake.client.tasks.submit(spec).task.id
    (leased,) = lake.client.tasks.lease("alive", [spec.job], lease_seconds=60, wait_seconds=30)
    assert (leased.id, leased.worker, leased.attempts) == (task_id, "alive", 1)


def connections(connection: ServerConnection) -> int:
    """The number of open connections of the server."""
    found = re.search(rb"^lakebed_connections (\d+)", connection.call("GET", "/metrics").body, re.MULTILINE)
    assert found is not None
    return int(found[1])


def wait_until(holds: Callable[[], bool]) -> None:
    deadline = time.monotonic() + 30
    while not holds():
        assert time.monotonic() < deadline, "timeout"
        time.sleep(0.01)


# -- permissions ------------------------------------------------------------------------------------------------------


def test_denied_request_names_the_permission(lake: Lake, tmp_path: Path) -> None:
    spec = task_spec(lake)
    task_id = lake.client.tasks.submit(spec).task.id
    user = user_with_actions(lake.server, tmp_path, "lakebed:ListTasks")
    with LakebedClient(access=access_to(lake.server, user.keys)) as looker:
        assert looker.tasks.get(task_id).id == task_id
        with pytest.raises(AccessDenied, match="lakebed:SubmitTask"):
            looker.tasks.submit(spec)
        with pytest.raises(AccessDenied, match="lakebed:RunTasks"):
            looker.tasks.lease("w", [JobKind.VERIFY], lease_seconds=60)


def test_unknown_access_key_is_rejected_with_advice(lake: Lake) -> None:
    wrong = LakebedClient(lake.server.endpoint, access_key_id=lake.server.access_key, secret_access_key="wrong")
    with wrong, pytest.raises((Unauthenticated, AccessDenied), match=r"signature.*access key"):
        wrong.tasks.get(1)


# -- errors -----------------------------------------------------------------------------------------------------


def test_unknown_task_is_not_found(lake: Lake) -> None:
    with pytest.raises(NotFound, match="no such task"):
        lake.client.tasks.get(1 << 40)
    table = lake.table()
    with pytest.raises(NoSuchTable):
        lake.client.tasks.submit(
            TaskSpec(job=JobKind.VERIFY, warehouse=table.warehouse, namespace=("ns",), table="none")
        )


def test_invalid_task_spec_is_rejected_by_field(lake: Lake) -> None:
    spec = task_spec(lake)
    with pytest.raises(InvalidInput, match="no option 'speed'"):
        lake.client.tasks.submit(replace(spec, options={"speed": 11}))
    with pytest.raises(InvalidInput, match="requested-by"):
        lake.client.tasks.submit(replace(spec, requested_by="another user"))
    with pytest.raises(InvalidInput, match="lease-seconds"):
        lake.client.tasks.lease("w", [JobKind.VERIFY], lease_seconds=0)
    with pytest.raises(InvalidInput, match="worker"):
        lake.client.tasks.lease("", [JobKind.VERIFY], lease_seconds=1)
