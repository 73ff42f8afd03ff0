from __future__ import annotations

from collections.abc import AsyncIterator
from pathlib import Path

import pytest
from hypothesis import given
from hypothesis import strategies as st

from lakebed.core.clock import ManualClock
from lakebed.core.errors import AccessDenied, InvalidInput, NoSuchBucket
from lakebed.events.names import EventName
from lakebed.events.rules import (
    NO_RULES,
    BucketNotifications,
    NotificationConfiguration,
    NotificationRule,
    RuleMatcher,
    buckets_naming,
    trim_versions,
)
from lakebed.events.rules.model import encode_configuration
from lakebed.events.rules.versions import BucketVersions
from lakebed.meta.seam import Reader, Transaction
from lakebed.objects.config.tagging import Tag, TagSet
from tests.objects.stores import ROOT, ObjectStore, opened_store, user

HOOK, KAFKA = "arn:lakebed:sqs::1:webhook", "arn:lakebed:sqs::2:kafka"
PUTS = NotificationConfiguration((NotificationRule("puts", HOOK, (EventName.OBJECT_CREATED_ALL,)),))
DELETES = NotificationConfiguration((NotificationRule("deletes", KAFKA, (EventName.OBJECT_REMOVED_ALL,), "in/"),))


class Targets:
    """A lookup in a fixed list."""

    def __init__(self, *known: str) -> None:
        self._known = known

    async def exists(self, tx: Reader, target_id: str) -> bool:
        return target_id in self._known


@pytest.fixture(params=["sqlite", pytest.param("postgres", marks=pytest.mark.integration)])
def address(request: pytest.FixtureRequest, tmp_path: Path) -> str:
    """Each metadata store. Not async, because the PostgreSQL server starts outside an event loop."""
    if request.param == "sqlite":
        return f"sqlite:{tmp_path / 'meta.db'}"
    dsn: str = request.getfixturevalue("rules_dsn")
    return dsn


@pytest.fixture
async def store(address: str, tmp_path: Path) -> AsyncIterator[ObjectStore]:
    async with opened_store(address, "memory", tmp_path, ManualClock()) as opened:
        yield opened


@pytest.fixture
def notifications(store: ObjectStore) -> BucketNotifications:
    return BucketNotifications(store.object_context, Targets("1:webhook", "2:kafka"))


async def matched(store: ObjectStore) -> list[tuple[str, dict[str, str]]]:
    """Every event of the outbox with its matches."""
    entries = await store.events()
    found = await RuleMatcher(store.meta).matches(entries)
    return [(entry.event.kind, dict(targets)) for entry, targets in zip(entries, found, strict=True)]


async def version_count(store: ObjectStore) -> int:
    row = await store.meta.row("SELECT count(*) FROM notification_versions")
    assert row is not None
    return int(row[0])


# -- rules in force ---------------------------------------------------------------------------------------------


async def test_event_is_matched_with_the_rules_in_force_at_its_time(
    store: ObjectStore, notifications: BucketNotifications
) -> None:
    await store.bucket("b-1")
    await store.put("b-1", "in/1")
    await notifications.put(ROOT, "b-1", PUTS)
    await store.put("b-1", "in/2")
    await notifications.put(ROOT, "b-1", DELETES)
    await store.put("b-1", "in/3")
    await store.delete("b-1", "in/3")
    await store.delete("b-1", "in/2")
    await notifications.put(ROOT, "b-1", NO_RULES)
    await store.delete("b-1", "in/1")
    # Matched at the end: a slow reader gets the same matches.
    assert await matched(store) == [
        ("BucketCreated", {}),
        ("ObjectCreated:Put", {}),
        ("BucketConfigured", {}),
        ("ObjectCreated:Put", {"1:webhook": "puts"}),
        ("BucketConfigured", {}),
        ("ObjectCreated:Put", {}),
        ("ObjectRemoved:Delete", {"2:kafka": "deletes"}),
        ("ObjectRemoved:Delete", {"2:kafka": "deletes"}),
        ("BucketConfigured", {}),
        ("ObjectRemoved:Delete", {}),
    ]


