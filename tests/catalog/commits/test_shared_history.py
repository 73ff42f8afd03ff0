"""Metadata files that share the history of a base file."""

from __future__ import annotations

import gzip
from dataclasses import replace
from typing import NamedTuple

import msgspec
import pytest
from hypothesis import HealthCheck, given, settings
from hypothesis import strategies as st

from lakebed.catalog.commits.shared_history import MAX_RECENT_BYTES, base_file_of, shared_parts, should_share_history
from lakebed.catalog.entries import LoadedEntry
from lakebed.catalog.idempotency import Mutation
from lakebed.catalog.tables.files import parse_location
from lakebed.core.clock import ManualClock
from lakebed.core.errors import Unavailable
from lakebed.core.ids import BlobId
from lakebed.iceberg.metadata import serialize_table
from lakebed.iceberg.metadata.serialization import TableText, TextRun
from lakebed.meta.seam import Transaction
from lakebed.objects.blobs.composition import BaseContent, BaseRange
from lakebed.objects.blobs.contents import ByteRange
from lakebed.objects.config.encryption import BucketEncryption
from lakebed.objects.config.versioning import Versioning
from lakebed.objects.model import Extent
from lakebed.objects.publishing import NewGarbage, current_of, remove_current
from tests.catalog.appends import appended
from tests.catalog.harness import CatalogHarness, FaultyStore, a_change, name, open_catalog, set_property, wire_catalog
from tests.objects.consistency import check_tables
from tests.objects.stores import ROOT, opened_store, read_all

ENCRYPTION = "s3:PutEncryptionConfiguration"

# -- what is decided -------------------------------------------------------------------------------------------------


def _text(*, settled: int, recent: int = 0, rest: int = 100) -> TableText:
    return TableText(b"{" * rest, TextRun(b"s" * (settled - 10), b"r" * recent), b"][", TextRun(b"l" * 10), b"}" * 10)


def _base_content(size: int, *, seal: bytes | None = None) -> BaseContent:
    return BaseContent(1, Extent(size, blob=BlobId("0" * 32), seal=seal))


@pytest.mark.parametrize(
    ("text", "worth"),
    [
        (_text(settled=1000), True),
        (_text(settled=1000, recent=800), True),
        (_text(settled=1000, recent=1000), False),
        (_text(settled=100), False),
        (_text(settled=5_000_000, recent=MAX_RECENT_BYTES), True),
        (_text(settled=5_000_000, recent=MAX_RECENT_BYTES + 1), False),
        (_text(settled=500_000, rest=100_000), True),
        (_text(settled=500_000, rest=200_000), False),
        (_text(settled=5_000_000, rest=600_000), True),
        (_text(settled=5_000_000, rest=800_000), False),
    ],
)
def test_file_shares_history_while_little_of_it_is_new(text: TableText, worth: bool) -> None:
    base_file = base_file_of(text, _base_content(text.size))
    assert should_share_history(text, base_file, encrypt=False) is worth
    assert not should_share_history(text, base_file, encrypt=True)
    sealed = base_file_of(text, _base_content(text.size, seal=b"seal"))
    assert should_share_history(text, sealed, encrypt=True) is worth
    assert not should_share_history(text, sealed, encrypt=False)


def test_only_the_base_files_history_is_shared() -> None:
    text = _text(settled=1000)
    base_file = base_file_of(text, _base_content(text.size))
    assert should_share_history(replace(text, head=b"{"), base_file, encrypt=False)
    other = bytes(bytearray(text.snapshots.settled))
    assert not should_share_history(replace(text, snapshots=TextRun(other)), base_file, encrypt=False)
    assert not should_share_history(replace(text, log=TextRun(b"L" * 10)), base_file, encrypt=False)


@pytest.mark.parametrize("log", [b"", b"log"])
def test_parts_are_the_document(log: bytes) -> None:
    before = TableText(b'{"a":[', TextRun(b"1,2"), b'],"b":[', TextRun(log), b"]}")
    whole = b"".join(before.pieces)
    base_file = base_file_of(before, _base_content(len(whole)))
    after = TableText(b'{"aa":[', replace(before.snapshots, recent=b",3"), b'],"bb":[', TextRun(log, b",4"), b"]}}")
    parts = shared_parts(after, base_file)
    assert [isinstance(part, BaseRange) for part in parts] == [False, True, False, False, True, False, False]
    read = [part if isinstance(part, bytes) else whole[part.start : part.start + part.size] for part in parts]
    assert b"".join(read) == b"".join(after.pieces)


