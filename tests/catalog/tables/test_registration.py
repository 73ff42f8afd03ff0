from __future__ import annotations

import asyncio
import gzip
from typing import Any
from uuid import uuid4

import msgspec
import pytest

from lakebed.catalog.access.authorization import Action
from lakebed.catalog.commits.service import Committed
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
from tests.catalog.harness import NOBODY, CatalogHarness, Eventful, may, name, set_properties, wire_catalog
from tests.objects.stores import ROOT

AS_ROOT = Mutation(ROOT)


async def exported(catalog: CatalogHarness, **changes: Any) -> dict[str, Any]:
    """The metadata of a table that the catalog does not know, whose files are at `s3://lake/ext`."""
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
) -> Committed:
    return await catalog.registration.register_table(Mutation(caller), "lake", name(table), where, **options)


# -- a name for a file -----------------------------------------------------------------------------------------------


async def test_registered_table_has_the_identity_and_the_place_that_its_file_says(catalog: CatalogHarness) -> None:
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
    [(kind, event)] = await catalog.told(before)
    assert (kind, event.operation, event.metadata_at, event.snapshot) == (
        "TableRegistered",
        "register",
        where,
        document["current-snapshot-id"],
    )
    assert made.metadata.document == await catalog.files.read(where)


async def test_registered_table_goes_on(catalog: CatalogHarness) -> None:
    where = await stored(catalog, await exported(catalog))
    await register(catalog, where)
    committed = await catalog.commit(name(), *await appended(catalog, name()))
    assert committed.entry.metadata_at.startswith("s3://lake/ext/metadata/00008-")
    metadata = await catalog.metadata(name())
    assert len(metadata.snapshots) == 2
    assert metadata.metadata_log[-1].metadata_file == where


@pytest.mark.parametrize("where", ["s3://lake/ext/metadata/v1.gz.metadata.json", "s3://lake/inbox/anything"])
async def test_packed_metadata_is_unpacked_whatever_its_name(catalog: CatalogHarness, where: str) -> None:
    document = await exported(catalog)
    await register(catalog, await stored(catalog, gzip.compress(msgspec.json.encode(document)), where))
    fresh = wire_catalog(catalog.store)
    loaded = await fresh.entries.load(ROOT, "lake", name(), EntryKind.TABLE, Action.GET_METADATA_LOCATION)
    assert msgspec.json.decode(loaded.metadata.document) == document
    await fresh.commit(name(), set_properties(a="1"))
    assert (await catalog.metadata(name())).properties["a"] == "1"


@pytest.mark.parametrize("scheme", ["s3a", "s3n"])
async def test_location_by_another_scheme_is_the_same_file(catalog: CatalogHarness, scheme: str) -> None:
    where = (await stored(catalog, await exported(catalog))).replace("s3:", f"{scheme}:")
    assert (await register(catalog, where)).entry.metadata_at == where
    assert (await wire_catalog(catalog.store).commit(name(), set_properties(a="1"))).entry.generation == 2


async def test_location_that_ends_in_a_slash_is_a_directory_all_the_same(catalog: CatalogHarness) -> None:
    where = await stored(catalog, await exported(catalog, location="s3://lake/ext/"))
    made = await register(catalog, where)
    assert await catalog.claimed() == {made.entry.id: ["ext/"]}
    committed = await catalog.commit(name(), set_properties(a="1"))
    assert committed.entry.metadata_at.startswith("s3://lake/ext/metadata/00008-")


async def test_file_that_was_written_over_while_no_table_had_it_is_read_anew(catalog: CatalogHarness) -> None:
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


