from __future__ import annotations

import pytest

from lakebed.core.errors import (
    AccessDenied,
    InvalidInput,
    IsDeleteMarker,
    LakebedError,
    NoSuchConfiguration,
    NoSuchKey,
    NoSuchVersion,
)
from lakebed.objects.config.object_lock import Retention, RetentionMode
from lakebed.objects.config.tagging import NO_TAGS, Tag, TagSet
from lakebed.objects.config.versioning import Versioning
from lakebed.objects.model import ObjectAttributes
from tests.governance.documents import policy, statement

from .consistency import check_tables
from .stores import DAY_MS, ROOT, ObjectStore, user

TAGS = TagSet((Tag("team", "a"), Tag("cost", "1")))
BYPASSING = ROOT._replace(bypass_governance=True)
GOVERNANCE, COMPLIANCE = RetentionMode.GOVERNANCE, RetentionMode.COMPLIANCE


async def test_tags_are_set_read_and_removed(store: ObjectStore) -> None:
    await store.bucket("bucket")
    before = (await store.put("bucket", "k", b"abc", attributes=ObjectAttributes(metadata={"a": "1"}))).object
    store.clock.advance(5)
    for tags, event in ((TAGS, "ObjectTagging:Put"), (NO_TAGS, "ObjectTagging:Delete")):
        _, changed = await store.tags_and_locks.set_tags(ROOT, "bucket", "k", None, tags)
        assert changed.attributes.tags == tags
        _, found = await store.tags_and_locks.tags(ROOT, "bucket", "k", None)
        assert found.attributes.tags == tags
        assert (await store.events())[-1].event.kind == event
    # Nothing else changes, not even the modification time.
    assert found == before
    await check_tables(store)


async def test_tags_belong_to_a_version(store: ObjectStore) -> None:
    await store.bucket("bucket", Versioning.ENABLED)
    old, new = [(await store.put("bucket", "k", body)).version for body in (b"1", b"2")]
    await store.tags_and_locks.set_tags(ROOT, "bucket", "k", old, TAGS)
    assert (await store.tags_and_locks.tags(ROOT, "bucket", "k", old))[1].attributes.tags == TAGS
    assert (await store.tags_and_locks.tags(ROOT, "bucket", "k", None))[1].attributes.tags == NO_TAGS
    await store.tags_and_locks.set_tags(ROOT, "bucket", "k", new, TAGS)
    assert (await store.tags_and_locks.tags(ROOT, "bucket", "k", None))[1].attributes.tags == TAGS
    # The restored version has kept its own tags.
    await store.tags_and_locks.set_tags(ROOT, "bucket", "k", new, NO_TAGS)
    await store.delete("bucket", "k", new)
    assert (await store.tags_and_locks.tags(ROOT, "bucket", "k", None))[1].attributes.tags == TAGS


async def test_tags_of_absent_version_raise(store: ObjectStore) -> None:
    await store.bucket("bucket", Versioning.ENABLED)
    marker = (await store.delete("bucket", "hidden")).marker
    cases: list[tuple[str, str | None, type[LakebedError]]] = [
        ("absent", None, NoSuchKey),
        ("hidden", None, NoSuchKey),
        ("hidden", marker, IsDeleteMarker),
        ("hidden", "0" * 28, NoSuchVersion),
    ]
    for key, version, failure in cases:
        with pytest.raises(failure):
            await store.tags_and_locks.set_tags(ROOT, "bucket", key, version, TAGS)
        with pytest.raises(failure):
            await store.tags_and_locks.tags(ROOT, "bucket", key, version)


@pytest.mark.parametrize(
    ("action", "by_version", "tags"),
    [
        ("s3:PutObjectTagging", False, TAGS),
        ("s3:DeleteObjectTagging", False, NO_TAGS),
        ("s3:PutObjectVersionTagging", True, TAGS),
        ("s3:DeleteObjectVersionTagging", True, NO_TAGS),
    ],
)
async def test_each_tag_operation_requires_its_own_permission(
    light_store: ObjectStore, action: str, by_version: bool, tags: TagSet
) -> None:
    await light_store.bucket("bucket", Versioning.ENABLED)
    version = (await light_store.put("bucket", "k")).version if by_version else None
    await light_store.put("bucket", "k")
    others = {
        "s3:PutObjectTagging",
        "s3:DeleteObjectTagging",
        "s3:PutObjectVersionTagging",
        "s3:DeleteObjectVersionTagging",
    } - {action}
    bob = user("bob", policy(statement(action=sorted(others))))
    with pytest.raises(AccessDenied):
        await light_store.tags_and_locks.set_tags(bob, "bucket", "k", version, tags)
    bob = user("bob", policy(statement(action=action)))
    await light_store.tags_and_locks.set_tags(bob, "bucket", "k", version, tags)


