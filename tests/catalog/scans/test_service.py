from __future__ import annotations

from collections.abc import Callable
from typing import Any

import msgspec
import pytest
from hypothesis import given
from hypothesis import strategies as st

from lakebed.catalog.scans import MemoryPlanStore, PlanId, PlanningLimits, PlanningService, PlanResult, PlanStatus
from lakebed.core.clock import ManualClock
from lakebed.core.errors import InvalidInput, LakebedError, NoSuchPlanId, NoSuchPlanTask, NotFound
from lakebed.core.paging import PageTokens
from tests.catalog.scans.lakes import a_lake, a_request
from tests.catalog.validation.lake import Lake

TABLE = "table-1"
LONG = PlanningLimits(inline_list_bytes=0)
ONE_BY_ONE = PlanningLimits(manifests=1)


class PlanningHarness:
    """A table, and a service that plans scans of it."""

    def __init__(self, files: int = 3, limits: PlanningLimits | None = None) -> None:
        self.lake: Lake = a_lake()
        for at in range(files):
            self.lake.append(self.lake.data_file(str(at)))
        self.clock = ManualClock()
        self.store = MemoryPlanStore()
        self.service = self.another(limits)

    def another(self, limits: PlanningLimits | None = None) -> PlanningService:
        """The service of another process."""
        return PlanningService(lambda _: self.lake.files, self.store, self.clock, limits=limits)

    async def plan(self, **request: Any) -> PlanResult:
        return await self.service.plan(TABLE, self.lake.table, a_request(**request))

    async def result(self, plan_id: str) -> PlanResult:
        return await self.service.result(TABLE, self.lake.table, plan_id)

    async def fetch(self, plan_task: str, service: PlanningService | None = None) -> list[str]:
        return found(await (service or self.service).fetch_tasks(TABLE, self.lake.table, plan_task))

    async def carry_out(self, plan_id: str) -> None:
        await self.service.carry_out(TABLE, self.lake.table, plan_id)

    async def cancel(self, plan_id: str) -> None:
        await self.service.cancel(TABLE, plan_id)


def found(scan_tasks: dict[str, Any] | None) -> list[str]:
    assert scan_tasks is not None
    return [task["data-file"]["file-path"].rpartition("/")[2] for task in scan_tasks["file-scan-tasks"]]


def tasks_of(result: PlanResult) -> list[str]:
    assert result.scan_tasks is not None
    tasks = result.scan_tasks["plan-tasks"]
    assert isinstance(tasks, list)
    return tasks


async def test_small_plan_completes_at_once() -> None:
    planning = PlanningHarness()
    result = await planning.plan()
    assert result.status is PlanStatus.COMPLETED
    assert found(result.scan_tasks) == ["2", "1", "0"]
    assert tasks_of(result) == []
    document = result.document()
    assert document["status"] == "completed"
    assert document["plan-id"] == result.plan_id


async def test_empty_table_has_an_empty_plan() -> None:
    planning = PlanningHarness(0)
    result = await planning.plan()
    assert result.document() == {
        "status": "completed", "plan-id": result.plan_id, "plan-tasks": [], "file-scan-tasks": [], "delete-files": [],
    }  # fmt: skip
    planning.lake.append(planning.lake.data_file("later"))
    assert found((await planning.result(result.plan_id)).scan_tasks) == []


async def test_large_plan_is_fetched_by_task_from_any_process() -> None:
    planning = PlanningHarness(4, ONE_BY_ONE)
    result = await planning.plan()
    assert found(result.scan_tasks) == ["3"]
    elsewhere = planning.another(PlanningLimits(manifests=100))
    fetched = [await planning.fetch(task, elsewhere) for task in tasks_of(result)]
    assert fetched == [["2"], ["1"], ["0"]]
    assert await planning.fetch(tasks_of(result)[0]) == ["2"], "a task can be fetched again"


async def test_plan_can_be_fetched_again() -> None:
    planning = PlanningHarness(4, ONE_BY_ONE)
    result = await planning.plan()
    assert await planning.result(result.plan_id) == result


