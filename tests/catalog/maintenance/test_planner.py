from __future__ import annotations

from collections.abc import Mapping
from typing import Any

import pytest
from hypothesis import given
from hypothesis import strategies as st

from lakebed.catalog.maintenance.engine_reports import EngineSignals
from lakebed.catalog.maintenance.planner import (
    PRIORITY_WINDOW_MS,
    LastJobRun,
    TaskPlan,
    options_text,
    plan_table,
    policy_fingerprint,
)
from lakebed.catalog.maintenance.reachability.walking import LiveFiles
from lakebed.catalog.maintenance.rules.job_rules import DetailLevel, TableState
from lakebed.core.jobs import JobKind, decode_spec, encode_spec
from lakebed.governance.policies import EffectivePolicy
from tests.iceberg.manifests.avro_files import a_file

from .subjects import (
    COMPACTION,
    DAY_MS,
    EXPIRY,
    MANIFESTS,
    NOW_MS,
    ORPHANS,
    a_table,
    applicable,
    lines,
    live,
    subject,
    totals,
)

COMPACT, EXPIRE = JobKind.COMPACT, JobKind.EXPIRE_SNAPSHOTS
MESSY = live(10, 20, 30, 40, 50, 60)


def messy(**more: Any) -> TableState:
    """A table with small files and an old snapshot."""
    return subject(a_table(totals(6, 210), totals(6, 210), ages_ms=(9 * DAY_MS, 60_000)), live=MESSY, **more)


def plan(
    one: TableState, *policies: EffectivePolicy, runs: Mapping[JobKind, LastJobRun] | None = None, **more: Any
) -> TaskPlan:
    return plan_table(one, policies, runs or {}, {}, **more)


def ran(
    job: JobKind = COMPACT, *, ago_ms: int = 3_600_000, token: str = "before", options: str = "{}", **more: Any
) -> Any:
    return {job: LastJobRun(job, 1, token, options, NOW_MS - ago_ms, **more)}


def test_task_has_job_table_options_and_reason() -> None:
    found = plan(messy(), applicable(min_input_files=4, colour="red"))
    (task,) = found.tasks
    spec = task.spec
    assert (spec.job, spec.warehouse, spec.namespace, spec.table, spec.entry) == (
        COMPACT,
        "lake",
        ("ns",),
        "t",
        "e",
    )
    assert spec.options == {"min-input-files": 4}
    assert spec.reason == (
        "policy rules.p v3, inherited from namespace ns; 6 of 6 data files are under 384 MiB; ignored: colour"
    )
    assert spec.policy is not None
    assert (spec.policy.type, spec.policy.version, spec.policy.attached_to) == (COMPACTION, 3, "namespace ns")
    assert spec.cost is not None
    assert (spec.cost.input_files, spec.cost.input_bytes) == (6, 210)
    assert decode_spec(encode_spec(spec)) == spec


def test_each_policy_requires_its_own_task() -> None:
    found = plan(messy(), applicable(), applicable(EXPIRY), applicable(ORPHANS))
    assert [task.spec.job for task in found.tasks] == [COMPACT, EXPIRE, JobKind.REMOVE_ORPHANS]


def test_disabled_policy_plans_nothing_and_is_reported() -> None:
    found = plan(messy(), applicable(enable=False))
    assert found.tasks == ()
    (skipped,) = found.skipped
    assert (skipped.job, skipped.reason) == (None, "policy rules.p v3, inherited from namespace ns; it is disabled")


def test_invalid_policy_plans_nothing_and_is_reported() -> None:
    (skipped,) = plan(messy(), applicable(content="{")).skipped
    assert "its content cannot be read" in skipped.reason


def test_detail_is_required_before_a_decision() -> None:
    far = subject(a_table(*[totals(6, 210)] * 12))
    assert plan(far, applicable(MANIFESTS)).detail is DetailLevel.LIST
    found = plan(far, applicable(MANIFESTS), applicable())
    assert (found.detail, found.tasks) == (DetailLevel.FILES, ())
    near = subject(a_table(*[totals(6, 210)] * 12), live=MESSY)
    assert plan(near, applicable(MANIFESTS), applicable()).detail is DetailLevel.FILES


def test_jobs_with_open_tasks_are_skipped() -> None:
    found = plan(messy(), applicable(), is_open={COMPACT})
    assert found.tasks == ()
    assert "a task for it is open" in found.skipped[0].reason