@pytest.mark.parametrize(
    ("before", "after", "bypass", "allowed"),
    [
        (None, (GOVERNANCE, 1), False, True),
        ((GOVERNANCE, 1), (GOVERNANCE, 2), False, True),
        ((GOVERNANCE, 2), (GOVERNANCE, 1), False, False),
        ((GOVERNANCE, 2), (GOVERNANCE, 1), True, True),
        ((GOVERNANCE, 2), None, False, False),
        ((GOVERNANCE, 2), None, True, True),
        ((GOVERNANCE, 1), (COMPLIANCE, 2), True, True),
        ((COMPLIANCE, 1), (COMPLIANCE, 2), False, True),
        ((COMPLIANCE, 2), (COMPLIANCE, 1), True, False),
        ((COMPLIANCE, 2), None, True, False),
        ((COMPLIANCE, 2), (GOVERNANCE, 3), True, False),
    ],
)
async def test_retention_can_only_be_extended_without_bypass(
    light_store: ObjectStore,
    before: tuple[RetentionMode, int] | None,
    after: tuple[RetentionMode, int] | None,
    bypass: bool,
    allowed: bool,
) -> None:
    await light_store.buckets.create(ROOT, "bucket", object_lock=True)
    await light_store.put("bucket", "k")
    now_ms = light_store.clock.now_ms()
    first, second = (
        None if kept is None else Retention(kept[0], now_ms + kept[1] * DAY_MS) for kept in (before, after)
    )
    tags_and_locks = light_store.tags_and_locks
    if first is not None:
        await tags_and_locks.set_retention(ROOT, "bucket", "k", None, first)
    changing = tags_and_locks.set_retention(BYPASSING if bypass else ROOT, "bucket", "k", None, second)
    if not allowed:
        with pytest.raises(AccessDenied):
            await changing
        assert await tags_and_locks.retention(ROOT, "bucket", "k", None) == first
        return
    await changing
    if second is None:
        with pytest.raises(NoSuchConfiguration):
            await tags_and_locks.retention(ROOT, "bucket", "k", None)
    else:
        assert await tags_and_locks.retention(ROOT, "bucket", "k", None) == second


async def test_retention_can_be_set_on_a_noncurrent_version(store: ObjectStore) -> None:
    await store.buckets.create(ROOT, "bucket", object_lock=True)
    old, _ = [(await store.put("bucket", "k")).version for _ in range(2)]
    retention = Retention(COMPLIANCE, store.clock.now_ms() + DAY_MS)
    await store.tags_and_locks.set_retention(ROOT, "bucket", "k", old, retention)
    assert await store.tags_and_locks.retention(ROOT, "bucket", "k", old) == retention
    with pytest.raises(NoSuchConfiguration):
        await store.tags_and_locks.retention(ROOT, "bucket", "k", None)
    with pytest.raises(AccessDenied):
        await store.delete("bucket", "k", old)


async def test_bypass_of_retention_requires_its_own_permission(light_store: ObjectStore) -> None:
    await light_store.buckets.create(ROOT, "bucket", object_lock=True)
    await light_store.put("bucket", "k")
    await light_store.tags_and_locks.set_retention(
        ROOT, "bucket", "k", None, Retention(GOVERNANCE, light_store.clock.now_ms() + DAY_MS)
    )
    bob = user("bob", policy(statement(action="s3:PutObjectRetention")))._replace(bypass_governance=True)
    with pytest.raises(AccessDenied):
        await light_store.tags_and_locks.set_retention(bob, "bucket", "k", None, None)
    both = policy(statement(action=["s3:PutObjectRetention", "s3:BypassGovernanceRetention"]))
    bob = user("bob", both)._replace(bypass_governance=True)
    await light_store.tags_and_locks.set_retention(bob, "bucket", "k", None, None)


async def test_legal_hold_is_set_and_cleared(store: ObjectStore) -> None:
    await store.buckets.create(ROOT, "bucket", object_lock=True)
    version = (await store.put("bucket", "k")).version
    with pytest.raises(NoSuchConfiguration):
        await store.tags_and_locks.legal_hold(ROOT, "bucket", "k", None)
    await store.tags_and_locks.set_legal_hold(ROOT, "bucket", "k", None, True)
    assert await store.tags_and_locks.legal_hold(ROOT, "bucket", "k", version)
    with pytest.raises(AccessDenied):
        await store.delete("bucket", "k", version)
    await store.tags_and_locks.set_legal_hold(ROOT, "bucket", "k", None, False)
    assert not await store.tags_and_locks.legal_hold(ROOT, "bucket", "k", version)
    await store.delete("bucket", "k", version)


async def test_bucket_without_object_lock_has_neither_retention_nor_hold(light_store: ObjectStore) -> None:
    await light_store.bucket("bucket")
    await light_store.put("bucket", "k")
    tags_and_locks = light_store.tags_and_locks
    retention = Retention(GOVERNANCE, light_store.clock.now_ms() + DAY_MS)
    for trying in (
        tags_and_locks.retention(ROOT, "bucket", "k", None),
        tags_and_locks.set_retention(ROOT, "bucket", "k", None, retention),
        tags_and_locks.legal_hold(ROOT, "bucket", "k", None),
        tags_and_locks.set_legal_hold(ROOT, "bucket", "k", None, True),
    ):
        with pytest.raises(InvalidInput):
            await trying
