from __future__ import annotations

import pytest
from hypothesis import HealthCheck, given, settings
from hypothesis import strategies as st

from lakebed.catalog.idempotency import Mutation
from lakebed.catalog.locations.claims import EntryLocations
from lakebed.catalog.locations.directories import (
    PATH_PROPERTIES,
    check_location,
    check_path_properties,
    check_unclaimed,
    default_location,
    entry_id_at,
    locate_entry,
    table_directories,
)
from lakebed.catalog.model import Catalog, EntryKind
from lakebed.core.errors import InvalidInput, LakebedError, LocationConflict
from lakebed.core.ids import BucketId
from lakebed.meta.seam import Transaction
from tests.catalog.harness import CatalogHarness, name, set_property
from tests.objects.stores import ROOT


async def the_warehouse(catalog: CatalogHarness) -> Catalog:
    return await catalog.catalogs.find(catalog.store.meta, "lake")


# -- where tables may be ---------------------------------------------------------------------------------------------


@pytest.mark.parametrize("location", ["s3://lake/t", "s3a://lake/t/", "s3://lake/a/b.c/d e", "s3://lake/.lakebed2"])
async def test_location_in_the_bucket_is_valid(light_catalog: CatalogHarness, location: str) -> None:
    assert str(check_location(await the_warehouse(light_catalog), location)).startswith("s3://lake/")


BAD_LOCATIONS = [
    "s3://other/t",
    "s3://lake2/t",
    "s3://lake",
    "s3://lake/",
    "s3://lake//",
    "s3://lake/../other/t",
    "s3://lake/a/./t",
    "s3://lake/.lakebed",
    "s3://lake/.lakebed/t",
    "s3://lake/t*",
    "s3://lake/?/t",
    "file:///lake/t",
    "/lake/t",
    "",
]


@pytest.mark.parametrize("location", BAD_LOCATIONS)
async def test_invalid_location_is_rejected(light_catalog: CatalogHarness, location: str) -> None:
    with pytest.raises(InvalidInput):
        check_location(await the_warehouse(light_catalog), location)


@pytest.mark.parametrize("location", BAD_LOCATIONS[:-1])
@pytest.mark.parametrize("name", PATH_PROPERTIES)
async def test_path_property_is_validated_like_the_location(
    light_catalog: CatalogHarness, name: str, location: str
) -> None:
    warehouse = await the_warehouse(light_catalog)
    with pytest.raises(InvalidInput):
        check_path_properties(warehouse, "s3://lake/t", {name: location})


async def test_table_directories_are_location_and_path_properties(light_catalog: CatalogHarness) -> None:
    properties = {
        "write.data.path": "s3://lake/data/t/",
        "write.metadata.path": "s3://lake/t/meta",
        "write.object-storage.path": "s3a://lake/data/t",
        "write.folder-storage.path": "",
        "path": "s3://other/t",
    }
    warehouse = await the_warehouse(light_catalog)
    further = check_path_properties(warehouse, "s3://lake/t", properties)
    assert [address.directory for address in further] == ["data/t/"]
    directories = table_directories(warehouse, "s3://lake/t/", properties)
    assert [address.directory for address in directories] == ["t/", "data/t/"]


async def test_enclosing_directory_replaces_the_location(light_catalog: CatalogHarness) -> None:
    warehouse = await the_warehouse(light_catalog)
    directories = table_directories(warehouse, "s3://lake/a/t", {"write.data.path": "s3://lake/a"})
    assert [address.directory for address in directories] == ["a/"]


async def test_equal_directories_in_two_spellings_are_merged(catalog: CatalogHarness) -> None:
    properties = {"write.data.path": "s3://lake/data/t/", "write.object-storage.path": "s3a://lake/data/t"}
    made = await catalog.create("t", location="s3://lake/t", properties=properties)
    assert await catalog.claimed() == {made.entry.id: ["data/t/", "t/"]}


async def test_default_location_is_independent_of_the_name(light_catalog: CatalogHarness) -> None:
    warehouse = await the_warehouse(light_catalog)
    assert default_location(warehouse, EntryKind.TABLE, "abc") == "s3://lake/tables/abc"
    assert default_location(warehouse, EntryKind.VIEW, "abc") == "s3://lake/views/abc"


# -- kept apart ------------------------------------------------------------------------------------------------------

OVERLAPPING = {
    "the same": "s3://lake/a/t",
    "the same with a slash": "s3://lake/a/t/",
    "the same by another scheme": "s3a://lake/a/t",
    "inside": "s3://lake/a/t/deep/inside",
    "around": "s3://lake/a",
}
APART = {
    "a sibling": "s3://lake/a/u",
    "a sibling whose name goes on": "s3://lake/a/t10",
    "a sibling whose name is shorter": "s3://lake/a/s",
    "a sibling that sorts between the directory and its files": "s3://lake/a/t!",
    "a sibling after the files": "s3://lake/a/t0",
}


