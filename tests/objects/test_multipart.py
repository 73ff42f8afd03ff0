"""Multipart uploads: S3's rules, one test each."""

from __future__ import annotations

import asyncio
import hashlib
from collections.abc import Sequence

import pytest

from lakebed.core.checksums import Checksum, ChecksumAlgorithm, ChecksumType, new_hasher
from lakebed.core.errors import (
    AccessDenied,
    IntegrityMismatch,
    InvalidInput,
    InvalidPart,
    InvalidPartOrder,
    LakebedError,
    NoSuchBucket,
    NoSuchKey,
    NoSuchUpload,
    PartTooSmall,
    PreconditionFailed,
)
from lakebed.objects import multipart
from lakebed.objects.blobs.contents import ByteRange
from lakebed.objects.blobs.digests import ExpectedDigests
from lakebed.objects.conditions import WriteConditions
from lakebed.objects.config.object_lock import DefaultRetention, ObjectLockConfiguration, RetentionMode
from lakebed.objects.config.tagging import Tag, TagSet
from lakebed.objects.config.versioning import Versioning
from lakebed.objects.model import MAX_PARTS, ObjectAttributes, StoredUpload
from lakebed.objects.multipart import RESULT_KEPT_MS, CompletedObject, Completion, ListedPart
from lakebed.objects.reading import RangeRequest
from tests.governance.documents import policy, statement

from .consistency import check_tables
from .model import md5
from .stores import ROOT, Body, ObjectStore, read_all, user

ONE = b"the first part of all"
TWO = b"the second part"
FIVE = b"the fifth, after a gap"

no_minimum = pytest.mark.usefixtures("_no_minimum")


@pytest.fixture
def _no_minimum(monkeypatch: pytest.MonkeyPatch) -> None:
    """Allow parts of a few bytes, in tests that do not concern the minimum size."""
    monkeypatch.setattr(multipart, "MIN_PART_BYTES", 1)


def etag_of(*parts: bytes) -> str:
    digests = b"".join(hashlib.md5(part).digest() for part in parts)
    return f"{hashlib.md5(digests).hexdigest()}-{len(parts)}"


async def begin_with(store: ObjectStore, parts: dict[int, bytes], key: str = "k") -> StoredUpload:
    upload = await store.begin("bucket", key)
    for number, body in parts.items():
        await store.put_part(upload, number, body)
    return upload


def listed(parts: dict[int, bytes]) -> list[tuple[int, str]]:
    return [(number, md5(body)) for number, body in sorted(parts.items())]


@no_minimum
async def test_parts_become_one_object_in_the_order_of_their_numbers(store: ObjectStore) -> None:
    await store.bucket("bucket")
    parts = {5: FIVE, 1: ONE, 2: TWO}
    upload = await begin_with(store, parts)
    done = await store.complete("bucket", upload, listed(parts))
    assert (done.key, done.etag, done.version) == ("k", etag_of(ONE, TWO, FIVE), None)
    assert await store.get("bucket", "k") == ONE + TWO + FIVE
    found = await store.reader.head(ROOT, "bucket", "k")
    assert found.object.size == len(ONE + TWO + FIVE)
    assert found.object.attributes.part_count == 3
    await check_tables(store)


@no_minimum
async def test_incomplete_upload_is_not_visible(store: ObjectStore) -> None:
    await store.bucket("bucket")
    await begin_with(store, {1: ONE})
    with pytest.raises(NoSuchKey):
        await store.get("bucket", "k")
    page = await store.lister.objects(ROOT, "bucket", prefix="", delimiter="", after="", limit=10)
    assert page.entries == []
    await check_tables(store)