def test_job_pauses_after_a_run() -> None:
    found = plan(messy(), applicable(interval="2h"), runs=ran(ago_ms=3_600_000))
    assert (found.tasks, found.again_ms) == ((), NOW_MS + 3_600_000)
    assert plan(messy(), applicable(interval="1h"), runs=ran(ago_ms=3_600_000)).tasks


def test_job_does_not_run_again_on_an_unchanged_version() -> None:
    seen = ran(token="token")
    found = plan(messy(), applicable(), runs=seen)
    assert found.tasks == ()
    assert "nothing was committed since" in found.skipped[0].reason
    # It runs with other options, or after a commit.
    assert plan(messy(), applicable(min_input_files=2), runs=seen).tasks
    assert plan(messy(token="after"), applicable(), runs=seen).tasks


def test_time_based_job_runs_again_after_a_day() -> None:
    seen = ran(EXPIRE, token="token")
    found = plan(messy(), applicable(EXPIRY), runs=seen)
    assert (found.tasks, found.again_ms) == ((), NOW_MS - 3_600_000 + DAY_MS)
    assert plan(messy(), applicable(EXPIRY), runs=ran(EXPIRE, token="token", ago_ms=DAY_MS)).tasks


@pytest.mark.parametrize(("failures", "rest_hours"), [(1, 1), (2, 2), (3, 4), (5, 16), (6, 24), (500, 24)])
def test_pause_grows_with_each_failure(failures: int, rest_hours: int) -> None:
    runs = {COMPACT: LastJobRun(COMPACT, 1, "", "", None, failures, NOW_MS - 1)}
    found = plan(messy(), applicable(), runs=runs)
    assert (found.tasks, found.again_ms) == ((), NOW_MS - 1 + rest_hours * 3_600_000)
    rested = {COMPACT: LastJobRun(COMPACT, 1, "", "", None, failures, NOW_MS - rest_hours * 3_600_000)}
    assert plan(messy(), applicable(), runs=rested).tasks


def test_urgent_tasks_are_put_forward_within_a_window() -> None:
    (calm,) = plan(messy(), applicable()).tasks
    (hot,) = plan(messy(signals=EngineSignals(9, 5_000, 5_000)), applicable()).tasks
    assert NOW_MS - PRIORITY_WINDOW_MS <= hot.run_at_ms < calm.run_at_ms <= NOW_MS


def test_jobs_of_a_table_have_a_fixed_order() -> None:
    found = plan(messy(), applicable(ORPHANS, older_than_ms=DAY_MS), applicable(EXPIRY), applicable())
    assert [task.spec.job for task in found.tasks] == [COMPACT, EXPIRE, JobKind.REMOVE_ORPHANS]
    moments = [task.run_at_ms for task in found.tasks]
    alone = [plan(messy(), one).tasks[0].run_at_ms for one in (applicable(), applicable(EXPIRY))]
    assert (moments, moments[0]) == (sorted(moments), min(alone))


def test_estimates_use_measured_speeds() -> None:
    (task,) = plan_table(messy(), [applicable()], {}, {COMPACT: 10}).tasks
    assert task.spec.cost is not None
    assert task.spec.cost.estimated_seconds == 23.0


def test_policy_fingerprint_identifies_policies() -> None:
    one = [applicable(), applicable(EXPIRY)]
    assert policy_fingerprint(one) == policy_fingerprint([applicable(), applicable(EXPIRY)])
    others = [
        [],
        [applicable()],
        [applicable(version=4), applicable(EXPIRY)],
        [applicable(inherited=False), applicable(EXPIRY)],
        [applicable(parameters={"a": "b"}), applicable(EXPIRY)],
    ]
    assert len({policy_fingerprint(one), *map(policy_fingerprint, others)}) == 6


def test_options_text_is_independent_of_order() -> None:
    assert options_text({"b": 1, "a": ["x"]}) == options_text({"a": ["x"], "b": 1}) == '{"a":["x"],"b":1}'


# -- whatever the table, the policies and the history -----------------------------------------------------------------

