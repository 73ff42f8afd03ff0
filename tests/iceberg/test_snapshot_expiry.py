from __future__ import annotations

import pytest
from hypothesis import given
from hypothesis import strategies as st

from lakebed.iceberg.snapshot_expiry import (
    MAIN,
    ExpirySnapshot,
    RetainedBy,
    RetentionLimits,
    SnapshotRef,
    expire_snapshots,
    is_gc_enabled,
    retention_limits,
)

NOW = 1_000_000


def line(count: int, step: int = 100) -> list[ExpirySnapshot]:
    """A line of snapshots; the last one was just created."""
    return [
        ExpirySnapshot(one, one - 1 if one > 1 else None, NOW - (count - one) * step) for one in range(1, count + 1)
    ]


def main(snapshot: int, **limits: int) -> SnapshotRef:
    return SnapshotRef(MAIN, True, snapshot, **limits)


def test_young_and_newest_snapshots_are_kept() -> None:
    snapshots = line(6)
    assert expire_snapshots(snapshots, [main(6)], RetentionLimits(1, 250), NOW).snapshots == (1, 2, 3)
    assert expire_snapshots(snapshots, [main(6)], RetentionLimits(5, 250), NOW).snapshots == (1,)
    assert expire_snapshots(snapshots, [main(6)], RetentionLimits(1, 10_000), NOW).snapshots == ()


def test_branch_limits_override_requested_ones() -> None:
    assert expire_snapshots(line(4), [main(4, min_snapshots=3)], RetentionLimits(1, 0), NOW).snapshots == (1,)
    assert expire_snapshots(line(4), [main(4, max_age_ms=10_000)], RetentionLimits(1, 0), NOW).snapshots == ()


def test_tag_keeps_only_its_snapshot() -> None:
    found = expire_snapshots(line(4), [main(4), SnapshotRef("v1", False, 2)], RetentionLimits(1, 0), NOW)
    assert found.snapshots == (1, 3)


def test_old_references_expire_except_main() -> None:
    old = SnapshotRef("old", False, 1)
    kept = SnapshotRef("kept", False, 2, max_ref_age_ms=10_000)
    found = expire_snapshots(line(4), [main(1), old, kept], RetentionLimits(1, 0, max_ref_age_ms=150), NOW)
    assert found.refs == (old,)
    assert 1 not in found.snapshots


def test_unreferenced_snapshot_is_kept_while_young() -> None:
    snapshots = [*line(2), ExpirySnapshot(9, None, NOW - 10), ExpirySnapshot(8, None, NOW - 500)]
    assert expire_snapshots(snapshots, [main(2)], RetentionLimits(1, 200), NOW).snapshots == (8,)


def test_table_properties_are_a_lower_bound() -> None:
    properties = {"history.expire.min-snapshots-to-keep": "5", "history.expire.max-snapshot-age-ms": "1000"}
    assert retention_limits(properties, min_snapshots=2, max_age_ms=0) == (RetentionLimits(5, 1000), ())
    found = retention_limits(properties, min_snapshots=7, max_ref_age_ms=3)
    assert found == (RetentionLimits(7, 1000, 3), ())
    longer = retention_limits({"history.expire.max-ref-age-ms": "9"}, max_ref_age_ms=3)
    assert longer == (RetentionLimits(1, 432_000_000, 9), ())
    assert retention_limits({}) == (RetentionLimits(1, 432_000_000), ())


@pytest.mark.parametrize("text", ["many", "-1", "", "1.5", "9" * 19])
def test_invalid_properties_are_reported(text: str) -> None:
    for name in (
        "history.expire.min-snapshots-to-keep",
        "history.expire.max-snapshot-age-ms",
        "history.expire.max-ref-age-ms",
    ):
        assert retention_limits({name: text}) == (RetentionLimits(1, 432_000_000), (name,))


@pytest.mark.parametrize(
    ("properties", "is_enabled"),
    [({}, True), ({"gc.enabled": "true"}, True), ({"gc.enabled": " False "}, False), ({"gc.enabled": "no"}, True)],
)
def test_only_false_disables_garbage_collection(properties: dict[str, str], is_enabled: bool) -> None:
    assert is_gc_enabled(properties) is is_enabled


def test_retained_snapshots_have_reasons() -> None:
    snapshots = [*line(5), ExpirySnapshot(9, None, NOW - 10)]
    refs = [main(5), SnapshotRef("v1", False, 1)]
    assert expire_snapshots(snapshots, refs, RetentionLimits(2, 200), NOW).retained == {
        5: (RetainedBy.CURRENT_SNAPSHOT, RetainedBy.MIN_SNAPSHOTS_TO_KEEP),
        4: (RetainedBy.MIN_SNAPSHOTS_TO_KEEP,),
        3: (RetainedBy.SNAPSHOT_AGE_WITHIN_RETENTION,),
        1: (RetainedBy.PROTECTED_SNAPSHOT_REF,),
        9: (RetainedBy.SNAPSHOT_AGE_WITHIN_RETENTION,),
    }


def test_missing_or_cyclic_ancestors_end_the_line() -> None:
    gone = [ExpirySnapshot(2, 1, NOW)]
    assert expire_snapshots(gone, [main(2)], RetentionLimits(9, 0), NOW).snapshots == ()
    cycle = [ExpirySnapshot(1, 2, NOW), ExpirySnapshot(2, 1, NOW)]
    assert expire_snapshots(cycle, [main(2)], RetentionLimits(9, 0), NOW).snapshots == ()
    missing = SnapshotRef("gone", True, 7, max_ref_age_ms=1)
    assert expire_snapshots(gone, [main(2), missing], RetentionLimits(1, 0), NOW).refs == ()


@given(
    parents=st.lists(st.integers(0, 20), min_size=1, max_size=20),
    names=st.lists(st.tuples(st.integers(0, 19), st.booleans()), max_size=4),
    least=st.integers(1, 5),
    age=st.integers(0, 500),
    ref_age=st.none() | st.integers(1, 500),
)
def test_snapshots_within_the_limits_of_a_reference_never_expire(
    parents: list[int], names: list[tuple[int, bool]], least: int, age: int, ref_age: int | None
) -> None:
    snapshots = [
        ExpirySnapshot(index + 1, min(parent, index) or None, NOW - (len(parents) - index) * 37)
        for index, parent in enumerate(parents)
    ]
    references = [main(len(parents))] + [
        SnapshotRef(f"r{number}", is_branch, at % len(parents) + 1) for number, (at, is_branch) in enumerate(names)
    ]
    found = expire_snapshots(snapshots, references, RetentionLimits(least, age, ref_age), NOW)
    assert main(len(parents)) not in found.refs
    by_id = {one.id: one for one in snapshots}
    for reference in references:
        if reference in found.refs:
            continue
        assert reference.snapshot not in found.snapshots
        at: int | None = reference.snapshot
        for _ in range(least if reference.is_branch else 1):
            if at is None:
                break
            assert at not in found.snapshots
            at = by_id[at].parent
    young = {one.id for one in snapshots if NOW - one.committed_ms <= age}
    assert not young & set(found.snapshots) or any(one.is_branch for one in references)
