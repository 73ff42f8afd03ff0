from __future__ import annotations

import asyncio
from random import Random

import pytest
from hypothesis import given
from hypothesis import strategies as st

from lakebed.core.clock import ManualClock
from lakebed.core.errors import AlreadyExists, Fenced, NotFound
from lakebed.meta.seam import MetaStore, Transaction
from lakebed.meta.tasks import Task, TaskLease, TaskQueue, TaskState, retry_delay_seconds


@pytest.fixture
def tasks(core_store: MetaStore, clock: ManualClock) -> TaskQueue:
    return TaskQueue(core_store, clock, Random(7))


class TaskHarness:
    """A queue and its store, with helpers."""

    def __init__(self, store: MetaStore, tasks: TaskQueue) -> None:
        self.store = store
        self.tasks = tasks

    async def enqueue(
        self, payload: bytes = b"", *, kind: str = "k", dedupe: str | None = None, run_at_ms: int | None = None
    ) -> int:
        async def work(tx: Transaction) -> int:
            return await self.tasks.enqueue(tx, kind, payload, dedupe=dedupe, run_at_ms=run_at_ms, max_attempts=2)

        return await self.store.transact(work)

    async def claim(self, worker: str = "w") -> TaskLease:
        (claim,) = await self.tasks.claim(["k"], worker, 10)
        return claim

    async def complete(self, claim: TaskLease, outcome: bytes | None = None) -> None:
        async def work(tx: Transaction) -> None:
            await self.tasks.complete(tx, claim, outcome)

        await self.store.transact(work)

    async def count(self, state: TaskState) -> int:
        return len(await self.store.rows("SELECT id FROM tasks WHERE state = ?", state))

    async def dead(self) -> Task:
        (task,) = await self.tasks.of_kinds(self.store, ["k"], states=[TaskState.DEAD])
        return task

    async def redrive(self, task_id: int) -> None:
        await self.store.transact(lambda tx: self.tasks.redrive(tx, task_id))


@pytest.fixture
def harness(core_store: MetaStore, tasks: TaskQueue) -> TaskHarness:
    return TaskHarness(core_store, tasks)


async def test_task_is_claimed_once_and_removed_on_completion(harness: TaskHarness) -> None:
    task_id = await harness.enqueue(b"\x00payload")
    claim = await harness.claim()
    assert (claim.task.id, claim.task.payload, claim.task.attempts, claim.task.worker) == (
        task_id,
        b"\x00payload",
        1,
        "w",
    )
    assert await harness.tasks.claim(["k"], "other", 10) == []
    await harness.complete(claim)
    with pytest.raises(NotFound):
        await harness.tasks.find(harness.store, task_id)


async def test_task_of_a_rolled_back_transaction_does_not_exist(harness: TaskHarness) -> None:
    async def work(tx: Transaction) -> None:
        await harness.tasks.enqueue(tx, "k", b"")
        raise ValueError("no")

    with pytest.raises(ValueError, match="no"):
        await harness.store.transact(work)
    assert await harness.tasks.claim(["k"], "w", 10) == []


async def test_requested_kinds_are_claimed_longest_due_first(harness: TaskHarness, clock: ManualClock) -> None:
    now_ms = clock.now_ms()
    late = await harness.enqueue(kind="a", run_at_ms=now_ms - 1)
    early = await harness.enqueue(kind="b", run_at_ms=now_ms - 2)
    await harness.enqueue(kind="c")
    claims = await harness.tasks.claim(["a", "b"], "w", 10, limit=5)
    assert [claim.task.id for claim in claims] == [early, late]


async def test_task_is_not_claimed_before_it_is_due(harness: TaskHarness, clock: ManualClock) -> None:
    await harness.enqueue(run_at_ms=clock.now_ms() + 5000)
    assert await harness.tasks.claim(["k"], "w", 10) == []
    clock.advance(5)
    await harness.claim()


