"""Events of maintenance tasks, appended to the outbox in the transaction that changes the task.

Kinds are `lakebed:Task` and Planned, Started, Succeeded, Failed (it is retried), Dead (it is not), Redriven or
Withdrawn.
"""

from __future__ import annotations

from collections.abc import Sequence
from enum import StrEnum

import msgspec

from lakebed.catalog.identifiers import display
from lakebed.core.jobs import Cost, PolicyOrigin, TaskSpec
from lakebed.meta.outbox import Outbox, OutboxEvent
from lakebed.meta.seam import Transaction

from .history import RunReport

__all__ = ["TaskEvent", "TaskEventKind", "append_events", "decode_event", "task_event"]


class TaskEventKind(StrEnum):
    """The kinds of events."""

    PLANNED = "lakebed:TaskPlanned"
    STARTED = "lakebed:TaskStarted"
    SUCCEEDED = "lakebed:TaskSucceeded"
    FAILED = "lakebed:TaskFailed"
    DEAD = "lakebed:TaskDead"
    REDRIVEN = "lakebed:TaskRedriven"
    WITHDRAWN = "lakebed:TaskWithdrawn"


class TaskEvent(msgspec.Struct, frozen=True, omit_defaults=True, kw_only=True):
    """The payload of an event. `id` is the table's, as in the events of the catalog."""

    task: int
    job: str
    warehouse: str = ""
    namespace: tuple[str, ...] = ()
    name: str = ""
    id: str = ""
    reason: str = ""
    """Why the task was planned or requested."""
    policy: PolicyOrigin | None = None
    cost: Cost | None = None
    attempts: int = 0
    worker: str = ""
    failure: str = ""
    """The error, or why the task was withdrawn."""
    report: RunReport | None = None
    """The report of a job that succeeded."""
    principal: str = ""


_encode = msgspec.msgpack.Encoder().encode
decode_event = msgspec.msgpack.Decoder(TaskEvent).decode


def task_event(
    kind: TaskEventKind,
    task_id: int,
    spec: TaskSpec,
    now_ms: int,
    *,
    attempts: int = 0,
    worker: str = "",
    failure: str = "",
    report: RunReport | None = None,
    principal: str = "",
) -> OutboxEvent:
    """An event of a task, for the outbox."""
    event = TaskEvent(
        task=task_id,
        job=spec.job,
        warehouse=spec.warehouse,
        namespace=spec.namespace,
        name=spec.table,
        id=spec.entry,
        reason=spec.reason,
        policy=spec.policy,
        cost=spec.cost,
        attempts=attempts,
        worker=worker,
        failure=failure,
        report=report,
        principal=principal or spec.requested_by,
    )
    subject = "/".join(part for part in (spec.warehouse, display(spec.namespace), spec.table) if part)
    return OutboxEvent(kind, subject or spec.job, _encode(event), now_ms)


async def append_events(outbox: Outbox, tx: Transaction, events: Sequence[OutboxEvent]) -> None:
    """Append events in a transaction. Call it last: on some stores, appends of transactions wait for each other."""
    for event in events:
        await outbox.append(tx, event)
