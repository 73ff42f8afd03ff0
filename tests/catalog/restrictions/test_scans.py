"""Scan plans of restricted principals: over copies that a worker writes."""

from __future__ import annotations

from dataclasses import dataclass
from typing import Any

import msgspec
import pytest

from lakebed.catalog.idempotency import Mutation
from lakebed.catalog.restrictions import COPIES_NAMESPACE
from lakebed.catalog.restrictions import copies as copies_module
from lakebed.catalog.restrictions.copies import KEPT_MS
from lakebed.catalog.scans.plan_store import PlanStatus
from lakebed.catalog.scans.scan_plans import PlannedScan, ScanPlans
from lakebed.core.errors import (
    AccessDenied,
    CatalogNotEmpty,
    NoSuchCatalog,
    NoSuchPlanId,
    NoSuchPlanTask,
    NotFound,
    NotSupported,
    Throttled,
)
from lakebed.core.jobs import COPY_PROPERTY, CopySpec, JobKind, decode_copy, decode_spec
from lakebed.meta.seam import Transaction
from lakebed.meta.tasks import TaskState
from lakebed.objects.model import Caller
from tests.catalog.appends import appended
from tests.catalog.harness import CatalogHarness, name, user_with
from tests.catalog.policies.policy_catalog import NS, PolicyHarness, wire_policies
from tests.objects.stores import ROOT

from .subjects import content, delegated, restrict_rows, role, wire_scans

ANN = user_with("s3:*", "s3tables:*", principal="ann")
BO = user_with("s3:*", "s3tables:*", principal="bo")
EU = {"type": "eq", "term": "payload", "value": "EU"}


@dataclass(frozen=True)
class RestrictedHarness:
    """A table with a snapshot, on which ann is restricted."""

    catalog: CatalogHarness
    policing: PolicyHarness
    scans: ScanPlans

    async def plan(self, caller: Caller = ANN, **request: Any) -> PlannedScan:
        return await self.scans.plan(caller, "lake", name(), {key.replace("_", "-"): v for key, v in request.items()})

    async def result(self, plan: PlannedScan, caller: Caller = ANN) -> PlannedScan:
        return await self.scans.result(caller, "lake", name(), plan.result.plan_id)

    async def append(self, table: str = "t", *levels: str) -> None:
        identifier = name(table, *levels)
        await self.catalog.commit(identifier, *await appended(self.catalog, identifier))

    async def tasks(self) -> list[Any]:
        return list(
            await self.catalog.tasks.of_kinds(
                self.catalog.store.meta, (JobKind.COPY_RESTRICTED.value,), states=tuple(TaskState), after_id=0, limit=99
            )
        )

    async def fill(self) -> list[CopySpec]:
        """Write every requested copy without a snapshot, as a worker; returns the specifications."""
        done = []
        for claim in await self.catalog.tasks.claim([JobKind.COPY_RESTRICTED], "w", 60, limit=99):
            order = decode_spec(claim.task.payload)
            copy = name(order.table, *order.namespace)
            done.append(decode_copy((await self.catalog.metadata(copy)).properties[COPY_PROPERTY]))
            await self.append(order.table, *order.namespace)
        return done


@pytest.fixture
async def stage(catalog: CatalogHarness) -> RestrictedHarness:
    made = RestrictedHarness(catalog, wire_policies(catalog), wire_scans(catalog))
    await catalog.create("t")
    await made.append()
    await restrict_rows(made.policing, condition=EU)
    return made


def paths(planned: PlannedScan) -> list[str]:
    tasks: Any = (planned.result.scan_tasks or {})["file-scan-tasks"]
    return [task["data-file"]["file-path"] for task in tasks]


async def test_plan_waits_for_its_copy_and_reads_only_the_copy(stage: RestrictedHarness) -> None:
    waiting = await stage.plan()
    assert waiting.is_restricted
    assert waiting.result.status is PlanStatus.SUBMITTED
    assert (await stage.result(waiting)).result.status is PlanStatus.SUBMITTED
    assert waiting.copy is not None

    snapshot = (await stage.catalog.metadata(name())).current_snapshot_id
    assert snapshot is not None
    (order,) = await stage.fill()
    assert order == CopySpec(
        namespace=("ns",),
        table="t",
        snapshot=snapshot,
        columns=("`id` AS `id`", "`payload` AS `payload`"),
        condition="(`payload` = CAST(X'4555' AS STRING))",
    )
    done = await stage.result(waiting)
    assert done.result.status is PlanStatus.COMPLETED
    (path,) = paths(done)
    assert path.startswith(f"{waiting.copy.location}/")
    # The next plan completes at once, with the same copy.
    again = await stage.plan(filter={"type": "not-null", "term": "payload"})
    assert again.result.status is PlanStatus.COMPLETED
    assert paths(again) == [path]
    assert len(await stage.tasks()) == 1
    everything = await stage.plan(BO)
    assert not everything.is_restricted
    assert paths(everything) != [path]