async def test_plan_is_fixed_to_its_snapshot() -> None:
    planning = PlanningHarness(2, ONE_BY_ONE)
    result = await planning.plan(filter={"type": "not-null", "term": "l"})
    planning.lake.append(planning.lake.data_file("later"))
    renamed = [{**field, "name": f"new_{field['name']}"} for field in planning.lake.document["schemas"][0]["fields"]]
    planning.lake.document["schemas"].append({"type": "struct", "schema-id": 1, "fields": renamed})
    planning.lake.document["current-schema-id"] = 1
    assert await planning.fetch(tasks_of(result)[0]) == ["0"]
    assert await planning.result(result.plan_id) == result


async def test_planning_ends_with_the_required_rows() -> None:
    planning = PlanningHarness(4, ONE_BY_ONE)
    assert len(tasks_of(await planning.plan(min_rows_requested=10))) == 0
    assert len(tasks_of(await planning.plan(min_rows_requested=11))) == 3


async def test_long_plan_is_submitted_and_executed_later() -> None:
    planning = PlanningHarness(2, LONG)
    result = await planning.plan()
    assert result.document() == {"status": "submitted", "plan-id": result.plan_id}
    assert (await planning.result(result.plan_id)).status is PlanStatus.SUBMITTED
    await planning.carry_out(result.plan_id)
    done = await planning.result(result.plan_id)
    assert done.status is PlanStatus.COMPLETED
    assert found(done.scan_tasks) == ["1", "0"]
    await planning.carry_out(result.plan_id)
    assert await planning.result(result.plan_id) == done


async def test_invalid_request_is_rejected_before_submission() -> None:
    planning = PlanningHarness(2, LONG)
    with pytest.raises(InvalidInput):
        await planning.plan(filter={"type": "is-null", "term": "nothing"})
    assert await planning.store.remove_expired(2**62) == 0


async def test_error_fails_a_submitted_plan() -> None:
    planning = PlanningHarness(2, LONG)
    result = await planning.plan()
    planning.lake.files.remove(planning.lake.lines[0].path)
    await planning.carry_out(result.plan_id)
    failed = await planning.result(result.plan_id)
    assert failed.document() == {"status": "failed"}
    assert isinstance(failed.failure, NotFound)
    assert "no such file" in str(failed.failure)
    await planning.cancel(result.plan_id)
    assert (await planning.result(result.plan_id)).status is PlanStatus.FAILED


async def test_unexpected_error_fails_the_plan_and_is_raised(monkeypatch: pytest.MonkeyPatch) -> None:
    planning = PlanningHarness(2, LONG)
    result = await planning.plan()

    async def read(location: str, limit: int) -> bytes:
        raise RuntimeError("secret details")

    monkeypatch.setattr(planning.lake.files, "read", read)
    with pytest.raises(RuntimeError):
        await planning.carry_out(result.plan_id)
    failed = await planning.result(result.plan_id)
    assert type(failed.failure) is LakebedError
    assert "secret" not in str(failed.failure)


async def test_cancelled_plan_stays_cancelled() -> None:
    planning = PlanningHarness(2, LONG)
    result = await planning.plan()
    await planning.cancel(result.plan_id)
    await planning.cancel(result.plan_id)
    await planning.carry_out(result.plan_id)
    assert (await planning.result(result.plan_id)).document() == {"status": "cancelled"}


async def test_plan_cancelled_during_execution_stays_cancelled() -> None:
    planning = PlanningHarness(2, LONG)
    result = await planning.plan()
    read = planning.lake.files.read

    class Meanwhile:
        stat = planning.lake.files.stat

        async def read(self, location: str, limit: int) -> bytes:
            await planning.cancel(result.plan_id)
            return await read(location, limit)

    worker = PlanningService(lambda _: Meanwhile(), planning.store, planning.clock)
    await worker.carry_out(TABLE, planning.lake.table, result.plan_id)
    assert (await planning.result(result.plan_id)).status is PlanStatus.CANCELLED


async def test_tasks_of_a_cancelled_plan_are_removed() -> None:
    planning = PlanningHarness(3, ONE_BY_ONE)
    result = await planning.plan()
    await planning.cancel(result.plan_id)
    with pytest.raises(NoSuchPlanTask):
        await planning.fetch(tasks_of(result)[0])


