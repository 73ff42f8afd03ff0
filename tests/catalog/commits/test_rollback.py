from __future__ import annotations

from typing import Any

import pytest

from lakebed.catalog.commits.rollback import RollbackMode, RolledBack
from lakebed.catalog.idempotency import Mutation
from lakebed.core.errors import CommitConflict, InvalidInput, NoSuchTable
from lakebed.iceberg.metadata import parse_table
from tests.catalog.appends import appended
from tests.catalog.extension_catalog import extended
from tests.catalog.harness import CatalogHarness, name, set_properties
from tests.objects.stores import ROOT

AS_ROOT = Mutation(ROOT)
WIDER: list[dict[str, Any]] = [
    {
        "action": "add-schema",
        "schema": {
            "type": "struct",
            "fields": [
                {"id": 1, "name": "id", "required": True, "type": "long"},
                {"id": 2, "name": "payload", "required": False, "type": "string"},
                {"id": 3, "name": "more", "required": False, "type": "int"},
            ],
        },
    },
    {"action": "set-current-schema", "schema-id": -1},
]


async def roll_back(catalog: CatalogHarness, target: str, token: str | None = None, commit_id: str = "") -> RolledBack:
    stated = (await catalog.entry(name())).version_token if token is None else token
    return await extended(catalog).tables.rollback.roll_back(
        AS_ROOT, "lake", name(), target, expected_token=stated, commit_id=commit_id
    )


async def grow(catalog: CatalogHarness) -> str:
    """Append to the table; returns its metadata file."""
    return (await catalog.commit(name(), *await appended(catalog, name()))).entry.metadata_at


async def test_pointer_moves_back_if_no_ids_were_assigned_since(catalog: CatalogHarness) -> None:
    made = await catalog.create()
    await catalog.commit(name(), set_properties(a="1"))
    rolled = await roll_back(catalog, made.entry.metadata_at)
    assert rolled.mode is RollbackMode.POINTER
    assert rolled.committed.entry.metadata_at == made.entry.metadata_at
    assert rolled.committed.entry.generation == 3
    assert "a" not in (await catalog.metadata(name())).properties


async def test_rollback_past_snapshots_keeps_sequence_numbers(catalog: CatalogHarness) -> None:
    await catalog.create()
    first_at = await grow(catalog)
    first = await catalog.metadata(name())
    await grow(catalog)
    grown = await catalog.metadata(name())
    rolled = await roll_back(catalog, first_at)
    assert rolled.mode is RollbackMode.FORWARD
    now = await catalog.metadata(name())
    assert now.current_snapshot_id == first.current_snapshot_id
    assert now.last_sequence_number == grown.last_sequence_number
    assert set(now.snapshots) == set(grown.snapshots)
    assert now.metadata_log[-1].metadata_file != first_at
    # The next snapshot gets a sequence number that was never used.
    await grow(catalog)
    assert (await catalog.metadata(name())).last_sequence_number == grown.last_sequence_number + 1


async def test_table_rolls_back_to_before_its_first_snapshot(light_catalog: CatalogHarness) -> None:
    made = await light_catalog.create()
    await grow(light_catalog)
    assert (await roll_back(light_catalog, made.entry.metadata_at)).mode is RollbackMode.FORWARD
    now = await light_catalog.metadata(name())
    assert (now.current_snapshot_id, dict(now.refs)) == (None, {})


async def test_rollback_restores_schema_properties_and_tags(light_catalog: CatalogHarness) -> None:
    catalog = light_catalog
    await catalog.create(properties={"kept": "1", "gone": "2"})
    before_at = await grow(catalog)
    before = await catalog.metadata(name())
    tag = {"action": "set-snapshot-ref", "ref-name": "v1", "type": "tag", "snapshot-id": before.current_snapshot_id}
    await catalog.commit(
        name(),
        *WIDER,
        tag,
        {"action": "set-properties", "updates": {"kept": "3", "new": "4"}},
        {"action": "remove-properties", "removals": ["gone"]},
    )
    assert (await roll_back(catalog, before_at)).mode is RollbackMode.FORWARD
    now = await catalog.metadata(name())
    assert now.properties == before.properties
    assert now.current_schema_id == before.current_schema_id
    assert (len(now.schemas), now.last_column_id) == (2, 3)
    assert list(now.refs) == ["main"]


