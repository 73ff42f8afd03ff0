from __future__ import annotations

import pytest

from lakebed.core.access import ANONYMOUS
from lakebed.core.errors import (
    AccessDenied,
    InvalidRange,
    IsDeleteMarker,
    NoSuchBucket,
    NoSuchKey,
    NoSuchVersion,
    NotModified,
    PreconditionFailed,
)
from lakebed.objects.blobs.contents import ByteRange
from lakebed.objects.conditions import ReadConditions
from lakebed.objects.config.tagging import Tag, TagSet
from lakebed.objects.config.versioning import Versioning
from lakebed.objects.model import Caller, ObjectAttributes
from lakebed.objects.reading import RangeRequest
from tests.governance.documents import policy, statement

from .model import md5
from .stores import ROOT, ObjectStore, read_all, user

BIG = b"0123456789" * 10


@pytest.mark.parametrize(
    ("wanted", "size", "found"),
    [
        (RangeRequest(0, 0), 10, (0, 1)),
        (RangeRequest(0, 9), 10, (0, 10)),
        (RangeRequest(3, None), 10, (3, 10)),
        (RangeRequest(9, None), 10, (9, 10)),
        (RangeRequest(3, 100), 10, (3, 10)),
        (RangeRequest(suffix=3), 10, (7, 10)),
        (RangeRequest(suffix=10), 10, (0, 10)),
        (RangeRequest(suffix=100), 10, (0, 10)),
        (RangeRequest(10, None), 10, None),
        (RangeRequest(10, 20), 10, None),
        (RangeRequest(0, 0), 0, None),
        (RangeRequest(0, None), 0, None),
        (RangeRequest(suffix=0), 10, None),
    ],
)
def test_range_is_limited_to_the_end_and_rejected_past_it(
    wanted: RangeRequest, size: int, found: tuple[int, int] | None
) -> None:
    if found is not None:
        assert wanted.resolve(size) == ByteRange(*found)
        return
    with pytest.raises(InvalidRange) as refused:
        wanted.resolve(size)
    assert refused.value.size == size


@pytest.mark.parametrize("body", [b"0123456789", BIG], ids=["inline", "blob"])
@pytest.mark.parametrize("encrypt", [False, True], ids=["plain", "sealed"])
async def test_range_of_an_object_is_read(store: ObjectStore, body: bytes, encrypt: bool) -> None:
    await store.bucket("bucket")
    await store.put("bucket", "k", body, encrypt=encrypt)
    for wanted in (RangeRequest(2, 5), RangeRequest(suffix=3), RangeRequest(8)):
        found = await store.reader.get(ROOT, "bucket", "k", wanted=wanted)
        chosen = wanted.resolve(len(body))
        assert found.wanted == chosen
        assert found.source is not None
        assert await read_all(found.source, chosen) == body[chosen.start : chosen.end]
        assert (await store.reader.head(ROOT, "bucket", "k", wanted=wanted)).wanted == chosen


@pytest.mark.parametrize(
    ("conditions", "failure"),
    [
        (ReadConditions(if_match=md5(b"other")), PreconditionFailed),
        (ReadConditions(if_none_match=md5(BIG)), NotModified),
        (ReadConditions(if_modified_since_ms=2**41), NotModified),
        (ReadConditions(if_unmodified_since_ms=0), PreconditionFailed),
    ],
)
async def test_conditions_of_a_read_are_checked_by_get_and_head(
    light_store: ObjectStore, conditions: ReadConditions, failure: type[Exception]
) -> None:
    await light_store.bucket("bucket", Versioning.ENABLED)
    version = (await light_store.put("bucket", "k", BIG)).version
    for chosen in (None, version):
        with pytest.raises(failure):
            await light_store.reader.get(ROOT, "bucket", "k", version=chosen, conditions=conditions)
        with pytest.raises(failure):
            await light_store.reader.head(ROOT, "bucket", "k", version=chosen, conditions=conditions)


async def test_condition_is_evaluated_before_the_range(light_store: ObjectStore) -> None:
    await light_store.bucket("bucket")
    await light_store.put("bucket", "k", BIG)
    with pytest.raises(NotModified):
        await light_store.reader.get(
            ROOT,
            "bucket",
            "k",
            conditions=ReadConditions(if_none_match=md5(BIG)),
            wanted=RangeRequest(1000),
        )