policies_of_any_sort = st.lists(
    st.builds(
        lambda kind, enable, config, parameters: applicable(kind, enable=enable, parameters=parameters, **config),
        st.sampled_from([COMPACTION, MANIFESTS, ORPHANS, EXPIRY, "user.note"]),
        st.booleans(),
        st.dictionaries(
            st.sampled_from(["interval", "statistics", "layout", "colour", "min_input_files", "max_snapshot_age_ms"]),
            st.sampled_from([True, 0, 3, "1h", "x"]),
            max_size=3,
        ),
        st.dictionaries(st.sampled_from(["interval", "colour"]), st.sampled_from(["5", "x"]), max_size=1),
    ),
    max_size=5,
    unique_by=lambda one: one.policy.type,
)


@st.composite
def tables(draw: st.DrawFn) -> TableState:
    commits = draw(st.integers(0, 14))
    files = draw(st.integers(0, 12))
    known_totals = draw(st.booleans())
    summary = totals(files, files * draw(st.integers(0, 10**9))) if known_totals else {}
    ages = sorted(draw(st.lists(st.integers(0, 20 * DAY_MS), min_size=commits, max_size=commits)), reverse=True)
    table = a_table(*[summary] * commits, ages_ms=ages)
    closeness = draw(st.sampled_from(DetailLevel))
    deletes = [
        a_file(f"s3://lake/t/{number}.d", content=1, record_count=9) for number in range(draw(st.integers(0, 3)))
    ]
    found = live(
        *draw(st.lists(st.integers(0, 10**9), max_size=12)), deletes=deletes, manifests=draw(st.integers(0, 20))
    )
    return subject(
        table,
        manifests=tuple(lines(draw(st.integers(0, 20)))) if closeness is DetailLevel.LIST else None,
        live=found if closeness is DetailLevel.FILES else None,
        signals=EngineSignals(*draw(st.tuples(*[st.integers(0, 2_000)] * 4))),
        token=draw(st.sampled_from(["token", "other"])),
    )


runs_of_any_sort = st.dictionaries(
    st.sampled_from(list(JobKind)),
    st.builds(
        lambda token, ago, failures: LastJobRun(
            COMPACT, 1, token, "{}", None if ago is None else NOW_MS - ago, failures, NOW_MS - 10 if failures else None
        ),
        st.sampled_from(["token", "other", ""]),
        st.one_of(st.none(), st.integers(0, 10 * DAY_MS)),
        st.integers(0, 3),
    ),
)


@given(tables(), policies_of_any_sort, runs_of_any_sort)
def test_plan_invariants_hold_for_any_table(
    one: TableState, policies: list[EffectivePolicy], runs: dict[JobKind, LastJobRun]
) -> None:
    found = plan_table(one, policies, runs, {})
    assert found == plan_table(one, policies, runs, {})
    enabled = {policy.policy.type for policy in policies if '"enable": true' in policy.policy.content}
    for task in found.tasks:
        spec = task.spec
        assert spec.policy is not None
        assert spec.policy.type in enabled
        assert spec.reason.startswith("policy rules.p v3, inherited from namespace ns; ")
        assert len(spec.reason) > len("policy rules.p v3, inherited from namespace ns; ")
        assert spec.cost is not None
        assert spec.cost.estimated_seconds > 0
        assert NOW_MS - PRIORITY_WINDOW_MS <= task.run_at_ms <= NOW_MS
        assert decode_spec(encode_spec(spec)) == spec
    jobs = [task.spec.job for task in found.tasks]
    assert len(jobs) == len(set(jobs))
    assert all(skipped.reason for skipped in found.skipped)
    assert found.again_ms is None or found.again_ms > NOW_MS
    if one.detail is DetailLevel.FILES:
        assert found.detail is DetailLevel.FILES
    for job in jobs:
        without = plan_table(one, policies, runs, {}, is_open={job})
        assert job not in [task.spec.job for task in without.tasks]


@given(tables(), policies_of_any_sort)
def test_nothing_is_planned_for_disabled_policies(one: TableState, policies: list[EffectivePolicy]) -> None:
    off = [applicable(policy.policy.type, enable=False) for policy in policies]
    found = plan_table(one, off, {}, {})
    assert found.tasks == ()
    assert found.detail is one.detail


def test_nothing_is_planned_without_policies() -> None:
    assert plan(subject(a_table({}), live=LiveFiles([], [], []))) == TaskPlan(detail=DetailLevel.FILES)
