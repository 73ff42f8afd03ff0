from __future__ import annotations

import asyncio
import gzip
from typing import Any
from uuid import uuid4

import msgspec
import pytest

from lakebed.catalog.access.authorization import Action
from lakebed.catalog.entries import LoadedEntry
from lakebed.catalog.idempotency import Mutation, RequestKey, StoredResponse
from lakebed.catalog.model import EntryKind
from lakebed.catalog.tables import files as files_module
from lakebed.core.errors import (
    AccessDenied,
    AlreadyExists,
    CommitConflict,
    InvalidInput,
    LocationConflict,
    NoSuchBucket,
    NoSuchCatalog,
    NoSuchNamespace,
    PointerMoved,
    TooLarge,
)
from lakebed.iceberg.commits import parse_view_updates
from lakebed.iceberg.metadata import parse_table
from lakebed.objects.model import Caller
from tests.catalog.appends import appended
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

AS_ROOT = Mutation(ROOT)


async def exported(catalog: CatalogHarness, **changes: Any) -> dict[str, Any]:
    """The metadata of an unregistered table with files at `s3://lake/ext`."""
    await catalog.create("exported", location="s3://lake/ext")
    await catalog.commit(name("exported"), *await appended(catalog, name("exported")))
    entry = await catalog.drop("exported")
    document: dict[str, Any] = msgspec.json.decode(await catalog.files.read(entry.metadata_at))
    return document | {key.replace("_", "-"): value for key, value in changes.items()}


async def stored(
    catalog: CatalogHarness, document: object, where: str = "s3://lake/ext/metadata/v7.metadata.json"
) -> str:
    bucket, _, key = where.removeprefix("s3://").partition("/")
    body = document if isinstance(document, bytes) else msgspec.json.encode(document)
    await catalog.store.put(bucket, key, body)
    return where


async def register(
    catalog: CatalogHarness, where: str, table: str = "t", caller: Caller = ROOT, **options: Any
) -> LoadedEntry:
    return await catalog.registration.register_table(Mutation(caller), "lake", name(table), where, **options)


# -- a name for a file -----------------------------------------------------------------------------------------------


async def test_registered_table_has_uuid_and_location_of_its_file(catalog: CatalogHarness) -> None:
    document = await exported(catalog)
    where = await stored(catalog, document)
    keys = await catalog.keys_in()
    before = await catalog.last_event()
    made = await register(catalog, where)
    entry = made.entry
    assert entry == await catalog.entry(name())
    assert (entry.uuid, entry.location, entry.metadata_at, entry.generation) == (
        document["table-uuid"],
        "s3://lake/ext",
        where,
        1,
    )
    assert await catalog.claimed() == {entry.id: ["ext/"]}
    assert await catalog.keys_in() == keys, "the file stays as it is"
    [(kind, event)] = await catalog.events(before)
    assert (kind, event.operation, event.metadata_at, event.snapshot) == (
        "TableRegistered",
        "register",
        where,
        document["current-snapshot-id"],
    )
    assert made.metadata.document == await catalog.files.read(where)


async def test_registered_table_accepts_commits(catalog: CatalogHarness) -> None:
    where = await stored(catalog, await exported(catalog))
    await register(catalog, where)
    committed = await catalog.commit(name(), *await appended(catalog, name()))
    assert committed.entry.metadata_at.startswith("s3://lake/ext/metadata/00008-")
    metadata = await catalog.metadata(name())
    assert len(metadata.snapshots) == 2
    assert metadata.metadata_log[-1].metadata_file == where


@pytest.mark.parametrize("where", ["s3://lake/ext/metadata/v1.gz.metadata.json", "s3://lake/inbox/anything"])
async def test_gzip_metadata_is_decompressed_regardless_of_its_name(catalog: CatalogHarness, where: str) -> None:
    document = await exported(catalog)
    await register(catalog, await stored(catalog, gzip.compress(msgspec.json.encode(document)), where))
    fresh = wire_catalog(catalog.store)
    loaded = await fresh.entries.load(ROOT, "lake", name(), EntryKind.TABLE, Action.GET_METADATA_LOCATION)
    assert msgspec.json.decode(loaded.metadata.document) == document
    await fresh.commit(name(), set_properties(a="1"))
    assert (await catalog.metadata(name())).properties["a"] == "1"


