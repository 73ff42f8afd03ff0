"""Notifications from other catalogs, as Polaris defines them."""

from __future__ import annotations

from typing import Any

import msgspec

from lakebed.catalog.external.notifications import Notification, NotificationKind
from lakebed.wire.http.message import Response
from lakebed.wire.json.request import JsonRequest
from lakebed.wire.json.responses import no_content
from lakebed.wire.json.routing import Route

from ..services import IcebergServices
from .tables import TABLE_PATH


class Payload(msgspec.Struct, rename="kebab"):
    """The change of a table. The table's name is in the path, and its metadata is read from `metadata_location`."""

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
    """Apply a change of a table of another catalog."""
    document = await request.document(NotificationDocument)
    payload = document.payload
    notification = Notification(
        document.notification_type, payload.timestamp, payload.table_uuid, payload.metadata_location
    )
    await services.notifications.receive(request.mutation, request.catalog, request.table, notification)
    return no_content()


ROUTES = (Route("sendNotification", "POST", TABLE_PATH + "/notifications", send_notification, changes=True),)
