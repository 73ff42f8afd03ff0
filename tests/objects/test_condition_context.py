"""Conditions of policies on what a request does: each deed is tried by who may do it only with these values."""

from __future__ import annotations

from collections.abc import Awaitable, Callable

import pytest

from lakebed.core.errors import AccessDenied, PreconditionFailed
from lakebed.governance.policy_language.condition_keys import actions_with_key
from lakebed.governance.policy_language.wildcards import fold_key
from lakebed.objects.condition_context import (
    ConditionKeys,
    bucket_tag_condition_keys,
    creation_condition_keys,
    lock_condition_keys,
    match_condition_keys,
    tag_condition_keys,
    version_condition_keys,
)
from lakebed.objects.conditions import ReadConditions, WriteConditions
from lakebed.objects.config.object_lock import Retention, RetentionMode
from lakebed.objects.config.tagging import NO_TAGS, Tag, TagSet
from lakebed.objects.config.versioning import Versioning
from lakebed.objects.copying import CopyChanges, CopySource
from lakebed.objects.deleting import ObjectIdentifier
from lakebed.objects.model import Caller, ObjectAttributes
from lakebed.objects.multipart import Completion, ListedPart
from lakebed.objects.writing import NewObject
from tests.governance.documents import policy, statement

from .stores import DAY_MS, ROOT, ObjectStore, user

TAGS = TagSet((Tag("team", "a"), Tag("Cost", "1")))
NOW_MS = 1_700_000_000_000
KEEP = Retention(RetentionMode.GOVERNANCE, NOW_MS + 10 * DAY_MS)
EVERYTHING = statement(action="s3:*", resource="*")

Deed = Callable[[Caller], Awaitable[object]]


def bob(operator: str, key: str, value: object, effect: str = "Deny") -> Caller:
    """Who may do everything but what meets the condition; or nothing but that."""
    limit = statement(effect, action="s3:*", resource="*", condition={operator: {key: value}})
    return user("bob", policy(EVERYTHING, limit) if effect == "Deny" else policy(limit))


async def check_denied(deed: Deed, operator: str, key: str, value: object) -> None:
    """The deed is denied for what it carries, so the condition was evaluated with the value."""
    with pytest.raises(AccessDenied, match="explicitly denied"):
        await deed(bob(operator, key, value))


# -- values ---------------------------------------------------------------------------------------------------------


def test_every_fact_is_a_key_that_a_bucket_policy_may_name() -> None:
    facts: ConditionKeys = creation_condition_keys(creates=True)
    facts |= lock_condition_keys(KEEP, True, NOW_MS) | tag_condition_keys(TAGS) | bucket_tag_condition_keys(TAGS)
    facts |= match_condition_keys(WriteConditions('"etag"', "*")) | version_condition_keys("v", None)
    assert [key for key in facts if actions_with_key(fold_key(key)) is None] == []


@pytest.mark.parametrize(
    ("left_ms", "days"),
    [(1, "1"), (DAY_MS, "1"), (DAY_MS + 1, "2"), (10 * DAY_MS - 1, "10"), (0, "0"), (-1, "0"), (-DAY_MS, "-1")],
)
def test_day_of_retention_that_has_begun_counts(left_ms: int, days: str) -> None:
    facts = lock_condition_keys(Retention(RetentionMode.COMPLIANCE, NOW_MS + left_ms), None, NOW_MS)
    assert facts["s3:object-lock-remaining-retention-days"] == days
    assert facts["s3:object-lock-mode"] == "COMPLIANCE"


def test_nothing_is_said_of_what_is_not_there() -> None:
    assert lock_condition_keys(None, None, NOW_MS) == {}
    assert tag_condition_keys(NO_TAGS) == bucket_tag_condition_keys(NO_TAGS) == bucket_tag_condition_keys(None) == {}
    assert match_condition_keys(ReadConditions()) == match_condition_keys(WriteConditions()) == {}
    assert version_condition_keys(None, None) == {}


# -- any request ----------------------------------------------------------------------------------------------------


