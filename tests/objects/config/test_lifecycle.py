from __future__ import annotations

import pytest

from lakebed.core.errors import InvalidInput, InvalidTag
from lakebed.objects.config.lifecycle import (
    Expiration,
    LifecycleConfiguration,
    LifecycleFilter,
    LifecycleRule,
    NoncurrentExpiration,
)
from lakebed.objects.config.tagging import NO_TAGS, Tag, TagSet

A1 = Tag("a", "1")


def rule(
    rule_id: str = "r", conditions: LifecycleFilter | None = None, days: int = 1, enabled: bool = True
) -> LifecycleRule:
    return LifecycleRule(rule_id, enabled, conditions or LifecycleFilter(), Expiration(days=days))


def test_all_conditions_of_a_filter_must_match() -> None:
    conditions = LifecycleFilter("p/", (A1,), 10, 20)
    tags = TagSet((A1, Tag("b", "2")))
    assert conditions.matches("p/k", 15, tags)
    assert not conditions.matches("q/k", 15, tags)
    assert not conditions.matches("p/k", 10, tags)
    assert not conditions.matches("p/k", 20, tags)
    assert not conditions.matches("p/k", 15, NO_TAGS)


def test_empty_filter_matches_every_object() -> None:
    for conditions in (LifecycleFilter(), LifecycleFilter("")):
        assert conditions.matches("any", 0, NO_TAGS)
        assert not conditions.has_object_conditions


def test_conditions_are_counted() -> None:
    assert LifecycleFilter().conditions == 0
    assert LifecycleFilter("").conditions == 1
    assert LifecycleFilter("p", (A1, Tag("b", "")), 1, 2).conditions == 5


@pytest.mark.parametrize(("larger", "smaller"), [(-1, None), (None, 0), (5, 5), (6, 5)])
def test_impossible_sizes_are_rejected(larger: int | None, smaller: int | None) -> None:
    with pytest.raises(InvalidInput):
        LifecycleFilter(larger_than_bytes=larger, smaller_than_bytes=smaller)


def test_filter_cannot_repeat_a_tag() -> None:
    with pytest.raises(InvalidTag):
        LifecycleFilter(tags=(A1, Tag("a", "2")))


def test_expiration_requires_exactly_one_of_days_date_and_marker() -> None:
    for choices in ({}, {"days": 1, "at_ms": 0}, {"days": 1, "delete_markers": True}):
        with pytest.raises(InvalidInput, match="exactly one"):
            Expiration(**choices)  # type: ignore[arg-type]  # keyword arguments of two types


@pytest.mark.parametrize("days", [0, -1, 2**31])
def test_days_are_positive_and_bounded(days: int) -> None:
    for make in (lambda: Expiration(days=days), lambda: NoncurrentExpiration(days)):
        with pytest.raises(InvalidInput) as refused:
            make()
        assert refused.value.argument in ("Days", "NoncurrentDays")
    with pytest.raises(InvalidInput):
        LifecycleRule("r", True, LifecycleFilter(), abort_uploads_after_days=days)


def test_dates_must_be_midnights() -> None:
    assert Expiration(at_ms=86_400_000).at_ms == 86_400_000
    with pytest.raises(InvalidInput, match="midnight"):
        Expiration(at_ms=86_400_001)


@pytest.mark.parametrize("kept", [0, 101])
def test_number_of_kept_versions_is_bounded(kept: int) -> None:
    with pytest.raises(InvalidInput) as refused:
        NoncurrentExpiration(1, kept)
    assert refused.value.argument == "NewerNoncurrentVersions"


def test_rule_requires_an_action() -> None:
    with pytest.raises(InvalidInput, match="at least one action"):
        LifecycleRule("r", True, LifecycleFilter())


@pytest.mark.parametrize("conditions", [LifecycleFilter(tags=(A1,)), LifecycleFilter(larger_than_bytes=1)])
def test_uploads_and_markers_cannot_be_filtered_by_tags_or_size(conditions: LifecycleFilter) -> None:
    with pytest.raises(InvalidInput, match="uploads"):
        LifecycleRule("r", True, conditions, abort_uploads_after_days=1)
    with pytest.raises(InvalidInput, match="markers"):
        LifecycleRule("r", True, conditions, Expiration(delete_markers=True))


def test_ids_are_bounded_and_unique() -> None:
    assert rule("x" * 255).id == "x" * 255
    for wrong in ("", "x" * 256):
        with pytest.raises(InvalidInput) as refused:
            rule(wrong)
        assert refused.value.argument == "ID"
    with pytest.raises(InvalidInput, match="repeated") as refused:
        LifecycleConfiguration((rule("a"), rule("a")))
    assert refused.value.argument == "ID"


def test_configuration_has_one_to_a_thousand_rules() -> None:
    assert len(LifecycleConfiguration(tuple(rule(str(n)) for n in range(1000))).rules) == 1000
    for wrong in (0, 1001):
        with pytest.raises(InvalidInput, match=f"count={wrong}"):
            LifecycleConfiguration(tuple(rule(str(n)) for n in range(wrong)))
