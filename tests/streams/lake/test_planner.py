from __future__ import annotations

from collections import defaultdict
from dataclasses import dataclass, field

import pytest

from lakebed.core.errors import Unavailable
from lakebed.streams.buckets.open_buckets import OpenBucket
from lakebed.streams.lake.planner import TaskOutcome, TieringPlanner
from lakebed.streams.lake.schedule import FIRST_BACKOFF_MS, TieringState
from lakebed.streams.schema_evolution import AlterConfigOp, OptionChange
from lakebed.streams.seam import TableBucket
from lakebed.streams.table import StreamTable
from tests.streams.world import StreamWorld

LAKE = {"table.datalake.enabled": "true"}
FRESHNESS = 30


@dataclass
class MemoryTieringTasks:
    """Tiering tasks whose outcomes the test decides."""

    submitted: list[tuple[str, str]] = field(default_factory=list)
    reasons: list[str] = field(default_factory=list)
    outcomes: dict[int, TaskOutcome] = field(default_factory=dict)
    withdrawn: list[int] = field(default_factory=list)
    maintained: list[tuple[str, str, bool, bool]] = field(default_factory=list)
    is_down: bool = False

    async def submit(self, database: str, table: str, reason: str) -> int:
        if self.is_down:
            raise Unavailable("the queue is unavailable")
        for number, path in enumerate(self.submitted):
            if path == (database, table) and self.outcomes[number] is TaskOutcome.OPEN:
                return number
        self.submitted.append((database, table))
        self.reasons.append(reason)
        self.outcomes[len(self.submitted) - 1] = TaskOutcome.OPEN
        return len(self.submitted) - 1

    async def outcome(self, number: int) -> TaskOutcome:
        return self.outcomes[number]

    async def withdraw(self, number: int, why: str) -> None:
        self.withdrawn.append(number)
        self.outcomes[number] = TaskOutcome.GIVEN_UP

    async def maintain(self, database: str, table: str, *, compact: bool, expire: bool) -> None:
        if self.is_down:
            raise Unavailable("the queue is unavailable")
        self.maintained.append((database, table, compact, expire))


class Log:
    """The offsets of a log."""

    def __init__(self) -> None:
        self.start_offset = self.high_watermark = 0


class Planning:
    """A planner over logs that have only offsets."""

    def __init__(self, world: StreamWorld) -> None:
        self.world = world
        self.tasks = MemoryTieringTasks()
        self.logs: dict[tuple[int, int | None, int], Log] = defaultdict(Log)
        self.restart()

    def restart(self) -> None:
        """Create the planner as in a process that has just started."""
        world = self.world
        self.lake = world.new_lake_tiering()
        self.planner = TieringPlanner(
            world.clock, self.lake, world.tables, world.partitions, self.find, self.tasks, lambda: True
        )

    async def find(self, table: StreamTable, partition_id: int | None, number: int) -> OpenBucket:
        log = self.logs[table.id, partition_id, number]
        return OpenBucket(TableBucket(table.id, partition_id, number), log)  # type: ignore[arg-type]  # only the offsets are read

    def write(self, table: StreamTable, count: int, *, bucket: int = 0, partition_id: int | None = None) -> None:
        self.logs[table.id, partition_id, bucket].high_watermark += count

    async def tier(self, table: StreamTable, number: int) -> None:
        """Complete a task as a worker does."""
        reached = {
            (partition_id, bucket): log.high_watermark
            for (table_id, partition_id, bucket), log in self.logs.items()
            if table_id == table.id
        }
        name = await self.lake.prepare(self.world.root, table.id, reached)
        await self.lake.commit(self.world.root, table.id, 100 + number, name)
        self.tasks.outcomes[number] = TaskOutcome.DONE

    async def plan_after(self, seconds: float) -> int:
        """Advance the clock and plan. Returns the number of tasks submitted so far."""
        self.world.clock.advance(seconds)
        await self.planner.plan()
        return len(self.tasks.submitted)

    def state(self, table: StreamTable) -> TieringState:
        return self.lake.tiering.tables[table.id].state


@pytest.fixture
def planning(light_world: StreamWorld) -> Planning:
    return Planning(light_world)


async def test_table_is_tiered_when_it_has_new_records_and_its_freshness_has_elapsed(planning: Planning) -> None:
    table = await planning.world.table(properties=LAKE, bucket_count=2)
    planning.write(table, 7)
    planning.write(table, 5, bucket=1)
    assert await planning.plan_after(0) == 1
    assert planning.tasks.submitted == [("fluss", "orders")]
    assert planning.tasks.reasons[0].startswith("12 records are not in the lake, and the table was never tiered")
    await planning.tier(table, 0)
    planning.write(table, 1)
    assert await planning.plan_after(1) == 1
    assert await planning.plan_after(FRESHNESS - 2) == 1
    assert await planning.plan_after(1) == 2
    assert planning.tasks.reasons[1] == "1 records are not in the lake, which is 30 s old; freshness is 30 s"


async def test_table_without_new_records_is_not_tiered(
    planning: Planning,
) -> None:
    table = await planning.world.table(properties=LAKE)
    assert await planning.plan_after(0) == 0
    assert planning.state(table) is TieringState.SCHEDULED
    assert await planning.plan_after(FRESHNESS) == 0
    planning.write(table, 3)
    assert await planning.plan_after(FRESHNESS - 1) == 0
    assert await planning.plan_after(1) == 1


