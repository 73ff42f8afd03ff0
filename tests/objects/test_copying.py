from __future__ import annotations

import asyncio

import pytest

from lakebed.core.checksums import ChecksumAlgorithm, ChecksumType
from lakebed.core.errors import (
    AccessDenied,
    InvalidInput,
    InvalidRange,
    IsDeleteMarker,
    NoSuchBucket,
    NoSuchKey,
    NoSuchVersion,
    PreconditionFailed,
    TooLarge,
    WriteConflict,
)
from lakebed.objects import copying, multipart
from lakebed.objects.blobs.contents import ByteRange
from lakebed.objects.conditions import ReadConditions, WriteConditions
from lakebed.objects.config.encryption import BucketEncryption
from lakebed.objects.config.object_lock import Retention, RetentionMode
from lakebed.objects.config.tagging import NO_TAGS, Tag, TagSet
from lakebed.objects.config.versioning import Versioning
from lakebed.objects.copying import CopyChanges, CopyResult, CopySource
from lakebed.objects.model import DEFAULT_ATTRIBUTES, Caller, ObjectAttributes
from lakebed.objects.writing import NewObject
from tests.governance.documents import policy, statement

from .consistency import check_tables
from .model import md5
from .stores import DAY_MS, ROOT, ObjectStore, user

BIG = b"0123456789" * 10
TAGS = TagSet((Tag("team", "a"),))
DESCRIBED = ObjectAttributes(
    content_type="text/plain", headers={"cache-control": "no-store"}, metadata={"a": "1"}, tags=TAGS
)


async def copy(
    store: ObjectStore,
    source: CopySource,
    to: str,
    key: str,
    *,
    attributes: ObjectAttributes | None = None,
    tags: TagSet | None = None,
    algorithm: ChecksumAlgorithm | None = None,
    encrypt: bool | None = None,
    conditions: WriteConditions | None = None,
    lock: ObjectAttributes = DEFAULT_ATTRIBUTES,
    caller: Caller = ROOT,
) -> CopyResult:
    new = NewObject(key, lock, encrypt, conditions or WriteConditions())
    return await store.copier.copy(caller, source, to, new, CopyChanges(attributes, tags, algorithm))


FROM = CopySource("bucket", "from")


@pytest.mark.parametrize("body", [b"", b"small", BIG], ids=["empty", "inline", "blob"])
async def test_copy_has_bytes_and_attributes_of_the_source(store: ObjectStore, body: bytes) -> None:
    await store.bucket("bucket")
    await store.bucket("second")
    await store.put("bucket", "from", body, attributes=DESCRIBED)
    store.clock.advance(5)
    copied = await copy(store, FROM, "second", "to")
    stored = copied.written.object
    assert await store.get("second", "to") == body
    assert (stored.etag, stored.size, stored.attributes) == (md5(body), len(body), DESCRIBED)
    assert stored.modified_ms == store.clock.now_ms()
    assert copied.source_version is None
    await check_tables(store)


async def test_copy_moves_no_bytes(store: ObjectStore) -> None:
    await store.bucket("bucket")
    await store.put("bucket", "from", BIG)
    for number in range(3):
        await copy(store, FROM, "bucket", f"to-{number}")
    assert len(await store.stored_blobs()) == 1
    assert await store.meta.rows("SELECT refs FROM contents") == [(4,)]
    await check_tables(store)


async def test_copy_survives_deletion_of_the_source(store: ObjectStore) -> None:
    await store.bucket("bucket")
    await store.put("bucket", "from", BIG)
    await copy(store, FROM, "bucket", "to")
    await store.delete("bucket", "from")
    assert await store.garbage_collector.sweep() == 0
    assert await store.get("bucket", "to") == BIG
    await check_tables(store)
    await store.delete("bucket", "to")
    assert await store.garbage_collector.sweep() == 1
    assert await store.stored_blobs() == set()
    await check_tables(store)