@no_minimum
@pytest.mark.parametrize("encrypt", [False, True], ids=["plain", "sealed"])
async def test_ranges_cross_part_boundaries(store: ObjectStore, encrypt: bool) -> None:
    await store.bucket("bucket")
    upload = await store.begin("bucket", "k", encrypt=encrypt)
    whole = ONE + TWO + FIVE
    for number, body in ((1, ONE), (2, TWO), (3, FIVE)):
        await store.put_part(upload, number, body)
    done = await store.complete("bucket", upload, listed({1: ONE, 2: TWO, 3: FIVE}))
    assert done.encrypted is encrypt
    for first, last in ((0, 0), (len(ONE) - 1, len(ONE)), (3, len(whole) - 3), (len(ONE + TWO), len(whole) - 1)):
        found = await store.reader.get(ROOT, "bucket", "k", wanted=RangeRequest(first, last))
        assert found.source is not None
        assert found.wanted == ByteRange(first, last + 1)
        assert await read_all(found.source, found.wanted) == whole[first : last + 1]


@no_minimum
async def test_part_is_read_by_its_position(store: ObjectStore) -> None:
    await store.bucket("bucket")
    parts = {2: ONE, 7: TWO}
    await store.complete("bucket", await begin_with(store, parts), listed(parts))
    found = await store.reader.get(ROOT, "bucket", "k", part=2)
    assert found.source is not None
    assert found.part_count == 2
    assert await read_all(found.source, found.wanted) == TWO
    with pytest.raises(InvalidPart):
        await store.reader.get(ROOT, "bucket", "k", part=3)


async def test_single_put_object_has_one_part(light_store: ObjectStore) -> None:
    await light_store.bucket("bucket")
    await light_store.put("bucket", "k", ONE)
    found = await light_store.reader.get(ROOT, "bucket", "k", part=1)
    assert (found.wanted, found.part_count) == (ByteRange(0, len(ONE)), None)
    with pytest.raises(InvalidPart):
        await light_store.reader.head(ROOT, "bucket", "k", part=2)


async def test_upload_of_one_empty_part_creates_an_empty_object(store: ObjectStore) -> None:
    await store.bucket("bucket")
    done = await store.complete("bucket", await begin_with(store, {1: b""}), listed({1: b""}))
    assert done.etag == etag_of(b"")
    assert await store.get("bucket", "k") == b""
    await check_tables(store)


@no_minimum
async def test_attributes_of_the_upload_are_those_of_the_object(light_store: ObjectStore) -> None:
    await light_store.buckets.create(ROOT, "bucket", object_lock=True)
    rule = ObjectLockConfiguration(DefaultRetention(RetentionMode.GOVERNANCE, days=1))
    await light_store.buckets.set(ROOT, "bucket", "s3:PutBucketObjectLockConfiguration", object_lock=rule)
    attributes = ObjectAttributes(content_type="text/plain", metadata={"a": "1"}, tags=TagSet((Tag("t", "1"),)))
    upload = await light_store.begin("bucket", "k", attributes=attributes)
    await light_store.put_part(upload, 1, ONE)
    await light_store.complete("bucket", upload, listed({1: ONE}))
    stored = (await light_store.reader.head(ROOT, "bucket", "k")).object.attributes
    assert (stored.content_type, stored.metadata, stored.tags) == ("text/plain", {"a": "1"}, attributes.tags)
    assert stored.retention is not None


@no_minimum
async def test_completion_creates_a_new_version(store: ObjectStore) -> None:
    await store.bucket("bucket", Versioning.ENABLED)
    first = (await store.put("bucket", "k", b"before")).version
    done = await store.complete("bucket", await begin_with(store, {1: ONE}), listed({1: ONE}))
    assert done.version not in (None, first)
    assert await store.get("bucket", "k", first) == b"before"
    assert await store.get("bucket", "k", done.version) == ONE


@no_minimum
async def test_part_uploaded_again_replaces_the_first(store: ObjectStore) -> None:
    await store.bucket("bucket")
    upload = await begin_with(store, {1: ONE})
    await store.put_part(upload, 1, TWO)
    with pytest.raises(InvalidPart):
        await store.complete("bucket", upload, listed({1: ONE}))
    await store.complete("bucket", upload, listed({1: TWO}))
    assert await store.get("bucket", "k") == TWO
    assert await store.garbage_collector.sweep() == 1
    await check_tables(store)


