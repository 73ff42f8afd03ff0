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
async def rounds(store: ObjectStore, queue: TaskQueue) -> TieringTasks:
    await store.buckets.create(ROOT, "lake")
    await CatalogService(store.object_context, CatalogAuthorizer(store.object_context)).enable(ROOT, "lake")
    return tiering(store, queue, "lake", HostPort("streams.example", 9123))


def tiering(store: ObjectStore, queue: TaskQueue, warehouse: str, advertised: HostPort | None) -> TieringTasks:
    tasks = CatalogTasks(store.meta, store.object_context.outbox, store.clock, queue)
    return TieringTasks(store.meta, queue, tasks, warehouse, advertised)


async def news(store: ObjectStore) -> list[tuple[str, int]]:
    found = await store.object_context.outbox.read_after(store.meta, 0, 1000)
    return [
        (entry.event.kind, decode_event(entry.event.payload).task)
        for entry in found
        if entry.event.kind.startswith("lakebed:Task")
    ]


async def test_a_round_is_a_task_that_says_what_workers_need(
    store: ObjectStore, queue: TaskQueue, rounds: TieringTasks
) -> None:
    number = await rounds.submit("shop", "orders", "12 records")
    assert await rounds.submit("shop", "orders", "13 records") == number
    other = await rounds.submit("shop", "clicks", "1 record")
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
    assert await news(store) == [("lakebed:TaskPlanned", number), ("lakebed:TaskPlanned", other)]


async def test_how_a_round_ended_is_how_its_task_did(
    store: ObjectStore, queue: TaskQueue, rounds: TieringTasks
) -> None:
    done = await rounds.submit("shop", "done", "")
    assert await rounds.outcome(done) is TaskOutcome.OPEN
    (claim,) = await queue.claim(KINDS, "w", 60)
    assert await rounds.outcome(done) is TaskOutcome.OPEN

    async def complete(tx: object) -> None:
        await queue.complete(tx, claim, b"{}")  # type: ignore[arg-type]  # a transaction

    await store.meta.transact(complete)
    assert await rounds.outcome(done) is TaskOutcome.DONE
    dead = await rounds.submit("shop", "dead", "")
    (claim,) = await queue.claim(KINDS, "w", 60)
    await queue.fail(claim, "no", retry=True)
    assert await rounds.outcome(dead) is TaskOutcome.OPEN
    store.clock.advance(60)
    (claim,) = await queue.claim(KINDS, "w", 60)
    await queue.fail(claim, "never", retry=False)
    assert await rounds.outcome(dead) is TaskOutcome.GIVEN_UP
    assert await rounds.outcome(4711) is TaskOutcome.GIVEN_UP


async def test_a_round_that_nobody_has_begun_is_taken_back(
    store: ObjectStore, queue: TaskQueue, rounds: TieringTasks
) -> None:
    number = await rounds.submit("shop", "orders", "")
    await rounds.withdraw(number, "switched off")
    await rounds.withdraw(number, "switched off")
    assert not await queue.is_due(KINDS)
    assert await news(store) == [("lakebed:TaskPlanned", number), ("lakebed:TaskWithdrawn", number)]
    begun = await rounds.submit("shop", "orders", "")
    await queue.claim(KINDS, "w", 60)
    await rounds.withdraw(begun, "switched off")
    assert await rounds.outcome(begun) is TaskOutcome.OPEN


async def test_a_table_bucket_that_is_not_there_gets_no_tasks(store: ObjectStore, queue: TaskQueue) -> None:
    rounds = tiering(store, queue, "nowhere", None)
    with pytest.raises(NoSuchCatalog):
        await rounds.submit("shop", "orders", "")
    assert not await queue.is_due(KINDS)


async def test_tables_of_the_lake_are_tidied_up_by_the_jobs_of_tables(
    store: ObjectStore, queue: TaskQueue, rounds: TieringTasks
) -> None:
    for _ in range(2):
        await rounds.maintain("shop", "orders", compact=True, expire=True)
    await rounds.maintain("shop", "clicks", compact=False, expire=False)
    claims = await queue.claim([JobKind.COMPACT.value, JobKind.EXPIRE_SNAPSHOTS.value], "w", 60, limit=10)
    orders = [decode_spec(claim.task.payload) for claim in claims]
    assert sorted((spec.job.value, spec.namespace, spec.table) for spec in orders) == [
        ("compact-table", ("shop",), "orders"),
        ("expire-snapshots", ("shop",), "orders"),
    ]
