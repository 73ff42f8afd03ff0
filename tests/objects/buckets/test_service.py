from __future__ import annotations

import asyncio

import msgspec
import pytest

from lakebed.core.errors import (
    AccessDenied,
    BucketAlreadyExists,
    BucketAlreadyOwned,
    BucketNotEmpty,
    InvalidBucketState,
    InvalidName,
    NoSuchBucket,
)
from lakebed.objects.buckets.bucket import Bucket, BucketSettings, decode_settings, encode_settings
from lakebed.objects.config.cors import CorsConfiguration, CorsRule
from lakebed.objects.config.encryption import BucketEncryption
from lakebed.objects.config.lifecycle import Expiration, LifecycleConfiguration, LifecycleFilter, LifecycleRule
from lakebed.objects.config.object_lock import DefaultRetention, ObjectLockConfiguration, RetentionMode
from lakebed.objects.config.ownership import ObjectOwnership
from lakebed.objects.config.public_access import PublicAccessBlock
from lakebed.objects.config.tagging import Tag, TagSet
from lakebed.objects.config.versioning import Versioning
from tests.governance.documents import policy, statement
from tests.objects.consistency import check_tables
from tests.objects.stores import ROOT, ObjectStore, user

OTHER = "111122223333"
ALL_OF_S3 = policy(statement(action="s3:*", resource="*"))
OTHER_ACCOUNT_USER = user("eve", ALL_OF_S3, account=OTHER)


async def test_new_bucket_is_unversioned_and_owned_by_the_caller(store: ObjectStore) -> None:
    tags = TagSet((Tag("team", "a"),))
    made = await store.buckets.create(ROOT, "bucket", tags=tags)
    found = await store.buckets.head(ROOT, "bucket")
    assert found == made
    assert (found.owner, found.region, found.created_ms) == (
        ROOT.principal.account,
        "us-east-1",
        store.clock.now_ms(),
    )
    assert (found.versioning, found.settings.tags, found.settings.object_lock) == (Versioning.UNVERSIONED, tags, None)


async def test_bucket_with_object_lock_cannot_suspend_versioning(store: ObjectStore) -> None:
    made = await store.buckets.create(ROOT, "bucket", object_lock=True)
    assert made.versioning == Versioning.ENABLED
    assert made.settings.object_lock == ObjectLockConfiguration()
    with pytest.raises(InvalidBucketState):
        await store.buckets.set_versioning(ROOT, "bucket", Versioning.SUSPENDED)


async def test_bucket_names_are_unique(store: ObjectStore) -> None:
    await store.bucket("bucket")
    with pytest.raises(BucketAlreadyOwned):
        await store.buckets.create(ROOT, "bucket")
    with pytest.raises(BucketAlreadyExists):
        await store.buckets.create(OTHER_ACCOUNT_USER, "bucket")
    assert len(await store.events()) == 1


async def test_exactly_one_concurrent_create_succeeds(store: ObjectStore) -> None:
    outcomes = await asyncio.gather(*(store.buckets.create(ROOT, "bucket") for _ in range(5)), return_exceptions=True)
    assert sorted(type(outcome).__name__ for outcome in outcomes) == ["Bucket"] + ["BucketAlreadyOwned"] * 4


async def test_invalid_bucket_name_is_rejected(light_store: ObjectStore) -> None:
    with pytest.raises(InvalidName):
        await light_store.buckets.create(ROOT, "No")


async def test_absent_bucket_raises_no_such_bucket(light_store: ObjectStore) -> None:
    buckets = light_store.buckets
    for attempt in (
        buckets.head(ROOT, "absent"),
        buckets.delete(ROOT, "absent"),
        buckets.read(ROOT, "absent", "s3:GetBucketTagging"),
        buckets.set(ROOT, "absent", "s3:PutBucketTagging", policy=None),
        buckets.set_versioning(ROOT, "absent", Versioning.ENABLED),
    ):
        with pytest.raises(NoSuchBucket):
            await attempt
    assert await buckets.cors("absent") is None


