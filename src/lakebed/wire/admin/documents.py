"""Maintenance tasks as JSON documents."""

from __future__ import annotations

from typing import Any

import msgspec

from lakebed.catalog.maintenance.tasks.service import TaskView
from lakebed.meta.tasks import TaskState


def task_document(view: TaskView) -> dict[str, Any]:
    """A task, with the fields that are set."""
    task = view.task
    document: dict[str, Any] = {
        "id": task.id,
        "kind": task.kind,
        "state": task.state,
        "order": view.spec,
        "attempts": task.attempts,
        "max-attempts": task.max_attempts,
        "due-ms": task.due_ms,
        "created-ms": task.created_ms,
        "changed-ms": task.changed_ms,
    }
    if task.worker is not None:
        document["worker"] = task.worker
    if task.outcome is not None:
        if task.state is TaskState.DONE:
            document["report"] = msgspec.Raw(task.outcome)
        else:
            document["failure"] = task.outcome.decode(errors="replace")
    if view.progress is not None:
        document["progress"] = msgspec.Raw(view.progress)
    return document


def lease_document(view: TaskView) -> dict[str, Any]:
    """A task for its lease holder, with the fencing token."""
    return task_document(view) | {"token": view.task.token}
