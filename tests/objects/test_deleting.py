from __future__ import annotations

import pytest

from lakebed.core.errors import AccessDenied, InvalidName, NoSuchBucket, NoSuchKey, PreconditionFailed
from lakebed.objects import deleting
from lakebed.objects.conditions import WriteConditions
from lakebed.objects.config.object_lock import Retention, RetentionMode
from lakebed.objects.config.versioning import Versioning
from lakebed.objects.deleting import DeletedObject, ObjectIdentifier
from lakebed.objects.model import ObjectAttributes
from tests.governance.documents import policy, statement

from .consistency import check_tables
from .model import md5
from .stores import DAY_MS, ROOT, ObjectStore, user

BIG = b"0123456789" * 10
BYPASSING = ROOT._replace(bypass_governance=True)


async def test_delete_in_unversioned_bucket_is_permanent(store: ObjectStore) -> None:
    await store.bucket("bucket")
    await store.put("bucket", "k", BIG)
    assert await store.delete("bucket", "k") == DeletedObject("k")
    with pytest.raises(NoSuchKey):
        await store.get("bucket", "k")
    assert await store.garbage_collector.sweep() == 1
    assert await store.stored_blobs() == set()
    await check_tables(store)


@pytest.mark.parametrize("versioning", list(Versioning))
async def test_deleting_absent_object_succeeds(store: ObjectStore, versioning: Versioning) -> None:
    await store.bucket("bucket", versioning)
    deleted = await store.delete("bucket", "k")
    assert deleted.made_marker is (versioning is not Versioning.UNVERSIONED)
    assert await store.delete("bucket", "k", "0" * 28) == DeletedObject("k", "0" * 28)
    await check_tables(store)


async def test_deleting_the_delete_marker_restores_the_object(store: ObjectStore) -> None:
    await store.bucket("bucket", Versioning.ENABLED)
    version = (await store.put("bucket", "k", BIG)).version
    markers = [(await store.delete("bucket", "k")).marker for _ in range(2)]
    assert len({*markers, version}) == 3
    for marker in reversed(markers):
        with pytest.raises(NoSuchKey):
            await store.get("bucket", "k")
        assert await store.delete("bucket", "k", marker) == DeletedObject("k", marker, marker=marker)
        await check_tables(store)
    assert await store.get("bucket", "k") == BIG
    assert (await store.reader.head(ROOT, "bucket", "k")).object.version == version


async def test_deleting_the_current_version_makes_the_previous_one_current(store: ObjectStore) -> None:
    await store.bucket("bucket", Versioning.ENABLED)
    versions = [(await store.put("bucket", "k", body)).version for body in (b"1", BIG, b"3")]
    await store.delete("bucket", "k", versions[2])
    assert await store.get("bucket", "k") == BIG
    await store.delete("bucket", "k", versions[0])
    assert await store.get("bucket", "k") == BIG
    await check_tables(store)
    await store.delete("bucket", "k", versions[1])
    with pytest.raises(NoSuchKey):
        await store.get("bucket", "k")
    assert await store.garbage_collector.sweep() == 1
    await check_tables(store)


async def test_deleting_a_version_newer_than_a_marker_leaves_the_key_deleted(store: ObjectStore) -> None:
    await store.bucket("bucket", Versioning.ENABLED)
    await store.put("bucket", "k", b"1")
    marker = (await store.delete("bucket", "k")).marker
    newest = (await store.put("bucket", "k", b"2")).version
    await store.delete("bucket", "k", newest)
    with pytest.raises(NoSuchKey) as hidden:
        await store.get("bucket", "k")
    assert hidden.value.delete_marker == marker
    await check_tables(store)


async def test_suspended_bucket_has_one_null_version(store: ObjectStore) -> None:
    await store.bucket("bucket")
    await store.put("bucket", "k", BIG)
    await store.buckets.set_versioning(ROOT, "bucket", Versioning.ENABLED)
    kept = (await store.put("bucket", "k", b"kept")).version
    await store.buckets.set_versioning(ROOT, "bucket", Versioning.SUSPENDED)
    await store.put("bucket", "k", b"null again")
    assert await store.get("bucket", "k", "null") == b"null again"
    assert await store.garbage_collector.sweep() == 1
    deleted = await store.delete("bucket", "k")
    assert deleted.marker == "null"
    with pytest.raises(NoSuchKey):
        await store.get("bucket", "k")
    assert await store.get("bucket", "k", kept) == b"kept"
    await store.delete("bucket", "k", "null")
    assert await store.get("bucket", "k") == b"kept"
    await check_tables(store)


