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
from tests.catalog.policies.policing import CATALOG, EXPIRY, OFF, ON, TABLE, VIEW

from .yard import DEBOUNCE_SECONDS, INTERVAL_SECONDS, ROOT, Yard


async def test_a_policy_at_the_namespace_leads_to_a_task_with_its_reason(yard: Yard) -> None:
    await yard.table(files=6)
    await yard.policy(min_input_files=5, colour="red")
    assert (await yard.schedule()).tasks == 1
    ((seen, *rest),) = [await yard.open_tasks()]
    assert rest == []
    spec = seen.spec
    assert (spec.job, spec.warehouse, spec.namespace, spec.table) == (JobKind.COMPACT, "lake", ("ns",), "t")
    assert spec.entry == (await yard.known()).entry.id
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
    (planned,) = [event for kind, event in await yard.told() if kind == "Planned"]
    assert (planned.task, planned.reason, planned.id) == (seen.task.id, spec.reason, spec.entry)


async def test_a_table_is_planned_once_for_a_version_and_its_policies(yard: Yard) -> None:
    await yard.table(files=6)
    await yard.policy()
    assert (await yard.schedule()).tasks == 1
    for _ in range(3):
        yard.age(INTERVAL_SECONDS)
        assert (await yard.schedule()).tasks == 0
    assert len(await yard.open_tasks()) == 1


async def test_a_commit_has_its_table_planned_after_a_while(yard: Yard) -> None:
    table = await yard.table(files=2)
    await yard.policy()
    assert (await yard.schedule()).tasks == 0
    await yard.workshop.append(table, files=4)
    assert await yard.schedule() == PlanningTotals()
    yard.age(DEBOUNCE_SECONDS)
    assert (await yard.schedule()).tasks == 1


async def test_commits_that_follow_each_other_are_planned_together(light_yard: Yard) -> None:
    yard, table = light_yard, await light_yard.table(files=1)
    await yard.policy()
    await yard.schedule()
    for _ in range(5):
        await yard.workshop.append(table)
        assert await yard.schedule() == PlanningTotals()
        yard.age(DEBOUNCE_SECONDS / 5)
    # From the first of them on, not from the last: a table that is never left alone is planned all the same.
    done = await yard.schedule()
    assert (done.tables, done.tasks) == (1, 1)


async def test_the_cursor_stays_before_what_is_not_planned_and_moves_with_the_tasks(yard: Yard) -> None:
    table = await yard.table(files=6)
    await yard.schedule()
    start = await yard.cursor()
    await yard.workshop.append(table)
    last = await yard.catalog.last_event()
    await yard.schedule()
    yard.age(DEBOUNCE_SECONDS - 1)
    await yard.schedule()
    assert await yard.cursor() < last
    assert await yard.cursor() >= start
    yard.age(1)
    await yard.schedule()
    assert await yard.cursor() >= last


async def test_events_that_ask_for_nothing_are_passed_after_a_while(light_yard: Yard) -> None:
    yard = light_yard
    await yard.schedule()
    await yard.store.put("lake", "elsewhere/a", b"x")
    last = await yard.catalog.last_event()
    await yard.schedule()
    assert await yard.cursor() < last
    yard.age(5)
    await yard.schedule()
    assert await yard.cursor() == last


async def test_what_was_read_and_not_planned_is_read_again_by_the_next_holder(yard: Yard) -> None:
    table = await yard.table(files=1)
    await yard.policy()
    await yard.schedule()
    await yard.workshop.append(table, files=6)
    assert await yard.schedule() == PlanningTotals()
    yard.age(LEASE_SECONDS + 1)
    other = yard.another_scheduler()
    assert await other.hold()
    # Not by its first pass, but by the events that the cursor has kept for it.
    other._next_pass_ms = 1 << 62
    assert (await other.step()).planned.tasks == 1


async def test_one_of_all_schedulers_works(yard: Yard) -> None:
    await yard.table(files=6)
    await yard.policy()
    other = yard.another_scheduler()
    assert await yard.scheduler.hold()
    assert not await other.hold()
    yard.age(LEASE_SECONDS + 1)
    assert await other.hold()
    with pytest.raises(Fenced):
        await yard.scheduler.step()
    assert not await yard.scheduler.hold()
    assert (await yard.schedule(other)).tasks == 1


