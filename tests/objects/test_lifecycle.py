"""Execution of lifecycle rules. Tests of `config.expiry` cover their evaluation."""

from __future__ import annotations

import pytest

from lakebed.core.errors import NoSuchKey
from lakebed.objects import lifecycle
from lakebed.objects.config.lifecycle import (
    Expiration,
    LifecycleConfiguration,
    LifecycleFilter,
    LifecycleRule,
    NoncurrentExpiration,
)
from lakebed.objects.config.object_lock import Retention, RetentionMode
from lakebed.objects.config.versioning import Versioning
from lakebed.objects.events import decode_event
from lakebed.objects.lifecycle import LifecycleReport
from lakebed.objects.listing import ListedObject, ListedVersion
from lakebed.objects.model import ObjectAttributes, StoredUpload

from .consistency import check_tables
from .model import md5
from .pages import all_objects, all_uploads, all_versions
from .stores import DAY_MS, ROOT, ObjectStore

BIG = b"0123456789" * 10
DAY_SECONDS = DAY_MS / 1000


async def _set_rules(store: ObjectStore, *rules: LifecycleRule) -> None:
    await store.buckets.set(
        ROOT, "bucket", "s3:PutLifecycleConfiguration", lifecycle=LifecycleConfiguration(tuple(rules))
    )


def _rule(prefix: str = "", **actions: Expiration | NoncurrentExpiration | int) -> LifecycleRule:
    return LifecycleRule("rule", True, LifecycleFilter(prefix), **actions)  # type: ignore[arg-type]  # each has its type


async def test_expired_objects_in_unversioned_bucket_are_deleted(store: ObjectStore) -> None:
    await store.bucket("bucket")
    await _set_rules(store, _rule("old/", expiration=Expiration(days=1)))
    for key in ("old/1", "old/2", "new/1"):
        await store.put("bucket", key, BIG)
    assert await store.lifecycle.run() == LifecycleReport()
    store.clock.advance(2 * DAY_SECONDS)
    await store.put("bucket", "old/3", BIG)
    assert await store.lifecycle.run() == LifecycleReport(expired=2)
    listed = await all_objects(store, "bucket", lambda: 10)
    assert [item.key for item in listed if isinstance(item, ListedObject)] == ["new/1", "old/3"]
    assert await store.garbage_collector.sweep() == 2
    await check_tables(store)


async def test_expired_object_in_versioned_bucket_gets_a_delete_marker(store: ObjectStore) -> None:
    await store.bucket("bucket", Versioning.ENABLED)
    await _set_rules(store, _rule(expiration=Expiration(days=1)))
    version = (await store.put("bucket", "k", BIG)).version
    store.clock.advance(2 * DAY_SECONDS)
    assert await store.lifecycle.run() == LifecycleReport(expired=1)
    with pytest.raises(NoSuchKey):
        await store.get("bucket", "k")
    assert await store.get("bucket", "k", version) == BIG
    events = (await store.events())[-1].event
    assert events.kind == "LifecycleExpiration:DeleteMarkerCreated"
    payload = decode_event(events.payload)
    assert (payload.principal, payload.user_agent) == ("lifecycle:rule", "Internal: [ILM-Expiry]")
    # The delete marker is not expired again.
    store.clock.advance(10 * DAY_SECONDS)
    assert await store.lifecycle.run() == LifecycleReport()
    await check_tables(store)


async def test_noncurrent_versions_expire_before_their_delete_marker(store: ObjectStore) -> None:
    await store.bucket("bucket", Versioning.ENABLED)
    rules = _rule(expiration=Expiration(delete_markers=True), noncurrent=NoncurrentExpiration(days=1))
    await _set_rules(store, rules)
    for body in (BIG, b"2"):
        await store.put("bucket", "deleted", body)
    await store.delete("bucket", "deleted")
    for body in (BIG, b"current"):
        await store.put("bucket", "kept", body)
    store.clock.advance(3 * DAY_SECONDS)
    before = (await store.events())[-1].seq
    assert await store.lifecycle.run() == LifecycleReport(versions_removed=3)
    assert await store.lifecycle.run() == LifecycleReport(markers_removed=1)
    events = [entry.event for entry in await store.events(before)]
    assert [(event.kind, event.subject, decode_event(event.payload).remains) for event in events] == [
        ("LifecycleExpiration:Delete", "bucket/deleted", False),
        ("LifecycleExpiration:Delete", "bucket/deleted", False),
        ("LifecycleExpiration:Delete", "bucket/kept", True),
        ("LifecycleDelMarkerExpiration:Delete", "bucket/deleted", False),
    ]
    versions = await all_versions(store, "bucket", lambda: 10)
    assert [item.key for item in versions if isinstance(item, ListedVersion)] == ["kept"]
    assert await store.get("bucket", "kept") == b"current"
    assert await store.garbage_collector.sweep() == 2
    await check_tables(store)


