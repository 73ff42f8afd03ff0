from __future__ import annotations

import pytest

from lakebed.catalog.rows import STAT_BATCH, STAT_LARGE_BATCH
from lakebed.catalog.tables import files as files_module
from lakebed.catalog.tables.files import MAX_METADATA_BYTES, FileAddress, FileStat
from lakebed.core.errors import (
    AccessDenied,
    NoSuchBucket,
    NoSuchKey,
    NotFound,
    PointerMoved,
    TooLarge,
)
from lakebed.meta.seam import Transaction
from lakebed.objects.publishing import NewGarbage
from tests.catalog.harness import UNPRIVILEGED, CatalogHarness, user_with
from tests.objects.model import md5
from tests.objects.stores import ROOT


@pytest.mark.parametrize("body", [b"", b"small", b"large enough for the object store"])
async def test_file_is_read_whole(catalog: CatalogHarness, body: bytes) -> None:
    await catalog.store.put("lake", "a/file", body)
    for scheme in ("s3", "s3a", "s3n"):
        assert await catalog.files.read(f"{scheme}://lake/a/file", len(body)) == body
        assert await catalog.files.read_for(ROOT, f"{scheme}://lake/a/file", len(body)) == body


async def test_file_is_read_with_its_state(catalog: CatalogHarness) -> None:
    where = "s3://lake/a/file"
    for body in (b"before", b"afterwards"):
        await catalog.store.put("lake", "a/file", body)
        assert await catalog.files.fetch(where) == (body, (await catalog.files.stat([where]))[where])


async def test_file_over_the_limit_is_rejected(catalog: CatalogHarness) -> None:
    await catalog.store.put("lake", "a/file", b"x" * 100)
    for read in (catalog.files.read("s3://lake/a/file", 99), catalog.files.read_for(ROOT, "s3://lake/a/file", 99)):
        with pytest.raises(TooLarge, match="size=100 maximum=99"):
            await read


async def test_missing_file_is_not_found(catalog: CatalogHarness) -> None:
    with pytest.raises(NotFound):
        await catalog.files.read("s3://lake/none")
    with pytest.raises(NotFound):
        await catalog.files.read("s3://no-such-bucket/none")
    with pytest.raises(NoSuchKey):
        await catalog.files.read_for(ROOT, "s3://lake/none")
    with pytest.raises(NoSuchBucket):
        await catalog.files.read_for(ROOT, "s3://no-such-bucket/none")


async def test_file_is_read_with_the_callers_permissions(light_catalog: CatalogHarness) -> None:
    await light_catalog.store.bucket("other")
    await light_catalog.store.put("other", "a/file", b"body")
    allowed = user_with("s3:GetObject", resource="arn:aws:s3:::other/a/*")
    assert await light_catalog.files.read_for(allowed, "s3://other/a/file") == b"body"
    with pytest.raises(AccessDenied):
        await light_catalog.files.read_for(UNPRIVILEGED, "s3://other/a/file")


@pytest.mark.parametrize("count", [0, 1, STAT_BATCH, STAT_BATCH + 1, 2 * STAT_BATCH])
async def test_states_of_many_files_are_read(catalog: CatalogHarness, count: int) -> None:
    await catalog.store.bucket("other")
    there = {f"s3://lake/f{number}": f"f{number}" for number in range(count)}
    for key in there.values():
        await catalog.store.put("lake", key, key.encode())
    await catalog.store.put("other", "f0", b"another")
    now_ms = catalog.store.clock.now_ms()
    locations = [*there, "s3a://lake/f0", "s3://other/f0", "s3://lake/none", "s3://no-such-bucket/f0"]
    facts = await catalog.files.stat(locations)
    assert list(facts) == locations
    for location, key in there.items():
        assert facts[location] == FileStat(len(key), md5(key.encode()), now_ms)
    assert facts["s3a://lake/f0"] == facts.get("s3://lake/f0")
    assert facts["s3://other/f0"] == FileStat(7, md5(b"another"), now_ms)
    assert facts["s3://lake/none"] is None
    assert facts["s3://no-such-bucket/f0"] is None


@pytest.mark.parametrize("count", [STAT_LARGE_BATCH // 2, STAT_LARGE_BATCH - 1, STAT_LARGE_BATCH, STAT_LARGE_BATCH + 1])
async def test_states_of_very_many_files_are_read_in_batches(light_catalog: CatalogHarness, count: int) -> None:
    locations = [f"s3://lake/f{number}" for number in range(count)]
    there = {locations[0], locations[count // 2], locations[-1]}
    for location in there:
        await light_catalog.store.put("lake", location.removeprefix("s3://lake/"), b"x")
    facts = await light_catalog.files.stat(locations)
    assert list(facts) == locations
    assert {location for location, found in facts.items() if found is not None} == there


async def test_files_are_confirmed_if_unchanged(catalog: CatalogHarness) -> None:
    for key in ("a", "b"):
        await catalog.store.put("lake", key, b"first")
    seen = {key: facts for key, facts in (await catalog.files.stat(["s3://lake/a", "s3a://lake/b"])).items() if facts}
    assert len(seen) == 2

    async def confirm() -> None:
        await catalog.store.meta.transact(lambda tx: catalog.files.confirm(tx, seen))

    await confirm()
    catalog.store.clock.advance(5)
    await catalog.store.put("lake", "b", b"first")
    await confirm()
    await catalog.store.put("lake", "b", b"other")
    with pytest.raises(PointerMoved, match=r"was overwritten.*s3a://lake/b"):
        await confirm()
    await catalog.store.delete("lake", "b")
    with pytest.raises(PointerMoved, match=r"was deleted.*s3a://lake/b"):
        await confirm()


async def test_prepared_file_is_visible_once_placed(catalog: CatalogHarness) -> None:
    store = catalog.store
    address = FileAddress("lake", "tables/a/metadata/1.metadata.json")
    prepared = await catalog.files.prepare(address, b'{"some": "metadata"}')
    assert await catalog.keys_in() == []

    async def work(tx: Transaction) -> None:
        await prepared.place(tx, ROOT, 7, NewGarbage(7))

    await store.meta.transact(work)
    assert await store.get("lake", address.key) == b'{"some": "metadata"}'
    head = await store.reader.head(ROOT, "lake", address.key)
    assert head.object.attributes.content_type == "application/json"
    assert head.object.modified_ms == 7


async def test_discarded_file_leaves_nothing(catalog: CatalogHarness) -> None:
    async with catalog.unchanged():
        prepared = await catalog.files.prepare(FileAddress("lake", "a"), b"x" * 100)
        assert len(await catalog.store.stored_blobs()) == 1
        await prepared.discard()


async def test_metadata_over_its_limit_is_not_stored(catalog: CatalogHarness, monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setattr(files_module, "MAX_METADATA_BYTES", 100)
    assert MAX_METADATA_BYTES == 50 * 1024 * 1024
    async with catalog.unchanged():
        with pytest.raises(TooLarge, match="expire snapshots"):
            await catalog.files.prepare(FileAddress("lake", "a"), b"x" * 101)


async def test_file_of_a_deleted_bucket_is_not_stored(catalog: CatalogHarness) -> None:
    async with catalog.unchanged():
        with pytest.raises(NoSuchBucket):
            await catalog.files.prepare(FileAddress("gone", "a"), b"x" * 100)