async def test_a_holder_keeps_its_lease_by_renewing_it(light_yard: Yard) -> None:
    yard = light_yard
    other = yard.another_scheduler()
    assert await yard.scheduler.hold()
    for _ in range(5):
        yard.age(LEASE_SECONDS * 0.7)
        assert await yard.scheduler.hold()
        assert not await other.hold()
    yard.age(LEASE_SECONDS + 1)
    assert await yard.scheduler.hold()


async def test_nothing_of_a_holder_that_lost_its_lease_is_committed(yard: Yard) -> None:
    await yard.table(files=6)
    await yard.policy()
    assert await yard.scheduler.hold()
    yard.age(LEASE_SECONDS + 1)
    assert await yard.another_scheduler().hold()
    with pytest.raises(Fenced):
        await yard.scheduler.step()
    assert await yard.open_tasks() == []


async def test_a_policy_that_is_switched_off_plans_nothing_and_takes_back_what_waits(yard: Yard) -> None:
    await yard.table(files=6)
    await yard.policy()
    await yard.schedule()
    await yard.policing.update("p", OFF)
    yard.age(DEBOUNCE_SECONDS)
    done = await yard.schedule()
    assert (done.tasks, done.withdrawn) == (0, 1)
    assert await yard.open_tasks() == []
    (event,) = [event for kind, event in await yard.told() if kind == "Withdrawn"]
    assert event.failure == "no policy asks for it any more"
    await yard.policing.update("p", ON, version=1)
    yard.age(DEBOUNCE_SECONDS)
    assert (await yard.schedule()).tasks == 1


async def test_a_task_under_way_is_not_taken_back(light_yard: Yard) -> None:
    yard = light_yard
    await yard.table(files=6)
    await yard.policy()
    await yard.schedule()
    leased = await yard.lease()
    await yard.policing.update("p", OFF)
    yard.age(DEBOUNCE_SECONDS)
    assert (await yard.schedule()).withdrawn == 0
    await yard.complete(leased)


async def test_a_nearer_policy_that_is_off_switches_a_table_off(light_yard: Yard) -> None:
    yard = light_yard
    await yard.table(files=6)
    await yard.table("u", files=6)
    await yard.policy()
    await yard.policy("off", target=TABLE, enable=False)
    await yard.schedule()
    assert [spec.table for spec in await yard.specs_in()] == ["u"]


async def test_a_policy_that_changed_is_what_a_waiting_task_says(yard: Yard) -> None:
    await yard.table(files=6)
    await yard.policy()
    await yard.schedule()
    (before,) = await yard.open_tasks()
    content = json.dumps({"enable": True, "config": {"min-input-files": 3}})
    await yard.policing.update("p", content)
    yard.age(DEBOUNCE_SECONDS)
    done = await yard.schedule()
    assert (done.tasks, done.revised) == (0, 1)
    (after,) = await yard.open_tasks()
    assert after.task.id == before.task.id
    assert after.spec.options == {"min-input-files": 3}
    assert "v1" in after.spec.reason


async def test_a_policy_that_no_longer_wants_what_it_asked_for_takes_it_back(light_yard: Yard) -> None:
    yard = light_yard
    await yard.table(files=6)
    await yard.policy()
    await yard.schedule()
    await yard.policing.update("p", json.dumps({"enable": True, "config": {"min-input-files": 7}}))
    yard.age(DEBOUNCE_SECONDS)
    assert (await yard.schedule()).withdrawn == 1
    assert await yard.open_tasks() == []


async def test_detaching_takes_back_what_waits_and_what_people_asked_for_stays(light_yard: Yard) -> None:
    yard = light_yard
    await yard.table(files=6)
    await yard.table("u", files=6)
    await yard.policy("p", target=CATALOG)
    await yard.schedule()
    orders = await yard.specs_in()
    assert sorted(spec.table for spec in orders) == ["t", "u"]
    asked = TaskSpec(job=JobKind.COMPACT, warehouse="lake", namespace=("ns",), table=orders[0].table)
    await yard.complete(await yard.lease())
    await yard.parts.tasks.submit(ROOT, asked)
    await yard.policing.detach("p", CATALOG)
    yard.age(DEBOUNCE_SECONDS)
    await yard.schedule()
    assert [spec.requested_by for spec in await yard.specs_in()] == ["root"]


