from __future__ import annotations

from typing import Any

import msgspec
import pytest

from lakebed.catalog.commits.refs import Expected
from lakebed.catalog.commits.service import NO_OPTIONS, CommitOptions
from lakebed.catalog.entries import LoadedEntry
from lakebed.catalog.idempotency import Mutation
from lakebed.core.errors import AccessDenied, CommitConflict, InvalidInput, NoSuchTable
from tests.catalog.appends import appended
from tests.catalog.extension_catalog import extended
from tests.catalog.harness import UNPRIVILEGED, CatalogHarness, FaultyStore, name, user_with, wire_catalog
from tests.objects.stores import ROOT

AS_ROOT = Mutation(ROOT)
TAG_DAY: dict[str, Any] = {"type": "tag", "max-ref-age-ms": 86_400_000}


async def with_snapshot(catalog: CatalogHarness) -> int:
    """A table with one snapshot; its id."""
    await catalog.create()
    await catalog.commit(name(), *await appended(catalog, name()))
    current = (await catalog.metadata(name())).current_snapshot_id
    assert current is not None
    return current


async def set_ref(
    catalog: CatalogHarness,
    ref: str,
    expected: Expected = msgspec.UNSET,
    options: CommitOptions = NO_OPTIONS,
    **reference: Any,  # Any: JSON
) -> LoadedEntry:
    spelled = {key.replace("_", "-"): value for key, value in reference.items()}
    refs = extended(catalog).tables.refs
    return await refs.set(AS_ROOT, "lake", name(), ref, spelled, expected, options)


async def remove_ref(
    catalog: CatalogHarness,
    ref: str,
    expected: Expected = msgspec.UNSET,
    options: CommitOptions = NO_OPTIONS,
    *,
    force: bool = False,
) -> LoadedEntry:
    return await extended(catalog).tables.refs.remove(AS_ROOT, "lake", name(), ref, expected, options, force=force)


async def test_tag_is_created_listed_and_removed(catalog: CatalogHarness) -> None:
    snapshot = await with_snapshot(catalog)
    made = await set_ref(catalog, "v1", snapshot_id=snapshot, type="tag")
    assert made.entry.generation == 3
    found = await extended(catalog).tables.refs.list(ROOT, "lake", name())
    assert {ref: one.type for ref, one in found.refs.items()} == {"main": "branch", "v1": "tag"}
    assert (found.protected, found.user_defined) == (["main"], ["v1"])
    await remove_ref(catalog, "v1")
    assert list((await catalog.metadata(name())).refs) == ["main"]


async def test_branch_moves_from_the_expected_snapshot_only(light_catalog: CatalogHarness) -> None:
    catalog = light_catalog
    first = await with_snapshot(catalog)
    await set_ref(catalog, "audit", None, snapshot_id=first, type="branch")
    with pytest.raises(CommitConflict, match="created concurrently"):
        await set_ref(catalog, "audit", None, snapshot_id=first, type="branch")
    await catalog.commit(name(), *await appended(catalog, name()))
    second = (await catalog.metadata(name())).current_snapshot_id
    assert second is not None
    with pytest.raises(CommitConflict, match="has changed"):
        await set_ref(catalog, "audit", second, snapshot_id=second, type="branch")
    await set_ref(catalog, "audit", first, snapshot_id=second, type="branch")
    assert (await catalog.metadata(name())).refs["audit"].snapshot_id == second


async def test_reference_with_retention_requires_force(light_catalog: CatalogHarness) -> None:
    catalog = light_catalog
    snapshot = await with_snapshot(catalog)
    await set_ref(catalog, "v1", snapshot_id=snapshot, **TAG_DAY)
    found = await extended(catalog).tables.refs.list(ROOT, "lake", name())
    assert found.protected == ["main", "v1"]
    async with catalog.unchanged():
        with pytest.raises(InvalidInput, match="force is required"):
            await remove_ref(catalog, "v1")
    await remove_ref(catalog, "v1", snapshot, force=True)
    assert "v1" not in (await catalog.metadata(name())).refs