@no_minimum
async def test_last_finished_upload_of_a_part_wins(store: ObjectStore) -> None:
    await store.bucket("bucket")
    upload = await store.begin("bucket", "k")
    released = asyncio.Event()

    class Slow(Body):
        async def next_chunk(self) -> bytes | memoryview | None:
            await released.wait()
            return await super().next_chunk()

    slow = asyncio.create_task(store.uploads.put_part(upload, 1, Slow(TWO), ExpectedDigests()))
    await store.put_part(upload, 1, ONE)
    released.set()
    await slow
    await store.complete("bucket", upload, listed({1: TWO}))
    assert await store.get("bucket", "k") == TWO
    await check_tables(store)


@no_minimum
async def test_unlisted_parts_are_dropped(store: ObjectStore) -> None:
    await store.bucket("bucket")
    upload = await begin_with(store, {1: ONE, 2: TWO, 3: FIVE})
    await store.complete("bucket", upload, listed({1: ONE, 3: FIVE}))
    assert await store.get("bucket", "k") == ONE + FIVE
    assert len(await store.stored_blobs()) == 3
    assert await store.garbage_collector.sweep() == 1
    await check_tables(store)


async def test_part_after_completion_is_rejected_and_leaves_no_blob(store: ObjectStore) -> None:
    await store.bucket("bucket")
    upload = await begin_with(store, {1: ONE})
    reading = asyncio.Event()
    released = asyncio.Event()

    class Slow(Body):
        async def next_chunk(self) -> bytes | memoryview | None:
            reading.set()
            await released.wait()
            return await super().next_chunk()

    late = asyncio.create_task(store.uploads.put_part(upload, 2, Slow(TWO), ExpectedDigests()))
    await reading.wait()
    await store.complete("bucket", upload, listed({1: ONE}))
    released.set()
    with pytest.raises(NoSuchUpload):
        await late
    assert len(await store.stored_blobs()) == 1
    await check_tables(store)


async def test_parts_are_listed_a_page_at_a_time(light_store: ObjectStore) -> None:
    await light_store.bucket("bucket")
    upload = await begin_with(light_store, {7: ONE, 1: TWO, MAX_PARTS: FIVE})
    first = await light_store.uploads.parts(ROOT, "bucket", "k", upload.id, after=0, limit=2)
    assert ([part.number for part in first.parts], first.truncated) == ([1, 7], True)
    assert [(part.etag, part.size) for part in first.parts] == [(md5(TWO), len(TWO)), (md5(ONE), len(ONE))]
    rest = await light_store.uploads.parts(ROOT, "bucket", "k", upload.id, after=7, limit=2)
    assert ([part.number for part in rest.parts], rest.truncated) == ([MAX_PARTS], False)


@pytest.mark.parametrize("number", [0, -1, MAX_PARTS + 1])
async def test_part_number_out_of_range_is_rejected(light_store: ObjectStore, number: int) -> None:
    await light_store.bucket("bucket")
    upload = await light_store.begin("bucket", "k")
    with pytest.raises(InvalidInput) as refused:
        await light_store.uploads.authorize_part(ROOT, "bucket", "k", upload.id, number)
    assert refused.value.argument == "partNumber"


@no_minimum
@pytest.mark.parametrize(
    ("parts", "failure"),
    [
        ([(2, md5(TWO)), (1, md5(ONE))], InvalidPartOrder),
        ([(1, md5(ONE)), (1, md5(ONE))], InvalidPartOrder),
        ([(1, md5(ONE)), (3, md5(TWO))], InvalidPart),
        ([(1, md5(TWO)), (2, md5(TWO))], InvalidPart),
        ([(1, "")], InvalidPart),
    ],
    ids=["descending", "repeated", "unknown", "other etag", "no etag"],
)
async def test_invalid_part_list_changes_nothing(
    store: ObjectStore, parts: Sequence[tuple[int, str]], failure: type[LakebedError]
) -> None:
    await store.bucket("bucket")
    upload = await begin_with(store, {1: ONE, 2: TWO})
    with pytest.raises(failure):
        await store.complete("bucket", upload, parts)
    await check_tables(store)
    await store.complete("bucket", upload, listed({1: ONE, 2: TWO}))
    assert await store.get("bucket", "k") == ONE + TWO