async def test_time_alone_makes_snapshots_expire(yard: Yard) -> None:
    table = await yard.table(files=1, commits=3)
    await yard.policy("e", EXPIRY, max_snapshot_age_ms=3_600_000)
    assert (await yard.schedule()).tasks == 0
    yard.age(3_000)
    assert (await yard.schedule()).tasks == 0
    yard.age(601)
    assert (await yard.schedule()).tasks == 1
    (spec,) = await yard.specs_in()
    assert (spec.job, spec.options) == (JobKind.EXPIRE_SNAPSHOTS, {"max-snapshot-age-ms": 3_600_000})
    assert "2 of 3 snapshots have expired" in spec.reason
    assert (await yard.catalog.metadata(table)).current_snapshot is not None


async def test_what_a_job_has_seen_already_is_not_planned_again(yard: Yard) -> None:
    table = await yard.table(files=6)
    await yard.policy(interval=0)
    await yard.schedule()
    await yard.complete(await yard.lease())
    yard.age(INTERVAL_SECONDS)
    # The job committed nothing: it is not asked again before somebody does.
    assert (await yard.schedule()).tasks == 0
    await yard.workshop.append(table)
    yard.age(DEBOUNCE_SECONDS)
    await yard.schedule()
    assert len(await yard.open_tasks()) == 1


async def test_a_commit_while_a_job_ran_is_planned_after_it(yard: Yard) -> None:
    table = await yard.table(files=6)
    await yard.policy(interval=0)
    await yard.schedule()
    leased = await yard.lease()
    await yard.workshop.append(table, files=6)
    yard.age(DEBOUNCE_SECONDS)
    assert (await yard.schedule()).tasks == 0
    await yard.complete(leased)
    yard.age(INTERVAL_SECONDS)
    assert (await yard.schedule()).tasks == 1


async def test_a_job_that_is_given_up_rests_on_the_table(light_yard: Yard) -> None:
    yard = light_yard
    await yard.table(files=6)
    await yard.policy()
    await yard.schedule()
    seen = await yard.lease()
    assert (
        await yard.parts.tasks.fail(ROOT, seen.task.id, seen.task.token, "no Java here", retry=False) is TaskState.DEAD
    )
    yard.age(INTERVAL_SECONDS)
    assert (await yard.schedule()).tasks == 0
    yard.age(3_600)
    assert (await yard.schedule()).tasks == 1


async def test_a_pass_goes_over_all_tables_a_page_at_a_time(light_yard: Yard, monkeypatch: pytest.MonkeyPatch) -> None:
    yard = light_yard
    monkeypatch.setattr(scheduler_module, "PAGE", 2)
    for number in range(5):
        await yard.table(f"t{number}", files=6)
    await yard.policy()
    assert (await yard.schedule()).tasks == 5
    assert sorted(spec.table for spec in await yard.specs_in()) == [f"t{number}" for number in range(5)]


async def test_more_events_are_not_read_while_too_many_tables_wait(
    light_yard: Yard, monkeypatch: pytest.MonkeyPatch
) -> None:
    yard = light_yard
    monkeypatch.setattr(scheduler_module, "MOST_PENDING", 2)
    monkeypatch.setattr(scheduler_module, "_EVENTS_AT_ONCE", 1)
    await yard.schedule()
    tables = [await yard.table(f"t{number}") for number in range(5)]
    await yard.schedule()
    assert len(yard.scheduler._pending) == 2
    await yard.policy()
    for table in tables:
        await yard.workshop.append(table, files=6)
    for _ in range(20):
        yard.age(DEBOUNCE_SECONDS)
        await yard.schedule()
    assert len(await yard.open_tasks()) == 5


async def test_tables_that_are_gone_or_cannot_be_read_hold_nobody_up(light_yard: Yard) -> None:
    yard = light_yard
    await yard.table("gone", files=6)
    broken = await yard.table("broken", files=6)
    await yard.table("well", files=6)
    await yard.policy()
    assert await yard.scheduler.hold()
    await yard.scheduler._read_events()
    await yard.catalog.drop("gone", purge=True)
    entry = await yard.catalog.entry(broken)
    yard.catalog.cache._kept.clear()
    key = entry.metadata_at.removeprefix("s3://lake/")

    async def lose(tx: Transaction) -> None:
        await tx.run("DELETE FROM objects WHERE key = ?", key)

    await yard.store.meta.transact(lose)
    yard.age(DEBOUNCE_SECONDS)
    await yard.schedule()
    assert [spec.table for spec in await yard.specs_in()] == ["well"]