@pytest.mark.parametrize(
    ("conditions", "failure"),
    [
        (WriteConditions(if_match=md5(BIG)), None),
        (WriteConditions(if_match="*"), None),
        (WriteConditions(if_match=md5(b"other")), PreconditionFailed),
        (WriteConditions(if_match_size=100), None),
        (WriteConditions(if_match_size=99), PreconditionFailed),
        (WriteConditions(if_match_modified_ms=1_700_000_000_000), None),
        (WriteConditions(if_match_modified_ms=1_700_000_001_000), PreconditionFailed),
    ],
)
@pytest.mark.parametrize("by_version", [False, True], ids=["key", "version"])
async def test_delete_with_a_condition(
    light_store: ObjectStore, conditions: WriteConditions, failure: type[Exception] | None, by_version: bool
) -> None:
    await light_store.bucket("bucket", Versioning.ENABLED)
    version = (await light_store.put("bucket", "k", BIG)).version
    doomed = ObjectIdentifier("k", version if by_version else None, conditions)
    if failure is None:
        await light_store.deleter.delete(ROOT, "bucket", doomed)
        with pytest.raises(NoSuchKey):
            await light_store.get("bucket", "k")
        return
    before = len(await light_store.events())
    with pytest.raises(failure):
        await light_store.deleter.delete(ROOT, "bucket", doomed)
    assert await light_store.get("bucket", "k") == BIG
    assert len(await light_store.events()) == before


async def test_delete_with_if_match_on_absent_object_raises_no_such_key(light_store: ObjectStore) -> None:
    await light_store.bucket("bucket")
    with pytest.raises(NoSuchKey):
        await light_store.deleter.delete(ROOT, "bucket", ObjectIdentifier("k", None, WriteConditions(if_match="*")))


async def test_each_key_of_a_batch_succeeds_or_fails_independently(store: ObjectStore) -> None:
    await store.bucket("bucket")
    await store.put("bucket", "a", BIG)
    await store.put("bucket", "b", b"stays")
    outcomes = await store.deleter.delete_many(
        ROOT,
        "bucket",
        [
            ObjectIdentifier("a"),
            ObjectIdentifier("b", None, WriteConditions(if_match=md5(b"other"))),
            ObjectIdentifier("absent"),
            ObjectIdentifier("absent", None, WriteConditions(if_match="*")),
            ObjectIdentifier("bad\0key"),
        ],
    )
    assert [type(outcome) for outcome in outcomes] == [
        DeletedObject,
        PreconditionFailed,
        DeletedObject,
        NoSuchKey,
        InvalidName,
    ]
    assert await store.get("bucket", "b") == b"stays"
    with pytest.raises(NoSuchKey):
        await store.get("bucket", "a")
    await check_tables(store)


async def test_batch_larger_than_a_transaction_deletes_all_keys(
    store: ObjectStore, monkeypatch: pytest.MonkeyPatch
) -> None:
    monkeypatch.setattr(deleting, "_KEYS_A_COMMIT", 3)
    await store.bucket("bucket")
    keys = [f"k{number}" for number in range(8)]
    for key in keys:
        await store.put("bucket", key, BIG)
    outcomes = await store.deleter.delete_many(ROOT, "bucket", [ObjectIdentifier(key) for key in keys])
    assert outcomes == [DeletedObject(key) for key in keys]
    assert await store.garbage_collector.sweep() == 8
    await check_tables(store)


async def test_same_key_twice_in_a_batch(store: ObjectStore) -> None:
    await store.bucket("bucket", Versioning.ENABLED)
    await store.put("bucket", "k", BIG)
    first, second = await store.deleter.delete_many(ROOT, "bucket", [ObjectIdentifier("k"), ObjectIdentifier("k")])
    assert isinstance(first, DeletedObject)
    assert isinstance(second, DeletedObject)
    assert first.marker != second.marker
    await check_tables(store)


async def test_empty_batch_returns_nothing(light_store: ObjectStore) -> None:
    await light_store.bucket("bucket")
    assert await light_store.deleter.delete_many(ROOT, "bucket", []) == []


async def test_batch_in_absent_bucket_fails(light_store: ObjectStore) -> None:
    with pytest.raises(NoSuchBucket):
        await light_store.deleter.delete_many(ROOT, "absent", [ObjectIdentifier("k")])