async def test_recreated_bucket_has_no_rules(store: ObjectStore, notifications: BucketNotifications) -> None:
    await store.bucket("b-1")
    everything = NotificationConfiguration(
        (NotificationRule("all", HOOK, (EventName.OBJECT_CREATED_ALL, EventName.BUCKET_REMOVED)),)
    )
    await notifications.put(ROOT, "b-1", everything)
    await store.buckets.delete(ROOT, "b-1")
    await store.bucket("b-1")
    await store.put("b-1", "k")
    assert (await matched(store))[2:] == [
        ("BucketRemoved", {"1:webhook": "all"}),
        ("BucketCreated", {}),
        ("ObjectCreated:Put", {}),
    ]
    assert await notifications.read(ROOT, "b-1") == NO_RULES


async def test_rules_apply_only_to_their_bucket(store: ObjectStore, notifications: BucketNotifications) -> None:
    await store.bucket("b-1")
    await store.bucket("b-10")
    await notifications.put(ROOT, "b-1", PUTS)
    await store.put("b-10", "b-1")
    await store.put("b-1", "k")
    assert [targets for _, targets in (await matched(store))[-2:]] == [{}, {"1:webhook": "puts"}]


async def test_nothing_matches_without_rules(store: ObjectStore) -> None:
    await store.bucket("b-1")
    await store.put("b-1", "k")
    assert [targets for _, targets in await matched(store)] == [{}, {}]
    assert await RuleMatcher(store.meta).matches([]) == []


@given(st.lists(st.integers(1, 30), unique=True, max_size=6).map(sorted), st.integers(1, 40))
def test_latest_version_before_an_event_applies(numbers: list[int], seq: int) -> None:
    documents = [
        encode_configuration(
            NotificationConfiguration((NotificationRule(str(since), HOOK, (EventName.OBJECT_CREATED_PUT,)),))
        )
        for since in numbers
    ]
    rules = BucketVersions(list(zip(numbers, documents, strict=True))).in_force_at(seq)
    expected = max((since for since in numbers if since < seq), default=None)
    found = {} if rules is None else rules.matches(EventName.OBJECT_CREATED_PUT, "k")
    assert found == ({} if expected is None else {"1:webhook": str(expected)})


# -- trimming ---------------------------------------------------------------------------------------------------


async def test_replaced_version_stays_until_all_cursors_pass_its_successor(
    store: ObjectStore, notifications: BucketNotifications
) -> None:
    outbox = store.object_context.outbox
    await store.bucket("b-1")
    await notifications.put(ROOT, "b-1", PUTS)
    await store.put("b-1", "k")
    before = await outbox.last_seq(store.meta)

    async def open_cursor(tx: Transaction) -> int:
        return await outbox.open_cursor(tx, "reader", at_seq=before - 1)

    await store.meta.transact(open_cursor)
    await notifications.put(ROOT, "b-1", DELETES)
    assert await trim_versions(store.meta, outbox) == 0
    assert ("ObjectCreated:Put", {"1:webhook": "puts"}) in await matched(store)

    async def advance(tx: Transaction) -> bool:
        return await outbox.advance(tx, "reader", before + 1)

    await store.meta.transact(advance)
    assert await trim_versions(store.meta, outbox) == 1
    assert await version_count(store) == 1
    await store.put("b-1", "in/x")
    await store.delete("b-1", "in/x")
    assert (await matched(store))[-1] == ("ObjectRemoved:Delete", {"2:kafka": "deletes"})


async def test_versions_of_buckets_without_rules_are_trimmed(
    store: ObjectStore, notifications: BucketNotifications
) -> None:
    outbox = store.object_context.outbox
    for name in ("b-1", "b-2", "b-3"):
        await store.bucket(name)
        await notifications.put(ROOT, name, PUTS)
    await notifications.put(ROOT, "b-1", NO_RULES)
    await store.buckets.delete(ROOT, "b-2")
    assert await trim_versions(store.meta, outbox) == 4
    assert await version_count(store) == 1
    assert await trim_versions(store.meta, outbox) == 0
    assert await buckets_naming(store.meta, "1:webhook") == ["b-3"]


