from __future__ import annotations

import asyncio

import pytest

from lakebed.catalog.catalogs.service import MAX_UNDROP_SECONDS, UNDROP_WINDOW, undrop_window_ms
from lakebed.catalog.entries import LoadedEntry
from lakebed.catalog.idempotency import Mutation
from lakebed.catalog.tables.files import SCHEMES
from lakebed.core.errors import (
    AccessDenied,
    BucketHasTables,
    BucketNotEmpty,
    ConflictingProperties,
    InvalidInput,
    NoSuchBucket,
    NoSuchCatalog,
)
from lakebed.objects.config.lifecycle import (
    Expiration,
    LifecycleConfiguration,
    LifecycleFilter,
    LifecycleRule,
    NoncurrentExpiration,
)
from tests.catalog.harness import UNPRIVILEGED, CatalogHarness, name, user_with
from tests.objects.stores import ROOT, user


async def test_bucket_becomes_a_table_bucket(catalog: CatalogHarness) -> None:
    await catalog.store.bucket("pond")
    with pytest.raises(NoSuchCatalog):
        await catalog.catalogs.get(ROOT, "pond")
    before = await catalog.last_event()
    made = await catalog.catalogs.enable(ROOT, "pond")
    assert (made.name, made.properties, made.created_ms) == ("pond", {}, catalog.store.clock.now_ms())
    assert made.bucket.holds_tables
    assert await catalog.catalogs.get(ROOT, "pond") == made
    [(kind, event)] = await catalog.events(before)
    assert (kind, event.catalog, event.principal) == ("TableBucketEnabled", "pond", "root")


async def test_enabling_a_table_bucket_is_idempotent(catalog: CatalogHarness) -> None:
    await catalog.set_undrop_window(60)
    kept = await catalog.catalogs.get(ROOT, "lake")
    catalog.store.clock.advance(1)
    async with catalog.unchanged():
        assert await catalog.catalogs.enable(ROOT, "lake") == kept


async def test_concurrent_enabling_emits_one_event(catalog: CatalogHarness) -> None:
    await catalog.store.bucket("pond")
    before = await catalog.last_event()
    made = await asyncio.gather(*(catalog.catalogs.enable(ROOT, "pond") for _ in range(4)))
    assert len(set(made)) == 1
    assert [kind for kind, _ in await catalog.events(before)] == ["TableBucketEnabled"]


async def test_table_bucket_requires_a_bucket(catalog: CatalogHarness) -> None:
    async with catalog.unchanged():
        with pytest.raises(NoSuchBucket):
            await catalog.catalogs.enable(ROOT, "pond")
        with pytest.raises(NoSuchCatalog):
            await catalog.catalogs.get(ROOT, "pond")
        with pytest.raises(NoSuchCatalog):
            await catalog.catalogs.set_properties(ROOT, "pond", updates={}, removals=[])


@pytest.mark.parametrize("is_on", [True, False])
async def test_bucket_with_expiration_rules_cannot_become_a_table_bucket(
    light_catalog: CatalogHarness, is_on: bool
) -> None:
    store = light_catalog.store
    await store.bucket("pond")
    aborts = LifecycleRule("uploads", True, LifecycleFilter(""), abort_uploads_after_days=1)
    for rule in (
        LifecycleRule("old", is_on, LifecycleFilter(""), Expiration(days=1)),
        LifecycleRule("versions", is_on, LifecycleFilter("x/"), noncurrent=NoncurrentExpiration(1)),
    ):
        rules = LifecycleConfiguration((aborts, rule))
        await store.buckets.set(ROOT, "pond", "s3:PutLifecycleConfiguration", lifecycle=rules)
        async with light_catalog.unchanged():
            with pytest.raises(InvalidInput, match="remove the rules first"):
                await light_catalog.catalogs.enable(ROOT, "pond")
    await store.buckets.set(ROOT, "pond", "s3:PutLifecycleConfiguration", lifecycle=LifecycleConfiguration((aborts,)))
    assert (await light_catalog.catalogs.enable(ROOT, "pond")).bucket.holds_tables


async def test_table_buckets_are_listed_by_name_and_page(catalog: CatalogHarness) -> None:
    await catalog.store.bucket("plain")
    for one in ("river", "pond", "sea"):
        await catalog.create_table_bucket(one)
    names: list[str] = []
    pages = 0
    truncated = True
    while truncated:
        page = await catalog.catalogs.list(ROOT, after=names[-1] if names else "", limit=2)
        names += [warehouse.name for warehouse in page.items]
        truncated = page.truncated
        pages += 1
    assert (names, pages) == (["lake", "pond", "river", "sea"], 2)


