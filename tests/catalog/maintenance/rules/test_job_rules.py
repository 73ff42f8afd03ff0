from __future__ import annotations

from typing import Any

import pytest
from hypothesis import given
from hypothesis import strategies as st

from lakebed.catalog.maintenance.engine_reports import EngineSignals
from lakebed.catalog.maintenance.reachability.files import ObjectKind, Reason
from lakebed.catalog.maintenance.reachability.walking import LiveFiles, ReachabilityProblem
from lakebed.catalog.maintenance.rules.expiration import ExpirationRequest, ExpirationStatus, plan_expiration
from lakebed.catalog.maintenance.rules.job_rules import DetailLevel, JobDue, NeedsDetail, NotDue, evaluate_rule
from lakebed.core.jobs import JobKind
from lakebed.iceberg.metadata import TableMetadata
from tests.catalog.maintenance.subjects import DAY_MS, MIB, NOW_MS, a_table, lines, live, subject, totals
from tests.iceberg.manifests.avro_files import a_file

SMALL = {"target-file-size-bytes": 1000}
MISSING = ReachabilityProblem("s3://lake/t/m.avro", ObjectKind.MANIFEST_FILE, Reason.MISSING_OBJECT)
TOO_MANY = ReachabilityProblem("", ObjectKind.DATA_FILE, Reason.TOO_MANY_FILES)


def wanted(job: JobKind, *args: Any, interval_ms: int = 0, options: Any = None, **more: Any) -> JobDue:
    verdict = evaluate_rule(job, subject(*args, **more), options or {}, interval_ms)
    assert isinstance(verdict, JobDue), verdict
    return verdict


def unneeded(job: JobKind, *args: Any, interval_ms: int = 0, options: Any = None, **more: Any) -> NotDue:
    verdict = evaluate_rule(job, subject(*args, **more), options or {}, interval_ms)
    assert isinstance(verdict, NotDue), verdict
    return verdict


@pytest.mark.parametrize(
    "job",
    [
        JobKind.COMPACT,
        JobKind.REWRITE_MANIFESTS,
        JobKind.EXPIRE_SNAPSHOTS,
        JobKind.REMOVE_ORPHANS,
        JobKind.COMPUTE_STATISTICS,
        JobKind.REWRITE_LAYOUT,
    ],
)
def test_table_without_a_snapshot_needs_no_job(job: JobKind) -> None:
    assert "the table has no snapshot" in unneeded(job, a_table()).why


# -- compaction ------------------------------------------------------------------------------------------------------


def test_summary_without_small_files_or_deletes_decides() -> None:
    verdict = unneeded(JobKind.COMPACT, a_table(totals(10, 100_000)), options=SMALL)
    assert verdict.why == "0 of 10 data files are under 750 bytes"


@pytest.mark.parametrize(
    "summary",
    [
        totals(10, 1_000),
        totals(10, 100_000, total_delete_files=1, total_position_deletes=100),
        totals(10, 100_000, total_delete_files=100),
        {},
    ],
)
def test_summary_with_possible_work_requires_detail(summary: dict[str, str]) -> None:
    assert evaluate_rule(JobKind.COMPACT, subject(a_table(summary)), SMALL) == NeedsDetail(DetailLevel.FILES)


def test_small_files_of_one_partition_are_compacted() -> None:
    verdict = wanted(JobKind.COMPACT, a_table({}), options=SMALL, live=live(10, 20, 30, 40, 50, 5000))
    assert verdict.why == "5 of 6 data files are under 750 bytes"
    assert (verdict.files, verdict.size) == (5, 150)
    assert 0 < verdict.urgency <= 1


def test_small_files_of_different_partitions_are_not_compacted() -> None:
    data = [a_file(f"s3://lake/t/{number}.parquet", file_size_in_bytes=10, partition=(number,)) for number in range(6)]
    verdict = unneeded(JobKind.COMPACT, a_table({}), options=SMALL, live=LiveFiles(data, [], []))
    assert verdict.why == "6 of 6 data files are under 750 bytes, no 5 of them in one partition"


def test_policy_sets_file_size_and_count_thresholds() -> None:
    found = live(10, 20, 600)
    assert isinstance(evaluate_rule(JobKind.COMPACT, subject(a_table({}), live=found), SMALL), NotDue)
    assert wanted(JobKind.COMPACT, a_table({}), live=found, options={**SMALL, "min-input-files": 3}).files == 3
    options = {**SMALL, "min-input-files": 2, "min-file-size-bytes": 15}
    assert isinstance(evaluate_rule(JobKind.COMPACT, subject(a_table({}), live=found), options), NotDue)


