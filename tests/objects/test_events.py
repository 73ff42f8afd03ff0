"""Events of objects and buckets in the outbox."""

from __future__ import annotations

from lakebed.objects.config.versioning import Versioning
from lakebed.objects.events import decode_event
from lakebed.objects.model import ObjectAttributes

from .consistency import check_tables
from .stores import ROOT, ObjectStore, user


async def test_events_are_in_the_order_of_changes(store: ObjectStore) -> None:
    await store.bucket("b-1", Versioning.ENABLED)
    await store.put("b-1", "k", b"x" * 100)
    await store.delete("b-1", "k")
    assert [(entry.event.kind, entry.event.subject) for entry in await store.events()] == [
        ("BucketCreated", "b-1"),
        ("BucketConfigured", "b-1"),
        ("ObjectCreated:Put", "b-1/k"),
        ("ObjectRemoved:DeleteMarkerCreated", "b-1/k"),
    ]
    await check_tables(store)


async def test_event_contains_object_caller_and_time(light_store: ObjectStore) -> None:
    store = light_store
    await store.bucket("b-1", Versioning.ENABLED)
    attributes = ObjectAttributes(content_type="text/plain", metadata={"a": "1"})
    written = await store.put("b-1", "k", b"abc", attributes=attributes)
    event = (await store.events())[-1].event
    assert event.occurred_ms == store.clock.now_ms()
    payload = decode_event(event.payload)
    assert (payload.bucket, payload.key, payload.version, payload.size, payload.etag) == (
        "b-1",
        "k",
        written.version,
        3,
        written.object.etag,
    )
    assert (payload.content_type, payload.metadata) == ("text/plain", {"a": "1"})
    assert (payload.principal, payload.account, payload.request_id, payload.source_ip) == (
        "root",
        "000000000000",
        "R1",
        "127.0.0.1",
    )


async def test_event_of_null_version_has_no_version_id(light_store: ObjectStore) -> None:
    await light_store.bucket("b-1")
    await light_store.put("b-1", "k", b"abc")
    assert decode_event((await light_store.events())[-1].event.payload).version == ""


async def test_event_of_delete_marker_has_no_content_type(light_store: ObjectStore) -> None:
    await light_store.bucket("b-1", Versioning.ENABLED)
    deleted = await light_store.delete("b-1", "k")
    payload = decode_event((await light_store.events())[-1].event.payload)
    assert (payload.version, payload.content_type, payload.etag) == (deleted.marker, "", "")


async def test_deleting_absent_object_from_unversioned_bucket_emits_nothing(light_store: ObjectStore) -> None:
    await light_store.bucket("b-1")
    before = len(await light_store.events())
    await light_store.delete("b-1", "k")
    await light_store.delete("b-1", "k", "null")
    assert len(await light_store.events()) == before


async def test_event_contains_user_agent_and_host(light_store: ObjectStore) -> None:
    await light_store.bucket("b-1")
    strange = "agent \udcff" + "x" * 1000
    await light_store.put("b-1", "k", caller=ROOT._replace(user_agent="boto", host="store:9000"))
    await light_store.put("b-1", "k", caller=ROOT._replace(user_agent=strange, host=""))
    first, second = (decode_event(entry.event.payload) for entry in (await light_store.events())[-2:])
    assert (first.user_agent, first.host) == ("boto", "store:9000")
    assert (second.user_agent[:7], len(second.user_agent), second.host) == ("agent ?", 512, "")


async def test_event_contains_the_bucket_owner_if_not_the_caller(light_store: ObjectStore) -> None:
    await light_store.bucket("b-1")
    policy = (
        b'{"Version":"2012-10-17","Statement":{"Effect":"Allow","Principal":"*","Action":"s3:PutObject",'
        b'"Resource":"arn:aws:s3:::b-1/*"}}'
    )
    await light_store.buckets.set(ROOT, "b-1", "s3:PutBucketPolicy", policy=policy)
    allowed = b'{"Version":"2012-10-17","Statement":{"Effect":"Allow","Action":"s3:*","Resource":"*"}}'
    await light_store.put("b-1", "k", caller=user("guest_event", allowed, account="111111111111"))
    await light_store.put("b-1", "k")
    guest_event, own_event = (decode_event(entry.event.payload) for entry in (await light_store.events())[-2:])
    assert (guest_event.account, guest_event.owner) == ("111111111111", "000000000000")
    assert (own_event.account, own_event.owner) == ("000000000000", "")


async def test_event_of_a_removed_version_shows_whether_the_key_still_has_an_object(
    light_store: ObjectStore,
) -> None:
    store = light_store
    await store.bucket("b-1", Versioning.ENABLED)
    old = (await store.put("b-1", "k", b"1")).version
    new = (await store.put("b-1", "k", b"2")).version

    async def remains_after(version: str | None) -> bool:
        await store.delete("b-1", "k", version)
        return decode_event((await store.events())[-1].event.payload).remains

    assert await remains_after(old)
    marker = await store.delete("b-1", "k")
    assert await remains_after(marker.marker), "the object is uncovered"
    assert not await remains_after(new)
    assert not await remains_after(None)
