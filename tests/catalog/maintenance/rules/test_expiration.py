from __future__ import annotations

import json
from typing import Any

import msgspec
import pytest
from hypothesis import given
from hypothesis import strategies as st

from lakebed.catalog.maintenance.rules import expiration
from lakebed.catalog.maintenance.rules.expiration import (
    ExpirationReport,
    ExpirationRequest,
    ExpirationStatus,
    SnapshotState,
    expiration_updates,
    plan_expiration,
)
from lakebed.core.errors import InvalidInput
from lakebed.iceberg import snapshot_expiry
from lakebed.iceberg.commits import build_table, parse_table_updates
from lakebed.iceberg.metadata import TableMetadata, parse_table
from tests.catalog.validation.lake import Lake

NOW = 1_000_000


def a_table(
    times: list[tuple[int, int | None]],
    refs: dict[str, dict[str, Any]],
    current: int | None,
    properties: dict[str, str] | None = None,
) -> TableMetadata:
    """A table whose snapshots 1, 2, … have these times and parents."""
    document = dict(Lake().document)
    del document["next-row-id"]
    document["snapshots"] = [
        {
            "snapshot-id": number,
            "timestamp-ms": time,
            "sequence-number": number,
            "manifest-list": f"s3://lake/t/metadata/snap-{number}.avro",
            "summary": {"operation": "append"},
            **({} if parent is None else {"parent-snapshot-id": parent}),
        }
        for number, (time, parent) in enumerate(times, 1)
    ]
    document["last-sequence-number"] = len(times)
    document["properties"] = properties or {}
    if current is not None:
        document["current-snapshot-id"] = current
        refs = {"main": {"snapshot-id": current, "type": "branch"}, **refs}
    document["refs"] = refs
    return parse_table(json.dumps(document).encode())


def line(*times: int) -> list[tuple[int, int | None]]:
    return [(time, number or None) for number, time in enumerate(times)]


def plan(table: TableMetadata, least: int = 1, age_ms: int = 0) -> ExpirationReport:
    request = ExpirationRequest(min_snapshots_to_keep=least, max_snapshot_age_ms=age_ms)
    return plan_expiration(table, request, NOW)


def reasons(report: ExpirationReport) -> dict[int, tuple[str, ...]]:
    return {one.snapshot_id: one.reasons for one in report.snapshots}


def test_branch_keeps_its_newest_snapshots() -> None:
    table = a_table(line(100, 200, 300, 400), {}, 4)
    assert plan(table).candidates == (1, 2, 3)
    assert plan(table, least=3).candidates == (1,)
    assert plan(table, least=99).status is ExpirationStatus.NO_CANDIDATES
    assert reasons(plan(table, least=2)) == {
        1: ("SNAPSHOT_AGE_EXPIRED",),
        2: ("SNAPSHOT_AGE_EXPIRED",),
        3: ("MIN_SNAPSHOTS_TO_KEEP",),
        4: ("CURRENT_SNAPSHOT", "MIN_SNAPSHOTS_TO_KEEP"),
    }


def test_branch_keeps_young_snapshots_without_gaps() -> None:
    table = a_table(line(NOW - 10, NOW - 50, NOW - 20, NOW - 5), {}, 4)
    report = plan(table, age_ms=30)
    # 1 is young, but behind 2, which expires.
    assert report.candidates == (1, 2)
    assert reasons(report)[3] == ("SNAPSHOT_AGE_WITHIN_RETENTION",)
    assert plan(table, age_ms=50).candidates == ()


def test_tag_keeps_its_snapshot_only() -> None:
    table = a_table(line(1, 2, 3, 4), {"v1": {"snapshot-id": 2, "type": "tag"}}, 4)
    report = plan(table)
    assert report.candidates == (1, 3)
    assert reasons(report)[2] == ("PROTECTED_SNAPSHOT_REF",)


def test_branch_limits_override_the_request() -> None:
    refs = {
        "audit": {"snapshot-id": 3, "type": "branch", "min-snapshots-to-keep": 2},
        "slow": {"snapshot-id": 2, "type": "branch", "max-snapshot-age-ms": NOW},
    }
    table = a_table([(1, None), (2, 1), (3, 1), (4, 3)], refs, 4)
    assert plan(table).candidates == ()
    assert plan(a_table([(1, None), (2, 1), (3, 1), (4, 3)], {"audit": refs["audit"]}, 4)).candidates == (2,)


