from __future__ import annotations

import asyncio

import pytest

from lakebed.core.errors import (
    AccessDenied,
    Incomplete,
    InvalidInput,
    InvalidName,
    NoSuchBucket,
    NoSuchKey,
    PreconditionFailed,
    TooLarge,
    Unavailable,
)
from lakebed.core.ids import BlobId
from lakebed.meta.seam import Transaction
from lakebed.objects.blobs.digests import ExpectedDigests
from lakebed.objects.conditions import WriteConditions
from lakebed.objects.config.encryption import BucketEncryption
from lakebed.objects.config.object_lock import DefaultRetention, ObjectLockConfiguration, Retention, RetentionMode
from lakebed.objects.config.tagging import Tag, TagSet
from lakebed.objects.config.versioning import Versioning
from lakebed.objects.model import DEFAULT_ATTRIBUTES, MAX_PUT_BYTES, ObjectAttributes
from lakebed.objects.writing import NewObject
from tests.governance.documents import policy, statement

from .consistency import check_tables
from .model import md5
from .stores import DAY_MS, ROOT, Body, ObjectStore, user

ABSENT = WriteConditions(if_none_match="*")
BIG = b"0123456789" * 10


async def test_object_is_readable_after_put(store: ObjectStore) -> None:
    await store.bucket("bucket")
    for key, body in (("empty", b""), ("small", b"abc"), ("big", BIG)):
        written = await store.put("bucket", key, body)
        assert (written.object.etag, written.object.size) == (md5(body), len(body))
        assert written.version is None
        assert await store.get("bucket", key) == body
    await check_tables(store)


async def test_replaced_object_becomes_garbage_that_is_deleted(store: ObjectStore) -> None:
    await store.bucket("bucket")
    await store.put("bucket", "k", BIG)
    old = await store.stored_blobs()
    await store.put("bucket", "k", BIG[::-1])
    assert len(await store.stored_blobs()) == 2
    assert await store.garbage_collector.sweep() == 1
    assert not await store.stored_blobs() & old
    assert await store.get("bucket", "k") == BIG[::-1]
    await check_tables(store)


async def test_every_put_of_a_versioned_key_is_kept(store: ObjectStore) -> None:
    await store.bucket("bucket", Versioning.ENABLED)
    versions = [(await store.put("bucket", "k", body)).version for body in (b"1", BIG, b"3")]
    assert [await store.get("bucket", "k", version) for version in versions] == [b"1", BIG, b"3"]
    assert await store.get("bucket", "k") == b"3"


async def test_exactly_one_concurrent_create_succeeds(store: ObjectStore) -> None:
    await store.bucket("bucket")
    bodies = [f"writer {number} with a body for the object store".encode() for number in range(8)]
    outcomes = await asyncio.gather(
        *(store.put("bucket", "k", body, conditions=ABSENT) for body in bodies), return_exceptions=True
    )
    winners = [body for body, outcome in zip(bodies, outcomes, strict=True) if not isinstance(outcome, BaseException)]
    assert len(winners) == 1
    assert all(isinstance(outcome, PreconditionFailed) for outcome in outcomes if isinstance(outcome, BaseException))
    assert await store.get("bucket", "k") == winners[0]
    await check_tables(store)


async def test_concurrent_compare_and_swap_loses_no_update(store: ObjectStore) -> None:
    await store.bucket("bucket")
    await store.put("bucket", "counter", b"0")

    async def increment() -> None:
        while True:
            value = await store.get("bucket", "counter")
            try:
                await store.put(
                    "bucket",
                    "counter",
                    str(int(value) + 1).encode(),
                    conditions=WriteConditions(if_match=md5(value)),
                )
            except PreconditionFailed:
                continue
            return

    await asyncio.gather(*(increment() for _ in range(5)))
    assert await store.get("bucket", "counter") == b"5"


async def test_losing_create_leaves_first_body_visible(store: ObjectStore) -> None:
    await store.bucket("bucket")
    await store.put("bucket", "k", b"first", conditions=ABSENT)
    with pytest.raises(PreconditionFailed):
        await store.put("bucket", "k", BIG, conditions=ABSENT)
    assert await store.get("bucket", "k") == b"first"
    assert await store.stored_blobs() == set()
    await check_tables(store)