async def test_table_buckets_of_other_accounts_are_not_listed(catalog: CatalogHarness) -> None:
    stranger = user("carol", user_with("s3tables:*").principal.policies[0], account="999999999999")
    assert (await catalog.catalogs.list(stranger, after="", limit=10)).items == []


async def test_properties_are_set_and_removed(catalog: CatalogHarness) -> None:
    before = await catalog.last_event()
    for updates, removals, after in (
        ({"a": "1", "b": "2"}, [], {"a": "1", "b": "2"}),
        ({"b": "3"}, ["a"], {"b": "3"}),
    ):
        changed = await catalog.catalogs.set_properties(ROOT, "lake", updates=updates, removals=removals)
        assert changed.properties == after
        assert (await catalog.catalogs.get(ROOT, "lake")).properties == after
    assert [kind for kind, _ in await catalog.events(before)] == ["TableBucketConfigured"] * 2


@pytest.mark.parametrize("window", ["0", "1", "0060", str(MAX_UNDROP_SECONDS)])
async def test_undrop_window_is_a_number_of_seconds(light_catalog: CatalogHarness, window: str) -> None:
    changed = await light_catalog.catalogs.set_properties(ROOT, "lake", updates={UNDROP_WINDOW: window}, removals=[])
    assert undrop_window_ms(changed) == int(window) * 1000


@pytest.mark.parametrize("window", ["", "-1", "1.5", "1h", " 1", "²", "١", str(MAX_UNDROP_SECONDS + 1)])
async def test_invalid_undrop_window_is_rejected(light_catalog: CatalogHarness, window: str) -> None:
    async with light_catalog.unchanged():
        with pytest.raises(InvalidInput, match=UNDROP_WINDOW):
            await light_catalog.catalogs.set_properties(ROOT, "lake", updates={UNDROP_WINDOW: window}, removals=[])


async def test_without_undrop_window_drops_are_final(light_catalog: CatalogHarness) -> None:
    assert undrop_window_ms(await light_catalog.catalogs.get(ROOT, "lake")) == 0


async def test_invalid_properties_change_nothing(light_catalog: CatalogHarness) -> None:
    change = light_catalog.catalogs.set_properties
    async with light_catalog.unchanged():
        with pytest.raises(ConflictingProperties):
            await change(ROOT, "lake", updates={"a": "1"}, removals=["a"])
        with pytest.raises(InvalidInput):
            await change(ROOT, "lake", updates={"": "1"}, removals=[])


async def test_each_operation_requires_its_action(light_catalog: CatalogHarness) -> None:
    catalogs = light_catalog.catalogs
    await light_catalog.store.bucket("pond")
    async with light_catalog.unchanged():
        with pytest.raises(AccessDenied):
            await catalogs.enable(UNPRIVILEGED, "pond")
        with pytest.raises(AccessDenied):
            await catalogs.get(UNPRIVILEGED, "lake")
        with pytest.raises(AccessDenied):
            await catalogs.list(UNPRIVILEGED, after="", limit=1)
        with pytest.raises(AccessDenied):
            await catalogs.set_properties(UNPRIVILEGED, "lake", updates={}, removals=[])
    pond = "arn:aws:s3tables:us-east-1:000000000000:bucket/pond"
    await catalogs.enable(user_with("s3tables:CreateTableBucket", resource=pond), "pond")
    await catalogs.get(user_with("s3tables:GetTableBucket", resource=pond), "pond")
    await catalogs.list(user_with("s3tables:ListTableBuckets"), after="", limit=1)
    await catalogs.set_properties(
        user_with("s3tables:CreateTableBucket", resource=pond), "pond", updates={"a": "1"}, removals=[]
    )
    with pytest.raises(AccessDenied):
        await catalogs.get(user_with("s3tables:GetTableBucket", resource=pond), "lake")


# -- the bucket behind it --------------------------------------------------------------------------------------------


async def test_bucket_with_a_table_cannot_be_deleted(catalog: CatalogHarness) -> None:
    await catalog.create()
    async with catalog.unchanged():
        with pytest.raises(BucketNotEmpty):
            await catalog.store.buckets.delete(ROOT, "lake")


