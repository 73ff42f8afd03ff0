"""Use cases of maintenance tasks: submitted by principals, leased and ended by workers, listed by both.

A worker holds a task by the token of its lease. Each change of a task commits with its event, and the end of a task
also with the history of the run.
"""

from __future__ import annotations

from collections.abc import Sequence
from typing import Final, NamedTuple

import msgspec

from lakebed.catalog.access.authorization import Action, CatalogAuthorizer, ServerAction
from lakebed.catalog.entries import Entries, live_entry_from
from lakebed.catalog.rows import ENTRY_BY_ID
from lakebed.core.errors import Fenced, InvalidInput, NotFound
from lakebed.core.jobs import JobKind, TaskSpec, decode_spec
from lakebed.meta.outbox import OutboxEvent
from lakebed.meta.seam import Reader, Transaction
from lakebed.meta.tasks import Task, TaskLease, TaskQueue, TaskState
from lakebed.objects.context import ObjectContext
from lakebed.objects.model import Caller

from .authorization import TaskAuthorization
from .events import TaskEventKind, append_events, task_event
from .history import RunReport, TaskHistory, read_report
from .queue import KINDS, TaskSubmissions

__all__ = ["TaskService", "TaskView"]

MAX_PROGRESS_BYTES: Final = 16 * 1024
MAX_FAILURE_CHARS: Final = 8192
MAX_LEASED: Final = 100
LONGEST_LEASE_SECONDS: Final = 3600.0
MAX_WORKER_CHARS: Final = 256

_DROPPED: Final = "the table was dropped"


class TaskView(NamedTuple):
    """A task as APIs show it."""

    task: Task
    spec: TaskSpec
    progress: bytes | None = None
    """The progress that its worker reported last, as JSON."""


