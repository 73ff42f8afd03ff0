"""Removal of files. Invariant: no table refers to a file that maintenance removed."""

from __future__ import annotations

import asyncio
from collections.abc import Awaitable, Callable
from contextlib import suppress
from typing import Any

import pytest

from lakebed.catalog import rows as catalog_rows
from lakebed.catalog.commits.commit_log import CommitRecord
from lakebed.catalog.commits.publishing import Publisher
from lakebed.catalog.diagnostics.commit_chain import ChainStatus, TableVersion, check_chain
from lakebed.catalog.idempotency import Mutation
from lakebed.catalog.identifiers import Identifier
from lakebed.catalog.maintenance.jobs import removal
from lakebed.catalog.maintenance.jobs.model import JobStatus
from lakebed.catalog.maintenance.reachability.files import ObjectState, Reason
from lakebed.core.errors import CommitConflict, Fenced, InvalidInput, LakebedError, Unavailable
from lakebed.meta.seam import MetaStore, Work
from lakebed.objects.config.versioning import Versioning
from tests.catalog.harness import FaultyStore, a_change, name, set_properties
from tests.catalog.maintenance.job_catalog import BODY, JobCatalog, states, wire_job_catalog
from tests.objects.consistency import check_tables
from tests.objects.stores import ROOT


async def with_orphan(job_catalog: JobCatalog, **config: Any) -> tuple[Identifier, str]:
    """A table with data and an old unreferenced file."""
    table = await job_catalog.table()
    await job_catalog.append(table)
    orphan = await job_catalog.put(table, "data/orphan.parquet")
    job_catalog.age()
    await job_catalog.configure(table, delete_enabled=True, **config)
    return table, orphan


async def test_only_unreferenced_files_are_removed(job_catalog: JobCatalog) -> None:
    table = await job_catalog.table()
    await job_catalog.append(table)
    await job_catalog.append(table)
    paths = ("data/o.parquet", "metadata/o-m0.avro", "data/a/o2.parquet")
    orphans = [await job_catalog.put(table, path) for path in paths]
    kept = await job_catalog.put(table, "data/notes.txt")
    job_catalog.age()
    young = await job_catalog.put(table, "data/young.parquet")
    await job_catalog.configure(table, delete_enabled=True)
    before = set(await job_catalog.keys())
    stored = await job_catalog.run(table, delete=True)
    assert stored.job.status is JobStatus.SUCCESSFUL, stored.job.failure_reason
    gone = before - set(await job_catalog.keys())
    assert gone == {location.removeprefix("s3://lake/") for location in orphans}
    assert stored.job.counts.deleted_objects == 3
    assert states(stored)["young.parquet"] is ObjectState.PENDING_SAFETY_WINDOW
    assert states(stored)["o.parquet"] is ObjectState.DELETED
    assert stored.job.counts.unrecognized_objects == 1
    assert {kept, young} <= {f"s3://lake/{key}" for key in await job_catalog.keys()}
    await job_catalog.check_whole(table)
    await check_tables(job_catalog.store)


async def test_metadata_files_outside_the_log_are_removed(job_catalog: JobCatalog) -> None:
    table = await job_catalog.table(properties={"write.metadata.previous-versions-max": "2"})
    for number in range(6):
        await job_catalog.catalog.commit(table, set_properties(a=str(number)))
    job_catalog.age()
    await job_catalog.configure(table, delete_enabled=True)
    stored = await job_catalog.run(table, delete=True, retain_recent_metadata_files=4)
    assert (stored.job.counts.retained_metadata_files, stored.job.counts.deleted_metadata_files) == (4, 3)
    stored = await job_catalog.run(table, delete=True)
    assert (stored.job.counts.retained_metadata_files, stored.job.counts.deleted_metadata_files) == (3, 1)
    kept = {location.rpartition("/")[2] for location in stored.findings.retained_metadata}
    assert kept == {key.rpartition("/")[2] for key in await job_catalog.keys()}
    # The table accepts further commits.
    await job_catalog.catalog.commit(table, set_properties(b="1"))


