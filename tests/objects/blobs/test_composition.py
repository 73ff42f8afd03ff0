"""Composed objects: their bytes, and that base blobs stay exactly as long as an object references them."""

from __future__ import annotations

import os

import pytest
from hypothesis import HealthCheck, given, settings
from hypothesis import strategies as st
from hypothesis.stateful import run_state_machine_as_test

from lakebed.core.checksums import DEFAULT_ALGORITHM, new_hasher
from lakebed.core.errors import NoSuchKey, StorageFull, WriteConflict
from lakebed.core.ids import BlobId
from lakebed.meta.seam import Transaction
from lakebed.objects import multipart
from lakebed.objects.blobs.composition import BaseContent, BaseRange, ComposedObject, compose, digest_of, own_size
from lakebed.objects.blobs.contents import ByteRange
from lakebed.objects.blobs.encryption import FRAME_BYTES
from lakebed.objects.blobs.ingest import Ingester
from lakebed.objects.config.versioning import Versioning
from lakebed.objects.copying import CopyChanges, CopySource
from lakebed.objects.model import DEFAULT_ATTRIBUTES, Extent, ObjectAttributes
from lakebed.objects.publishing import NewGarbage
from lakebed.objects.writing import NewObject
from tests.objects.composition_machine import CompositionMachine
from tests.objects.consistency import check_tables
from tests.objects.stores import INLINE_MAX_BYTES, ROOT, ObjectStore, OpenObjectStore, new_key_ring, range_of, read_all
from tests.objects.upload_machine import MIN_PART_BYTES

BIG = bytes(range(256)) * 3
KEYS = new_key_ring()


async def _put_base(
    store: ObjectStore, key: str = "base", body: bytes = BIG, *, encrypt: bool | None = None
) -> BaseContent:
    base = await store.base_of(await store.put("bucket", key, body, encrypt=encrypt))
    assert base is not None
    return base


@given(
    parts=st.lists(
        st.binary(max_size=20) | st.tuples(st.integers(0, 300), st.integers(0, 300)).map(sorted), min_size=1, max_size=6
    )
)
def test_composed_object_has_checksum_of_all_bytes_and_multipart_etag(parts: list[bytes | list[int]]) -> None:
    base = BaseContent(7, Extent(len(BIG), blob=BlobId("0" * 32)))
    given = [part if isinstance(part, bytes) else range_of(BIG, *part) for part in parts]
    whole = b"".join(part if isinstance(part, bytes) else BIG[part[0] : part[1]] for part in parts)
    made = compose(KEYS, base, given)
    hasher = new_hasher(DEFAULT_ALGORITHM)
    hasher.update(whole)
    assert (made.size, made.checksum.digest, made.base) == (len(whole), hasher.digest(), 7)
    assert made.etag.endswith(f"-{len(parts)}")
    assert own_size(given) == sum(len(part) for part in parts if isinstance(part, bytes))
    assert compose(KEYS, base, given).etag == made.etag
    assert compose(KEYS, base, [*given, b"more"]).etag != made.etag
    other = BaseContent(7, Extent(len(BIG), blob=BlobId("1" * 32)))
    assert compose(KEYS, other, [range_of(BIG, 0, 9)]).etag != compose(KEYS, base, [range_of(BIG, 0, 9)]).etag


@pytest.mark.parametrize(("start", "size"), [(0, len(BIG) + 1), (len(BIG), 1), (-1, 1)])
def test_range_beyond_the_base_blob_is_rejected(start: int, size: int) -> None:
    base = BaseContent(7, Extent(len(BIG), blob=BlobId("0" * 32)))
    with pytest.raises(ValueError, match="exceeds the base blob"):
        compose(KEYS, base, [BaseRange(start, size, digest_of(b""))])


def test_new_bytes_are_encrypted_if_the_base_is() -> None:
    key, seal = KEYS.new_data_key()
    base = BaseContent(7, Extent(len(BIG), blob=BlobId("0" * 32), seal=seal))
    made = compose(KEYS, base, [b"secret", range_of(BIG, 3, 9)])
    assert made.encrypted
    new_piece, base_piece = made.extents
    assert new_piece.body is not None
    assert b"secret" not in new_piece.body
    assert new_piece.seal != seal, "no data key seals two runs of bytes"
    assert (base_piece.seal, base_piece.start, base_piece.blob_size, base_piece.size) == (seal, 3, len(BIG), 6)
    assert KEYS.unwrap(seal) == key