@pytest.mark.parametrize("scheme", ["s3a", "s3n"])
async def test_location_with_another_scheme_is_the_same_file(catalog: CatalogHarness, scheme: str) -> None:
    where = (await stored(catalog, await exported(catalog))).replace("s3:", f"{scheme}:")
    assert (await register(catalog, where)).entry.metadata_at == where
    assert (await wire_catalog(catalog.store).commit(name(), set_properties(a="1"))).entry.generation == 2


async def test_location_with_a_trailing_slash_is_accepted(catalog: CatalogHarness) -> None:
    where = await stored(catalog, await exported(catalog, location="s3://lake/ext/"))
    made = await register(catalog, where)
    assert await catalog.claimed() == {made.entry.id: ["ext/"]}
    committed = await catalog.commit(name(), set_properties(a="1"))
    assert committed.entry.metadata_at.startswith("s3://lake/ext/metadata/00008-")


async def test_overwritten_file_is_read_again(catalog: CatalogHarness) -> None:
    document = await exported(catalog)
    where = await stored(catalog, document)
    other_worker = wire_catalog(catalog.store)
    for colour in ("red", "blue"):
        await stored(catalog, document | {"properties": {"colour": colour}}, where)
        await register(catalog, where)
        for worker in (catalog, other_worker):
            loaded = await worker.entries.load(ROOT, "lake", name(), EntryKind.TABLE, Action.GET_METADATA_LOCATION)
            assert parse_table(loaded.metadata.document).properties == {"colour": colour}
        await catalog.drop()


async def test_file_in_another_bucket_requires_permission_to_read_it(catalog: CatalogHarness) -> None:
    document = await exported(catalog)
    await catalog.store.bucket("other")
    where = await stored(catalog, document, "s3://other/backups/t.metadata.json")
    rights = user_with(Action.CREATE_TABLE)
    async with catalog.unchanged():
        with pytest.raises(AccessDenied):
            await register(catalog, where, caller=rights)
        with pytest.raises(AccessDenied):
            await register(catalog, where, caller=user_with("s3:GetObject"))
        with pytest.raises(AccessDenied):
            await register(catalog, where, caller=user_with("s3:GetObject", Action.CREATE_TABLE))
    reading = user_with("s3:*", Action.CREATE_TABLE)
    made = await register(catalog, where, caller=reading)
    assert (made.entry.metadata_at, made.entry.location) == (where, "s3://lake/ext")
    committed = await catalog.commit(name(), set_properties(a="1"))
    assert committed.entry.metadata_at.startswith("s3://lake/ext/metadata/00000-")


async def test_file_in_another_tables_directory_requires_permission_on_its_data(light_catalog: CatalogHarness) -> None:
    document = await exported(light_catalog)
    await light_catalog.create("secret", location="s3://lake/secret")
    where = await stored(light_catalog, document, "s3://lake/secret/export.json")
    with pytest.raises(AccessDenied, match="GetTableData"):
        await register(light_catalog, where, caller=user_with("s3:*", Action.CREATE_TABLE))
    await register(light_catalog, where, caller=user_with("s3:*", Action.CREATE_TABLE, Action.GET_TABLE_DATA))


@pytest.mark.parametrize("taken", ["table", "view", "dropped table"])
async def test_existing_name_is_rejected(catalog: CatalogHarness, taken: str) -> None:
    where = await stored(catalog, await exported(catalog))
    if taken == "view":
        await catalog.create_view("t")
    else:
        await catalog.create("t")
    if taken == "dropped table":
        await catalog.set_undrop_window(60)
        await catalog.drop()
    async with catalog.unchanged():
        with pytest.raises(AlreadyExists):
            await register(catalog, where)
        if taken != "table":
            with pytest.raises(AlreadyExists):
                await register(catalog, where, overwrite=True)


async def test_table_cannot_be_registered_under_two_names(catalog: CatalogHarness) -> None:
    where = await stored(catalog, await exported(catalog))
    await register(catalog, where)
    async with catalog.unchanged():
        with pytest.raises(LocationConflict):
            await register(catalog, where, "u")


async def test_one_of_concurrent_registrations_succeeds(catalog: CatalogHarness) -> None:
    where = await stored(catalog, await exported(catalog))
    outcomes = await asyncio.gather(
        *(register(catalog, where, table) for table in ("t", "t", "u", "w")), return_exceptions=True
    )
    assert sum(isinstance(outcome, (AlreadyExists, LocationConflict)) for outcome in outcomes) == 3
    assert len(await catalog.claimed()) == 1


