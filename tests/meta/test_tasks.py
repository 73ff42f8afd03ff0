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


class Desk:
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
def desk(core_store: MetaStore, tasks: TaskQueue) -> Desk:
    return Desk(core_store, tasks)


async def test_task_is_claimed_once_and_removed_on_completion(desk: Desk) -> None:
    task_id = await desk.enqueue(b"\x00payload")
    claim = await desk.claim()
    assert (claim.task.id, claim.task.payload, claim.task.attempts, claim.task.worker) == (
        task_id,
        b"\x00payload",
        1,
        "w",
    )
    assert await desk.tasks.claim(["k"], "other", 10) == []
    await desk.complete(claim)
    with pytest.raises(NotFound):
        await desk.tasks.find(desk.store, task_id)


async def test_task_of_a_rolled_back_transaction_does_not_exist(desk: Desk) -> None:
    async def work(tx: Transaction) -> None:
        await desk.tasks.enqueue(tx, "k", b"")
        raise ValueError("no")

    with pytest.raises(ValueError, match="no"):
        await desk.store.transact(work)
    assert await desk.tasks.claim(["k"], "w", 10) == []


async def test_requested_kinds_are_claimed_longest_due_first(desk: Desk, clock: ManualClock) -> None:
    now_ms = clock.now_ms()
    late = await desk.enqueue(kind="a", run_at_ms=now_ms - 1)
    early = await desk.enqueue(kind="b", run_at_ms=now_ms - 2)
    await desk.enqueue(kind="c")
    claims = await desk.tasks.claim(["a", "b"], "w", 10, limit=5)
    assert [claim.task.id for claim in claims] == [early, late]


async def test_task_is_not_claimed_before_it_is_due(desk: Desk, clock: ManualClock) -> None:
    await desk.enqueue(run_at_ms=clock.now_ms() + 5000)
    assert await desk.tasks.claim(["k"], "w", 10) == []
    clock.advance(5)
    await desk.claim()


async def test_open_task_with_the_same_dedupe_key_is_returned(desk: Desk) -> None:
    first = await desk.enqueue(dedupe="x")
    assert await desk.enqueue(dedupe="x") == first
    assert await desk.enqueue(dedupe="y") != first
    assert await desk.enqueue(kind="other", dedupe="x") != first
    claim = await desk.claim()
    assert claim.task.id == first
    assert await desk.enqueue(dedupe="x") == first
    await desk.complete(claim, b"done")
    assert await desk.enqueue(dedupe="x") != first


async def test_failed_task_is_retried_after_a_delay(desk: Desk, clock: ManualClock) -> None:
    await desk.enqueue()
    claim = await desk.claim()
    assert await desk.tasks.fail(claim, "out of luck", retry_in_seconds=30) is TaskState.READY
    assert await desk.tasks.claim(["k"], "w", 10) == []
    clock.advance(30)
    again = await desk.claim()
    assert again.task.attempts == 2
    assert again.task.outcome == b"out of luck"
    assert again.token > claim.token


async def test_task_is_dead_after_its_last_attempt_until_redriven(desk: Desk, clock: ManualClock) -> None:
    task_id = await desk.enqueue()
    await desk.tasks.fail(await desk.claim(), "once", retry_in_seconds=0)
    last = await desk.claim()
    assert await desk.tasks.fail(last, "twice", retry_in_seconds=0) is TaskState.DEAD
    clock.advance(1000)
    assert await desk.tasks.claim(["k"], "w", 10) == []
    dead = await desk.dead()
    assert (dead.id, dead.attempts, dead.outcome) == (task_id, 2, b"twice")
    await desk.redrive(task_id)
    claim = await desk.claim()
    assert claim.task.attempts == 1
    assert claim.token > last.token
    with pytest.raises(NotFound):
        await desk.redrive(task_id)


async def test_permanent_failure_makes_a_task_dead(desk: Desk) -> None:
    await desk.enqueue()
    assert await desk.tasks.fail(await desk.claim(), "never", retry=False) is TaskState.DEAD


async def test_failures_back_off_by_default(desk: Desk, clock: ManualClock) -> None:
    await desk.enqueue()
    claim = await desk.claim()
    await desk.tasks.fail(claim, "busy")
    task = await desk.tasks.find(desk.store, claim.task.id)
    assert clock.now_ms() + 500 <= task.due_ms <= clock.now_ms() + 1000


async def test_redrive_beside_an_open_task_with_the_same_key_is_rejected(desk: Desk) -> None:
    task_id = await desk.enqueue(dedupe="x")
    await desk.tasks.fail(await desk.claim(), "never", retry=False)
    await desk.enqueue(dedupe="x")
    with pytest.raises(AlreadyExists):
        await desk.redrive(task_id)


