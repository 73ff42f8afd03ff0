from __future__ import annotations

import asyncio
from typing import Any

import msgspec
import pytest

from lakebed.catalog.idempotency import Mutation
from lakebed.catalog.model import EntryKind
from lakebed.catalog.tables import purging
from lakebed.catalog.tables.drops import PURGE_KIND, PurgePayload, decode_purge, encode_purge
from lakebed.catalog.tables.purging import PurgeOutcome, PurgeWorker
from lakebed.core.errors import LocationConflict, Unavailable
from lakebed.meta.seam import Transaction
from lakebed.meta.tasks import Task, TaskState
from lakebed.objects.config.object_lock import Retention, RetentionMode
from lakebed.objects.config.versioning import Versioning
from lakebed.objects.model import ObjectAttributes
from tests.catalog.appends import appended
from tests.catalog.harness import CatalogHarness, a_table, name, set_properties
from tests.objects.consistency import check_tables
from tests.objects.stores import DAY_MS, ROOT

AS_ROOT = Mutation(ROOT)


async def purge_tasks(catalog: CatalogHarness, state: TaskState = TaskState.READY) -> list[Task]:
    return await catalog.tasks.of_kinds(catalog.store.meta, [PURGE_KIND], states=[state])


async def outcome(catalog: CatalogHarness) -> PurgeOutcome:
    [task] = await purge_tasks(catalog, TaskState.DONE)
    assert task.outcome is not None
    return msgspec.json.decode(task.outcome, type=PurgeOutcome)


async def test_files_are_purged_from_the_catalogs_bucket(catalog: CatalogHarness) -> None:
    for warehouse in ("one", "two"):
        await catalog.make(warehouse, f"s3://sea/{warehouse}")
        await catalog.namespaces.create(AS_ROOT, warehouse, ("ns",), {})
        await catalog.creation.create(AS_ROOT, warehouse, ("ns",), a_table("t"))
    assert len(await catalog.keys_in("sea")) == 2
    await catalog.dropping.drop(AS_ROOT, "one", name("t"), EntryKind.TABLE, purge=True)
    assert await catalog.purges.run_due() == 1
    (left,) = await catalog.keys_in("sea")
    assert left.startswith("two/tables/")
    assert await outcome(catalog) == PurgeOutcome(removed=1, kept=0)


async def test_task_of_an_earlier_release_is_executed(catalog: CatalogHarness) -> None:
    made = await catalog.create("t")
    await catalog.drop(purge=True)
    [task] = await purge_tasks(catalog)
    payload = msgspec.json.decode(task.payload)
    assert payload.pop("bucket_name") == "lake"

    async def work(tx: Transaction) -> None:
        await tx.run("UPDATE tasks SET payload = ? WHERE id = ?", msgspec.json.encode(payload), task.id)

    await catalog.store.meta.transact(work)
    assert await catalog.purges.run_due() == 1
    assert [key for key in await catalog.keys_in() if made.entry.id in key] == []


async def test_purge_deletes_exactly_the_tables_directories(catalog: CatalogHarness) -> None:
    await catalog.create("t", location="s3://lake/a/t", properties={"write.data.path": "s3://lake/data/t"})
    await catalog.commit(name(), *await appended(catalog, name()))
    await catalog.create("u", location="s3://lake/a/t10")
    mine = ["a/t/", "a/t/data/stray", "a/t/\U0010ffff", "data/t/1.parquet", "data/t/deep/er/2.parquet"]
    others = ["a/t", "a/t!", "a/t0/x", "a/u", "data/t", "data/t2/x", "b"]
    for key in (*mine, *others):
        await catalog.store.put("lake", key, b"some bytes that are a blob")
    before = set(await catalog.keys_in())
    await catalog.drop(purge=True)
    assert set(await catalog.keys_in()) == before, "files go when the task runs"
    assert await catalog.purges.run_due() == 1
    left = await catalog.keys_in()
    assert set(others) < set(left)
    assert [key for key in left if key.startswith(("a/t/", "data/t/"))] == []
    assert len(left) == len(others) + 1
    assert (await catalog.metadata(name("u"))).location == "s3://lake/a/t10"
    assert await outcome(catalog) == PurgeOutcome(removed=len(before) - len(left), kept=0)
    await catalog.store.garbage_collector.sweep()
    assert len(await catalog.store.stored_blobs()) == len(left)
    await check_tables(catalog.store)


async def test_purge_deletes_delete_files_and_their_manifests(catalog: CatalogHarness) -> None:
    """Other catalogs read data manifests only, and left these behind."""
    await catalog.create("t", location="s3://lake/a/t")
    await catalog.commit(name(), *await appended(catalog, name()))
    await catalog.commit(name(), *await appended(catalog, name(), deletes=True))
    assert len([key for key in await catalog.keys_in() if key.startswith("a/t/data/")]) == 2
    await catalog.drop(purge=True)
    assert await catalog.purges.run_due() == 1
    assert await catalog.keys_in() == []