async def test_source_survives_deletion_of_the_copy(store: ObjectStore) -> None:
    await store.bucket("bucket")
    await store.put("bucket", "from", BIG)
    await copy(store, FROM, "bucket", "to")
    await store.put("bucket", "to", b"other")
    assert await store.garbage_collector.sweep() == 0
    assert await store.get("bucket", "from") == BIG
    await check_tables(store)


async def test_old_version_can_be_restored_by_a_copy(store: ObjectStore) -> None:
    await store.bucket("bucket", Versioning.ENABLED)
    old = (await store.put("bucket", "from", BIG)).version
    await store.put("bucket", "from", b"new")
    copied = await copy(store, CopySource("bucket", "from", old), "bucket", "from")
    assert copied.source_version == old
    assert copied.written.version not in (None, old)
    assert await store.get("bucket", "from") == BIG
    assert await store.get("bucket", "from", old) == BIG
    await check_tables(store)


async def test_copy_of_a_multipart_object_keeps_its_parts(
    light_store: ObjectStore, monkeypatch: pytest.MonkeyPatch
) -> None:
    monkeypatch.setattr(multipart, "MIN_PART_BYTES", 1)
    await light_store.bucket("bucket")
    upload = await light_store.begin("bucket", "from")
    for number, body in ((1, BIG), (2, b"rest")):
        await light_store.put_part(upload, number, body)
    done = await light_store.complete("bucket", upload, [(1, md5(BIG)), (2, md5(b"rest"))])
    copied = await copy(light_store, FROM, "bucket", "to")
    assert copied.written.object.etag == done.etag
    found = await light_store.reader.head(ROOT, "bucket", "to", part=2)
    assert found.wanted == ByteRange(len(BIG), len(BIG) + 4)
    await check_tables(light_store)


async def test_copy_onto_itself_without_changes_is_rejected(store: ObjectStore) -> None:
    await store.bucket("bucket")
    await store.put("bucket", "from", BIG)
    with pytest.raises(InvalidInput):
        await copy(store, FROM, "bucket", "from")
    assert len(await store.events()) == 2


@pytest.mark.parametrize("versioning", list(Versioning))
async def test_copy_onto_itself_changes_only_the_metadata(store: ObjectStore, versioning: Versioning) -> None:
    await store.bucket("bucket", versioning)
    await store.put("bucket", "from", BIG, attributes=DESCRIBED)
    changed = ObjectAttributes(metadata={"b": "2"})
    await copy(store, FROM, "bucket", "from", attributes=changed)
    found = (await store.reader.head(ROOT, "bucket", "from")).object
    assert (found.attributes.metadata, found.attributes.content_type) == ({"b": "2"}, changed.content_type)
    assert found.attributes.tags == TAGS
    assert await store.get("bucket", "from") == BIG
    assert await store.garbage_collector.sweep() == 0
    assert len(await store.stored_blobs()) == 1
    await check_tables(store)


async def test_copy_onto_itself_can_change_the_encryption(store: ObjectStore) -> None:
    await store.bucket("bucket")
    await store.put("bucket", "from", BIG)
    copied = await copy(store, FROM, "bucket", "from", encrypt=True)
    assert copied.written.object.attributes.encrypted
    assert await store.get("bucket", "from") == BIG
    assert await store.garbage_collector.sweep() == 1
    await check_tables(store)


@pytest.mark.parametrize("body", [b"small", BIG], ids=["inline", "blob"])
@pytest.mark.parametrize("before", [False, True], ids=["plain", "sealed"])
@pytest.mark.parametrize("wanted", [None, False, True], ids=["unsaid", "to plain", "to sealed"])
async def test_copy_is_encrypted_as_requested(
    light_store: ObjectStore, body: bytes, before: bool, wanted: bool | None
) -> None:
    await light_store.bucket("bucket")
    await light_store.put("bucket", "from", body, encrypt=before)
    copied = await copy(light_store, FROM, "bucket", "to", encrypt=wanted)
    assert copied.written.object.attributes.encrypted is bool(wanted)
    assert copied.written.object.etag == md5(body)
    assert await light_store.get("bucket", "to") == body
    await light_store.delete("bucket", "from")
    await light_store.garbage_collector.sweep()
    assert await light_store.get("bucket", "to") == body
    await check_tables(light_store)