async def test_open_task_with_the_same_dedupe_key_is_returned(harness: TaskHarness) -> None:
    first = await harness.enqueue(dedupe="x")
    assert await harness.enqueue(dedupe="x") == first
    assert await harness.enqueue(dedupe="y") != first
    assert await harness.enqueue(kind="other", dedupe="x") != first
    claim = await harness.claim()
    assert claim.task.id == first
    assert await harness.enqueue(dedupe="x") == first
    await harness.complete(claim, b"done")
    assert await harness.enqueue(dedupe="x") != first


async def test_failed_task_is_retried_after_a_delay(harness: TaskHarness, clock: ManualClock) -> None:
    await harness.enqueue()
    claim = await harness.claim()
    assert await harness.tasks.fail(claim, "out of luck", retry_in_seconds=30) is TaskState.READY
    assert await harness.tasks.claim(["k"], "w", 10) == []
    clock.advance(30)
    again = await harness.claim()
    assert again.task.attempts == 2
    assert again.task.outcome == b"out of luck"
    assert again.token > claim.token


async def test_task_is_dead_after_its_last_attempt_until_redriven(harness: TaskHarness, clock: ManualClock) -> None:
    task_id = await harness.enqueue()
    await harness.tasks.fail(await harness.claim(), "once", retry_in_seconds=0)
    last = await harness.claim()
    assert await harness.tasks.fail(last, "twice", retry_in_seconds=0) is TaskState.DEAD
    clock.advance(1000)
    assert await harness.tasks.claim(["k"], "w", 10) == []
    dead = await harness.dead()
    assert (dead.id, dead.attempts, dead.outcome) == (task_id, 2, b"twice")
    await harness.redrive(task_id)
    claim = await harness.claim()
    assert claim.task.attempts == 1
    assert claim.token > last.token
    with pytest.raises(NotFound):
        await harness.redrive(task_id)


async def test_permanent_failure_makes_a_task_dead(harness: TaskHarness) -> None:
    await harness.enqueue()
    assert await harness.tasks.fail(await harness.claim(), "never", retry=False) is TaskState.DEAD


async def test_failures_back_off_by_default(harness: TaskHarness, clock: ManualClock) -> None:
    await harness.enqueue()
    claim = await harness.claim()
    await harness.tasks.fail(claim, "busy")
    task = await harness.tasks.find(harness.store, claim.task.id)
    assert clock.now_ms() + 500 <= task.due_ms <= clock.now_ms() + 1000


async def test_redrive_beside_an_open_task_with_the_same_key_is_rejected(harness: TaskHarness) -> None:
    task_id = await harness.enqueue(dedupe="x")
    await harness.tasks.fail(await harness.claim(), "never", retry=False)
    await harness.enqueue(dedupe="x")
    with pytest.raises(AlreadyExists):
        await harness.redrive(task_id)


async def test_expired_claim_is_taken_over_and_fenced(harness: TaskHarness, clock: ManualClock) -> None:
    await harness.enqueue()
    lost = await harness.claim("vanished")
    clock.advance(10)
    found = await harness.claim("successor")
    assert found.token > lost.token
    with pytest.raises(Fenced):
        await harness.tasks.heartbeat(lost, 10)
    with pytest.raises(Fenced):
        await harness.tasks.fail(lost, "late")
    with pytest.raises(Fenced):
        await harness.complete(lost)
    await harness.complete(found)


async def test_fenced_completion_rolls_back_its_transaction(harness: TaskHarness, clock: ManualClock) -> None:
    await harness.enqueue()
    lost = await harness.claim("vanished")
    clock.advance(10)
    await harness.claim("successor")

    async def work(tx: Transaction) -> None:
        await harness.tasks.enqueue(tx, "effect", b"")
        await harness.tasks.complete(tx, lost)

    with pytest.raises(Fenced):
        await harness.store.transact(work)
    assert await harness.tasks.claim(["effect"], "w", 10) == []


async def test_heartbeat_extends_the_claim(harness: TaskHarness, clock: ManualClock) -> None:
    await harness.enqueue()
    claim = await harness.claim()
    for _ in range(5):
        clock.advance(9)
        await harness.tasks.heartbeat(claim, 10)
        assert await harness.tasks.claim(["k"], "other", 10) == []
    await harness.complete(claim)