def test_references_expire_by_age_and_main_never() -> None:
    refs = {"old": {"snapshot-id": 1, "type": "tag", "max-ref-age-ms": 10}}
    report = plan(a_table(line(100, 200), refs, 2))
    assert report.expired_refs == ("old",)
    assert report.candidates == (1,)
    properties = {snapshot_expiry.MAX_REF_AGE: "10"}
    plain = {"kept": {"snapshot-id": 1, "type": "tag", "max-ref-age-ms": NOW}, "old": {"snapshot-id": 1, "type": "tag"}}
    report = plan(a_table(line(100, 200), plain, 2, properties))
    assert report.expired_refs == ("old",)
    assert report.candidates == ()


@pytest.mark.parametrize(("limit", "expired"), [(None, ()), (10, ("old",)), (NOW, ())])
def test_max_ref_age_applies_to_references_without_their_own(limit: int | None, expired: tuple[str, ...]) -> None:
    refs = {"kept": {"snapshot-id": 1, "type": "tag", "max-ref-age-ms": NOW}, "old": {"snapshot-id": 1, "type": "tag"}}
    request = ExpirationRequest(min_snapshots_to_keep=1, max_snapshot_age_ms=NOW)
    report = plan_expiration(a_table(line(100, 200), refs, 2), request, NOW, max_ref_age_ms=limit)
    assert report.expired_refs == expired
    # The table property is a lower bound, as for snapshots.
    longer = a_table(line(100, 200), refs, 2, {snapshot_expiry.MAX_REF_AGE: str(NOW)})
    assert plan_expiration(longer, request, NOW, max_ref_age_ms=limit).expired_refs == ()


def test_unreferenced_snapshot_is_kept_while_young() -> None:
    table = a_table([(1, None), (NOW - 5, 1), (NOW - 50, 1), (NOW, 1)], {}, 4)
    assert plan(table, age_ms=10).candidates == (1, 3)
    assert plan(table, age_ms=0).candidates == (1, 2, 3)


def test_table_properties_are_a_lower_bound() -> None:
    properties = {snapshot_expiry.MIN_SNAPSHOTS: "3", snapshot_expiry.MAX_SNAPSHOT_AGE: "5"}
    table = a_table(line(1, 2, 3, 4), {}, 4, properties)
    report = plan(table)
    assert (report.min_snapshots_to_keep, report.max_snapshot_age_ms) == (3, 5)
    assert report.candidates == (1,)
    assert plan(table, least=4, age_ms=6).candidates == ()


def test_table_without_references_keeps_its_current_snapshot() -> None:
    document = json.loads(json.dumps(Lake().document))
    del document["next-row-id"]
    document["snapshots"] = [
        {"snapshot-id": 1, "timestamp-ms": 1, "manifest-list": "s3://lake/t/metadata/a.avro", "summary": {}},
        {"snapshot-id": 2, "timestamp-ms": 2, "manifest-list": "s3://lake/t/metadata/b.avro", "parent-snapshot-id": 1},
    ]
    document["current-snapshot-id"] = 2
    report = plan(parse_table(json.dumps(document).encode()))
    assert report.candidates == (1,)


@pytest.mark.parametrize(
    ("properties", "refs", "reason"),
    [
        ({snapshot_expiry.MIN_SNAPSHOTS: "many"}, {}, expiration.TABLE_RETENTION_PROPERTY_CONFLICT),
        ({snapshot_expiry.MAX_REF_AGE: "-1"}, {}, expiration.TABLE_RETENTION_PROPERTY_CONFLICT),
        ({"gc.enabled": "False"}, {}, expiration.GC_DISABLED),
        (
            {},
            {"t": {"snapshot-id": 1, "type": "tag", "min-snapshots-to-keep": 2}},
            expiration.SNAPSHOT_REF_RETENTION_CONFLICT,
        ),
    ],
)
def test_invalid_properties_require_manual_review(
    properties: dict[str, str], refs: dict[str, Any], reason: str
) -> None:
    report = plan(a_table(line(1, 2, 3), refs, 3, properties))
    assert report.status is ExpirationStatus.MANUAL_REVIEW_REQUIRED
    assert report.candidates == ()
    assert report.reasons == (reason,)
    assert {one.state for one in report.snapshots} == {SnapshotState.MANUAL_REVIEW_REQUIRED}
    assert expiration_updates(report) == []


