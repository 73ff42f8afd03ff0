from __future__ import annotations

import asyncio
from contextlib import suppress

import pytest

from lakebed.catalog.access.authorization import Action
from lakebed.catalog.catalogs.base_locations import BASE_LOCATION
from lakebed.catalog.catalogs.service import UNDROP_WINDOW
from lakebed.catalog.idempotency import Mutation
from lakebed.catalog.locations.directories import check_location, default_location, namespace_location
from lakebed.catalog.model import Catalog, CatalogKind, EntryKind
from lakebed.core.errors import (
    AccessDenied,
    AlreadyExists,
    BucketHasTables,
    CatalogNotEmpty,
    InvalidInput,
    InvalidName,
    LocationConflict,
    NoSuchCatalog,
    PreconditionFailed,
)
from lakebed.governance.rbac import Privilege, catalog_securable
from lakebed.governance.rbac.caller_grants import CallerGrants
from lakebed.governance.rbac.catalogs import find_catalog
from lakebed.governance.rbac.rows import LATEST_CHANGE
from lakebed.meta.seam import Transaction
from lakebed.objects.config.lifecycle import Expiration, LifecycleConfiguration, LifecycleFilter, LifecycleRule
from tests.catalog.harness import UNPRIVILEGED, CatalogHarness, a_change, a_table, name, set_properties, user_with
from tests.catalog.test_catalog_grants import holding
from tests.governance.documents import policy, statement
from tests.objects.stores import ROOT


async def table_of(catalog: CatalogHarness, warehouse: str, table: str = "t", **request: str) -> str:
    """Create a table in the namespace `ns` of a catalog; returns its location."""
    with suppress(AlreadyExists):
        await catalog.namespaces.create(Mutation(ROOT), warehouse, ("ns",), {})
    made = await catalog.creation.create(Mutation(ROOT), warehouse, ("ns",), a_table(table, **request))
    return made.entry.location


async def test_one_bucket_can_hold_two_catalogs(catalog: CatalogHarness) -> None:
    before = await catalog.last_event()
    one = await catalog.make("one", "s3://sea/one", colour="blue")
    two = await catalog.make("two", "s3://sea/two/", "s3://sea/more", kind=CatalogKind.EXTERNAL)
    assert one.bucket == two.bucket
    assert one.id != two.id
    assert one.bucket.holds_tables
    assert (one.base_location, one.kind, one.properties) == (
        "s3://sea/one/",
        CatalogKind.INTERNAL,
        {"colour": "blue"},
    )
    assert (two.base_location, two.kind, two.allowed) == ("s3://sea/two/", CatalogKind.EXTERNAL, ("more/",))
    assert (one.arn, two.is_external) == (f"arn:aws:s3tables:us-east-1:{one.bucket.owner}:bucket/one", True)
    shown = await find_catalog(catalog.store.meta, "two")
    assert (shown.version, shown.created_ms, shown.updated_ms) == (1, catalog.store.clock.now_ms(), shown.created_ms)
    assert shown.allowed_locations == ["s3://sea/two/", "s3://sea/more/"]
    assert shown.arn == two.arn
    events = await catalog.events(before)
    assert [(kind, event.catalog) for kind, event in events] == [("CatalogCreated", "one"), ("CatalogCreated", "two")]


async def test_catalogs_in_one_bucket_are_isolated(catalog: CatalogHarness) -> None:
    await catalog.make("one", "s3://sea/one")
    await catalog.make("two", "s3://sea/two")
    first = await table_of(catalog, "one")
    assert first.startswith("s3://sea/one/tables/")
    listed = await catalog.namespaces.list(ROOT, "two", (), after="", limit=9)
    assert listed.items == []
    second = await table_of(catalog, "two")
    assert second.startswith("s3://sea/two/tables/")
    for warehouse, location in (("one", first), ("two", second)):
        found = await catalog.entries.find(catalog.store.meta, warehouse, name("t"))
        assert found.live is not None
        assert (found.live.location, found.live.catalog) == (location, found.catalog.id)
        assert namespace_location(found.catalog, found.namespace).startswith(found.catalog.base_location)
    keys = await catalog.keys_in("sea")
    assert {key.split("/")[0] for key in keys} == {"one", "two"}