@pytest.mark.parametrize("encrypt", [False, True], ids=["plain", "sealed"])
async def test_composed_object_is_read_like_any_other(store: ObjectStore, encrypt: bool) -> None:
    await store.bucket("bucket")
    body = BIG * (FRAME_BYTES // len(BIG) + 2)
    base = await _put_base(store, body=body, encrypt=encrypt)
    middle = FRAME_BYTES + 7
    written = await store.compose(
        "bucket", "new", base, b"<<", range_of(body, 5, middle), b"--", range_of(body, middle, len(body)), b">>"
    )
    whole = b"<<" + body[5:middle] + b"--" + body[middle:] + b">>"
    assert await store.get("bucket", "new") == whole
    found = await store.reader.get(ROOT, "bucket", "new")
    assert found.object == written.object
    assert found.object.attributes.encrypted is encrypt
    assert found.object.size == len(whole)
    assert found.source is not None
    for start, end in ((0, 3), (1, 2), (3, middle), (middle - 4, middle + 4), (len(whole) - 3, len(whole))):
        assert await read_all(found.source, ByteRange(start, end)) == whole[start:end]
    await check_tables(store)


async def test_copy_of_composed_object_survives_the_original_and_the_base(store: ObjectStore) -> None:
    await store.bucket("bucket")
    base = await _put_base(store)
    await store.compose("bucket", "new", base, b"<", range_of(BIG, 0, 99))
    new = NewObject("copy", DEFAULT_ATTRIBUTES)
    await store.copier.copy(ROOT, CopySource("bucket", "new"), "bucket", new, CopyChanges())
    await check_tables(store)
    for key in ("base", "new"):
        await store.delete("bucket", key)
    await store.orphan_sweep.sweep()
    assert await store.get("bucket", "copy") == b"<" + BIG[:99]
    await check_tables(store)


async def test_copy_with_another_encryption_references_no_base(store: ObjectStore) -> None:
    await store.bucket("bucket")
    base = await _put_base(store)
    await store.compose("bucket", "new", base, b"<", range_of(BIG, 0, 99))
    new = NewObject("copy", DEFAULT_ATTRIBUTES, encrypt=True)
    await store.copier.copy(ROOT, CopySource("bucket", "new"), "bucket", new, CopyChanges())
    for key in ("base", "new"):
        await store.delete("bucket", key)
    await store.orphan_sweep.sweep()
    assert await store.get("bucket", "copy") == b"<" + BIG[:99]
    assert len(await store.stored_blobs()) == 1
    await check_tables(store)


async def test_part_is_copied_from_composed_object(store: ObjectStore) -> None:
    await store.bucket("bucket")
    base = await _put_base(store)
    await store.compose("bucket", "new", base, b"<", range_of(BIG, 0, 99), b">")
    upload = await store.begin("bucket", "parts")
    part, _, _ = await store.copier.copy_part(ROOT, CopySource("bucket", "new"), ByteRange(0, 50), upload, 1)
    await store.complete("bucket", upload, [(1, part.etag)])
    assert await store.get("bucket", "parts") == b"<" + BIG[:49]
    await check_tables(store)


async def test_base_bytes_stay_after_the_base_object_is_deleted(store: ObjectStore) -> None:
    await store.bucket("bucket")
    base = await _put_base(store)
    await store.compose("bucket", "one", base, b"<", range_of(BIG, 0, 99))
    await store.compose("bucket", "two", base, range_of(BIG, 99, len(BIG)), b">")
    await store.put("bucket", "base", b"small")
    await check_tables(store)
    assert (await store.orphan_sweep.sweep()).garbage == 0
    assert await store.get("bucket", "one") == b"<" + BIG[:99]
    await store.delete("bucket", "one")
    assert (await store.orphan_sweep.sweep()).garbage == 0
    assert await store.get("bucket", "two") == BIG[99:] + b">"
    assert await store.stored_blobs() == {base.extent.blob}
    await store.delete("bucket", "two")
    await check_tables(store)
    assert (await store.orphan_sweep.sweep()).garbage == 1
    assert await store.stored_blobs() == set()
    assert await store.meta.rows("SELECT id FROM contents WHERE id = ?", base.content) == []


async def test_deleting_composed_object_keeps_the_base(store: ObjectStore) -> None:
    await store.bucket("bucket")
    base = await _put_base(store)
    for number in range(3):
        await store.compose("bucket", "new", base, b"%d" % number, range_of(BIG, 0, 99))
        await check_tables(store)
    await store.delete("bucket", "new")
    assert (await store.orphan_sweep.sweep()).garbage == 0
    assert await store.get("bucket", "base") == BIG
    await check_tables(store)


async def test_composed_object_replaces_its_base(store: ObjectStore) -> None:
    await store.bucket("bucket")
    base = await _put_base(store)
    await store.compose("bucket", "base", base, b"<", range_of(BIG, 0, 99))
    await store.orphan_sweep.sweep()
    assert await store.get("bucket", "base") == b"<" + BIG[:99]
    await check_tables(store)


async def test_composed_versions_are_kept_and_deleted_independently(store: ObjectStore) -> None:
    await store.bucket("bucket", Versioning.ENABLED)
    base = await _put_base(store)
    first = await store.compose("bucket", "base", base, b"1", range_of(BIG, 0, 99))
    second = await store.compose("bucket", "base", base, b"2", range_of(BIG, 0, 99))
    await store.delete("bucket", "base")
    await check_tables(store)
    base_version = (await store.meta.row("SELECT version FROM versions WHERE content = ?", base.content)) or ("",)
    await store.delete("bucket", "base", str(base_version[0]))
    await store.delete("bucket", "base", first.object.version)
    assert (await store.orphan_sweep.sweep()).garbage == 0
    assert await store.get("bucket", "base", second.object.version) == b"2" + BIG[:99]
    await store.delete("bucket", "base", second.object.version)
    assert (await store.orphan_sweep.sweep()).garbage == 1
    await check_tables(store)


async def test_composing_from_deleted_base_fails(store: ObjectStore) -> None:
    await store.bucket("bucket")
    base = await _put_base(store)
    await store.put("bucket", "new", b"before")
    await store.delete("bucket", "base")
    with pytest.raises(WriteConflict, match="base content was deleted"):
        await store.compose("bucket", "new", base, range_of(BIG, 0, 99))
    assert await store.get("bucket", "new") == b"before"
    await check_tables(store)
    with pytest.raises(NoSuchKey):
        await store.get("bucket", "base")


async def test_failed_transaction_leaves_no_reference_to_the_base(store: ObjectStore) -> None:
    await store.bucket("bucket")
    base = await _put_base(store)
    composed = await store.object_context.ingester.compose(base, [range_of(BIG, 0, 99)])
    assert isinstance(composed, ComposedObject)

    async def work(tx: Transaction) -> None:
        new = NewObject("new", ObjectAttributes())
        await store.writer.publish_in(tx, ROOT, "bucket", new, composed, 7, NewGarbage(7), event="ObjectCreated:Put")
        raise StorageFull("no")

    with pytest.raises(StorageFull):
        await store.meta.transact(work)
    await check_tables(store)
    await store.delete("bucket", "base")
    assert (await store.orphan_sweep.sweep()).garbage == 1


async def test_capacity_is_checked_for_new_bytes_only(light_store: ObjectStore) -> None:
    checked: list[int] = []

    class Full:
        async def check(self, size: int) -> None:
            checked.append(size)
            if size > 10:
                raise StorageFull("full")

    ingester = Ingester(
        light_store.storage, KEYS, light_store.clock, inline_max_bytes=INLINE_MAX_BYTES, capacity=Full()
    )
    base = BaseContent(7, Extent(len(BIG), blob=BlobId("0" * 32)))
    await ingester.compose(base, [b"a" * 10, range_of(BIG, 0, 99)])
    with pytest.raises(StorageFull):
        await ingester.compose(base, [b"a" * 11])
    assert checked == [10, 11]


@pytest.fixture
def small_and_quick(monkeypatch: pytest.MonkeyPatch) -> None:
    """Parts of a few bytes instead of 5 MiB, and no syncs: other tests cover both."""
    monkeypatch.setattr(multipart, "MIN_PART_BYTES", MIN_PART_BYTES)
    monkeypatch.setattr(os, "fsync", lambda descriptor: None)
    monkeypatch.setattr(os, "fdatasync", lambda descriptor: None)


def _run_machine(open_object_store: OpenObjectStore, examples: int, steps: int) -> None:
    run_state_machine_as_test(
        lambda: CompositionMachine(open_object_store),  # type: ignore[arg-type]  # declared as a class, only called
        settings=settings(
            max_examples=examples,
            stateful_step_count=steps,
            suppress_health_check=[HealthCheck.too_slow, HealthCheck.data_too_large],
        ),
    )


@pytest.mark.slow
@pytest.mark.usefixtures("small_and_quick")
@pytest.mark.parametrize("open_object_store", ["sqlite-memory"], indirect=True)
def test_random_operations_with_composition_match_the_model(open_object_store: OpenObjectStore) -> None:
    _run_machine(open_object_store, examples=60, steps=40)


@pytest.mark.slow
@pytest.mark.usefixtures("small_and_quick")
def test_random_operations_with_composition_match_the_model_on_all_stores(
    open_object_store: OpenObjectStore,
) -> None:
    _run_machine(open_object_store, examples=6, steps=30)


@pytest.mark.heavy
@pytest.mark.usefixtures("small_and_quick")
def test_many_random_operations_with_composition_match_the_model(open_object_store: OpenObjectStore) -> None:
    _run_machine(open_object_store, examples=200, steps=60)