@pytest.mark.parametrize(("least", "age"), [(0, 0), (-1, 0), (1, -1)])
def test_invalid_request_is_rejected(least: int, age: int) -> None:
    with pytest.raises(InvalidInput):
        plan(a_table(line(1), {}, 1), least, age)


@st.composite
def histories(draw: st.DrawFn) -> TableMetadata:
    count = draw(st.integers(1, 8))
    times: list[tuple[int, int | None]] = []
    for number in range(1, count + 1):
        parent = draw(st.none() | st.integers(1, number - 1)) if number > 1 else None
        times.append((draw(st.integers(NOW - 100, NOW)), parent))
    refs: dict[str, dict[str, Any]] = {}
    for index in range(draw(st.integers(0, 3))):
        kind = draw(st.sampled_from(["branch", "tag"]))
        ref: dict[str, Any] = {"snapshot-id": draw(st.integers(1, count)), "type": kind}
        if draw(st.booleans()):
            ref["max-ref-age-ms"] = draw(st.integers(1, 100))
        if kind == "branch" and draw(st.booleans()):
            ref["min-snapshots-to-keep"] = draw(st.integers(1, 4))
        if kind == "branch" and draw(st.booleans()):
            ref["max-snapshot-age-ms"] = draw(st.integers(1, 100))
        refs[f"r{index}"] = ref
    properties = draw(
        st.fixed_dictionaries(
            {},
            optional={
                snapshot_expiry.MIN_SNAPSHOTS: st.integers(1, 4).map(str),
                snapshot_expiry.MAX_SNAPSHOT_AGE: st.integers(1, 100).map(str),
                snapshot_expiry.MAX_REF_AGE: st.integers(1, 100).map(str),
            },
        )
    )
    return a_table(times, refs, draw(st.none() | st.integers(1, count)), properties)


@given(histories(), st.integers(1, 4), st.integers(0, 100))
def test_plan_can_be_committed_and_keeps_retained_snapshots(table: TableMetadata, least: int, age_ms: int) -> None:
    report = plan(table, least, age_ms)
    assert {one.snapshot_id for one in report.snapshots} == set(table.snapshots)
    updates = expiration_updates(report)
    after = table
    if updates:
        parsed = parse_table_updates(msgspec.json.encode(updates))
        after = build_table(table, parsed, now_ms=NOW, new_uuid="", previous_location="s3://lake/t/metadata/0.json")
    assert after.current_snapshot_id == table.current_snapshot_id
    assert set(after.refs) == set(table.refs) - set(report.expired_refs)
    for name, ref in after.refs.items():
        assert ref.snapshot_id in after.snapshots
        if ref.type == "branch":
            kept = ref.min_snapshots_to_keep or max(least, int(table.properties.get(snapshot_expiry.MIN_SNAPSHOTS, 0)))
            before, now = _length(table, ref.snapshot_id), _length(after, ref.snapshot_id)
            assert now >= min(kept, before), name
    young_ms = max(age_ms, int(table.properties.get(snapshot_expiry.MAX_SNAPSHOT_AGE, 0)))
    referred = {ref.snapshot_id for ref in after.refs.values()}
    for snapshot_id in set(table.snapshots) - set(after.snapshots):
        assert snapshot_id not in referred
        is_ancestor = any(
            snapshot_id in _ancestors(table, ref.snapshot_id) for ref in after.refs.values() if ref.type == "branch"
        )
        assert is_ancestor or NOW - table.snapshots[snapshot_id].timestamp_ms > young_ms
    # A second plan finds nothing to expire.
    assert plan(after, least, age_ms).status is ExpirationStatus.NO_CANDIDATES


def _ancestors(table: TableMetadata, snapshot_id: int) -> list[int]:
    found: list[int] = []
    at: int | None = snapshot_id
    while at is not None and at in table.snapshots:
        found.append(at)
        at = table.snapshots[at].parent_snapshot_id
    return found


def _length(table: TableMetadata, snapshot_id: int) -> int:
    return len(_ancestors(table, snapshot_id))