@no_minimum
async def test_etags_are_accepted_quoted_and_bare(light_store: ObjectStore) -> None:
    await light_store.bucket("bucket")
    upload = await begin_with(light_store, {1: ONE, 2: TWO})
    done = await light_store.complete("bucket", upload, [(1, f'"{md5(ONE)}"'), (2, md5(TWO))])
    again = await light_store.complete("bucket", upload, [(1, md5(ONE)), (2, f'"{md5(TWO)}"')])
    assert done == again


async def test_only_the_last_part_may_be_under_five_mebibytes(light_store: ObjectStore) -> None:
    await light_store.bucket("bucket")
    enough = bytes(5 * 1024 * 1024)
    upload = await begin_with(light_store, {1: enough[1:], 2: ONE})
    with pytest.raises(PartTooSmall):
        await light_store.complete("bucket", upload, listed({1: enough[1:], 2: ONE}))
    await light_store.put_part(upload, 1, enough)
    await light_store.complete("bucket", upload, listed({1: enough, 2: ONE}))
    assert await light_store.get("bucket", "k") == enough + ONE


async def test_minimum_size_exempts_the_last_listed_part(light_store: ObjectStore) -> None:
    await light_store.bucket("bucket")
    upload = await begin_with(light_store, {1: ONE, 2: TWO})
    await light_store.complete("bucket", upload, listed({1: ONE}))
    assert await light_store.get("bucket", "k") == ONE


@no_minimum
async def test_declared_size_must_be_the_sum_of_the_parts(light_store: ObjectStore) -> None:
    await light_store.bucket("bucket")
    upload = await begin_with(light_store, {1: ONE, 2: TWO})
    parts = [ListedPart(number, etag) for number, etag in listed({1: ONE, 2: TWO})]
    with pytest.raises(InvalidInput) as refused:
        await light_store.uploads.complete(
            ROOT, "bucket", "k", upload.id, Completion(parts, object_size=len(ONE + TWO) + 1)
        )
    assert refused.value.argument == "x-amz-mp-object-size"
    await light_store.uploads.complete(ROOT, "bucket", "k", upload.id, Completion(parts, object_size=len(ONE + TWO)))


@pytest.mark.parametrize(("bucket", "key"), [("bucket", "other"), ("second", "k")])
async def test_upload_belongs_to_its_bucket_and_key(light_store: ObjectStore, bucket: str, key: str) -> None:
    await light_store.bucket("bucket")
    await light_store.bucket("second")
    upload = await begin_with(light_store, {1: ONE})
    uploads = light_store.uploads
    parts = [ListedPart(1, md5(ONE))]
    for trying in (
        uploads.complete(ROOT, bucket, key, upload.id, Completion(parts)),
        uploads.abort(ROOT, bucket, key, upload.id),
        uploads.parts(ROOT, bucket, key, upload.id, after=0, limit=1),
        uploads.authorize_part(ROOT, bucket, key, upload.id, 2),
    ):
        with pytest.raises(NoSuchUpload):
            await trying


async def test_upload_to_absent_bucket_raises_no_such_bucket(light_store: ObjectStore) -> None:
    with pytest.raises(NoSuchBucket):
        await light_store.begin("bucket", "k")


async def test_repeated_completion_gets_the_same_response(store: ObjectStore) -> None:
    await store.bucket("bucket", Versioning.ENABLED)
    upload = await begin_with(store, {1: ONE})
    answers = [await store.complete("bucket", upload, listed({1: ONE})) for _ in range(3)]
    assert answers == [answers[0]] * 3
    page = await store.lister.versions(
        ROOT, "bucket", prefix="", delimiter="", key_marker="", version_marker="", limit=9
    )
    assert len(page.entries) == 1
    await check_tables(store)


async def test_concurrent_completions_create_one_object(store: ObjectStore) -> None:
    await store.bucket("bucket", Versioning.ENABLED)
    upload = await begin_with(store, {1: ONE})
    answers = await asyncio.gather(*(store.complete("bucket", upload, listed({1: ONE})) for _ in range(4)))
    assert len({answer.version for answer in answers}) == 1
    await check_tables(store)