# -- what is committed -----------------------------------------------------------------------------------------------


class _File(NamedTuple):
    location: str
    content: int
    base_file: int | None


async def _file(catalog: CatalogHarness, location: str) -> _File:
    row = await catalog.store.meta.row(
        "SELECT o.content, c.lender FROM objects o JOIN contents c ON c.id = o.content WHERE o.key = ?",
        parse_location(location).key,
    )
    assert row is not None
    return _File(location, row[0], row[1])


async def _append(catalog: CatalogHarness, times: int = 1) -> LoadedEntry:
    for _ in range(times):
        committed = await catalog.commit(name(), *await appended(catalog, name()))
    return committed


async def _table_with_shared_history(catalog: CatalogHarness, server: CatalogHarness | None = None) -> _File:
    """A table with a history so long that the current file and the next ones share it."""
    server = server or catalog
    await catalog.create()
    for _ in range(3):
        updates = await appended(catalog, name())
        updates[0]["snapshot"]["summary"]["note"] = "long " * 2000
        await server.commit(name(), *updates)
    for number in range(4):
        committed = await server.commit(name(), set_property("number", str(number)))
        file = await _file(catalog, committed.entry.metadata_at)
        if file.base_file is not None:
            return file
    raise AssertionError("nothing was ever shared")


async def _delete_metadata(catalog: CatalogHarness) -> None:
    """Delete all metadata files, the current one too. Clients cannot do that; it simulates unforeseen loss."""
    store = catalog.store
    displaced = NewGarbage(store.clock.now_ms())

    async def work(tx: Transaction) -> None:
        bucket = await store.object_context.bucket(tx, "lake")
        for (key,) in await tx.rows("SELECT key FROM objects WHERE key LIKE '%.metadata.json'"):
            stored = await current_of(tx, bucket, key)
            assert stored is not None
            await remove_current(tx, bucket, stored, displaced)

    await store.meta.transact(work)
    await store.orphan_sweep.sweep()


async def _base_file_key(catalog: CatalogHarness, file: _File) -> str:
    """The key of the base file of this one."""
    row = await catalog.store.meta.row("SELECT key FROM objects WHERE content = ?", file.base_file)
    assert row is not None
    return str(row[0])


async def test_every_file_reads_as_its_whole_document(catalog: CatalogHarness) -> None:
    await catalog.create()
    committed = [await _append(catalog) for _ in range(16)]
    for one in committed:
        document = await catalog.files.read(one.entry.metadata_at)
        assert document == one.metadata.document == serialize_table(one.metadata.table)
    files = [await _file(catalog, one.entry.metadata_at) for one in committed]
    assert len({file.base_file for file in files}) > 2, "there were several base files"
    assert {file.base_file for file in files} - {None} <= {file.content for file in files if file.base_file is None}
    await check_tables(catalog.store)


async def test_file_with_shared_history_is_an_ordinary_object(catalog: CatalogHarness) -> None:
    file = await _table_with_shared_history(catalog)
    key = parse_location(file.location).key
    whole = await catalog.store.get("lake", key)
    found = await catalog.store.reader.get(ROOT, "lake", key)
    assert found.source is not None
    assert (found.object.size, found.object.attributes.content_type) == (len(whole), "application/json")
    assert found.object.checksum is not None
    for start, end in ((0, 9), (100, len(whole) - 100), (len(whole) - 9, len(whole))):
        assert await read_all(found.source, ByteRange(start, end)) == whole[start:end]


async def test_commit_without_data_shares_all_history(catalog: CatalogHarness) -> None:
    file = await _table_with_shared_history(catalog)
    committed = await catalog.commit(name(), set_property("a", "1"))
    assert (await _file(catalog, committed.entry.metadata_at)).base_file == file.base_file
    assert (await catalog.metadata(name())).properties["a"] == "1"


async def test_base_file_can_be_deleted_while_its_history_is_shared(catalog: CatalogHarness) -> None:
    file = await _table_with_shared_history(catalog)
    before = await catalog.files.read(file.location)
    await catalog.store.delete("lake", await _base_file_key(catalog, file))
    await catalog.store.orphan_sweep.sweep()
    assert await catalog.files.read(file.location) == before
    committed = await catalog.commit(name(), set_property("a", "1"))
    assert (await _file(catalog, committed.entry.metadata_at)).base_file == file.base_file
    assert await catalog.files.read(committed.entry.metadata_at) == committed.metadata.document
    await check_tables(catalog.store)