async def test_invalid_files_are_rejected(catalog: CatalogHarness) -> None:
    document = await exported(catalog)
    await catalog.store.bucket("other")
    good = await stored(catalog, document)
    bad = {
        "no json": b"not json",
        "damaged gzip": gzip.compress(msgspec.json.encode(document))[:-9],
        "no table": b"{}",
        "a view": {"view-uuid": str(uuid4()), "format-version": 1},
        "a place in another bucket": document | {"location": "s3://other/ext"},
        "the whole bucket": document | {"location": "s3://lake"},
        "a local place": document | {"location": "file:///ext"},
        "data elsewhere": document | {"properties": {"write.data.path": "s3://other/data"}},
        "no such schema": document | {"current-schema-id": 9},
    }
    where = {
        what: await stored(catalog, one, f"s3://lake/bad/{index}") for index, (what, one) in enumerate(bad.items())
    }
    async with catalog.unchanged():
        for location in where.values():
            with pytest.raises(InvalidInput):
                await register(catalog, location)
        for location in ("s3://lake/none", "file:///ext/v1.json", "nonsense", "s3://lake", ""):
            with pytest.raises(InvalidInput):
                await register(catalog, location)
        with pytest.raises(NoSuchNamespace):
            await catalog.registration.register_table(AS_ROOT, "lake", name("t", "none"), good)
        with pytest.raises(NoSuchCatalog):
            await catalog.registration.register_table(AS_ROOT, "pond", name(), good)


BAD_UUIDS = ["", "t", "a\0b", "12345678-1234-1234-1234-123456789abc\n"]


@pytest.mark.parametrize("uuid", BAD_UUIDS, ids=repr)
async def test_invalid_uuid_is_rejected(catalog: CatalogHarness, uuid: str) -> None:
    where = await stored(catalog, await exported(catalog, table_uuid=uuid))
    async with catalog.unchanged():
        with pytest.raises(InvalidInput, match="not a UUID"):
            await register(catalog, where)


async def test_file_in_a_missing_bucket_is_rejected(catalog: CatalogHarness) -> None:
    async with catalog.unchanged():
        with pytest.raises((InvalidInput, NoSuchBucket), match="no-such-bucket"):
            await register(catalog, "s3://no-such-bucket/t.metadata.json")


async def test_file_over_the_limit_is_rejected(catalog: CatalogHarness, monkeypatch: pytest.MonkeyPatch) -> None:
    where = await stored(catalog, await exported(catalog))
    packed = await stored(
        catalog, gzip.compress(b"{" + b" " * 100_000 + b"}"), "s3://lake/ext/metadata/packed.metadata.json"
    )
    monkeypatch.setattr(files_module, "MAX_METADATA_BYTES", 10_000)
    with pytest.raises(TooLarge):
        await register(catalog, packed)
    await register(catalog, where)


async def test_snapshots_of_references_must_be_complete(catalog: CatalogHarness) -> None:
    document = await exported(catalog)
    for snapshot in document["snapshots"]:
        snapshot["manifest-list"] = "s3://lake/ext/metadata/none.avro"
    where = await stored(catalog, document)
    async with catalog.unchanged():
        with pytest.raises(InvalidInput):
            await register(catalog, where)


# -- other metadata for a name ---------------------------------------------------------------------------------------


async def test_overwritten_table_keeps_its_id_and_generation(catalog: CatalogHarness) -> None:
    document = await exported(catalog)
    first = await register(catalog, await stored(catalog, document))
    where = await stored(
        catalog, document | {"properties": {"colour": "red"}}, "s3://lake/ext/metadata/v8.metadata.json"
    )
    before = await catalog.last_event()
    again = await register(catalog, where, overwrite=True, operation="import", commit_id="c1")
    assert (again.entry.id, again.entry.generation, again.entry.metadata_at) == (first.entry.id, 2, where)
    assert [(kind, event.operation) for kind, event in await catalog.events(before)] == [("TableCommitted", "import")]
    assert (await catalog.metadata(name())).properties["colour"] == "red"


async def test_overwriting_with_another_table_replaces_the_location(catalog: CatalogHarness) -> None:
    mine = await catalog.create(location="s3://lake/mine")
    where = await stored(catalog, await exported(catalog))
    moved = await register(catalog, where, overwrite=True)
    assert (moved.entry.id, moved.entry.location) == (mine.entry.id, "s3://lake/ext")
    assert moved.entry.uuid != mine.entry.uuid
    assert await catalog.claimed() == {mine.entry.id: ["ext/", "mine/"]}