@pytest.mark.parametrize("versioning", Versioning)
async def test_object_rewritten_since_the_scan_is_not_expired(
    light_store: ObjectStore, monkeypatch: pytest.MonkeyPatch, versioning: Versioning
) -> None:
    await light_store.bucket("bucket", versioning)
    await _set_rules(light_store, _rule(expiration=Expiration(days=1)))
    await light_store.put("bucket", "k", BIG)
    light_store.clock.advance(2 * DAY_SECONDS)
    carry_out = light_store.lifecycle._execute

    async def change_object(*args: object) -> None:
        await light_store.put("bucket", "k", b"rewritten")
        await carry_out(*args)  # type: ignore[arg-type]  # passed on as they are

    monkeypatch.setattr(light_store.lifecycle, "_execute", change_object)
    assert await light_store.lifecycle.run() == LifecycleReport()
    assert await light_store.get("bucket", "k") == b"rewritten"


async def test_object_gets_a_delete_marker_if_versioning_was_enabled_since_the_scan(
    light_store: ObjectStore, monkeypatch: pytest.MonkeyPatch
) -> None:
    await light_store.bucket("bucket")
    await _set_rules(light_store, _rule(expiration=Expiration(days=1)))
    await light_store.put("bucket", "k", BIG)
    light_store.clock.advance(2 * DAY_SECONDS)
    carry_out = light_store.lifecycle._execute

    async def change_object(*args: object) -> None:
        await light_store.buckets.set_versioning(ROOT, "bucket", Versioning.ENABLED)
        await carry_out(*args)  # type: ignore[arg-type]  # passed on as they are

    monkeypatch.setattr(light_store.lifecycle, "_execute", change_object)
    assert await light_store.lifecycle.run() == LifecycleReport(expired=1)
    assert await light_store.get("bucket", "k", "null") == BIG


async def test_locked_version_is_not_expired(light_store: ObjectStore) -> None:
    await light_store.buckets.create(ROOT, "bucket", object_lock=True)
    await _set_rules(light_store, _rule(noncurrent=NoncurrentExpiration(days=1)))
    retention = Retention(RetentionMode.GOVERNANCE, light_store.clock.now_ms() + 10 * DAY_MS)
    locked = (await light_store.put("bucket", "k", BIG, attributes=ObjectAttributes(retention=retention))).version
    await light_store.put("bucket", "k", b"newer")
    light_store.clock.advance(3 * DAY_SECONDS)
    assert await light_store.lifecycle.run() == LifecycleReport()
    assert await light_store.get("bucket", "k", locked) == BIG
    light_store.clock.advance(10 * DAY_SECONDS)
    assert await light_store.lifecycle.run() == LifecycleReport(versions_removed=1)


async def test_incomplete_uploads_are_aborted(store: ObjectStore) -> None:
    await store.bucket("bucket")
    await _set_rules(store, _rule("up/", abort_uploads_after_days=1))
    for key in ("up/1", "up/2", "other"):
        await store.put_part(await store.begin("bucket", key), 1, BIG)
    done = await store.begin("bucket", "up/done")
    await store.put_part(done, 1, BIG)
    await store.complete("bucket", done, [(1, md5(BIG))])
    store.clock.advance(2 * DAY_SECONDS)
    await store.begin("bucket", "up/3")
    assert await store.lifecycle.run() == LifecycleReport(uploads_aborted=2)
    uploads = await all_uploads(store, "bucket", lambda: 10)
    assert [item.key for item in uploads if isinstance(item, StoredUpload)] == ["other", "up/3"]
    assert await store.garbage_collector.sweep() == 2
    assert await store.get("bucket", "up/done") == BIG
    await check_tables(store)


@pytest.mark.parametrize("batch", [1, 2, 3, 7])
async def test_versions_of_a_key_are_evaluated_together_across_pages(
    light_store: ObjectStore, batch: int, monkeypatch: pytest.MonkeyPatch
) -> None:
    monkeypatch.setattr(lifecycle, "_BATCH", batch)
    await light_store.bucket("bucket", Versioning.ENABLED)
    await _set_rules(light_store, _rule(noncurrent=NoncurrentExpiration(days=1, keep_newest=1)))
    for key in ("a", "b", "c"):
        for body in (b"1", b"2", b"3", b"4"):
            await light_store.put("bucket", key, body)
    light_store.clock.advance(3 * DAY_SECONDS)
    assert await light_store.lifecycle.run() == LifecycleReport(versions_removed=6)
    versions = await all_versions(light_store, "bucket", lambda: 100)
    assert [item.key for item in versions if isinstance(item, ListedVersion)] == ["a", "a", "b", "b", "c", "c"]
    assert await light_store.get("bucket", "b") == b"4"


async def test_disabled_rules_and_buckets_without_rules_expire_nothing(light_store: ObjectStore) -> None:
    for name in ("bucket", "second"):
        await light_store.bucket(name)
        await light_store.put(name, "k")
    await _set_rules(light_store, LifecycleRule("off", False, LifecycleFilter(), Expiration(days=1)))
    light_store.clock.advance(10 * DAY_SECONDS)
    assert await light_store.lifecycle.run() == LifecycleReport()