async def test_file_is_written_whole_without_a_base_file(catalog: CatalogHarness) -> None:
    await _table_with_shared_history(catalog)
    await _delete_metadata(catalog)
    # The worker has the table cached, and does not know that its file is missing.
    committed = await catalog.commit(name(), set_property("a", "1"))
    assert (await _file(catalog, committed.entry.metadata_at)).base_file is None
    assert await catalog.files.read(committed.entry.metadata_at) == committed.metadata.document
    await check_tables(catalog.store)


async def test_file_is_written_whole_after_snapshot_expiration(catalog: CatalogHarness) -> None:
    file = await _table_with_shared_history(catalog)
    oldest = next(iter((await catalog.metadata(name())).snapshots))
    committed = await catalog.commit(name(), {"action": "remove-snapshots", "snapshot-ids": [oldest]})
    assert (await _file(catalog, committed.entry.metadata_at)).base_file is None
    assert oldest not in (await catalog.metadata(name())).snapshots
    assert await catalog.files.read(committed.entry.metadata_at) == committed.metadata.document
    assert (await _file(catalog, file.location)).base_file == file.base_file
    await check_tables(catalog.store)


async def test_deleted_metadata_files_leave_no_blobs(catalog: CatalogHarness) -> None:
    await catalog.create(
        properties={
            "write.metadata.previous-versions-max": "2",
            "write.metadata.delete-after-commit.enabled": "true",
        }
    )
    shared = 0
    for _ in range(20):
        committed = await _append(catalog)
        shared += (await _file(catalog, committed.entry.metadata_at)).base_file is not None
        await check_tables(catalog.store)
        await catalog.store.orphan_sweep.sweep()
        assert await catalog.files.read(committed.entry.metadata_at) == committed.metadata.document
    assert shared > 5
    metadata_files = [key for key in await catalog.keys_in() if key.endswith(".metadata.json")]
    assert len(metadata_files) == 3
    alive = await catalog.store.meta.rows("SELECT id FROM contents WHERE layout IS NOT NULL AND lender IS NULL")
    assert len(await catalog.store.stored_blobs()) == len(alive)


@pytest.mark.parametrize("versioning", list(Versioning))
async def test_purge_removes_base_files_and_files_that_share_them(
    catalog: CatalogHarness, versioning: Versioning
) -> None:
    if versioning is not Versioning.UNVERSIONED:
        await catalog.store.buckets.set_versioning(ROOT, "lake", versioning)
    await _table_with_shared_history(catalog)
    await catalog.drop(purge=True)
    await catalog.purges.run_due()
    await catalog.store.orphan_sweep.sweep()
    assert await catalog.keys_in() == []
    assert await catalog.store.stored_blobs() == set()
    await check_tables(catalog.store)


async def test_files_of_an_encrypted_bucket_share_history_and_stay_encrypted(catalog: CatalogHarness) -> None:
    await catalog.store.buckets.set(ROOT, "lake", ENCRYPTION, encryption=BucketEncryption())
    file = await _table_with_shared_history(catalog)
    row = await catalog.store.meta.row("SELECT layout FROM contents WHERE id = ?", file.content)
    assert row is not None
    assert b"format-version" not in row[0]
    found = await catalog.store.reader.head(ROOT, "lake", parse_location(file.location).key)
    assert found.object.attributes.encrypted
    assert await catalog.files.read(file.location) == serialize_table(await catalog.metadata(name()))
    await check_tables(catalog.store)


async def test_file_is_written_whole_when_the_bucket_s_encryption_changed(catalog: CatalogHarness) -> None:
    await _table_with_shared_history(catalog)
    await catalog.store.buckets.set(ROOT, "lake", ENCRYPTION, encryption=BucketEncryption())
    committed = await catalog.commit(name(), set_property("a", "1"))
    file = await _file(catalog, committed.entry.metadata_at)
    assert file.base_file is None
    head = await catalog.store.reader.head(ROOT, "lake", parse_location(file.location).key)
    assert head.object.attributes.encrypted
    again = await catalog.commit(name(), set_property("a", "2"))
    assert (await _file(catalog, again.entry.metadata_at)).base_file == file.content
    await check_tables(catalog.store)


