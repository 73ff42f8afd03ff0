from __future__ import annotations

import pytest

from lakebed.catalog.access.authorization import Action
from lakebed.catalog.model import EntryKind
from lakebed.core.errors import (
    AccessDenied,
    Corrupted,
    NoSuchCatalog,
    NoSuchNamespace,
    NoSuchTable,
    NoSuchView,
    NotFound,
)
from lakebed.meta.seam import Transaction
from tests.objects.stores import ROOT

from .harness import UNPRIVILEGED, CatalogHarness, name, set_property, user_with, wire_catalog

TABLE, VIEW = EntryKind.TABLE, EntryKind.VIEW


async def test_name_is_resolved_as_far_as_it_exists(catalog: CatalogHarness) -> None:
    made = await catalog.create()
    meta = catalog.store.meta
    found = await catalog.entries.find(meta, "lake", name("t"))
    assert (found.catalog.name, found.namespace.levels, found.entry, found.live) == (
        "lake",
        ("ns",),
        made.entry,
        made.entry,
    )
    assert (await catalog.entries.find(meta, "lake", name("other"))).entry is None
    with pytest.raises(NoSuchNamespace, match="Namespace does not exist: none"):
        await catalog.entries.find(meta, "lake", name("t", "none"))
    with pytest.raises(NoSuchCatalog):
        await catalog.entries.find(meta, "pond", name("t"))
    await catalog.store.bucket("pond")
    with pytest.raises(NoSuchCatalog):
        await catalog.entries.find(meta, "pond", name("t"))


async def test_lookup_requires_the_right_entry_kind(catalog: CatalogHarness) -> None:
    await catalog.create("t")
    await catalog.create_view("v")
    entries = catalog.entries
    assert (await entries.get(ROOT, "lake", name("t"), TABLE, Action.GET_TABLE)).identifier == name("t")
    assert (await entries.get(ROOT, "lake", name("v"), VIEW, Action.GET_TABLE)).identifier == name("v")
    with pytest.raises(NoSuchView, match=r"View does not exist: ns\.t"):
        await entries.get(ROOT, "lake", name("t"), VIEW, Action.GET_TABLE)
    with pytest.raises(NoSuchTable, match=r"Table does not exist: ns\.v"):
        await entries.get(ROOT, "lake", name("v"), TABLE, Action.GET_TABLE)
    with pytest.raises(NoSuchTable):
        await entries.load(ROOT, "lake", name("none"), TABLE, Action.GET_TABLE)


async def test_lookup_in_a_missing_namespace_reports_a_missing_table_or_view(catalog: CatalogHarness) -> None:
    entries = catalog.entries
    await catalog.create("t")
    snapshots = name("snapshots", "ns", "t")
    with pytest.raises(NoSuchTable, match=r"Table does not exist: ns\.t\.snapshots"):
        await entries.load(ROOT, "lake", snapshots, TABLE, Action.GET_TABLE)
    with pytest.raises(NoSuchTable):
        await entries.get(ROOT, "lake", snapshots, TABLE, Action.GET_TABLE)
    with pytest.raises(NoSuchView, match=r"View does not exist: ns\.t\.snapshots"):
        await entries.load(ROOT, "lake", snapshots, VIEW, Action.GET_TABLE)
    with pytest.raises(NoSuchCatalog):
        await entries.get(ROOT, "pond", snapshots, TABLE, Action.GET_TABLE)


async def test_dropped_table_is_not_found_but_holds_its_name(catalog: CatalogHarness) -> None:
    await catalog.set_undrop_window(60)
    made = await catalog.create()
    await catalog.drop()
    found = await catalog.entries.find(catalog.store.meta, "lake", name("t"))
    assert found.live is None
    assert found.entry is not None
    assert found.entry.id == made.entry.id
    with pytest.raises(NoSuchTable):
        await catalog.entries.get(ROOT, "lake", name("t"), TABLE, Action.GET_TABLE)
    with pytest.raises(NotFound):
        await catalog.entries.by_id(made.entry.id)


async def test_table_is_found_by_id(catalog: CatalogHarness) -> None:
    made = await catalog.create()
    known = await catalog.entries.by_id(made.entry.id)
    assert (known.catalog.name, known.identifier, known.entry) == ("lake", name("t"), made.entry)
    with pytest.raises(NotFound):
        await catalog.entries.by_id("0" * 32)