async def test_repeated_completion_does_not_restore_a_replaced_object(store: ObjectStore) -> None:
    await store.bucket("bucket")
    upload = await begin_with(store, {1: ONE})
    done = await store.complete("bucket", upload, listed({1: ONE}))
    await store.put("bucket", "k", TWO)
    assert await store.complete("bucket", upload, listed({1: ONE})) == done
    assert await store.get("bucket", "k") == TWO


@no_minimum
async def test_repeated_completion_with_another_list_is_rejected(store: ObjectStore) -> None:
    await store.bucket("bucket")
    upload = await begin_with(store, {1: ONE, 2: TWO})
    await store.complete("bucket", upload, listed({1: ONE, 2: TWO}))
    for other in (listed({1: ONE}), listed({1: TWO, 2: TWO}), listed({1: ONE, 2: TWO, 3: FIVE})):
        with pytest.raises(NoSuchUpload):
            await store.complete("bucket", upload, other)


async def test_completed_upload_accepts_no_further_requests(store: ObjectStore) -> None:
    await store.bucket("bucket")
    upload = await begin_with(store, {1: ONE})
    await store.complete("bucket", upload, listed({1: ONE}))
    for trying in (
        store.uploads.abort(ROOT, "bucket", "k", upload.id),
        store.uploads.parts(ROOT, "bucket", "k", upload.id, after=0, limit=1),
        store.uploads.authorize_part(ROOT, "bucket", "k", upload.id, 2),
    ):
        with pytest.raises(NoSuchUpload):
            await trying
    assert await store.get("bucket", "k") == ONE


async def test_result_of_completion_is_kept_for_a_day(light_store: ObjectStore) -> None:
    await light_store.bucket("bucket")
    upload = await begin_with(light_store, {1: ONE})
    await light_store.complete("bucket", upload, listed({1: ONE}))
    light_store.clock.advance(RESULT_KEPT_MS / 1000)
    assert (await light_store.orphan_sweep.sweep()).old_results == 0
    await light_store.complete("bucket", upload, listed({1: ONE}))
    light_store.clock.advance(1)
    assert (await light_store.orphan_sweep.sweep()).old_results == 1
    with pytest.raises(NoSuchUpload):
        await light_store.complete("bucket", upload, listed({1: ONE}))
    assert await light_store.get("bucket", "k") == ONE


async def _complete_if(store: ObjectStore, upload: StoredUpload, conditions: WriteConditions) -> CompletedObject:
    return await store.complete("bucket", upload, listed({1: ONE}), conditions)


async def test_failed_condition_keeps_the_object_and_the_upload(store: ObjectStore) -> None:
    await store.bucket("bucket")
    await store.put("bucket", "k", b"there")
    upload = await begin_with(store, {1: ONE})
    with pytest.raises(PreconditionFailed):
        await _complete_if(store, upload, WriteConditions(if_none_match="*"))
    with pytest.raises(PreconditionFailed):
        await _complete_if(store, upload, WriteConditions(if_match=md5(b"other")))
    assert await store.get("bucket", "k") == b"there"
    await check_tables(store)
    await _complete_if(store, upload, WriteConditions(if_match=md5(b"there")))
    assert await store.get("bucket", "k") == ONE


async def test_if_match_on_absent_object_raises_no_such_key(light_store: ObjectStore) -> None:
    await light_store.bucket("bucket")
    upload = await begin_with(light_store, {1: ONE})
    with pytest.raises(NoSuchKey):
        await _complete_if(light_store, upload, WriteConditions(if_match="*"))


async def test_completion_with_if_match_requires_read_permission(light_store: ObjectStore) -> None:
    """As for a conditional PUT: the response reveals the object's ETag."""
    await light_store.bucket("bucket")
    await light_store.put("bucket", "k", b"there")
    upload = await begin_with(light_store, {1: ONE})
    completion = Completion([ListedPart(1, md5(ONE))], WriteConditions(if_match=md5(b"there")))
    writer = user("bob", policy(statement(action="s3:PutObject")))
    with pytest.raises(AccessDenied):
        await light_store.uploads.complete(writer, "bucket", "k", upload.id, completion)
    reader = user("bob", policy(statement(action=["s3:PutObject", "s3:GetObject"])))
    await light_store.uploads.complete(reader, "bucket", "k", upload.id, completion)