@pytest.mark.parametrize("encrypted", [False, True], ids=["plain", "sealed"])
async def test_servers_share_history_with_files_of_other_servers(catalog: CatalogHarness, encrypted: bool) -> None:
    if encrypted:
        await catalog.store.buckets.set(ROOT, "lake", ENCRYPTION, encryption=BucketEncryption())
    first = await _table_with_shared_history(catalog)
    servers = [wire_catalog(catalog.store) for _ in range(3)]
    for number in range(9):
        committed = await servers[number % 3].commit(name(), *await appended(catalog, name()))
        file = await _file(catalog, committed.entry.metadata_at)
        assert file.base_file == first.base_file
        assert await catalog.files.read(file.location) == committed.metadata.document
        assert committed.metadata.document == serialize_table(committed.metadata.table)
    await check_tables(catalog.store)


async def test_server_shares_history_with_a_base_file_that_it_read(catalog: CatalogHarness) -> None:
    await _table_with_shared_history(catalog)
    oldest = next(iter((await catalog.metadata(name())).snapshots))
    whole = await catalog.commit(name(), {"action": "remove-snapshots", "snapshot-ids": [oldest]})
    base_file = await _file(catalog, whole.entry.metadata_at)
    assert base_file.base_file is None
    committed = await wire_catalog(catalog.store).commit(name(), set_property("a", "1"))
    assert (await _file(catalog, committed.entry.metadata_at)).base_file == base_file.content
    assert await catalog.files.read(committed.entry.metadata_at) == committed.metadata.document
    await check_tables(catalog.store)


@pytest.mark.parametrize("form", ["other words", "packed"])
async def test_equal_content_in_other_bytes_is_not_shared(catalog: CatalogHarness, form: str) -> None:
    await _table_with_shared_history(catalog)
    entry = await catalog.entry(name())
    document = await catalog.files.read(entry.metadata_at)
    body = gzip.compress(document) if form == "packed" else msgspec.json.format(document, indent=1)
    await catalog.store.put("lake", "inbox/v1.metadata.json", body)
    await catalog.drop()
    await catalog.registration.register_table(Mutation(ROOT), "lake", name(), "s3://lake/inbox/v1.metadata.json")
    server = wire_catalog(catalog.store)
    committed = await server.commit(name(), set_property("a", "1"))
    assert (await _file(catalog, committed.entry.metadata_at)).base_file is None
    assert await catalog.files.read(committed.entry.metadata_at) == serialize_table(committed.metadata.table)
    await check_tables(catalog.store)


async def test_tables_of_a_transaction_share_their_own_history_only(catalog: CatalogHarness) -> None:
    await catalog.create("t")
    await catalog.create("u")
    for _ in range(14):
        changes = [a_change(name(one), *await appended(catalog, name(one))) for one in ("t", "u")]
        await catalog.commit_all(*changes)
    for one in ("t", "u"):
        table = await catalog.metadata(name(one))
        assert len(table.snapshots) == 14
        assert await catalog.files.read((await catalog.entry(name(one))).metadata_at) == serialize_table(table)
    base_files = await catalog.store.meta.rows("SELECT DISTINCT lender FROM contents WHERE lender IS NOT NULL")
    assert len(base_files) >= 2
    await check_tables(catalog.store)


# -- what goes wrong -------------------------------------------------------------------------------------------------


async def _failing(catalog: CatalogHarness) -> tuple[CatalogHarness, FaultyStore]:
    """A server whose next metadata file will share history, on a store that can fail."""
    eventful = FaultyStore(catalog.store.meta)
    server = wire_catalog(catalog.store, eventful)
    await _table_with_shared_history(catalog, server)
    return server, eventful


async def test_failed_commit_keeps_the_base_file(catalog: CatalogHarness) -> None:
    server, eventful = await _failing(catalog)
    async with catalog.unchanged():
        eventful.refused = Unavailable("refused")
        with pytest.raises(Unavailable):
            await server.commit(name(), set_property("a", "1"))
    await check_tables(catalog.store)
    committed = await server.commit(name(), set_property("a", "1"))
    assert (await _file(catalog, committed.entry.metadata_at)).base_file is not None
    await check_tables(catalog.store)


