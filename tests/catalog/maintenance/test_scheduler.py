from __future__ import annotations

import asyncio
import json

import pytest

from lakebed.catalog.maintenance import scheduler as scheduler_module
from lakebed.catalog.maintenance.scheduler import CURSOR, LEASE, LEASE_SECONDS, SchedulerRound
from lakebed.catalog.maintenance.table_planner import PlanningTotals
from lakebed.catalog.restrictions import COPIES_NAMESPACE
from lakebed.core.errors import Fenced
from lakebed.core.jobs import JobKind, TaskSpec
from lakebed.meta.leases import Lease
from lakebed.meta.seam import Transaction
from lakebed.meta.tasks import TaskState
from tests.catalog.harness import name, set_property
from tests.catalog.policies.policy_catalog import CATALOG, EXPIRY, OFF, ON, TABLE, VIEW

from .maintained_catalog import DEBOUNCE_SECONDS, INTERVAL_SECONDS, ROOT, MaintainedCatalog


async def test_namespace_policy_leads_to_a_task_with_its_reason(maintained: MaintainedCatalog) -> None:
    await maintained.table(files=6)
    await maintained.policy(min_input_files=5, colour="red")
    assert (await maintained.schedule()).tasks == 1
    ((seen, *rest),) = [await maintained.open_tasks()]
    assert rest == []
    spec = seen.spec
    assert (spec.job, spec.warehouse, spec.namespace, spec.table) == (JobKind.COMPACT, "lake", ("ns",), "t")
    assert spec.entry == (await maintained.known()).entry.id
    assert spec.options == {"min-input-files": 5}
    assert spec.reason == (
        "policy ns.p v0, inherited from namespace ns; 6 of 6 data files are under 384 MiB; ignored: colour"
    )
    assert spec.policy is not None
    assert (spec.policy.name, spec.policy.version, spec.policy.attached_to, spec.policy.inherited) == (
        "p",
        0,
        "namespace ns",
        True,
    )
    assert spec.cost is not None
    assert (spec.cost.input_files, spec.cost.input_bytes) == (6, 6 * 32)
    assert spec.requested_by == "scheduler"
    (planned,) = [event for kind, event in await maintained.events() if kind == "Planned"]
    assert (planned.task, planned.reason, planned.id) == (seen.task.id, spec.reason, spec.entry)


async def test_table_is_planned_once_per_version_and_policies(maintained: MaintainedCatalog) -> None:
    await maintained.table(files=6)
    await maintained.policy()
    assert (await maintained.schedule()).tasks == 1
    for _ in range(3):
        maintained.age(INTERVAL_SECONDS)
        assert (await maintained.schedule()).tasks == 0
    assert len(await maintained.open_tasks()) == 1


async def test_table_is_planned_after_a_commit_and_debounce(maintained: MaintainedCatalog) -> None:
    table = await maintained.table(files=2)
    await maintained.policy()
    assert (await maintained.schedule()).tasks == 0
    await maintained.job_catalog.append(table, files=4)
    assert await maintained.schedule() == PlanningTotals()
    maintained.age(DEBOUNCE_SECONDS)
    assert (await maintained.schedule()).tasks == 1


async def test_successive_commits_are_planned_together(light_maintained: MaintainedCatalog) -> None:
    maintained, table = light_maintained, await light_maintained.table(files=1)
    await maintained.policy()
    await maintained.schedule()
    for _ in range(5):
        await maintained.job_catalog.append(table)
        assert await maintained.schedule() == PlanningTotals()
        maintained.age(DEBOUNCE_SECONDS / 5)
    # From the first commit on, not the last: a table with constant commits is planned too.
    done = await maintained.schedule()
    assert (done.tables, done.tasks) == (1, 1)


async def test_cursor_moves_with_the_submitted_tasks(
    maintained: MaintainedCatalog,
) -> None:
    table = await maintained.table(files=6)
    await maintained.schedule()
    start = await maintained.cursor()
    await maintained.job_catalog.append(table)
    last = await maintained.catalog.last_event()
    await maintained.schedule()
    maintained.age(DEBOUNCE_SECONDS - 1)
    await maintained.schedule()
    assert await maintained.cursor() < last
    assert await maintained.cursor() >= start
    maintained.age(1)
    await maintained.schedule()
    assert await maintained.cursor() >= last


async def test_cursor_passes_irrelevant_events(light_maintained: MaintainedCatalog) -> None:
    maintained = light_maintained
    await maintained.schedule()
    await maintained.store.put("lake", "elsewhere/a", b"x")
    last = await maintained.catalog.last_event()
    await maintained.schedule()
    assert await maintained.cursor() < last
    maintained.age(5)
    await maintained.schedule()
    assert await maintained.cursor() == last