class TaskService:
    """The use cases of tasks."""

    def __init__(
        self,
        object_context: ObjectContext,
        authorizer: CatalogAuthorizer,
        entries: Entries,
        queue: TaskQueue,
        admission: TaskAuthorization,
        submissions: TaskSubmissions,
        history: TaskHistory,
    ) -> None:
        self._f = object_context
        self._authorizer = authorizer
        self._entries = entries
        self._queue = queue
        self._admission = admission
        self._submissions = submissions
        self._history = history

    # -- reading --------------------------------------------------------------------------------------------------

    async def list(
        self,
        caller: Caller,
        *,
        state: TaskState | None = None,
        job: JobKind | None = None,
        after_id: int = 0,
        limit: int = 100,
    ) -> Sequence[TaskView]:
        """Tasks in the order of their submission."""
        await self._authorizer.check_server(caller, ServerAction.LIST_TASKS)
        found = await self._queue.of_kinds(
            self._f.meta,
            KINDS if job is None else (job.value,),
            states=tuple(TaskState) if state is None else (state,),
            after_id=after_id,
            limit=limit,
        )
        attempts = await self._history.attempts(self._f.meta, [task.id for task in found])
        return [
            TaskView(task, decode_spec(task.payload), attempts[task.id].progress if task.id in attempts else None)
            for task in found
        ]

    async def get(self, caller: Caller, task_id: int) -> TaskView:
        """One task. Raises NotFound."""
        await self._authorizer.check_server(caller, ServerAction.LIST_TASKS)
        return await self._seen(self._f.meta, task_id)

    # -- submitting -----------------------------------------------------------------------------------------------

    async def submit(self, caller: Caller, spec: TaskSpec) -> tuple[TaskView, bool]:
        """Submit a task; the open task of that job, and whether it is new.

        Raises AccessDenied, NoSuchCatalog, NoSuchTable, InvalidInput.
        """
        admitted = await self._admission.authorize(caller, spec)

        async def work(tx: Transaction) -> tuple[TaskView, bool]:
            placed = await self._submissions.submit_one(tx, admitted)
            return await self._seen(tx, placed.task_id), placed.is_new

        return await self._f.meta.transact(work)

    async def redrive(self, caller: Caller, task_id: int) -> TaskView:
        """Give a dead task all its attempts again. Raises NotFound if it is not dead, AlreadyExists if one is open."""
        await self._authorizer.check_server(caller, ServerAction.SUBMIT_TASK)
        spec = (await self._seen(self._f.meta, task_id)).spec
        if spec.entry:
            known = await self._entries.by_id(spec.entry)
            await self._authorizer.check(
                caller, known.catalog, Action.RUN_MAINTENANCE, namespace=known.namespace.levels, entry=known.entry
            )
        now_ms = self._f.clock.now_ms()

        async def work(tx: Transaction) -> TaskView:
            await self._queue.redrive(tx, task_id)
            await self._history.forget_failures(tx, spec)
            seen = await self._seen(tx, task_id)
            event = task_event(TaskEventKind.REDRIVEN, task_id, spec, now_ms, principal=caller.principal.name)
            await append_events(self._f.outbox, tx, [event])
            return seen

        return await self._f.meta.transact(work)

    # -- working --------------------------------------------------------------------------------------------------

    async def lease(
        self, caller: Caller, worker: str, jobs: Sequence[JobKind], *, lease_seconds: float, limit: int = 1
    ) -> Sequence[TaskView]:
        """Lease due tasks of some jobs, or of all; none if nothing is due. Tasks have the current names of tables."""
        await self._authorizer.check_server(caller, ServerAction.RUN_TASKS)
        if not 1 <= len(worker) <= MAX_WORKER_CHARS:
            raise InvalidInput(f"worker must have 1 to {MAX_WORKER_CHARS} characters", argument="worker")
        if not 1 <= limit <= MAX_LEASED:
            raise InvalidInput(f"limit must be from 1 to {MAX_LEASED}. found={limit}", argument="limit")
        _check_lease(lease_seconds)
        kinds = _kinds(jobs)

        async def work(tx: Transaction) -> Sequence[TaskView]:
            return await self._claim(tx, worker, kinds, lease_seconds, limit)

        # Usually nothing is due, and a read costs less than a transaction.
        return await self._f.meta.transact(work) if await self._queue.is_due(kinds) else []

    async def wait_for_work(self, jobs: Sequence[JobKind], timeout_seconds: float) -> bool:
        """Wait until a task of these jobs, or of any, is due; False on timeout."""
        return await self._queue.wait_for_work(_kinds(jobs), timeout_seconds)

    async def heartbeat(
        self, caller: Caller, task_id: int, token: int, *, lease_seconds: float, progress: bytes | None = None
    ) -> TaskSpec | None:
        """Renew the lease of a task and store its progress. Raises Fenced, NotFound: the worker must stop.

        The task with its table's current name; None if the table was dropped, as another may have its name.
        """
        await self._authorizer.check_server(caller, ServerAction.RUN_TASKS)
        _check_lease(lease_seconds)
        if progress is not None and len(progress) > MAX_PROGRESS_BYTES:
            raise InvalidInput(f"progress has at most {MAX_PROGRESS_BYTES} bytes", argument="progress")

        async def work(tx: Transaction) -> TaskSpec | None:
            claim = await self._queue.held(tx, task_id, token)
            await self._queue.heartbeat_within(tx, claim, lease_seconds)
            if progress is not None:
                await self._history.keep_progress(tx, task_id, progress)
            return await self._named(tx, decode_spec(claim.task.payload))

        return await self._f.meta.transact(work)

    async def complete(self, caller: Caller, task_id: int, token: int, report: bytes) -> None:
        """Complete a task with its report. Repeating it changes nothing. Raises Fenced, NotFound, InvalidInput."""
        await self._authorizer.check_server(caller, ServerAction.RUN_TASKS)
        summary = read_report(report)
        now_ms = self._f.clock.now_ms()

        async def work(tx: Transaction) -> None:
            claim = await self._held(tx, task_id, token, TaskState.DONE)
            if claim is None:
                return
            spec = decode_spec(claim.task.payload)
            began = (await self._history.attempts(tx, [task_id])).get(task_id)
            await self._queue.complete(tx, claim, report)
            await self._history.succeeded(tx, task_id, spec, began, summary, now_ms)
            event = _event(TaskEventKind.SUCCEEDED, claim.task, spec, now_ms, summary=summary)
            await append_events(self._f.outbox, tx, [event])

        await self._f.meta.transact(work)

    async def fail(self, caller: Caller, task_id: int, token: int, reason: str, *, retry: bool = True) -> TaskState:
        """Fail a task, with or without a retry; returns its new state. Raises Fenced, NotFound."""
        await self._authorizer.check_server(caller, ServerAction.RUN_TASKS)
        reason = reason.replace("\0", "")[:MAX_FAILURE_CHARS] or "no reason given"
        now_ms = self._f.clock.now_ms()

        async def work(tx: Transaction) -> TaskState:
            claim = await self._held(tx, task_id, token, TaskState.READY, TaskState.DEAD)
            if claim is None:
                return (await self._queue.find(tx, task_id)).state
            spec = decode_spec(claim.task.payload)
            state = await self._queue.fail_within(tx, claim, reason, retry=retry)
            if state is TaskState.DEAD:
                await self._history.failed(tx, task_id, spec, now_ms)
            kind = TaskEventKind.DEAD if state is TaskState.DEAD else TaskEventKind.FAILED
            event = _event(kind, claim.task, spec, now_ms, failure=reason)
            await append_events(self._f.outbox, tx, [event])
            return state

        return await self._f.meta.transact(work)

    # -- steps ----------------------------------------------------------------------------------------------------

    async def _claim(
        self, tx: Transaction, worker: str, kinds: Sequence[str], lease_seconds: float, limit: int
    ) -> Sequence[TaskView]:
        now_ms = self._f.clock.now_ms()
        leased = await self._queue.claim_within(tx, kinds, worker, lease_seconds, limit=limit)
        seen: list[TaskView] = []
        events: list[OutboxEvent] = []
        for claim in leased.claims:
            spec = decode_spec(claim.task.payload)
            if not await self._history.begin(tx, claim.task.id, spec, now_ms):
                # The pipeline does not maintain dropped tables.
                await self._queue.complete(tx, claim, _skipped_report(spec))
                events.append(_event(TaskEventKind.WITHDRAWN, claim.task, spec, now_ms, failure=_DROPPED))
                continue
            spec = await self._named(tx, spec) or spec
            events.append(_event(TaskEventKind.STARTED, claim.task, spec, now_ms))
            seen.append(TaskView(claim.task, spec))
        for task in leased.given_up:
            spec = decode_spec(task.payload)
            await self._history.failed(tx, task.id, spec, now_ms)
            events.append(_event(TaskEventKind.DEAD, task, spec, now_ms, failure=(task.outcome or b"").decode()))
        await append_events(self._f.outbox, tx, events)
        return seen

    async def _named(self, reader: Reader, spec: TaskSpec) -> TaskSpec | None:
        """The task with the current name of its table; None if the table was dropped."""
        if not spec.entry:
            return spec
        row = await reader.row(ENTRY_BY_ID, spec.entry)
        if row is None:
            return None
        known = live_entry_from(row)
        return msgspec.structs.replace(
            spec, warehouse=known.catalog.name, namespace=known.namespace.levels, table=known.entry.name
        )

    async def _held(self, tx: Transaction, task_id: int, token: int, *ends: TaskState) -> TaskLease | None:
        """The lease with a token; None if the same worker ended it in one of these states and the response was lost."""
        try:
            return await self._queue.held(tx, task_id, token)
        except Fenced:
            task = await self._queue.find(tx, task_id)
            if task.token == token and task.state in ends:
                return None
            raise

    async def _seen(self, reader: Reader, task_id: int) -> TaskView:
        task = await self._queue.find(reader, task_id)
        if task.kind not in KINDS:
            raise NotFound(f"no such task. id={task_id}")
        attempt = (await self._history.attempts(reader, [task_id])).get(task_id)
        return TaskView(task, decode_spec(task.payload), None if attempt is None else attempt.progress)


def _skipped_report(spec: TaskSpec) -> bytes:
    """The report of a task whose table was dropped, in the format of workers."""
    table = ".".join((spec.warehouse, *spec.namespace, spec.table))
    report = {"job": spec.job, "table": table, "dry-run": False, "changed": False}
    return msgspec.json.encode(report | {"skipped": [{"what": table, "reason": _DROPPED}]})


def _event(
    kind: TaskEventKind,
    task: Task,
    spec: TaskSpec,
    now_ms: int,
    *,
    failure: str = "",
    summary: RunReport | None = None,
) -> OutboxEvent:
    return task_event(
        kind,
        task.id,
        spec,
        now_ms,
        attempts=task.attempts,
        worker=task.worker or "",
        failure=failure,
        report=summary,
    )


def _kinds(jobs: Sequence[JobKind]) -> Sequence[str]:
    return [job.value for job in dict.fromkeys(jobs)] or KINDS


def _check_lease(seconds: float) -> None:
    if not 0 < seconds <= LONGEST_LEASE_SECONDS:
        raise InvalidInput(
            f"lease-seconds must be above 0 and up to {LONGEST_LEASE_SECONDS:g}. found={seconds:g}",
            argument="lease-seconds",
        )
