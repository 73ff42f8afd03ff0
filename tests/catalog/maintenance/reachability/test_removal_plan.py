"""Invariant: no file that a retained snapshot refers to is ever a candidate."""

from __future__ import annotations

import asyncio
import json

import pytest
from hypothesis import given
from hypothesis import strategies as st

from lakebed.catalog.maintenance.reachability import survey as survey_module
from lakebed.catalog.maintenance.reachability.files import GraphStatus, ObjectReport, ObjectState, Reason
from lakebed.catalog.maintenance.reachability.removal_plan import RemovalPlan
from lakebed.catalog.maintenance.reachability.survey import Surveyor
from tests.catalog.maintenance.histories import History, histories
from tests.iceberg.manifests.avro_files import a_file

retained = st.integers(0, 4)
windows = st.integers(0, 1500)


def survey(history: History, retain_recent: int, window_ms: int) -> RemovalPlan:
    surveyor = Surveyor(history.reader, history.files)
    return asyncio.run(
        surveyor.plan(
            history.known, history.table, retain_recent=retain_recent, watermark_ms=history.now_ms - window_ms
        )
    )


def decided(plan: RemovalPlan) -> dict[str, ObjectReport]:
    return {
        report.location: report
        for reports in (plan.retained, plan.metadata, plan.referenced, plan.objects)
        for report in reports
    }


@given(histories(), retained, windows)
def test_plan_agrees_with_the_history_of_writes(history: History, retain_recent: int, window_ms: int) -> None:
    plan = survey(history, retain_recent, window_ms)
    watermark_ms = history.now_ms - window_ms
    assert plan.graph.status is GraphStatus.COMPLETE, plan.graph.problems
    found = decided(plan)
    assert set(found) == set(history.files.facts)
    counting = history.counting(retain_recent=retain_recent, watermark_ms=watermark_ms)
    expected = {
        location: ObjectState.RETAINED
        if location in counting
        else ObjectState.PENDING_SAFETY_WINDOW
        if facts.modified_ms > watermark_ms
        else ObjectState.DELETABLE
        for location, facts in history.files.facts.items()
    }
    current = history.versions[-1]
    named = {one["snapshot-id"] for one in history.document["refs"].values()}
    protected = named - {history.document.get("current-snapshot-id")}
    log = {one["metadata-file"] for one in history.document["metadata-log"]}
    for position, version in enumerate(reversed(history.versions)):
        stays = (
            version is current or version.location in log or position < retain_recent or version.snapshots & protected
        )
        young = max(history.files.facts[version.location].modified_ms, history.replaced.get(version.location, 0))
        expected[version.location] = (
            ObjectState.RETAINED
            if stays
            else ObjectState.PENDING_SAFETY_WINDOW
            if young > watermark_ms
            else ObjectState.DELETABLE
        )
    assert {location: report.state for location, report in found.items()} == expected
    # Waiting changes something exactly if a file is young.
    later = survey(_later(history), retain_recent, window_ms)
    grows = {one.location for one in later.deletable} - {one.location for one in plan.deletable}
    assert plan.has_pending or not grows


def _later(history: History) -> History:
    history.wait(10_000)
    return history