async def test_expired_claim_is_taken_over_and_fenced(desk: Desk, clock: ManualClock) -> None:
    await desk.enqueue()
    lost = await desk.claim("vanished")
    clock.advance(10)
    found = await desk.claim("successor")
    assert found.token > lost.token
    with pytest.raises(Fenced):
        await desk.tasks.heartbeat(lost, 10)
    with pytest.raises(Fenced):
        await desk.tasks.fail(lost, "late")
    with pytest.raises(Fenced):
        await desk.complete(lost)
    await desk.complete(found)


async def test_fenced_completion_rolls_back_its_transaction(desk: Desk, clock: ManualClock) -> None:
    await desk.enqueue()
    lost = await desk.claim("vanished")
    clock.advance(10)
    await desk.claim("successor")

    async def work(tx: Transaction) -> None:
        await desk.tasks.enqueue(tx, "effect", b"")
        await desk.tasks.complete(tx, lost)

    with pytest.raises(Fenced):
        await desk.store.transact(work)
    assert await desk.tasks.claim(["effect"], "w", 10) == []


async def test_heartbeat_extends_the_claim(desk: Desk, clock: ManualClock) -> None:
    await desk.enqueue()
    claim = await desk.claim()
    for _ in range(5):
        clock.advance(9)
        await desk.tasks.heartbeat(claim, 10)
        assert await desk.tasks.claim(["k"], "other", 10) == []
    await desk.complete(claim)


async def test_task_with_repeatedly_expired_claims_is_dead_and_others_are_claimed(
    desk: Desk, clock: ManualClock
) -> None:
    poison = await desk.enqueue()
    for _ in range(2):
        await desk.claim()
        clock.advance(10)
    healthy = await desk.enqueue()
    claims = await desk.tasks.claim(["k"], "w", 10, limit=2)
    assert [claim.task.id for claim in claims] == [healthy]
    dead = await desk.dead()
    assert (dead.id, dead.outcome) == (poison, b"the worker vanished")


async def test_concurrent_workers_share_the_tasks(desk: Desk) -> None:
    expected = {await desk.enqueue() for _ in range(24)}
    claims: list[int] = []

    async def work_off(worker: str) -> None:
        while found := await desk.tasks.claim(["k"], worker, 10, limit=2):
            claims.extend(claim.task.id for claim in found)

    while set(claims) != expected:
        await asyncio.gather(*(work_off(f"w{number}") for number in range(6)))
    assert len(claims) == len(expected)


async def test_done_task_with_an_outcome_is_kept_until_forgotten(desk: Desk, clock: ManualClock) -> None:
    task_id = await desk.enqueue()
    await desk.complete(await desk.claim(), b"saved 3 GiB")
    done = await desk.tasks.find(desk.store, task_id)
    assert (done.state, done.outcome) == (TaskState.DONE, b"saved 3 GiB")
    assert await desk.tasks.forget_ended(before_ms=clock.now_ms()) == 0
    clock.advance(1)
    await desk.enqueue()
    assert await desk.tasks.forget_ended(before_ms=clock.now_ms()) == 1
    assert await desk.count(TaskState.DONE) == 0
    assert await desk.count(TaskState.READY) == 1


async def test_new_task_wakes_waiters(desk: Desk) -> None:
    waiting = asyncio.create_task(desk.tasks.wait_for_work(["k"], 60))
    await asyncio.sleep(0)
    await desk.enqueue()
    assert await waiting
    await desk.claim()
    assert not await desk.tasks.wait_for_work(["k"], 0.01)


async def test_add_returns_whether_the_task_is_new(desk: Desk) -> None:
    async def work(tx: Transaction) -> list[tuple[int, bool]]:
        return [await desk.tasks.add(tx, "k", b"", dedupe="x") for _ in range(2)]

    (first, is_new), (second, is_newer) = await desk.store.transact(work)
    assert (first == second, is_new, is_newer) == (True, True, False)


async def test_unclaimed_task_can_be_revised_and_only_brought_forward(desk: Desk, clock: ManualClock) -> None:
    task_id = await desk.enqueue(b"old", run_at_ms=clock.now_ms() + 1000)

    async def revise(payload: bytes, run_at_ms: int) -> bool:
        return await desk.store.transact(lambda tx: desk.tasks.revise(tx, task_id, payload, run_at_ms=run_at_ms))

    assert await revise(b"new", clock.now_ms() + 5000)
    task = await desk.tasks.find(desk.store, task_id)
    assert (task.payload, task.due_ms) == (b"new", clock.now_ms() + 1000)
    assert await revise(b"newer", clock.now_ms())
    claim = await desk.claim()
    assert claim.task.payload == b"newer"
    assert not await revise(b"late", clock.now_ms())
    await desk.tasks.fail(claim, "busy", retry_in_seconds=0)
    # A task that was attempted once is retried unchanged.
    assert not await revise(b"later", clock.now_ms())


