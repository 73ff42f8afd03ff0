"""Condition keys of object requests: each request is tried by a caller whose policy depends on the value."""

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

Request = Callable[[Caller], Awaitable[object]]


def bob(operator: str, key: str, value: object, effect: str = "Deny") -> Caller:
    """A caller that may do everything but what meets the condition; with effect Allow, nothing but that."""
    limit = statement(effect, action="s3:*", resource="*", condition={operator: {key: value}})
    return user("bob", policy(EVERYTHING, limit) if effect == "Deny" else policy(limit))


async def check_denied(request: Request, operator: str, key: str, value: object) -> None:
    """Assert that the request is denied, so the condition was evaluated with the value."""
    with pytest.raises(AccessDenied, match="explicitly denied"):
        await request(bob(operator, key, value))


def test_every_condition_key_is_allowed_in_bucket_policies() -> None:
    condition_keys: ConditionKeys = creation_condition_keys(creates=True)
    condition_keys |= (
        lock_condition_keys(KEEP, True, NOW_MS) | tag_condition_keys(TAGS) | bucket_tag_condition_keys(TAGS)
    )
    condition_keys |= match_condition_keys(WriteConditions('"etag"', "*")) | version_condition_keys("v", None)
    assert [key for key in condition_keys if actions_with_key(fold_key(key)) is None] == []


@pytest.mark.parametrize(
    ("left_ms", "days"),
    [(1, "1"), (DAY_MS, "1"), (DAY_MS + 1, "2"), (10 * DAY_MS - 1, "10"), (0, "0"), (-1, "0"), (-DAY_MS, "-1")],
)
def test_remaining_retention_days_are_rounded_up(left_ms: int, days: str) -> None:
    condition_keys = lock_condition_keys(Retention(RetentionMode.COMPLIANCE, NOW_MS + left_ms), None, NOW_MS)
    assert condition_keys["s3:object-lock-remaining-retention-days"] == days
    assert condition_keys["s3:object-lock-mode"] == "COMPLIANCE"


def test_absent_values_have_no_condition_keys() -> None:
    assert lock_condition_keys(None, None, NOW_MS) == {}
    assert tag_condition_keys(NO_TAGS) == bucket_tag_condition_keys(NO_TAGS) == bucket_tag_condition_keys(None) == {}
    assert match_condition_keys(ReadConditions()) == match_condition_keys(WriteConditions()) == {}
    assert version_condition_keys(None, None) == {}


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
async def test_every_request_has_source_and_account_condition_keys(
    light_store: ObjectStore, operator: str, key: str, value: str
) -> None:
    await light_store.bucket("bucket")
    denied = bob(operator, key, value)._replace(
        source_ip="192.0.2.7", secure=True, conditions=lambda: {"aws:UserAgent": "browser"}
    )
    requests: list[Request] = [
        lambda caller: light_store.buckets.head(caller, "bucket"),
        lambda caller: light_store.buckets.create(caller, "another"),
        lambda caller: light_store.buckets.list(caller, prefix="", after="", limit=1),
        lambda caller: light_store.put("bucket", "k", caller=caller),
    ]
    for request in requests:
        with pytest.raises(AccessDenied, match="explicitly denied"):
            await request(denied)


async def test_create_bucket_has_tag_and_location_condition_keys(light_store: ObjectStore) -> None:
    def request(caller: Caller) -> Awaitable[object]:
        return light_store.buckets.create(caller, "bucket", tags=TAGS, location="EU")

    await check_denied(request, "StringEquals", "aws:RequestTag/team", "a")
    await check_denied(request, "ForAnyValue:StringEquals", "aws:TagKeys", "Cost")
    await check_denied(request, "StringEquals", "s3:LocationConstraint", "EU")
    await request(bob("StringEquals", "aws:RequestTag/team", "b"))


async def test_only_object_creating_writes_have_the_creation_key(light_store: ObjectStore) -> None:
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
async def test_retention_has_condition_keys_on_put_and_put_retention(
    light_store: ObjectStore, operator: str, key: str, value: str
) -> None:
    store = light_store
    await store.buckets.create(ROOT, "bucket", object_lock=True)
    await store.put("bucket", "k")
    retention = Retention(RetentionMode.GOVERNANCE, store.clock.now_ms() + 10 * DAY_MS)
    await check_denied(
        lambda caller: store.put("bucket", "new", attributes=ObjectAttributes(retention=retention), caller=caller),
        operator,
        key,
        value,
    )
    await check_denied(
        lambda caller: store.tags_and_locks.set_retention(caller, "bucket", "k", None, retention), operator, key, value
    )
    await store.tags_and_locks.set_retention(bob("Null", key, "true"), "bucket", "k", None, retention)
    bypassing = bob("Null", key, "false")._replace(bypass_governance=True)
    with pytest.raises(AccessDenied, match="BypassGovernanceRetention"):
        await store.tags_and_locks.set_retention(bypassing, "bucket", "k", None, retention)