async def test_table_locations_are_confined_to_their_catalog(catalog: CatalogHarness) -> None:
    one = await catalog.make("one", "s3://sea/one", "s3://sea/elsewhere/of-one")
    await catalog.make("two", "s3://sea/one10")
    for location in ("s3://sea/one/x", "s3://sea/elsewhere/of-one", "s3://sea/elsewhere/of-one/t/"):
        check_location(one, location)
    for location in (
        "s3://sea/one10/x",
        "s3://sea/one",
        "s3://sea/one/",
        "s3://sea/elsewhere",
        "s3://sea/elsewhere/of-one2",
        "s3://sea/",
        "s3://lake/one/x",
        "s3://sea/one/.lakebed/x",
        "s3://sea/one/.lakebed",
    ):
        with pytest.raises(InvalidInput):
            check_location(one, location)
        with pytest.raises(InvalidInput):
            await table_of(catalog, "one", location=location)
    await table_of(catalog, "one", "u", location="s3://sea/elsewhere/of-one/u")
    inner = await catalog.make("inner", "s3://pond/x/y/z", "s3://pond/x")
    check_location(inner, "s3://pond/x/t")
    for around in ("s3://pond/x", "s3://pond/x/y/", "s3://pond/x/y/z"):
        with pytest.raises(InvalidInput, match="base location"):
            check_location(inner, around)
    assert default_location(one, EntryKind.VIEW, "id") == "s3://sea/one/views/id"


@pytest.mark.parametrize(
    ("first", "second"),
    [
        ("s3://sea/x", "s3://sea/x/"),
        ("s3://sea/x", "s3://sea/x/y"),
        ("s3://sea/x/y", "s3://sea/x"),
        ("s3://sea", "s3://sea/x"),
        ("s3://sea/x", "s3://sea/"),
    ],
)
async def test_overlapping_base_locations_are_rejected(light_catalog: CatalogHarness, first: str, second: str) -> None:
    await light_catalog.make("one", first)
    async with light_catalog.unchanged():
        with pytest.raises(LocationConflict):
            await light_catalog.make("two", second)
    await light_catalog.make("two", "s3://pond/x")
    async with light_catalog.unchanged():
        with pytest.raises(LocationConflict):
            await light_catalog.make("three", "s3://pond/other", "s3://pond/x/in")


async def test_concurrent_creates_at_one_location_create_one_catalog(catalog: CatalogHarness) -> None:
    await catalog.store.bucket("sea")
    made = await asyncio.gather(
        *(catalog.make(f"c{number}", f"s3://sea/x/{'y/' * number}") for number in range(4)), return_exceptions=True
    )
    assert sum(isinstance(one, Catalog) for one in made) == 1
    assert sum(isinstance(one, LocationConflict) for one in made) == 3


async def test_table_bucket_cannot_contain_other_catalogs(catalog: CatalogHarness) -> None:
    async with catalog.unchanged():
        with pytest.raises(LocationConflict):
            await catalog.make("inner", "s3://lake/inner")
        with pytest.raises(AlreadyExists):
            await catalog.make("lake", "s3://lake/inner")
    await catalog.make("one", "s3://sea/one")
    await catalog.store.bucket("one")
    async with catalog.unchanged():
        with pytest.raises(LocationConflict):
            await catalog.catalogs.enable(ROOT, "sea")
        with pytest.raises(AlreadyExists):
            await catalog.catalogs.enable(ROOT, "one")


async def test_catalog_of_a_whole_bucket_is_a_table_bucket(catalog: CatalogHarness) -> None:
    made = await catalog.make("sea", "s3://sea")
    assert made.is_table_bucket
    assert await catalog.catalogs.enable(ROOT, "sea") == made
    other = await catalog.make("ocean", "s3://atlantic/")
    assert not other.is_table_bucket
    assert (await table_of(catalog, "ocean")).startswith("s3://atlantic/tables/")


@pytest.mark.parametrize("bad", ["", " x", "a/b", "a*b", "system$x", "System$", "x" * 257, "a\x00b", "buckets", ".."])
async def test_catalog_names_are_validated(light_catalog: CatalogHarness, bad: str) -> None:
    async with light_catalog.unchanged():
        with pytest.raises(InvalidName):
            await light_catalog.make(bad, "s3://lake/x")


async def test_invalid_properties_are_rejected(light_catalog: CatalogHarness) -> None:
    management, by = light_catalog.management, light_catalog.administrator()
    await light_catalog.store.bucket("sea")
    async with light_catalog.unchanged():
        refused: tuple[dict[str, str], ...] = (
            {},
            {BASE_LOCATION: "s3://ghost/x"},
            {BASE_LOCATION: "gs://sea/x"},
            {BASE_LOCATION: "s3://sea/x", UNDROP_WINDOW: "soon"},
        )
        for properties in refused:
            with pytest.raises(InvalidInput):
                await management.create(by, ROOT, "c", kind=CatalogKind.INTERNAL, properties=properties, allowed=())


async def test_bucket_with_expiration_rules_cannot_hold_a_catalog(light_catalog: CatalogHarness) -> None:
    await light_catalog.store.bucket("sea")
    rules = LifecycleConfiguration((LifecycleRule("old", True, LifecycleFilter(""), Expiration(days=1)),))
    await light_catalog.store.buckets.set(ROOT, "sea", "s3:PutLifecycleConfiguration", lifecycle=rules)
    with pytest.raises(InvalidInput, match="remove the rules"):
        await light_catalog.make("one", "s3://sea/one")