async def test_a_policy_at_a_view_asks_for_nothing(light_yard: Yard, caplog: pytest.LogCaptureFixture) -> None:
    yard = light_yard
    await yard.schedule()
    await yard.catalog.create_view()
    await yard.policy(target=VIEW)
    yard.age(DEBOUNCE_SECONDS)
    assert await yard.schedule() == PlanningTotals()
    assert caplog.records == []


async def test_a_dropped_table_takes_its_records_along(light_yard: Yard) -> None:
    yard = light_yard
    await yard.table(files=6)
    await yard.policy()
    await yard.schedule()
    await yard.complete(await yard.lease())
    await yard.catalog.drop()
    for table in ("upkeep_runs", "upkeep_looks"):
        assert await yard.store.meta.rows(f"SELECT * FROM {table}") == []


async def test_running_it_plans_tells_and_lets_go_of_the_lease_at_the_end(light_yard: Yard) -> None:
    yard = light_yard
    await yard.table(files=6)
    await yard.policy()
    told: list[PlanningTotals] = []
    planned = asyncio.Event()

    def tell(done: PlanningTotals) -> None:
        told.append(done)
        if done.tasks:
            planned.set()

    running = asyncio.create_task(yard.scheduler.run(tell))
    async with asyncio.timeout(30):
        await planned.wait()
    running.cancel()
    with pytest.raises(asyncio.CancelledError):
        await running
    assert sum(done.tasks for done in told) == 1
    leases = yard.scheduler._leases
    assert await leases.find(yard.store.meta, LEASE) is None
    assert await yard.store.object_context.outbox.cursor(yard.store.meta, CURSOR) is not None


async def test_the_lease_is_renewed_while_a_round_takes_long(light_yard: Yard, monkeypatch: pytest.MonkeyPatch) -> None:
    yard = light_yard
    monkeypatch.setattr(scheduler_module, "LEASE_SECONDS", 0.02)
    renewed = asyncio.Event()
    leases = yard.scheduler._leases
    renew = leases.renew

    async def noted(lease: Lease, seconds: float) -> Lease:
        found = await renew(lease, seconds)
        renewed.set()
        return found

    async def long_round() -> SchedulerRound:
        await renewed.wait()
        return SchedulerRound(passed=True)

    monkeypatch.setattr(leases, "renew", noted)
    monkeypatch.setattr(yard.scheduler, "step", long_round)
    told = asyncio.Event()
    running = asyncio.create_task(yard.scheduler.run(lambda _: told.set()))
    async with asyncio.timeout(30):
        await told.wait()
    running.cancel()
    with pytest.raises(asyncio.CancelledError):
        await running


async def test_a_property_that_changes_what_is_small_is_planned_anew(light_yard: Yard) -> None:
    yard, table = light_yard, await light_yard.table(files=6)
    await yard.catalog.commit(table, set_property("write.target-file-size-bytes", "20"))
    await yard.policy()
    assert (await yard.schedule()).tasks == 0
    await yard.catalog.commit(table, set_property("write.target-file-size-bytes", "100"))
    yard.age(DEBOUNCE_SECONDS)
    assert (await yard.schedule()).tasks == 1


async def test_copies_of_what_some_see_of_tables_are_left_alone(light_yard: Yard) -> None:
    await light_yard.catalog.namespace(COPIES_NAMESPACE)
    await light_yard.catalog.create("copy", namespace=COPIES_NAMESPACE)
    identifier = name("copy", COPIES_NAMESPACE)
    for _ in range(2):
        await light_yard.workshop.append(identifier, files=9)
    await light_yard.policy(target=CATALOG, min_input_files=2)
    assert await light_yard.schedule() == PlanningTotals()
    await light_yard.table("t", files=9)
    light_yard.age(DEBOUNCE_SECONDS)
    assert (await light_yard.schedule()).tasks == 1
