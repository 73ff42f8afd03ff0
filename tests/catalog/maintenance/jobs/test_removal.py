"""What is removed, and the sentence that must hold: no table refers to a file that maintenance took away."""

from __future__ import annotations

import asyncio
from collections.abc import Awaitable, Callable
from contextlib import suppress
from typing import Any

import pytest

from lakebed.catalog import rows as catalog_rows
from lakebed.catalog.commits.commit_log import CommitRecord
from lakebed.catalog.commits.publishing import Publisher
from lakebed.catalog.diagnostics.chain import LineStatus, State, walk
from lakebed.catalog.idempotency import Mutation
from lakebed.catalog.identifiers import Identifier
from lakebed.catalog.maintenance.jobs import removal
from lakebed.catalog.maintenance.jobs.model import JobStatus
from lakebed.catalog.maintenance.reachability.files import ObjectState, Reason
from lakebed.core.errors import CommitConflict, Fenced, InvalidInput, LakebedError, Unavailable
from lakebed.meta.seam import MetaStore, Work
from lakebed.objects.config.versioning import Versioning
from tests.catalog.harness import Eventful, a_change, name, set_properties
from tests.catalog.maintenance.workshop import BODY, Workshop, states, wire_workshop
from tests.objects.consistency import check_tables
from tests.objects.stores import ROOT


async def with_orphan(workshop: Workshop, **config: Any) -> tuple[Identifier, str]:
    """A table with data, and a file of it that nothing refers to and that is old enough."""
    table = await workshop.table()
    await workshop.append(table)
    orphan = await workshop.put(table, "data/orphan.parquet")
    workshop.age()
    await workshop.configure(table, delete_enabled=True, **config)
    return table, orphan


async def test_unreferenced_files_go_and_all_others_stay(workshop: Workshop) -> None:
    table = await workshop.table()
    await workshop.append(table)
    await workshop.append(table)
    paths = ("data/o.parquet", "metadata/o-m0.avro", "data/a/o2.parquet")
    orphans = [await workshop.put(table, path) for path in paths]
    kept = await workshop.put(table, "data/notes.txt")
    workshop.age()
    young = await workshop.put(table, "data/young.parquet")
    await workshop.configure(table, delete_enabled=True)
    before = set(await workshop.keys())
    stored = await workshop.run(table, delete=True)
    assert stored.job.status is JobStatus.SUCCESSFUL, stored.job.failure_reason
    gone = before - set(await workshop.keys())
    assert gone == {location.removeprefix("s3://lake/") for location in orphans}
    assert stored.job.counts.deleted_objects == 3
    assert states(stored)["young.parquet"] is ObjectState.PENDING_SAFETY_WINDOW
    assert states(stored)["o.parquet"] is ObjectState.DELETED
    assert stored.job.counts.unrecognized_objects == 1
    assert {kept, young} <= {f"s3://lake/{key}" for key in await workshop.keys()}
    await workshop.check_whole(table)
    await check_tables(workshop.store)


async def test_metadata_files_that_left_the_log_go(workshop: Workshop) -> None:
    table = await workshop.table(properties={"write.metadata.previous-versions-max": "2"})
    for number in range(6):
        await workshop.catalog.commit(table, set_properties(a=str(number)))
    workshop.age()
    await workshop.configure(table, delete_enabled=True)
    stored = await workshop.run(table, delete=True, retain_recent_metadata_files=4)
    assert (stored.job.counts.retained_metadata_files, stored.job.counts.deleted_metadata_files) == (4, 3)
    stored = await workshop.run(table, delete=True)
    assert (stored.job.counts.retained_metadata_files, stored.job.counts.deleted_metadata_files) == (3, 1)
    kept = {location.rpartition("/")[2] for location in stored.findings.retained_metadata}
    assert kept == {key.rpartition("/")[2] for key in await workshop.keys()}
    # The table works on as if nothing had been.
    await workshop.catalog.commit(table, set_properties(b="1"))


