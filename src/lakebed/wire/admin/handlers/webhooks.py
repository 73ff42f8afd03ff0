"""Webhooks: who has events posted, how far that has come, and what could not be delivered."""

from __future__ import annotations

from typing import Any

import msgspec

from lakebed.core.secrets import Secret
from lakebed.events.documents import event_document
from lakebed.events.webhooks import Delivery, DeliveryState, Subscriber, WebhookStatus
from lakebed.wire.http.message import Response
from lakebed.wire.iceberg.answers import no_content, ok
from lakebed.wire.iceberg.errors import JSON
from lakebed.wire.iceberg.request import CatalogRequest
from lakebed.wire.iceberg.routes import Route
from lakebed.wire.iceberg.services import CatalogServices

from .. import paging
from ..queries import check_names, choice

_pages = paging.Pages("webhook deliveries", int)


class WebhookDocument(msgspec.Struct, rename="kebab", forbid_unknown_fields=True):
    """The body of putWebhook."""

    url: str
    kinds: list[str] = msgspec.field(default_factory=lambda: ["*"])
    secret: str | None = None


class RedriveDocument(msgspec.Struct, forbid_unknown_fields=True):
    """The body of redriveWebhook."""

    seq: int | None = None


async def list_webhooks(services: CatalogServices, request: CatalogRequest) -> Response:
    """All of them."""
    check_names(request.http, ())
    found = await services.admin.webhooks.list(request.caller)
    return ok({"webhooks": [status_document(one) for one in found]})


async def get_webhook(services: CatalogServices, request: CatalogRequest) -> Response:
    """One of them."""
    check_names(request.http, ())
    return ok(status_document(await services.admin.webhooks.get(request.caller, request.names["webhook"])))


async def put_webhook(services: CatalogServices, request: CatalogRequest) -> Response:
    """Add one, or change it; 201 if it is new, with its secret if that was made here."""
    check_names(request.http, ())
    asked = request.document(WebhookDocument)
    put = await services.admin.webhooks.put(
        request.caller,
        request.names["webhook"],
        asked.url,
        asked.kinds,
        None if asked.secret is None else Secret(asked.secret),
    )
    document = _described(put.subscriber)
    if put.secret is not None:
        document["secret"] = put.secret.reveal()
    return Response(201 if put.is_new else 200, [JSON, ("Cache-Control", "no-store")], msgspec.json.encode(document))


async def delete_webhook(services: CatalogServices, request: CatalogRequest) -> Response:
    """Remove one, and what waits for it."""
    check_names(request.http, ())
    await services.admin.webhooks.delete(request.caller, request.names["webhook"])
    return no_content()


async def list_deliveries(services: CatalogServices, request: CatalogRequest) -> Response:
    """What was given up, or waits to be tried again, oldest first."""
    http, name = request.http, request.names["webhook"]
    check_names(http, ("state", *paging.PARAMETERS))
    state = choice(http, "state", DeliveryState) or DeliveryState.DEAD
    asked = f"{name} {state}"
    page = _pages.read(http, asked)
    found = await services.admin.webhooks.deliveries(
        request.caller, name, state, after_seq=page.after or 0, limit=page.limit + 1
    )
    shown = found[: page.limit]
    document: dict[str, object] = {"deliveries": [delivery_document(one) for one in shown]}
    if len(found) > len(shown):
        document["next-page-token"] = _pages.token(asked, shown[-1].entry.seq)
    return ok(document)


async def redrive_webhook(services: CatalogServices, request: CatalogRequest) -> Response:
    """Have what was given up tried again, or one event of it."""
    check_names(request.http, ())
    asked = request.document(RedriveDocument) if request.body else RedriveDocument()
    count = await services.admin.webhooks.redrive(request.caller, request.names["webhook"], asked.seq)
    return ok({"redriven": count})


def status_document(status: WebhookStatus) -> dict[str, Any]:
    """A subscriber, and how its deliveries stand. Its secret is not shown again."""
    document = _described(status.subscriber) | {
        "last-seq": status.last_seq,
        "waiting": status.waiting,
        "dead": status.dead,
    }
    if status.after is not None:
        document["after"] = status.after
    if status.failure:
        document["failure"] = status.failure
    return document


def delivery_document(delivery: Delivery) -> dict[str, Any]:
    """An event that was not delivered."""
    return {
        "event": event_document(delivery.entry),
        "state": delivery.state,
        "attempts": delivery.attempts,
        "due-ms": delivery.due_ms,
        "changed-ms": delivery.changed_ms,
        "failure": delivery.failure,
    }


def _described(subscriber: Subscriber) -> dict[str, Any]:
    return {
        "name": subscriber.name,
        "url": subscriber.url,
        "kinds": subscriber.kinds,
        "origin": subscriber.origin,
    }


_ALL = "/v1/webhooks"
_ONE = _ALL + "/{webhook}"

ROUTES = (
    Route("listWebhooks", "GET", _ALL, list_webhooks, is_standard=False),
    Route("getWebhook", "GET", _ONE, get_webhook, is_standard=False),
    Route("putWebhook", "PUT", _ONE, put_webhook, is_standard=False),
    Route("deleteWebhook", "DELETE", _ONE, delete_webhook, is_standard=False),
    Route("listWebhookDeliveries", "GET", _ONE + "/deliveries", list_deliveries, is_standard=False),
    Route("redriveWebhook", "POST", _ONE + "/redrive", redrive_webhook, is_standard=False),
)