async def test_file_may_be_in_another_bucket_if_the_caller_may_read_it(catalog: CatalogHarness) -> None:
    document = await exported(catalog)
    await catalog.store.bucket("other")
    where = await stored(catalog, document, "s3://other/backups/t.metadata.json")
    rights = may(Action.CREATE_TABLE)
    async with catalog.unchanged():
        with pytest.raises(AccessDenied):
            await register(catalog, where, caller=rights)
        with pytest.raises(AccessDenied):
            await register(catalog, where, caller=may("s3:GetObject"))
        with pytest.raises(AccessDenied):
            await register(catalog, where, caller=may("s3:GetObject", Action.CREATE_TABLE))
    reading = may("s3:*", Action.CREATE_TABLE)
    made = await register(catalog, where, caller=reading)
    assert (made.entry.metadata_at, made.entry.location) == (where, "s3://lake/ext")
    committed = await catalog.commit(name(), set_properties(a="1"))
    assert committed.entry.metadata_at.startswith("s3://lake/ext/metadata/00000-")


async def test_file_in_another_table_s_directory_needs_the_right_to_its_data(light_catalog: CatalogHarness) -> None:
    document = await exported(light_catalog)
    await light_catalog.create("secret", location="s3://lake/secret")
    where = await stored(light_catalog, document, "s3://lake/secret/export.json")
    with pytest.raises(AccessDenied, match="GetTableData"):
        await register(light_catalog, where, caller=may("s3:*", Action.CREATE_TABLE))
    await register(light_catalog, where, caller=may("s3:*", Action.CREATE_TABLE, Action.GET_TABLE_DATA))


@pytest.mark.parametrize("taken", ["table", "view", "dropped table"])
async def test_taken_name_is_not_given_twice(catalog: CatalogHarness, taken: str) -> None:
    where = await stored(catalog, await exported(catalog))
    if taken == "view":
        await catalog.create_view("t")
    else:
        await catalog.create("t")
    if taken == "dropped table":
        await catalog.keep_dropped(60)
        await catalog.drop()
    async with catalog.unchanged():
        with pytest.raises(AlreadyExists):
            await register(catalog, where)
        if taken != "table":
            with pytest.raises(AlreadyExists):
                await register(catalog, where, overwrite=True)


async def test_one_table_does_not_get_two_names(catalog: CatalogHarness) -> None:
    where = await stored(catalog, await exported(catalog))
    await register(catalog, where)
    async with catalog.unchanged():
        with pytest.raises(LocationConflict):
            await register(catalog, where, "u")


async def test_of_several_at_once_one_gets_the_table(catalog: CatalogHarness) -> None:
    where = await stored(catalog, await exported(catalog))
    outcomes = await asyncio.gather(
        *(register(catalog, where, table) for table in ("t", "t", "u", "w")), return_exceptions=True
    )
    assert sum(isinstance(outcome, (AlreadyExists, LocationConflict)) for outcome in outcomes) == 3
    assert len(await catalog.claimed()) == 1


async def test_bad_files_are_refused(catalog: CatalogHarness) -> None:
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
async def test_identity_that_is_none_is_refused(catalog: CatalogHarness, uuid: str) -> None:
    where = await stored(catalog, await exported(catalog, table_uuid=uuid))
    async with catalog.unchanged():
        with pytest.raises(InvalidInput, match="not a UUID"):
            await register(catalog, where)


async def test_file_of_a_bucket_that_is_not_there_is_refused(catalog: CatalogHarness) -> None:
    async with catalog.unchanged():
        with pytest.raises((InvalidInput, NoSuchBucket), match="no-such-bucket"):
            await register(catalog, "s3://no-such-bucket/t.metadata.json")


async def test_file_over_the_limit_is_not_read(catalog: CatalogHarness, monkeypatch: pytest.MonkeyPatch) -> None:
    where = await stored(catalog, await exported(catalog))
    packed = await stored(
        catalog, gzip.compress(b"{" + b" " * 100_000 + b"}"), "s3://lake/ext/metadata/packed.metadata.json"
    )
    monkeypatch.setattr(files_module, "MAX_METADATA_BYTES", 10_000)
    with pytest.raises(TooLarge):
        await register(catalog, packed)
    await register(catalog, where)


async def test_snapshots_of_branches_must_be_whole(catalog: CatalogHarness) -> None:
    document = await exported(catalog)
    for snapshot in document["snapshots"]:
        snapshot["manifest-list"] = "s3://lake/ext/metadata/none.avro"
    where = await stored(catalog, document)
    async with catalog.unchanged():
        with pytest.raises(InvalidInput):
            await register(catalog, where)