async def test_data_of_expired_snapshots_is_removed_after_the_window_and_tagged_data_never(
    job_catalog: JobCatalog,
) -> None:
    table = await job_catalog.table()
    first = await job_catalog.append(table)
    await job_catalog.catalog.commit(
        table, {"action": "set-snapshot-ref", "ref-name": "v1", "type": "tag", "snapshot-id": first}
    )
    paths = [await job_catalog.put(table, "data/second.parquet")]
    second = await job_catalog.naming(table, *paths, keep=False)
    await job_catalog.catalog.commit(table, *second)
    third = await job_catalog.naming(table, await job_catalog.put(table, "data/third.parquet"), keep=False)
    await job_catalog.catalog.commit(table, *third)
    job_catalog.age()
    await job_catalog.catalog.commit(table, {"action": "remove-snapshots", "snapshot-ids": [second[1]["snapshot-id"]]})
    await job_catalog.configure(table, delete_enabled=True)
    # A reader may have opened the snapshot just before.
    assert (await job_catalog.run(table, delete=True)).job.counts.deletable_objects == 0
    job_catalog.age()
    stored = await job_catalog.run(table, delete=True)
    assert stored.job.counts.deleted_objects == 3
    assert states(stored)["second.parquet"] is ObjectState.DELETED
    await job_catalog.check_whole(table)


async def test_dry_run_and_disabled_removal_change_nothing(job_catalog: JobCatalog) -> None:
    table, orphan = await with_orphan(job_catalog)
    await job_catalog.configure(table, delete_enabled=False)
    entry = await job_catalog.catalog.entry(table)
    keys = await job_catalog.keys()
    dry = await job_catalog.run(table)
    assert (dry.job.status, dry.job.counts.deletable_objects) == (JobStatus.SUCCESSFUL, 1)
    refused = await job_catalog.run(table, delete=True)
    assert (refused.job.status, refused.job.counts.deletable_objects) == (JobStatus.FAILED, 1)
    assert states(refused)[orphan.rpartition("/")[2]] is ObjectState.DELETABLE
    assert await job_catalog.keys() == keys
    assert await job_catalog.catalog.entry(table) == entry
    assert (await job_catalog.view(table)).current is None


async def test_removal_in_several_batches_is_one_commit_record(
    job_catalog: JobCatalog, monkeypatch: pytest.MonkeyPatch
) -> None:
    monkeypatch.setattr(removal, "_BATCH_FILES", 2)
    table = await job_catalog.table()
    await job_catalog.append(table)
    for number in range(5):
        await job_catalog.put(table, f"data/o{number}.parquet")
    job_catalog.age()
    await job_catalog.configure(table, delete_enabled=True)
    before = await job_catalog.catalog.entry(table)
    assert (await job_catalog.run(table, delete=True)).job.counts.deleted_objects == 5
    after = await job_catalog.catalog.entry(table)
    assert (after.metadata_at, after.generation) == (before.metadata_at, before.generation + 1)
    records = [CommitRecord(*row) for row in await job_catalog.store.meta.rows(catalog_rows.COMMITS_OF, after.id, 100)]
    line = check_chain(TableVersion(after.metadata_at, after.version_token), after.generation, records)
    assert line.status is ChainStatus.COMPLETE
    assert line.findings[0].operation == removal.OPERATION
    await job_catalog.append(table)
    await job_catalog.check_whole(table)


# -- commits at the same time ---------------------------------------------------------------------------------------


async def test_commit_that_adds_the_file_after_the_plan_prevents_its_removal(job_catalog: JobCatalog) -> None:
    table, orphan = await with_orphan(job_catalog, background_enabled=True)
    queued = await job_catalog.schedule(table)
    assert queued.job.counts.deletable_objects == 1
    await job_catalog.catalog.commit(table, *await job_catalog.naming(table, orphan))
    with pytest.raises(CommitConflict):
        await job_catalog.work(table)
    assert orphan.removeprefix("s3://lake/") in await job_catalog.keys()
    assert (await job_catalog.job(table)).job.status is JobStatus.FAILED
    await job_catalog.check_whole(table)


async def test_commit_between_plan_and_first_batch_aborts_the_removal(
    job_catalog: JobCatalog, monkeypatch: pytest.MonkeyPatch
) -> None:
    table, orphan = await with_orphan(job_catalog)
    plain = removal.Remover.remove

    async def late(self: removal.Remover, *arguments: Any) -> removal.Removal:
        await job_catalog.catalog.commit(table, *await job_catalog.naming(table, orphan))
        return await plain(self, *arguments)

    monkeypatch.setattr(removal.Remover, "remove", late)
    with pytest.raises(CommitConflict):
        await job_catalog.run(table, delete=True)
    await job_catalog.check_whole(table)
    assert (await job_catalog.job(table)).job.status is JobStatus.FAILED