async def test_create_succeeds_if_the_current_version_is_a_delete_marker(store: ObjectStore) -> None:
    await store.bucket("bucket", Versioning.ENABLED)
    await store.put("bucket", "k", b"1")
    await store.delete("bucket", "k")
    with pytest.raises(NoSuchKey):
        await store.put("bucket", "k", b"2", conditions=WriteConditions(if_match=md5(b"1")))
    await store.put("bucket", "k", b"2", conditions=ABSENT)
    assert await store.get("bucket", "k") == b"2"


async def test_condition_is_evaluated_against_the_current_version(light_store: ObjectStore) -> None:
    await light_store.bucket("bucket", Versioning.ENABLED)
    await light_store.put("bucket", "k", b"1")
    await light_store.put("bucket", "k", b"2")
    with pytest.raises(PreconditionFailed):
        await light_store.put("bucket", "k", b"3", conditions=WriteConditions(if_match=md5(b"1")))


async def test_put_to_absent_bucket_does_not_read_the_body(light_store: ObjectStore) -> None:
    body = Body(BIG)
    with pytest.raises(NoSuchBucket):
        await light_store.writer.put(ROOT, "absent", NewObject("k", DEFAULT_ATTRIBUTES), body, ExpectedDigests())
    assert await body.next_chunk() == BIG


async def test_bucket_deleted_during_an_upload_leaves_no_blob(store: ObjectStore) -> None:
    await store.bucket("bucket")

    class Meanwhile(Body):
        async def next_chunk(self) -> bytes | memoryview | None:
            chunk = await super().next_chunk()
            if chunk is None:
                await store.buckets.delete(ROOT, "bucket")
            return chunk

    with pytest.raises(NoSuchBucket):
        await store.writer.put(ROOT, "bucket", NewObject("k", DEFAULT_ATTRIBUTES), Meanwhile(BIG), ExpectedDigests())
    assert await store.stored_blobs() == set()
    await check_tables(store)


@pytest.mark.parametrize("key", ["", "a\0b", "\udcff"])
async def test_invalid_key_is_rejected(light_store: ObjectStore, key: str) -> None:
    await light_store.bucket("bucket")
    with pytest.raises(InvalidName):
        await light_store.put("bucket", key)


async def test_body_over_five_gibibytes_is_rejected(light_store: ObjectStore) -> None:
    await light_store.bucket("bucket")
    with pytest.raises(TooLarge):
        await light_store.writer.put(
            ROOT,
            "bucket",
            NewObject("k", DEFAULT_ATTRIBUTES),
            Body(length=MAX_PUT_BYTES + 1),
            ExpectedDigests(),
        )


@pytest.mark.parametrize(("value", "fits"), [("x" * 2047, True), ("x" * 2048, False), ("é" * 1024, False)])
async def test_user_metadata_is_limited_to_two_kibibytes(light_store: ObjectStore, value: str, fits: bool) -> None:
    await light_store.bucket("bucket")
    attributes = ObjectAttributes(metadata={"a": value})
    if fits:
        await light_store.put("bucket", "k", attributes=attributes)
        return
    with pytest.raises(TooLarge) as refused:
        await light_store.put("bucket", "k", attributes=attributes)
    assert refused.value.argument == "metadata"


async def test_incomplete_body_changes_nothing(store: ObjectStore) -> None:
    await store.bucket("bucket")
    await store.put("bucket", "k", b"before")
    before = len(await store.events())
    with pytest.raises(Incomplete):
        await store.writer.put(
            ROOT, "bucket", NewObject("k", DEFAULT_ATTRIBUTES), Body(BIG, length=101), ExpectedDigests()
        )
    assert await store.get("bucket", "k") == b"before"
    assert len(await store.events()) == before
    await check_tables(store)