@given(histories(), retained, windows, st.integers(0, 100), st.sampled_from(["missing", "garbage", "cut"]))
def test_no_data_is_removed_while_a_reference_is_unknown(
    history: History, retain_recent: int, window_ms: int, which: int, damage: str
) -> None:
    watermark_ms = history.now_ms - window_ms
    counting = history.counting(retain_recent=retain_recent, watermark_ms=watermark_ms)
    manifests = sorted(location for location in counting if location.endswith(".avro"))
    if not manifests:
        return
    location = manifests[which % len(manifests)]
    if damage == "missing":
        history.files.remove(location)
    else:
        content = history.files.contents[location]
        history.files.contents[location] = b"no avro" if damage == "garbage" else content[: len(content) // 2]
    plan = survey(history, retain_recent, window_ms)
    assert plan.graph.status is GraphStatus.MANUAL_REVIEW_REQUIRED
    assert location in {problem.location for problem in plan.graph.problems}
    assert {report.state for report in plan.objects} <= {ObjectState.MANUAL_REVIEW_REQUIRED}
    assert all(report.location not in counting for report in plan.deletable)


@given(histories(), windows)
def test_missing_data_file_stops_the_removal(history: History, window_ms: int) -> None:
    counting = history.counting(retain_recent=0, watermark_ms=history.now_ms - window_ms)
    data = sorted(location for location in counting if location.endswith(".parquet"))
    if not data:
        return
    history.files.remove(data[0])
    plan = survey(history, 0, window_ms)
    assert plan.graph.reasons == (Reason.MISSING_OBJECT,)
    assert not [report for report in plan.objects if report.state is ObjectState.DELETABLE]


@given(histories())
def test_unreadable_metadata_files_are_kept_and_stop_the_removal(history: History) -> None:
    history.put("metadata/00000-x.metadata.json", b"{}")
    history.stray("data")
    history.wait(100_000)
    plan = survey(history, 0, 10)
    found = decided(plan)[f"{history.known.entry.location}/metadata/00000-x.metadata.json"]
    assert (found.state, found.reasons) == (ObjectState.MANUAL_REVIEW_REQUIRED, (Reason.UNREADABLE_METADATA,))
    assert plan.graph.reasons == (Reason.UNREADABLE_METADATA,)
    assert not [report for report in plan.objects if report.state is ObjectState.DELETABLE]


@given(histories())
def test_gc_disabled_table_loses_nothing(history: History) -> None:
    history.document["properties"] = {"gc.enabled": "false"}
    history.commit()
    history.stray("data")
    history.wait(100_000)
    plan = survey(history, 0, 10)
    assert Reason.GC_DISABLED in plan.graph.reasons
    assert plan.deletable == []


def test_files_of_a_rolled_back_metadata_file_are_kept_for_the_window() -> None:
    history = History(log_size=2)
    history.append("main", 0)
    history.append("main", 0)
    history.wait(10_000)
    newest = history.versions.pop()
    history.replaced[newest.location] = history.now_ms
    history.replaced.pop(history.versions[-1].location, None)
    plan = survey(history, 0, 1000)
    assert decided(plan)[newest.location].state is ObjectState.PENDING_SAFETY_WINDOW
    assert all(
        decided(plan)[location].state is ObjectState.RETAINED for location in history.refers[max(history.refers)]
    )
    history.wait(2000)
    gone = {report.location for report in survey(history, 0, 1000).deletable}
    assert newest.location in gone
    assert gone & history.refers[max(history.refers)]


def test_files_of_expired_snapshots_are_removable_although_the_log_names_them() -> None:
    history = History(log_size=100)
    history.append("main", 0)
    history.append("main", 0)
    history.merge("main", 0)
    history.expire_all()
    let_go = set.union(*history.refers.values()) - history.refers[max(history.refers)]
    data = {location for location in let_go if location.endswith(".parquet")}
    assert data
    assert survey(history, 0, 1000).deletable == []
    assert survey(history, 0, 1000).has_pending
    history.wait(2000)
    plan = survey(history, 0, 1000)
    assert {report.location for report in plan.deletable} == let_go
    assert len(plan.retained) == len(history.versions)
    # Files that a request retains stay readable, with all files that they refer to.
    assert survey(history, len(history.versions), 1000).deletable == []


def test_table_with_another_writer_is_skipped() -> None:
    history = History()
    history.append("main", 0)
    ahead = {**history.document, "last-updated-ms": history.now_ms + 10}
    location = history.put("metadata/v9.metadata.json", json.dumps(ahead).encode())
    history.stray("data")
    history.wait(100_000)
    plan = survey(history, 0, 1000)
    found = decided(plan)[location]
    assert (found.state, found.reasons) == (ObjectState.MANUAL_REVIEW_REQUIRED, (Reason.NEWER_THAN_CURRENT,))
    assert plan.deletable == []
    history.put("metadata/v0.metadata.json", json.dumps({**ahead, "last-updated-ms": 1}).encode())
    history.wait(100_000)
    assert survey(history, 0, 1000).deletable == []
    # A restored copy, or another table's file, belongs to no writer.
    history.files.contents[location] = json.dumps({**ahead, "last-updated-ms": 1}).encode()
    assert location in {report.location for report in survey(history, 0, 1000).deletable}
    other = {**ahead, "table-uuid": "00000000-0000-0000-0000-000000000000"}
    history.files.contents[location] = json.dumps(other).encode()
    assert location in {report.location for report in survey(history, 0, 1000).deletable}


def test_excess_metadata_files_are_left_to_the_next_plan(monkeypatch: pytest.MonkeyPatch) -> None:
    history = History(log_size=1)
    for _ in range(6):
        history.commit()
    history.wait(10_000)
    monkeypatch.setattr(survey_module, "MAX_UNLISTED", 3)
    plan = survey(history, 0, 1000)
    assert (len(plan.deletable), plan.is_partial, plan.has_pending) == (3, True, True)
    # the oldest first
    assert [report.location for report in plan.deletable] == [version.location for version in history.versions[:3]]
    for report in plan.deletable:
        history.files.remove(report.location)
    rest = survey(history, 0, 1000)
    assert (len(rest.deletable), rest.is_partial) == (2, False)


def test_too_many_metadata_files_to_read_stop_the_removal(monkeypatch: pytest.MonkeyPatch) -> None:
    history = History(log_size=1)
    history.stray("data")
    history.wait(10_000)
    for _ in range(6):
        history.commit()
    monkeypatch.setattr(survey_module, "MAX_METADATA_READ", 3)
    plan = survey(history, 0, 1000)
    assert plan.graph.reasons == (Reason.TOO_MANY_FILES,)
    assert not [report for report in plan.objects if report.state is ObjectState.DELETABLE]
    history.wait(10_000)
    assert survey(history, 0, 1000).graph.status is GraphStatus.COMPLETE


def test_references_outside_the_table_directories_are_checked() -> None:
    history = History()
    history.append("main", 0)
    # A registered table may read files elsewhere.
    file = a_file("s3://lake/elsewhere/a.parquet", file_size_in_bytes=100)
    history.files.put(file.file_path, 100, history.now_ms)
    line = history.manifest(77, [file], 1, 0)
    history.snapshot("main", [(line, [file]), *history.head("main")], 77)
    history.wait(10_000)
    plan = survey(history, 0, 1000)
    assert plan.graph.status is GraphStatus.COMPLETE
    assert file.file_path in history.files.stats
    assert file.file_path not in decided(plan)
    history.files.remove(file.file_path)
    assert survey(history, 0, 1000).graph.reasons == (Reason.MISSING_OBJECT,)


def test_recent_metadata_file_outside_the_directories_keeps_its_files() -> None:
    history = History(log_size=1)
    history.append("main", 0)
    kept = set(history.refers[max(history.refers)])
    outside = "s3://lake/elsewhere/0.metadata.json"
    history.files.put(outside, history.files.contents[history.versions[-1].location], history.now_ms)
    history.document |= {"snapshots": [], "refs": {}, "current-snapshot-id": -1}
    history.commit()
    history.files.remove(history.versions[-2].location)
    history.wait(10_000)
    history.replaced.clear()
    history.replaced[outside] = history.now_ms
    plan = survey(history, 0, 1000)
    assert plan.has_pending
    assert all(decided(plan)[location].state is ObjectState.RETAINED for location in kept)
    history.wait(10_000)
    assert {report.location for report in survey(history, 0, 1000).deletable} >= kept