def test_deletes_are_applied_from_a_tenth_of_the_rows() -> None:
    deletes = [a_file("s3://lake/t/d.parquet", content=1, record_count=20)]
    verdict = wanted(JobKind.COMPACT, a_table({}), live=live(5000, 5000, deletes=deletes), options=SMALL)
    assert (verdict.why, verdict.options) == ("deletes are 10% of its rows", {})
    few = [a_file("s3://lake/t/d.parquet", content=1, record_count=19)]
    assert isinstance(
        evaluate_rule(JobKind.COMPACT, subject(a_table({}), live=live(5000, 5000, deletes=few)), SMALL), NotDue
    )


def test_delete_files_are_merged_or_applied_above_a_threshold() -> None:
    deletes = [a_file(f"s3://lake/t/{number}.parquet", content=1, record_count=0) for number in range(7)]
    options = {**SMALL, "delete-file-threshold": 7}
    verdict = wanted(JobKind.COMPACT, a_table({}), live=live(5000, deletes=deletes), options=options)
    assert (verdict.why, verdict.options) == ("scans apply 7 delete files", {})
    options = {**SMALL, "delete-file-threshold": 8}
    assert isinstance(
        evaluate_rule(JobKind.COMPACT, subject(a_table({}), live=live(5000, deletes=deletes)), options), NotDue
    )
    many = wanted(JobKind.COMPACT, a_table({}), live=live(5000, deletes=deletes * 15), options=SMALL)
    assert many.options == {"rewrite-deletes": True}
    vectors = [file._replace(content_offset=4) for file in deletes * 15]
    many = wanted(JobKind.COMPACT, a_table({}), live=live(5000, deletes=vectors), options=SMALL)
    assert many.options == {"delete-file-threshold": 1}


def test_small_files_and_deletes_are_one_task() -> None:
    deletes = [a_file("s3://lake/t/d.parquet", content=1, record_count=100)]
    verdict = wanted(JobKind.COMPACT, a_table({}), live=live(1, 2, 3, 4, 5, deletes=deletes), options=SMALL)
    assert verdict.why == "5 of 5 data files are under 750 bytes; deletes are 20% of its rows"


def test_scans_of_many_files_raise_the_urgency() -> None:
    found = live(10, 20, 30, 40, 50)
    calm = wanted(JobKind.COMPACT, a_table({}), options=SMALL, live=found)
    hot = wanted(JobKind.COMPACT, a_table({}), options=SMALL, live=found, signals=EngineSignals(8, 900, 100))
    assert hot.urgency > calm.urgency
    assert hot.why.endswith("engines reported 8 scans lately, 1000 files each")


def test_table_with_unreadable_manifests_is_skipped() -> None:
    verdict = unneeded(JobKind.COMPACT, a_table({}), options=SMALL, live=live(1, 2, 3, 4, 5, problems=[MISSING]))
    assert "MISSING_OBJECT" in verdict.why


def test_table_with_too_many_files_is_planned_by_its_summary() -> None:
    beyond = LiveFiles([], [], [TOO_MANY], tuple(lines(3)))
    verdict = wanted(JobKind.COMPACT, a_table(totals(900_000, 900_000)), options=SMALL, live=beyond)
    assert verdict.why == "about 900000 of 900000 data files are under 750 bytes"
    assert (verdict.files, verdict.size) == (900_000, 900_000)
    assert isinstance(
        evaluate_rule(JobKind.COMPACT, subject(a_table(totals(900_000, 900_000_000_000)), live=beyond), SMALL), NotDue
    )


# -- manifests -------------------------------------------------------------------------------------------------------


def many_commits(count: int = 12) -> TableMetadata:
    return a_table(*([{}] * count))


def test_few_commits_cannot_have_many_manifests() -> None:
    assert "10 commits" in unneeded(JobKind.REWRITE_MANIFESTS, many_commits(10)).why


def test_many_commits_require_the_manifest_list() -> None:
    assert evaluate_rule(JobKind.REWRITE_MANIFESTS, subject(many_commits()), {}) == NeedsDetail(DetailLevel.LIST)


def test_many_small_manifests_are_rewritten() -> None:
    verdict = wanted(JobKind.REWRITE_MANIFESTS, many_commits(), manifests=tuple(lines(11, length=10_240)))
    assert verdict.why == "11 manifests of 10 KiB on average would fit into 1"
    assert (verdict.files, verdict.size) == (11, 11 * 10_240)


@pytest.mark.parametrize("manifests", [lines(10, length=10), lines(20, length=8 * MIB)])
def test_few_or_large_manifests_are_not_rewritten(manifests: Any) -> None:
    assert isinstance(
        evaluate_rule(JobKind.REWRITE_MANIFESTS, subject(many_commits(), manifests=tuple(manifests)), {}), NotDue
    )


