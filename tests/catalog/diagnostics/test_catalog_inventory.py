from __future__ import annotations

import pytest

from lakebed.catalog.commits.service import CommitOptions
from lakebed.catalog.diagnostics.catalog_inventory import CatalogInventory
from lakebed.catalog.diagnostics.recovery_status import MigrationBlocker, RecoveryAction
from lakebed.catalog.idempotency import Mutation
from lakebed.core.errors import AccessDenied, NoSuchCatalog
from tests.catalog.extension_catalog import extended
from tests.catalog.harness import UNPRIVILEGED, CatalogHarness, a_table, name, set_properties, user_with
from tests.objects.stores import ROOT

from .test_table_diagnostics import tamper


async def survey(catalog: CatalogHarness) -> CatalogInventory:
    return await extended(catalog).tables.inventories.survey(ROOT, "lake")


async def test_catalog_contents_are_counted(catalog: CatalogHarness) -> None:
    await catalog.set_undrop_window(60)
    await catalog.namespace("a", "b")
    for table in ("t", "u", "w"):
        await catalog.create(table)
    await catalog.create_view()
    await catalog.drop("w")
    await catalog.commit(name(), set_properties(a="1"), options=CommitOptions("mine"))
    found = await survey(catalog)
    assert (found.namespaces, found.tables, found.views, found.dropped) == (3, 2, 1, 1)
    assert (found.commits, found.client_ids, found.directories) == (5, 1, 4)
    assert (found.blockers, found.actions) == ([], [])


async def test_other_catalogs_are_not_counted(light_catalog: CatalogHarness) -> None:
    await light_catalog.create_table_bucket("other")
    await light_catalog.create()
    found = await extended(light_catalog).tables.inventories.survey(ROOT, "other")
    assert (found.namespaces, found.tables, found.commits, found.directories) == (0, 0, 0, 0)


async def test_catalogs_of_one_bucket_are_counted_separately(catalog: CatalogHarness) -> None:
    for number, (warehouse, *allowed) in enumerate((("one",), ("one0", "s3://sea/more"), ("two",))):
        await catalog.make(warehouse, f"s3://sea/{warehouse}", *allowed)
        await catalog.namespaces.create(Mutation(ROOT), warehouse, ("ns",), {})
        for table in "tuv"[: number + 1]:
            await catalog.creation.create(Mutation(ROOT), warehouse, ("ns",), a_table(table))
    elsewhere = a_table("w", location="s3://sea/more/w")
    await catalog.creation.create(Mutation(ROOT), "one0", ("ns",), elsewhere)
    surveys = extended(catalog).tables.inventories
    counted = [await surveys.survey(ROOT, warehouse) for warehouse in ("one", "one0", "two", "lake")]
    assert [(found.tables, found.directories, found.overlapping) for found in counted] == [
        (1, 1, 0),
        (3, 3, 0),
        (3, 3, 0),
        (0, 0, 0),
    ]


@pytest.mark.parametrize(
    ("change", "blocker"),
    [
        ("DELETE FROM entry_commits", MigrationBlocker.COMMIT_RECOVERY_REQUIRED),
        ("UPDATE entry_commits SET generation = generation + 1", MigrationBlocker.COMMIT_RECOVERY_REQUIRED),
        ("DELETE FROM entry_locations", MigrationBlocker.WAREHOUSE_INDEX_BACKFILL_REQUIRED),
        (
            "INSERT INTO entry_locations (bucket, prefix, entry) SELECT bucket, prefix || 'in/', entry"
            " FROM entry_locations",
            MigrationBlocker.DUPLICATE_WAREHOUSE_PREFIX,
        ),
        ("UPDATE entries SET uuid = 'same'", MigrationBlocker.DUPLICATE_TABLE_IDENTITY),
    ],
)
async def test_migration_problems_are_found(
    light_catalog: CatalogHarness, change: str, blocker: MigrationBlocker
) -> None:
    await light_catalog.create()
    await light_catalog.create("u")
    await tamper(light_catalog, change)
    found = await survey(light_catalog)
    assert blocker in found.blockers
    repairable = blocker in (
        MigrationBlocker.COMMIT_RECOVERY_REQUIRED,
        MigrationBlocker.WAREHOUSE_INDEX_BACKFILL_REQUIRED,
    )
    assert (RecoveryAction.RUN_COMMIT_RECOVERY in found.actions) is repairable


async def test_fingerprint_changes_only_with_commits(light_catalog: CatalogHarness) -> None:
    surveys = extended(light_catalog).tables.inventories
    await light_catalog.create()
    first = await surveys.fingerprint(ROOT, "lake")
    assert await surveys.fingerprint(ROOT, "lake") == first
    await light_catalog.commit(name(), set_properties(a="1"))
    assert await surveys.fingerprint(ROOT, "lake") != first


async def test_inventory_requires_permission(light_catalog: CatalogHarness) -> None:
    surveys = extended(light_catalog).tables.inventories
    with pytest.raises(NoSuchCatalog):
        await surveys.survey(ROOT, "none")
    with pytest.raises(AccessDenied):
        await surveys.survey(UNPRIVILEGED, "lake")
    reader = user_with("s3tables:GetTableBucket")
    assert (await surveys.survey(reader, "lake")).tables == 0
    with pytest.raises(AccessDenied):
        await surveys.fingerprint(reader, "lake")
    with pytest.raises(AccessDenied):
        await surveys.authorize_change(reader, "lake")
    assert (await surveys.authorize_change(ROOT, "lake")).name == "lake"
