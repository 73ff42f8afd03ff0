"""Notifications of other catalogs, in the form of Polaris."""

from __future__ import annotations

from typing import Any

import msgspec

from lakebed.catalog.external.notifications import Notification, NotificationKind
from lakebed.wire.http.message import Response
from lakebed.wire.json.request import JsonRequest
from lakebed.wire.json.responses import no_content
from lakebed.wire.json.routing import Route

from ..services import IcebergServices


class Payload(msgspec.Struct, rename="kebab"):
    """What is told of a table. The path says which; the metadata itself is read where it lies."""

    table_name: str
    timestamp: int
    table_uuid: str
    metadata_location: str
    metadata: dict[str, Any] | None = None  # Any: JSON


class NotificationDocument(msgspec.Struct, rename="kebab"):
    """The body of sendNotification."""

    notification_type: NotificationKind
    payload: Payload


async def send_notification(services: IcebergServices, request: JsonRequest) -> Response:
    """Tell the catalog of a change to a table that is another's."""
    asked = await request.document(NotificationDocument)
    payload = asked.payload
    told = Notification(asked.notification_type, payload.timestamp, payload.table_uuid, payload.metadata_location)
    await services.notifications.receive(request.mutation, request.catalog, request.table, told)
    return no_content()


ROUTES = (
    Route(
        "sendNotification",
        "POST",
        "/v1/{warehouse}/namespaces/{namespace}/tables/{table}/notifications",
        send_notification,
        changes=True,
    ),
)