async def test_buckets_naming_a_target_are_found_by_current_rules(
    store: ObjectStore, notifications: BucketNotifications
) -> None:
    for name in ("b-2", "b-1"):
        await store.bucket(name)
        await notifications.put(ROOT, name, PUTS)
    assert await buckets_naming(store.meta, "1:webhook") == ["b-1", "b-2"]
    await notifications.put(ROOT, "b-1", DELETES)
    assert await buckets_naming(store.meta, "1:webhook") == ["b-2"]
    assert await buckets_naming(store.meta, "2:kafka") == ["b-1"]
    assert await buckets_naming(store.meta, "1:web") == []


# -- configurations ---------------------------------------------------------------------------------------------


async def test_configuration_is_read_back_unchanged(store: ObjectStore, notifications: BucketNotifications) -> None:
    await store.bucket("b-1")
    assert await notifications.read(ROOT, "b-1") == NO_RULES
    await notifications.put(ROOT, "b-1", DELETES)
    assert await notifications.read(ROOT, "b-1") == DELETES
    bucket = await store.buckets.find("b-1")
    assert bucket.settings.event_mask == EventName.OBJECT_REMOVED_ALL.mask
    await notifications.put(ROOT, "b-1", NO_RULES)
    assert await notifications.read(ROOT, "b-1") == NO_RULES
    assert (await store.buckets.find("b-1")).settings.event_mask == 0


async def test_rejected_configuration_leaves_the_previous_one(
    store: ObjectStore, notifications: BucketNotifications
) -> None:
    await store.bucket("b-1")
    await notifications.put(ROOT, "b-1", PUTS)
    event_count = len(await store.events())
    unknown = NotificationConfiguration(
        (NotificationRule("r", "arn:lakebed:sqs::3:nats", (EventName.OBJECT_CREATED_PUT,)),)
    )
    with pytest.raises(InvalidInput, match="destination"):
        await notifications.put(ROOT, "b-1", NotificationConfiguration((*PUTS.rules, *unknown.rules)))
    with pytest.raises(InvalidInput, match="same Id"):
        await notifications.put(ROOT, "b-1", NotificationConfiguration((*PUTS.rules, *PUTS.rules)))
    assert await notifications.read(ROOT, "b-1") == PUTS
    assert len(await store.events()) == event_count
    await notifications.put(ROOT, "b-1", unknown, checks_targets=False)
    assert await notifications.read(ROOT, "b-1") == unknown


async def test_put_keeps_other_bucket_settings(store: ObjectStore, notifications: BucketNotifications) -> None:
    await store.bucket("b-1")
    one, other = TagSet((Tag("a", "1"),)), TagSet((Tag("b", "2"),))
    await store.buckets.set(ROOT, "b-1", "s3:PutBucketTagging", tags=one)
    await notifications.put(ROOT, "b-1", PUTS)
    assert (await store.buckets.find("b-1")).settings.tags == one
    await store.buckets.set(ROOT, "b-1", "s3:PutBucketTagging", tags=other)
    assert await notifications.read(ROOT, "b-1") == PUTS


async def test_missing_permission_is_denied(store: ObjectStore, notifications: BucketNotifications) -> None:
    await store.bucket("b-1")
    unprivileged = user("unprivileged")
    with pytest.raises(AccessDenied):
        await notifications.read(unprivileged, "b-1")
    with pytest.raises(AccessDenied):
        await notifications.put(unprivileged, "b-1", NO_RULES)
    with pytest.raises(NoSuchBucket):
        await notifications.put(ROOT, "b-2", NO_RULES)
    reader = user(
        "reader",
        b'{"Version":"2012-10-17","Statement":{"Effect":"Allow","Action":"s3:GetBucketNotification","Resource":"*"}}',
    )
    assert await notifications.read(reader, "b-1") == NO_RULES
    with pytest.raises(AccessDenied):
        await notifications.put(reader, "b-1", NO_RULES)