async def test_blob_of_an_undecided_commit_is_left_for_the_orphan_sweep(
    light_store: ObjectStore, monkeypatch: pytest.MonkeyPatch
) -> None:
    """The response to the commit was lost: the object may exist, so its bytes must stay."""
    await light_store.bucket("bucket")
    transact = light_store.meta.transact

    async def lost(work: object) -> object:
        await transact(work)  # type: ignore[arg-type]  # passed on as it is
        raise Unavailable("the answer was lost", undecided=True)

    monkeypatch.setattr(light_store.meta, "transact", lost)
    with pytest.raises(Unavailable):
        await light_store.put("bucket", "k", BIG)
    monkeypatch.undo()
    assert await light_store.get("bucket", "k") == BIG
    await check_tables(light_store)


async def test_blob_of_a_failed_commit_is_removed(light_store: ObjectStore, monkeypatch: pytest.MonkeyPatch) -> None:
    await light_store.bucket("bucket")

    async def failed(work: object) -> object:
        raise Unavailable("not reached")

    monkeypatch.setattr(light_store.meta, "transact", failed)
    with pytest.raises(Unavailable):
        await light_store.put("bucket", "k", BIG)
    monkeypatch.undo()
    assert await light_store.stored_blobs() == set()


@pytest.mark.parametrize(
    ("requested", "bucket_encrypts", "encrypted"),
    [(None, False, False), (None, True, True), (True, False, True), (False, True, False)],
)
async def test_encryption_is_as_requested_else_as_the_bucket_default(
    store: ObjectStore, requested: bool | None, bucket_encrypts: bool, encrypted: bool
) -> None:
    await store.bucket("bucket")
    if bucket_encrypts:
        await store.buckets.set(ROOT, "bucket", "s3:PutEncryptionConfiguration", encryption=BucketEncryption())
    for key, body in (("small", b"abc secret"), ("big", BIG + b"secret")):
        written = await store.put("bucket", key, body, encrypt=requested)
        assert written.object.attributes.encrypted is encrypted
        assert await store.get("bucket", key) == body
    stored = [row[0] for row in await store.meta.rows("SELECT body FROM contents WHERE body IS NOT NULL")]
    stored += [await store.storage.get(head.key) async for head in store.storage.list_prefix("blobs/")]
    assert len(stored) == 2
    assert all((b"secret" in text) is not encrypted for text in stored)


async def test_default_retention_counts_from_the_write(light_store: ObjectStore) -> None:
    await light_store.buckets.create(ROOT, "bucket", object_lock=True)
    rule = ObjectLockConfiguration(DefaultRetention(RetentionMode.GOVERNANCE, days=2))
    await light_store.buckets.set(ROOT, "bucket", "s3:PutBucketObjectLockConfiguration", object_lock=rule)
    written = await light_store.put("bucket", "k")
    until_ms = light_store.clock.now_ms() + 2 * DAY_MS
    assert written.object.attributes.retention == Retention(RetentionMode.GOVERNANCE, until_ms)
    explicit = Retention(RetentionMode.COMPLIANCE, until_ms + 1)
    written = await light_store.put("bucket", "k", attributes=ObjectAttributes(retention=explicit))
    assert written.object.attributes.retention == explicit


@pytest.mark.parametrize(
    "attributes",
    [ObjectAttributes(retention=Retention(RetentionMode.GOVERNANCE, 2**40)), ObjectAttributes(legal_hold=True)],
    ids=["retention", "hold"],
)
async def test_lock_is_rejected_in_a_bucket_without_object_lock(
    light_store: ObjectStore, attributes: ObjectAttributes
) -> None:
    await light_store.bucket("bucket")
    with pytest.raises(InvalidInput):
        await light_store.put("bucket", "k", attributes=attributes)


TAGGED = ObjectAttributes(tags=TagSet((Tag("team", "a"),)))