async def test_each_key_of_a_batch_is_authorized(light_store: ObjectStore) -> None:
    await light_store.bucket("bucket")
    for key in ("mine/k", "other/k"):
        await light_store.put("bucket", key)
    bob = user("bob", policy(statement(action="s3:DeleteObject", resource="arn:aws:s3:::bucket/mine/*")))
    outcomes = await light_store.deleter.delete_many(
        bob, "bucket", [ObjectIdentifier("other/k"), ObjectIdentifier("mine/k")]
    )
    assert [type(outcome) for outcome in outcomes] == [AccessDenied, DeletedObject]
    assert await light_store.get("bucket", "other/k") == b""


async def test_deleting_a_version_requires_its_own_permission(light_store: ObjectStore) -> None:
    await light_store.bucket("bucket", Versioning.ENABLED)
    version = (await light_store.put("bucket", "k")).version
    bob = user("bob", policy(statement(action="s3:DeleteObject")))
    with pytest.raises(AccessDenied):
        await light_store.deleter.delete(bob, "bucket", ObjectIdentifier("k", version))
    bob = user("bob", policy(statement(action="s3:DeleteObjectVersion")))
    await light_store.deleter.delete(bob, "bucket", ObjectIdentifier("k", version))


async def _locked(store: ObjectStore, mode: RetentionMode | None, *, hold: bool = False) -> str:
    """Put a version that is retained for a day, or on legal hold."""
    await store.buckets.create(ROOT, "bucket", object_lock=True)
    retention = None if mode is None else Retention(mode, store.clock.now_ms() + DAY_MS)
    attributes = ObjectAttributes(retention=retention, legal_hold=hold or None)
    return str((await store.put("bucket", "k", BIG, attributes=attributes)).version)


@pytest.mark.parametrize(
    ("mode", "hold", "bypass", "deletable"),
    [
        (RetentionMode.GOVERNANCE, False, False, False),
        (RetentionMode.GOVERNANCE, False, True, True),
        (RetentionMode.COMPLIANCE, False, False, False),
        (RetentionMode.COMPLIANCE, False, True, False),
        (None, True, False, False),
        (None, True, True, False),
        (RetentionMode.GOVERNANCE, True, True, False),
        (None, False, False, True),
    ],
)
@pytest.mark.parametrize("is_current", [True, False], ids=["current", "behind"])
async def test_protected_version_cannot_be_deleted(
    store: ObjectStore, mode: RetentionMode | None, hold: bool, bypass: bool, deletable: bool, is_current: bool
) -> None:
    version = await _locked(store, mode, hold=hold)
    if not is_current:
        await store.put("bucket", "k", b"newer")
    caller = BYPASSING if bypass else ROOT
    if deletable:
        await store.deleter.delete(caller, "bucket", ObjectIdentifier("k", version))
        return
    with pytest.raises(AccessDenied):
        await store.deleter.delete(caller, "bucket", ObjectIdentifier("k", version))
    assert await store.get("bucket", "k", version) == BIG
    await check_tables(store)


async def test_delete_of_a_protected_object_adds_a_delete_marker(store: ObjectStore) -> None:
    version = await _locked(store, RetentionMode.COMPLIANCE)
    deleted = await store.delete("bucket", "k")
    assert deleted.made_marker
    assert await store.get("bucket", "k", version) == BIG
    await store.delete("bucket", "k", deleted.marker)
    assert await store.get("bucket", "k") == BIG


async def test_protection_ends_with_its_date(store: ObjectStore) -> None:
    version = await _locked(store, RetentionMode.COMPLIANCE)
    store.clock.advance(DAY_MS / 1000 - 0.001)
    with pytest.raises(AccessDenied):
        await store.delete("bucket", "k", version)
    store.clock.advance(0.001)
    await store.delete("bucket", "k", version)


async def test_bypass_requires_its_own_permission(light_store: ObjectStore) -> None:
    version = await _locked(light_store, RetentionMode.GOVERNANCE)
    for actions, allowed in (
        (["s3:DeleteObjectVersion"], False),
        (["s3:DeleteObjectVersion", "s3:BypassGovernanceRetention"], True),
    ):
        bob = user("bob", policy(statement(action=actions)))._replace(bypass_governance=True)
        if allowed:
            await light_store.deleter.delete(bob, "bucket", ObjectIdentifier("k", version))
        else:
            with pytest.raises(AccessDenied):
                await light_store.deleter.delete(bob, "bucket", ObjectIdentifier("k", version))