async def test_rollback_to_an_expired_snapshot_is_rejected(light_catalog: CatalogHarness) -> None:
    catalog = light_catalog
    await catalog.create()
    first_at = await grow(catalog)
    first = (await catalog.metadata(name())).current_snapshot_id
    await grow(catalog)
    await catalog.commit(name(), {"action": "remove-snapshots", "snapshot-ids": [first]})
    async with catalog.unchanged():
        with pytest.raises(InvalidInput, match="removed since"):
            await roll_back(catalog, first_at)


async def test_rollback_does_not_narrow_a_widened_column(light_catalog: CatalogHarness) -> None:
    """Data was written with the wider type: the narrow one cannot read it."""
    catalog = light_catalog
    fields = [{"id": 1, "name": "id", "required": True, "type": "int"}]
    await catalog.create(schema={"type": "struct", "schema-id": 0, "fields": fields})
    narrow_at = await grow(catalog)
    wide = [{"id": 1, "name": "id", "required": True, "type": "long"}]
    await catalog.commit(
        name(),
        {"action": "add-schema", "schema": {"type": "struct", "fields": wide}},
        {"action": "set-current-schema", "schema-id": -1},
    )
    with pytest.raises(InvalidInput, match="cannot change its type"):
        await roll_back(catalog, narrow_at)


async def test_rollback_requires_a_file_of_the_table(light_catalog: CatalogHarness) -> None:
    catalog = light_catalog
    made = await catalog.create()
    other = await catalog.create("other")
    with pytest.raises(InvalidInput, match="not one of this table"):
        await roll_back(catalog, other.entry.metadata_at)
    document = await catalog.files.read(other.entry.metadata_at)
    key = made.entry.location.removeprefix("s3://lake/") + "/metadata/foreign.metadata.json"
    await catalog.store.put("lake", key, document)
    with pytest.raises(InvalidInput, match="another table"):
        await roll_back(catalog, f"s3://lake/{key}")
    with pytest.raises(InvalidInput, match="metadata file does not exist"):
        await roll_back(catalog, f"{made.entry.location}/metadata/absent.metadata.json")


async def test_rollback_to_the_current_file_changes_nothing(light_catalog: CatalogHarness) -> None:
    made = await light_catalog.create()
    async with light_catalog.unchanged():
        assert (await roll_back(light_catalog, made.entry.metadata_at)).mode is RollbackMode.NONE


async def test_stale_version_token_is_reported_first(light_catalog: CatalogHarness) -> None:
    await light_catalog.create()
    async with light_catalog.unchanged():
        with pytest.raises(CommitConflict):
            await roll_back(light_catalog, "no location", "stale")
    with pytest.raises(NoSuchTable):
        await extended(light_catalog).tables.rollback.roll_back(
            AS_ROOT, "lake", name("none"), "s3://lake/x", expected_token="x"
        )


@pytest.mark.parametrize("forward", [False, True])
async def test_repeated_commit_id_rolls_back_once(light_catalog: CatalogHarness, forward: bool) -> None:
    catalog = light_catalog
    made = await catalog.create()
    if forward:
        await grow(catalog)
    await catalog.commit(name(), set_properties(a="1"))
    token = (await catalog.entry(name())).version_token
    first = await roll_back(catalog, made.entry.metadata_at, token, "back")
    assert first.mode is (RollbackMode.FORWARD if forward else RollbackMode.POINTER)
    again = await roll_back(catalog, made.entry.metadata_at, token, "back")
    assert again.committed.entry == first.committed.entry
    assert again.mode is first.mode
    with pytest.raises(CommitConflict, match="used for a different commit"):
        await roll_back(catalog, made.entry.metadata_at, "other", "back")


async def test_rollback_is_recorded_in_the_commit_log(light_catalog: CatalogHarness) -> None:
    made = await light_catalog.create()
    await grow(light_catalog)
    await roll_back(light_catalog, made.entry.metadata_at)
    kind, event = (await light_catalog.events())[-1]
    assert (kind, event.operation) == ("TableCommitted", "rollback")
    assert parse_table(await light_catalog.files.read(made.entry.metadata_at)).uuid == made.entry.uuid
