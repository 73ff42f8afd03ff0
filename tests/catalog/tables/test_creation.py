from __future__ import annotations

import asyncio
import re

import msgspec
import pytest

from lakebed.catalog.access.authorization import Action
from lakebed.catalog.idempotency import Mutation
from lakebed.catalog.model import EntryKind
from lakebed.core.errors import (
    AccessDenied,
    AlreadyExists,
    InvalidInput,
    InvalidName,
    LocationConflict,
    NoSuchCatalog,
    NoSuchNamespace,
)
from lakebed.iceberg.metadata import parse_table
from tests.catalog.harness import ASSERT_CREATE, UNPRIVILEGED, CatalogHarness, a_table, name, staged, user_with
from tests.objects.stores import ROOT

AS_ROOT = Mutation(ROOT)


async def test_created_table_exists_with_its_metadata_file(catalog: CatalogHarness) -> None:
    made = await catalog.create()
    entry = made.entry
    assert entry == await catalog.entry(name())
    assert (entry.kind, entry.name, entry.generation, entry.format_version) == (EntryKind.TABLE, "t", 1, 2)
    assert entry.id == entry.uuid.replace("-", "")
    assert entry.location == f"s3://lake/tables/{entry.id}"
    assert re.fullmatch(
        rf"s3://lake/tables/{entry.id}/metadata/00000-[0-9a-f-]{{36}}\.metadata\.json", entry.metadata_at
    )
    assert await catalog.keys_in() == [entry.metadata_at.removeprefix("s3://lake/")]
    stored = await catalog.metadata(name())
    assert (stored.uuid, stored.location, stored.last_updated_ms) == (
        entry.uuid,
        entry.location,
        catalog.store.clock.now_ms(),
    )
    assert (stored.metadata_log, stored.snapshots, stored.current_snapshot_id) == ((), {}, None)
    assert made.metadata.document == await catalog.files.read(entry.metadata_at)
    assert await catalog.claimed() == {entry.id: [f"tables/{entry.id}/"]}


async def test_creation_is_the_first_commit_record(catalog: CatalogHarness) -> None:
    made = await catalog.create()
    [row] = await catalog.store.meta.rows(
        "SELECT entry, generation, operation, previous_at, metadata_at, expected_token, version_token"
        " FROM entry_commits"
    )
    assert row == (made.entry.id, 1, "create", None, made.entry.metadata_at, None, made.entry.version_token)


async def test_created_table_has_the_requested_location_properties_and_format(catalog: CatalogHarness) -> None:
    made = await catalog.create(
        location="s3a://lake/my/place/", properties={"format-version": "3", "owner": "ann", "write.data.path": ""}
    )
    assert (made.entry.location, made.entry.format_version) == ("s3a://lake/my/place", 3)
    assert made.entry.metadata_at.startswith("s3://lake/my/place/metadata/00000-")
    stored = await catalog.metadata(name())
    assert (stored.location, stored.properties["owner"]) == ("s3a://lake/my/place", "ann")
    assert "format-version" not in stored.properties


async def test_first_metadata_file_follows_write_metadata_path(catalog: CatalogHarness) -> None:
    made = await catalog.create(location="s3://lake/t", properties={"write.metadata.path": "s3://lake/meta/t/"})
    assert made.entry.metadata_at.startswith("s3://lake/meta/t/00000-")
    assert await catalog.claimed() == {made.entry.id: ["meta/t/", "t/"]}


async def test_table_is_created_in_a_nested_namespace(catalog: CatalogHarness) -> None:
    await catalog.namespace("a", "b")
    made = await catalog.creation.create(AS_ROOT, "lake", ("a", "b"), a_table())
    assert made.identifier == name("t", "a", "b")
    assert await catalog.entry(name("t", "a", "b")) == made.entry


@pytest.mark.parametrize(
    ("taken", "message"),
    [
        ("table", "^Table already exists: ns.t$"),
        ("view", "^View with same name already exists: ns.t$"),
        ("dropped table", "in use by a dropped"),
    ],
)
async def test_tables_and_views_share_names(catalog: CatalogHarness, taken: str, message: str) -> None:
    if taken == "view":
        await catalog.create_view("t")
    else:
        await catalog.create("t")
    if taken == "dropped table":
        await catalog.set_undrop_window(60)
        await catalog.drop()
    async with catalog.unchanged():
        with pytest.raises(AlreadyExists, match=message):
            await catalog.create("t")
        with pytest.raises(AlreadyExists):
            await catalog.creation.stage(AS_ROOT, "lake", ("ns",), a_table())


async def test_one_of_concurrent_creates_succeeds_and_leaves_no_other_file(catalog: CatalogHarness) -> None:
    outcomes = await asyncio.gather(*(catalog.create() for _ in range(6)), return_exceptions=True)
    assert sum(isinstance(outcome, AlreadyExists) for outcome in outcomes) == 5
    assert len(await catalog.keys_in()) == 1
    assert len(await catalog.store.stored_blobs()) == 1
    assert len(await catalog.claimed()) == 1


