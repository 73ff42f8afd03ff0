"""Tasks, for those who ask for work and look what became of it."""

from __future__ import annotations

from lakebed.core.errors import InvalidInput, NotFound
from lakebed.core.jobs import JobKind, TaskSpec
from lakebed.meta.tasks import TaskState
from lakebed.wire.http.message import Response
from lakebed.wire.json.documents import EmptyDocument, read_strict_document
from lakebed.wire.json.request import JsonRequest
from lakebed.wire.json.responses import ok
from lakebed.wire.json.routing import Route

from .. import paging
from ..documents import task_document
from ..queries import check_parameters, choice_parameter
from ..services import AdminServices

_pages = paging.CursorPages("tasks", int)
_LARGEST_ID = (1 << 63) - 1
_BY_SERVER = ("entry", "policy", "cost", "requested_by")


class SubmittedSpec(TaskSpec, frozen=True, kw_only=True, rename="kebab", forbid_unknown_fields=True):
    """An order as it is sent. What the server finds out itself may not be claimed."""


async def list_tasks(services: AdminServices, request: JsonRequest) -> Response:
    """Tasks, oldest first."""
    http = request.http
    check_parameters(http, ("state", "kind", *paging.PARAMETERS))
    state, job = choice_parameter(http, "state", TaskState), choice_parameter(http, "kind", JobKind)
    asked = f"{state or ''} {job or ''}"
    page = _pages.read(http, asked)
    found = await services.tasks.list(
        request.caller, state=state, job=job, after_id=page.after or 0, limit=page.limit + 1
    )
    shown = found[: page.limit]
    document: dict[str, object] = {"tasks": [task_document(seen) for seen in shown]}
    if len(found) > len(shown):
        document["next-page-token"] = _pages.token(asked, shown[-1].task.id)
    return ok(document)


async def get_task(services: AdminServices, request: JsonRequest) -> Response:
    """One task."""
    check_parameters(request.http, ())
    return ok(task_document(await services.tasks.get(request.caller, task_id(request))))


async def submit_task(services: AdminServices, request: JsonRequest) -> Response:
    """Ask for work on a table; 201 if it is new, 200 if the same was waiting or under way."""
    check_parameters(request.http, ())
    spec = await request.document(SubmittedSpec)
    stated = [name for name in _BY_SERVER if getattr(spec, name)]
    if stated:
        names = ", ".join(name.replace("_", "-") for name in stated)
        raise InvalidInput(f"the server fills these in itself; leave them out: {names}", argument=stated[0])
    seen, is_new = await services.tasks.submit(request.caller, spec)
    answer = ok(task_document(seen))
    answer.status = 201 if is_new else 200
    return answer


async def redrive_task(services: AdminServices, request: JsonRequest) -> Response:
    """Give a dead task all its attempts again."""
    check_parameters(request.http, ())
    await read_strict_document(request, EmptyDocument)
    return ok(task_document(await services.tasks.redrive(request.caller, task_id(request))))


def task_id(request: JsonRequest) -> int:
    """The task in the path. Raises NotFound: what is no number names no task."""
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