async def test_task_with_repeatedly_expired_claims_is_dead_and_others_are_claimed(
    harness: TaskHarness, clock: ManualClock
) -> None:
    poison = await harness.enqueue()
    for _ in range(2):
        await harness.claim()
        clock.advance(10)
    healthy = await harness.enqueue()
    claims = await harness.tasks.claim(["k"], "w", 10, limit=2)
    assert [claim.task.id for claim in claims] == [healthy]
    dead = await harness.dead()
    assert (dead.id, dead.outcome) == (poison, b"the worker vanished")


async def test_concurrent_workers_share_the_tasks(harness: TaskHarness) -> None:
    expected = {await harness.enqueue() for _ in range(24)}
    claims: list[int] = []

    async def work_off(worker: str) -> None:
        while found := await harness.tasks.claim(["k"], worker, 10, limit=2):
            claims.extend(claim.task.id for claim in found)

    while set(claims) != expected:
        await asyncio.gather(*(work_off(f"w{number}") for number in range(6)))
    assert len(claims) == len(expected)


async def test_done_task_with_an_outcome_is_kept_until_forgotten(harness: TaskHarness, clock: ManualClock) -> None:
    task_id = await harness.enqueue()
    await harness.complete(await harness.claim(), b"saved 3 GiB")
    done = await harness.tasks.find(harness.store, task_id)
    assert (done.state, done.outcome) == (TaskState.DONE, b"saved 3 GiB")
    assert await harness.tasks.forget_ended(before_ms=clock.now_ms()) == 0
    clock.advance(1)
    await harness.enqueue()
    assert await harness.tasks.forget_ended(before_ms=clock.now_ms()) == 1
    assert await harness.count(TaskState.DONE) == 0
    assert await harness.count(TaskState.READY) == 1


async def test_new_task_wakes_waiters(harness: TaskHarness) -> None:
    waiting = asyncio.create_task(harness.tasks.wait_for_work(["k"], 60))
    await asyncio.sleep(0)
    await harness.enqueue()
    assert await waiting
    await harness.claim()
    assert not await harness.tasks.wait_for_work(["k"], 0.01)


async def test_add_returns_whether_the_task_is_new(harness: TaskHarness) -> None:
    async def work(tx: Transaction) -> list[tuple[int, bool]]:
        return [await harness.tasks.add(tx, "k", b"", dedupe="x") for _ in range(2)]

    (first, is_new), (second, is_newer) = await harness.store.transact(work)
    assert (first == second, is_new, is_newer) == (True, True, False)


async def test_unclaimed_task_can_be_revised_and_only_brought_forward(harness: TaskHarness, clock: ManualClock) -> None:
    task_id = await harness.enqueue(b"old", run_at_ms=clock.now_ms() + 1000)

    async def revise(payload: bytes, run_at_ms: int) -> bool:
        return await harness.store.transact(lambda tx: harness.tasks.revise(tx, task_id, payload, run_at_ms=run_at_ms))

    assert await revise(b"new", clock.now_ms() + 5000)
    task = await harness.tasks.find(harness.store, task_id)
    assert (task.payload, task.due_ms) == (b"new", clock.now_ms() + 1000)
    assert await revise(b"newer", clock.now_ms())
    claim = await harness.claim()
    assert claim.task.payload == b"newer"
    assert not await revise(b"late", clock.now_ms())
    await harness.tasks.fail(claim, "busy", retry_in_seconds=0)
    # A task that was attempted once is retried unchanged.
    assert not await revise(b"later", clock.now_ms())


async def test_ready_task_can_be_withdrawn_and_a_claimed_one_cannot(harness: TaskHarness) -> None:
    task_id = await harness.enqueue()

    async def withdraw() -> bool:
        return await harness.store.transact(lambda tx: harness.tasks.withdraw(tx, task_id))

    claim = await harness.claim()
    assert not await withdraw()
    await harness.tasks.fail(claim, "busy", retry_in_seconds=0)
    assert await withdraw()
    assert not await withdraw()
    with pytest.raises(NotFound):
        await harness.tasks.find(harness.store, task_id)