async def test_overwriting_cannot_take_another_tables_location(catalog: CatalogHarness) -> None:
    await catalog.create("t")
    document = await exported(catalog)
    await catalog.create("u", location="s3://lake/u")
    where = await stored(
        catalog,
        document
        | {"location": "s3://lake/u/inner", "snapshots": [], "refs": {}, "current-snapshot-id": -1, "snapshot-log": []},
    )
    async with catalog.unchanged():
        with pytest.raises(LocationConflict):
            await register(catalog, where, overwrite=True)


async def test_overwriting_with_an_older_version_is_rejected(catalog: CatalogHarness) -> None:
    document = await exported(catalog)
    first = await register(catalog, await stored(catalog, document))
    await catalog.commit(name(), *await appended(catalog, name()))
    async with catalog.unchanged():
        with pytest.raises(InvalidInput, match="last-sequence-number cannot decrease"):
            await register(catalog, first.entry.metadata_at, overwrite=True)


async def test_overwriting_a_missing_table_registers_it(catalog: CatalogHarness) -> None:
    made = await register(catalog, await stored(catalog, await exported(catalog)), overwrite=True)
    assert made.entry.generation == 1
    assert (await catalog.events())[-1][0] == "TableRegistered"


async def test_expected_version_must_be_the_current_one(catalog: CatalogHarness) -> None:
    document = await exported(catalog)
    first = await register(catalog, await stored(catalog, document))
    next_one = await stored(catalog, document | {"properties": {"a": "1"}}, "s3://lake/ext/metadata/v8.metadata.json")
    async with catalog.unchanged():
        with pytest.raises(CommitConflict, match="not at the expected version"):
            await register(catalog, next_one, overwrite=True, expected_token="another")
        with pytest.raises(CommitConflict):
            await register(catalog, next_one, "none", overwrite=True, expected_token="another")
    moved = await register(catalog, next_one, overwrite=True, expected_token=first.entry.version_token)
    assert moved.entry.generation == 2


async def test_expected_version_requires_the_same_table(catalog: CatalogHarness) -> None:
    mine = await catalog.create(location="s3://lake/mine")
    where = await stored(catalog, await exported(catalog))
    async with catalog.unchanged():
        with pytest.raises(InvalidInput, match="another table"):
            await register(catalog, where, overwrite=True, expected_token=mine.entry.version_token)


async def test_concurrent_commit_to_the_expected_version_is_a_conflict(catalog: CatalogHarness) -> None:
    document = await exported(catalog)
    first = await register(catalog, await stored(catalog, document))
    next_one = await stored(catalog, document | {"properties": {"a": "1"}}, "s3://lake/ext/metadata/v8.metadata.json")
    eventful = FaultyStore(catalog.store.meta)
    late = wire_catalog(catalog.store, eventful)
    eventful.meanwhile = lambda: catalog.commit(name(), set_properties(b="2"))
    with pytest.raises(PointerMoved):
        await register(late, next_one, overwrite=True, expected_token=first.entry.version_token)
    assert "b" in (await catalog.metadata(name())).properties


@pytest.mark.parametrize("part", ["v7.metadata.json", "/data/", "-m0.avro", "metadata/snap-"])
async def test_table_is_not_registered_if_a_validated_file_was_deleted(catalog: CatalogHarness, part: str) -> None:
    where = await stored(catalog, await exported(catalog))
    (key,) = [key for key in await catalog.keys_in() if part in key]
    eventful = FaultyStore(catalog.store.meta)
    late = wire_catalog(catalog.store, eventful)
    eventful.meanwhile = lambda: catalog.store.delete("lake", key)
    with pytest.raises(PointerMoved, match="was deleted"):
        await register(late, where)
    assert (await catalog.entries.find(catalog.store.meta, "lake", name())).entry is None


async def test_table_is_not_registered_if_its_metadata_was_overwritten(catalog: CatalogHarness) -> None:
    document = await exported(catalog)
    where = await stored(catalog, document)
    eventful = FaultyStore(catalog.store.meta)
    late = wire_catalog(catalog.store, eventful)
    eventful.meanwhile = lambda: stored(catalog, document | {"properties": {"a": "1"}}, where)
    with pytest.raises(PointerMoved, match="was overwritten"):
        await register(late, where)
    assert (await catalog.entries.find(catalog.store.meta, "lake", name())).entry is None


