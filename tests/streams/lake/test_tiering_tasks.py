from __future__ import annotations

import random
from collections.abc import AsyncIterator
from pathlib import Path

import pytest

from lakebed.catalog.access.authorization import CatalogAuthorizer
from lakebed.catalog.catalogs.service import CatalogService
from lakebed.catalog.maintenance.tasks.catalog_tasks import CatalogTasks
from lakebed.catalog.maintenance.tasks.events import decode_event
from lakebed.core.clock import ManualClock
from lakebed.core.errors import NoSuchCatalog
from lakebed.core.jobs import JobKind, decode_spec
from lakebed.core.settings import HostPort
from lakebed.meta.tasks import TaskQueue
from lakebed.streams.lake.planner import TaskOutcome
from lakebed.streams.lake.tiering_tasks import TieringTasks
from tests.objects.stores import ROOT, ObjectStore, opened_store

KINDS = [JobKind.TIER_STREAM.value]


@pytest.fixture
async def store(tmp_path: Path) -> AsyncIterator[ObjectStore]:
    async with opened_store(f"sqlite:{tmp_path / 'meta.db'}", "memory", tmp_path, ManualClock()) as opened:
        yield opened


@pytest.fixture
def queue(store: ObjectStore) -> TaskQueue:
    return TaskQueue(store.meta, store.clock, random.Random(1))


@pytest.fixture
async def tasks(store: ObjectStore, queue: TaskQueue) -> TieringTasks:
    await store.buckets.create(ROOT, "lake")
    await CatalogService(store.object_context, CatalogAuthorizer(store.object_context)).enable(ROOT, "lake")
    return tiering(store, queue, "lake", HostPort("streams.example", 9123))


def tiering(store: ObjectStore, queue: TaskQueue, catalog: str, advertised: HostPort | None) -> TieringTasks:
    tasks = CatalogTasks(store.meta, store.object_context.outbox, store.clock, queue)
    return TieringTasks(store.meta, queue, tasks, catalog, advertised)


async def task_events(store: ObjectStore) -> list[tuple[str, int]]:
    found = await store.object_context.outbox.read_after(store.meta, 0, 1000)
    return [
        (entry.event.kind, decode_event(entry.event.payload).task)
        for entry in found
        if entry.event.kind.startswith("lakebed:Task")
    ]


async def test_task_describes_the_stream_table(store: ObjectStore, queue: TaskQueue, tasks: TieringTasks) -> None:
    number = await tasks.submit("shop", "orders", "12 records")
    assert await tasks.submit("shop", "orders", "13 records") == number
    other = await tasks.submit("shop", "clicks", "1 record")
    assert other != number
    spec = decode_spec((await queue.find(store.meta, number)).payload)
    assert (spec.job, spec.warehouse, spec.namespace, spec.table) == (
        JobKind.TIER_STREAM,
        "lake",
        ("shop",),
        "orders",
    )
    assert spec.options == {"stream": "shop.orders", "streams": "streams.example:9123"}
    assert (spec.reason, spec.requested_by) == ("12 records", "scheduler")
    assert await task_events(store) == [("lakebed:TaskPlanned", number), ("lakebed:TaskPlanned", other)]


async def test_outcome_of_a_task(store: ObjectStore, queue: TaskQueue, tasks: TieringTasks) -> None:
    done = await tasks.submit("shop", "done", "")
    assert await tasks.outcome(done) is TaskOutcome.OPEN
    (claim,) = await queue.claim(KINDS, "w", 60)
    assert await tasks.outcome(done) is TaskOutcome.OPEN

    async def complete(tx: object) -> None:
        await queue.complete(tx, claim, b"{}")  # type: ignore[arg-type]  # a transaction

    await store.meta.transact(complete)
    assert await tasks.outcome(done) is TaskOutcome.DONE
    dead = await tasks.submit("shop", "dead", "")
    (claim,) = await queue.claim(KINDS, "w", 60)
    await queue.fail(claim, "no", retry=True)
    assert await tasks.outcome(dead) is TaskOutcome.OPEN
    store.clock.advance(60)
    (claim,) = await queue.claim(KINDS, "w", 60)
    await queue.fail(claim, "never", retry=False)
    assert await tasks.outcome(dead) is TaskOutcome.GIVEN_UP
    assert await tasks.outcome(4711) is TaskOutcome.GIVEN_UP


async def test_unclaimed_task_is_withdrawn(store: ObjectStore, queue: TaskQueue, tasks: TieringTasks) -> None:
    number = await tasks.submit("shop", "orders", "")
    await tasks.withdraw(number, "switched off")
    await tasks.withdraw(number, "switched off")
    assert not await queue.is_due(KINDS)
    assert await task_events(store) == [("lakebed:TaskPlanned", number), ("lakebed:TaskWithdrawn", number)]
    claimed = await tasks.submit("shop", "orders", "")
    await queue.claim(KINDS, "w", 60)
    await tasks.withdraw(claimed, "switched off")
    assert await tasks.outcome(claimed) is TaskOutcome.OPEN


async def test_missing_catalog_is_rejected(store: ObjectStore, queue: TaskQueue) -> None:
    tasks = tiering(store, queue, "nowhere", None)
    with pytest.raises(NoSuchCatalog):
        await tasks.submit("shop", "orders", "")
    assert not await queue.is_due(KINDS)


async def test_lake_tables_are_maintained_by_table_maintenance_tasks(
    store: ObjectStore, queue: TaskQueue, tasks: TieringTasks
) -> None:
    for _ in range(2):
        await tasks.maintain("shop", "orders", compact=True, expire=True)
    await tasks.maintain("shop", "clicks", compact=False, expire=False)
    claims = await queue.claim([JobKind.COMPACT.value, JobKind.EXPIRE_SNAPSHOTS.value], "w", 60, limit=10)
    orders = [decode_spec(claim.task.payload) for claim in claims]
    assert sorted((spec.job.value, spec.namespace, spec.table) for spec in orders) == [
        ("compact-table", ("shop",), "orders"),
        ("expire-snapshots", ("shop",), "orders"),
    ]