def test_one_manifest_per_spec_and_content_remains() -> None:
    manifests = tuple(line for spec in range(11) for line in lines(1, partition_spec_id=spec))
    assert isinstance(
        evaluate_rule(JobKind.REWRITE_MANIFESTS, subject(many_commits(), manifests=manifests), {}), NotDue
    )


def test_policy_sets_spec_and_target_size() -> None:
    manifests = (*lines(15, length=1000, partition_spec_id=1), *lines(3, length=1000))
    options = {"spec-id": 1}
    assert wanted(JobKind.REWRITE_MANIFESTS, many_commits(), manifests=manifests, options=options).files == 15
    options = {"spec-id": 1, "target-manifest-size-bytes": 1000}
    assert isinstance(
        evaluate_rule(JobKind.REWRITE_MANIFESTS, subject(many_commits(), manifests=manifests), options), NotDue
    )


def test_unreadable_manifest_list_is_reported() -> None:
    verdict = unneeded(JobKind.REWRITE_MANIFESTS, many_commits(), live=LiveFiles([], [], [MISSING]))
    assert "cannot be read" in verdict.why


# -- snapshots -------------------------------------------------------------------------------------------------------


def test_expired_snapshots_are_counted() -> None:
    table = a_table({"added-files-size": "70"}, {}, {}, ages_ms=(9 * DAY_MS, 8 * DAY_MS, 1 * DAY_MS))
    verdict = wanted(JobKind.EXPIRE_SNAPSHOTS, table)
    assert verdict.why == "2 of 3 snapshots have expired"
    assert (verdict.files, verdict.size) == (2, 70)
    assert wanted(JobKind.EXPIRE_SNAPSHOTS, table, options={"min-snapshots-to-keep": 2}).files == 1


def test_table_is_planned_again_when_the_next_snapshot_expires() -> None:
    table = a_table({}, {}, ages_ms=(3 * DAY_MS, 0))
    verdict = unneeded(JobKind.EXPIRE_SNAPSHOTS, table)
    assert verdict == NotDue("none of 2 snapshots has expired", NOW_MS + 2 * DAY_MS + 1)
    # Not once per snapshot of a table with a commit per second.
    assert unneeded(JobKind.EXPIRE_SNAPSHOTS, table, interval_ms=3 * DAY_MS).again_ms == NOW_MS + 3 * DAY_MS


def test_expired_branches_and_tags_are_reported() -> None:
    refs = {
        "main": {"snapshot-id": 101, "type": "branch"},
        "old": {"snapshot-id": 100, "type": "tag"},
    }
    table = a_table({}, {}, ages_ms=(3 * DAY_MS, 0), refs=refs)
    verdict = wanted(JobKind.EXPIRE_SNAPSHOTS, table, options={"max-ref-age-ms": DAY_MS})
    assert verdict.why == "1 branches and tags have expired"
    keeps = a_table(
        {}, {}, ages_ms=(3 * DAY_MS, 0), refs=refs, properties={"history.expire.max-ref-age-ms": f"{9 * DAY_MS}"}
    )
    assert isinstance(evaluate_rule(JobKind.EXPIRE_SNAPSHOTS, subject(keeps), {"max-ref-age-ms": DAY_MS}), NotDue)


@pytest.mark.parametrize("properties", [{"gc.enabled": "false"}, {"history.expire.max-snapshot-age-ms": "long"}])
def test_invalid_retention_properties_prevent_expiration(properties: dict[str, str]) -> None:
    table = a_table({}, {}, ages_ms=(9 * DAY_MS, 0), properties=properties)
    assert "cannot be expired" in unneeded(JobKind.EXPIRE_SNAPSHOTS, table).why


ages = st.integers(0, 20 * DAY_MS)
limits = st.one_of(st.none(), st.integers(1, 20 * DAY_MS))


@given(
    st.lists(ages, min_size=1, max_size=6),
    ages,
    st.integers(1, 4),
    limits,
    limits,
    st.sampled_from([None, "branch", "tag"]),
    st.dictionaries(
        st.sampled_from(["history.expire.max-ref-age-ms", "history.expire.max-snapshot-age-ms"]), ages.map(str)
    ),
)
def test_shortcut_agrees_with_the_expiration_rules(
    drawn: list[int],
    age_ms: int,
    least: int,
    ref_age_ms: int | None,
    own_ms: int | None,
    ref: str | None,
    properties: dict[str, str],
) -> None:
    refs: dict[str, dict[str, Any]] = {"main": {"snapshot-id": 99 + len(drawn), "type": "branch"}}
    if ref is not None:
        refs["other"] = {"snapshot-id": 100, "type": ref} | ({} if own_ms is None else {"max-ref-age-ms": own_ms})
    table = a_table(*[{}] * len(drawn), ages_ms=sorted(drawn, reverse=True), refs=refs, properties=properties)
    request = ExpirationRequest(min_snapshots_to_keep=least, max_snapshot_age_ms=age_ms)
    options = {"min-snapshots-to-keep": least, "max-snapshot-age-ms": age_ms}
    if ref_age_ms is not None:
        options["max-ref-age-ms"] = ref_age_ms
    report = plan_expiration(table, request, NOW_MS, max_ref_age_ms=ref_age_ms)
    verdict = evaluate_rule(JobKind.EXPIRE_SNAPSHOTS, subject(table), options)
    assert isinstance(verdict, JobDue) == (report.status is ExpirationStatus.CANDIDATES)