# -- other metadata for a name ---------------------------------------------------------------------------------------


async def test_overwritten_table_keeps_its_id_and_counts_on(catalog: CatalogHarness) -> None:
    document = await exported(catalog)
    first = await register(catalog, await stored(catalog, document))
    where = await stored(
        catalog, document | {"properties": {"colour": "red"}}, "s3://lake/ext/metadata/v8.metadata.json"
    )
    before = await catalog.last_event()
    again = await register(catalog, where, overwrite=True, operation="import", commit_id="c1")
    assert (again.entry.id, again.entry.generation, again.entry.metadata_at) == (first.entry.id, 2, where)
    assert [(kind, event.operation) for kind, event in await catalog.told(before)] == [("TableCommitted", "import")]
    assert (await catalog.metadata(name())).properties["colour"] == "red"


async def test_overwriting_with_another_table_moves_the_name_to_its_place(catalog: CatalogHarness) -> None:
    mine = await catalog.create(location="s3://lake/mine")
    where = await stored(catalog, await exported(catalog))
    moved = await register(catalog, where, overwrite=True)
    assert (moved.entry.id, moved.entry.location) == (mine.entry.id, "s3://lake/ext")
    assert moved.entry.uuid != mine.entry.uuid
    assert await catalog.claimed() == {mine.entry.id: ["ext/", "mine/"]}


async def test_overwriting_does_not_move_into_the_place_of_another(catalog: CatalogHarness) -> None:
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


async def test_same_table_does_not_go_back(catalog: CatalogHarness) -> None:
    document = await exported(catalog)
    first = await register(catalog, await stored(catalog, document))
    await catalog.commit(name(), *await appended(catalog, name()))
    async with catalog.unchanged():
        with pytest.raises(InvalidInput, match="last-sequence-number cannot decrease"):
            await register(catalog, first.entry.metadata_at, overwrite=True)


async def test_overwriting_what_is_not_there_registers_it(catalog: CatalogHarness) -> None:
    made = await register(catalog, await stored(catalog, await exported(catalog)), overwrite=True)
    assert made.entry.generation == 1
    assert (await catalog.told())[-1][0] == "TableRegistered"


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


async def test_expected_version_is_followed_by_one_of_the_same_table(catalog: CatalogHarness) -> None:
    mine = await catalog.create(location="s3://lake/mine")
    where = await stored(catalog, await exported(catalog))
    async with catalog.unchanged():
        with pytest.raises(InvalidInput, match="another table"):
            await register(catalog, where, overwrite=True, expected_token=mine.entry.version_token)


async def test_version_that_passes_meanwhile_is_a_conflict(catalog: CatalogHarness) -> None:
    document = await exported(catalog)
    first = await register(catalog, await stored(catalog, document))
    next_one = await stored(catalog, document | {"properties": {"a": "1"}}, "s3://lake/ext/metadata/v8.metadata.json")
    eventful = Eventful(catalog.store.meta)
    late = wire_catalog(catalog.store, eventful)
    eventful.meanwhile = lambda: catalog.commit(name(), set_properties(b="2"))
    with pytest.raises(PointerMoved):
        await register(late, next_one, overwrite=True, expected_token=first.entry.version_token)
    assert "b" in (await catalog.metadata(name())).properties


@pytest.mark.parametrize("part", ["v7.metadata.json", "/data/", "-m0.avro", "metadata/snap-"])
async def test_table_whose_file_is_deleted_after_it_was_checked_is_not_registered(
    catalog: CatalogHarness, part: str
) -> None:
    where = await stored(catalog, await exported(catalog))
    (key,) = [key for key in await catalog.keys_in() if part in key]
    eventful = Eventful(catalog.store.meta)
    late = wire_catalog(catalog.store, eventful)
    eventful.meanwhile = lambda: catalog.store.delete("lake", key)
    with pytest.raises(PointerMoved, match="was deleted"):
        await register(late, where)
    assert (await catalog.entries.find(catalog.store.meta, "lake", name())).entry is None