async def test_concurrent_cancellation_wins_over_completion() -> None:
    planning = PlanningHarness(2, LONG)
    result = await planning.plan()
    replace = planning.store.replace
    carried_out: list[bool] = []

    async def late(record: Any, expected: PlanStatus) -> bool:
        if not carried_out:
            carried_out.append(True)
            await planning.carry_out(result.plan_id)
        return await replace(record, expected)

    planning.store.replace = late  # type: ignore[method-assign]
    await planning.cancel(result.plan_id)
    assert (await planning.result(result.plan_id)).status is PlanStatus.CANCELLED


Use = Callable[[PlanningHarness, PlanResult], Any]


@pytest.mark.parametrize(
    "use",
    [
        lambda planning, _: planning.service.result(TABLE, planning.lake.table, "unknown"),
        lambda planning, _: planning.service.cancel(TABLE, "unknown"),
        lambda planning, _: planning.service.carry_out(TABLE, planning.lake.table, "unknown"),
        lambda planning, result: planning.service.result("table-2", planning.lake.table, result.plan_id),
        lambda planning, result: planning.service.cancel("table-2", result.plan_id),
    ],
)
async def test_plans_of_other_tables_are_unknown(use: Use) -> None:
    planning = PlanningHarness(3, ONE_BY_ONE)
    result = await planning.plan()
    with pytest.raises(NoSuchPlanId):
        await use(planning, result)


async def test_tasks_of_other_tables_are_unknown() -> None:
    planning = PlanningHarness(3, ONE_BY_ONE)
    (task, _) = tasks_of(await planning.plan())
    for table_id, token in (
        ("table-2", task),
        (TABLE, ""),
        (TABLE, task[:-1]),
        (TABLE, task + "A"),
        (TABLE, "x" * 9999),
    ):
        with pytest.raises(NoSuchPlanTask):
            await planning.service.fetch_tasks(table_id, planning.lake.table, token)


async def test_forged_task_is_unknown() -> None:
    planning = PlanningHarness(3, ONE_BY_ONE)
    result = await planning.plan()
    tokens = PageTokens("scan task", tuple[str, int])
    assert tokens.encode((result.plan_id, 1)) == tasks_of(result)[0]
    for unit in (-1, 0, 3):
        with pytest.raises(NoSuchPlanTask):
            await planning.fetch(tokens.encode((result.plan_id, unit)))


async def test_plan_expires() -> None:
    planning = PlanningHarness(3, ONE_BY_ONE)
    result = await planning.plan()
    planning.clock.advance(3599)
    assert await planning.result(result.plan_id) == result
    planning.clock.advance(1)
    with pytest.raises(NoSuchPlanId):
        await planning.result(result.plan_id)
    with pytest.raises(NoSuchPlanTask):
        await planning.fetch(tasks_of(result)[0])
    assert await planning.store.remove_expired(planning.clock.now_ms()) == 1


async def test_plan_ends_when_its_snapshot_expires() -> None:
    planning = PlanningHarness(3, ONE_BY_ONE)
    result = await planning.plan(snapshot_id=101)
    planning.lake.document["snapshots"] = planning.lake.document["snapshots"][2:]
    with pytest.raises(NoSuchPlanId, match="expired"):
        await planning.result(result.plan_id)
    with pytest.raises(NoSuchPlanTask):
        await planning.fetch(tasks_of(result)[0])


async def test_incremental_plan_is_fetched_by_task() -> None:
    planning = PlanningHarness(4, ONE_BY_ONE)
    result = await planning.plan(start_snapshot_id=100, end_snapshot_id=102)
    assert found(result.scan_tasks) == ["1"]
    assert [await planning.fetch(task) for task in tasks_of(result)] == [["2"]]


async def test_stored_plan_is_plain_data() -> None:
    planning = PlanningHarness(3, ONE_BY_ONE)
    result = await planning.plan(filter={"type": "gt", "term": "i", "value": 3})
    record = await planning.store.get(PlanId(result.plan_id))
    assert record is not None
    assert msgspec.msgpack.decode(msgspec.msgpack.encode(record), type=type(record)) == record
    assert record.request.snapshot_id == 102


@pytest.mark.slow
@given(st.text(max_size=60))
async def test_noise_is_no_plan_task(noise: str) -> None:
    planning = PlanningHarness(0)
    with pytest.raises(NoSuchPlanTask):
        await planning.service.fetch_tasks(TABLE, planning.lake.table, noise)