@pytest.mark.parametrize(
    ("actions", "attributes", "conditions", "allowed"),
    [
        (["s3:PutObject"], DEFAULT_ATTRIBUTES, WriteConditions(), True),
        (["s3:GetObject"], DEFAULT_ATTRIBUTES, WriteConditions(), False),
        (["s3:PutObject"], TAGGED, WriteConditions(), False),
        (["s3:PutObject", "s3:PutObjectTagging"], TAGGED, WriteConditions(), True),
        (["s3:PutObject"], DEFAULT_ATTRIBUTES, WriteConditions(if_none_match="x"), True),
        (["s3:PutObject"], DEFAULT_ATTRIBUTES, WriteConditions(if_match="*"), False),
        (["s3:PutObject", "s3:GetObject"], DEFAULT_ATTRIBUTES, WriteConditions(if_match="*"), True),
        (["s3:PutObject"], ObjectAttributes(legal_hold=True), WriteConditions(), False),
        (["s3:PutObject", "s3:PutObjectLegalHold"], ObjectAttributes(legal_hold=True), WriteConditions(), True),
    ],
)
async def test_write_requires_a_permission_for_each_attribute(
    light_store: ObjectStore,
    actions: list[str],
    attributes: ObjectAttributes,
    conditions: WriteConditions,
    allowed: bool,
) -> None:
    await light_store.buckets.create(ROOT, "bucket", object_lock=True)
    await light_store.put("bucket", "k", b"there")
    bob = user("bob", policy(statement(action=actions)))
    if allowed:
        await light_store.put("bucket", "k", b"x", attributes=attributes, conditions=conditions, caller=bob)
    else:
        with pytest.raises(AccessDenied):
            await light_store.put("bucket", "k", b"x", attributes=attributes, conditions=conditions, caller=bob)


async def test_policy_can_require_a_conditional_write(light_store: ObjectStore) -> None:
    await light_store.bucket("bucket")
    demand = statement(action="s3:PutObject", condition={"Null": {"s3:if-none-match": "false"}})
    bob = user("bob", policy(demand))
    with pytest.raises(AccessDenied):
        await light_store.put("bucket", "k", caller=bob)
    await light_store.put("bucket", "k", caller=bob, conditions=ABSENT)


async def test_policy_can_require_a_tag(light_store: ObjectStore) -> None:
    await light_store.bucket("bucket")
    demand = statement(
        action=["s3:PutObject", "s3:PutObjectTagging"], condition={"StringEquals": {"s3:RequestObjectTag/team": "a"}}
    )
    bob = user("bob", policy(demand))
    with pytest.raises(AccessDenied):
        await light_store.put("bucket", "k", caller=bob)
    await light_store.put("bucket", "k", caller=bob, attributes=TAGGED)


async def test_garbage_collector_is_woken_only_after_the_commit(
    light_store: ObjectStore, monkeypatch: pytest.MonkeyPatch
) -> None:
    await light_store.bucket("bucket")
    await light_store.put("bucket", "k", BIG)
    heard: list[tuple[list[BlobId], int]] = []
    committed = 0
    transact = light_store.meta.transact

    async def counted(work: object) -> object:
        nonlocal committed
        result = await transact(work)  # type: ignore[arg-type,var-annotated]  # passed on as it is
        committed += 1
        return result

    monkeypatch.setattr(light_store.meta, "transact", counted)
    monkeypatch.setattr(light_store.garbage_collector, "wake", lambda blobs: heard.append((list(blobs), committed)))
    await light_store.put("bucket", "k", b"small")
    assert [(len(blobs), after) for blobs, after in heard] == [(1, 1)]


async def test_rerun_transaction_counts_its_garbage_once(
    light_store: ObjectStore, monkeypatch: pytest.MonkeyPatch
) -> None:
    """Metadata stores rerun a transaction after a conflict."""
    await light_store.bucket("bucket")
    await light_store.put("bucket", "k", BIG)
    transact = light_store.meta.transact
    heard: list[BlobId] = []

    class Rolled(Exception):
        pass

    async def rerun(work: object) -> object:
        async def failing(tx: Transaction) -> None:
            await work(tx)  # type: ignore[operator]  # passed on as it is
            raise Rolled

        with pytest.raises(Rolled):
            await transact(failing)
        return await transact(work)  # type: ignore[arg-type]  # passed on as it is

    monkeypatch.setattr(light_store.meta, "transact", rerun)
    monkeypatch.setattr(light_store.garbage_collector, "wake", heard.extend)
    await light_store.put("bucket", "k", b"small")
    assert len(heard) == 1
    monkeypatch.undo()
    await check_tables(light_store)