async def test_commit_validated_before_the_removal_is_rejected_after_it(
    job_catalog: JobCatalog, monkeypatch: pytest.MonkeyPatch
) -> None:
    table, orphan = await with_orphan(job_catalog)
    updates = await job_catalog.naming(table, orphan)
    plain = Publisher.publish
    done: list[JobStatus] = []

    async def late(self: Publisher, *arguments: Any, **more: Any) -> Any:
        if not done:
            done.append((await job_catalog.run(table, delete=True)).job.status)
        return await plain(self, *arguments, **more)

    monkeypatch.setattr(Publisher, "publish", late)
    before = await job_catalog.catalog.metadata(table)
    with pytest.raises(InvalidInput, match="file does not exist"):
        await job_catalog.catalog.commit(table, *updates)
    assert done == [JobStatus.SUCCESSFUL]
    assert await job_catalog.catalog.metadata(table) == before
    await job_catalog.check_whole(table)


async def test_commit_of_other_files_is_validated_again_and_succeeds(
    job_catalog: JobCatalog, monkeypatch: pytest.MonkeyPatch
) -> None:
    table, orphan = await with_orphan(job_catalog)
    updates = await job_catalog.naming(table, await job_catalog.put(table, "data/new.parquet"))
    plain = Publisher.publish
    done: list[JobStatus] = []

    async def late(self: Publisher, *arguments: Any, **more: Any) -> Any:
        if not done:
            done.append((await job_catalog.run(table, delete=True)).job.status)
        return await plain(self, *arguments, **more)

    monkeypatch.setattr(Publisher, "publish", late)
    await job_catalog.catalog.commit(table, *updates)
    assert orphan.removeprefix("s3://lake/") not in await job_catalog.keys()
    await job_catalog.check_whole(table)


async def test_concurrent_removals_and_commits_never_lose_a_referenced_file(job_catalog: JobCatalog) -> None:
    table = await job_catalog.table()
    await job_catalog.append(table)
    orphans = [await job_catalog.put(table, f"data/o{number}.parquet") for number in range(12)]
    job_catalog.age()
    await job_catalog.configure(table, delete_enabled=True)
    other = wire_job_catalog(job_catalog.catalog, job_catalog.store.meta)
    outcomes: list[str] = []

    async def attempt(work: Callable[[], Awaitable[object]], what: str) -> None:
        try:
            await work()
            outcomes.append(what)
        except (CommitConflict, Fenced, LakebedError) as error:
            outcomes.append(type(error).__name__)

    async def revive(orphan: str) -> None:
        change = a_change(table, *await other.naming(table, orphan))
        await other.catalog.commits.commit(Mutation(ROOT), "lake", change)

    async def remove() -> None:
        for _ in range(6):
            await attempt(lambda: job_catalog.run(table, delete=True), "removed")
            await asyncio.sleep(0)

    async def commit() -> None:
        for orphan in orphans:
            await attempt(lambda orphan=orphan: revive(orphan), "revived")  # type: ignore[misc]  # a lambda's default

    await asyncio.gather(remove(), commit())
    await job_catalog.check_whole(table)
    await check_tables(job_catalog.store)
    assert "removed" in outcomes or "revived" in outcomes


# -- what is looked at again ----------------------------------------------------------------------------------------


async def between_plan_and_removal(
    job_catalog: JobCatalog, monkeypatch: pytest.MonkeyPatch, table: Identifier, act: Callable[[], Awaitable[object]]
) -> Any:
    plain = removal.Remover.remove

    async def late(self: removal.Remover, *arguments: Any) -> removal.Removal:
        await act()
        return await plain(self, *arguments)

    monkeypatch.setattr(removal.Remover, "remove", late)
    return await job_catalog.run(table, delete=True)


async def test_rewritten_file_is_kept(job_catalog: JobCatalog, monkeypatch: pytest.MonkeyPatch) -> None:
    table, orphan = await with_orphan(job_catalog)
    stored = await between_plan_and_removal(
        job_catalog, monkeypatch, table, lambda: job_catalog.put(table, "data/orphan.parquet", b"other")
    )
    assert stored.job.counts.deleted_objects == 0
    (report,) = [one for one in stored.findings.objects if one.location == orphan]
    assert (report.state, report.reasons[-1]) == (ObjectState.RETAINED, Reason.CHANGED_SINCE_PLAN)
    assert await job_catalog.store.get("lake", orphan.removeprefix("s3://lake/")) == b"other"