async def test_buckets_are_listed_by_name_for_their_owner(store: ObjectStore) -> None:
    for name in ("b-2", "a-1", "b-1", "b-10", "c-1"):
        await store.bucket(name)
    await store.buckets.create(OTHER_ACCOUNT_USER, "b-0")

    async def names(prefix: str = "", after: str = "", limit: int = 10) -> tuple[list[str], bool]:
        page = await store.buckets.list(ROOT, prefix=prefix, after=after, limit=limit)
        return [bucket.name for bucket in page.buckets], page.truncated

    assert await names() == (["a-1", "b-1", "b-10", "b-2", "c-1"], False)
    assert await names(limit=2) == (["a-1", "b-1"], True)
    assert await names(after="b-1", limit=3) == (["b-10", "b-2", "c-1"], False)
    assert await names(prefix="b-") == (["b-1", "b-10", "b-2"], False)
    assert await names(prefix="b-", limit=2) == (["b-1", "b-10"], True)
    assert await names(prefix="b-", after="b-10") == (["b-2"], False)
    assert await names(prefix="z") == ([], False)


async def test_bucket_with_objects_versions_or_markers_cannot_be_deleted(store: ObjectStore) -> None:
    await store.bucket("bucket", Versioning.ENABLED)
    version = (await store.put("bucket", "k")).version
    with pytest.raises(BucketNotEmpty):
        await store.buckets.delete(ROOT, "bucket")
    marker = (await store.delete("bucket", "k")).marker
    with pytest.raises(BucketNotEmpty):
        await store.buckets.delete(ROOT, "bucket")
    await store.delete("bucket", "k", version)
    with pytest.raises(BucketNotEmpty):
        await store.buckets.delete(ROOT, "bucket")
    await store.delete("bucket", "k", marker)
    await store.buckets.delete(ROOT, "bucket")
    with pytest.raises(NoSuchBucket):
        await store.buckets.head(ROOT, "bucket")
    assert (await store.events())[-1].event.kind == "BucketRemoved"
    await check_tables(store)


async def test_recreated_bucket_has_no_old_settings(store: ObjectStore) -> None:
    await store.buckets.create(ROOT, "bucket", object_lock=True)
    first = await store.buckets.head(ROOT, "bucket")
    await store.buckets.delete(ROOT, "bucket")
    second = await store.bucket("bucket")
    assert second.id != first.id
    assert (second.versioning, second.settings.object_lock) == (Versioning.UNVERSIONED, None)


async def test_concurrent_put_and_bucket_delete_leave_no_orphaned_object(store: ObjectStore) -> None:
    await store.bucket("bucket")
    outcomes = await asyncio.gather(
        store.put("bucket", "k", b"x" * 100), store.buckets.delete(ROOT, "bucket"), return_exceptions=True
    )
    failures = [outcome for outcome in outcomes if isinstance(outcome, BaseException)]
    assert len(failures) == 1
    assert isinstance(failures[0], NoSuchBucket | BucketNotEmpty)
    await check_tables(store)


FULL = BucketSettings(
    policy=b"{}",
    lifecycle=LifecycleConfiguration((LifecycleRule("r", True, LifecycleFilter("p/"), Expiration(days=1)),)),
    cors=CorsConfiguration((CorsRule(origins=("*",), methods=("GET",)),)),
    tags=TagSet((Tag("a", "1"),)),
    encryption=BucketEncryption(),
    object_lock=ObjectLockConfiguration(DefaultRetention(RetentionMode.COMPLIANCE, years=1)),
    public_access_block=PublicAccessBlock(),
    ownership=ObjectOwnership.BUCKET_OWNER_ENFORCED,
    tables=True,
    event_mask=1,
)


def test_all_settings_survive_encoding() -> None:
    assert all(getattr(FULL, field.name) != field.default for field in msgspec.structs.fields(FULL))
    assert decode_settings(encode_settings(FULL)) == FULL