async def test_principals_with_equal_restrictions_share_a_copy(light_catalog: CatalogHarness) -> None:
    stage = RestrictedHarness(light_catalog, wire_policies(light_catalog), wire_scans(light_catalog))
    await light_catalog.create("t")
    await stage.append()
    await role(light_catalog, "reader", "ann", "bo")
    await restrict_rows(stage.policing, principal_roles=["reader"])
    one, other = await stage.plan(ANN), await stage.plan(BO)
    assert one.copy == other.copy
    assert len(await stage.tasks()) == 1
    await restrict_rows(stage.policing, "more", NS, EU, principals=["bo"])
    assert (await stage.plan(BO)).copy != one.copy
    assert (await stage.plan(ANN)).copy == one.copy


async def test_another_snapshot_or_policy_requires_another_copy(stage: RestrictedHarness) -> None:
    first = await stage.plan()
    before = (await stage.catalog.metadata(name())).current_snapshot_id
    await stage.append()
    second = await stage.plan()
    assert second.copy != first.copy
    assert (await stage.plan(snapshot_id=before)).copy == first.copy
    await stage.policing.update("p", content({"filter": True}))
    third = await stage.plan()
    assert third.copy not in (first.copy, second.copy)
    assert len(await stage.tasks()) == 3


async def test_plan_is_not_available_to_other_principals(stage: RestrictedHarness) -> None:
    waiting = await stage.plan()
    everything = await stage.plan(BO)
    with pytest.raises(NoSuchPlanId):
        await stage.result(waiting, BO)
    with pytest.raises(NoSuchPlanId):
        await stage.result(everything, ANN)
    with pytest.raises(NoSuchPlanId):
        await stage.scans.cancel(ANN, "lake", name(), everything.result.plan_id)
    await stage.scans.cancel(ANN, "lake", name(), waiting.result.plan_id)
    assert (await stage.result(waiting)).result.status is PlanStatus.CANCELLED


async def test_policy_change_invalidates_plans_and_credentials_at_once(stage: RestrictedHarness) -> None:
    await stage.plan()
    await stage.fill()
    planned = await stage.plan()
    assert planned.copy is not None
    (path,) = paths(planned)
    file, keys = path.removeprefix("s3://lake/"), delegated(ANN, planned.copy.id)
    reader = stage.catalog.store.reader
    await reader.get(keys, "lake", file)
    # The only access to a copy is with credentials vended with a plan.
    for caller in (ANN, BO, delegated(BO, planned.copy.id), delegated(ANN, "t")):
        with pytest.raises(AccessDenied):
            await reader.get(caller, "lake", file)
    with pytest.raises(AccessDenied):
        await stage.catalog.store.put("lake", file, b"x", caller=keys)

    await stage.policing.update("p", content({"filter": True}))
    with pytest.raises(AccessDenied, match="plan the scan again"):
        await reader.get(keys, "lake", file)
    with pytest.raises(NoSuchPlanId):
        await stage.result(planned)
    await stage.policing.detach()
    with pytest.raises(AccessDenied):
        await reader.get(keys, "lake", file)
    await reader.get(ROOT, "lake", file)


async def test_failed_copy_fails_the_plan_and_is_requested_again(stage: RestrictedHarness) -> None:
    waiting = await stage.plan()
    (claim,) = await stage.catalog.tasks.claim([JobKind.COPY_RESTRICTED], "w", 60, limit=9)
    await stage.catalog.tasks.fail(claim, "column ssn = 123-45-6789 is odd", retry=False)
    failed = (await stage.result(waiting)).result
    assert failed.status is PlanStatus.FAILED
    assert "copy of the table failed" in str(failed.failure)
    assert "ssn" not in str(failed.failure)
    again = await stage.plan()
    assert again.result.status is PlanStatus.SUBMITTED
    assert again.copy != waiting.copy
    assert len(await stage.fill()) == 1
    assert (await stage.result(again)).result.status is PlanStatus.COMPLETED


async def test_table_without_a_snapshot_is_planned_without_a_copy(light_catalog: CatalogHarness) -> None:
    stage = RestrictedHarness(light_catalog, wire_policies(light_catalog), wire_scans(light_catalog))
    await light_catalog.create("t")
    await restrict_rows(stage.policing)
    planned = await stage.plan()
    assert (planned.result.status, planned.copy, paths(planned)) == (PlanStatus.COMPLETED, None, [])


async def test_unsupported_scans_of_restricted_principals_are_rejected(stage: RestrictedHarness) -> None:
    before = (await stage.catalog.metadata(name())).current_snapshot_id
    await stage.append()
    after = (await stage.catalog.metadata(name())).current_snapshot_id
    with pytest.raises(NotSupported):
        await stage.plan(start_snapshot_id=before, end_snapshot_id=after)
    await stage.policing.update("p", content({"filter": {"type": "is-null", "term": "nowhere"}}))
    with pytest.raises(AccessDenied, match="cannot be applied"):
        await stage.plan()
    with pytest.raises(NoSuchPlanTask):
        await stage.scans.tasks(ANN, "lake", name(), "no task")
    f = stage.catalog
    closed = ScanPlans(f.store.meta, f.files, f.entries, f.commits, f.store.clock)
    with pytest.raises(AccessDenied, match="a policy restricts"):
        await closed.plan(ANN, "lake", name(), {})