async def test_undecided_commit_keeps_its_shared_history(catalog: CatalogHarness) -> None:
    server, eventful = await _failing(catalog)
    eventful.lost = Unavailable("the answer was lost", undecided=True)
    with pytest.raises(Unavailable):
        await server.commit(name(), set_property("a", "1"))
    entry = await catalog.entry(name())
    assert (await _file(catalog, entry.metadata_at)).base_file is not None
    assert (await catalog.metadata(name())).properties["a"] == "1"
    await check_tables(catalog.store)
    assert (await server.commit(name(), set_property("a", "2"))).entry.generation == entry.generation + 1
    await check_tables(catalog.store)


async def test_base_file_removed_during_a_commit_is_not_shared(catalog: CatalogHarness) -> None:
    server, eventful = await _failing(catalog)
    eventful.meanwhile = lambda: _delete_metadata(catalog)
    committed = await server.commit(name(), set_property("a", "1"))
    assert (await _file(catalog, committed.entry.metadata_at)).base_file is None
    assert await catalog.files.read(committed.entry.metadata_at) == committed.metadata.document
    await check_tables(catalog.store)


# -- anything in any order -------------------------------------------------------------------------------------------

STEPS = ("append", "append", "append", "long", "property", "expire", "delete", "encrypt", "plain", "sweep", "refuse")


@pytest.mark.slow
@settings(max_examples=40, suppress_health_check=[HealthCheck.too_slow])
@given(steps=st.lists(st.tuples(st.sampled_from(STEPS), st.integers(0, 1)), max_size=24), deletes=st.booleans())
async def test_every_existing_file_reads_as_committed(
    steps: list[tuple[str, int]], deletes: bool, tmp_path_factory: pytest.TempPathFactory
) -> None:
    folder = tmp_path_factory.mktemp("catalog")
    async with opened_store(f"sqlite:{folder / 'meta.db'}", "memory", folder, ManualClock()) as store:
        catalog = await open_catalog(store)
        await catalog.create(
            properties={
                "write.metadata.previous-versions-max": "3",
                "write.metadata.delete-after-commit.enabled": str(deletes),
            }
        )
        eventful = FaultyStore(store.meta)
        servers = [catalog, wire_catalog(store, eventful)]
        documents: dict[str, bytes] = {}
        for number, (step, which) in enumerate([("long", 0), *steps, ("append", 0), ("property", 1)]):
            if step == "refuse":
                eventful.refused = Unavailable("refused")
                with pytest.raises(Unavailable):
                    await servers[1].commit(name(), set_property("refused", str(number)))
            else:
                await _step(servers[which], catalog, step, number, documents)
            await check_tables(store)
        await store.orphan_sweep.sweep()
        there = {f"s3://lake/{key}" for key in await catalog.keys_in()}
        for location in there & documents.keys():
            assert await catalog.files.read(location) == documents[location]
        await catalog.drop(purge=True)
        await catalog.purges.run_due()
        await store.orphan_sweep.sweep()
        assert await store.stored_blobs() == set()


async def _step(
    server: CatalogHarness, catalog: CatalogHarness, step: str, number: int, documents: dict[str, bytes]
) -> None:
    store = catalog.store
    if step == "sweep":
        await store.orphan_sweep.sweep()
    elif step == "delete":
        current = (await catalog.entry(name())).metadata_at
        for location in [one for one in documents if one != current][:2]:
            await store.delete("lake", parse_location(location).key)
            del documents[location]
    elif step in ("encrypt", "plain"):
        rule = BucketEncryption() if step == "encrypt" else None
        await store.buckets.set(ROOT, "lake", ENCRYPTION, encryption=rule)
    else:
        updates = [set_property("number", str(number))]
        if step == "expire":
            kept = await catalog.metadata(name())
            old = [one for one in kept.snapshots if one != kept.current_snapshot_id][:2]
            updates += [{"action": "remove-snapshots", "snapshot-ids": old}]
        elif step != "property":
            updates += await appended(catalog, name())
            if step == "long":
                updates[1]["snapshot"]["summary"]["note"] = "long " * 600
        committed = await server.commit(name(), *updates)
        assert await catalog.files.read(committed.entry.metadata_at) == committed.metadata.document
        assert committed.metadata.document == serialize_table(committed.metadata.table)
        documents[committed.entry.metadata_at] = committed.metadata.document
