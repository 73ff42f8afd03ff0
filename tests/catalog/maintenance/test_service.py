from __future__ import annotations

import pytest

from lakebed.catalog.maintenance import table_planner as planner_module
from lakebed.catalog.maintenance.health import Measured
from lakebed.catalog.maintenance.reachability.walking import WalkLimits
from lakebed.core.errors import AccessDenied, InvalidInput, NoSuchCatalog, NoSuchNamespace, NoSuchTable
from lakebed.core.jobs import JobKind, TaskSpec
from tests.catalog.harness import UNPRIVILEGED, name, user_with

from .maintained_catalog import ROOT, MaintainedCatalog, open_maintained_catalog

LOOKS = "s3tables:GetTableMaintenanceConfiguration"


async def test_health_is_measured_from_files(maintained: MaintainedCatalog) -> None:
    table = await maintained.table(files=3, commits=2)
    health = await maintained.parts.maintenance.health(ROOT, "lake", table)
    assert (health.measured, health.data_files, health.small_files, health.manifests) == (Measured.MANIFESTS, 6, 6, 2)
    assert (health.data_bytes, health.snapshots, health.specs_in_use) == (6 * 32, 2, (0,))
    assert health.last_maintained == {}
    await maintained.policy()
    await maintained.schedule()
    await maintained.complete(await maintained.lease())
    health = await maintained.parts.maintenance.health(ROOT, "lake", table)
    assert health.last_maintained == {"compact-table": maintained.store.clock.now_ms()}


async def test_empty_and_unreadable_tables_have_health(
    light_maintained: MaintainedCatalog,
) -> None:
    maintained, empty = light_maintained, await light_maintained.table("empty")
    assert (await maintained.parts.maintenance.health(ROOT, "lake", empty)).data_files == 0
    table = await maintained.table(files=1)
    snapshot = (await maintained.catalog.metadata(table)).current_snapshot
    assert snapshot is not None
    assert snapshot.manifest_list is not None
    await maintained.store.delete("lake", snapshot.manifest_list.removeprefix("s3://lake/"))
    health = await maintained.parts.maintenance.health(ROOT, "lake", table)
    assert (health.measured, health.data_files, health.snapshots) == (Measured.SUMMARY, None, 1)


async def test_health_excludes_overwritten_manifests_of_another_table(
    light_maintained: MaintainedCatalog,
) -> None:
    maintained = light_maintained
    victim, table = await maintained.table("victim", files=3), await maintained.table(files=1)
    own, foreign = [(await maintained.catalog.metadata(one)).current_snapshot for one in (table, victim)]
    assert own is not None
    assert own.manifest_list is not None
    assert foreign is not None
    assert foreign.manifest_list is not None
    listing = await maintained.catalog.files.read(foreign.manifest_list)
    await maintained.store.put("lake", own.manifest_list.removeprefix("s3://lake/"), listing)
    health = await maintained.parts.maintenance.health(ROOT, "lake", table)
    assert (health.measured, health.data_files) == (Measured.SUMMARY, None)


async def test_table_with_too_many_files_is_measured_by_its_summary(
    light_maintained: MaintainedCatalog, monkeypatch: pytest.MonkeyPatch
) -> None:
    monkeypatch.setattr(planner_module, "SURVEY_LIMITS", WalkLimits(manifests=10, files=2))
    maintained = await open_maintained_catalog(light_maintained.catalog)
    table = await maintained.table(files=3)
    assert (await maintained.parts.maintenance.health(ROOT, "lake", table)).measured is Measured.SUMMARY


async def test_tables_of_external_catalogs_are_not_maintained(maintained: MaintainedCatalog) -> None:
    table = await maintained.table(files=3, commits=2)
    await maintained.policy()
    await maintained.schedule()
    assert [spec.job for spec in await maintained.specs_in()] == [JobKind.COMPACT]
    await maintained.catalog.make_external()
    plan, placed = await maintained.parts.maintenance.plan_now(ROOT, "lake", table)
    assert (plan.plan.tasks, placed) == ((), [])
    # The earlier task is withdrawn.
    assert await maintained.specs_in() == []
    spec = TaskSpec(job=JobKind.COMPACT, warehouse="lake", namespace=("ns",), table="t")
    with pytest.raises(InvalidInput, match="external catalog"):
        await maintained.parts.tasks.submit(ROOT, spec)


