from __future__ import annotations

from typing import Any

import pytest

from lakebed.catalog.maintenance.jobs.execution import JobExecutor
from lakebed.catalog.maintenance.jobs.job_store import KEPT_MS
from lakebed.catalog.maintenance.jobs.model import JobStatus
from lakebed.core.errors import InvalidInput, Unavailable
from tests.catalog.harness import name, set_properties
from tests.catalog.maintenance.workshop import Workshop
from tests.objects.stores import ROOT


async def test_tables_are_seen_to_that_ask_for_it_and_no_others(workshop: Workshop) -> None:
    tables = [await workshop.table(one) for one in ("a", "b", "c", "d")]
    for table in tables:
        await workshop.put(table, "data/orphan.parquet")
    workshop.age()
    await workshop.configure(tables[0], background_enabled=True, delete_enabled=True)
    await workshop.configure(tables[1], background_enabled=True)
    await workshop.configure(tables[2], background_enabled=True, worker_paused=True)
    report = await workshop.background.run_due()
    assert (report.jobs, report.failed, report.deleted) == (2, 0, 1)
    left = [key for key in await workshop.keys() if key.endswith("orphan.parquet")]
    assert len(left) == 3
    assert (await workshop.job(tables[1])).job.counts.deletable_objects == 1
    assert (await workshop.view(tables[2])).timeline == []
    assert (await workshop.view(tables[3])).timeline == []


async def test_the_default_of_a_bucket_is_enough(workshop: Workshop) -> None:
    table, other = await workshop.table("a"), await workshop.table("b")
    default = await workshop.configure(table, background_enabled=True)
    await workshop.maintenance.configs.put(ROOT, "lake", table, None)
    await workshop.maintenance.configs.put_default(ROOT, "lake", default)
    await workshop.configure(other)
    assert (await workshop.background.run_due()).jobs == 1
    assert (await workshop.job(table)).job.config_source == "TABLE_BUCKET_DEFAULT"


async def test_tables_of_external_catalogs_are_left_alone(workshop: Workshop) -> None:
    table = await workshop.table()
    await workshop.put(table, "data/orphan.parquet")
    workshop.age()
    await workshop.configure(table, background_enabled=True, delete_enabled=True)
    await workshop.catalog.become_external()
    async with workshop.catalog.unchanged():
        assert (await workshop.background.run_due()).jobs == 0
        with pytest.raises(InvalidInput, match="external catalog"):
            await workshop.run(table, delete=True)
        with pytest.raises(InvalidInput, match="external catalog"):
            await workshop.schedule(table)


async def test_a_table_is_looked_at_again_when_something_can_have_changed(light_workshop: Workshop) -> None:
    workshop, table = light_workshop, await light_workshop.table()
    await workshop.configure(table, background_enabled=True, delete_enabled=True)
    run = workshop.background.run_due
    assert (await run()).jobs == 1
    # Nothing is young and nothing was committed.
    assert (await run()).jobs == 0
    workshop.age()
    assert (await run()).jobs == 0
    # A commit: looked at once the window has passed since the last look.
    await workshop.catalog.commit(table, set_properties(a="1"))
    assert (await run()).jobs == 1
    assert (await run()).jobs == 0
    # What was replaced a moment ago is young: it is looked at once more.
    workshop.age()
    assert (await run()).jobs == 1
    workshop.age()
    assert (await run()).jobs == 0
    # A writer that failed leaves files without a commit: a day later they are found.
    await workshop.put(table, "data/orphan.parquet")
    workshop.age(86_400)
    report = await run()
    assert (report.jobs, report.deleted) == (1, 1)


async def test_data_of_expired_snapshots_goes_by_itself(light_workshop: Workshop) -> None:
    workshop, table = light_workshop, await light_workshop.table()
    await workshop.configure(table, background_enabled=True, delete_enabled=True)
    first = await workshop.append(table)
    updates = await workshop.naming(table, await workshop.put(table, "data/new.parquet"), keep=False)
    await workshop.catalog.commit(table, *updates)
    workshop.age(100_000)
    await workshop.background.run_due()
    await workshop.catalog.commit(table, {"action": "remove-snapshots", "snapshot-ids": [first]})
    workshop.age(1)
    removed = 0
    for _ in range(4):
        removed += (await workshop.background.run_due()).deleted
        workshop.age()
    assert removed == 3
    await workshop.check_whole(table)


async def test_a_job_that_failed_is_tried_again_when_its_pause_is_over(
    light_workshop: Workshop, monkeypatch: pytest.MonkeyPatch
) -> None:
    workshop, table = light_workshop, await light_workshop.table()
    await workshop.configure(
        table,
        background_enabled=True,
        max_retry_attempts=2,
        retry_initial_backoff_seconds=50,
        retry_max_backoff_seconds=50,
    )

    async def failing(self: JobExecutor, *arguments: Any, **how: Any) -> Any:
        raise Unavailable("no")

    monkeypatch.setattr(JobExecutor, "survey", failing)
    report = await workshop.background.run_due()
    assert (report.jobs, report.failed) == (1, 1)
    workshop.age(49)
    assert (await workshop.background.run_due()).jobs == 0
    monkeypatch.undo()
    workshop.age(1)
    assert (await workshop.background.run_due()).jobs == 1
    current = (await workshop.job(table)).job
    assert (current.status, current.attempt) == (JobStatus.SUCCESSFUL, 2)


async def test_a_table_that_cannot_be_seen_to_does_not_keep_others_waiting(light_workshop: Workshop) -> None:
    workshop = light_workshop
    for one in ("a", "b"):
        await workshop.configure(await workshop.table(one), background_enabled=True)
    entry = await workshop.catalog.entry(name("a"))
    await workshop.store.meta.transact(
        lambda tx: tx.run("DELETE FROM objects WHERE key = ?", entry.metadata_at.removeprefix("s3://lake/"))
    )
    workshop.catalog.cache._kept.clear()
    report = await workshop.background.run_due()
    assert (report.jobs, report.failed) == (2, 1)


async def test_a_table_that_is_dropped_while_it_is_its_turn_is_passed_over(
    light_workshop: Workshop, monkeypatch: pytest.MonkeyPatch
) -> None:
    workshop, table = light_workshop, await light_workshop.table()
    await workshop.configure(table, background_enabled=True)
    plain = JobExecutor.survey

    async def dropping(self: JobExecutor, *arguments: Any, **how: Any) -> Any:
        monkeypatch.undo()
        await workshop.catalog.drop()
        return await plain(self, *arguments, **how)

    monkeypatch.setattr(JobExecutor, "survey", dropping)
    assert (await workshop.background.run_due()).jobs == 0
    assert await workshop.store.meta.rows("SELECT * FROM maintenance_states") == []


async def test_jobs_of_long_ago_are_forgotten_but_for_the_current_one(light_workshop: Workshop) -> None:
    workshop, table = light_workshop, await light_workshop.table()
    await workshop.configure(table, background_enabled=True)
    await workshop.work(table)
    current = (await workshop.work(table)).job.id
    await workshop.configure(table, background_enabled=False)
    workshop.age(KEPT_MS / 1000)
    await workshop.background.run_due()
    assert len((await workshop.view(table)).timeline) == 2
    workshop.age(1)
    await workshop.background.run_due()
    assert [record.job.id for record in (await workshop.view(table)).timeline] == [current]
