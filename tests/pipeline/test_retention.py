from __future__ import annotations

from hypothesis import given
from hypothesis import strategies as st

from lakebed.pipeline.retention import MAIN, Limits, Reference, Snapshot, expired, limits_of

NOW = 1_000_000


def line(count: int, step: int = 100) -> list[Snapshot]:
    """So many snapshots, each made from the one before; the last is just made."""
    return [Snapshot(one, one - 1 if one > 1 else None, NOW - (count - one) * step) for one in range(1, count + 1)]


def main(snapshot: int, **limits: int) -> Reference:
    return Reference(MAIN, True, snapshot, **limits)


def test_young_ones_and_the_last_few_are_kept() -> None:
    snapshots = line(6)
    assert expired(snapshots, [main(6)], Limits(1, 250), NOW).snapshots == (1, 2, 3)
    assert expired(snapshots, [main(6)], Limits(5, 250), NOW).snapshots == (1,)
    assert expired(snapshots, [main(6)], Limits(1, 10_000), NOW).snapshots == ()


def test_limits_of_a_branch_come_before_those_asked_for() -> None:
    assert expired(line(4), [main(4, min_snapshots=3)], Limits(1, 0), NOW).snapshots == (1,)
    assert expired(line(4), [main(4, max_age_ms=10_000)], Limits(1, 0), NOW).snapshots == ()


def test_tag_keeps_one_snapshot_and_no_line() -> None:
    found = expired(line(4), [main(4), Reference("v1", False, 2)], Limits(1, 0), NOW)
    assert found.snapshots == (1, 3)


def test_old_names_go_and_main_does_not() -> None:
    old = Reference("old", False, 1)
    kept = Reference("kept", False, 2, max_ref_age_ms=10_000)
    found = expired(line(4), [main(1), old, kept], Limits(1, 0, max_ref_age_ms=150), NOW)
    assert found.references == (old,)
    assert 1 not in found.snapshots


def test_snapshot_that_no_name_leads_to_is_kept_while_it_is_young() -> None:
    snapshots = [*line(2), Snapshot(9, None, NOW - 10), Snapshot(8, None, NOW - 500)]
    assert expired(snapshots, [main(2)], Limits(1, 200), NOW).snapshots == (8,)


def test_properties_of_the_table_are_a_floor() -> None:
    properties = {"history.expire.min-snapshots-to-keep": "5", "history.expire.max-snapshot-age-ms": "1000"}
    assert limits_of(properties, min_snapshots=2, max_age_ms=0, max_ref_age_ms=None) == Limits(5, 1000)
    assert limits_of(properties, min_snapshots=7, max_age_ms=None, max_ref_age_ms=3) == Limits(7, 1000, 3)
    assert limits_of({}, min_snapshots=None, max_age_ms=None, max_ref_age_ms=None) == Limits(1, 432_000_000)


@given(
    parents=st.lists(st.integers(0, 20), min_size=1, max_size=20),
    names=st.lists(st.tuples(st.integers(0, 19), st.booleans()), max_size=4),
    least=st.integers(1, 5),
    age=st.integers(0, 500),
    ref_age=st.none() | st.integers(1, 500),
)
def test_what_a_kept_name_leads_to_within_its_limits_is_never_expired(
    parents: list[int], names: list[tuple[int, bool]], least: int, age: int, ref_age: int | None
) -> None:
    snapshots = [
        Snapshot(index + 1, min(parent, index) or None, NOW - (len(parents) - index) * 37)
        for index, parent in enumerate(parents)
    ]
    references = [main(len(parents))] + [
        Reference(f"r{number}", is_branch, at % len(parents) + 1) for number, (at, is_branch) in enumerate(names)
    ]
    found = expired(snapshots, references, Limits(least, age, ref_age), NOW)
    assert main(len(parents)) not in found.references
    by_id = {one.id: one for one in snapshots}
    for reference in references:
        if reference in found.references:
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
