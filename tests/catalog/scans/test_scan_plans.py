from __future__ import annotations

import msgspec
import pytest

from lakebed.catalog.scans import MemoryPlanStore, PlanId, PlanRecord, PlanStatus, PlanStore, ScanRequest
from lakebed.catalog.scans.plan_store import MetadataPlanStore
from lakebed.catalog.scans.scan_plans import ScanPlans
from lakebed.catalog.tables.files import parse_location
from lakebed.core.errors import AccessDenied, AlreadyExists
from tests.catalog.appends import appended
from tests.catalog.harness import CatalogHarness, name
from tests.objects.stores import ROOT, user


def record(
    plan_id: str, table_id: str, status: PlanStatus = PlanStatus.SUBMITTED, expires_ms: int = 1000
) -> PlanRecord:
    return PlanRecord(
        id=PlanId(plan_id),
        table_id=table_id,
        request=ScanRequest(filter={"type": "eq", "term": "id", "value": 1}),
        schema_id=0,
        status=status,
        created_ms=0,
        expires_ms=expires_ms,
    )


@pytest.mark.parametrize("kind", ["stored", "memory"])
async def test_plans_are_stored_replaced_and_removed(catalog: CatalogHarness, kind: str) -> None:
    table_id = (await catalog.create()).entry.id
    store: PlanStore = MetadataPlanStore(catalog.store.meta) if kind == "stored" else MemoryPlanStore()
    first = record("p1", table_id)
    await store.insert(first)
    await store.insert(record("p2", table_id, expires_ms=2000))
    with pytest.raises(AlreadyExists):
        await store.insert(first)
    assert await store.get(PlanId("p1")) == first
    assert await store.get(PlanId("p3")) is None
    done = msgspec.structs.replace(first, status=PlanStatus.COMPLETED)
    assert not await store.replace(done, PlanStatus.CANCELLED)
    assert await store.get(PlanId("p1")) == first
    assert await store.replace(done, PlanStatus.SUBMITTED)
    assert await store.get(PlanId("p1")) == done
    assert await store.remove_expired(999) == 0
    assert await store.remove_expired(1000) == 1
    assert await store.get(PlanId("p1")) is None
    assert await store.get(PlanId("p2")) is not None


async def test_planning_requires_permission_to_read_data(catalog: CatalogHarness) -> None:
    await catalog.create()
    scans = ScanPlans(catalog.store.meta, catalog.files, catalog.entries, catalog.commits, catalog.store.clock)
    with pytest.raises(AccessDenied):
        await scans.plan(user("unprivileged"), "lake", name(), {})
    planned = await scans.plan(ROOT, "lake", name(), {})
    assert planned.result.status is PlanStatus.COMPLETED
    await scans.cancel(ROOT, "lake", name(), planned.result.plan_id)
    catalog.store.clock.advance(3_600)
    assert await scans.delete_expired() == 1


async def test_overwritten_manifests_never_lead_to_another_table(
    catalog: CatalogHarness,
) -> None:
    """A writer can overwrite every file of its table except the current metadata; a plan only reads the table's own
    files."""
    for table in ("victim", "t"):
        await catalog.create(table)
        await catalog.commit(name(table), *await appended(catalog, name(table)))
    snapshots = [(await catalog.metadata(name(table))).current_snapshot for table in ("victim", "t")]
    victims, own = (snapshot.manifest_list for snapshot in snapshots if snapshot is not None)
    assert victims is not None
    assert own is not None
    key = parse_location(own).key
    await catalog.store.put("lake", key, await catalog.files.read(victims))
    scans = ScanPlans(catalog.store.meta, catalog.files, catalog.entries, catalog.commits, catalog.store.clock)
    with pytest.raises(AccessDenied, match="outside the table's directories"):
        await scans.plan(ROOT, "lake", name("t"), {})
    planned = await scans.plan(ROOT, "lake", name("victim"), {})
    assert planned.result.status is PlanStatus.COMPLETED


async def test_plan_reads_manifests_of_earlier_locations(catalog: CatalogHarness) -> None:
    await catalog.create("t")
    await catalog.commit(name("t"), *await appended(catalog, name("t")))
    await catalog.commit(name("t"), {"action": "set-location", "location": "s3://lake/elsewhere"})
    scans = ScanPlans(catalog.store.meta, catalog.files, catalog.entries, catalog.commits, catalog.store.clock)
    tasks = (await scans.plan(ROOT, "lake", name("t"), {})).result.scan_tasks
    assert tasks is not None
    assert len(tasks["file-scan-tasks"]) == 1  # type: ignore[arg-type]  # JSON