@pytest.mark.parametrize("location", OVERLAPPING.values(), ids=OVERLAPPING)
async def test_table_location_cannot_overlap_another(catalog: CatalogHarness, location: str) -> None:
    await catalog.create("t", location="s3://lake/a/t")
    async with catalog.unchanged():
        with pytest.raises(LocationConflict, match="overlaps"):
            await catalog.create("u", location=location)
        with pytest.raises(LocationConflict):
            await catalog.create_view("v", location=location)


@pytest.mark.parametrize("location", APART.values(), ids=APART)
async def test_sibling_directories_do_not_overlap(catalog: CatalogHarness, location: str) -> None:
    first = await catalog.create("t", location="s3://lake/a/t")
    second = await catalog.create("u", location=location)
    assert sorted(await catalog.claimed()) == sorted([first.entry.id, second.entry.id])


@pytest.mark.parametrize("name", PATH_PROPERTIES)
@pytest.mark.parametrize("path", [*OVERLAPPING.values(), "s3://lake/apart/u/in"], ids=[*OVERLAPPING, "into its data"])
async def test_path_property_cannot_name_another_tables_directory(
    light_catalog: CatalogHarness, name: str, path: str
) -> None:
    await light_catalog.create("t", location="s3://lake/a/t", properties={name: "s3://lake/apart/u"})
    async with light_catalog.unchanged():
        with pytest.raises(LocationConflict):
            await light_catalog.create("u", location="s3://lake/u", properties={name: path})


@pytest.mark.parametrize("name", PATH_PROPERTIES)
async def test_location_cannot_overlap_additional_directories_of_another_table(
    light_catalog: CatalogHarness, name: str
) -> None:
    await light_catalog.create("t", location="s3://lake/a/t", properties={name: "s3://lake/data/t"})
    for location in ("s3://lake/data/t", "s3://lake/data", "s3://lake/data/t/x"):
        async with light_catalog.unchanged():
            with pytest.raises(LocationConflict):
                await light_catalog.create("u", location=location)
    await light_catalog.create("u", location="s3://lake/data/t2")


@pytest.mark.parametrize("property_name", PATH_PROPERTIES)
@pytest.mark.parametrize(
    ("path", "failure"),
    [
        ("s3://lake/a/u/metadata", LocationConflict),
        ("s3://lake/a", LocationConflict),
        ("s3://other/t", InvalidInput),
        ("s3://lake/.lakebed/t", InvalidInput),
        ("s3://lake/a/t/../u", InvalidInput),
        ("s3://lake/*", InvalidInput),
        ("s3://lake", InvalidInput),
    ],
)
async def test_change_of_a_path_property_alone_is_checked(
    light_catalog: CatalogHarness, property_name: str, path: str, failure: type[LakebedError]
) -> None:
    await light_catalog.create("t", location="s3://lake/a/t")
    await light_catalog.create("u", location="s3://lake/a/u")
    async with light_catalog.unchanged():
        with pytest.raises(failure):
            await light_catalog.commit(name("t"), set_property(property_name, path))


async def test_new_path_property_is_claimed_with_the_commit(catalog: CatalogHarness) -> None:
    made = await catalog.create("t", location="s3://lake/a/t")
    committed = await catalog.commit(name("t"), set_property("write.metadata.path", "s3://lake/meta/t/"))
    assert committed.entry.metadata_at.startswith("s3://lake/meta/t/00001-")
    assert await catalog.claimed() == {made.entry.id: ["a/t/", "meta/t/"]}
    async with catalog.unchanged():
        with pytest.raises(LocationConflict):
            await catalog.create("u", location="s3://lake/meta")


async def test_moved_table_claims_its_new_location(catalog: CatalogHarness) -> None:
    await catalog.create("t", location="s3://lake/a/t")
    await catalog.create("u", location="s3://lake/a/u")
    async with catalog.unchanged():
        for location in ("s3://lake/a/u/t", "s3://lake/a", "s3://lake/a/u/"):
            with pytest.raises(LocationConflict):
                await catalog.commit(name("t"), {"action": "set-location", "location": location})
        for location in BAD_LOCATIONS[:-1]:
            with pytest.raises(InvalidInput):
                await catalog.commit(name("t"), {"action": "set-location", "location": location})
    moved = await catalog.commit(name("t"), {"action": "set-location", "location": "s3://lake/b/t/"})
    assert moved.entry.location == "s3://lake/b/t"
    assert moved.entry.metadata_at.startswith("s3://lake/b/t/metadata/00001-")
    with pytest.raises(LocationConflict):
        await catalog.create("w", location="s3://lake/b")