async def test_ready_task_can_be_withdrawn_and_a_claimed_one_cannot(desk: Desk) -> None:
    task_id = await desk.enqueue()

    async def withdraw() -> bool:
        return await desk.store.transact(lambda tx: desk.tasks.withdraw(tx, task_id))

    claim = await desk.claim()
    assert not await withdraw()
    await desk.tasks.fail(claim, "busy", retry_in_seconds=0)
    assert await withdraw()
    assert not await withdraw()
    with pytest.raises(NotFound):
        await desk.tasks.find(desk.store, task_id)


async def test_claim_commits_with_its_transaction_and_returns_dead_tasks(desk: Desk, clock: ManualClock) -> None:
    poison = await desk.enqueue()
    for _ in range(2):
        await desk.claim()
        clock.advance(10)
    healthy = await desk.enqueue()

    async def refused(tx: Transaction) -> None:
        assert (await desk.tasks.claim_within(tx, ["k"], "w", 10)).claims
        raise ValueError("no")

    with pytest.raises(ValueError, match="no"):
        await desk.store.transact(refused)
    assert await desk.count(TaskState.DEAD) == 0
    taken = await desk.store.transact(lambda tx: desk.tasks.claim_within(tx, ["k"], "w", 10, limit=5))
    assert [claim.task.id for claim in taken.claims] == [healthy]
    assert [(task.id, task.state, task.outcome) for task in taken.given_up] == [
        (poison, TaskState.DEAD, b"the worker vanished")
    ]
    assert taken.given_up == [await desk.tasks.find(desk.store, poison)]


async def test_claim_is_found_by_its_token_while_valid(desk: Desk, clock: ManualClock) -> None:
    await desk.enqueue()
    lost = await desk.claim()
    assert await desk.tasks.held(desk.store, lost.task.id, lost.token) == lost
    clock.advance(10)
    found = await desk.claim()
    for token in (lost.token, found.token + 1):
        with pytest.raises(Fenced):
            await desk.tasks.held(desk.store, lost.task.id, token)
    await desk.complete(found, b"done")
    with pytest.raises(Fenced):
        await desk.tasks.held(desk.store, found.task.id, found.token)
    with pytest.raises(NotFound):
        await desk.tasks.held(desk.store, 10**6, 1)


async def test_tasks_are_listed_by_kind_and_state_in_id_order(desk: Desk) -> None:
    ids = [await desk.enqueue(kind=kind) for kind in ("k", "other", "k", "third")]
    await desk.complete(await desk.claim(), b"done")
    found = await desk.tasks.of_kinds(desk.store, ["k", "third"])
    assert [task.id for task in found] == [ids[0], ids[2], ids[3]]
    done = await desk.tasks.of_kinds(desk.store, ["k", "other"], states=[TaskState.DONE, TaskState.DEAD])
    assert [task.id for task in done] == [ids[0]]
    page = await desk.tasks.of_kinds(desk.store, ["k", "third"], after_id=ids[0], limit=1)
    assert [task.id for task in page] == [ids[2]]


@pytest.mark.parametrize("count", [0, 1, 64, 65])
async def test_open_tasks_are_found_by_dedupe_keys(desk: Desk, count: int) -> None:
    keys = [f"key-{number}" for number in range(count)]
    for key in keys[::3]:
        await desk.enqueue(dedupe=key)
    await desk.enqueue(kind="other", dedupe="key-0")
    await desk.enqueue(dedupe="elsewhere")
    found = await desk.tasks.open_with(desk.store, ["k", "l"], keys)
    assert sorted(task.dedupe or "" for task in found) == sorted(keys[::3])
    if keys:
        await desk.complete(await desk.claim(), b"done")
        assert len(await desk.tasks.open_with(desk.store, ["k"], keys)) == len(found) - 1


@given(st.integers(1, 10_000), st.floats(0, 1))
def test_backoff_is_between_half_a_second_and_five_minutes(attempts: int, chance: float) -> None:
    delay = retry_delay_seconds(attempts, chance)
    assert 0.5 <= delay <= 300
    assert delay <= retry_delay_seconds(attempts + 1, chance)


async def test_open_task_can_be_taken_over_before_its_lease_ends(desk: Desk) -> None:
    task_id = await desk.enqueue()

    async def take_over(tx: Transaction) -> TaskLease:
        return await desk.tasks.claim_open(tx, task_id, "second", 10)

    first = await desk.claim("first")
    second = await desk.store.transact(take_over)
    assert (second.task.worker, second.token > first.token) == ("second", True)
    with pytest.raises(Fenced):
        await desk.tasks.heartbeat(first, 10)
    await desk.complete(second, b"done")
    with pytest.raises(NotFound):
        await desk.store.transact(take_over)
