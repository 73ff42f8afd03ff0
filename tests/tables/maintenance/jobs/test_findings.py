from __future__ import annotations

from typing import Any

import msgspec
import pytest

from lakebed.tables.maintenance.jobs import findings
from lakebed.tables.maintenance.jobs.findings import findings_of, with_outcomes, with_reports
from lakebed.tables.maintenance.jobs.model import (
    ExpirationReport,
    ExpirationStatus,
    Findings,
    GraphReport,
    ObjectKind,
    ObjectReport,
    ObjectState,
    Reason,
)
from lakebed.tables.maintenance.reachability.removal_plan import Plan, plan_counts


def reports(state: ObjectState, *names: str) -> tuple[ObjectReport, ...]:
    return tuple(
        ObjectReport(location=name, kind=ObjectKind.DATA_FILE, state=state, reasons=(Reason.DATA_FILE,))
        for name in names
    )


def a_plan(**fields: Any) -> Plan:
    empty: dict[str, Any] = {"retained": (), "metadata": (), "referenced": (), "objects": ()}
    return Plan("m", 1, "token", 0, 0, graph=GraphReport(), files={}, **{**empty, **fields})


def test_lists_are_cut_and_counts_are_not(monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setattr(findings, "MAX_LISTED", 2)
    plan = a_plan(objects=reports(ObjectState.DELETABLE, "a", "b", "c"), referenced=reports(ObjectState.RETAINED, "d"))
    found = findings_of(plan)
    assert ([one.location for one in found.objects], found.truncated) == (["a", "b"], True)
    assert plan_counts(plan).deletable_objects == 3
    assert findings_of(a_plan(objects=plan.objects[:2])).truncated is False


def test_what_became_of_files_is_added_to_what_was_planned() -> None:
    found = findings_of(a_plan(objects=reports(ObjectState.DELETABLE, "a", "b")))
    after = with_outcomes(found, {"a": (ObjectState.DELETED, Reason.DELETED_BY_MAINTENANCE)})
    assert [one.state for one in after.objects] == [ObjectState.DELETED, ObjectState.DELETABLE]
    assert after.objects[0].reasons == (Reason.DATA_FILE, Reason.DELETED_BY_MAINTENANCE)


def test_of_snapshots_no_more_are_listed_than_of_files(monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setattr(findings, "MAX_LISTED", 2)
    report = ExpirationReport(
        status=ExpirationStatus.CANDIDATES, min_snapshots_to_keep=1, max_snapshot_age_ms=0, candidates=(1, 2, 3)
    )
    kept = with_reports(Findings(), report, None).expiration
    assert kept is not None
    assert kept.candidates == (1, 2)


def test_findings_are_kept_as_they_are() -> None:
    found = findings_of(
        a_plan(objects=reports(ObjectState.DELETABLE, "a"), metadata=reports(ObjectState.DELETABLE, "b"))
    )
    assert msgspec.msgpack.decode(msgspec.msgpack.encode(found), type=Findings) == found