@pytest.mark.parametrize(("on", "status"), [(True, "ON"), (False, "OFF")])
async def test_legal_hold_has_a_condition_key_on_put_and_put_legal_hold(
    light_store: ObjectStore, on: bool, status: str
) -> None:
    store = light_store
    await store.buckets.create(ROOT, "bucket", object_lock=True)
    await store.put("bucket", "k")
    requests: list[Request] = [
        lambda caller: store.put("bucket", "new", attributes=ObjectAttributes(legal_hold=on), caller=caller),
        lambda caller: store.tags_and_locks.set_legal_hold(caller, "bucket", "k", None, on),
    ]
    for request in requests:
        await check_denied(request, "StringEquals", "s3:object-lock-legal-hold", status)
        await request(bob("StringNotEquals", "s3:object-lock-legal-hold", status))


async def test_tagging_has_condition_keys_for_new_and_existing_tags(light_store: ObjectStore) -> None:
    store = light_store
    await store.bucket("bucket", Versioning.ENABLED)
    old = (await store.put("bucket", "k", attributes=ObjectAttributes(tags=TagSet((Tag("stage", "raw"),))))).version
    await store.put("bucket", "k")

    for version in (None, old):

        def request(caller: Caller, version: str | None = version) -> Awaitable[object]:
            return store.tags_and_locks.set_tags(caller, "bucket", "k", version, TAGS)

        await check_denied(request, "StringEquals", "s3:RequestObjectTag/Cost", "1")
        await check_denied(request, "ForAnyValue:StringEquals", "s3:RequestObjectTagKeys", "team")
        # Tag keys are case-sensitive.
        await request(bob("StringEquals", "s3:RequestObjectTag/cost", "1"))
        await store.tags_and_locks.set_tags(ROOT, "bucket", "k", old, TagSet((Tag("stage", "raw"),)))
    await check_denied(
        lambda caller: store.tags_and_locks.set_tags(caller, "bucket", "k", old, TAGS),
        "StringEquals",
        "s3:ExistingObjectTag/stage",
        "raw",
    )
    await store.tags_and_locks.set_tags(bob("Null", "s3:RequestObjectTagKeys", "false"), "bucket", "k", None, NO_TAGS)


async def test_conditional_requests_have_etag_condition_keys(light_store: ObjectStore) -> None:
    store = light_store
    await store.bucket("bucket", Versioning.ENABLED)
    written = (await store.put("bucket", "k", b"abc")).object
    etag = f'"{written.etag}"'

    def read(caller: Caller, conditions: ReadConditions) -> Awaitable[object]:
        return store.reader.get(caller, "bucket", "k", conditions=conditions)

    readings: list[Request] = [
        lambda caller: read(caller, ReadConditions(if_match=etag)),
        lambda caller: store.reader.head(caller, "bucket", "k", conditions=ReadConditions(if_match=etag)),
        lambda caller: store.reader.get(
            caller, "bucket", "k", version=written.version, conditions=ReadConditions(etag)
        ),
    ]
    for reading in readings:
        await check_denied(reading, "StringEquals", "s3:if-match", etag)
        await reading(bob("Null", "s3:if-match", "true"))
    await check_denied(
        lambda caller: read(caller, ReadConditions(if_none_match="x")), "StringEquals", "s3:if-none-match", "x"
    )
    # Only conditional deletes are allowed.
    careful = bob("StringLike", "s3:if-match", "*", effect="Allow")
    with pytest.raises(AccessDenied):
        await store.deleter.delete(careful, "bucket", ObjectIdentifier("k"))
    with pytest.raises(PreconditionFailed):
        await store.deleter.delete(
            careful, "bucket", ObjectIdentifier("k", conditions=WriteConditions(if_match='"other"'))
        )
    await store.deleter.delete(careful, "bucket", ObjectIdentifier("k", conditions=WriteConditions(if_match=etag)))


async def test_copied_tags_are_authorized_for_the_source_version(light_store: ObjectStore) -> None:
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