async def test_metadata_that_is_written_over_after_it_was_read_is_not_registered(catalog: CatalogHarness) -> None:
    document = await exported(catalog)
    where = await stored(catalog, document)
    eventful = Eventful(catalog.store.meta)
    late = wire_catalog(catalog.store, eventful)
    eventful.meanwhile = lambda: stored(catalog, document | {"properties": {"a": "1"}}, where)
    with pytest.raises(PointerMoved, match="was overwritten"):
        await register(late, where)
    assert (await catalog.entries.find(catalog.store.meta, "lake", name())).entry is None


async def test_registering_asks_for_its_rights(light_catalog: CatalogHarness) -> None:
    where = await stored(light_catalog, await exported(light_catalog))
    reads = "s3:GetObject"
    async with light_catalog.unchanged():
        for caller in (NOBODY, may(reads), may(Action.CREATE_TABLE), may(reads, Action.UPDATE_METADATA_LOCATION)):
            with pytest.raises(AccessDenied):
                await register(light_catalog, where, caller=caller)
    with pytest.raises(AccessDenied, match="s3:"):
        await register(light_catalog, where, caller=may(reads, Action.CREATE_TABLE))
    await register(light_catalog, where, caller=may("s3:*", Action.CREATE_TABLE))
    async with light_catalog.unchanged():
        for caller in (NOBODY, may(reads, Action.CREATE_TABLE, Action.GET_TABLE_DATA)):
            with pytest.raises(AccessDenied):
                await register(light_catalog, where, caller=caller, overwrite=True)


async def test_key_keeps_the_answer(catalog: CatalogHarness) -> None:
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


async def test_registered_view_is_there(catalog: CatalogHarness) -> None:
    where = await exported_view(catalog)
    before = await catalog.last_event()
    made = await catalog.registration.register_view(AS_ROOT, "lake", name("v"), where)
    assert (made.entry.kind, made.entry.metadata_at, made.entry.location) == (EntryKind.VIEW, where, "s3://lake/ext")
    assert await catalog.claimed() == {made.entry.id: ["ext/"]}
    assert [kind for kind, _ in await catalog.told(before)] == ["ViewRegistered"]


@pytest.mark.parametrize("uuid", BAD_UUIDS, ids=repr)
async def test_view_s_identity_that_is_none_is_refused(catalog: CatalogHarness, uuid: str) -> None:
    where = await exported_view(catalog, **{"view-uuid": uuid})
    async with catalog.unchanged():
        with pytest.raises(InvalidInput, match="not a UUID"):
            await catalog.registration.register_view(AS_ROOT, "lake", name("v"), where)


async def test_view_whose_file_is_deleted_after_it_was_read_is_not_registered(catalog: CatalogHarness) -> None:
    where = await exported_view(catalog)
    eventful = Eventful(catalog.store.meta)
    late = wire_catalog(catalog.store, eventful)
    eventful.meanwhile = lambda: catalog.store.delete("lake", where.removeprefix("s3://lake/"))
    with pytest.raises(PointerMoved, match="was deleted"):
        await late.registration.register_view(AS_ROOT, "lake", name("v"), where)
    assert (await catalog.entries.find(catalog.store.meta, "lake", name("v"))).entry is None


async def test_view_whose_location_ends_in_a_slash_goes_on(catalog: CatalogHarness) -> None:
    where = await exported_view(catalog, location="s3://lake/ext/")
    await catalog.registration.register_view(AS_ROOT, "lake", name("v"), where)
    updates = parse_view_updates(msgspec.json.encode([set_properties(a="1")]))
    replaced = await catalog.views.replace(AS_ROOT, "lake", name("v"), (), updates)
    assert replaced.entry.metadata_at.startswith("s3://lake/ext/metadata/00008-")


async def test_bad_views_are_refused(catalog: CatalogHarness) -> None:
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
            await catalog.registration.register_view(Mutation(NOBODY), "lake", name("v"), where)