async def test_loaded_table_has_the_stored_metadata(catalog: CatalogHarness) -> None:
    await catalog.create()
    await catalog.commit(name("t"), set_property("colour", "red"))
    fresh = wire_catalog(catalog.store)
    for one in (catalog, fresh):
        loaded = await one.entries.load(ROOT, "lake", name("t"), TABLE, Action.GET_METADATA_LOCATION)
        assert loaded.identifier == name("t")
        assert loaded.metadata.document == await catalog.files.read(loaded.entry.metadata_at)
        assert b'"colour":"red"' in loaded.metadata.document


async def test_metadata_is_read_once(light_catalog: CatalogHarness) -> None:
    made = await light_catalog.create()
    fresh = wire_catalog(light_catalog.store)
    first = await fresh.entries.metadata(made.catalog, made.entry)
    assert await fresh.entries.metadata(made.catalog, made.entry) is first


async def test_missing_metadata_is_reported_as_corruption(catalog: CatalogHarness) -> None:
    made = await catalog.create()

    async def lose(tx: Transaction) -> None:
        await tx.run("DELETE FROM objects")

    await catalog.store.meta.transact(lose)
    with pytest.raises(Corrupted, match="metadata file is missing"):
        await wire_catalog(catalog.store).entries.metadata(made.catalog, made.entry)


async def test_names_are_listed_by_kind_in_pages(catalog: CatalogHarness) -> None:
    await catalog.namespace("ns", "child")
    for one in ("c", "a", "b"):
        await catalog.create(one)
    for one in ("x", "aa"):
        await catalog.create_view(one)
    entries = catalog.entries
    first = await entries.list(ROOT, "lake", ["ns"], TABLE, after="", limit=2)
    assert (first.namespace, first.names, first.truncated) == (("ns",), ["a", "b"], True)
    second = await entries.list(ROOT, "lake", ["ns"], TABLE, after="b", limit=2)
    assert (second.names, second.truncated) == (["c"], False)
    views = await entries.list(ROOT, "lake", ["ns"], VIEW, after="", limit=2)
    assert (views.names, views.truncated) == (["aa", "x"], False)
    assert (await entries.list(ROOT, "lake", ["ns", "child"], TABLE, after="", limit=2)).names == []


async def test_dropped_tables_are_not_listed(catalog: CatalogHarness) -> None:
    await catalog.set_undrop_window(60)
    for one in ("a", "b", "c"):
        await catalog.create(one)
    await catalog.drop("b")
    page = await catalog.entries.list(ROOT, "lake", ["ns"], TABLE, after="", limit=2)
    assert (page.names, page.truncated) == (["a", "c"], False)


async def test_listing_requires_an_existing_namespace(catalog: CatalogHarness) -> None:
    with pytest.raises(NoSuchNamespace):
        await catalog.entries.list(ROOT, "lake", ["none"], TABLE, after="", limit=2)
    with pytest.raises(NoSuchCatalog):
        await catalog.entries.list(ROOT, "pond", ["ns"], TABLE, after="", limit=2)


async def test_lookup_requires_the_given_action(light_catalog: CatalogHarness) -> None:
    await light_catalog.create()
    entries = light_catalog.entries
    for table in ("t", "none"):
        with pytest.raises(AccessDenied):
            await entries.get(UNPRIVILEGED, "lake", name(table), TABLE, Action.GET_TABLE)
        with pytest.raises(AccessDenied):
            await entries.load(UNPRIVILEGED, "lake", name(table), TABLE, Action.GET_METADATA_LOCATION)
    with pytest.raises(AccessDenied):
        await entries.list(UNPRIVILEGED, "lake", ["ns"], TABLE, after="", limit=1)
    with pytest.raises(AccessDenied):
        await entries.load(user_with("s3tables:GetTable"), "lake", name("t"), TABLE, Action.GET_METADATA_LOCATION)
    await entries.get(user_with("s3tables:GetTable"), "lake", name("t"), TABLE, Action.GET_TABLE)
    await entries.load(
        user_with("s3tables:GetTableMetadataLocation"), "lake", name("t"), TABLE, Action.GET_METADATA_LOCATION
    )
    await entries.list(user_with("s3tables:ListTables"), "lake", ["ns"], TABLE, after="", limit=1)


async def test_peek_uses_the_cache_without_adding_to_it(light_catalog: CatalogHarness) -> None:
    made = await light_catalog.create()
    cache = light_catalog.cache
    kept = cache.get(made.entry.version_token)
    assert (await light_catalog.entries.peek_metadata(made.catalog, made.entry)) is kept
    cache._kept.clear()
    seen = await light_catalog.entries.peek_metadata(made.catalog, made.entry)
    assert seen.table == (await light_catalog.metadata(name()))
    assert cache.get(made.entry.version_token) is None