async def test_data_of_expired_snapshots_goes_after_the_window_and_that_of_tags_never(workshop: Workshop) -> None:
    table = await workshop.table()
    first = await workshop.append(table)
    await workshop.catalog.commit(
        table, {"action": "set-snapshot-ref", "ref-name": "v1", "type": "tag", "snapshot-id": first}
    )
    paths = [await workshop.put(table, "data/second.parquet")]
    second = await workshop.naming(table, *paths, keep=False)
    await workshop.catalog.commit(table, *second)
    third = await workshop.naming(table, await workshop.put(table, "data/third.parquet"), keep=False)
    await workshop.catalog.commit(table, *third)
    workshop.age()
    await workshop.catalog.commit(table, {"action": "remove-snapshots", "snapshot-ids": [second[1]["snapshot-id"]]})
    await workshop.configure(table, delete_enabled=True)
    # Somebody may have begun to read the snapshot a moment ago.
    assert (await workshop.run(table, delete=True)).job.counts.deletable_objects == 0
    workshop.age()
    stored = await workshop.run(table, delete=True)
    assert stored.job.counts.deleted_objects == 3
    assert states(stored)["second.parquet"] is ObjectState.DELETED
    await workshop.check_whole(table)


async def test_a_dry_run_and_a_removal_that_is_not_allowed_change_nothing(workshop: Workshop) -> None:
    table, orphan = await with_orphan(workshop)
    await workshop.configure(table, delete_enabled=False)
    entry = await workshop.catalog.entry(table)
    keys = await workshop.keys()
    dry = await workshop.run(table)
    assert (dry.job.status, dry.job.counts.deletable_objects) == (JobStatus.SUCCESSFUL, 1)
    refused = await workshop.run(table, delete=True)
    assert (refused.job.status, refused.job.counts.deletable_objects) == (JobStatus.FAILED, 1)
    assert states(refused)[orphan.rpartition("/")[2]] is ObjectState.DELETABLE
    assert await workshop.keys() == keys
    assert await workshop.catalog.entry(table) == entry
    assert (await workshop.view(table)).current is None


async def test_a_removal_of_more_than_a_batch_is_one_line_of_the_log(
    workshop: Workshop, monkeypatch: pytest.MonkeyPatch
) -> None:
    monkeypatch.setattr(removal, "_A_COMMIT", 2)
    table = await workshop.table()
    await workshop.append(table)
    for number in range(5):
        await workshop.put(table, f"data/o{number}.parquet")
    workshop.age()
    await workshop.configure(table, delete_enabled=True)
    before = await workshop.catalog.entry(table)
    assert (await workshop.run(table, delete=True)).job.counts.deleted_objects == 5
    after = await workshop.catalog.entry(table)
    assert (after.metadata_at, after.generation) == (before.metadata_at, before.generation + 1)
    records = [CommitRecord(*row) for row in await workshop.store.meta.rows(catalog_rows.COMMITS_OF, after.id, 100)]
    line = walk(State(after.metadata_at, after.version_token), after.generation, records)
    assert line.status is LineStatus.COMPLETE
    assert line.findings[0].operation == removal.OPERATION
    await workshop.append(table)
    await workshop.check_whole(table)


# -- commits at the same time ---------------------------------------------------------------------------------------


async def test_a_commit_that_names_the_file_between_plan_and_removal_wins(workshop: Workshop) -> None:
    table, orphan = await with_orphan(workshop, background_enabled=True)
    queued = await workshop.schedule(table)
    assert queued.job.counts.deletable_objects == 1
    await workshop.catalog.commit(table, *await workshop.naming(table, orphan))
    with pytest.raises(CommitConflict):
        await workshop.work(table)
    assert orphan.removeprefix("s3://lake/") in await workshop.keys()
    assert (await workshop.job(table)).job.status is JobStatus.FAILED
    await workshop.check_whole(table)


async def test_a_commit_between_the_plan_and_the_first_batch_wins(
    workshop: Workshop, monkeypatch: pytest.MonkeyPatch
) -> None:
    table, orphan = await with_orphan(workshop)
    plain = removal.Remover.remove

    async def late(self: removal.Remover, *arguments: Any) -> removal.Removal:
        await workshop.catalog.commit(table, *await workshop.naming(table, orphan))
        return await plain(self, *arguments)

    monkeypatch.setattr(removal.Remover, "remove", late)
    with pytest.raises(CommitConflict):
        await workshop.run(table, delete=True)
    await workshop.check_whole(table)
    assert (await workshop.job(table)).job.status is JobStatus.FAILED


