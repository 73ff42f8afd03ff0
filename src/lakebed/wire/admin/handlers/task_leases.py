"""The worker's side of tasks: lease, heartbeat, complete, fail."""

from __future__ import annotations

from collections.abc import Sequence
from typing import Annotated

import msgspec
from msgspec import Meta

from lakebed.catalog.maintenance.tasks.queue import KINDS
from lakebed.catalog.maintenance.tasks.service import TaskView
from lakebed.core.errors import InvalidInput
from lakebed.core.jobs import JobKind
from lakebed.wire.http.message import Response
from lakebed.wire.json.request import JsonRequest
from lakebed.wire.json.responses import no_content, ok
from lakebed.wire.json.routing import Route

from ..documents import lease_document
from ..queries import MAX_WAIT_SECONDS, check_parameters
from ..services import AdminServices
from ..waiting import poll_until
from .tasks import task_id


class LeaseDocument(msgspec.Struct, frozen=True, kw_only=True, rename="kebab", forbid_unknown_fields=True):
    """The body of claimTasks."""

    worker: str
    kinds: list[JobKind] = []
    """All kinds if empty."""
    lease_seconds: float
    limit: int = 1
    wait_seconds: Annotated[float, Meta(ge=0, le=MAX_WAIT_SECONDS)] = 0.0


class HeartbeatDocument(msgspec.Struct, frozen=True, kw_only=True, rename="kebab", forbid_unknown_fields=True):
    """The body of a heartbeat."""

    token: int
    lease_seconds: float
    progress: msgspec.Raw = msgspec.Raw()
    """Empty if absent."""


class CompletionDocument(msgspec.Struct, frozen=True, kw_only=True, rename="kebab", forbid_unknown_fields=True):
    """The body of completeTask."""

    token: int
    report: msgspec.Raw


class FailureDocument(msgspec.Struct, frozen=True, kw_only=True, rename="kebab", forbid_unknown_fields=True):
    """The body of failTask."""

    token: int
    reason: str
    retry: bool = True


async def lease_tasks(services: AdminServices, request: JsonRequest) -> Response:
    """Lease due tasks. Waits for one; the list is empty if none is due in time."""
    check_parameters(request.http, ())
    document = await request.document(LeaseDocument)
    kinds = [kind.value for kind in document.kinds] or KINDS
    leased: Sequence[TaskView] = ()

    async def lease() -> bool:
        nonlocal leased
        leased = await services.tasks.lease(
            request.caller, document.worker, document.kinds, lease_seconds=document.lease_seconds, limit=document.limit
        )
        return bool(leased)

    async def wait_for_work(left: float) -> bool:
        return await services.queue.wait_for_work(kinds, left)

    await poll_until(request.http, document.wait_seconds, lease, wait_for_work)
    return ok({"tasks": [lease_document(view) for view in leased]})


async def heartbeat_task(services: AdminServices, request: JsonRequest) -> Response:
    """Extend a lease. The response has the spec with the table's current name, or null for a dropped table."""
    check_parameters(request.http, ())
    document = await request.document(HeartbeatDocument)
    progress = _object(document.progress, "progress") if bytes(document.progress) else None
    spec = await services.tasks.heartbeat(
        request.caller, task_id(request), document.token, lease_seconds=document.lease_seconds, progress=progress
    )
    return ok({"order": spec})


async def complete_task(services: AdminServices, request: JsonRequest) -> Response:
    """Complete a task with its report."""
    check_parameters(request.http, ())
    document = await request.document(CompletionDocument)
    report = _object(document.report, "report")
    await services.tasks.complete(request.caller, task_id(request), document.token, report)
    return no_content()


async def fail_task(services: AdminServices, request: JsonRequest) -> Response:
    """Fail a task, for a retry or for good."""
    check_parameters(request.http, ())
    document = await request.document(FailureDocument)
    state = await services.tasks.fail(
        request.caller, task_id(request), document.token, document.reason, retry=document.retry
    )
    return ok({"state": state})


def _object(raw: msgspec.Raw, name: str) -> bytes:
    """A JSON object, stored as sent. Raises InvalidInput for other values."""
    text = bytes(raw)
    if not text.startswith(b"{"):
        raise InvalidInput(f"{name} must be an object", argument=name)
    return text


ROUTES = (
    Route("claimTasks", "POST", "/v1/tasks/claim", lease_tasks, is_standard=False),
    Route("heartbeatTask", "POST", "/v1/tasks/{task}/heartbeat", heartbeat_task, is_standard=False),
    Route("completeTask", "POST", "/v1/tasks/{task}/complete", complete_task, is_standard=False),
    Route("failTask", "POST", "/v1/tasks/{task}/fail", fail_task, is_standard=False),
)
