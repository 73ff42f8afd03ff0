"""The task queue: tasks survive crashes, are leased to one worker at a time, and end dead after their last attempt.

The life of a task:

    ready ──claim──▶ claimed ──complete──▶ done (kept if it has an outcome)
      ▲                 │ fail, or the lease expired
      ├──── retry ──────┤
      └──── redrive ── dead (after its last attempt)

A lease has a token that grows with every lease of the task. A worker whose lease was lost is fenced out by it.
"""

from __future__ import annotations

from collections.abc import Sequence
from dataclasses import dataclass, replace
from enum import StrEnum
from random import Random
from typing import NamedTuple

from lakebed.core.clock import Clock
from lakebed.core.errors import Fenced, NotFound

from . import _task_statements as statements
from .commit_notifier import CommitNotifier
from .seam import MetaStore, Reader, Row, Transaction
from .sql_text import padded_batches

_FIRST_RETRY_SECONDS = 1.0
_LONGEST_RETRY_SECONDS = 300.0
_VANISHED = b"the worker vanished"
_KEYS_AT_ONCE = 64


class TaskState(StrEnum):
    """The state of a task."""

    READY = "ready"
    CLAIMED = "claimed"
    DONE = "done"
    DEAD = "dead"


@dataclass(frozen=True, slots=True)
class Task:
    """A stored task."""

    id: int
    kind: str
    dedupe: str | None
    payload: bytes
    state: TaskState
    due_ms: int
    """When a ready task may begin; when the lease of a claimed one expires."""
    attempts: int
    max_attempts: int
    token: int
    worker: str | None
    outcome: bytes | None
    """The outcome of a done task; the error of the last failed attempt."""
    created_ms: int
    changed_ms: int


@dataclass(frozen=True, slots=True)
class TaskLease:
    """A worker's lease of a task."""

    task: Task

    @property
    def token(self) -> int:
        """Greater than that of every earlier lease of this task."""
        return self.task.token


class Enqueued(NamedTuple):
    """A task that was added, or found open."""

    id: int
    is_new: bool
    """False if a task with its dedupe key was open already."""


class ClaimedTasks(NamedTuple):
    """The result of a claim."""

    claims: list[TaskLease]
    given_up: list[Task]
    """Tasks that are dead now, because the lease of their last attempt expired."""


def retry_delay_seconds(attempts: int, chance: float) -> float:
    """The backoff after that many attempts: doubled up to five minutes, reduced by up to half of it by `chance`."""
    longest = min(_LONGEST_RETRY_SECONDS, _FIRST_RETRY_SECONDS * 2.0 ** min(attempts - 1, 32))
    return longest * (1.0 - chance / 2)


