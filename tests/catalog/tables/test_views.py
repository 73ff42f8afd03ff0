from __future__ import annotations

import asyncio
import re
from typing import Any
from uuid import uuid4

import msgspec
import pytest

from lakebed.catalog.access.authorization import Action
from lakebed.catalog.entries import LoadedEntry
from lakebed.catalog.idempotency import Mutation, RequestKey, StoredResponse
from lakebed.catalog.model import EntryKind
from lakebed.core.errors import (
    AccessDenied,
    AlreadyExists,
    CommitConflict,
    InvalidInput,
    InvalidName,
    LocationConflict,
    NoSuchCatalog,
    NoSuchNamespace,
    NoSuchView,
    PointerMoved,
)
from lakebed.iceberg.commits import parse_view_requirements, parse_view_updates
from lakebed.iceberg.metadata import parse_view
from lakebed.objects.model import Caller
from tests.catalog.harness import (
    UNPRIVILEGED,
    VIEW_VERSION,
    CatalogHarness,
    FaultyStore,
    name,
    set_properties,
    set_property,
    user_with,
    wire_catalog,
)
from tests.objects.stores import ROOT

AS_ROOT = Mutation(ROOT)


async def replace(
    catalog: CatalogHarness,
    *updates: dict[str, Any],
    requirements: list[dict[str, Any]] | None = None,
    view: str = "v",
    caller: Caller = ROOT,
    key: RequestKey | None = None,
) -> LoadedEntry:
    return await catalog.views.replace(
        Mutation(caller, key),
        "lake",
        name(view),
        parse_view_requirements(msgspec.json.encode(requirements or [])),
        parse_view_updates(msgspec.json.encode(list(updates))),
    )


def new_version(sql: str) -> list[dict[str, Any]]:
    version = VIEW_VERSION | {"representations": [{"type": "sql", "sql": sql, "dialect": "spark"}]}
    return [
        {"action": "add-view-version", "view-version": version},
        {"action": "set-current-view-version", "view-version-id": -1},
    ]


async def sql_of(catalog: CatalogHarness) -> str | None:
    metadata = parse_view(await catalog.files.read((await catalog.entry(name("v"))).metadata_at))
    return metadata.current_version.representations[0].sql


# -- created ---------------------------------------------------------------------------------------------------------


async def test_created_view_exists_with_its_metadata_file(catalog: CatalogHarness) -> None:
    before = await catalog.last_event()
    made = await catalog.create_view(properties={"owner": "ann"})
    entry = made.entry
    assert entry == await catalog.entry(name("v"))
    assert (entry.kind, entry.generation, entry.format_version) == (EntryKind.VIEW, 1, 1)
    assert entry.location == f"s3://lake/views/{entry.id}"
    assert re.fullmatch(rf"{entry.location}/metadata/00000-[0-9a-f-]{{36}}\.metadata\.json", entry.metadata_at)
    metadata = parse_view(await catalog.files.read(entry.metadata_at))
    assert (metadata.uuid, metadata.location, metadata.properties) == (entry.uuid, entry.location, {"owner": "ann"})
    assert made.metadata.document == await catalog.files.read(entry.metadata_at)
    [(kind, event)] = await catalog.events(before)
    assert (kind, event.name, event.operation, event.generation) == ("ViewCreated", "v", "create", 1)
    assert await catalog.claimed() == {entry.id: [f"views/{entry.id}/"]}


async def test_created_view_has_the_requested_location(catalog: CatalogHarness) -> None:
    made = await catalog.create_view(location="s3://lake/my/view/")
    assert made.entry.location == "s3://lake/my/view"
    assert made.entry.metadata_at.startswith("s3://lake/my/view/metadata/00000-")


