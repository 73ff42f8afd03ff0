"""The publishing transaction itself; each use case has its own tests."""

from __future__ import annotations

import asyncio
from dataclasses import replace
from uuid import UUID, uuid4

import pytest

from lakebed.catalog.commits.publishing import PointerUpdate
from lakebed.catalog.idempotency import Mutation, RequestKey, StoredResponse
from lakebed.catalog.locations.claims import EntryLocations
from lakebed.catalog.model import Entry, EntryKind
from lakebed.catalog.tables.files import parse_location
from lakebed.core.errors import (
    AlreadyExists,
    DuplicateRequest,
    LocationConflict,
    NoSuchCatalog,
    PointerMoved,
    StorageFull,
    Unavailable,
)
from lakebed.iceberg.commits import new_table
from lakebed.meta.seam import Transaction
from tests.catalog.harness import CatalogHarness, FaultyStore, a_table, name, set_properties, wire_catalog
from tests.objects.stores import ROOT

AS_ROOT = Mutation(ROOT)
ANSWER = StoredResponse(200)


async def pointer(
    catalog: CatalogHarness, table: str = "t", location: str = "", body: bytes = b"m" * 100
) -> PointerUpdate:
    """A pointer move from the current state, with a file."""
    found = await catalog.entries.find(catalog.store.meta, "lake", name(table))
    entry_id = uuid4().hex if found.live is None else found.live.id
    location = location or (f"s3://lake/x/{entry_id}" if found.live is None else found.live.location)
    address = parse_location(f"{location}/metadata/{uuid4()}.metadata.json")
    metadata = new_table(a_table(table), location=location, uuid=str(UUID(entry_id)), now_ms=1)
    place = EntryLocations(found.catalog, found.namespace, EntryKind.TABLE, entry_id, location)
    return PointerUpdate(
        claim=await catalog.claims.prepare(ROOT, place),
        found=found,
        identifier=name(table),
        kind=EntryKind.TABLE,
        entry_id=entry_id,
        metadata=metadata,
        metadata_at=str(address),
        file=await catalog.files.prepare(address, body),
    )


async def test_pointers_move_together_and_entries_keep_their_order(catalog: CatalogHarness) -> None:
    await catalog.create("b")
    pointers = [await pointer(catalog, table) for table in ("c", "b", "a")]
    entries = await catalog.publisher.publish(AS_ROOT, pointers, ANSWER)
    assert [(entry.name, entry.generation) for entry in entries] == [("c", 1), ("b", 2), ("a", 1)]
    for table, entry in zip(("c", "b", "a"), entries, strict=True):
        assert await catalog.entry(name(table)) == entry
        assert await catalog.files.read(entry.metadata_at) == b"m" * 100


async def test_one_failed_pointer_moves_none(catalog: CatalogHarness) -> None:
    await catalog.create("a", location="s3://lake/a")
    past = await catalog.entries.find(catalog.store.meta, "lake", name("a"))
    await catalog.commit(name("a"), set_properties(x="1"))
    async with catalog.unchanged():
        stale = replace(await pointer(catalog, "a"), found=past)
        with pytest.raises(PointerMoved):
            await catalog.publisher.publish(AS_ROOT, [await pointer(catalog, "c"), stale], ANSWER)
    claim = (await pointer(catalog, "d", "s3://lake/b/inner")).claim
    await catalog.create("b", location="s3://lake/b")
    async with catalog.unchanged():
        taken = replace(await pointer(catalog, "d"), claim=claim)
        with pytest.raises(LocationConflict):
            await catalog.publisher.publish(AS_ROOT, [await pointer(catalog, "c"), taken], ANSWER)


async def test_checked_entry_must_be_unchanged(catalog: CatalogHarness) -> None:
    stays = (await catalog.create("a")).entry
    await catalog.publisher.publish(AS_ROOT, [await pointer(catalog, "b")], ANSWER, [stays])
    await catalog.commit(name("a"), set_properties(x="1"))
    dropped = await catalog.entry(name("a"))
    async with catalog.unchanged():
        with pytest.raises(PointerMoved, match="changed while the commit was prepared"):
            await catalog.publisher.publish(AS_ROOT, [await pointer(catalog, "c")], ANSWER, [stays])
    await catalog.set_undrop_window(60)
    await catalog.drop("a")
    with pytest.raises(PointerMoved):
        await catalog.publisher.publish(AS_ROOT, [await pointer(catalog, "c")], ANSWER, [dropped])


async def test_name_and_uuid_are_assigned_once(catalog: CatalogHarness) -> None:
    first, second = await pointer(catalog), await pointer(catalog)
    same_identity = replace(await pointer(catalog, "u"), entry_id=first.entry_id)
    await catalog.publisher.publish(AS_ROOT, [first], ANSWER)
    for other in (second, same_identity):
        with pytest.raises(AlreadyExists):
            await catalog.publisher.publish(AS_ROOT, [other], ANSWER)
    assert len(await catalog.store.stored_blobs()) == 1


async def test_publishing_nothing_writes_nothing(catalog: CatalogHarness) -> None:
    async with catalog.unchanged():
        assert await catalog.publisher.publish(AS_ROOT, [], ANSWER) == []


async def test_idempotency_key_without_pointers_stores_its_response(catalog: CatalogHarness) -> None:
    key = RequestKey("k", "digest")
    assert await catalog.publisher.publish(Mutation(ROOT, key), [], StoredResponse(204)) == []
    assert await catalog.keys.find(key) == StoredResponse(204)
    with pytest.raises(DuplicateRequest):
        await catalog.publisher.publish(Mutation(ROOT, key), [], StoredResponse(204))