async def test_claim_commits_with_its_transaction_and_returns_dead_tasks(
    harness: TaskHarness, clock: ManualClock
) -> None:
    poison = await harness.enqueue()
    for _ in range(2):
        await harness.claim()
        clock.advance(10)
    healthy = await harness.enqueue()

    async def refused(tx: Transaction) -> None:
        assert (await harness.tasks.claim_within(tx, ["k"], "w", 10)).claims
        raise ValueError("no")

    with pytest.raises(ValueError, match="no"):
        await harness.store.transact(refused)
    assert await harness.count(TaskState.DEAD) == 0
    claimed = await harness.store.transact(lambda tx: harness.tasks.claim_within(tx, ["k"], "w", 10, limit=5))
    assert [claim.task.id for claim in claimed.claims] == [healthy]
    assert [(task.id, task.state, task.outcome) for task in claimed.given_up] == [
        (poison, TaskState.DEAD, b"the worker vanished")
    ]
    assert claimed.given_up == [await harness.tasks.find(harness.store, poison)]


async def test_claim_is_found_by_its_token_while_valid(harness: TaskHarness, clock: ManualClock) -> None:
    await harness.enqueue()
    lost = await harness.claim()
    assert await harness.tasks.held(harness.store, lost.task.id, lost.token) == lost
    clock.advance(10)
    found = await harness.claim()
    for token in (lost.token, found.token + 1):
        with pytest.raises(Fenced):
            await harness.tasks.held(harness.store, lost.task.id, token)
    await harness.complete(found, b"done")
    with pytest.raises(Fenced):
        await harness.tasks.held(harness.store, found.task.id, found.token)
    with pytest.raises(NotFound):
        await harness.tasks.held(harness.store, 10**6, 1)


async def test_tasks_are_listed_by_kind_and_state_in_id_order(harness: TaskHarness) -> None:
    ids = [await harness.enqueue(kind=kind) for kind in ("k", "other", "k", "third")]
    await harness.complete(await harness.claim(), b"done")
    found = await harness.tasks.of_kinds(harness.store, ["k", "third"])
    assert [task.id for task in found] == [ids[0], ids[2], ids[3]]
    done = await harness.tasks.of_kinds(harness.store, ["k", "other"], states=[TaskState.DONE, TaskState.DEAD])
    assert [task.id for task in done] == [ids[0]]
    page = await harness.tasks.of_kinds(harness.store, ["k", "third"], after_id=ids[0], limit=1)
    assert [task.id for task in page] == [ids[2]]


@pytest.mark.parametrize("count", [0, 1, 64, 65])
async def test_open_tasks_are_found_by_dedupe_keys(harness: TaskHarness, count: int) -> None:
    keys = [f"key-{number}" for number in range(count)]
    for key in keys[::3]:
        await harness.enqueue(dedupe=key)
    await harness.enqueue(kind="other", dedupe="key-0")
    await harness.enqueue(dedupe="elsewhere")
    found = await harness.tasks.open_with(harness.store, ["k", "l"], keys)
    assert sorted(task.dedupe or "" for task in found) == sorted(keys[::3])
    if keys:
        await harness.complete(await harness.claim(), b"done")
        assert len(await harness.tasks.open_with(harness.store, ["k"], keys)) == len(found) - 1


@given(st.integers(1, 10_000), st.floats(0, 1))
def test_backoff_is_between_half_a_second_and_five_minutes(attempts: int, chance: float) -> None:
    delay = retry_delay_seconds(attempts, chance)
    assert 0.5 <= delay <= 300
    assert delay <= retry_delay_seconds(attempts + 1, chance)


async def test_open_task_can_be_taken_over_before_its_lease_ends(harness: TaskHarness) -> None:
    task_id = await harness.enqueue()

    async def take_over(tx: Transaction) -> TaskLease:
        return await harness.tasks.claim_open(tx, task_id, "second", 10)

    first = await harness.claim("first")
    second = await harness.store.transact(take_over)
    assert (second.task.worker, second.token > first.token) == ("second", True)
    with pytest.raises(Fenced):
        await harness.tasks.heartbeat(first, 10)
    await harness.complete(second, b"done")
    with pytest.raises(NotFound):
        await harness.store.transact(take_over)