async def test_a_commit_that_was_checked_before_the_removal_is_refused_after_it(
    workshop: Workshop, monkeypatch: pytest.MonkeyPatch
) -> None:
    table, orphan = await with_orphan(workshop)
    updates = await workshop.naming(table, orphan)
    plain = Publisher.publish
    done: list[JobStatus] = []

    async def late(self: Publisher, *arguments: Any, **more: Any) -> Any:
        if not done:
            done.append((await workshop.run(table, delete=True)).job.status)
        return await plain(self, *arguments, **more)

    monkeypatch.setattr(Publisher, "publish", late)
    before = await workshop.catalog.metadata(table)
    with pytest.raises(InvalidInput, match="not there"):
        await workshop.catalog.commit(table, *updates)
    assert done == [JobStatus.SUCCESSFUL]
    assert await workshop.catalog.metadata(table) == before
    await workshop.check_whole(table)


async def test_a_commit_of_other_files_is_only_checked_again(
    workshop: Workshop, monkeypatch: pytest.MonkeyPatch
) -> None:
    table, orphan = await with_orphan(workshop)
    updates = await workshop.naming(table, await workshop.put(table, "data/new.parquet"))
    plain = Publisher.publish
    done: list[JobStatus] = []

    async def late(self: Publisher, *arguments: Any, **more: Any) -> Any:
        if not done:
            done.append((await workshop.run(table, delete=True)).job.status)
        return await plain(self, *arguments, **more)

    monkeypatch.setattr(Publisher, "publish", late)
    await workshop.catalog.commit(table, *updates)
    assert orphan.removeprefix("s3://lake/") not in await workshop.keys()
    await workshop.check_whole(table)


async def test_removals_and_commits_that_revive_files_never_leave_a_hole(workshop: Workshop) -> None:
    table = await workshop.table()
    await workshop.append(table)
    orphans = [await workshop.put(table, f"data/o{number}.parquet") for number in range(12)]
    workshop.age()
    await workshop.configure(table, delete_enabled=True)
    other = wire_workshop(workshop.catalog, workshop.store.meta)
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
            await attempt(lambda: workshop.run(table, delete=True), "removed")
            await asyncio.sleep(0)

    async def commit() -> None:
        for orphan in orphans:
            await attempt(lambda orphan=orphan: revive(orphan), "revived")  # type: ignore[misc]  # a lambda's default

    await asyncio.gather(remove(), commit())
    await workshop.check_whole(table)
    await check_tables(workshop.store)
    assert "removed" in outcomes or "revived" in outcomes


# -- what is looked at again ----------------------------------------------------------------------------------------


async def between_plan_and_removal(
    workshop: Workshop, monkeypatch: pytest.MonkeyPatch, table: Identifier, act: Callable[[], Awaitable[object]]
) -> Any:
    plain = removal.Remover.remove

    async def late(self: removal.Remover, *arguments: Any) -> removal.Removal:
        await act()
        return await plain(self, *arguments)

    monkeypatch.setattr(removal.Remover, "remove", late)
    return await workshop.run(table, delete=True)


async def test_a_file_that_was_written_anew_stays(workshop: Workshop, monkeypatch: pytest.MonkeyPatch) -> None:
    table, orphan = await with_orphan(workshop)
    stored = await between_plan_and_removal(
        workshop, monkeypatch, table, lambda: workshop.put(table, "data/orphan.parquet", b"other")
    )
    assert stored.job.counts.deleted_objects == 0
    (report,) = [one for one in stored.findings.objects if one.location == orphan]
    assert (report.state, report.reasons[-1]) == (ObjectState.RETAINED, Reason.CHANGED_SINCE_PLAN)
    assert await workshop.store.get("lake", orphan.removeprefix("s3://lake/")) == b"other"