async def test_health_is_listed_in_pages(maintained: MaintainedCatalog) -> None:
    await maintained.catalog.namespace("other")
    for table in ("a", "b", "c"):
        await maintained.table(table, files=1)
    await maintained.catalog.create("d", namespace="other")
    await maintained.catalog.create_view()
    parts = maintained.parts.maintenance
    everything = await parts.list_health(ROOT, "lake")
    assert sorted(one.table for one in everything.tables) == ["a", "b", "c", "d"]
    assert not everything.truncated
    page = await parts.list_health(ROOT, "lake", limit=3)
    assert page.truncated
    rest = await parts.list_health(ROOT, "lake", after=page.last_id)
    assert [*page.tables, *rest.tables] == everything.tables
    (only,) = (await parts.list_health(ROOT, "lake", ("other",))).tables
    assert (only.table, only.measured) == ("d", Measured.SUMMARY)
    with pytest.raises(NoSuchNamespace):
        await parts.list_health(ROOT, "lake", ("none",))
    with pytest.raises(NoSuchCatalog):
        await parts.list_health(ROOT, "none")


async def test_health_requires_permission(light_maintained: MaintainedCatalog) -> None:
    maintained, table = light_maintained, await light_maintained.table()
    parts = maintained.parts.maintenance
    with pytest.raises(AccessDenied):
        await parts.health(UNPRIVILEGED, "lake", table)
    with pytest.raises(AccessDenied):
        await parts.list_health(user_with(LOOKS), "lake")
    assert (await parts.list_health(user_with("s3tables:ListTables"), "lake")).tables == []
    assert len((await parts.list_health(user_with("s3tables:ListTables", LOOKS), "lake")).tables) == 1
    with pytest.raises(NoSuchTable):
        await parts.health(ROOT, "lake", name("none"))


async def test_plan_has_reasons_and_changes_nothing(maintained: MaintainedCatalog) -> None:
    table = await maintained.table(files=6)
    await maintained.policy()
    await maintained.policy("e", "system.snapshot-expiry")
    await maintained.policy("o", "system.orphan-file-removal", enable=False)
    before = await maintained.catalog.last_event()
    plan = await maintained.parts.maintenance.plan(user_with(LOOKS), "lake", table)
    assert [task.spec.job for task in plan.plan.tasks] == [JobKind.COMPACT]
    assert sorted(skipped.reason.partition("; ")[2] for skipped in plan.plan.skipped) == [
        "it is disabled",
        "none of 1 snapshots has expired",
    ]
    assert await maintained.open_tasks() == []
    assert await maintained.catalog.last_event() == before
    assert await maintained.parts.maintenance.plan(ROOT, "lake", table) == plan
    with pytest.raises(AccessDenied):
        await maintained.parts.maintenance.plan(UNPRIVILEGED, "lake", table)


async def test_plan_can_be_submitted_at_once(maintained: MaintainedCatalog) -> None:
    table = await maintained.table(files=6)
    await maintained.policy()
    parts = maintained.parts.maintenance
    with pytest.raises(AccessDenied):
        await parts.plan_now(user_with("lakebed:SubmitTask", LOOKS), "lake", table)
    with pytest.raises(AccessDenied):
        await parts.plan_now(user_with("s3tables:RunTableMaintenance"), "lake", table)
    _, placed = await parts.plan_now(ROOT, "lake", table)
    assert [one.spec.job for one in placed] == [JobKind.COMPACT]
    plan, again = await parts.plan_now(ROOT, "lake", table)
    assert again == placed
    assert "a task for it is open" in plan.plan.skipped[0].reason
    assert (await maintained.schedule()).tasks == 0


async def test_table_without_policies_has_an_empty_plan(light_maintained: MaintainedCatalog) -> None:
    table = await light_maintained.table(files=6)
    plan = await light_maintained.parts.maintenance.plan(ROOT, "lake", table)
    assert (plan.plan.tasks, plan.plan.skipped, plan.policies) == ((), (), [])


async def test_engine_reports_raise_urgency_and_appear_in_the_reason(
    light_maintained: MaintainedCatalog,
) -> None:
    maintained, table = light_maintained, await light_maintained.table(files=6)
    await maintained.policy()
    (calm,) = (await maintained.parts.maintenance.plan(ROOT, "lake", table)).plan.tasks
    report = b'{"metrics": {"result-data-files": {"unit": "count", "value": 600}}}'
    await maintained.catalog.reports.keep(ROOT, "lake", table, "scan-report", report)
    (hot,) = (await maintained.parts.maintenance.plan(ROOT, "lake", table)).plan.tasks
    assert "engines reported 1 scans lately, 600 files each" in hot.spec.reason
    assert hot.run_at_ms < calm.run_at_ms
    maintained.age(86_401)
    (later,) = (await maintained.parts.maintenance.plan(ROOT, "lake", table)).plan.tasks
    assert "engines" not in later.spec.reason
