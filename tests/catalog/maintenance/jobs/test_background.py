from __future__ import annotations

from typing import Any

import pytest

from lakebed.catalog.maintenance.jobs.execution import JobExecutor
from lakebed.catalog.maintenance.jobs.job_store import KEPT_MS
from lakebed.catalog.maintenance.jobs.model import JobStatus
from lakebed.core.errors import InvalidInput, Unavailable
from tests.catalog.harness import name, set_properties
from tests.catalog.maintenance.job_catalog import JobCatalog
from tests.objects.stores import ROOT


async def test_only_tables_with_background_maintenance_are_run(job_catalog: JobCatalog) -> None:
    tables = [await job_catalog.table(one) for one in ("a", "b", "c", "d")]
    for table in tables:
        await job_catalog.put(table, "data/orphan.parquet")
    job_catalog.age()
    await job_catalog.configure(tables[0], background_enabled=True, delete_enabled=True)
    await job_catalog.configure(tables[1], background_enabled=True)
    await job_catalog.configure(tables[2], background_enabled=True, worker_paused=True)
    report = await job_catalog.background.run_due()
    assert (report.jobs, report.failed, report.deleted) == (2, 0, 1)
    left = [key for key in await job_catalog.keys() if key.endswith("orphan.parquet")]
    assert len(left) == 3
    assert (await job_catalog.job(tables[1])).job.counts.deletable_objects == 1
    assert (await job_catalog.view(tables[2])).timeline == []
    assert (await job_catalog.view(tables[3])).timeline == []


async def test_default_of_the_table_bucket_enables_background_maintenance(job_catalog: JobCatalog) -> None:
    table, other = await job_catalog.table("a"), await job_catalog.table("b")
    default = await job_catalog.configure(table, background_enabled=True)
    await job_catalog.maintenance.configs.put(ROOT, "lake", table, None)
    await job_catalog.maintenance.configs.put_default(ROOT, "lake", default)
    await job_catalog.configure(other)
    assert (await job_catalog.background.run_due()).jobs == 1
    assert (await job_catalog.job(table)).job.config_source == "TABLE_BUCKET_DEFAULT"


async def test_tables_of_external_catalogs_are_skipped(job_catalog: JobCatalog) -> None:
    table = await job_catalog.table()
    await job_catalog.put(table, "data/orphan.parquet")
    job_catalog.age()
    await job_catalog.configure(table, background_enabled=True, delete_enabled=True)
    await job_catalog.catalog.make_external()
    async with job_catalog.catalog.unchanged():
        assert (await job_catalog.background.run_due()).jobs == 0
        with pytest.raises(InvalidInput, match="external catalog"):
            await job_catalog.run(table, delete=True)
        with pytest.raises(InvalidInput, match="external catalog"):
            await job_catalog.schedule(table)


async def test_table_is_run_again_after_a_possible_change(light_job_catalog: JobCatalog) -> None:
    job_catalog, table = light_job_catalog, await light_job_catalog.table()
    await job_catalog.configure(table, background_enabled=True, delete_enabled=True)
    run = job_catalog.background.run_due
    assert (await run()).jobs == 1
    # No file is young and nothing was committed.
    assert (await run()).jobs == 0
    job_catalog.age()
    assert (await run()).jobs == 0
    # After a commit, the table is run once the window has passed since the last run.
    await job_catalog.catalog.commit(table, set_properties(a="1"))
    assert (await run()).jobs == 1
    assert (await run()).jobs == 0
    # Files replaced just before are young: the table is run once more.
    job_catalog.age()
    assert (await run()).jobs == 1
    job_catalog.age()
    assert (await run()).jobs == 0
    # A failed writer leaves files without a commit: they are found a day later.
    await job_catalog.put(table, "data/orphan.parquet")
    job_catalog.age(86_400)
    report = await run()
    assert (report.jobs, report.deleted) == (1, 1)


