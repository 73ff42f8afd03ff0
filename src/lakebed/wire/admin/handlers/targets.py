"""Event targets: configure, test, pause and resume; list deliveries and redrive dead letters."""

from __future__ import annotations

from typing import Any

import msgspec

from lakebed.events.delivery import Delivery, DeliveryState, TargetRecord, TargetSpec, TargetStatus, masked_settings
from lakebed.events.documents import event_document
from lakebed.events.ids import EventIds
from lakebed.wire.http.message import Response
from lakebed.wire.json.documents import check_no_fields
from lakebed.wire.json.errors import JSON
from lakebed.wire.json.request import JsonRequest
from lakebed.wire.json.responses import no_content, ok
from lakebed.wire.json.routing import Route

from .. import paging
from ..queries import check_parameters, choice_parameter
from ..services import AdminServices

_pages = paging.CursorPages("target deliveries", int)


class EventTargetDocument(msgspec.Struct, rename="kebab", forbid_unknown_fields=True):
    """The body of putTarget."""

    settings: dict[str, Any] = {}  # Any: each type of target has its own settings
    form: str = ""
    kinds: list[str] = []
    subject: str = ""
    audit: bool = False
    requests: bool = False


class RedriveDocument(msgspec.Struct, forbid_unknown_fields=True):
    """The body of redriveTarget."""

    seq: int | None = None


async def list_targets(services: AdminServices, request: JsonRequest) -> Response:
    """List all targets."""
    check_parameters(request.http, ())
    found = await services.targets.list(request.caller)
    return ok({"targets": [status_document(one) for one in found]})


async def list_arns(services: AdminServices, request: JsonRequest) -> Response:
    """List the ARNs of targets, for bucket notification configurations."""
    check_parameters(request.http, ())
    return ok({"arns": await services.targets.arns(request.caller)})


async def get_target(services: AdminServices, request: JsonRequest) -> Response:
    """Get a target."""
    check_parameters(request.http, ())
    return ok(status_document(await services.targets.get(request.caller, *_target(request))))


async def put_target(services: AdminServices, request: JsonRequest) -> Response:
    """Create or replace a target; 201 if it is new. The response has generated settings, such as a secret."""
    check_parameters(request.http, ())
    document = await request.document(EventTargetDocument)
    put = await services.targets.put(
        request.caller,
        *_target(request),
        TargetSpec(
            document.settings, document.form, document.kinds, document.subject, document.audit, document.requests
        ),
    )
    target = _target_document(put.record, put.arn)
    if put.generated:
        target["made"] = put.generated
    return Response(201 if put.is_new else 200, [JSON, ("Cache-Control", "no-store")], msgspec.json.encode(target))


async def delete_target(services: AdminServices, request: JsonRequest) -> Response:
    """Delete a target and its pending deliveries."""
    check_parameters(request.http, ())
    await check_no_fields(request)
    await services.targets.delete(request.caller, *_target(request))
    return no_content()


async def check_target(services: AdminServices, request: JsonRequest) -> Response:
    """Test whether a target is ready to accept an event."""
    check_parameters(request.http, ())
    await check_no_fields(request)
    failure = await services.targets.test(request.caller, *_target(request))
    return ok({"is-ready": failure is None} | ({} if failure is None else {"failure": failure}))


async def pause_target(services: AdminServices, request: JsonRequest) -> Response:
    """Pause deliveries to a target until it is resumed."""
    check_parameters(request.http, ())
    await check_no_fields(request)
    await services.targets.pause(request.caller, *_target(request), is_paused=True)
    return no_content()


async def resume_target(services: AdminServices, request: JsonRequest) -> Response:
    """Resume deliveries to a target where they were paused."""
    check_parameters(request.http, ())
    await check_no_fields(request)
    await services.targets.pause(request.caller, *_target(request), is_paused=False)
    return no_content()


async def list_deliveries(services: AdminServices, request: JsonRequest) -> Response:
    """List the dead letters of a target, or the deliveries that wait for a retry, oldest first."""
    http, (name, type_) = request.http, _target(request)
    check_parameters(http, ("state", *paging.PARAMETERS))
    state = choice_parameter(http, "state", DeliveryState) or DeliveryState.DEAD
    page = _pages.read(http, f"{name}:{type_} {state}")
    found = await services.targets.deliveries(
        request.caller, name, type_, state, after_seq=page.after or 0, limit=page.limit + 1
    )
    items, last = page.cut(found, lambda one: one.entry.seq)
    return page.response({"deliveries": [delivery_document(one, services.event_ids) for one in items]}, last)


async def redrive_target(services: AdminServices, request: JsonRequest) -> Response:
    """Redrive the dead letters of a target, or one of them."""
    check_parameters(request.http, ())
    document = await request.document(RedriveDocument) if request.body else RedriveDocument()
    count = await services.targets.redrive(request.caller, *_target(request), document.seq)
    return ok({"redriven": count})


def status_document(status: TargetStatus) -> dict[str, Any]:
    """A target with the state of its deliveries, without secrets."""
    document = _target_document(status.record, status.arn) | {
        "last-seq": status.last_seq,
        "waiting": status.waiting,
        "dead": status.dead,
    }
    if status.record.subscription.requests:
        document["requests-behind"] = status.requests_behind
    if status.after is not None:
        document["after"] = status.after
    if status.failure:
        document["failure"] = status.failure
    return document


def delivery_document(delivery: Delivery, ids: EventIds) -> dict[str, Any]:
    """An event that is not delivered yet, or a dead letter."""
    document = {
        "event": event_document(delivery.entry, ids.of(delivery.entry)),
        "state": delivery.state,
        "attempts": delivery.attempts,
        "due-ms": delivery.due_ms,
        "changed-ms": delivery.changed_ms,
        "failure": delivery.failure,
    }
    return document | ({"rule": delivery.rule} if delivery.rule else {})


def _target_document(record: TargetRecord, arn: str) -> dict[str, Any]:
    document: dict[str, Any] = {
        "name": record.name,
        "type": record.type,
        "arn": arn,
        "settings": masked_settings(record.settings),
        "kinds": record.subscription.kinds,
        "audit": record.subscription.audit,
        "requests": record.subscription.requests,
        "paused": record.is_paused,
        "origin": record.origin,
    }
    if record.subscription.subject:
        document["subject"] = record.subscription.subject
    if record.form:
        document["form"] = record.form
    return document


def _target(request: JsonRequest) -> tuple[str, str]:
    return request.names["target"], request.names["target-type"]


_ALL = "/v1/targets"
_ONE = _ALL + "/{target-type}/{target}"

ROUTES = (
    Route("listTargets", "GET", _ALL, list_targets, is_standard=False),
    Route("listTargetArns", "GET", _ALL + "/arns", list_arns, is_standard=False),
    Route("getTarget", "GET", _ONE, get_target, is_standard=False),
    Route("putTarget", "PUT", _ONE, put_target, is_standard=False),
    Route("deleteTarget", "DELETE", _ONE, delete_target, is_standard=False),
    Route("testTarget", "POST", _ONE + "/test", check_target, is_standard=False),
    Route("pauseTarget", "POST", _ONE + "/pause", pause_target, is_standard=False),
    Route("resumeTarget", "POST", _ONE + "/resume", resume_target, is_standard=False),
    Route("listTargetDeliveries", "GET", _ONE + "/deliveries", list_deliveries, is_standard=False),
    Route("redriveTarget", "POST", _ONE + "/redrive", redrive_target, is_standard=False),
)