async def test_pointer_to_an_existing_file_writes_no_file(catalog: CatalogHarness) -> None:
    made = await catalog.create()
    there = replace(await pointer(catalog), file=None, metadata_at=made.entry.metadata_at)
    [entry] = await catalog.publisher.publish(AS_ROOT, [there], ANSWER)
    assert (entry.generation, entry.metadata_at) == (2, made.entry.metadata_at)
    assert len(await catalog.keys_in()) == 1


async def test_further_step_commits_with_the_pointer(catalog: CatalogHarness) -> None:
    seen: list[Entry] = []

    async def note(tx: Transaction, entry: Entry) -> None:
        assert await tx.row("SELECT 1 FROM entries WHERE id = ?", entry.id) is not None
        seen.append(entry)

    async def refuse(tx: Transaction, entry: Entry) -> None:
        raise AlreadyExists("noted before")

    entries = await catalog.publisher.publish(AS_ROOT, [replace(await pointer(catalog), also=note)], ANSWER)
    assert seen[-1:] == entries
    async with catalog.unchanged():
        with pytest.raises(AlreadyExists, match="noted before"):
            await catalog.publisher.publish(AS_ROOT, [replace(await pointer(catalog), also=refuse)], ANSWER)


async def test_directories_are_unchanged_without_a_claim(catalog: CatalogHarness) -> None:
    made = await catalog.create(location="s3://lake/a")
    prepared = await pointer(catalog)
    moved = replace(prepared, metadata=replace(prepared.metadata, location="s3://lake/b"), claim=None)
    await catalog.publisher.publish(AS_ROOT, [moved], ANSWER)
    assert await catalog.claimed() == {made.entry.id: ["a/"]}
    moved = await pointer(catalog, location="s3://lake/b")
    await catalog.publisher.publish(AS_ROOT, [moved], ANSWER)
    assert await catalog.claimed() == {made.entry.id: ["a/", "b/"]}


async def test_overwritten_file_becomes_garbage(catalog: CatalogHarness) -> None:
    await catalog.create()
    blobs = await catalog.store.stored_blobs()
    prepared = await pointer(catalog)
    assert prepared.file is not None
    await catalog.store.put("lake", parse_location(prepared.metadata_at).key, b"an earlier object")
    await catalog.publisher.publish(AS_ROOT, [prepared], ANSWER)
    assert await catalog.files.read(prepared.metadata_at) == b"m" * 100
    await catalog.store.garbage_collector.sweep()
    assert len(await catalog.store.stored_blobs() - blobs) == 1


# -- failures --------------------------------------------------------------------------------------------------------


@pytest.mark.parametrize(
    "failure",
    [Unavailable("no"), StorageFull("no"), RuntimeError("a defect")],
    ids=lambda failure: type(failure).__name__,
)
async def test_failed_publication_leaves_no_files(catalog: CatalogHarness, failure: Exception) -> None:
    eventful = FaultyStore(catalog.store.meta)
    failing = wire_catalog(catalog.store, eventful)
    async with catalog.unchanged():
        pointers = [await pointer(failing, table) for table in ("a", "b")]
        eventful.refused = failure
        with pytest.raises(type(failure)):
            await failing.publisher.publish(AS_ROOT, pointers, ANSWER)


async def test_undecided_publication_keeps_its_files(catalog: CatalogHarness) -> None:
    eventful = FaultyStore(catalog.store.meta)
    unsure = wire_catalog(catalog.store, eventful)
    pointers = [await pointer(unsure, table) for table in ("a", "b")]
    eventful.lost = Unavailable("the answer was lost", undecided=True)
    with pytest.raises(Unavailable):
        await unsure.publisher.publish(AS_ROOT, pointers, ANSWER)
    for table in ("a", "b"):
        assert await catalog.files.read((await catalog.entry(name(table))).metadata_at) == b"m" * 100


async def test_cancelled_publication_keeps_its_files(catalog: CatalogHarness) -> None:
    """The outcome of the transaction is unknown."""
    eventful = FaultyStore(catalog.store.meta)
    cancelled = wire_catalog(catalog.store, eventful)
    prepared = await pointer(cancelled)
    eventful.lost = asyncio.CancelledError()
    with pytest.raises(asyncio.CancelledError):
        await cancelled.publisher.publish(AS_ROOT, [prepared], ANSWER)
    assert await catalog.files.read((await catalog.entry(name())).metadata_at) == b"m" * 100


async def test_file_that_cannot_be_discarded_does_not_hide_the_failure(
    catalog: CatalogHarness, monkeypatch: pytest.MonkeyPatch
) -> None:
    await catalog.create()
    stale = [await pointer(catalog), await pointer(catalog, "u")]
    await catalog.commit(name(), set_properties(a="1"))

    async def fail(*_: object) -> None:
        raise Unavailable("the disk is away")

    for one in stale:
        monkeypatch.setattr(type(one.file), "discard", fail)
    with pytest.raises(PointerMoved):
        await catalog.publisher.publish(AS_ROOT, stale, ANSWER)


async def test_publishing_to_a_deleted_bucket_fails(catalog: CatalogHarness) -> None:
    prepared = await pointer(catalog)
    await catalog.store.buckets.delete(ROOT, "lake")
    with pytest.raises(NoSuchCatalog):
        await catalog.publisher.publish(AS_ROOT, [prepared], ANSWER)
    assert await catalog.store.stored_blobs() == set()