async def test_data_of_expired_snapshots_is_removed_in_the_background(light_job_catalog: JobCatalog) -> None:
    job_catalog, table = light_job_catalog, await light_job_catalog.table()
    await job_catalog.configure(table, background_enabled=True, delete_enabled=True)
    first = await job_catalog.append(table)
    updates = await job_catalog.naming(table, await job_catalog.put(table, "data/new.parquet"), keep=False)
    await job_catalog.catalog.commit(table, *updates)
    job_catalog.age(100_000)
    await job_catalog.background.run_due()
    await job_catalog.catalog.commit(table, {"action": "remove-snapshots", "snapshot-ids": [first]})
    job_catalog.age(1)
    removed = 0
    for _ in range(4):
        removed += (await job_catalog.background.run_due()).deleted
        job_catalog.age()
    assert removed == 3
    await job_catalog.check_whole(table)


async def test_failed_job_is_retried_after_its_backoff(
    light_job_catalog: JobCatalog, monkeypatch: pytest.MonkeyPatch
) -> None:
    job_catalog, table = light_job_catalog, await light_job_catalog.table()
    await job_catalog.configure(
        table,
        background_enabled=True,
        max_retry_attempts=2,
        retry_initial_backoff_seconds=50,
        retry_max_backoff_seconds=50,
    )

    async def failing(self: JobExecutor, *arguments: Any, **how: Any) -> Any:
        raise Unavailable("no")

    monkeypatch.setattr(JobExecutor, "survey", failing)
    report = await job_catalog.background.run_due()
    assert (report.jobs, report.failed) == (1, 1)
    job_catalog.age(49)
    assert (await job_catalog.background.run_due()).jobs == 0
    monkeypatch.undo()
    job_catalog.age(1)
    assert (await job_catalog.background.run_due()).jobs == 1
    current = (await job_catalog.job(table)).job
    assert (current.status, current.attempt) == (JobStatus.SUCCESSFUL, 2)


async def test_failing_table_does_not_block_others(light_job_catalog: JobCatalog) -> None:
    job_catalog = light_job_catalog
    for one in ("a", "b"):
        await job_catalog.configure(await job_catalog.table(one), background_enabled=True)
    entry = await job_catalog.catalog.entry(name("a"))
    await job_catalog.store.meta.transact(
        lambda tx: tx.run("DELETE FROM objects WHERE key = ?", entry.metadata_at.removeprefix("s3://lake/"))
    )
    job_catalog.catalog.cache._kept.clear()
    report = await job_catalog.background.run_due()
    assert (report.jobs, report.failed) == (2, 1)


async def test_concurrently_dropped_table_is_skipped(
    light_job_catalog: JobCatalog, monkeypatch: pytest.MonkeyPatch
) -> None:
    job_catalog, table = light_job_catalog, await light_job_catalog.table()
    await job_catalog.configure(table, background_enabled=True)
    plain = JobExecutor.survey

    async def dropping(self: JobExecutor, *arguments: Any, **how: Any) -> Any:
        monkeypatch.undo()
        await job_catalog.catalog.drop()
        return await plain(self, *arguments, **how)

    monkeypatch.setattr(JobExecutor, "survey", dropping)
    assert (await job_catalog.background.run_due()).jobs == 0
    assert await job_catalog.store.meta.rows("SELECT * FROM maintenance_states") == []


async def test_old_jobs_are_deleted_except_the_current_one(light_job_catalog: JobCatalog) -> None:
    job_catalog, table = light_job_catalog, await light_job_catalog.table()
    await job_catalog.configure(table, background_enabled=True)
    await job_catalog.work(table)
    current = (await job_catalog.work(table)).job.id
    await job_catalog.configure(table, background_enabled=False)
    job_catalog.age(KEPT_MS / 1000)
    await job_catalog.background.run_due()
    assert len((await job_catalog.view(table)).timeline) == 2
    job_catalog.age(1)
    await job_catalog.background.run_due()
    assert [record.job.id for record in (await job_catalog.view(table)).timeline] == [current]