async def test_changing_one_setting_keeps_the_others(store: ObjectStore) -> None:
    made = await store.bucket("bucket", Versioning.ENABLED)
    await store.buckets.set(ROOT, "bucket", "s3:PutBucketTagging", tags=FULL.tags)
    await store.buckets.set(ROOT, "bucket", "s3:PutBucketCORS", cors=FULL.cors)
    await store.buckets.set_versioning(ROOT, "bucket", Versioning.SUSPENDED)
    found = await store.buckets.head(ROOT, "bucket")
    assert (found.settings, found.versioning) == (
        msgspec.structs.replace(made.settings, tags=FULL.tags, cors=FULL.cors),
        Versioning.SUSPENDED,
    )
    assert await store.buckets.cors("bucket") == FULL.cors
    await store.buckets.set(ROOT, "bucket", "s3:PutBucketCORS", cors=None)
    assert await store.buckets.cors("bucket") is None


async def test_change_that_raises_changes_nothing(light_store: ObjectStore) -> None:
    await light_store.bucket("bucket")
    before = len(await light_store.events())

    def refuse(bucket: Bucket) -> BucketSettings:
        raise InvalidBucketState(f"not now. bucket={bucket.name}")

    with pytest.raises(InvalidBucketState):
        await light_store.buckets.change(ROOT, "bucket", "s3:PutBucketTagging", refuse)
    assert len(await light_store.events()) == before


async def test_concurrent_changes_of_settings_are_all_kept(store: ObjectStore) -> None:
    made = await store.bucket("bucket")
    await asyncio.gather(
        store.buckets.set(ROOT, "bucket", "s3:PutBucketTagging", tags=FULL.tags),
        store.buckets.set(ROOT, "bucket", "s3:PutBucketCORS", cors=FULL.cors),
        store.buckets.set(ROOT, "bucket", "s3:PutEncryptionConfiguration", encryption=FULL.encryption),
    )
    found = await store.buckets.head(ROOT, "bucket")
    assert found.settings == msgspec.structs.replace(
        made.settings, tags=FULL.tags, cors=FULL.cors, encryption=FULL.encryption
    )


async def test_caller_without_permission_is_denied(light_store: ObjectStore) -> None:
    await light_store.bucket("bucket")
    unprivileged = user("unprivileged")
    buckets = light_store.buckets
    for attempt in (
        buckets.create(unprivileged, "second"),
        buckets.head(unprivileged, "bucket"),
        buckets.list(unprivileged, prefix="", after="", limit=1),
        buckets.delete(unprivileged, "bucket"),
        buckets.read(unprivileged, "bucket", "s3:GetBucketTagging"),
        buckets.set(unprivileged, "bucket", "s3:PutBucketTagging", tags=FULL.tags),
        buckets.set_versioning(unprivileged, "bucket", Versioning.ENABLED),
    ):
        with pytest.raises(AccessDenied):
            await attempt


async def test_user_of_another_account_requires_a_bucket_policy(light_store: ObjectStore) -> None:
    await light_store.bucket("bucket")
    with pytest.raises(AccessDenied):
        await light_store.buckets.head(OTHER_ACCOUNT_USER, "bucket")
    grant = statement(
        action="s3:ListBucket",
        resource="arn:aws:s3:::bucket",
        principal={"AWS": f"arn:aws:iam::{OTHER}:user/eve"},
    )
    await light_store.buckets.set(ROOT, "bucket", "s3:PutBucketPolicy", policy=policy(grant))
    assert (await light_store.buckets.head(OTHER_ACCOUNT_USER, "bucket")).name == "bucket"


async def test_bucket_policy_can_deny_its_owner_all_but_policy_changes(light_store: ObjectStore) -> None:
    await light_store.bucket("bucket")
    denial = statement("Deny", action="s3:*", resource=["arn:aws:s3:::bucket", "arn:aws:s3:::bucket/*"], principal="*")
    await light_store.buckets.set(ROOT, "bucket", "s3:PutBucketPolicy", policy=policy(denial))
    with pytest.raises(AccessDenied):
        await light_store.buckets.head(ROOT, "bucket")
    with pytest.raises(AccessDenied):
        await light_store.put("bucket", "k")
    await light_store.buckets.set(ROOT, "bucket", "s3:DeleteBucketPolicy", policy=None)
    await light_store.put("bucket", "k")