async def test_copy_into_a_bucket_with_default_encryption_is_encrypted(light_store: ObjectStore) -> None:
    await light_store.bucket("bucket")
    await light_store.bucket("second")
    await light_store.buckets.set(ROOT, "second", "s3:PutEncryptionConfiguration", encryption=BucketEncryption())
    await light_store.put("bucket", "from", BIG)
    copied = await copy(light_store, FROM, "second", "to")
    assert copied.written.object.attributes.encrypted


async def test_copy_with_another_checksum_algorithm_is_rehashed(light_store: ObjectStore) -> None:
    await light_store.bucket("bucket")
    written = await light_store.put("bucket", "from", BIG)
    assert written.checksum is not None
    same = await copy(light_store, FROM, "bucket", "same", algorithm=written.checksum.algorithm)
    assert same.written.object.content == written.object.content
    other = await copy(light_store, FROM, "bucket", "other", algorithm=ChecksumAlgorithm.SHA256)
    assert other.written.checksum is not None
    assert other.written.checksum.algorithm is ChecksumAlgorithm.SHA256
    assert await light_store.get("bucket", "other") == BIG


@pytest.mark.parametrize(("tags", "expected"), [(None, TAGS), (NO_TAGS, NO_TAGS), (TagSet((Tag("b", "2"),)), None)])
async def test_tags_are_copied_or_replaced(
    light_store: ObjectStore, tags: TagSet | None, expected: TagSet | None
) -> None:
    await light_store.bucket("bucket")
    await light_store.put("bucket", "from", BIG, attributes=DESCRIBED)
    copied = await copy(light_store, FROM, "bucket", "to", tags=tags)
    assert copied.written.object.attributes.tags == (expected if expected is not None else tags)


async def test_lock_is_never_inherited(light_store: ObjectStore) -> None:
    await light_store.buckets.create(ROOT, "bucket", object_lock=True)
    retention = Retention(RetentionMode.COMPLIANCE, light_store.clock.now_ms() + DAY_MS)
    locked = ObjectAttributes(retention=retention, legal_hold=True)
    await light_store.put("bucket", "from", BIG, attributes=locked)
    free = (await copy(light_store, FROM, "bucket", "to")).written.object.attributes
    assert (free.retention, bool(free.legal_hold)) == (None, False)
    explicit = (await copy(light_store, FROM, "bucket", "to", lock=locked)).written.object.attributes
    assert (explicit.retention, explicit.legal_hold) == (retention, True)


@pytest.mark.parametrize(
    ("conditions", "copied"),
    [
        (ReadConditions(if_match=md5(BIG)), True),
        (ReadConditions(if_match=md5(b"other")), False),
        (ReadConditions(if_none_match=md5(BIG)), False),
        (ReadConditions(if_none_match=md5(b"other")), True),
        (ReadConditions(if_modified_since_ms=0), True),
        (ReadConditions(if_modified_since_ms=2**41), False),
        (ReadConditions(if_unmodified_since_ms=0), False),
        (ReadConditions(if_unmodified_since_ms=2**41), True),
    ],
)
async def test_failed_source_condition_copies_nothing(
    light_store: ObjectStore, conditions: ReadConditions, copied: bool
) -> None:
    await light_store.bucket("bucket")
    await light_store.put("bucket", "from", BIG)
    source = CopySource("bucket", "from", None, conditions)
    if copied:
        await copy(light_store, source, "bucket", "to")
        return
    with pytest.raises(PreconditionFailed):
        await copy(light_store, source, "bucket", "to")
    with pytest.raises(NoSuchKey):
        await light_store.get("bucket", "to")