async def test_many_files_are_purged_in_pages(catalog: CatalogHarness, monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setattr(purging, "_PAGE_KEYS", 2)
    made = await catalog.create()
    for number in range(5):
        await catalog.store.put("lake", f"tables/{made.entry.id}/data/{number}", b"x")
    await catalog.drop(purge=True)
    await catalog.purges.run_due()
    assert await catalog.keys_in() == []
    assert await outcome(catalog) == PurgeOutcome(removed=6, kept=0)


async def test_location_is_reserved_until_the_purge_ends(catalog: CatalogHarness) -> None:
    await catalog.create(location="s3://lake/a/t")
    await catalog.drop(purge=True)
    for location in ("s3://lake/a/t", "s3://lake/a", "s3://lake/a/t/x"):
        with pytest.raises(LocationConflict):
            await catalog.create(location=location)
    await catalog.purges.run_due()
    assert await catalog.claimed() == {}
    await catalog.create(location="s3://lake/a/t")
    assert await catalog.purges.run_due() == 0
    assert len(await catalog.keys_in()) == 1


async def test_drop_without_purge_keeps_the_files(catalog: CatalogHarness) -> None:
    made = await catalog.create(location="s3://lake/a/t")
    await catalog.drop()
    assert await catalog.claimed() == {}
    assert await catalog.purges.run_due() == 0
    assert await catalog.keys_in() == [made.entry.metadata_at.removeprefix("s3://lake/")]
    await catalog.create("u", location="s3://lake/a")


async def test_view_is_purged_like_a_table(catalog: CatalogHarness) -> None:
    await catalog.create_view()
    await catalog.drop("v", kind=EntryKind.VIEW, purge=True)
    assert await catalog.purges.run_due() == 1
    assert await catalog.keys_in() == []


@pytest.mark.parametrize("versioning", [Versioning.ENABLED, Versioning.SUSPENDED])
async def test_purge_deletes_versions_and_delete_markers(catalog: CatalogHarness, versioning: Versioning) -> None:
    made = await catalog.create(location="s3://lake/t")
    await catalog.store.put("lake", "t/old", b"before there were versions")
    await catalog.store.buckets.set_versioning(ROOT, "lake", Versioning.ENABLED)
    await catalog.commit(name(), set_properties(a="1"))
    for body in (b"first body, a blob", b"second body, a blob"):
        await catalog.store.put("lake", "t/data/1", body)
        await catalog.store.put("lake", "other", body)
    await catalog.store.delete("lake", "t/data/1")
    await catalog.store.delete("lake", "t/old")
    await catalog.store.buckets.set_versioning(ROOT, "lake", versioning)
    await catalog.drop(purge=True)
    await catalog.purges.run_due()
    rows = "SELECT key FROM objects UNION ALL SELECT key FROM versions"
    assert [row[0] for row in await catalog.store.meta.rows(rows)] == ["other", "other"]
    assert (await outcome(catalog)).kept == 0
    await catalog.store.garbage_collector.sweep()
    assert len(await catalog.store.stored_blobs()) == 2
    assert made.entry.id not in await catalog.claimed()
    await check_tables(catalog.store)


@pytest.mark.parametrize("protection", ["retention", "legal hold"])
async def test_locked_files_are_kept_and_counted(catalog: CatalogHarness, protection: str) -> None:
    store = catalog.store
    await store.buckets.create(ROOT, "vault", object_lock=True)
    await catalog.catalogs.enable(ROOT, "vault")
    await catalog.namespaces.create(AS_ROOT, "vault", ["ns"], {})
    made = await catalog.creation.create(AS_ROOT, "vault", ("ns",), a_table(location="s3://vault/t"))
    held = (
        ObjectAttributes(retention=Retention(RetentionMode.COMPLIANCE, store.clock.now_ms() + DAY_MS))
        if protection == "retention"
        else ObjectAttributes(legal_hold=True)
    )
    await store.put("vault", "t/data/locked", b"a locked body", attributes=held)
    await store.put("vault", "t/data/free", b"a free body")
    await catalog.dropping.drop(AS_ROOT, "vault", name(), EntryKind.TABLE, purge=True)
    await catalog.purges.run_due()
    assert await outcome(catalog) == PurgeOutcome(removed=2, kept=1)
    assert await store.get("vault", "t/data/locked") == b"a locked body"
    assert await catalog.keys_in("vault") == ["t/data/locked"]
    assert made.entry.id not in await catalog.claimed()


async def test_current_metadata_of_another_table_is_kept(catalog: CatalogHarness) -> None:
    """A registered table may have its metadata in the directory of another."""
    await catalog.create("t", location="s3://lake/t")
    other = await catalog.create("u", location="s3://lake/u")
    await catalog.store.put("lake", "t/export/u.metadata.json", other.metadata.document)
    await catalog.drop("u")
    await catalog.registration.register_table(AS_ROOT, "lake", name("u"), "s3://lake/t/export/u.metadata.json")
    await catalog.drop("t", purge=True)
    await catalog.purges.run_due()
    assert (await outcome(catalog)).kept == 1
    assert (await catalog.metadata(name("u"))).location == "s3://lake/u"


# -- failures --------------------------------------------------------------------------------------------------------


async def test_failed_purge_is_retried_and_the_location_stays_reserved(
    catalog: CatalogHarness, monkeypatch: pytest.MonkeyPatch
) -> None:
    await catalog.create(location="s3://lake/t")
    await catalog.drop(purge=True)

    async def fail(*_: object) -> None:
        raise Unavailable("the disk is away")

    with monkeypatch.context() as broken:
        broken.setattr(catalog.store.deleter, "delete_many", fail)
        assert await catalog.purges.run_due() == 1
    [task] = await purge_tasks(catalog)
    assert (task.attempts, task.outcome) == (1, b"the disk is away")
    assert len(await catalog.claimed()) == 1
    catalog.store.clock.advance(60)
    assert await catalog.purges.run_due() == 1
    assert await catalog.keys_in() == []
    assert await catalog.claimed() == {}


async def test_worker_without_its_lease_does_not_disturb_its_successor(
    catalog: CatalogHarness, monkeypatch: pytest.MonkeyPatch
) -> None:
    await catalog.create(location="s3://lake/t")
    await catalog.store.put("lake", "t/data/1", b"x")
    await catalog.drop(purge=True)
    delete_many = catalog.store.deleter.delete_many
    slow = True

    async def overtaken(*arguments: Any) -> Any:
        nonlocal slow
        if slow:
            slow = False
            catalog.store.clock.advance(1000)
            other = PurgeWorker(
                catalog.store.object_context, catalog.files, catalog.store.deleter, catalog.tasks, "other"
            )
            assert await other.run_due() == 1
            # The location is free again and claimed by another table before the slow worker continues.
            await catalog.create("next", location="s3://lake/t")
        return await delete_many(*arguments)

    monkeypatch.setattr(catalog.store.deleter, "delete_many", overtaken)
    assert await catalog.purges.run_due() == 1
    assert len(await purge_tasks(catalog, TaskState.DONE)) == 1
    assert (await catalog.metadata(name("next"))).location == "s3://lake/t"
    assert list(await catalog.claimed()) == [(await catalog.entry(name("next"))).id]


async def test_failure_without_the_lease_is_ignored(catalog: CatalogHarness, monkeypatch: pytest.MonkeyPatch) -> None:
    await catalog.create(location="s3://lake/t")
    await catalog.drop(purge=True)
    delete_many = catalog.store.deleter.delete_many
    slow = True

    async def overtaken(*arguments: Any) -> Any:
        nonlocal slow
        if not slow:
            return await delete_many(*arguments)
        slow = False
        catalog.store.clock.advance(1000)
        other = PurgeWorker(catalog.store.object_context, catalog.files, catalog.store.deleter, catalog.tasks, "other")
        assert await other.run_due() == 1
        raise Unavailable("too late")

    monkeypatch.setattr(catalog.store.deleter, "delete_many", overtaken)
    assert await catalog.purges.run_due() == 1
    assert len(await purge_tasks(catalog, TaskState.DONE)) == 1


async def test_concurrent_workers_run_each_task_once(catalog: CatalogHarness) -> None:
    for number in range(4):
        await catalog.create(f"t{number}")
        await catalog.drop(f"t{number}", purge=True)
    others = [
        PurgeWorker(
            catalog.store.object_context, catalog.files, catalog.store.deleter, catalog.tasks, f"worker-{number}"
        )
        for number in range(3)
    ]
    done = await asyncio.gather(*(worker.run_due() for worker in (catalog.purges, *others)))
    assert sum(done) == 4
    assert await catalog.keys_in() == []
    assert len(await purge_tasks(catalog, TaskState.DONE)) == 4


async def test_purge_of_a_deleted_bucket_completes(catalog: CatalogHarness) -> None:
    await catalog.create()
    await catalog.drop(purge=True)
    for key in await catalog.keys_in():
        await catalog.store.delete("lake", key)
    await catalog.store.buckets.delete(ROOT, "lake")
    assert await catalog.purges.run_due() == 1
    assert await outcome(catalog) == PurgeOutcome(0, 0)
    assert await catalog.claimed() == {}


def test_task_payload_round_trips() -> None:
    purge = PurgePayload(
        catalog="lake",
        bucket=1,
        namespace=("a", "b"),
        name="t",
        entry="e",
        prefixes=("t/", "d/"),
        metadata_at="s3://x",
    )
    assert decode_purge(encode_purge(purge)) == purge
