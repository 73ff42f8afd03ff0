from __future__ import annotations

import msgspec
import pytest

from lakebed.catalog.commits.metadata_pointers import same_file
from lakebed.catalog.entries import LoadedEntry
from lakebed.catalog.idempotency import Mutation
from lakebed.core.errors import AccessDenied, CommitConflict, InvalidInput, NoSuchTable
from tests.catalog.extension_catalog import extended
from tests.catalog.harness import UNPRIVILEGED, CatalogHarness, name, set_properties
from tests.objects.stores import ROOT

AS_ROOT = Mutation(ROOT)


async def written_by_hand(catalog: CatalogHarness, **changes: object) -> str:
    """A metadata file that a client wrote beside the current one."""
    entry = await catalog.entry(name())
    document = msgspec.json.decode(await catalog.files.read(entry.metadata_at))
    document |= {key.replace("_", "-"): value for key, value in changes.items()}
    where = f"{entry.location}/metadata/00009-by-hand.metadata.json"
    bucket, _, key = where.removeprefix("s3://").partition("/")
    await catalog.store.put(bucket, key, msgspec.json.encode(document))
    return where


async def move(catalog: CatalogHarness, where: str, token: str, **options: str) -> LoadedEntry:
    return await extended(catalog).tables.pointers.move(AS_ROOT, "lake", name(), where, expected_token=token, **options)


async def test_pointer_moves_to_an_existing_file(catalog: CatalogHarness) -> None:
    made = await catalog.create()
    where = await written_by_hand(catalog, properties={"by": "hand"})
    moved = await move(catalog, where, made.entry.version_token)
    assert moved.entry.metadata_at == where
    assert moved.entry.generation == 2
    assert (await catalog.metadata(name())).properties == {"by": "hand"}


async def test_stale_version_token_is_reported_before_the_file_is_read(light_catalog: CatalogHarness) -> None:
    await light_catalog.create()
    unreadable = await written_by_hand(light_catalog, format_version=99)
    async with light_catalog.unchanged():
        for where in ("s3://nowhere/x", "no location", unreadable):
            with pytest.raises(CommitConflict):
                await move(light_catalog, where, "stale")


async def test_file_of_another_table_is_rejected(light_catalog: CatalogHarness) -> None:
    made = await light_catalog.create()
    other = "11111111-2222-3333-4444-555555555555"
    where = await written_by_hand(light_catalog, table_uuid=other)
    with pytest.raises(InvalidInput, match="another table"):
        await move(light_catalog, where, made.entry.version_token)


async def test_file_that_is_no_valid_successor_is_rejected(light_catalog: CatalogHarness) -> None:
    made = await light_catalog.create()
    where = await written_by_hand(light_catalog, last_column_id=2)
    await light_catalog.commit(
        name(),
        {
            "action": "add-schema",
            "schema": {"type": "struct", "fields": [{"id": 9, "name": "z", "required": False, "type": "int"}]},
        },
    )
    token = (await light_catalog.entry(name())).version_token
    with pytest.raises(InvalidInput, match="last-column-id"):
        await move(light_catalog, where, token)
    with pytest.raises(InvalidInput, match="metadata file does not exist"):
        await move(light_catalog, f"{made.entry.location}/metadata/absent.metadata.json", token)


async def test_repeated_commit_id_moves_the_pointer_once(light_catalog: CatalogHarness) -> None:
    made = await light_catalog.create()
    where = await written_by_hand(light_catalog)
    token = made.entry.version_token
    first = await move(light_catalog, where, token, commit_id="c1")
    await light_catalog.commit(name(), set_properties(a="1"))
    again = await move(light_catalog, where, token, commit_id="c1")
    assert again.entry.generation == first.entry.generation + 1  # the current state of the table
    for other_where, other_token in ((made.entry.metadata_at, token), (where, "other")):
        with pytest.raises(CommitConflict, match="used for a different commit"):
            await move(light_catalog, other_where, other_token, commit_id="c1")


async def test_expected_file_must_be_the_current_one(light_catalog: CatalogHarness) -> None:
    made = await light_catalog.create()
    where = await written_by_hand(light_catalog)
    with pytest.raises(CommitConflict):
        await move(light_catalog, where, made.entry.version_token, expected_at=where)
    spelled = made.entry.metadata_at.replace("s3://", "s3a://")
    assert (await move(light_catalog, where, made.entry.version_token, expected_at=spelled)).entry.generation == 2


async def test_missing_tables_are_rejected(light_catalog: CatalogHarness) -> None:
    await light_catalog.create_view()
    pointers = extended(light_catalog).tables.pointers
    for table in ("t", "v"):
        with pytest.raises(NoSuchTable):
            await pointers.move(AS_ROOT, "lake", name(table), "s3://lake/x", expected_token="x")
    await light_catalog.create()
    with pytest.raises(AccessDenied):
        await pointers.move(Mutation(UNPRIVILEGED), "lake", name(), "s3://lake/x", expected_token="x")


def test_locations_with_other_schemes_name_the_same_file() -> None:
    assert same_file("s3://lake/a", "s3a://lake/a")
    assert same_file("s3n://lake/a", "s3://lake/a")
    assert not same_file("s3://lake/a", "s3://lake/b")
    assert not same_file("gs://lake/a", "s3://lake/a")