async def test_absent_bucket_key_and_version_raise_different_errors(store: ObjectStore) -> None:
    await store.bucket("bucket", Versioning.ENABLED)
    with pytest.raises(NoSuchBucket):
        await store.get("absent", "k")
    with pytest.raises(NoSuchKey) as absent:
        await store.get("bucket", "k")
    assert absent.value.delete_marker is None
    with pytest.raises(NoSuchVersion):
        await store.get("bucket", "k", "0" * 28)
    await store.put("bucket", "k")
    marker = (await store.delete("bucket", "k")).marker
    with pytest.raises(NoSuchKey) as hidden:
        await store.get("bucket", "k")
    assert hidden.value.delete_marker == marker
    with pytest.raises(IsDeleteMarker):
        await store.get("bucket", "k", marker)


async def test_null_version_can_be_read_by_id(store: ObjectStore) -> None:
    await store.bucket("bucket")
    await store.put("bucket", "k", b"null")
    assert await store.get("bucket", "k", "null") == b"null"
    await store.buckets.set_versioning(ROOT, "bucket", Versioning.ENABLED)
    await store.put("bucket", "k", b"newer")
    assert await store.get("bucket", "k", "null") == b"null"


async def test_version_of_another_key_is_not_found(light_store: ObjectStore) -> None:
    await light_store.bucket("bucket", Versioning.ENABLED)
    version = (await light_store.put("bucket", "k")).version
    await light_store.put("bucket", "other")
    with pytest.raises(NoSuchVersion):
        await light_store.get("bucket", "other", version)


async def test_absent_key_is_access_denied_without_list_permission(light_store: ObjectStore) -> None:
    await light_store.bucket("bucket")
    await light_store.put("bucket", "there")
    bob = user("bob", policy(statement(action="s3:GetObject")))
    await light_store.reader.get(bob, "bucket", "there")
    with pytest.raises(AccessDenied):
        await light_store.reader.get(bob, "bucket", "absent")
    may_list = statement(action="s3:ListBucket", resource="arn:aws:s3:::bucket")
    bob = user("bob", policy(statement(action="s3:GetObject"), may_list))
    with pytest.raises(NoSuchKey):
        await light_store.reader.get(bob, "bucket", "absent")


async def test_absent_key_is_not_found_with_list_permission_for_its_prefix(light_store: ObjectStore) -> None:
    await light_store.bucket("bucket")
    may_list = statement(
        action="s3:ListBucket", resource="arn:aws:s3:::bucket", condition={"StringLike": {"s3:prefix": "dir/*"}}
    )
    bob = user("bob", policy(statement(action="s3:GetObject"), may_list))
    with pytest.raises(NoSuchKey):
        await light_store.reader.get(bob, "bucket", "dir/absent")
    with pytest.raises(AccessDenied):
        await light_store.reader.get(bob, "bucket", "other/absent")


async def test_reading_a_version_requires_its_own_permission(light_store: ObjectStore) -> None:
    await light_store.bucket("bucket", Versioning.ENABLED)
    version = (await light_store.put("bucket", "k")).version
    reader = user("bob", policy(statement(action="s3:GetObject")))
    with pytest.raises(AccessDenied):
        await light_store.reader.get(reader, "bucket", "k", version=version)
    with pytest.raises(AccessDenied):
        await light_store.reader.head(reader, "bucket", "k", version=version)
    reader = user("bob", policy(statement(action="s3:GetObjectVersion")))
    await light_store.reader.get(reader, "bucket", "k", version=version)


async def test_policy_can_grant_by_existing_object_tags(light_store: ObjectStore) -> None:
    await light_store.bucket("bucket", Versioning.ENABLED)
    tags = ObjectAttributes(tags=TagSet((Tag("public", "yes"),)))
    version = (await light_store.put("bucket", "tagged", attributes=tags)).version
    await light_store.put("bucket", "plain")
    condition = {"StringEquals": {"s3:ExistingObjectTag/public": "yes"}}
    bob = user("bob", policy(statement(action="s3:GetObject*", condition=condition)))
    await light_store.reader.get(bob, "bucket", "tagged")
    await light_store.reader.get(bob, "bucket", "tagged", version=version)
    with pytest.raises(AccessDenied):
        await light_store.reader.get(bob, "bucket", "plain")


async def test_anonymous_caller_reads_only_public_objects(light_store: ObjectStore) -> None:
    await light_store.bucket("bucket")
    await light_store.put("bucket", "public/k", b"for all")
    await light_store.put("bucket", "k")
    anonymous = Caller(ANONYMOUS)
    with pytest.raises(AccessDenied):
        await light_store.reader.get(anonymous, "bucket", "public/k")
    document = policy(statement(principal="*", resource="arn:aws:s3:::bucket/public/*"))
    await light_store.buckets.set(ROOT, "bucket", "s3:PutBucketPolicy", policy=document)
    await light_store.reader.get(anonymous, "bucket", "public/k")
    with pytest.raises(AccessDenied):
        await light_store.reader.get(anonymous, "bucket", "k")
