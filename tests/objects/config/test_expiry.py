from __future__ import annotations

import pytest
from hypothesis import given
from hypothesis import strategies as st

from lakebed.objects.config.expiry import (
    DAY_MS,
    DueAction,
    DueKind,
    Expiry,
    LifecycleVersion,
    due_actions,
    expires_at,
    upload_expires_at,
)
from lakebed.objects.config.lifecycle import (
    Expiration,
    LifecycleConfiguration,
    LifecycleFilter,
    LifecycleRule,
    NoncurrentExpiration,
)
from lakebed.objects.config.tagging import NO_TAGS, Tag, TagSet

ALL_OBJECTS = LifecycleFilter()
NOON = 20_000 * DAY_MS + DAY_MS // 2


def config(*rules: LifecycleRule) -> LifecycleConfiguration:
    return LifecycleConfiguration(rules)


def expiring(
    days: int | None = None,
    *,
    at_ms: int | None = None,
    markers: bool | None = None,
    rule_id: str = "r",
    conditions: LifecycleFilter = ALL_OBJECTS,
    enabled: bool = True,
) -> LifecycleRule:
    return LifecycleRule(rule_id, enabled, conditions, Expiration(days, at_ms, markers))


def noncurrent(days: int, keep: int | None = None, conditions: LifecycleFilter = ALL_OBJECTS) -> LifecycleRule:
    return LifecycleRule("n", True, conditions, noncurrent=NoncurrentExpiration(days, keep))


def at(rules: LifecycleConfiguration, *, key: str = "k", size: int = 1, tags: TagSet = NO_TAGS) -> Expiry | None:
    return expires_at(rules, key, size, tags, NOON)


def test_object_expires_at_the_midnight_after_its_days() -> None:
    assert at(config(expiring(1))) == Expiry(20_002 * DAY_MS, "r")
    assert expires_at(config(expiring(1)), "k", 1, NO_TAGS, 20_000 * DAY_MS) == Expiry(20_001 * DAY_MS, "r")


def test_shortened_day_applies_to_midnights() -> None:
    assert expires_at(config(expiring(2)), "k", 1, NO_TAGS, 1003, day_ms=10) == Expiry(1030, "r")


def test_earliest_rule_is_reported() -> None:
    rules = config(
        expiring(9, rule_id="late"),
        expiring(2, rule_id="soon"),
        expiring(at_ms=20_100 * DAY_MS, rule_id="dated"),
        expiring(1, rule_id="off", enabled=False),
        expiring(1, rule_id="elsewhere", conditions=LifecycleFilter("other/")),
        expiring(markers=True, rule_id="markers"),
        noncurrent(1),
    )
    assert at(rules) == Expiry(20_003 * DAY_MS, "soon")


def test_object_without_matching_rule_does_not_expire() -> None:
    tagged = LifecycleFilter(tags=(Tag("a", "1"),))
    assert at(config(expiring(1, conditions=tagged))) is None
    assert at(config(expiring(1, conditions=tagged)), tags=TagSet((Tag("a", "1"),))) is not None
    assert at(config(expiring(markers=True))) is None


def test_latest_expiry_is_a_valid_date() -> None:
    expiry = at(config(expiring(2**31 - 1)))
    assert expiry == Expiry(253_402_214_400_000, "r")


def test_uploads_expire_by_abort_rules() -> None:
    def aborting(rule_id: str, days: int, prefix: str) -> LifecycleRule:
        return LifecycleRule(rule_id, True, LifecycleFilter(prefix), abort_uploads_after_days=days)

    rules = config(aborting("a", 5, ""), aborting("b", 2, "p/"), expiring(1))
    assert upload_expires_at(rules, "p/k", NOON) == Expiry(20_003 * DAY_MS, "b")
    assert upload_expires_at(rules, "q/k", NOON) == Expiry(20_006 * DAY_MS, "a")
    assert upload_expires_at(config(expiring(1)), "p/k", NOON) is None


def due(rules: LifecycleConfiguration, versions: list[LifecycleVersion], days_later: int) -> list[tuple[str, str]]:
    actions = due_actions(rules, "k", versions, NOON + days_later * DAY_MS)
    return [(action.kind.name, action.version_id) for action in actions]


def version(name: str, age_days: int = 0, *, marker: bool = False, tags: TagSet = NO_TAGS) -> LifecycleVersion:
    return LifecycleVersion(name, NOON - age_days * DAY_MS, 1, tags, marker)