async def test_unplanned_events_are_read_again_by_the_next_holder(maintained: MaintainedCatalog) -> None:
    table = await maintained.table(files=1)
    await maintained.policy()
    await maintained.schedule()
    await maintained.job_catalog.append(table, files=6)
    assert await maintained.schedule() == PlanningTotals()
    maintained.age(LEASE_SECONDS + 1)
    other = maintained.another_scheduler()
    assert await other.hold()
    # Not by its first pass, but by the events after the stored cursor.
    other._next_pass_ms = 1 << 62
    assert (await other.step()).planned.tasks == 1


async def test_one_scheduler_is_active(maintained: MaintainedCatalog) -> None:
    await maintained.table(files=6)
    await maintained.policy()
    other = maintained.another_scheduler()
    assert await maintained.scheduler.hold()
    assert not await other.hold()
    maintained.age(LEASE_SECONDS + 1)
    assert await other.hold()
    with pytest.raises(Fenced):
        await maintained.scheduler.step()
    assert not await maintained.scheduler.hold()
    assert (await maintained.schedule(other)).tasks == 1


async def test_active_scheduler_renews_its_lease(light_maintained: MaintainedCatalog) -> None:
    maintained = light_maintained
    other = maintained.another_scheduler()
    assert await maintained.scheduler.hold()
    for _ in range(5):
        maintained.age(LEASE_SECONDS * 0.7)
        assert await maintained.scheduler.hold()
        assert not await other.hold()
    maintained.age(LEASE_SECONDS + 1)
    assert await maintained.scheduler.hold()


async def test_scheduler_without_its_lease_commits_nothing(maintained: MaintainedCatalog) -> None:
    await maintained.table(files=6)
    await maintained.policy()
    assert await maintained.scheduler.hold()
    maintained.age(LEASE_SECONDS + 1)
    assert await maintained.another_scheduler().hold()
    with pytest.raises(Fenced):
        await maintained.scheduler.step()
    assert await maintained.open_tasks() == []


async def test_disabled_policy_withdraws_waiting_tasks(
    maintained: MaintainedCatalog,
) -> None:
    await maintained.table(files=6)
    await maintained.policy()
    await maintained.schedule()
    await maintained.policing.update("p", OFF)
    maintained.age(DEBOUNCE_SECONDS)
    done = await maintained.schedule()
    assert (done.tasks, done.withdrawn) == (0, 1)
    assert await maintained.open_tasks() == []
    (event,) = [event for kind, event in await maintained.events() if kind == "Withdrawn"]
    assert event.failure == "no policy requires it any more"
    await maintained.policing.update("p", ON, version=1)
    maintained.age(DEBOUNCE_SECONDS)
    assert (await maintained.schedule()).tasks == 1


async def test_running_task_is_not_withdrawn(light_maintained: MaintainedCatalog) -> None:
    maintained = light_maintained
    await maintained.table(files=6)
    await maintained.policy()
    await maintained.schedule()
    leased = await maintained.lease()
    await maintained.policing.update("p", OFF)
    maintained.age(DEBOUNCE_SECONDS)
    assert (await maintained.schedule()).withdrawn == 0
    await maintained.complete(leased)


async def test_disabled_nearer_policy_overrides_inherited_one(light_maintained: MaintainedCatalog) -> None:
    maintained = light_maintained
    await maintained.table(files=6)
    await maintained.table("u", files=6)
    await maintained.policy()
    await maintained.policy("off", target=TABLE, enable=False)
    await maintained.schedule()
    assert [spec.table for spec in await maintained.specs_in()] == ["u"]


async def test_waiting_task_follows_a_policy_update(maintained: MaintainedCatalog) -> None:
    await maintained.table(files=6)
    await maintained.policy()
    await maintained.schedule()
    (before,) = await maintained.open_tasks()
    content = json.dumps({"enable": True, "config": {"min-input-files": 3}})
    await maintained.policing.update("p", content)
    maintained.age(DEBOUNCE_SECONDS)
    done = await maintained.schedule()
    assert (done.tasks, done.revised) == (0, 1)
    (after,) = await maintained.open_tasks()
    assert after.task.id == before.task.id
    assert after.spec.options == {"min-input-files": 3}
    assert "v1" in after.spec.reason


async def test_task_that_a_policy_no_longer_requires_is_withdrawn(
    light_maintained: MaintainedCatalog,
) -> None:
    maintained = light_maintained
    await maintained.table(files=6)
    await maintained.policy()
    await maintained.schedule()
    await maintained.policing.update("p", json.dumps({"enable": True, "config": {"min-input-files": 7}}))
    maintained.age(DEBOUNCE_SECONDS)
    assert (await maintained.schedule()).withdrawn == 1
    assert await maintained.open_tasks() == []