async def test_main_cannot_be_deleted(light_catalog: CatalogHarness) -> None:
    await with_snapshot(light_catalog)
    async with light_catalog.unchanged():
        with pytest.raises(InvalidInput, match="main"):
            await remove_ref(light_catalog, "main", force=True)


async def test_deleting_a_missing_reference_changes_nothing(light_catalog: CatalogHarness) -> None:
    await with_snapshot(light_catalog)
    async with light_catalog.unchanged():
        removed = await remove_ref(light_catalog, "gone")
    assert removed.entry.generation == 2
    with pytest.raises(CommitConflict):
        await remove_ref(light_catalog, "gone", 7)


@pytest.mark.parametrize(
    "reference",
    [
        {"type": "tag", "min_snapshots_to_keep": 1},
        {"type": "tag", "max_snapshot_age_ms": 1},
        {"type": "branch", "max_ref_age_ms": 0},
        {"type": "leaf"},
    ],
)
async def test_invalid_reference_is_rejected(light_catalog: CatalogHarness, reference: dict[str, Any]) -> None:
    snapshot = await with_snapshot(light_catalog)
    async with light_catalog.unchanged():
        with pytest.raises(InvalidInput):
            await set_ref(light_catalog, "x", snapshot_id=snapshot, **reference)
        with pytest.raises(InvalidInput, match="no such snapshot"):
            await set_ref(light_catalog, "x", snapshot_id=987, type="tag")


async def test_repeated_commit_id_changes_a_reference_once(light_catalog: CatalogHarness) -> None:
    snapshot = await with_snapshot(light_catalog)
    options = CommitOptions("tag-it")
    first = await set_ref(light_catalog, "v1", None, options, snapshot_id=snapshot, type="tag")
    again = await set_ref(light_catalog, "v1", None, options, snapshot_id=snapshot, type="tag")
    assert again.entry == first.entry
    with pytest.raises(CommitConflict, match="used for a different commit"):
        await set_ref(light_catalog, "v2", None, options, snapshot_id=snapshot, type="tag")


async def test_retention_set_concurrently_requires_force(light_catalog: CatalogHarness) -> None:
    """Whether `force` is required is decided in the state that the deletion commits to."""
    snapshot = await with_snapshot(light_catalog)
    await set_ref(light_catalog, "v1", snapshot_id=snapshot, type="tag")
    eventful = FaultyStore(light_catalog.store.meta)
    racing = wire_catalog(light_catalog.store, eventful)

    async def keep_it() -> None:
        await set_ref(light_catalog, "v1", snapshot_id=snapshot, **TAG_DAY)

    eventful.meanwhile = keep_it
    with pytest.raises(InvalidInput, match="force is required"):
        await remove_ref(racing, "v1")
    assert "v1" in (await light_catalog.metadata(name())).refs


async def test_deletion_is_retried_after_a_concurrent_commit(light_catalog: CatalogHarness) -> None:
    snapshot = await with_snapshot(light_catalog)
    await set_ref(light_catalog, "v1", snapshot_id=snapshot, type="tag")
    eventful = FaultyStore(light_catalog.store.meta)
    racing = wire_catalog(light_catalog.store, eventful)

    async def append() -> None:
        await light_catalog.commit(name(), *await appended(light_catalog, name()))

    eventful.meanwhile = append
    await remove_ref(racing, "v1")
    assert list((await light_catalog.metadata(name())).refs) == ["main"]


async def test_changes_require_permission_on_table_metadata(light_catalog: CatalogHarness) -> None:
    await with_snapshot(light_catalog)
    refs = extended(light_catalog).tables.refs
    with pytest.raises(AccessDenied):
        await refs.list(UNPRIVILEGED, "lake", name())
    reader = user_with("s3tables:GetTableMetadataLocation")
    assert (await refs.list(reader, "lake", name())).refs
    with pytest.raises(AccessDenied):
        await refs.remove(Mutation(reader), "lake", name(), "v1", msgspec.UNSET, NO_OPTIONS, force=True)
    with pytest.raises(NoSuchTable):
        await refs.list(ROOT, "lake", name("none"))