async def test_a_file_that_went_by_itself_is_nothing(workshop: Workshop, monkeypatch: pytest.MonkeyPatch) -> None:
    table, orphan = await with_orphan(workshop)
    key = orphan.removeprefix("s3://lake/")
    before = await workshop.catalog.entry(table)
    stored = await between_plan_and_removal(workshop, monkeypatch, table, lambda: workshop.store.delete("lake", key))
    assert (stored.job.status, stored.job.counts.deleted_objects) == (JobStatus.SUCCESSFUL, 0)
    assert (await workshop.catalog.entry(table)).version_token == before.version_token


async def test_a_metadata_file_that_another_table_was_registered_with_stays(workshop: Workshop) -> None:
    """It lies in the directory of a table that does not need it."""
    table = await workshop.table(properties={"write.metadata.previous-versions-max": "1"})
    other = await workshop.table("other")
    entry = await workshop.catalog.entry(other)
    copy = await workshop.put(
        table, "metadata/copy.metadata.json", await workshop.catalog.files.read(entry.metadata_at)
    )
    await workshop.catalog.drop("other")
    await workshop.catalog.registration.register_table(Mutation(ROOT), "lake", name("again"), copy)
    workshop.age()
    await workshop.configure(table, delete_enabled=True)
    stored = await workshop.run(table, delete=True)
    (report,) = [one for one in stored.findings.metadata if one.location == copy]
    assert (report.state, report.reasons[-1]) == (ObjectState.RETAINED, Reason.IN_USE)
    assert (await workshop.catalog.metadata(name("again"))).location


async def test_files_with_odd_names_go_like_others(workshop: Workshop) -> None:
    table = await workshop.table()
    home = await workshop.home(table)
    odd = {f"{home}data//a.parquet", f"{home}data/../b.parquet", f"{home}data/\u00e9 %2F\\\n.parquet"}
    for key in odd:
        await workshop.store.put("lake", key, BODY)
    workshop.age()
    await workshop.configure(table, delete_enabled=True)
    stored = await workshop.run(table, delete=True)
    assert (stored.job.status, stored.job.counts.deleted_objects) == (JobStatus.SUCCESSFUL, 3)
    assert not odd & set(await workshop.keys())


async def test_files_of_a_neighbour_are_never_looked_at(workshop: Workshop) -> None:
    table = await workshop.table("t", location="s3://lake/x/t")
    near = await workshop.table("t10", location="s3://lake/x/t10")
    await workshop.append(near)
    await workshop.put(near, "data/orphan.parquet")
    await workshop.store.put("lake", "x/orphan.parquet", BODY)
    workshop.age()
    await workshop.configure(table, delete_enabled=True)
    before = await workshop.keys()
    assert (await workshop.run(table, delete=True)).job.counts.cleanup_candidate_objects == 0
    assert await workshop.keys() == before


async def test_a_table_that_was_dropped_meanwhile_loses_nothing(
    workshop: Workshop, monkeypatch: pytest.MonkeyPatch
) -> None:
    await workshop.catalog.keep_dropped(1000)
    table, orphan = await with_orphan(workshop)
    with pytest.raises(CommitConflict):
        await between_plan_and_removal(workshop, monkeypatch, table, workshop.catalog.drop)
    assert orphan.removeprefix("s3://lake/") in await workshop.keys()


async def test_in_a_versioned_bucket_a_removal_hides(workshop: Workshop) -> None:
    await workshop.store.buckets.set_versioning(ROOT, "lake", Versioning.ENABLED)
    table, orphan = await with_orphan(workshop)
    assert (await workshop.run(table, delete=True)).job.counts.deleted_objects == 1
    key = orphan.removeprefix("s3://lake/")
    assert key not in await workshop.keys()
    versions = await workshop.store.meta.rows("SELECT is_marker FROM versions WHERE key = ? ORDER BY rank", key)
    assert [row[0] for row in versions] == [1, 0]
    await check_tables(workshop.store)


# -- workers that end -----------------------------------------------------------------------------------------------


class Killed(BaseException):
    """The process ends here: not even its last words are recorded."""