@pytest.mark.parametrize(
    ("operator", "key", "value"),
    [
        ("IpAddress", "aws:SourceIp", "192.0.2.0/24"),
        ("Bool", "aws:SecureTransport", "true"),
        ("StringEquals", "aws:RequestedRegion", "us-east-1"),
        ("StringEquals", "aws:ResourceAccount", ROOT.principal.account),
        ("StringEquals", "s3:ResourceAccount", ROOT.principal.account),
        ("StringEquals", "aws:UserAgent", "browser"),
    ],
)
async def test_every_deed_says_where_it_comes_from_and_goes_to(
    light_store: ObjectStore, operator: str, key: str, value: str
) -> None:
    await light_store.bucket("bucket")
    denied = bob(operator, key, value)._replace(
        source_ip="192.0.2.7", secure=True, conditions=lambda: {"aws:UserAgent": "browser"}
    )
    deeds: list[Deed] = [
        lambda who: light_store.buckets.head(who, "bucket"),
        lambda who: light_store.buckets.create(who, "another"),
        lambda who: light_store.buckets.list(who, prefix="", after="", limit=1),
        lambda who: light_store.put("bucket", "k", caller=who),
    ]
    for deed in deeds:
        with pytest.raises(AccessDenied, match="explicitly denied"):
            await deed(denied)


async def test_new_bucket_says_its_tags_and_its_place(light_store: ObjectStore) -> None:
    def deed(who: Caller) -> Awaitable[object]:
        return light_store.buckets.create(who, "bucket", tags=TAGS, location="EU")

    await check_denied(deed, "StringEquals", "aws:RequestTag/team", "a")
    await check_denied(deed, "ForAnyValue:StringEquals", "aws:TagKeys", "Cost")
    await check_denied(deed, "StringEquals", "s3:LocationConstraint", "EU")
    await deed(bob("StringEquals", "aws:RequestTag/team", "b"))


# -- writes ---------------------------------------------------------------------------------------------------------


async def test_only_what_makes_an_object_is_a_creation(light_store: ObjectStore) -> None:
    store = light_store
    await store.bucket("bucket")
    await store.put("bucket", "source", b"abc")
    creator = bob("Bool", "s3:ObjectCreationOperation", "false")
    filler = bob("Bool", "s3:ObjectCreationOperation", "true")
    new = NewObject("k", ObjectAttributes())

    await store.put("bucket", "k", caller=creator)
    await store.copier.copy(creator, CopySource("bucket", "source"), "bucket", new, CopyChanges())
    with pytest.raises(AccessDenied):
        await store.uploads.begin(creator, "bucket", new, algorithm=None, checksum_type=None)
    _, upload = await store.uploads.begin(filler, "bucket", new, algorithm=None, checksum_type=None)
    with pytest.raises(AccessDenied):
        await store.uploads.authorize_part(creator, "bucket", "k", upload.id, 1)
    await store.uploads.authorize_part(filler, "bucket", "k", upload.id, 1)
    part = await store.put_part(upload, 1, b"abc")
    completion = Completion([ListedPart(1, part.etag)])
    with pytest.raises(AccessDenied):
        await store.uploads.complete(filler, "bucket", "k", upload.id, completion)
    await store.uploads.complete(creator, "bucket", "k", upload.id, completion)
    with pytest.raises(AccessDenied):
        await store.put("bucket", "k", caller=filler)


@pytest.mark.parametrize(
    ("operator", "key", "value"),
    [
        ("StringEquals", "s3:object-lock-mode", "GOVERNANCE"),
        ("DateGreaterThan", "s3:object-lock-retain-until-date", "1970-01-05T00:00:00Z"),
        ("NumericGreaterThan", "s3:object-lock-remaining-retention-days", "9"),
    ],
)
async def test_retention_is_told_however_it_is_set(
    light_store: ObjectStore, operator: str, key: str, value: str
) -> None:
    store = light_store
    await store.buckets.create(ROOT, "bucket", object_lock=True)
    await store.put("bucket", "k")
    keep = Retention(RetentionMode.GOVERNANCE, store.clock.now_ms() + 10 * DAY_MS)
    await check_denied(
        lambda who: store.put("bucket", "new", attributes=ObjectAttributes(retention=keep), caller=who),
        operator,
        key,
        value,
    )
    await check_denied(
        lambda who: store.tags_and_locks.set_retention(who, "bucket", "k", None, keep), operator, key, value
    )
    await store.tags_and_locks.set_retention(bob("Null", key, "true"), "bucket", "k", None, keep)
    bypassing = bob("Null", key, "false")._replace(bypass_governance=True)
    with pytest.raises(AccessDenied, match="BypassGovernanceRetention"):
        await store.tags_and_locks.set_retention(bypassing, "bucket", "k", None, keep)