@pytest.mark.parametrize("encrypt", [False, True], ids=["shared", "rewritten"])
async def test_failed_destination_condition_changes_nothing(store: ObjectStore, encrypt: bool) -> None:
    await store.bucket("bucket")
    await store.put("bucket", "from", BIG)
    await store.put("bucket", "to", b"there")
    for conditions in (WriteConditions(if_none_match="*"), WriteConditions(if_match=md5(b"other"))):
        with pytest.raises(PreconditionFailed):
            await copy(store, FROM, "bucket", "to", conditions=conditions, encrypt=encrypt)
    assert await store.get("bucket", "to") == b"there"
    assert len(await store.stored_blobs()) == 1
    await check_tables(store)
    await copy(store, FROM, "bucket", "to", conditions=WriteConditions(if_match=md5(b"there")), encrypt=encrypt)
    assert await store.get("bucket", "to") == BIG


async def test_absent_source_raises_as_a_read(light_store: ObjectStore) -> None:
    await light_store.bucket("bucket", Versioning.ENABLED)
    await light_store.put("bucket", "from", BIG)
    marker = (await light_store.delete("bucket", "from")).marker
    for source, failure in (
        (CopySource("absent", "from"), NoSuchBucket),
        (CopySource("bucket", "absent"), NoSuchKey),
        (FROM, NoSuchKey),
        (CopySource("bucket", "from", marker), IsDeleteMarker),
        (CopySource("bucket", "from", "0" * 28), NoSuchVersion),
    ):
        with pytest.raises(failure):
            await copy(light_store, source, "bucket", "to")
    await light_store.put("bucket", "from", BIG)
    with pytest.raises(NoSuchBucket):
        await copy(light_store, FROM, "absent", "to")


async def test_source_over_the_copy_limit_is_rejected(
    light_store: ObjectStore, monkeypatch: pytest.MonkeyPatch
) -> None:
    monkeypatch.setattr(copying, "MAX_PUT_BYTES", 99)
    await light_store.bucket("bucket")
    await light_store.put("bucket", "from", BIG)
    with pytest.raises(TooLarge):
        await copy(light_store, FROM, "bucket", "to")


async def test_source_replaced_during_a_copy_is_a_write_conflict(
    light_store: ObjectStore, monkeypatch: pytest.MonkeyPatch
) -> None:
    await light_store.bucket("bucket")
    await light_store.put("bucket", "from", BIG)
    admit = light_store.writer.authorize

    async def replace_source(*args: object) -> object:
        monkeypatch.undo()
        await light_store.put("bucket", "from", b"other")
        return await admit(*args)  # type: ignore[arg-type]  # passed on as they are

    monkeypatch.setattr(light_store.writer, "authorize", replace_source)
    with pytest.raises(WriteConflict):
        await copy(light_store, FROM, "bucket", "to")
    with pytest.raises(NoSuchKey):
        await light_store.get("bucket", "to")
    await check_tables(light_store)


async def test_concurrent_copies_and_deletes_keep_reference_counts(store: ObjectStore) -> None:
    await store.bucket("bucket")
    await store.put("bucket", "from", BIG)

    async def copy_and_delete(number: int) -> None:
        for _ in range(3):
            await copy(store, FROM, "bucket", f"to-{number}")
            await store.delete("bucket", f"to-{number}")

    await asyncio.gather(*(copy_and_delete(number) for number in range(4)))
    assert await store.meta.rows("SELECT refs FROM contents") == [(1,)]
    assert await store.get("bucket", "from") == BIG
    await check_tables(store)