class Mortal(Eventful):
    """A metadata store of a process that ends after so many transactions."""

    def __init__(self, inner: MetaStore, left: int) -> None:
        super().__init__(inner)
        self._left = left

    async def transact(self, work: Work[Any]) -> Any:
        if self._left == 0:
            raise Killed
        self._left -= 1
        return await super().transact(work)


async def test_a_worker_that_was_given_up_removes_nothing_more(
    workshop: Workshop, monkeypatch: pytest.MonkeyPatch
) -> None:
    table, orphan = await with_orphan(workshop, background_enabled=True)
    key = orphan.removeprefix("s3://lake/")
    plain = removal.Remover.remove
    first = True

    async def slow(self: removal.Remover, *arguments: Any) -> removal.Removal:
        nonlocal first
        if first:
            first = False
            workshop.age(1000)
            # Somebody else finds the lease over, and is done before this one goes on.
            assert (await workshop.work(table, "w2")).job.counts.deleted_objects == 1
            await workshop.put(table, "data/orphan.parquet")
            workshop.age()
        return await plain(self, *arguments)

    monkeypatch.setattr(removal.Remover, "remove", slow)
    with pytest.raises(Fenced):
        await workshop.work(table, "w1")
    assert key in await workshop.keys()
    timeline = (await workshop.view(table)).timeline
    assert [(one.job.worker_id, one.job.status) for one in timeline] == [
        ("w2", JobStatus.SUCCESSFUL),
        ("w1", JobStatus.FAILED),
    ]


@pytest.mark.parametrize("quarantine", [False, True])
async def test_a_worker_that_is_killed_between_steps_leaves_whole_files_and_the_next_one_goes_on(
    workshop: Workshop, monkeypatch: pytest.MonkeyPatch, quarantine: bool
) -> None:
    monkeypatch.setattr(removal, "_A_COMMIT", 2)
    table = await workshop.table()
    await workshop.append(table)
    orphans = {(await workshop.put(table, f"data/o{number}.parquet")).removeprefix("s3://lake/") for number in range(6)}
    workshop.age()
    held = {"quarantine_enabled": True, "quarantine_retention_seconds": 60} if quarantine else {}
    await workshop.configure(table, delete_enabled=True, background_enabled=True, **held)

    for step in range(8):
        doomed = wire_workshop(workshop.catalog, Mortal(workshop.store.meta, step))
        with suppress(Killed):
            await doomed.work(table)
        await workshop.check_whole(table)
        await check_tables(workshop.store)
        there = set(await workshop.keys()) & orphans
        aside = {key.partition("/data/")[2] for key in await workshop.held()}
        # A file is in its place, held, or gone; never two of these.
        assert {key.rpartition("/")[2] for key in there}.isdisjoint(aside)
        if quarantine:
            assert len(there) + len(aside) == len(orphans)
        workshop.age(1000)
    done = await workshop.work(table)
    assert done.job.status is JobStatus.SUCCESSFUL
    assert not set(await workshop.keys()) & orphans
    assert len(await workshop.held()) == (len(orphans) if quarantine else 0)
    await check_tables(workshop.store)


async def test_an_answer_that_was_lost_fails_the_job_and_the_next_one_goes_on(
    workshop: Workshop, monkeypatch: pytest.MonkeyPatch
) -> None:
    table, orphan = await with_orphan(workshop)
    meta = Eventful(workshop.store.meta)
    unsure = wire_workshop(workshop.catalog, meta)
    plain = removal.Remover.remove

    async def losing(self: removal.Remover, *arguments: Any) -> removal.Removal:
        meta.lost = Unavailable("lost", undecided=True)
        return await plain(self, *arguments)

    monkeypatch.setattr(removal.Remover, "remove", losing)
    stored = await unsure.run(table, delete=True)
    assert stored.job.status is JobStatus.FAILED
    # It happened all the same, and was counted where it happened.
    assert stored.job.counts.deleted_objects == 1
    assert orphan.removeprefix("s3://lake/") not in await workshop.keys()
    monkeypatch.undo()
    assert (await workshop.run(table, delete=True)).job.status is JobStatus.SUCCESSFUL
    await check_tables(workshop.store)
