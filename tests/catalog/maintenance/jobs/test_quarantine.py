from __future__ import annotations

from typing import Any

import msgspec
import pytest

from lakebed.catalog.catalogs.base_locations import MAX_PREFIX_BYTES
from lakebed.catalog.catalogs.service import placeholder_catalog
from lakebed.catalog.idempotency import Mutation
from lakebed.catalog.identifiers import Identifier
from lakebed.catalog.maintenance.jobs import quarantine, removal
from lakebed.catalog.maintenance.jobs.config import DEFAULT_CONFIG
from lakebed.catalog.maintenance.jobs.lifecycle import SchedulerStatus
from lakebed.catalog.maintenance.jobs.model import AuditStep, JobStatus, RecommendedAction
from lakebed.catalog.maintenance.jobs.quarantine import quarantine_key
from lakebed.catalog.maintenance.jobs.quarantine_review import QuarantineAction
from lakebed.catalog.maintenance.jobs.requests import RunRequest
from lakebed.catalog.maintenance.reachability.files import ObjectState
from lakebed.core.errors import AccessDenied, NotFound, StateConflict, Unavailable
from lakebed.core.ids import BucketId
from lakebed.objects.buckets.bucket import Bucket
from lakebed.objects.config.versioning import Versioning
from lakebed.objects.model import MAX_KEY_BYTES, ObjectAttributes
from lakebed.objects.rows import CURRENT
from tests.catalog.harness import a_table, name, user_with
from tests.catalog.maintenance.job_catalog import BODY, JobCatalog
from tests.objects.consistency import check_tables
from tests.objects.stores import ROOT

RETENTION_SECONDS = 3600
LAKE = placeholder_catalog(Bucket(BucketId(1), "lake", "0", "r", 0, "", b"\x80"), "lake")
HOLDS = {"delete_enabled": True, "quarantine_enabled": True, "quarantine_retention_seconds": RETENTION_SECONDS}


async def held_files(job_catalog: JobCatalog, count: int = 3, **config: Any) -> tuple[Identifier, str, set[str]]:
    """A table, the job that quarantined files of it, and their keys."""
    table = await job_catalog.table()
    await job_catalog.append(table)
    keys = {
        (await job_catalog.put(table, f"data/o{number}.parquet")).removeprefix("s3://lake/") for number in range(count)
    }
    job_catalog.age()
    await job_catalog.configure(table, **HOLDS, **config)
    stored = await job_catalog.run(table, delete=True)
    assert (stored.job.status, stored.job.counts.quarantined_objects) == (JobStatus.SUCCESSFUL, count)
    return table, stored.job.id, keys


async def test_quarantine_moves_files_without_copying(job_catalog: JobCatalog) -> None:
    blobs = None
    table = await job_catalog.table()
    await job_catalog.append(table)
    attributes = ObjectAttributes(content_type="application/x-parquet", metadata={"colour": "red"})
    key = await job_catalog.directory(table) + "data/o.parquet"
    await job_catalog.store.put("lake", key, BODY, attributes=attributes)
    warehouse = await job_catalog.catalog.catalogs.get(ROOT, "lake")
    bucket = warehouse.bucket
    before = await job_catalog.store.meta.row(CURRENT, bucket.id, key)
    job_catalog.age()
    blobs = await job_catalog.store.stored_blobs()
    await job_catalog.configure(table, **HOLDS)
    stored = await job_catalog.run(table, delete=True)
    assert (stored.job.counts.quarantined_objects, stored.job.counts.deleted_objects) == (1, 0)
    assert stored.job.actions == (RecommendedAction.REVIEW_QUARANTINE,)
    (report,) = stored.findings.objects
    assert report.state is ObjectState.QUARANTINED
    assert key not in await job_catalog.keys()
    place = quarantine_key(warehouse, stored.job.id, key)
    assert await job_catalog.held() == [place] == [f".lakebed/quarantine/{stored.job.id}/{key}"]
    after = await job_catalog.store.meta.row(CURRENT, bucket.id, place)
    assert before is not None
    assert after is not None
    # Only the key changed; the content did not.
    assert after[1:] == before[1:]
    assert await job_catalog.store.stored_blobs() == blobs
    await check_tables(job_catalog.store)


