"""Evaluates lifecycle rules for a key at a time: when it expires, and which actions are due.

S3 counts whole days: an action is due at the first midnight (UTC) after its days have passed. `day_ms` shortens the day
for tests. A version protected by object lock may be due here; its deletion is then refused.
"""

from __future__ import annotations

from collections.abc import Iterable, Sequence
from dataclasses import dataclass
from enum import StrEnum
from typing import Final

from .lifecycle import LifecycleConfiguration, LifecycleRule
from .tagging import NO_TAGS, TagSet

__all__ = [
    "DAY_MS",
    "DueAction",
    "DueKind",
    "Expiry",
    "LifecycleVersion",
    "due_actions",
    "expires_at",
    "upload_expires_at",
]

DAY_MS: Final = 86_400_000
_END_OF_TIME_MS: Final = 253_402_214_400_000
"""The last midnight of the year 9999, the latest date that can be written."""


@dataclass(frozen=True, slots=True)
class Expiry:
    """When an object or upload expires, and by which rule."""

    at_ms: int
    rule_id: str


@dataclass(frozen=True, slots=True)
class LifecycleVersion:
    """The properties of an object version that lifecycle rules use."""

    version_id: str
    modified_ms: int
    size: int = 0
    tags: TagSet = NO_TAGS
    is_delete_marker: bool = False


class DueKind(StrEnum):
    """The kind of a due action."""

    EXPIRE_CURRENT = "expire current"
    """Delete the key as a client would: in a versioned bucket, this adds a delete marker."""

    DELETE_NONCURRENT = "delete noncurrent"
    """Delete this version permanently."""

    DELETE_MARKER = "delete marker"
    """Delete an expired object delete marker, which hides no versions."""


@dataclass(frozen=True, slots=True)
class DueAction:
    """An action that is due."""

    kind: DueKind
    version_id: str
    rule_id: str


def _days_after(start_ms: int, days: int, day_ms: int) -> int:
    """The first midnight at which `days` have passed since `start_ms`."""
    return min(-(-(start_ms + days * day_ms) // day_ms) * day_ms, _END_OF_TIME_MS)


def _earliest(candidates: Iterable[Expiry]) -> Expiry | None:
    return min(candidates, key=lambda expiry: expiry.at_ms, default=None)


def expires_at(
    config: LifecycleConfiguration, key: str, size: int, tags: TagSet, modified_ms: int, *, day_ms: int = DAY_MS
) -> Expiry | None:
    """When a current object expires, by the earliest rule; None if no rule applies."""

    def candidates() -> Iterable[Expiry]:
        for rule in config.enabled_rules:
            expiration = rule.expiration
            if expiration is None or not rule.filter.matches(key, size, tags):
                continue
            if expiration.at_ms is not None:
                yield Expiry(expiration.at_ms, rule.id)
            elif expiration.days is not None:
                yield Expiry(_days_after(modified_ms, expiration.days, day_ms), rule.id)

    return _earliest(candidates())


def upload_expires_at(
    config: LifecycleConfiguration, key: str, started_ms: int, *, day_ms: int = DAY_MS
) -> Expiry | None:
    """When an incomplete multipart upload is aborted; None if no rule applies."""
    return _earliest(
        Expiry(_days_after(started_ms, rule.abort_uploads_after_days, day_ms), rule.id)
        for rule in config.enabled_rules
        if rule.abort_uploads_after_days is not None and rule.filter.matches_key(key)
    )


def due_actions(
    config: LifecycleConfiguration,
    key: str,
    versions: Sequence[LifecycleVersion],
    now_ms: int,
    *,
    day_ms: int = DAY_MS,
) -> list[DueAction]:
    """The actions that are due now for all versions of a key, given newest first.

    A delete marker whose last noncurrent version is due is left for the next run, when it hides nothing any more.
    """
    if not versions:
        return []
    current = versions[0]
    due: list[DueAction] = []
    if not current.is_delete_marker:
        expiry = expires_at(config, key, current.size, current.tags, current.modified_ms, day_ms=day_ms)
        if expiry is not None and expiry.at_ms <= now_ms:
            due.append(DueAction(DueKind.EXPIRE_CURRENT, current.version_id, expiry.rule_id))
    elif len(versions) == 1:
        for rule in config.enabled_rules:
            if _marker_is_due(rule, key, current.modified_ms, now_ms, day_ms):
                due.append(DueAction(DueKind.DELETE_MARKER, current.version_id, rule.id))
                break
    for newer, version in enumerate(versions[1:]):
        for rule in config.enabled_rules:
            if _noncurrent_is_due(rule, key, version, newer, versions[newer].modified_ms, now_ms, day_ms):
                due.append(DueAction(DueKind.DELETE_NONCURRENT, version.version_id, rule.id))
                break
    return due


def _marker_is_due(rule: LifecycleRule, key: str, modified_ms: int, now_ms: int, day_ms: int) -> bool:
    expiration = rule.expiration
    if expiration is None or rule.filter.has_object_conditions or not rule.filter.matches_key(key):
        return False
    if expiration.days is not None:
        return _days_after(modified_ms, expiration.days, day_ms) <= now_ms
    if expiration.at_ms is not None:
        return expiration.at_ms <= now_ms
    return bool(expiration.delete_markers)


def _noncurrent_is_due(
    rule: LifecycleRule, key: str, version: LifecycleVersion, newer: int, since_ms: int, now_ms: int, day_ms: int
) -> bool:
    """Whether a version expires that has `newer` newer noncurrent versions and became noncurrent at `since_ms`."""
    noncurrent = rule.noncurrent
    if noncurrent is None or (noncurrent.keep_newest is not None and newer < noncurrent.keep_newest):
        return False
    if version.is_delete_marker:
        if rule.filter.has_object_conditions or not rule.filter.matches_key(key):
            return False
    elif not rule.filter.matches(key, version.size, version.tags):
        return False
    return _days_after(since_ms, noncurrent.days, day_ms) <= now_ms
