from __future__ import annotations

import msgspec
import pytest

from lakebed.catalog.scans import MemoryPlanStore, PlanFailure, PlanId, PlanRecord, PlanStatus
from lakebed.catalog.scans.plan_store import new_plan_id
from lakebed.catalog.scans.plan_tasks import ManifestSlice
from lakebed.core.clock import ManualClock
from lakebed.core.errors import AlreadyExists
from tests.catalog.scans.lakes import a_request


def a_record(plan_id: str = "p", status: PlanStatus = PlanStatus.SUBMITTED, expires_ms: int = 100) -> PlanRecord:
    return PlanRecord(
        id=PlanId(plan_id),
        table_id="t",
        request=a_request(filter={"type": "eq", "term": "i", "value": 5}, snapshot_id=-(2**63), stats_fields=["i"]),
        schema_id=0,
        status=status,
        work=((ManifestSlice(1, 2, 3, 4),), (ManifestSlice(1, 3), ManifestSlice(2, 0))),
        failure=PlanFailure("InvalidInput", "because"),
        created_ms=0,
        expires_ms=expires_ms,
    )


def test_record_round_trips() -> None:
    record = a_record()
    assert msgspec.msgpack.decode(msgspec.msgpack.encode(record), type=PlanRecord) == record
    assert msgspec.json.decode(msgspec.json.encode(record), type=PlanRecord) == record


async def test_store_returns_plans_by_id() -> None:
    store = MemoryPlanStore()
    await store.insert(a_record("a"))
    assert await store.get(PlanId("a")) == a_record("a")
    assert await store.get(PlanId("b")) is None
    with pytest.raises(AlreadyExists):
        await store.insert(a_record("a", PlanStatus.FAILED))


async def test_store_compares_before_replacing() -> None:
    store = MemoryPlanStore()
    done = a_record(status=PlanStatus.COMPLETED)
    assert not await store.replace(done, PlanStatus.SUBMITTED)
    await store.insert(a_record())
    assert not await store.replace(done, PlanStatus.COMPLETED)
    assert await store.replace(done, PlanStatus.SUBMITTED)
    assert await store.get(PlanId("p")) == done


async def test_store_removes_expired_plans() -> None:
    store = MemoryPlanStore()
    for plan_id, expires_ms in (("a", 10), ("b", 20), ("c", 21)):
        await store.insert(a_record(plan_id, expires_ms=expires_ms))
    assert await store.remove_expired(20) == 2
    assert await store.get(PlanId("b")) is None
    assert await store.get(PlanId("c")) is not None
    assert await store.remove_expired(20) == 0


def test_plan_ids_are_unique_and_ordered() -> None:
    clock = ManualClock()
    first = new_plan_id(clock)
    clock.advance(1)
    assert first < new_plan_id(clock)
    assert len({new_plan_id(clock) for _ in range(100)}) == 100