async def test_release_restores_files_with_a_new_safety_window(job_catalog: JobCatalog) -> None:
    table, job, keys = await held_files(job_catalog)
    reviewed = await job_catalog.quarantine(table, job, QuarantineAction.RELEASE, "they were needed")
    assert reviewed.released == (3, 0)
    assert keys <= set(await job_catalog.keys())
    assert await job_catalog.held() == []
    assert [await job_catalog.store.get("lake", key) for key in sorted(keys)] == [BODY] * 3
    stored = reviewed.stored
    assert stored.job.counts.quarantined_objects == 0
    event = stored.record.audit[-1]
    assert (event.step, event.reason) == (AuditStep.QUARANTINE_RELEASE, "they were needed")
    assert (event.quarantined_before, event.quarantined_after) == (3, 0)
    # The next run does not quarantine them again at once.
    assert (await job_catalog.run(table, delete=True)).job.counts.quarantined_objects == 0
    job_catalog.age()
    assert (await job_catalog.run(table, delete=True)).job.counts.quarantined_objects == 3
    await check_tables(job_catalog.store)


async def test_file_whose_key_is_taken_stays_in_quarantine(job_catalog: JobCatalog) -> None:
    table, job, keys = await held_files(job_catalog)
    taken = min(keys)
    await job_catalog.store.put("lake", taken, b"new")
    reviewed = await job_catalog.quarantine(table, job, QuarantineAction.RELEASE)
    assert reviewed.released == (2, 1)
    assert [one.key for one in reviewed.held] == [taken]
    assert await job_catalog.store.get("lake", taken) == b"new"
    assert reviewed.stored.job.counts.quarantined_objects == 1
    await check_tables(job_catalog.store)


async def test_abandon_deletes_files_permanently(job_catalog: JobCatalog) -> None:
    table, job, keys = await held_files(job_catalog)
    reviewed = await job_catalog.quarantine(table, job, QuarantineAction.ABANDON)
    assert reviewed.released == (3, 0)
    assert await job_catalog.held() == []
    assert not keys & set(await job_catalog.keys())
    assert (reviewed.stored.job.counts.deleted_objects, reviewed.stored.job.counts.quarantined_objects) == (3, 0)
    await check_tables(job_catalog.store)


async def test_files_are_deleted_after_their_retention(job_catalog: JobCatalog) -> None:
    table, job, _ = await held_files(job_catalog)
    job_catalog.age(RETENTION_SECONDS - 1)
    assert (await job_catalog.background.run_due()).purged == 0
    assert len(await job_catalog.held()) == 3
    job_catalog.age(1)
    assert (await job_catalog.background.run_due()).purged == 3
    assert await job_catalog.held() == []
    stored = await job_catalog.job(table, job)
    assert (stored.job.counts.deleted_objects, stored.job.counts.quarantined_objects) == (3, 0)
    assert stored.record.audit[-1].step is AuditStep.QUARANTINE_PURGED
    assert stored.job.actions == (RecommendedAction.NO_ACTION_REQUIRED,)
    await check_tables(job_catalog.store)


async def test_quarantined_files_outlive_their_table_until_retention_ends(job_catalog: JobCatalog) -> None:
    await held_files(job_catalog)
    await job_catalog.catalog.drop(purge=True)
    await job_catalog.catalog.purges.run_due()
    assert len(await job_catalog.held()) == 3
    job_catalog.age(RETENTION_SECONDS)
    assert (await job_catalog.background.run_due()).purged == 3
    assert await job_catalog.catalog.keys_in() == []
    await check_tables(job_catalog.store)


async def test_files_are_not_released_into_another_tables_directory(job_catalog: JobCatalog) -> None:
    table, job, keys = await held_files(job_catalog)
    entry = await job_catalog.catalog.entry(table)
    await job_catalog.store.meta.transact(
        lambda tx: tx.run("UPDATE entry_locations SET entry = 'another' WHERE entry = ?", entry.id)
    )
    reviewed = await job_catalog.quarantine(table, job, QuarantineAction.RELEASE)
    assert reviewed.released == (0, 3)
    assert not keys & set(await job_catalog.keys())