@pytest.mark.parametrize(
    ("actions", "tagged", "tags", "allowed"),
    [
        (["s3:GetObject", "s3:PutObject"], False, None, True),
        (["s3:PutObject"], False, None, False),
        (["s3:GetObject"], False, None, False),
        (["s3:GetObject", "s3:PutObject"], False, TAGS, False),
        (["s3:GetObject", "s3:PutObject", "s3:PutObjectTagging"], False, TAGS, True),
        (["s3:GetObject", "s3:PutObject"], True, None, False),
        (["s3:GetObject", "s3:PutObject", "s3:PutObjectTagging"], True, None, False),
        (["s3:GetObject", "s3:GetObjectTagging", "s3:PutObject", "s3:PutObjectTagging"], True, None, True),
        (["s3:GetObject", "s3:PutObject"], True, NO_TAGS, True),
    ],
)
async def test_copy_requires_read_write_and_tagging_permissions(
    light_store: ObjectStore, actions: list[str], tagged: bool, tags: TagSet | None, allowed: bool
) -> None:
    await light_store.bucket("bucket")
    await light_store.put("bucket", "from", BIG, attributes=DESCRIBED if tagged else DEFAULT_ATTRIBUTES)
    bob = user("bob", policy(statement(action=actions)))
    if allowed:
        await copy(light_store, FROM, "bucket", "to", tags=tags, caller=bob)
    else:
        with pytest.raises(AccessDenied):
            await copy(light_store, FROM, "bucket", "to", tags=tags, caller=bob)


async def test_copy_of_a_version_requires_the_version_permission(light_store: ObjectStore) -> None:
    await light_store.bucket("bucket", Versioning.ENABLED)
    version = (await light_store.put("bucket", "from", BIG)).version
    source = CopySource("bucket", "from", version)
    bob = user("bob", policy(statement(action=["s3:GetObject", "s3:PutObject"])))
    with pytest.raises(AccessDenied):
        await copy(light_store, source, "bucket", "to", caller=bob)
    bob = user("bob", policy(statement(action=["s3:GetObjectVersion", "s3:PutObject"])))
    await copy(light_store, source, "bucket", "to", caller=bob)


@pytest.mark.parametrize(
    ("wanted", "expected"),
    [(None, BIG), (ByteRange(0, 100), BIG), (ByteRange(10, 15), b"01234"), (ByteRange(99, 100), b"9")],
)
@pytest.mark.parametrize("encrypted", [False, True], ids=["plain", "sealed"])
async def test_part_is_copied_from_a_range(
    light_store: ObjectStore, wanted: ByteRange | None, expected: bytes, encrypted: bool
) -> None:
    await light_store.bucket("bucket")
    await light_store.put("bucket", "from", BIG, encrypt=encrypted)
    upload = await light_store.begin("bucket", "to")
    ingested, _, version = await light_store.copier.copy_part(ROOT, FROM, wanted, upload, 1)
    assert (ingested.etag, version) == (md5(expected), None)
    await light_store.complete("bucket", upload, [(1, ingested.etag)])
    assert await light_store.get("bucket", "to") == expected
    await check_tables(light_store)


async def test_part_of_a_range_beyond_the_source_is_rejected(light_store: ObjectStore) -> None:
    await light_store.bucket("bucket")
    await light_store.put("bucket", "from", BIG)
    upload = await light_store.begin("bucket", "to")
    with pytest.raises(InvalidRange):
        await light_store.copier.copy_part(ROOT, FROM, ByteRange(50, 101), upload, 1)
    await check_tables(light_store)


async def test_copied_part_has_the_checksum_algorithm_of_its_upload(light_store: ObjectStore) -> None:
    await light_store.bucket("bucket")
    await light_store.put("bucket", "from", BIG)
    upload = await light_store.begin(
        "bucket", "to", algorithm=ChecksumAlgorithm.SHA1, checksum_type=ChecksumType.COMPOSITE
    )
    _, checksum, _ = await light_store.copier.copy_part(ROOT, FROM, None, upload, 1)
    assert checksum.algorithm is ChecksumAlgorithm.SHA1


async def test_copied_part_returns_the_source_version(light_store: ObjectStore) -> None:
    await light_store.bucket("bucket", Versioning.ENABLED)
    written = await light_store.put("bucket", "from", BIG)
    upload = await light_store.begin("bucket", "to")
    _, _, version = await light_store.copier.copy_part(ROOT, FROM, None, upload, 1)
    assert version == written.version