async def test_one_of_concurrent_creates_at_one_location_succeeds(catalog: CatalogHarness) -> None:
    places = ["s3://lake/a", "s3://lake/a/b", "s3://lake/a/b/c", "s3://lake/a/"]
    outcomes = await asyncio.gather(
        *(catalog.create(f"t{number}", location=place) for number, place in enumerate(places)), return_exceptions=True
    )
    assert sum(isinstance(outcome, LocationConflict) for outcome in outcomes) == 3
    assert len(await catalog.store.stored_blobs()) == 1


async def test_rejected_create_leaves_nothing(catalog: CatalogHarness) -> None:
    async with catalog.unchanged():
        with pytest.raises(NoSuchNamespace):
            await catalog.create(namespace="none")
        with pytest.raises(NoSuchCatalog):
            await catalog.creation.create(AS_ROOT, "pond", ("ns",), a_table())
        with pytest.raises(InvalidName):
            await catalog.create("a/b")
        with pytest.raises(InvalidInput, match="outside the catalog's bucket"):
            await catalog.create(location="s3://other/t")
        with pytest.raises(InvalidInput, match="format version"):
            await catalog.create(properties={"format-version": "9"})
        with pytest.raises(InvalidInput):
            await catalog.create(schema={"type": "struct", "fields": [{"id": 1, "name": "x", "type": "nonsense"}]})
        for path in ("write.data.path", "write.metadata.path"):
            with pytest.raises(InvalidInput):
                await catalog.create(properties={path: "s3://other/t"})


# -- staged ----------------------------------------------------------------------------------------------------------


async def test_staged_create_only_reserves_its_directories(catalog: CatalogHarness) -> None:
    promised = await catalog.creation.stage(
        AS_ROOT, "lake", ("ns",), a_table(location="s3://lake/here/", properties={"owner": "ann"})
    )
    assert await catalog.claimed() == {}
    for table, rows in (("entries", 0), ("objects", 0), ("promised_locations", 1)):
        assert await catalog.store.meta.row(f"SELECT COUNT(*) FROM {table}") == (rows,)
    assert promised.identifier == name()
    metadata = parse_table(promised.document)
    assert (metadata.location, metadata.properties["owner"]) == ("s3://lake/here", "ann")
    assert metadata == promised.metadata


async def test_staged_table_is_created_by_its_commit(catalog: CatalogHarness) -> None:
    promised = await catalog.creation.stage(AS_ROOT, "lake", ("ns",), a_table())
    made = await catalog.commit(name(), *staged(promised.document), requirements=[ASSERT_CREATE])
    assert (made.entry.uuid, made.entry.location, made.entry.generation) == (
        promised.metadata.uuid,
        promised.metadata.location,
        1,
    )
    assert msgspec.json.decode(made.metadata.document) == msgspec.json.decode(promised.document)
    assert [kind for kind, _ in await catalog.events()][-1] == "TableCreated"


@pytest.mark.parametrize(
    ("location", "properties"),
    [
        ("s3://other/t", {}),
        ("s3://lake/.lakebed/t", {}),
        ("s3://lake", {}),
        (None, {"write.data.path": "s3://other/t"}),
        (None, {"write.metadata.path": "s3://lake/../t"}),
    ],
)
async def test_location_of_a_staged_table_is_checked_before_vending(
    light_catalog: CatalogHarness, location: str | None, properties: dict[str, str]
) -> None:
    request = a_table(properties=properties) if location is None else a_table(location=location)
    with pytest.raises(InvalidInput):
        await light_catalog.creation.stage(AS_ROOT, "lake", ("ns",), request)


# -- who may ---------------------------------------------------------------------------------------------------------


async def test_create_requires_permission(light_catalog: CatalogHarness) -> None:
    async with light_catalog.unchanged():
        with pytest.raises(AccessDenied):
            await light_catalog.create(caller=UNPRIVILEGED)
        with pytest.raises(AccessDenied):
            await light_catalog.creation.stage(Mutation(UNPRIVILEGED), "lake", ("ns",), a_table())
        with pytest.raises(AccessDenied):
            await light_catalog.create(caller=user_with("s3tables:GetTable", "s3:*"))
        with pytest.raises(AccessDenied):
            await light_catalog.create(
                "t", caller=user_with(Action.CREATE_TABLE, condition={"StringEquals": {"s3tables:tableName": "u"}})
            )
        with pytest.raises(AccessDenied):
            await light_catalog.create(
                "u", caller=user_with(Action.CREATE_TABLE, condition={"StringEquals": {"s3tables:namespace": "other"}})
            )
    only_u = user_with(
        Action.CREATE_TABLE,
        resource="arn:aws:s3tables:us-east-1:000000000000:bucket/lake",
        condition={"StringEquals": {"s3tables:tableName": "u", "s3tables:namespace": "ns"}},
    )
    made = await light_catalog.create("u", caller=only_u)
    _, event = (await light_catalog.events())[-1]
    assert (event.id, event.principal) == (made.entry.id, "alice")


async def test_denied_create_does_not_reveal_existing_names(light_catalog: CatalogHarness) -> None:
    await light_catalog.create()
    for table in ("t", "u"):
        with pytest.raises(AccessDenied):
            await light_catalog.create(table, caller=UNPRIVILEGED)