async def test_already_deleted_file_is_ignored(job_catalog: JobCatalog, monkeypatch: pytest.MonkeyPatch) -> None:
    table, orphan = await with_orphan(job_catalog)
    key = orphan.removeprefix("s3://lake/")
    before = await job_catalog.catalog.entry(table)
    stored = await between_plan_and_removal(
        job_catalog, monkeypatch, table, lambda: job_catalog.store.delete("lake", key)
    )
    assert (stored.job.status, stored.job.counts.deleted_objects) == (JobStatus.SUCCESSFUL, 0)
    assert (await job_catalog.catalog.entry(table)).version_token == before.version_token


async def test_metadata_file_of_another_registered_table_is_kept(job_catalog: JobCatalog) -> None:
    """It lies in the directory of a table that does not need it."""
    table = await job_catalog.table(properties={"write.metadata.previous-versions-max": "1"})
    other = await job_catalog.table("other")
    entry = await job_catalog.catalog.entry(other)
    copy = await job_catalog.put(
        table, "metadata/copy.metadata.json", await job_catalog.catalog.files.read(entry.metadata_at)
    )
    await job_catalog.catalog.drop("other")
    await job_catalog.catalog.registration.register_table(Mutation(ROOT), "lake", name("again"), copy)
    job_catalog.age()
    await job_catalog.configure(table, delete_enabled=True)
    stored = await job_catalog.run(table, delete=True)
    (report,) = [one for one in stored.findings.metadata if one.location == copy]
    assert (report.state, report.reasons[-1]) == (ObjectState.RETAINED, Reason.IN_USE)
    assert (await job_catalog.catalog.metadata(name("again"))).location


async def test_files_with_unusual_names_are_removed(job_catalog: JobCatalog) -> None:
    table = await job_catalog.table()
    home = await job_catalog.directory(table)
    odd = {f"{home}data//a.parquet", f"{home}data/../b.parquet", f"{home}data/\u00e9 %2F\\\n.parquet"}
    for key in odd:
        await job_catalog.store.put("lake", key, BODY)
    job_catalog.age()
    await job_catalog.configure(table, delete_enabled=True)
    stored = await job_catalog.run(table, delete=True)
    assert (stored.job.status, stored.job.counts.deleted_objects) == (JobStatus.SUCCESSFUL, 3)
    assert not odd & set(await job_catalog.keys())


async def test_files_of_other_tables_are_never_removed(job_catalog: JobCatalog) -> None:
    table = await job_catalog.table("t", location="s3://lake/x/t")
    near = await job_catalog.table("t10", location="s3://lake/x/t10")
    await job_catalog.append(near)
    await job_catalog.put(near, "data/orphan.parquet")
    await job_catalog.store.put("lake", "x/orphan.parquet", BODY)
    job_catalog.age()
    await job_catalog.configure(table, delete_enabled=True)
    before = await job_catalog.keys()
    assert (await job_catalog.run(table, delete=True)).job.counts.cleanup_candidate_objects == 0
    assert await job_catalog.keys() == before


async def test_concurrently_dropped_table_keeps_its_files(
    job_catalog: JobCatalog, monkeypatch: pytest.MonkeyPatch
) -> None:
    await job_catalog.catalog.set_undrop_window(1000)
    table, orphan = await with_orphan(job_catalog)
    with pytest.raises(CommitConflict):
        await between_plan_and_removal(job_catalog, monkeypatch, table, job_catalog.catalog.drop)
    assert orphan.removeprefix("s3://lake/") in await job_catalog.keys()


async def test_removal_adds_delete_markers_in_a_versioned_bucket(job_catalog: JobCatalog) -> None:
    await job_catalog.store.buckets.set_versioning(ROOT, "lake", Versioning.ENABLED)
    table, orphan = await with_orphan(job_catalog)
    assert (await job_catalog.run(table, delete=True)).job.counts.deleted_objects == 1
    key = orphan.removeprefix("s3://lake/")
    assert key not in await job_catalog.keys()
    versions = await job_catalog.store.meta.rows("SELECT is_marker FROM versions WHERE key = ? ORDER BY rank", key)
    assert [row[0] for row in versions] == [1, 0]
    await check_tables(job_catalog.store)


# -- workers that end -----------------------------------------------------------------------------------------------