async def test_bucket_whose_table_has_files_elsewhere_cannot_be_deleted(catalog: CatalogHarness) -> None:
    made = await catalog.create(location="s3://lake/t")
    document = await catalog.files.read(made.entry.metadata_at)
    await catalog.drop()
    await catalog.store.bucket("other")
    await catalog.store.put("other", "t.metadata.json", document)
    await catalog.registration.register_table(Mutation(ROOT), "lake", name(), "s3://other/t.metadata.json")
    for key in await catalog.keys_in():
        await catalog.store.delete("lake", key)
    async with catalog.unchanged():
        with pytest.raises(BucketHasTables, match="bucket has tables or views"):
            await catalog.store.buckets.delete(ROOT, "lake")
    await catalog.drop()
    await catalog.store.buckets.delete(ROOT, "lake")


@pytest.mark.parametrize("scheme", SCHEMES)
async def test_bucket_with_metadata_of_another_buckets_table_cannot_be_deleted(
    catalog: CatalogHarness, scheme: str
) -> None:
    made = await catalog.create()
    document = await catalog.files.read(made.entry.metadata_at)
    await catalog.drop()
    for bucket in ("others", "other", "other-2"):
        await catalog.store.bucket(bucket)
    await catalog.store.put("other", "t.metadata.json", document)
    await catalog.registration.register_table(Mutation(ROOT), "lake", name(), f"{scheme}other/t.metadata.json")
    await catalog.store.delete("other", "t.metadata.json")
    async with catalog.unchanged():
        with pytest.raises(BucketHasTables, match="of another bucket"):
            await catalog.store.buckets.delete(ROOT, "other")
    for bucket in ("others", "other-2"):
        await catalog.store.buckets.delete(ROOT, bucket)
    await catalog.drop()
    await catalog.store.buckets.delete(ROOT, "other")


async def test_bucket_with_a_restorable_table_cannot_be_deleted(catalog: CatalogHarness) -> None:
    await catalog.set_undrop_window(60)
    made = await catalog.create()
    document = await catalog.files.read(made.entry.metadata_at)
    await catalog.drop()
    await catalog.dropping.purge_now(Mutation(ROOT), "lake", name(), files=False)
    await catalog.store.bucket("other")
    await catalog.store.put("other", "t.metadata.json", document)
    await catalog.registration.register_table(Mutation(ROOT), "lake", name(), "s3://other/t.metadata.json")
    await catalog.drop()
    for key in await catalog.keys_in():
        await catalog.store.delete("lake", key)
    with pytest.raises(BucketHasTables, match="can be restored"):
        await catalog.store.buckets.delete(ROOT, "lake")
    await catalog.dropping.purge_now(Mutation(ROOT), "lake", name(), files=False)
    await catalog.store.buckets.delete(ROOT, "lake")


async def test_concurrent_register_and_bucket_delete_agree_on_one_outcome(
    catalog: CatalogHarness,
) -> None:
    made = await catalog.create(location="s3://lake/t")
    document = await catalog.files.read(made.entry.metadata_at)
    await catalog.drop()
    await catalog.store.bucket("other")
    await catalog.store.put("other", "t.metadata.json", document)
    for key in await catalog.keys_in():
        await catalog.store.delete("lake", key)
    removed, registered = await asyncio.gather(
        catalog.store.buckets.delete(ROOT, "lake"),
        catalog.registration.register_table(Mutation(ROOT), "lake", name(), "s3://other/t.metadata.json"),
        return_exceptions=True,
    )
    if removed is None:
        assert isinstance(registered, NoSuchCatalog | InvalidInput)
    else:
        assert isinstance(removed, BucketHasTables)
        assert isinstance(registered, LoadedEntry)
        assert await catalog.entry(name()) == registered.entry


async def test_deleting_a_bucket_deletes_its_catalog(catalog: CatalogHarness) -> None:
    await catalog.namespace("a", "b")
    await catalog.store.buckets.delete(ROOT, "lake")
    with pytest.raises(NoSuchCatalog):
        await catalog.catalogs.get(ROOT, "lake")
    await catalog.store.bucket("lake")
    with pytest.raises(NoSuchCatalog):
        await catalog.entries.find(catalog.store.meta, "lake", name())
    await catalog.catalogs.enable(ROOT, "lake")
    assert (await catalog.namespaces.list(ROOT, "lake", [], after="", limit=9)).items == []
