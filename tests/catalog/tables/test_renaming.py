from __future__ import annotations

import asyncio

import pytest

from lakebed.catalog.access.authorization import Action
from lakebed.catalog.idempotency import Mutation, RequestKey, StoredResponse
from lakebed.catalog.identifiers import Identifier
from lakebed.catalog.model import EntryKind
from lakebed.core.errors import (
    AccessDenied,
    AlreadyExists,
    NoSuchCatalog,
    NoSuchNamespace,
    NoSuchTable,
    NoSuchView,
)
from lakebed.objects.model import Caller
from tests.catalog.harness import (
    UNPRIVILEGED,
    CatalogHarness,
    FaultyStore,
    name,
    set_properties,
    user_with,
    wire_catalog,
)
from tests.objects.stores import ROOT

TABLE, VIEW = EntryKind.TABLE, EntryKind.VIEW


async def rename(
    catalog: CatalogHarness, source: Identifier, target: Identifier, kind: EntryKind = TABLE, caller: Caller = ROOT
) -> None:
    await catalog.renaming.rename(Mutation(caller), "lake", source, target, kind)


@pytest.mark.parametrize("target", [name("u"), name("t", "other"), name("u", "other", "deep")], ids=str)
async def test_rename_changes_only_the_name(catalog: CatalogHarness, target: Identifier) -> None:
    await catalog.namespace("other", "deep")
    await catalog.create()
    committed = await catalog.commit(name(), set_properties(a="1"))
    claimed = await catalog.claimed()
    catalog.store.clock.advance(5)
    before = await catalog.last_event()
    await rename(catalog, name(), target)
    renamed = await catalog.entry(target)
    assert renamed == committed.entry._replace(
        name=target.name, namespace=renamed.namespace, updated_ms=committed.entry.updated_ms + 5000
    )
    assert (await catalog.entries.by_id(renamed.id)).identifier == target
    assert (await catalog.entries.find(catalog.store.meta, "lake", name())).entry is None
    assert await catalog.claimed() == claimed
    [(kind, event)] = await catalog.events(before)
    assert (kind, event.namespace, event.name, event.facts) == (
        "TableRenamed",
        target.namespace,
        target.name,
        {"from": "ns.t"},
    )
    assert (await catalog.commit(target, set_properties(b="2"))).entry.generation == 3
    await catalog.create()


async def test_view_is_renamed_like_a_table(catalog: CatalogHarness) -> None:
    await catalog.create_view()
    await rename(catalog, name("v"), name("w"), VIEW)
    assert (await catalog.entry(name("w"))).kind is VIEW
    assert (await catalog.events())[-1][0] == "ViewRenamed"


@pytest.mark.parametrize(
    ("taken", "message"),
    [
        ("table", r"^Cannot rename ns\.t to ns\.u\. Table already exists$"),
        ("view", r"^Cannot rename ns\.t to ns\.u\. View already exists$"),
        ("dropped table", "in use by a dropped"),
    ],
)
async def test_existing_name_is_rejected(catalog: CatalogHarness, taken: str, message: str) -> None:
    await catalog.set_undrop_window(60)
    await catalog.create()
    if taken == "view":
        await catalog.create_view("u")
    else:
        await catalog.create("u")
    if taken == "dropped table":
        await catalog.drop("u")
    async with catalog.unchanged():
        with pytest.raises(AlreadyExists, match=message):
            await rename(catalog, name(), name("u"))


async def test_rename_to_the_same_name_changes_nothing(catalog: CatalogHarness) -> None:
    made = await catalog.create()
    await rename(catalog, name(), name())
    assert await catalog.entry(name()) == made.entry


async def test_missing_table_is_not_renamed(catalog: CatalogHarness) -> None:
    await catalog.set_undrop_window(60)
    await catalog.create()
    await catalog.create_view()
    await catalog.create("dropped")
    await catalog.drop("dropped")
    async with catalog.unchanged():
        for source in ("none", "v", "dropped"):
            with pytest.raises(NoSuchTable):
                await rename(catalog, name(source), name("x"))
        with pytest.raises(NoSuchView):
            await rename(catalog, name(), name("x"), VIEW)
        with pytest.raises(NoSuchNamespace, match="Namespace does not exist: none"):
            await rename(catalog, name(), name("t", "none"))
        with pytest.raises(NoSuchTable):
            await rename(catalog, name("t", "none"), name())
        with pytest.raises(NoSuchCatalog):
            await catalog.renaming.rename(Mutation(ROOT), "pond", name(), name("u"), TABLE)


async def test_concurrent_renames_give_each_name_to_one_table(catalog: CatalogHarness) -> None:
    for table in ("a", "b", "c"):
        await catalog.create(table)
    outcomes = await asyncio.gather(
        *(rename(catalog, name(table), name("x")) for table in ("a", "b", "c")), return_exceptions=True
    )
    assert outcomes.count(None) == 1
    assert sum(isinstance(outcome, AlreadyExists) for outcome in outcomes) == 2


async def test_concurrently_dropped_table_is_not_renamed(catalog: CatalogHarness) -> None:
    await catalog.create()
    eventful = FaultyStore(catalog.store.meta)
    late = wire_catalog(catalog.store, eventful)
    eventful.meanwhile = catalog.drop
    with pytest.raises(NoSuchTable):
        await rename(late, name(), name("u"))
    assert (await catalog.events())[-1][0] == "TableDropped"


async def test_concurrent_commit_under_the_old_name_is_not_lost(catalog: CatalogHarness) -> None:
    await catalog.create()
    eventful = FaultyStore(catalog.store.meta)
    late = wire_catalog(catalog.store, eventful)
    eventful.meanwhile = lambda: rename(catalog, name(), name("u"))
    await late.commit(name(), set_properties(a="1"))
    entry = await catalog.entry(name("u"))
    assert entry.generation == 2
    assert (await catalog.metadata(name("u"))).properties["a"] == "1"


async def test_idempotency_key_stores_the_response(catalog: CatalogHarness) -> None:
    await catalog.create()
    key = RequestKey("k", "digest")
    await catalog.renaming.rename(Mutation(ROOT, key), "lake", name(), name("u"), TABLE)
    assert await catalog.keys.find(key) == StoredResponse(204)


async def test_rename_requires_permission_on_source_and_target(
    light_catalog: CatalogHarness,
) -> None:
    await light_catalog.create()
    condition = {"StringEquals": {"s3tables:tableName": "t"}}
    async with light_catalog.unchanged():
        for caller in (
            UNPRIVILEGED,
            user_with(Action.RENAME_TABLE),
            user_with(Action.CREATE_TABLE),
            user_with(Action.RENAME_TABLE, Action.CREATE_TABLE, condition=condition),
        ):
            with pytest.raises(AccessDenied):
                await rename(light_catalog, name(), name("u"), caller=caller)
    await rename(light_catalog, name(), name("u"), caller=user_with(Action.RENAME_TABLE, Action.CREATE_TABLE))