async def test_new_catalog_has_a_catalog_admin_role(catalog: CatalogHarness) -> None:
    made = await catalog.make("one", "s3://sea/one")
    row = await catalog.store.meta.row(LATEST_CHANGE)
    assert row is not None
    held = await CallerGrants(catalog.store.meta).of("root", row[0])
    assert held is not None
    assert held.covers(catalog_securable(made.id), (Privilege.CATALOG_MANAGE_ACCESS, Privilege.NAMESPACE_CREATE))
    assert not held.covers(catalog_securable(made.id), (Privilege.TABLE_READ_DATA,))


async def test_update_requires_the_current_entity_version(catalog: CatalogHarness) -> None:
    await catalog.make("one", "s3://sea/one", a="1")
    management, by, clock = catalog.management, catalog.administrator(), catalog.store.clock
    before = await catalog.last_event()
    clock.advance(5)
    changed = await management.update(by, ROOT, "one", version=1, properties={"b": "2"})
    assert (changed.properties, changed.version) == ({"b": "2"}, 2)
    assert (changed.created_ms + 5000, changed.updated_ms) == (clock.now_ms(), clock.now_ms())
    allowed = await management.update(by, ROOT, "one", version=2, allowed=["s3://sea/more"])
    assert (allowed.properties, allowed.allowed, allowed.version) == ({"b": "2"}, ("more/",), 3)
    async with catalog.unchanged():
        with pytest.raises(PreconditionFailed):
            await management.update(by, ROOT, "one", version=2, properties={})
        with pytest.raises(NoSuchCatalog):
            await management.update(by, ROOT, "ghost", version=1, properties={})
        with pytest.raises(InvalidInput, match="cannot change"):
            await management.update(by, ROOT, "one", version=3, properties={BASE_LOCATION: "s3://sea/two"})
    kept = await management.update(by, ROOT, "one", version=3, properties={BASE_LOCATION: "s3a://sea/one/"})
    assert (kept.properties, kept.base_location, kept.allowed) == ({}, "s3://sea/one/", ("more/",))
    assert [kind for kind, _ in await catalog.events(before)] == ["CatalogConfigured"] * 3


async def test_update_of_table_bucket_properties_increments_the_version(catalog: CatalogHarness) -> None:
    await catalog.catalogs.set_properties(ROOT, "lake", updates={"a": "1"}, removals=[])
    shown = await find_catalog(catalog.store.meta, "lake")
    assert (shown.properties, shown.version, shown.updated_ms) == ({"a": "1"}, 2, catalog.store.clock.now_ms())
    changed = await catalog.management.update(
        catalog.administrator(), ROOT, "lake", version=2, properties={"b": "2"}, allowed=["s3://lake/x"]
    )
    assert (changed.base_location, changed.allowed, changed.version) == ("s3://lake/", (), 3)


async def test_removed_allowed_locations_are_available_to_other_catalogs(catalog: CatalogHarness) -> None:
    await catalog.make("one", "s3://sea/one", "s3://sea/more")
    await catalog.make("two", "s3://sea/two")
    management, by = catalog.management, catalog.administrator()
    await table_of(catalog, "one", location="s3://sea/more/t")
    async with catalog.unchanged():
        with pytest.raises(LocationConflict):
            await management.update(by, ROOT, "two", version=1, allowed=["s3://sea/more/in"])
    await management.update(by, ROOT, "one", version=1, allowed=[])
    await management.update(by, ROOT, "two", version=1, allowed=["s3://sea/more"])
    # The location is not allowed any more, so it cannot be written, although the table exists.
    with pytest.raises(InvalidInput, match="allowed locations"):
        await catalog.commits.commit(Mutation(ROOT), "one", a_change(name("t"), set_properties(a="b")))
    # Other catalogs cannot take it while the table exists.
    with pytest.raises(LocationConflict):
        await table_of(catalog, "two", location="s3://sea/more/t/in")


async def test_deleting_an_empty_catalog_keeps_its_bucket(catalog: CatalogHarness) -> None:
    one = await catalog.make("one", "s3://sea/one")
    await catalog.make("two", "s3://sea/two")
    management, by = catalog.management, catalog.administrator()
    await table_of(catalog, "one")
    async with catalog.unchanged():
        with pytest.raises(CatalogNotEmpty, match="namespaces"):
            await management.delete(by, ROOT, "one")
    await catalog.dropping.drop(Mutation(ROOT), "one", name("t"), EntryKind.TABLE)
    await catalog.namespaces.drop(Mutation(ROOT), "one", ("ns",))
    before = await catalog.last_event()
    await management.delete(by, ROOT, "one")
    assert [(kind, event.catalog) for kind, event in await catalog.events(before)] == [("CatalogDeleted", "one")]
    for refused in (
        catalog.catalogs.find(catalog.store.meta, "one"),
        management.delete(by, ROOT, "one"),
        catalog.namespaces.list(ROOT, "one", (), after="", limit=1),
    ):
        with pytest.raises(NoSuchCatalog):
            await refused
    bucket = await catalog.store.object_context.bucket(catalog.store.meta, "sea")
    assert bucket.holds_tables
    # The name and the location are free again.
    again = await catalog.make("one", "s3://sea/one")
    assert again.id != one.id
    for gone in ("one", "two"):
        await management.delete(by, ROOT, gone)
    bucket = await catalog.store.object_context.bucket(catalog.store.meta, "sea")
    assert not bucket.holds_tables