@pytest.mark.parametrize(("on", "said"), [(True, "ON"), (False, "OFF")])
async def test_legal_hold_is_told_however_it_is_set(light_store: ObjectStore, on: bool, said: str) -> None:
    store = light_store
    await store.buckets.create(ROOT, "bucket", object_lock=True)
    await store.put("bucket", "k")
    deeds: list[Deed] = [
        lambda who: store.put("bucket", "new", attributes=ObjectAttributes(legal_hold=on), caller=who),
        lambda who: store.tags_and_locks.set_legal_hold(who, "bucket", "k", None, on),
    ]
    for deed in deeds:
        await check_denied(deed, "StringEquals", "s3:object-lock-legal-hold", said)
        await deed(bob("StringNotEquals", "s3:object-lock-legal-hold", said))


async def test_new_tags_of_an_object_are_told_and_so_are_its_old_ones(light_store: ObjectStore) -> None:
    store = light_store
    await store.bucket("bucket", Versioning.ENABLED)
    old = (await store.put("bucket", "k", attributes=ObjectAttributes(tags=TagSet((Tag("stage", "raw"),))))).version
    await store.put("bucket", "k")

    for version in (None, old):

        def deed(who: Caller, version: str | None = version) -> Awaitable[object]:
            return store.tags_and_locks.set_tags(who, "bucket", "k", version, TAGS)

        await check_denied(deed, "StringEquals", "s3:RequestObjectTag/Cost", "1")
        await check_denied(deed, "ForAnyValue:StringEquals", "s3:RequestObjectTagKeys", "team")
        # The name of a tag tells case.
        await deed(bob("StringEquals", "s3:RequestObjectTag/cost", "1"))
        await store.tags_and_locks.set_tags(ROOT, "bucket", "k", old, TagSet((Tag("stage", "raw"),)))
    await check_denied(
        lambda who: store.tags_and_locks.set_tags(who, "bucket", "k", old, TAGS),
        "StringEquals",
        "s3:ExistingObjectTag/stage",
        "raw",
    )
    await store.tags_and_locks.set_tags(bob("Null", "s3:RequestObjectTagKeys", "false"), "bucket", "k", None, NO_TAGS)


# -- reads and deletes ----------------------------------------------------------------------------------------------


async def test_conditional_requests_say_their_etags(light_store: ObjectStore) -> None:
    store = light_store
    await store.bucket("bucket", Versioning.ENABLED)
    written = (await store.put("bucket", "k", b"abc")).object
    etag = f'"{written.etag}"'

    def read(who: Caller, conditions: ReadConditions) -> Awaitable[object]:
        return store.reader.get(who, "bucket", "k", conditions=conditions)

    readings: list[Deed] = [
        lambda who: read(who, ReadConditions(if_match=etag)),
        lambda who: store.reader.head(who, "bucket", "k", conditions=ReadConditions(if_match=etag)),
        lambda who: store.reader.get(who, "bucket", "k", version=written.version, conditions=ReadConditions(etag)),
    ]
    for reading in readings:
        await check_denied(reading, "StringEquals", "s3:if-match", etag)
        await reading(bob("Null", "s3:if-match", "true"))
    await check_denied(
        lambda who: read(who, ReadConditions(if_none_match="x")), "StringEquals", "s3:if-none-match", "x"
    )
    # Only conditional deletes are allowed, and an unconditional one is not.
    careful = bob("StringLike", "s3:if-match", "*", effect="Allow")
    with pytest.raises(AccessDenied):
        await store.deleter.delete(careful, "bucket", ObjectIdentifier("k"))
    with pytest.raises(PreconditionFailed):
        await store.deleter.delete(
            careful, "bucket", ObjectIdentifier("k", conditions=WriteConditions(if_match='"other"'))
        )
    await store.deleter.delete(careful, "bucket", ObjectIdentifier("k", conditions=WriteConditions(if_match=etag)))


async def test_tags_that_a_copy_takes_along_are_read_as_of_their_version(light_store: ObjectStore) -> None:
    store = light_store
    await store.bucket("bucket", Versioning.ENABLED)
    version = (await store.put("bucket", "k", attributes=ObjectAttributes(tags=TAGS))).version
    assert version is not None
    limited = statement(
        "Deny",
        action=["s3:GetObjectVersionTagging"],
        resource="*",
        condition={"StringEquals": {"s3:VersionId": version, "s3:ExistingObjectTag/team": "a"}},
    )
    with pytest.raises(AccessDenied, match="GetObjectVersionTagging"):
        await store.copier.copy(
            user("bob", policy(EVERYTHING, limited)),
            CopySource("bucket", "k", version),
            "bucket",
            NewObject("copy", ObjectAttributes()),
            CopyChanges(),
        )