async def test_register_requires_permission(light_catalog: CatalogHarness) -> None:
    where = await stored(light_catalog, await exported(light_catalog))
    reads = "s3:GetObject"
    async with light_catalog.unchanged():
        for caller in (
            UNPRIVILEGED,
            user_with(reads),
            user_with(Action.CREATE_TABLE),
            user_with(reads, Action.UPDATE_METADATA_LOCATION),
        ):
            with pytest.raises(AccessDenied):
                await register(light_catalog, where, caller=caller)
    with pytest.raises(AccessDenied, match="s3:"):
        await register(light_catalog, where, caller=user_with(reads, Action.CREATE_TABLE))
    await register(light_catalog, where, caller=user_with("s3:*", Action.CREATE_TABLE))
    async with light_catalog.unchanged():
        for caller in (UNPRIVILEGED, user_with(reads, Action.CREATE_TABLE, Action.GET_TABLE_DATA)):
            with pytest.raises(AccessDenied):
                await register(light_catalog, where, caller=caller, overwrite=True)


async def test_idempotency_key_stores_the_response(catalog: CatalogHarness) -> None:
    where = await stored(catalog, await exported(catalog))
    key = RequestKey("k", "digest")
    made = await catalog.registration.register_table(Mutation(ROOT, key), "lake", name(), where)
    assert await catalog.keys.find(key) == StoredResponse(200, made.entry.id)


# -- views -----------------------------------------------------------------------------------------------------------


async def exported_view(catalog: CatalogHarness, **changes: Any) -> str:
    await catalog.create_view("exported", location="s3://lake/ext")
    entry = await catalog.drop("exported", kind=EntryKind.VIEW)
    document = msgspec.json.decode(await catalog.files.read(entry.metadata_at))
    return await stored(catalog, document | changes)


async def test_registered_view_exists(catalog: CatalogHarness) -> None:
    where = await exported_view(catalog)
    before = await catalog.last_event()
    made = await catalog.registration.register_view(AS_ROOT, "lake", name("v"), where)
    assert (made.entry.kind, made.entry.metadata_at, made.entry.location) == (EntryKind.VIEW, where, "s3://lake/ext")
    assert await catalog.claimed() == {made.entry.id: ["ext/"]}
    assert [kind for kind, _ in await catalog.events(before)] == ["ViewRegistered"]


@pytest.mark.parametrize("uuid", BAD_UUIDS, ids=repr)
async def test_invalid_view_uuid_is_rejected(catalog: CatalogHarness, uuid: str) -> None:
    where = await exported_view(catalog, **{"view-uuid": uuid})
    async with catalog.unchanged():
        with pytest.raises(InvalidInput, match="not a UUID"):
            await catalog.registration.register_view(AS_ROOT, "lake", name("v"), where)


async def test_view_is_not_registered_if_its_file_was_deleted(catalog: CatalogHarness) -> None:
    where = await exported_view(catalog)
    eventful = FaultyStore(catalog.store.meta)
    late = wire_catalog(catalog.store, eventful)
    eventful.meanwhile = lambda: catalog.store.delete("lake", where.removeprefix("s3://lake/"))
    with pytest.raises(PointerMoved, match="was deleted"):
        await late.registration.register_view(AS_ROOT, "lake", name("v"), where)
    assert (await catalog.entries.find(catalog.store.meta, "lake", name("v"))).entry is None


async def test_view_with_a_trailing_slash_location_accepts_commits(catalog: CatalogHarness) -> None:
    where = await exported_view(catalog, location="s3://lake/ext/")
    await catalog.registration.register_view(AS_ROOT, "lake", name("v"), where)
    updates = parse_view_updates(msgspec.json.encode([set_properties(a="1")]))
    replaced = await catalog.views.replace(AS_ROOT, "lake", name("v"), (), updates)
    assert replaced.entry.metadata_at.startswith("s3://lake/ext/metadata/00008-")


async def test_invalid_views_are_rejected(catalog: CatalogHarness) -> None:
    where = await exported_view(catalog)
    elsewhere = await exported_view(catalog, location="s3://other/v")
    table = (await catalog.create("t")).entry.metadata_at
    async with catalog.unchanged():
        for location in (elsewhere, table, "s3://lake/none"):
            with pytest.raises(InvalidInput):
                await catalog.registration.register_view(AS_ROOT, "lake", name("v"), location)
        with pytest.raises(AlreadyExists):
            await catalog.registration.register_view(AS_ROOT, "lake", name("t"), where)
        with pytest.raises(AccessDenied):
            await catalog.registration.register_view(Mutation(UNPRIVILEGED), "lake", name("v"), where)