# -- orphans ---------------------------------------------------------------------------------------------------------


def test_first_orphan_removal_waits_for_old_enough_files() -> None:
    table = a_table(totals(7, 7), ages_ms=(2 * DAY_MS,))
    verdict = wanted(JobKind.REMOVE_ORPHANS, table)
    assert (verdict.why, verdict.files) == ("orphan files were never removed", 8)
    old = {"older-than-ms": 20 * DAY_MS}
    waits = unneeded(JobKind.REMOVE_ORPHANS, table, options=old)
    assert waits == NotDue("it has no files older than 20 days yet", NOW_MS + 10 * DAY_MS)


def test_orphan_removal_repeats_after_its_interval() -> None:
    table, last = a_table({}), {JobKind.REMOVE_ORPHANS: NOW_MS - DAY_MS}
    assert "24 hours ago" in wanted(JobKind.REMOVE_ORPHANS, table, interval_ms=DAY_MS, last_runs=last).why
    waits = unneeded(JobKind.REMOVE_ORPHANS, table, interval_ms=DAY_MS + 5, last_runs=last)
    assert waits.again_ms == NOW_MS + 5


def test_retried_commits_bring_orphan_removal_forward() -> None:
    signals = EngineSignals(retried_commits=2)
    last = {JobKind.REMOVE_ORPHANS: NOW_MS - 3_600_000}
    verdict = wanted(JobKind.REMOVE_ORPHANS, a_table({}), interval_ms=DAY_MS, last_runs=last, signals=signals)
    assert "2 retried commits lately" in verdict.why
    last = {JobKind.REMOVE_ORPHANS: NOW_MS - 3_599_000}
    assert isinstance(
        evaluate_rule(JobKind.REMOVE_ORPHANS, subject(a_table({}), last_runs=last, signals=signals), {}, DAY_MS), NotDue
    )


def test_gc_disabled_prevents_orphan_removal() -> None:
    assert "gc.enabled" in unneeded(JobKind.REMOVE_ORPHANS, a_table({}, properties={"gc.enabled": "False"})).why


# -- statistics and layout -------------------------------------------------------------------------------------------


def test_statistics_are_computed_for_the_current_snapshot() -> None:
    file = {
        "snapshot-id": 100,
        "statistics-path": "s3://lake/t/100.puffin",
        "file-size-in-bytes": 1,
        "file-footer-size-in-bytes": 1,
        "blob-metadata": [],
    }
    verdict = wanted(JobKind.COMPUTE_STATISTICS, a_table(totals(4, 400)))
    assert (verdict.why, verdict.files, verdict.size) == ("it has no statistics", 4, 400)
    older = wanted(JobKind.COMPUTE_STATISTICS, a_table({}, {}, statistics=[file]))
    assert older.why == "its statistics are of snapshot 100, not of the current one"
    assert isinstance(evaluate_rule(JobKind.COMPUTE_STATISTICS, subject(a_table({}, statistics=[file])), {}), NotDue)


def test_files_of_older_specs_are_rewritten() -> None:
    assert "single partition spec" in unneeded(JobKind.REWRITE_LAYOUT, a_table({})).why
    specs = [
        {"spec-id": 0, "fields": []},
        {"spec-id": 1, "fields": [{"source-id": 2, "field-id": 1000, "name": "r", "transform": "identity"}]},
    ]
    evolved = a_table(totals(4, 400), partition_specs=specs, default_spec_id=1, last_partition_id=1000)
    assert evaluate_rule(JobKind.REWRITE_LAYOUT, subject(evolved), {}) == NeedsDetail(DetailLevel.LIST)
    mixed = (*lines(3), *lines(1, partition_spec_id=1))
    verdict = wanted(JobKind.REWRITE_LAYOUT, evolved, manifests=mixed)
    assert verdict.why == "3 files have partition spec 0, the current one is 1"
    assert (verdict.files, verdict.size) == (3, 300)
    done = tuple(lines(4, partition_spec_id=1))
    assert isinstance(evaluate_rule(JobKind.REWRITE_LAYOUT, subject(evolved, manifests=done), {}), NotDue)
