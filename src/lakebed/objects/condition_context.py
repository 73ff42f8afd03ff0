"""Condition keys for policies: of an object, its versions and a write."""

from __future__ import annotations

from datetime import UTC, datetime
from typing import Final, TypeAlias

from .conditions import ReadConditions, WriteConditions
from .config.object_lock import LegalHold, Retention
from .config.tagging import TagSet
from .model import StoredObject

ConditionKeys: TypeAlias = dict[str, str | tuple[str, ...]]

_DAY_MS: Final = 24 * 3600 * 1000


def version_condition_keys(version: str | None, found: StoredObject | None) -> ConditionKeys:
    """The requested version, if any, and the tags of the found object."""
    condition_keys: ConditionKeys = {} if version is None else {"s3:VersionId": version}
    if found is not None and found.attributes.tags.tags:
        condition_keys |= {f"s3:ExistingObjectTag/{tag.key}": tag.value for tag in found.attributes.tags.tags}
    return condition_keys


def tag_condition_keys(tags: TagSet) -> ConditionKeys:
    """Tags in a request on an object."""
    if not tags.tags:
        return {}
    condition_keys: ConditionKeys = {"s3:RequestObjectTagKeys": tuple(tag.key for tag in tags.tags)}
    return condition_keys | {f"s3:RequestObjectTag/{tag.key}": tag.value for tag in tags.tags}


def bucket_tag_condition_keys(tags: TagSet | None) -> ConditionKeys:
    """Tags in a request on a bucket."""
    if tags is None or not tags.tags:
        return {}
    condition_keys: ConditionKeys = {"aws:TagKeys": tuple(tag.key for tag in tags.tags)}
    return condition_keys | {f"aws:RequestTag/{tag.key}": tag.value for tag in tags.tags}


def match_condition_keys(conditions: ReadConditions | WriteConditions) -> ConditionKeys:
    """The ETags of a conditional request."""
    condition_keys: ConditionKeys = {}
    if conditions.if_match is not None:
        condition_keys["s3:if-match"] = conditions.if_match
    if conditions.if_none_match is not None:
        condition_keys["s3:if-none-match"] = conditions.if_none_match
    return condition_keys


def lock_condition_keys(retention: Retention | None, legal_hold: bool | None, now_ms: int) -> ConditionKeys:
    """The object lock that a request sets on a version."""
    condition_keys: ConditionKeys = {}
    if retention is not None:
        condition_keys["s3:object-lock-mode"] = retention.mode
        condition_keys["s3:object-lock-retain-until-date"] = datetime.fromtimestamp(
            retention.until_ms / 1000, UTC
        ).isoformat()
        # Rounded up, so that the duration of the request does not shorten a requested retention of ten days.
        condition_keys["s3:object-lock-remaining-retention-days"] = str(-((now_ms - retention.until_ms) // _DAY_MS))
    if legal_hold is not None:
        condition_keys["s3:object-lock-legal-hold"] = LegalHold.ON if legal_hold else LegalHold.OFF
    return condition_keys


def creation_condition_keys(*, creates: bool) -> ConditionKeys:
    """Whether a write creates an object. CreateMultipartUpload and UploadPart do not."""
    return {"s3:ObjectCreationOperation": "true" if creates else "false"}