async def test_view_metadata_follows_write_metadata_path(catalog: CatalogHarness) -> None:
    where = {"write.metadata.path": "s3://lake/my/metadata/"}
    made = await catalog.create_view(location="s3://lake/my/view", properties=where)
    assert made.entry.metadata_at.startswith("s3://lake/my/metadata/00000-")
    assert sorted((await catalog.claimed())[made.entry.id]) == ["my/metadata/", "my/view/"]
    await catalog.create(location="s3://lake/t")
    async with catalog.unchanged():
        for elsewhere, refusal in (("s3://lake/t/v", LocationConflict), ("s3://other/v", InvalidInput)):
            with pytest.raises(refusal):
                await catalog.create_view("w", properties={"write.metadata.path": elsewhere})
            with pytest.raises(refusal):
                await replace(catalog, set_property("write.metadata.path", elsewhere))
    moved = await replace(catalog, set_property("write.metadata.path", "s3://lake/later"))
    assert moved.entry.metadata_at.startswith("s3://lake/later/00001-")
    assert "later/" in (await catalog.claimed())[made.entry.id]
    replaced = await replace(catalog, {"action": "remove-properties", "removals": ["write.metadata.path"]})
    assert replaced.entry.metadata_at.startswith("s3://lake/my/view/metadata/00002-")


@pytest.mark.parametrize(
    ("taken", "message"),
    [
        ("table", r"^Table with same name already exists: ns\.v$"),
        ("view", r"^View already exists: ns\.v$"),
        ("dropped view", "restore or purge it first"),
    ],
)
async def test_tables_and_views_share_names(catalog: CatalogHarness, taken: str, message: str) -> None:
    await catalog.set_undrop_window(60)
    if taken == "table":
        await catalog.create("v")
    else:
        await catalog.create_view()
    if taken == "dropped view":
        await catalog.drop("v", kind=EntryKind.VIEW)
    async with catalog.unchanged():
        with pytest.raises(AlreadyExists, match=message):
            await catalog.create_view()


async def test_rejected_view_leaves_nothing(catalog: CatalogHarness) -> None:
    await catalog.create(location="s3://lake/t")
    async with catalog.unchanged():
        with pytest.raises(NoSuchNamespace):
            await catalog.create_view(namespace="none")
        with pytest.raises(InvalidName):
            await catalog.create_view("a*")
        with pytest.raises(InvalidInput):
            await catalog.create_view(location="s3://other/v")
        with pytest.raises(LocationConflict):
            await catalog.create_view(location="s3://lake/t/v")
        with pytest.raises(InvalidInput):
            await catalog.create_view(view_version={"version-id": 1})
        with pytest.raises(InvalidInput):
            await catalog.create_view(schema={"type": "long"})


# -- replaced --------------------------------------------------------------------------------------------------------


async def test_replaced_view_has_its_new_version(catalog: CatalogHarness) -> None:
    made = await catalog.create_view()
    catalog.store.clock.advance(5)
    before = await catalog.last_event()
    replaced = await replace(
        catalog, *new_version("SELECT 2"), requirements=[{"type": "assert-view-uuid", "uuid": made.entry.uuid}]
    )
    assert replaced.entry == await catalog.entry(name("v"))
    assert (replaced.entry.id, replaced.entry.generation) == (made.entry.id, 2)
    assert await sql_of(catalog) == "SELECT 2"
    assert [(kind, event.operation) for kind, event in await catalog.events(before)] == [("ViewCommitted", "replace")]
    log = await catalog.store.meta.rows(
        "SELECT generation, operation, metadata_at FROM entry_commits ORDER BY generation"
    )
    assert log == [(1, "create", made.entry.metadata_at), (2, "replace", replaced.entry.metadata_at)]


async def test_view_location_must_be_free(catalog: CatalogHarness) -> None:
    made = await catalog.create_view(location="s3://lake/v")
    await catalog.create(location="s3://lake/t")
    async with catalog.unchanged():
        with pytest.raises(LocationConflict):
            await replace(catalog, {"action": "set-location", "location": "s3://lake/t/v"})
        with pytest.raises(InvalidInput):
            await replace(catalog, {"action": "set-location", "location": "s3://other/v"})
    moved = await replace(catalog, {"action": "set-location", "location": "s3://lake/w/"})
    assert moved.entry.location == "s3://lake/w"
    assert moved.entry.metadata_at.startswith("s3://lake/w/metadata/00001-")
    assert "w/" in (await catalog.claimed())[made.entry.id]