async def test_moved_table_keeps_its_earlier_directories(catalog: CatalogHarness) -> None:
    made = await catalog.create("t", location="s3://lake/a/t", properties={"write.data.path": "s3://lake/data/t"})
    await catalog.commit(name("t"), {"action": "set-location", "location": "s3://lake/b/t"})
    await catalog.commit(name("t"), {"action": "remove-properties", "removals": ["write.data.path"]})
    assert await catalog.claimed() == {made.entry.id: ["a/t/", "b/t/", "data/t/"]}
    async with catalog.unchanged():
        for location in ("s3://lake/a", "s3://lake/data/t/x"):
            with pytest.raises(LocationConflict):
                await catalog.create("u", location=location)
    await catalog.commit(name("t"), {"action": "set-location", "location": "s3://lake/a/t"})
    assert await catalog.claimed() == {made.entry.id: ["a/t/", "b/t/", "data/t/"]}


async def test_table_can_move_within_its_own_directories(catalog: CatalogHarness) -> None:
    await catalog.create("t", location="s3://lake/a/t")
    await catalog.commit(name("t"), {"action": "set-location", "location": "s3://lake/a/t/inner"})
    await catalog.commit(name("t"), {"action": "set-location", "location": "s3://lake/a"})
    entry = await catalog.entry(name("t"))
    assert entry.location == "s3://lake/a"
    assert await catalog.claimed() == {entry.id: ["a/"]}


async def test_equal_keys_in_two_buckets_do_not_overlap(catalog: CatalogHarness) -> None:
    await catalog.create_table_bucket("pond")
    await catalog.namespaces.create(Mutation(ROOT), "pond", ["ns"], {})
    await catalog.create("t", location="s3://lake/a/t")
    warehouse = await catalog.catalogs.find(catalog.store.meta, "pond")
    address = check_location(warehouse, "s3://pond/a/t")
    await check_unclaimed(catalog.store.meta, warehouse, address, "other")


async def test_key_belongs_to_the_table_of_its_directory(catalog: CatalogHarness) -> None:
    outer = await catalog.create("t", location="s3://lake/a/t")
    other = await catalog.create("u", location="s3://lake/a/t!")
    bucket = (await the_warehouse(catalog)).bucket
    meta = catalog.store.meta
    for key, entry in (
        ("a/t/data/1", outer.entry),
        ("a/t/", outer.entry),
        ("a/t!/\U0010ffff", other.entry),
        ("a/t", None),
        ("a/t10", None),
        ("a/", None),
        ("b", None),
        ("", None),
    ):
        placed = await locate_entry(meta, bucket, key)
        assert await entry_id_at(meta, bucket.id, key) == (None if entry is None else entry.id)
        assert (None if placed is None else placed.entry) == entry
        assert placed is None or placed.namespace == ("ns",)
    assert await locate_entry(meta, bucket._replace(id=BucketId(bucket.id + 1)), "a/t/data/1") is None


segments = st.sampled_from(("a", "b", "a0", "a!", "é", "\U0010ffff"))
places = st.lists(segments, min_size=1, max_size=3).map("/".join)


def _overlap(one: str, other: str) -> bool:
    return f"{one}/".startswith(f"{other}/") or f"{other}/".startswith(f"{one}/")


@pytest.mark.slow
@settings(max_examples=60, suppress_health_check=[HealthCheck.function_scoped_fixture])
@given(
    wanted=st.lists(st.tuples(places, st.none() | places), min_size=2, max_size=6), keys=st.lists(places, max_size=5)
)
@pytest.mark.parametrize(
    "open_object_store",
    ["sqlite-memory", pytest.param("postgres-memory", marks=pytest.mark.integration)],
    indirect=True,
)
async def test_directories_of_entries_never_overlap(
    catalog: CatalogHarness, wanted: list[tuple[str, str | None]], keys: list[str]
) -> None:
    warehouse, meta = await the_warehouse(catalog), catalog.store.meta

    async def clear(tx: Transaction) -> None:
        await tx.run("DELETE FROM entry_locations")

    await meta.transact(clear)
    held: dict[str, set[str]] = {}
    for number, (place, data) in enumerate(wanted):
        # the fifth and sixth move the first two, which keep their directories
        entry = f"e{number % 4}"
        properties = {} if data is None else {"write.data.path": f"s3://lake/{data}"}
        directories = {place} if data is None else {place, data}

        condition = EntryLocations(warehouse, None, EntryKind.TABLE, entry, f"s3://lake/{place}", properties)

        async def claim(condition: EntryLocations = condition) -> None:
            prepared = await catalog.claims.prepare(ROOT, condition)
            await meta.transact(lambda tx: catalog.claims.take(tx, prepared))

        taken = any(
            _overlap(one, other)
            for owner, had in held.items()
            if owner != entry
            for other in had
            for one in directories
        )
        if taken:
            with pytest.raises(LocationConflict):
                await claim()
        else:
            await claim()
            held[entry] = held.get(entry, set()) | directories
    for key in keys:
        owners = {owner for owner, had in held.items() if any(f"{key}/x".startswith(f"{one}/") for one in had)}
        assert await entry_id_at(meta, warehouse.bucket.id, f"{key}/x") == (owners.pop() if owners else None)
        assert not owners