def test_current_object_is_due_after_its_days() -> None:
    rules = config(expiring(1))
    assert due(rules, [version("v")], 1) == []
    assert due(rules, [version("v")], 2) == [("EXPIRE_CURRENT", "v")]
    assert due_actions(rules, "k", [version("v")], 20_002 * DAY_MS) == [DueAction(DueKind.EXPIRE_CURRENT, "v", "r")]
    assert due_actions(rules, "k", [version("v")], 20_002 * DAY_MS - 1) == []
    assert due_actions(rules, "k", [], NOON) == []


def test_past_date_is_due_at_once() -> None:
    assert due(config(expiring(at_ms=0)), [version("v")], 0) == [("EXPIRE_CURRENT", "v")]


def test_delete_marker_with_older_versions_is_kept() -> None:
    versions = [version("m", marker=True), version("v", 1)]
    assert due(config(expiring(1)), versions, 9) == []
    assert due(config(expiring(markers=True)), versions, 9) == []


def test_expired_delete_marker_is_due() -> None:
    marker = [version("m", marker=True)]
    assert due(config(expiring(markers=True)), marker, 0) == [("DELETE_MARKER", "m")]
    assert due(config(expiring(markers=False)), marker, 9) == []
    assert due(config(expiring(2)), marker, 1) == []
    assert due(config(expiring(2)), marker, 3) == [("DELETE_MARKER", "m")]
    assert due(config(expiring(at_ms=0)), marker, 0) == [("DELETE_MARKER", "m")]
    assert due(config(expiring(1, conditions=LifecycleFilter("other"))), marker, 9) == []
    assert due(config(expiring(1, conditions=LifecycleFilter(smaller_than_bytes=9))), marker, 9) == []
    assert due(config(noncurrent(1)), marker, 9) == []


def test_noncurrent_days_count_from_the_replacement() -> None:
    # Written long ago, replaced today: the days count from today.
    versions = [version("new"), version("old", 100)]
    assert due(config(noncurrent(3)), versions, 3) == []
    assert due(config(noncurrent(3)), versions, 4) == [("DELETE_NONCURRENT", "old")]


def test_newest_noncurrent_versions_are_kept() -> None:
    versions = [version(f"v{age}", age) for age in range(5)]
    assert due(config(noncurrent(1, keep=2)), versions, 9) == [("DELETE_NONCURRENT", "v3"), ("DELETE_NONCURRENT", "v4")]
    assert len(due(config(noncurrent(1)), versions, 9)) == 4
    assert due(config(noncurrent(1, keep=4)), versions, 9) == []


def test_noncurrent_delete_markers_are_versions() -> None:
    versions = [version("v", 0), version("m", 1, marker=True)]
    assert due(config(noncurrent(1)), versions, 9) == [("DELETE_NONCURRENT", "m")]
    assert due(config(noncurrent(1, conditions=LifecycleFilter(larger_than_bytes=0))), versions, 9) == []


def test_noncurrent_versions_are_filtered_by_their_own_tags() -> None:
    wanted = TagSet((Tag("a", "1"),))
    versions = [version("now"), version("tagged", 1, tags=wanted), version("plain", 2)]
    rules = config(noncurrent(1, conditions=LifecycleFilter(tags=(Tag("a", "1"),))))
    assert due(rules, versions, 9) == [("DELETE_NONCURRENT", "tagged")]


def test_version_is_due_once_under_several_rules() -> None:
    both = LifecycleRule("both", True, ALL_OBJECTS, Expiration(days=1), NoncurrentExpiration(1))
    versions = [version("now"), version("old", 1)]
    assert due(config(both, noncurrent(1)), versions, 9) == [("EXPIRE_CURRENT", "now"), ("DELETE_NONCURRENT", "old")]


@given(
    st.integers(0, 10**6),
    st.integers(1, 1000),
    st.sampled_from([1, 10, 1000]),
)
def test_expiry_is_within_a_day_after_its_days(modified_ms: int, days: int, day_ms: int) -> None:
    expiry = expires_at(config(expiring(days)), "k", 0, NO_TAGS, modified_ms, day_ms=day_ms)
    assert expiry is not None
    assert 0 <= expiry.at_ms - (modified_ms + days * day_ms) < day_ms
    assert expiry.at_ms % day_ms == 0


@pytest.mark.parametrize("now_ms", [NOON + 2 * DAY_MS, NOON + 90 * DAY_MS])
def test_announced_expiry_matches_due_action(now_ms: int) -> None:
    rules = config(expiring(3), expiring(at_ms=20_050 * DAY_MS, rule_id="d"))
    expiry = at(rules)
    assert expiry is not None
    actions = due_actions(rules, "k", [version("v")], now_ms)
    assert [action.rule_id for action in actions] == ([expiry.rule_id] if expiry.at_ms <= now_ms else [])
