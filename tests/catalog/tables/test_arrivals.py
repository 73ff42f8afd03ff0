from __future__ import annotations

import random
from collections.abc import AsyncIterator
from pathlib import Path

import pytest

from lakebed.catalog.tables.arrivals import Arrival, ArrivalRecorder, Arrivals, Destination
from lakebed.core.clock import ManualClock
from lakebed.core.errors import AccessDenied
from lakebed.core.jobs import JobKind, decode_spec
from lakebed.meta.tasks import TaskQueue, TaskState
from tests.objects.stores import ROOT, ObjectStore, opened_store, user

SALES = Destination("lake", ("raw",), "sales")
OTHER = Destination("lake", ("raw",), "other")


@pytest.fixture
async def store(tmp_path: Path) -> AsyncIterator[ObjectStore]:
    async with opened_store(f"sqlite:{tmp_path / 'meta.db'}", "memory", tmp_path, ManualClock()) as opened:
        yield opened


@pytest.fixture
def queue(store: ObjectStore) -> TaskQueue:
    return TaskQueue(store.meta, store.clock, random.Random(1))


@pytest.fixture
def intake(store: ObjectStore, queue: TaskQueue) -> ArrivalRecorder:
    return ArrivalRecorder(store.meta, store.object_context.outbox, store.clock, queue)


@pytest.fixture
def arrivals(store: ObjectStore) -> Arrivals:
    return Arrivals(store.object_context)


def a_file(event: int) -> Arrival:
    return Arrival(event=event, source=f"landing/in/{event}.csv", etag=f"e{event}", bytes=event, format="csv")


async def open_tasks(store: ObjectStore, queue: TaskQueue) -> list[TaskState]:
    return [task.state for task in await queue.of_kinds(store.meta, [JobKind.INGEST])]


async def test_files_are_recorded_once_with_one_task_per_table(
    store: ObjectStore, queue: TaskQueue, intake: ArrivalRecorder, arrivals: Arrivals
) -> None:
    for event in (3, 1, 3):
        await intake.arrive(SALES, a_file(event))
    await intake.arrive(OTHER, a_file(2))
    assert await arrivals.list(ROOT, SALES, after=0, limit=10) == [a_file(1), a_file(3)]
    assert await arrivals.list(ROOT, SALES, after=1, limit=10) == [a_file(3)]
    assert await arrivals.list(ROOT, SALES, after=0, limit=1) == [a_file(1)]
    tasks = await queue.of_kinds(store.meta, [JobKind.INGEST])
    assert [decode_spec(task.payload).table for task in tasks] == ["sales", "other"]


async def test_added_files_are_removed_from_the_record(intake: ArrivalRecorder, arrivals: Arrivals) -> None:
    for event in (1, 2):
        await intake.arrive(SALES, a_file(event))
    for _ in range(2):
        await arrivals.take(ROOT, SALES, [1])
        assert await arrivals.list(ROOT, SALES, after=0, limit=10) == [a_file(2)]


async def test_file_arriving_during_a_task_queues_another_task(
    store: ObjectStore, queue: TaskQueue, intake: ArrivalRecorder
) -> None:
    await intake.arrive(SALES, a_file(1))
    (first,) = await queue.claim([JobKind.INGEST], "w", 60)
    for event in (2, 3):
        await intake.arrive(SALES, a_file(event))
    assert await open_tasks(store, queue) == [TaskState.CLAIMED, TaskState.READY]
    # The second task is running too, while the first still is.
    await queue.claim([JobKind.INGEST], "v", 60)
    await intake.arrive(SALES, a_file(4))
    assert await open_tasks(store, queue) == [TaskState.CLAIMED, TaskState.CLAIMED, TaskState.READY]
    await store.meta.transact(lambda tx: queue.complete(tx, first))
    await intake.arrive(SALES, a_file(5))
    assert (await open_tasks(store, queue)).count(TaskState.READY) >= 1


async def test_arrivals_require_permission_to_run_tasks(arrivals: Arrivals) -> None:
    caller = user("unprivileged")
    with pytest.raises(AccessDenied):
        await arrivals.list(caller, SALES, after=0, limit=1)
    with pytest.raises(AccessDenied):
        await arrivals.take(caller, SALES, [1])