async def test_aborted_upload_frees_its_parts(store: ObjectStore) -> None:
    await store.bucket("bucket")
    upload = await begin_with(store, {1: ONE, 2: TWO})
    await store.uploads.abort(ROOT, "bucket", "k", upload.id)
    assert await store.garbage_collector.sweep() == 2
    assert await store.stored_blobs() == set()
    with pytest.raises(NoSuchUpload):
        await store.uploads.abort(ROOT, "bucket", "k", upload.id)
    with pytest.raises(NoSuchUpload):
        await store.complete("bucket", upload, listed({1: ONE}))
    await check_tables(store)


async def test_deleting_a_bucket_aborts_its_uploads(store: ObjectStore) -> None:
    await store.bucket("bucket")
    upload = await begin_with(store, {1: ONE})
    await store.buckets.delete(ROOT, "bucket")
    await store.bucket("bucket")
    with pytest.raises(NoSuchUpload):
        await store.complete("bucket", upload, listed({1: ONE}))
    assert await store.garbage_collector.sweep() == 1
    await check_tables(store)


def _digest(algorithm: ChecksumAlgorithm, body: bytes) -> bytes:
    hasher = new_hasher(algorithm)
    hasher.update(body)
    return hasher.digest()


async def _upload_with_checksum(
    store: ObjectStore, algorithm: ChecksumAlgorithm, kind: ChecksumType
) -> tuple[StoredUpload, list[ListedPart]]:
    upload = await store.begin("bucket", "k", algorithm=algorithm, checksum_type=kind)
    parts = []
    for number, body in ((1, ONE), (2, TWO)):
        await store.put_part(upload, number, body, ExpectedDigests(algorithm=algorithm))
        parts.append(ListedPart(number, md5(body), Checksum(algorithm, _digest(algorithm, body))))
    return upload, parts


@no_minimum
@pytest.mark.parametrize("algorithm", [name for name in ChecksumAlgorithm if name is not ChecksumAlgorithm.CRC64NVME])
async def test_composite_checksum_is_of_the_digests_of_the_parts(
    light_store: ObjectStore, algorithm: ChecksumAlgorithm
) -> None:
    await light_store.bucket("bucket")
    upload, parts = await _upload_with_checksum(light_store, algorithm, ChecksumType.COMPOSITE)
    done = await light_store.uploads.complete(ROOT, "bucket", "k", upload.id, Completion(parts))
    digests = _digest(algorithm, ONE) + _digest(algorithm, TWO)
    assert done.checksum == Checksum(algorithm, _digest(algorithm, digests), ChecksumType.COMPOSITE, 2)
    assert (await light_store.reader.head(ROOT, "bucket", "k")).object.checksum == done.checksum


@no_minimum
@pytest.mark.parametrize("algorithm", [name for name in ChecksumAlgorithm if name.is_linear])
async def test_full_checksum_is_of_the_bytes_of_the_object(
    light_store: ObjectStore, algorithm: ChecksumAlgorithm
) -> None:
    await light_store.bucket("bucket")
    upload, parts = await _upload_with_checksum(light_store, algorithm, ChecksumType.FULL_OBJECT)
    done = await light_store.uploads.complete(ROOT, "bucket", "k", upload.id, Completion(parts))
    assert done.checksum == Checksum(algorithm, _digest(algorithm, ONE + TWO))


@no_minimum
async def test_upload_without_a_checksum_gets_the_default_one_of_all_bytes(light_store: ObjectStore) -> None:
    await light_store.bucket("bucket")
    upload = await begin_with(light_store, {1: ONE, 2: TWO})
    done = await light_store.complete("bucket", upload, listed({1: ONE, 2: TWO}))
    algorithm = ChecksumAlgorithm.CRC64NVME
    assert done.checksum == Checksum(algorithm, _digest(algorithm, ONE + TWO))