async def test_quarantined_files_are_purged_in_pages(job_catalog: JobCatalog, monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setattr(quarantine, "_BATCH_FILES", 2)
    table, job, keys = await held_files(job_catalog, 5)
    assert (await job_catalog.quarantine(table, job, QuarantineAction.RELEASE)).released == (5, 0)
    job_catalog.age()
    again = (await job_catalog.run(table, delete=True)).job
    assert again.counts.quarantined_objects == 5
    job_catalog.age(RETENTION_SECONDS)
    assert (await job_catalog.background.run_due()).purged == 5
    audit = (await job_catalog.job(table, again.id)).record.audit
    # All pages are one audit entry.
    assert [event.step for event in audit].count(AuditStep.QUARANTINE_PURGED) == 1
    assert (audit[-1].quarantined_before, audit[-1].quarantined_after) == (5, 0)
    assert not keys & set(await job_catalog.keys())


async def test_quarantine_works_in_a_versioned_bucket(job_catalog: JobCatalog) -> None:
    await job_catalog.store.buckets.set_versioning(ROOT, "lake", Versioning.ENABLED)
    table, job, keys = await held_files(job_catalog)
    assert (await job_catalog.quarantine(table, job, QuarantineAction.RELEASE)).released == (3, 0)
    assert keys <= set(await job_catalog.keys())
    await check_tables(job_catalog.store)
    job_catalog.age()
    await job_catalog.run(table, delete=True)
    job_catalog.age(RETENTION_SECONDS)
    assert (await job_catalog.background.run_due()).purged == 3
    # No delete marker: a purged file leaves no version behind.
    assert await job_catalog.store.meta.rows("SELECT key FROM versions WHERE key LIKE '.lakebed/%'") == []
    await check_tables(job_catalog.store)


async def test_object_lock_postpones_the_purge(light_job_catalog: JobCatalog, monkeypatch: pytest.MonkeyPatch) -> None:
    table, job, _ = await held_files(light_job_catalog)
    monkeypatch.setattr(quarantine, "is_protected", lambda stored, now_ms: True)
    light_job_catalog.age(RETENTION_SECONDS)
    assert (await light_job_catalog.background.run_due()).purged == 0
    assert (await light_job_catalog.quarantine(table, job, QuarantineAction.ABANDON)).released == (0, 3)
    monkeypatch.undo()
    light_job_catalog.age(RETENTION_SECONDS)
    assert (await light_job_catalog.background.run_due()).purged == 3


# -- who may, and when ----------------------------------------------------------------------------------------------


async def test_quarantine_cannot_be_read_or_written(light_job_catalog: JobCatalog) -> None:
    await held_files(light_job_catalog)
    (key, *_) = await light_job_catalog.held()
    everything = user_with("s3:*", "s3tables:*")
    for caller in (ROOT, everything):
        with pytest.raises(AccessDenied):
            await light_job_catalog.store.reader.get(caller, "lake", key)
        with pytest.raises(AccessDenied):
            await light_job_catalog.store.put("lake", key, b"", caller=caller)
    with pytest.raises(AccessDenied):
        await light_job_catalog.store.delete("lake", key)


async def test_decisions_require_an_ended_job_with_quarantined_files(light_job_catalog: JobCatalog) -> None:
    table, job, _ = await held_files(light_job_catalog, background_enabled=True)
    decisions = [action for action in QuarantineAction if action is not QuarantineAction.INSPECT]
    assert len((await light_job_catalog.quarantine(table, job)).held) == 3
    with pytest.raises(NotFound):
        await light_job_catalog.quarantine(table, "absent")
    with pytest.raises(StateConflict, match="failed current job"):
        await light_job_catalog.quarantine(table, job, QuarantineAction.RETRY)
    queued = await light_job_catalog.schedule(table)
    for action in decisions:
        with pytest.raises(StateConflict, match="not ended"):
            await light_job_catalog.quarantine(table, queued.job.id, action)
    await light_job_catalog.quarantine(table, job, QuarantineAction.RELEASE)
    for action in decisions:
        with pytest.raises(StateConflict, match="no files in quarantine"):
            await light_job_catalog.quarantine(table, job, action)
    assert (await light_job_catalog.quarantine(table, job)).held == []


@pytest.mark.parametrize("action", [QuarantineAction.RETRY, QuarantineAction.ABANDON, QuarantineAction.RELEASE])
async def test_partly_failed_job_can_be_released_retried_or_abandoned(
    light_job_catalog: JobCatalog, monkeypatch: pytest.MonkeyPatch, action: QuarantineAction
) -> None:
    job_catalog = light_job_catalog
    monkeypatch.setattr(removal, "_BATCH_FILES", 2)
    table = await job_catalog.table()
    keys = {(await job_catalog.put(table, f"data/o{number}.parquet")).removeprefix("s3://lake/") for number in range(4)}
    job_catalog.age()
    retries = {"max_retry_attempts": 3, "retry_initial_backoff_seconds": 50, "retry_max_backoff_seconds": 60}
    await job_catalog.configure(table, background_enabled=True, **HOLDS, **retries)
    plain = removal.Remover._batch
    calls = 0

    async def breaking(self: removal.Remover, *arguments: Any) -> None:
        nonlocal calls
        calls += 1
        if calls == 2:
            raise Unavailable("no")
        await plain(self, *arguments)

    monkeypatch.setattr(removal.Remover, "_batch", breaking)
    stored = await job_catalog.work(table)
    assert (stored.job.status, stored.job.counts.quarantined_objects) == (JobStatus.FAILED, 2)
    assert stored.job.next_retry_ms is not None
    assert (await job_catalog.view(table)).status is SchedulerStatus.RETRY_DEFERRED
    reviewed = await job_catalog.quarantine(table, stored.job.id, action)
    assert reviewed.stored.job.counts.quarantined_objects == 0
    assert len(set(await job_catalog.keys()) & keys) == (2 if action is QuarantineAction.ABANDON else 4)
    if action is QuarantineAction.RELEASE:
        assert reviewed.stored.job.next_retry_ms is not None
        assert (await job_catalog.work(table)).job.id == stored.job.id
    else:
        assert reviewed.stored.job.next_retry_ms is None
        again = await job_catalog.work(table)
        assert (again.job.status, again.job.attempt) == (JobStatus.SUCCESSFUL, 2)


async def test_scheduler_view_includes_quarantined_files(light_job_catalog: JobCatalog) -> None:
    table, job, _ = await held_files(light_job_catalog, background_enabled=True)
    view = await light_job_catalog.view(table)
    assert (view.status, view.held) == (SchedulerStatus.QUARANTINED, (3, job))
    assert view.actions == (RecommendedAction.REVIEW_QUARANTINE,)
    # It does not block the next run.
    assert (await light_job_catalog.work(table)).job.status is JobStatus.SUCCESSFUL


def test_too_long_key_is_shortened_in_quarantine() -> None:
    key = "k" * (MAX_KEY_BYTES - 2)
    place = quarantine_key(LAKE, "j" * 32, key)
    assert len(place) <= MAX_KEY_BYTES
    assert place.startswith(f".lakebed/quarantine/{'j' * 32}/")
    assert quarantine_key(LAKE, "j", "a/é") == ".lakebed/quarantine/j/a/é"
    assert quarantine_key(LAKE, "j" * 32, key) != quarantine_key(LAKE, "j" * 32, "l" + key[1:])


async def test_catalog_in_a_directory_has_quarantine_there(job_catalog: JobCatalog) -> None:
    catalog, maintenance = job_catalog.catalog, job_catalog.maintenance
    await catalog.make("one", "s3://sea/one")
    await catalog.namespaces.create(Mutation(ROOT), "one", ("ns",), {})
    made = await catalog.creation.create(Mutation(ROOT), "one", ("ns",), a_table())
    key = made.entry.location.removeprefix("s3://sea/") + "/data/orphan.parquet"
    await job_catalog.store.put("sea", key, BODY)
    job_catalog.age()
    await maintenance.configs.put(ROOT, "one", name(), msgspec.structs.replace(DEFAULT_CONFIG, **HOLDS))
    stored = (await maintenance.run(ROOT, "one", name(), RunRequest(delete=True))).stored
    assert (stored.job.status, stored.job.counts.quarantined_objects) == (JobStatus.SUCCESSFUL, 1)
    place = f"one/.lakebed/quarantine/{stored.job.id}/{key}"
    keys = await catalog.keys_in("sea")
    assert place in keys
    assert key not in keys
    with pytest.raises(AccessDenied, match="quarantine"):
        await job_catalog.store.reader.get(ROOT, "sea", place)
    await maintenance.quarantine(ROOT, "one", name(), stored.job.id, QuarantineAction.RELEASE, "needed")
    keys = await catalog.keys_in("sea")
    assert key in keys
    assert place not in keys


def test_quarantine_is_in_the_catalogs_reserved_directory() -> None:
    deep = LAKE._replace(base_prefix="d" * (MAX_PREFIX_BYTES - 1) + "/")
    assert quarantine_key(deep, "j", "k") == f"{deep.base_prefix}.lakebed/quarantine/j/k"
    place = quarantine_key(deep, "j" * 32, deep.base_prefix + "k" * 400)
    assert place.startswith(f"{deep.base_prefix}.lakebed/quarantine/{'j' * 32}/")
    assert len(place) <= MAX_KEY_BYTES