async def test_detaching_withdraws_policy_tasks_and_keeps_requested_ones(
    light_maintained: MaintainedCatalog,
) -> None:
    maintained = light_maintained
    await maintained.table(files=6)
    await maintained.table("u", files=6)
    await maintained.policy("p", target=CATALOG)
    await maintained.schedule()
    orders = await maintained.specs_in()
    assert sorted(spec.table for spec in orders) == ["t", "u"]
    requested = TaskSpec(job=JobKind.COMPACT, warehouse="lake", namespace=("ns",), table=orders[0].table)
    await maintained.complete(await maintained.lease())
    await maintained.parts.tasks.submit(ROOT, requested)
    await maintained.policing.detach("p", CATALOG)
    maintained.age(DEBOUNCE_SECONDS)
    await maintained.schedule()
    assert [spec.requested_by for spec in await maintained.specs_in()] == ["root"]


async def test_expiration_is_planned_without_commits(maintained: MaintainedCatalog) -> None:
    table = await maintained.table(files=1, commits=3)
    await maintained.policy("e", EXPIRY, max_snapshot_age_ms=3_600_000)
    assert (await maintained.schedule()).tasks == 0
    maintained.age(3_000)
    assert (await maintained.schedule()).tasks == 0
    maintained.age(601)
    assert (await maintained.schedule()).tasks == 1
    (spec,) = await maintained.specs_in()
    assert (spec.job, spec.options) == (JobKind.EXPIRE_SNAPSHOTS, {"max-snapshot-age-ms": 3_600_000})
    assert "2 of 3 snapshots have expired" in spec.reason
    assert (await maintained.catalog.metadata(table)).current_snapshot is not None


async def test_unchanged_table_is_not_planned_again(maintained: MaintainedCatalog) -> None:
    table = await maintained.table(files=6)
    await maintained.policy(interval=0)
    await maintained.schedule()
    await maintained.complete(await maintained.lease())
    maintained.age(INTERVAL_SECONDS)
    # The job committed nothing: it does not run again before another commit.
    assert (await maintained.schedule()).tasks == 0
    await maintained.job_catalog.append(table)
    maintained.age(DEBOUNCE_SECONDS)
    await maintained.schedule()
    assert len(await maintained.open_tasks()) == 1


async def test_commit_during_a_job_is_planned_after_it(maintained: MaintainedCatalog) -> None:
    table = await maintained.table(files=6)
    await maintained.policy(interval=0)
    await maintained.schedule()
    leased = await maintained.lease()
    await maintained.job_catalog.append(table, files=6)
    maintained.age(DEBOUNCE_SECONDS)
    assert (await maintained.schedule()).tasks == 0
    await maintained.complete(leased)
    maintained.age(INTERVAL_SECONDS)
    assert (await maintained.schedule()).tasks == 1


async def test_dead_job_pauses_on_the_table(light_maintained: MaintainedCatalog) -> None:
    maintained = light_maintained
    await maintained.table(files=6)
    await maintained.policy()
    await maintained.schedule()
    seen = await maintained.lease()
    assert (
        await maintained.parts.tasks.fail(ROOT, seen.task.id, seen.task.token, "no Java here", retry=False)
        is TaskState.DEAD
    )
    maintained.age(INTERVAL_SECONDS)
    assert (await maintained.schedule()).tasks == 0
    maintained.age(3_600)
    assert (await maintained.schedule()).tasks == 1


async def test_pass_covers_all_tables_in_pages(
    light_maintained: MaintainedCatalog, monkeypatch: pytest.MonkeyPatch
) -> None:
    maintained = light_maintained
    monkeypatch.setattr(scheduler_module, "PAGE", 2)
    for number in range(5):
        await maintained.table(f"t{number}", files=6)
    await maintained.policy()
    assert (await maintained.schedule()).tasks == 5
    assert sorted(spec.table for spec in await maintained.specs_in()) == [f"t{number}" for number in range(5)]


async def test_events_are_not_read_while_too_many_tables_are_pending(
    light_maintained: MaintainedCatalog, monkeypatch: pytest.MonkeyPatch
) -> None:
    maintained = light_maintained
    monkeypatch.setattr(scheduler_module, "MAX_PENDING", 2)
    monkeypatch.setattr(scheduler_module, "_EVENTS_AT_ONCE", 1)
    await maintained.schedule()
    tables = [await maintained.table(f"t{number}") for number in range(5)]
    await maintained.schedule()
    assert len(maintained.scheduler._pending) == 2
    await maintained.policy()
    for table in tables:
        await maintained.job_catalog.append(table, files=6)
    for _ in range(20):
        maintained.age(DEBOUNCE_SECONDS)
        await maintained.schedule()
    assert len(await maintained.open_tasks()) == 5