@no_minimum
@pytest.mark.parametrize("kind", list(ChecksumType))
async def test_declared_checksum_of_the_object_is_verified(light_store: ObjectStore, kind: ChecksumType) -> None:
    await light_store.bucket("bucket")
    algorithm = ChecksumAlgorithm.CRC32
    upload, parts = await _upload_with_checksum(light_store, algorithm, kind)
    wrong = Checksum(algorithm, _digest(algorithm, b"something else"), kind)
    with pytest.raises(IntegrityMismatch):
        await light_store.uploads.complete(ROOT, "bucket", "k", upload.id, Completion(parts, checksum=wrong))
    whole = ONE + TWO
    if kind is ChecksumType.COMPOSITE:
        whole = _digest(algorithm, ONE) + _digest(algorithm, TWO)
    right = Checksum(algorithm, _digest(algorithm, whole), kind)
    await light_store.uploads.complete(
        ROOT, "bucket", "k", upload.id, Completion(parts, checksum=right, checksum_type=kind)
    )


@no_minimum
async def test_checksum_type_must_match_the_upload(light_store: ObjectStore) -> None:
    await light_store.bucket("bucket")
    upload, parts = await _upload_with_checksum(light_store, ChecksumAlgorithm.CRC32, ChecksumType.COMPOSITE)
    with pytest.raises(InvalidInput) as refused:
        await light_store.uploads.complete(
            ROOT, "bucket", "k", upload.id, Completion(parts, checksum_type=ChecksumType.FULL_OBJECT)
        )
    assert refused.value.argument == "x-amz-checksum-type"


@no_minimum
async def test_part_listed_with_another_checksum_is_rejected(light_store: ObjectStore) -> None:
    await light_store.bucket("bucket")
    algorithm = ChecksumAlgorithm.SHA256
    upload, parts = await _upload_with_checksum(light_store, algorithm, ChecksumType.COMPOSITE)
    parts[1] = ListedPart(2, md5(TWO), Checksum(algorithm, _digest(algorithm, ONE)))
    with pytest.raises(InvalidPart):
        await light_store.uploads.complete(ROOT, "bucket", "k", upload.id, Completion(parts))
    parts[1] = ListedPart(2, md5(TWO), Checksum(ChecksumAlgorithm.CRC32, bytes(4)))
    with pytest.raises(IntegrityMismatch):
        await light_store.uploads.complete(ROOT, "bucket", "k", upload.id, Completion(parts))


@no_minimum
async def test_composite_upload_requires_the_checksum_of_each_part(light_store: ObjectStore) -> None:
    await light_store.bucket("bucket")
    upload, parts = await _upload_with_checksum(light_store, ChecksumAlgorithm.SHA256, ChecksumType.COMPOSITE)
    parts[0] = ListedPart(1, md5(ONE))
    with pytest.raises(InvalidInput) as refused:
        await light_store.uploads.complete(ROOT, "bucket", "k", upload.id, Completion(parts))
    assert refused.value.argument == "ChecksumSHA256"


@no_minimum
async def test_part_with_another_algorithm_is_listed_by_it_and_counts_by_the_upload_algorithm(
    light_store: ObjectStore,
) -> None:
    await light_store.bucket("bucket")
    upload = await light_store.begin("bucket", "k")
    sha256 = Checksum(ChecksumAlgorithm.SHA256, hashlib.sha256(ONE).digest())
    expected = ExpectedDigests(checksum=sha256, declared_algorithm=ChecksumAlgorithm.SHA256)
    _, shown = await light_store.uploads.put_part(upload, 1, Body(ONE), expected)
    assert shown == sha256
    done = await light_store.uploads.complete(
        ROOT, "bucket", "k", upload.id, Completion([ListedPart(1, md5(ONE), sha256)])
    )
    algorithm = ChecksumAlgorithm.CRC64NVME
    assert done.checksum == Checksum(algorithm, _digest(algorithm, ONE))
