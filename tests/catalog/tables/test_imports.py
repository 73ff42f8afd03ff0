from __future__ import annotations

import pytest

from lakebed.catalog.idempotency import Mutation
from lakebed.catalog.tables.imports import Imported, import_origin
from lakebed.core.errors import AccessDenied, AlreadyExists, CommitConflict, InvalidInput, NoSuchNamespace
from lakebed.objects.model import Caller
from tests.catalog.extension_catalog import extended
from tests.catalog.harness import CatalogHarness, FaultyStore, name, set_properties, user_with, wire_catalog
from tests.objects.stores import ROOT


async def import_table(
    catalog: CatalogHarness,
    where: str,
    table: str = "t",
    *,
    token: str | None = None,
    caller: Caller = ROOT,
    **properties: str,
) -> Imported:
    return await extended(catalog).tables.imports.import_table(
        Mutation(caller), "lake", name(table), where, properties=properties, external_token=token
    )


async def unnamed(catalog: CatalogHarness) -> str:
    """The metadata file of a table that was unregistered."""
    await catalog.create("gone")
    return (await catalog.drop("gone")).metadata_at


async def test_imported_table_records_its_origin(catalog: CatalogHarness) -> None:
    where = await unnamed(catalog)
    imported = await import_table(catalog, where, token="v7", source="polaris")
    assert imported.is_new
    entry = imported.committed.entry
    assert (entry.metadata_at, entry.generation) == (where, 1)
    origin = await import_origin(catalog.store.meta, entry.id)
    assert origin is not None
    assert (origin.metadata_at, origin.external_token, origin.properties) == (where, "v7", {"source": "polaris"})
    assert origin.principal == "root"


async def test_repeated_import_changes_nothing(light_catalog: CatalogHarness) -> None:
    where = await unnamed(light_catalog)
    first = await import_table(light_catalog, where, token="v7")
    async with light_catalog.unchanged():
        for token in ("v7", None):
            again = await import_table(light_catalog, where.replace("s3://", "s3a://"), token=token)
            assert not again.is_new
            assert again.committed.entry == first.committed.entry


async def test_import_of_another_table_is_rejected(light_catalog: CatalogHarness) -> None:
    where = await unnamed(light_catalog)
    await import_table(light_catalog, where, token="v7")
    async with light_catalog.unchanged():
        with pytest.raises(CommitConflict, match="version of the other catalog"):
            await import_table(light_catalog, where, token="v8")
        with pytest.raises(AlreadyExists):
            await import_table(light_catalog, where + ".other")
    await light_catalog.commit(name(), set_properties(a="1"))
    with pytest.raises(AlreadyExists):
        await import_table(light_catalog, where)


async def test_table_that_was_not_imported_has_no_version_elsewhere(light_catalog: CatalogHarness) -> None:
    made = await light_catalog.create()
    with pytest.raises(CommitConflict):
        await import_table(light_catalog, made.entry.metadata_at, token="v7")
    assert not (await import_table(light_catalog, made.entry.metadata_at)).is_new


async def test_names_of_views_and_dropped_tables_are_rejected(light_catalog: CatalogHarness) -> None:
    where = await unnamed(light_catalog)
    await light_catalog.create_view("v")
    await light_catalog.set_undrop_window(60)
    await light_catalog.create("dropped")
    await light_catalog.drop("dropped")
    for taken in ("v", "dropped"):
        with pytest.raises(AlreadyExists):
            await import_table(light_catalog, where, taken)


async def test_rejected_import_leaves_nothing(light_catalog: CatalogHarness) -> None:
    async with light_catalog.unchanged():
        with pytest.raises(InvalidInput, match="metadata file does not exist"):
            await import_table(light_catalog, "s3://lake/absent.metadata.json", token="v7")
        with pytest.raises(InvalidInput, match="property"):
            await extended(light_catalog).tables.imports.import_table(
                Mutation(ROOT), "lake", name(), "s3://lake/x", properties={"x" * 300: "y"}
            )
        with pytest.raises(NoSuchNamespace):
            await extended(light_catalog).tables.imports.import_table(
                Mutation(ROOT), "lake", name("t", "none"), "s3://lake/x", properties={}
            )


async def test_table_and_origin_commit_together(light_catalog: CatalogHarness) -> None:
    where = await unnamed(light_catalog)
    eventful = FaultyStore(light_catalog.store.meta)
    failing = wire_catalog(light_catalog.store, eventful)
    eventful.refused = RuntimeError("power cut")
    async with light_catalog.unchanged():
        with pytest.raises(RuntimeError):
            await import_table(failing, where, token="v7")
    assert (await import_table(light_catalog, where, token="v7")).is_new


async def test_import_requires_permission_to_create_and_to_read_the_file(light_catalog: CatalogHarness) -> None:
    where = await unnamed(light_catalog)
    with pytest.raises(AccessDenied):
        await import_table(light_catalog, where, caller=user_with("s3:GetObject"))
    with pytest.raises(AccessDenied):
        await import_table(light_catalog, where, caller=user_with("s3tables:CreateTable"))
    with pytest.raises(AccessDenied, match="S3 permission"):
        await import_table(light_catalog, where, caller=user_with("s3tables:CreateTable", "s3:GetObject"))
    maker = user_with("s3tables:CreateTable", "s3:*")
    assert (await import_table(light_catalog, where, caller=maker)).is_new
    with pytest.raises(AccessDenied):
        await import_table(light_catalog, where, caller=maker)  # it exists, but the caller cannot see it