async def test_replacement_without_changes_writes_nothing(catalog: CatalogHarness) -> None:
    made = await catalog.create_view(properties={"a": "1"})
    async with catalog.unchanged():
        assert (await replace(catalog)).entry == made.entry
        assert (await replace(catalog, set_properties(a="1"))).entry == made.entry


async def test_rejected_replacement_changes_nothing(catalog: CatalogHarness) -> None:
    await catalog.create_view()
    await catalog.create("t")
    async with catalog.unchanged():
        with pytest.raises(CommitConflict):
            await replace(
                catalog, set_properties(a="1"), requirements=[{"type": "assert-view-uuid", "uuid": str(uuid4())}]
            )
        with pytest.raises(InvalidInput):
            await replace(catalog, {"action": "set-current-view-version", "view-version-id": 9})
        for view in ("none", "t"):
            with pytest.raises(NoSuchView):
                await replace(catalog, set_properties(a="1"), view=view)
        with pytest.raises(NoSuchCatalog):
            await catalog.views.replace(AS_ROOT, "pond", name("v"), (), ())


async def test_replacement_is_retried_after_a_concurrent_commit(catalog: CatalogHarness) -> None:
    await catalog.create_view()
    eventful = FaultyStore(catalog.store.meta)
    late = wire_catalog(catalog.store, eventful)
    eventful.meanwhile = lambda: replace(catalog, set_properties(a="1"))
    replaced = await replace(late, set_properties(b="2"))
    assert replaced.entry.generation == 3
    assert parse_view(replaced.metadata.document).properties == {"a": "1", "b": "2"}
    assert len(await catalog.store.stored_blobs()) == 3


async def test_replacement_fails_after_its_attempts(catalog: CatalogHarness) -> None:
    await catalog.create_view()
    eventful = FaultyStore(catalog.store.meta)
    late = wire_catalog(catalog.store, eventful)
    overtaken = 0

    async def overtake() -> None:
        nonlocal overtaken
        overtaken += 1
        await replace(catalog, set_property("n", str(overtaken)))
        eventful.meanwhile = overtake

    eventful.meanwhile = overtake
    with pytest.raises(PointerMoved):
        await replace(late, set_properties(b="2"))
    assert (await catalog.entry(name("v"))).generation == 1 + overtaken
    assert len(await catalog.store.stored_blobs()) == 1 + overtaken


async def test_concurrent_writers_all_succeed(catalog: CatalogHarness) -> None:
    await catalog.create_view()
    replaced = await asyncio.gather(*(replace(catalog, set_property(f"w{number}", "")) for number in range(8)))
    assert sorted(one.entry.generation for one in replaced) == list(range(2, 10))
    metadata = parse_view(await catalog.files.read((await catalog.entry(name("v"))).metadata_at))
    assert sorted(metadata.properties) == [f"w{number}" for number in range(8)]


async def test_idempotency_key_stores_the_response(catalog: CatalogHarness) -> None:
    made = await catalog.create_view()
    key = RequestKey("k", "digest")
    await replace(catalog, set_properties(a="1"), key=key)
    assert await catalog.keys.find(key) == StoredResponse(200, made.entry.id)


# -- who may ---------------------------------------------------------------------------------------------------------


async def test_each_operation_requires_its_action(light_catalog: CatalogHarness) -> None:
    await light_catalog.create_view()
    async with light_catalog.unchanged():
        for caller in (UNPRIVILEGED, user_with(Action.GET_TABLE, "s3:*")):
            with pytest.raises(AccessDenied):
                await light_catalog.create_view("w", caller=caller)
            with pytest.raises(AccessDenied):
                await replace(light_catalog, set_properties(a="1"), caller=caller)
    only_w = {"StringEquals": {"s3tables:tableName": "w"}}
    await light_catalog.create_view("w", caller=user_with(Action.CREATE_TABLE, condition=only_w))
    changer = user_with(Action.UPDATE_METADATA_LOCATION, condition=only_w)
    await replace(light_catalog, set_properties(a="1"), view="w", caller=changer)
    with pytest.raises(AccessDenied):
        await replace(light_catalog, set_properties(a="1"), view="v", caller=changer)