class Killed(BaseException):
    """The process ends: its failure is not recorded either."""


class DyingStore(FaultyStore):
    """A metadata store of a process that ends after a number of transactions."""

    def __init__(self, inner: MetaStore, left: int) -> None:
        super().__init__(inner)
        self._left = left

    async def transact(self, work: Work[Any]) -> Any:
        if self._left == 0:
            raise Killed
        self._left -= 1
        return await super().transact(work)


async def test_worker_without_its_lease_removes_nothing(
    job_catalog: JobCatalog, monkeypatch: pytest.MonkeyPatch
) -> None:
    table, orphan = await with_orphan(job_catalog, background_enabled=True)
    key = orphan.removeprefix("s3://lake/")
    plain = removal.Remover.remove
    first = True

    async def slow(self: removal.Remover, *arguments: Any) -> removal.Removal:
        nonlocal first
        if first:
            first = False
            job_catalog.age(1000)
            # Another worker takes the expired lease and finishes before this one continues.
            assert (await job_catalog.work(table, "w2")).job.counts.deleted_objects == 1
            await job_catalog.put(table, "data/orphan.parquet")
            job_catalog.age()
        return await plain(self, *arguments)

    monkeypatch.setattr(removal.Remover, "remove", slow)
    with pytest.raises(Fenced):
        await job_catalog.work(table, "w1")
    assert key in await job_catalog.keys()
    timeline = (await job_catalog.view(table)).timeline
    assert [(one.job.worker_id, one.job.status) for one in timeline] == [
        ("w2", JobStatus.SUCCESSFUL),
        ("w1", JobStatus.FAILED),
    ]


@pytest.mark.parametrize("quarantine", [False, True])
async def test_removal_continues_after_a_killed_worker(
    job_catalog: JobCatalog, monkeypatch: pytest.MonkeyPatch, quarantine: bool
) -> None:
    monkeypatch.setattr(removal, "_BATCH_FILES", 2)
    table = await job_catalog.table()
    await job_catalog.append(table)
    orphans = {
        (await job_catalog.put(table, f"data/o{number}.parquet")).removeprefix("s3://lake/") for number in range(6)
    }
    job_catalog.age()
    held = {"quarantine_enabled": True, "quarantine_retention_seconds": 60} if quarantine else {}
    await job_catalog.configure(table, delete_enabled=True, background_enabled=True, **held)

    for step in range(8):
        removed = wire_job_catalog(job_catalog.catalog, DyingStore(job_catalog.store.meta, step))
        with suppress(Killed):
            await removed.work(table)
        await job_catalog.check_whole(table)
        await check_tables(job_catalog.store)
        there = set(await job_catalog.keys()) & orphans
        aside = {key.partition("/data/")[2] for key in await job_catalog.held()}
        # A file is in place, in quarantine, or removed; never two of these.
        assert {key.rpartition("/")[2] for key in there}.isdisjoint(aside)
        if quarantine:
            assert len(there) + len(aside) == len(orphans)
        job_catalog.age(1000)
    done = await job_catalog.work(table)
    assert done.job.status is JobStatus.SUCCESSFUL
    assert not set(await job_catalog.keys()) & orphans
    assert len(await job_catalog.held()) == (len(orphans) if quarantine else 0)
    await check_tables(job_catalog.store)


async def test_lost_response_fails_the_job_and_the_next_one_continues(
    job_catalog: JobCatalog, monkeypatch: pytest.MonkeyPatch
) -> None:
    table, orphan = await with_orphan(job_catalog)
    meta = FaultyStore(job_catalog.store.meta)
    unsure = wire_job_catalog(job_catalog.catalog, meta)
    plain = removal.Remover.remove

    async def losing(self: removal.Remover, *arguments: Any) -> removal.Removal:
        meta.lost = Unavailable("lost", undecided=True)
        return await plain(self, *arguments)

    monkeypatch.setattr(removal.Remover, "remove", losing)
    stored = await unsure.run(table, delete=True)
    assert stored.job.status is JobStatus.FAILED
    # The removal committed although its response was lost, and was counted in its transaction.
    assert stored.job.counts.deleted_objects == 1
    assert orphan.removeprefix("s3://lake/") not in await job_catalog.keys()
    monkeypatch.undo()
    assert (await job_catalog.run(table, delete=True)).job.status is JobStatus.SUCCESSFUL
    await check_tables(job_catalog.store)
