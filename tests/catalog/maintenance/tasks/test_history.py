from __future__ import annotations

from collections.abc import AsyncIterator
from pathlib import Path
from random import Random

import pytest

from lakebed.catalog.maintenance.tasks.history import PlanningMark, RunReport, read_report
from lakebed.core.clock import ManualClock
from lakebed.core.jobs import JobKind, TaskSpec
from lakebed.meta.migrations import migrate, product_migrations
from lakebed.meta.seam import MetaStore
from lakebed.meta.tasks import TaskQueue
from tests.catalog.maintenance.maintained_catalog import MaintainedCatalog
from tests.meta.stores import open_store

DONE = RunReport()


@pytest.fixture
async def store(tmp_path: Path) -> AsyncIterator[MetaStore]:
    store = await open_store(f"sqlite:{tmp_path / 'meta.db'}")
    yield store
    await store.close()


async def test_unsupported_tasks_of_earlier_releases_are_removed(store: MetaStore) -> None:
    steps = product_migrations()
    await migrate(store, [step for step in steps if step.version < 10])
    queue = TaskQueue(store, ManualClock(), Random(1))
    for kind in ("compact-table", "purge-table"):
        await store.transact(lambda tx, kind=kind: queue.enqueue(tx, kind, b"{}"))  # type: ignore[misc]
    await migrate(store)
    assert [task.kind for task in await queue.of_kinds(store, ["compact-table", "purge-table"])] == ["purge-table"]


async def test_removed_table_has_no_history(maintained: MaintainedCatalog) -> None:
    spec = TaskSpec(job=JobKind.COMPACT, entry="gone")
    records, meta = maintained.records, maintained.store.meta
    await meta.transact(lambda tx: records.succeeded(tx, 1, spec, None, DONE, 5))
    await meta.transact(lambda tx: records.failed(tx, 1, spec, 5))
    await meta.transact(lambda tx: records.forget_failures(tx, spec))
    await meta.transact(lambda tx: records.mark_planned(tx, "gone", PlanningMark("token", "mark", 5)))
    assert await records.runs(meta, ["gone"]) == {}
    assert await records.marks(meta, ["gone"]) == {}


async def test_failures_accumulate_until_a_success(maintained: MaintainedCatalog) -> None:
    await maintained.table()
    entry = (await maintained.known()).entry.id
    spec = TaskSpec(job=JobKind.COMPACT, entry=entry, options={"b": 1, "a": "x"})
    records, meta = maintained.records, maintained.store.meta

    async def run() -> tuple[int, int | None, int | None, str]:
        found = (await records.runs(meta, [entry]))[entry][JobKind.COMPACT]
        return found.failures, found.failed_ms, found.succeeded_ms, found.options

    await meta.transact(lambda tx: records.failed(tx, 1, spec, 5))
    await meta.transact(lambda tx: records.failed(tx, 2, spec, 6))
    assert await run() == (2, 6, None, "")
    await meta.transact(lambda tx: records.succeeded(tx, 3, spec, None, DONE, 7))
    assert await run() == (0, None, 7, '{"a":"x","b":1}')
    await meta.transact(lambda tx: records.failed(tx, 4, spec, 8))
    # The outcome before is kept, as it was reported.
    assert await run() == (1, 8, 7, '{"a":"x","b":1}')


async def test_planning_marks_are_read_for_many_tables(light_maintained: MaintainedCatalog) -> None:
    maintained = light_maintained
    records, meta = maintained.records, maintained.store.meta
    ids = []
    for number in range(66):
        await maintained.table(f"t{number}")
        ids.append((await maintained.known(f"t{number}")).entry.id)
    for number, entry in enumerate(ids):
        looked = PlanningMark("token", "mark", number)
        await meta.transact(lambda tx, entry=entry, looked=looked: records.mark_planned(tx, entry, looked))  # type: ignore[misc]
    found = await records.marks(meta, ids)
    assert {entry: looked.due_ms for entry, looked in found.items()} == {entry: n for n, entry in enumerate(ids)}
    assert await records.marks(meta, []) == {}
    await meta.transact(lambda tx: records.clear_mark(tx, ids[0]))
    assert set(await records.marks(meta, ids)) == set(ids[1:])


def test_report_is_parsed_as_jobs_write_it() -> None:
    written = b'{"job":"compact-table","dry-run":true,"read":{"files":1,"bytes":2,"rows":3},"seconds":4,"details":{}}'
    report = read_report(written)
    assert (report.dry_run, report.read.bytes, report.seconds, report.wrote.files) == (True, 2, 4.0, 0)