async def test_dropped_and_unreadable_tables_do_not_block_others(light_maintained: MaintainedCatalog) -> None:
    maintained = light_maintained
    await maintained.table("gone", files=6)
    broken = await maintained.table("broken", files=6)
    await maintained.table("well", files=6)
    await maintained.policy()
    assert await maintained.scheduler.hold()
    await maintained.scheduler._read_events()
    await maintained.catalog.drop("gone", purge=True)
    entry = await maintained.catalog.entry(broken)
    maintained.catalog.cache._kept.clear()
    key = entry.metadata_at.removeprefix("s3://lake/")

    async def lose(tx: Transaction) -> None:
        await tx.run("DELETE FROM objects WHERE key = ?", key)

    await maintained.store.meta.transact(lose)
    maintained.age(DEBOUNCE_SECONDS)
    await maintained.schedule()
    assert [spec.table for spec in await maintained.specs_in()] == ["well"]


async def test_view_policy_requires_no_tasks(
    light_maintained: MaintainedCatalog, caplog: pytest.LogCaptureFixture
) -> None:
    maintained = light_maintained
    await maintained.schedule()
    await maintained.catalog.create_view()
    await maintained.policy(target=VIEW)
    maintained.age(DEBOUNCE_SECONDS)
    assert await maintained.schedule() == PlanningTotals()
    assert caplog.records == []


async def test_dropping_a_table_removes_its_maintenance_history(light_maintained: MaintainedCatalog) -> None:
    maintained = light_maintained
    await maintained.table(files=6)
    await maintained.policy()
    await maintained.schedule()
    await maintained.complete(await maintained.lease())
    await maintained.catalog.drop()
    for table in ("upkeep_runs", "upkeep_looks"):
        assert await maintained.store.meta.rows(f"SELECT * FROM {table}") == []


async def test_run_plans_reports_and_releases_the_lease(light_maintained: MaintainedCatalog) -> None:
    maintained = light_maintained
    await maintained.table(files=6)
    await maintained.policy()
    totals: list[PlanningTotals] = []
    planned = asyncio.Event()

    def report(done: PlanningTotals) -> None:
        totals.append(done)
        if done.tasks:
            planned.set()

    running = asyncio.create_task(maintained.scheduler.run(report))
    async with asyncio.timeout(30):
        await planned.wait()
    running.cancel()
    with pytest.raises(asyncio.CancelledError):
        await running
    assert sum(done.tasks for done in totals) == 1
    leases = maintained.scheduler._leases
    assert await leases.find(maintained.store.meta, LEASE) is None
    assert await maintained.store.object_context.outbox.cursor(maintained.store.meta, CURSOR) is not None


async def test_lease_is_renewed_during_long_rounds(
    light_maintained: MaintainedCatalog, monkeypatch: pytest.MonkeyPatch
) -> None:
    maintained = light_maintained
    monkeypatch.setattr(scheduler_module, "LEASE_SECONDS", 0.02)
    renewed = asyncio.Event()
    leases = maintained.scheduler._leases
    renew = leases.renew

    async def noted(lease: Lease, seconds: float) -> Lease:
        found = await renew(lease, seconds)
        renewed.set()
        return found

    async def long_round() -> SchedulerRound:
        await renewed.wait()
        return SchedulerRound(passed=True)

    monkeypatch.setattr(leases, "renew", noted)
    monkeypatch.setattr(maintained.scheduler, "step", long_round)
    reported = asyncio.Event()
    running = asyncio.create_task(maintained.scheduler.run(lambda _: reported.set()))
    async with asyncio.timeout(30):
        await reported.wait()
    running.cancel()
    with pytest.raises(asyncio.CancelledError):
        await running


async def test_changed_target_size_is_planned_again(light_maintained: MaintainedCatalog) -> None:
    maintained, table = light_maintained, await light_maintained.table(files=6)
    await maintained.catalog.commit(table, set_property("write.target-file-size-bytes", "20"))
    await maintained.policy()
    assert (await maintained.schedule()).tasks == 0
    await maintained.catalog.commit(table, set_property("write.target-file-size-bytes", "100"))
    maintained.age(DEBOUNCE_SECONDS)
    assert (await maintained.schedule()).tasks == 1


async def test_restricted_copies_are_not_maintained(light_maintained: MaintainedCatalog) -> None:
    await light_maintained.catalog.namespace(COPIES_NAMESPACE)
    await light_maintained.catalog.create("copy", namespace=COPIES_NAMESPACE)
    identifier = name("copy", COPIES_NAMESPACE)
    for _ in range(2):
        await light_maintained.job_catalog.append(identifier, files=9)
    await light_maintained.policy(target=CATALOG, min_input_files=2)
    assert await light_maintained.schedule() == PlanningTotals()
    await light_maintained.table("t", files=9)
    light_maintained.age(DEBOUNCE_SECONDS)
    assert (await light_maintained.schedule()).tasks == 1