async def test_unused_copies_are_removed_with_their_files(stage: RestrictedHarness) -> None:
    copies = stage.catalog.copies
    await stage.catalog.set_undrop_window(7 * 86_400)
    planned = await stage.plan()
    await stage.fill()
    assert planned.copy is not None
    stage.catalog.store.clock.advance(KEPT_MS / 1000 - 60)
    await stage.plan()
    stage.catalog.store.clock.advance(KEPT_MS / 1000 - 60)
    assert await copies.discard_unneeded() == 0
    stage.catalog.store.clock.advance(120)
    assert await copies.discard_unneeded() == 1
    with pytest.raises(NotFound):
        await stage.catalog.entries.by_id(planned.copy.id)
    assert await stage.catalog.purges.run_due() == 1
    assert not [key for key in await stage.catalog.keys_in() if planned.copy.id in key]
    assert await copies.discard_unneeded() == 0
    # The table itself is unchanged.
    assert (await stage.plan()).result.status is PlanStatus.SUBMITTED


async def test_renamed_columns_are_scanned_by_their_current_name(stage: RestrictedHarness) -> None:
    fields = [
        {"id": 1, "name": "id", "required": True, "type": "long"},
        {"id": 2, "name": "area", "required": False, "type": "string"},
    ]
    await stage.policing.update("p", content({"filter": {"type": "is-null", "term": "id"}}))
    await stage.catalog.commit(
        name(),
        {"action": "add-schema", "schema": {"type": "struct", "fields": fields}},
        {"action": "set-current-schema", "schema-id": -1},
    )
    await stage.plan()
    await stage.fill()
    planned = await stage.plan(filter={"type": "eq", "term": "area", "value": "x"}, stats_fields=["area"])
    assert len(paths(planned)) == 1


async def test_copies_are_in_a_separate_namespace(stage: RestrictedHarness) -> None:
    planned = await stage.plan()
    assert planned.copy is not None
    known = await stage.catalog.entries.by_id(planned.copy.id)
    assert known.namespace.levels == (COPIES_NAMESPACE,)
    metadata = await stage.catalog.metadata(name(known.entry.name, COPIES_NAMESPACE))
    assert [field["id"] for field in msgspec.json.decode(metadata.schema.written)["fields"]] == [1, 2]


async def test_copies_are_removed_with_their_table(stage: RestrictedHarness) -> None:
    copies = stage.catalog.copies
    planned = await stage.plan()
    assert planned.copy is not None
    await stage.catalog.set_undrop_window(3600)
    await stage.catalog.drop()
    # The table can be restored, and its copies with it.
    assert await copies.discard_unneeded() == 0
    stage.catalog.store.clock.advance(3601)
    await stage.catalog.dropping.expire_dropped()
    assert await copies.discard_unneeded() == 1
    with pytest.raises(NotFound):
        await stage.catalog.entries.by_id(planned.copy.id)


async def test_copies_do_not_prevent_deleting_their_catalog(stage: RestrictedHarness) -> None:
    catalog = stage.catalog
    assert (await stage.plan()).copy is not None
    with pytest.raises(CatalogNotEmpty):
        await catalog.management.delete(catalog.administrator(), ROOT, "lake")
    # Restricted principals can still plan scans of the earlier snapshots.
    assert (await stage.plan()).copy is not None
    await stage.policing.drop("p", detach_all=True)
    await catalog.drop()
    await catalog.namespaces.drop(Mutation(ROOT), "lake", ("ns",))
    await catalog.management.delete(catalog.administrator(), ROOT, "lake")
    with pytest.raises(NoSuchCatalog):
        await catalog.catalogs.find(catalog.store.meta, "lake")


async def test_number_of_copies_is_limited(stage: RestrictedHarness, monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setattr(copies_module, "MAX_COPIES", 2)
    await stage.plan()
    await stage.append()
    second = await stage.plan()
    await stage.append()
    with pytest.raises(Throttled):
        await stage.plan()
    assert (await stage.plan(snapshot_id=_of(second))).copy == second.copy


async def test_copies_are_in_their_catalogs_base_location(light_catalog: CatalogHarness) -> None:
    stage = RestrictedHarness(light_catalog, wire_policies(light_catalog), wire_scans(light_catalog))
    await light_catalog.create("t")
    await stage.append()
    await restrict_rows(stage.policing)

    async def rename(tx: Transaction) -> None:
        await tx.run("UPDATE warehouses SET name = 'sales' WHERE name = 'lake'")

    await light_catalog.store.meta.transact(rename)
    planned = await stage.scans.plan(ANN, "sales", name(), {})
    assert planned.copy is not None
    assert planned.copy.location == f"s3://lake/restricted/{planned.copy.id}"


def _of(planned: PlannedScan) -> int:
    """The snapshot that was current at planning."""
    snapshot = planned.table.current_snapshot_id
    assert snapshot is not None
    return snapshot