class TaskQueue:
    """Tasks of every kind. Methods that take a transaction are steps of it."""

    def __init__(self, store: MetaStore, clock: Clock, random: Random) -> None:
        self._store = store
        self._clock = clock
        self._random = random
        self._notifier = CommitNotifier()

    async def enqueue(
        self,
        tx: Transaction,
        kind: str,
        payload: bytes,
        *,
        dedupe: str | None = None,
        run_at_ms: int | None = None,
        max_attempts: int = 5,
    ) -> int:
        """Add a task; its id. With `dedupe`, an open task of that kind and key is returned instead."""
        added = await self.add(tx, kind, payload, dedupe=dedupe, run_at_ms=run_at_ms, max_attempts=max_attempts)
        return added.id

    async def add(
        self,
        tx: Transaction,
        kind: str,
        payload: bytes,
        *,
        dedupe: str | None = None,
        run_at_ms: int | None = None,
        max_attempts: int = 5,
    ) -> Enqueued:
        """The same, with whether the task is new."""
        now_ms = self._clock.now_ms()
        due_ms = now_ms if run_at_ms is None else run_at_ms
        found = await tx.row(statements.INSERT, kind, dedupe, payload, due_ms, max_attempts, now_ms, now_ms)
        is_new = found is not None
        if is_new:
            tx.on_commit(self._notifier.notify)
        else:
            found = await tx.row(statements.SAME, kind, dedupe)
        if found is None:
            raise RuntimeError("a task vanished inside a transaction")
        return Enqueued(int(found[0]), is_new)

    async def revise(self, tx: Transaction, task_id: int, payload: bytes, *, run_at_ms: int) -> bool:
        """Replace the payload of a task that has not begun, and let it begin at `run_at_ms` if that is earlier.

        False if it has begun or ended.
        """
        changed = await tx.run(statements.REVISE, payload, run_at_ms, run_at_ms, self._clock.now_ms(), task_id)
        if changed:
            tx.on_commit(self._notifier.notify)
        return changed > 0

    async def withdraw(self, tx: Transaction, task_id: int) -> bool:
        """Withdraw a ready task. False if it is claimed or has ended."""
        return await tx.run(statements.WITHDRAW, task_id) > 0

    async def claim(
        self, kinds: Sequence[str], worker: str, lease_seconds: float, *, limit: int = 1
    ) -> list[TaskLease]:
        """Lease up to `limit` due tasks, longest due first. An expired lease is taken over."""

        async def work(tx: Transaction) -> list[TaskLease]:
            return (await self.claim_within(tx, kinds, worker, lease_seconds, limit=limit)).claims

        # A read is cheap and mostly finds nothing; a transaction is not.
        return await self._store.transact(work) if await self.is_due(kinds) else []

    async def claim_within(
        self, tx: Transaction, kinds: Sequence[str], worker: str, lease_seconds: float, *, limit: int = 1
    ) -> ClaimedTasks:
        """The same as a step of a transaction, with the tasks that died on the way."""
        due = _due_statement(len(kinds), locking=self._store.dialect == "postgres")
        now_ms = self._clock.now_ms()
        until_ms = now_ms + round(lease_seconds * 1000)
        taken = ClaimedTasks([], [])
        while len(taken.claims) < limit and (rows := await tx.rows(due, *kinds, now_ms, limit - len(taken.claims))):
            for task in map(_task, rows):
                if task.attempts >= task.max_attempts:
                    await tx.run(statements.DEAD, _VANISHED, now_ms, task.id, task.token)
                    taken.given_up.append(replace(task, state=TaskState.DEAD, outcome=_VANISHED, changed_ms=now_ms))
                else:
                    taken.claims.append(TaskLease(await self._take(tx, task, worker, until_ms, now_ms)))
        return taken

    async def claim_open(self, tx: Transaction, task_id: int, worker: str, lease_seconds: float) -> TaskLease:
        """Lease one open task, due or not, also from the worker that holds it: that lease becomes invalid.

        Raises NotFound when the task has ended.
        """
        task, now_ms = await self.find(tx, task_id), self._clock.now_ms()
        if task.state not in (TaskState.READY, TaskState.CLAIMED):
            raise NotFound(f"no such open task. id={task_id}")
        return TaskLease(await self._take(tx, task, worker, now_ms + round(lease_seconds * 1000), now_ms))

    async def held(self, reader: Reader, task_id: int, token: int) -> TaskLease:
        """The lease with that token, if it is still valid. Raises Fenced; NotFound when the task was removed."""
        task = await self.find(reader, task_id)
        if task.state is not TaskState.CLAIMED or task.token != token:
            raise _lost(task_id, token)
        return TaskLease(task)

    async def heartbeat(self, claim: TaskLease, lease_seconds: float) -> None:
        """Renew the lease. Raises Fenced if another worker took the task, or it has ended: the worker must stop."""

        async def work(tx: Transaction) -> None:
            await self.heartbeat_within(tx, claim, lease_seconds)

        await self._store.transact(work)

    async def heartbeat_within(self, tx: Transaction, claim: TaskLease, lease_seconds: float) -> None:
        """The same as a step of a transaction."""
        now_ms = self._clock.now_ms()
        until_ms = now_ms + round(lease_seconds * 1000)
        _require_mine(claim, await tx.run(statements.HEARTBEAT, until_ms, now_ms, claim.task.id, claim.token))

    async def complete(self, tx: Transaction, claim: TaskLease, outcome: bytes | None = None) -> None:
        """Complete the task. Without an outcome its row is removed. Raises Fenced."""
        if outcome is None:
            touched = await tx.run(statements.GONE, claim.task.id, claim.token)
        else:
            touched = await tx.run(statements.DONE, outcome, self._clock.now_ms(), claim.task.id, claim.token)
        _require_mine(claim, touched)

    async def fail(
        self, claim: TaskLease, reason: str, *, retry: bool = True, retry_in_seconds: float | None = None
    ) -> TaskState:
        """Fail the task: it is retried later, or dead after its last attempt. Raises Fenced."""

        async def work(tx: Transaction) -> TaskState:
            return await self.fail_within(tx, claim, reason, retry=retry, retry_in_seconds=retry_in_seconds)

        return await self._store.transact(work)

    async def fail_within(
        self,
        tx: Transaction,
        claim: TaskLease,
        reason: str,
        *,
        retry: bool = True,
        retry_in_seconds: float | None = None,
    ) -> TaskState:
        """The same as a step of a transaction."""
        now_ms = self._clock.now_ms()
        task, error = claim.task, reason.encode()
        if not retry or task.attempts >= task.max_attempts:
            _require_mine(claim, await tx.run(statements.DEAD, error, now_ms, task.id, claim.token))
            return TaskState.DEAD
        if retry_in_seconds is None:
            retry_in_seconds = retry_delay_seconds(task.attempts, self._random.random())
        due_ms = now_ms + round(retry_in_seconds * 1000)
        _require_mine(claim, await tx.run(statements.RETRY, due_ms, error, now_ms, task.id, claim.token))
        return TaskState.READY

    async def wait_for_work(self, kinds: Sequence[str], timeout_seconds: float) -> bool:
        """Wait until a task of these kinds is due; False on timeout."""
        return await self._notifier.wait_until(lambda: self.is_due(kinds), timeout_seconds)

    async def find(self, reader: Reader, task_id: int) -> Task:
        """One task. Raises NotFound when it does not exist, or has ended without an outcome."""
        found = await reader.row(statements.FIND, task_id)
        if found is None:
            raise NotFound(f"no such task. id={task_id}")
        return _task(found)

    async def of_kinds(
        self,
        reader: Reader,
        kinds: Sequence[str],
        *,
        states: Sequence[TaskState] = tuple(TaskState),
        after_id: int = 0,
        limit: int = 100,
    ) -> list[Task]:
        """Tasks of some kinds, by id. Scans: not for hot paths."""
        statement = statements.LIST % (_marks(len(kinds)), _marks(len(states)))
        return [_task(row) for row in await reader.rows(statement, *kinds, *states, after_id, limit)]

    async def open_with(self, reader: Reader, kinds: Sequence[str], keys: Sequence[str]) -> list[Task]:
        """The open tasks of some kinds that have one of these dedupe keys. One statement for every 64 keys."""
        statement = statements.OPEN_WITH % (_marks(len(kinds)), _marks(_KEYS_AT_ONCE))
        found: list[Task] = []
        for batch in padded_batches(keys, _KEYS_AT_ONCE):
            found += map(_task, await reader.rows(statement, *kinds, *batch))
        return found

    async def redrive(self, tx: Transaction, task_id: int) -> None:
        """Reset the attempts of a dead task, and make it ready. Raises NotFound if it is not dead.

        Raises AlreadyExists when a task with its dedupe key was enqueued since.
        """
        now_ms = self._clock.now_ms()
        if not await tx.run(statements.REDRIVE, now_ms, now_ms, task_id):
            raise NotFound(f"no such dead task. id={task_id}")
        tx.on_commit(self._notifier.notify)

    async def forget_ended(self, *, before_ms: int, limit: int = 1000) -> int:
        """Remove up to `limit` done or dead tasks that ended before; returns the number."""

        async def work(tx: Transaction) -> int:
            return await tx.run(statements.FORGET, before_ms, limit)

        return await self._store.transact(work)

    async def is_due(self, kinds: Sequence[str]) -> bool:
        """Whether a task of these kinds can be claimed now."""
        due = _due_statement(len(kinds), locking=False)
        return await self._store.row(due, *kinds, self._clock.now_ms(), 1) is not None

    async def _take(self, tx: Transaction, task: Task, worker: str, until_ms: int, now_ms: int) -> Task:
        taken = await tx.row(statements.CLAIM, until_ms, worker, now_ms, task.id)
        if taken is None:
            raise RuntimeError("a task vanished inside a transaction")
        return _task(taken)


def _due_statement(kinds: int, *, locking: bool) -> str:
    # SKIP LOCKED: concurrent workers lease different tasks instead of waiting for each other.
    return statements.DUE % _marks(kinds) + (" FOR UPDATE SKIP LOCKED" if locking else "")


def _marks(count: int) -> str:
    return ", ".join("?" * count)


def _task(row: Row) -> Task:
    task_id, kind, dedupe, payload, state, *rest = row
    return Task(task_id, kind, dedupe, payload, TaskState(state), *rest)


def _require_mine(claim: TaskLease, touched: int) -> None:
    if not touched:
        raise _lost(claim.task.id, claim.token)


def _lost(task_id: int, token: int) -> Fenced:
    return Fenced(f"task lease lost. id={task_id} token={token}")
