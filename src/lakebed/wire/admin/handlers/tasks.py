"""The client's side of tasks: submit, list, get, redrive."""

from __future__ import annotations

from lakebed.core.errors import InvalidInput, NotFound
from lakebed.core.jobs import JobKind, TaskSpec
from lakebed.meta.tasks import TaskState
from lakebed.wire.http.message import Response
from lakebed.wire.json.documents import check_no_fields
from lakebed.wire.json.request import JsonRequest
from lakebed.wire.json.responses import ok
from lakebed.wire.json.routing import Route

from .. import paging
from ..documents import task_document
from ..queries import check_parameters, choice_parameter
from ..services import AdminServices

_pages = paging.CursorPages("tasks", int)
_LARGEST_ID = (1 << 63) - 1
_SET_BY_SERVER = ("entry", "policy", "cost", "requested_by")


class SubmittedSpec(TaskSpec, frozen=True, kw_only=True, rename="kebab", forbid_unknown_fields=True):
    """A submitted task. Fields that the server sets are refused."""


async def list_tasks(services: AdminServices, request: JsonRequest) -> Response:
    """List tasks, oldest first."""
    http = request.http
    check_parameters(http, ("state", "kind", *paging.PARAMETERS))
    state, job = choice_parameter(http, "state", TaskState), choice_parameter(http, "kind", JobKind)
    page = _pages.read(http, f"{state or ''} {job or ''}")
    found = await services.tasks.list(
        request.caller, state=state, job=job, after_id=page.after or 0, limit=page.limit + 1
    )
    items, last = page.cut(found, lambda view: view.task.id)
    return page.response({"tasks": [task_document(view) for view in items]}, last)


async def get_task(services: AdminServices, request: JsonRequest) -> Response:
    """Get a task."""
    check_parameters(request.http, ())
    return ok(task_document(await services.tasks.get(request.caller, task_id(request))))


async def submit_task(services: AdminServices, request: JsonRequest) -> Response:
    """Submit a task; 201 if it is new, 200 if the same job is open for the table already."""
    check_parameters(request.http, ())
    spec = await request.document(SubmittedSpec)
    refused = [name for name in _SET_BY_SERVER if getattr(spec, name)]
    if refused:
        names = ", ".join(name.replace("_", "-") for name in refused)
        raise InvalidInput(f"fields set by the server must be left out: {names}", argument=refused[0])
    task, is_new = await services.tasks.submit(request.caller, spec)
    response = ok(task_document(task))
    response.status = 201 if is_new else 200
    return response


async def redrive_task(services: AdminServices, request: JsonRequest) -> Response:
    """Reset the attempts of a dead task."""
    check_parameters(request.http, ())
    await check_no_fields(request)
    return ok(task_document(await services.tasks.redrive(request.caller, task_id(request))))


def task_id(request: JsonRequest) -> int:
    """The task id in the path. Raises NotFound for other texts."""
    text = request.names["task"]
    if not (text.isascii() and text.isdigit() and len(text) <= 19) or not 0 < int(text) <= _LARGEST_ID:
        raise NotFound(f"no such task. id={text[:80]}")
    return int(text)


ROUTES = (
    Route("listTasks", "GET", "/v1/tasks", list_tasks, is_standard=False),
    Route("submitTask", "POST", "/v1/tasks", submit_task, is_standard=False),
    Route("getTask", "GET", "/v1/tasks/{task}", get_task, is_standard=False),
    Route("redriveTask", "POST", "/v1/tasks/{task}/redrive", redrive_task, is_standard=False),
)