async def test_catalog_with_files_in_quarantine_is_not_deleted(catalog: CatalogHarness) -> None:
    one = await catalog.make("one", "s3://sea/one")

    async def work(tx: Transaction) -> None:
        await tx.run(
            "INSERT INTO quarantined_objects (bucket, held_key, key, entry, job, kind, size, moved_ms, purge_ms)"
            " VALUES (?, 'one/.lakebed/quarantine/j/k', 'k', 'e', 'j', 'data-file', 1, 1, 1)",
            one.bucket.id,
        )

    await catalog.store.meta.transact(work)
    with pytest.raises(CatalogNotEmpty, match="quarantine"):
        await catalog.management.delete(catalog.administrator(), ROOT, "one")
    await catalog.make("two", "s3://sea/two")
    await catalog.management.delete(catalog.administrator(), ROOT, "two")


async def test_bucket_with_a_catalog_cannot_be_deleted(catalog: CatalogHarness) -> None:
    await catalog.make("one", "s3://sea/one")
    with pytest.raises(BucketHasTables, match="catalog=one"):
        await catalog.store.buckets.delete(ROOT, "sea")
    await catalog.management.delete(catalog.administrator(), ROOT, "one")
    await catalog.store.buckets.delete(ROOT, "sea")


async def test_management_requires_permission(light_catalog: CatalogHarness) -> None:
    await light_catalog.make("one", "s3://sea/one")
    management = light_catalog.management
    async with light_catalog.unchanged():
        for caller in (UNPRIVILEGED, user_with("lakebed:CreateCatalog"), user_with("s3tables:CreateTableBucket")):
            with pytest.raises(AccessDenied):
                await light_catalog.make("two", "s3://sea/two", caller=caller)
        for caller in (UNPRIVILEGED, user_with("lakebed:CreateCatalog", "s3tables:*")):
            by = light_catalog.administrator(caller)
            with pytest.raises(AccessDenied):
                await management.update(by, caller, "one", version=1, properties={})
            with pytest.raises(AccessDenied):
                await management.delete(by, caller, "one")
    await light_catalog.make(
        "two", "s3://sea/two", caller=user_with("lakebed:CreateCatalog", "s3tables:CreateTableBucket")
    )
    maker = holding(("service", Privilege.CATALOG_CREATE))
    await light_catalog.make("three", "s3://sea/three", caller=maker)
    with pytest.raises(AccessDenied):
        await management.delete(light_catalog.administrator(maker), maker, "three")
    number = (await light_catalog.catalogs.find(light_catalog.store.meta, "three")).id
    owner = holding((f"catalog {number}", Privilege.CATALOG_FULL_METADATA))
    await management.delete(light_catalog.administrator(owner), owner, "three")


async def test_bucket_policy_can_deny_catalogs(light_catalog: CatalogHarness) -> None:
    await light_catalog.store.bucket("sea")
    document = policy(statement("Deny", "s3tables:CreateTableBucket", "*", principal="*"))
    await light_catalog.store.buckets.set(ROOT, "sea", "s3:PutBucketPolicy", policy=document)
    with pytest.raises(AccessDenied):
        await light_catalog.make("one", "s3://sea/one", caller=holding(("service", Privilege.CATALOG_CREATE)))


async def test_policies_can_name_single_catalogs(light_catalog: CatalogHarness) -> None:
    one = await light_catalog.make("one", "s3://sea/one")
    two = await light_catalog.make("two", "s3://sea/two")
    reader = user_with("s3tables:*", resource=[one.arn, f"{one.arn}/*"])
    await light_catalog.authorizer.check(reader, one, Action.LIST_NAMESPACES)
    with pytest.raises(AccessDenied):
        await light_catalog.authorizer.check(reader, two, Action.LIST_NAMESPACES)
    held = holding((f"catalog {one.id}", Privilege.CATALOG_MANAGE_CONTENT))
    await light_catalog.authorizer.check(held, one, Action.LIST_NAMESPACES)
    with pytest.raises(AccessDenied):
        await light_catalog.authorizer.check(held, two, Action.LIST_NAMESPACES)