async def test_one_task_per_table_at_a_time(planning: Planning) -> None:
    table = await planning.world.table(properties=LAKE)
    planning.write(table, 1)
    assert await planning.plan_after(0) == 1
    for _ in range(10):
        planning.write(table, 1)
        assert await planning.plan_after(60) == 1
        assert planning.state(table) is TieringState.TIERING
    # An external tiering service does not get the table either.
    assert await planning.lake.next_table(planning.world.root) is None
    await planning.tier(table, 0)
    planning.write(table, 1)
    # The lake is as old as the submission of the task, which is long ago.
    assert await planning.plan_after(0) == 2


async def test_table_of_an_external_tiering_service_is_not_planned(planning: Planning) -> None:
    table = await planning.world.table(properties=LAKE)
    planning.write(table, 1)
    assert await planning.lake.next_table(planning.world.root) is not None
    assert await planning.plan_after(60) == 0


async def test_disabling_tiering_withdraws_the_task(planning: Planning) -> None:
    world = planning.world
    table, plain = await world.table(properties=LAKE), await world.table("plain")
    planning.write(table, 1)
    planning.write(plain, 1)
    assert await planning.plan_after(0) == 1
    for switch, withdrawn in (("false", [0]), ("true", [0])):
        change = OptionChange("table.datalake.enabled", AlterConfigOp.SET, switch)
        await world.altering.table(world.root, "fluss", "orders", changes=[change])
        await planning.plan_after(0)
        assert planning.tasks.withdrawn == withdrawn
    assert planning.tasks.submitted == [("fluss", "orders")] * 2
    await world.tables.drop(world.root, "fluss", "orders")
    assert await planning.plan_after(3600) == 2
    assert planning.tasks.withdrawn == [0, 1]


async def test_failed_tasks_are_resubmitted_with_backoff(planning: Planning) -> None:
    table = await planning.world.table(properties=LAKE)
    other = await planning.world.table("other", properties=LAKE)
    planning.write(table, 1)
    assert await planning.plan_after(0) == 1
    backoff = FIRST_BACKOFF_MS / 1000
    for number in range(4):
        planning.tasks.outcomes[number] = TaskOutcome.GIVEN_UP
        assert await planning.plan_after(0) == number + 1
        assert await planning.plan_after(backoff - 1) == number + 1
        assert await planning.plan_after(1) == number + 2
        backoff *= 2
    planning.write(other, 1)
    assert await planning.plan_after(FRESHNESS) == 6
    await planning.tier(table, 4)
    planning.write(table, 1)
    assert await planning.plan_after(FRESHNESS) == 7


async def test_unavailable_queue_is_retried_later(planning: Planning) -> None:
    table = await planning.world.table(properties=LAKE)
    planning.write(table, 1)
    planning.tasks.is_down = True
    assert await planning.plan_after(0) == 0
    planning.tasks.is_down = False
    assert await planning.plan_after(1) == 0
    assert await planning.plan_after(FIRST_BACKOFF_MS / 1000) == 1


async def test_bucket_that_fails_to_open_does_not_block_other_tables(
    planning: Planning, monkeypatch: pytest.MonkeyPatch
) -> None:
    world = planning.world
    broken, table = await world.table("broken", properties=LAKE), await world.table(properties=LAKE)
    planning.write(table, 1)
    original = planning.find

    async def find(wanted: StreamTable, partition_id: int | None, number: int) -> OpenBucket:
        if wanted.id == broken.id:
            raise Unavailable("its disk refuses")
        return await original(wanted, partition_id, number)

    monkeypatch.setattr(planning, "find", find)
    planning.restart()
    assert await planning.plan_after(0) == 1
    assert planning.tasks.submitted == [("fluss", "orders")]
    assert planning.lake.tiering.tables[broken.id].failures == 1


async def test_new_leader_adopts_the_open_task(planning: Planning) -> None:
    table = await planning.world.table(properties=LAKE)
    planning.write(table, 1)
    assert await planning.plan_after(0) == 1
    planning.restart()
    assert await planning.plan_after(0) == 1
    assert planning.state(table) is TieringState.TIERING
    await planning.tier(table, 0)
    assert await planning.plan_after(0) == 1
    assert planning.state(table) is TieringState.SCHEDULED


async def test_records_of_all_partitions_count(planning: Planning) -> None:
    world = planning.world
    table = await world.table(properties=LAKE, partition_key=["name"])
    assert await planning.plan_after(0) == 0
    await world.partitions.create(world.root, "fluss", "orders", {"name": "a"})
    (partition,) = await world.partitions.of(table)
    planning.write(table, 2, partition_id=partition.id)
    assert await planning.plan_after(FRESHNESS) == 1
    await planning.tier(table, 0)
    assert await planning.plan_after(FRESHNESS) == 1


@pytest.mark.parametrize(
    ("options", "expected"),
    [
        ({}, []),
        ({"table.datalake.auto-compaction": "true"}, [("fluss", "orders", True, False)]),
        ({"table.datalake.auto-expire-snapshot": "true"}, [("fluss", "orders", False, True)]),
    ],
)
async def test_table_options_enable_maintenance_after_tiering(
    planning: Planning, options: dict[str, str], expected: list[tuple[str, str, bool, bool]]
) -> None:
    table = await planning.world.table(properties=LAKE | options)
    for number in range(3):
        planning.write(table, 7)
        assert await planning.plan_after(FRESHNESS) == number + 1
        assert planning.tasks.maintained == (expected if number else [])
        await planning.tier(table, number)
    await planning.plan_after(0)
    assert planning.tasks.maintained == expected  # not after every task
    planning.write(table, 1)
    await planning.plan_after(3600)
    await planning.tier(table, 3)
    await planning.plan_after(0)
    assert planning.tasks.maintained == expected * 2
