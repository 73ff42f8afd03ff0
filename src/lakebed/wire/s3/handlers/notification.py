"""GetBucketNotificationConfiguration and PutBucketNotificationConfiguration."""

from __future__ import annotations

from typing import Final
from uuid import uuid4

from lakebed.wire.http.message import Response

from ..documents.notification import read_notification, write_notification
from ..payload import read_parsed
from ..request import S3Request
from ..services import S3Services
from .listings import xml_response

_SKIP: Final = "x-amz-skip-destination-validation"


def _new_rule_id() -> str:
    return uuid4().hex


async def get_notification(services: S3Services, request: S3Request) -> Response:
    """Which events go where; an empty document if none do."""
    return xml_response(write_notification(await services.notifications.read(request.caller, request.bucket)))


async def put_notification(services: S3Services, request: S3Request) -> Response:
    """Replace it whole."""
    # Who may not is told so, whatever the document holds.
    await services.notifications.admit(request.caller, request.bucket)
    configuration = await read_parsed(request.http, request.who, lambda body: read_notification(body, _new_rule_id))
    await services.notifications.put(
        request.caller,
        request.bucket,
        configuration,
        checks_targets=request.headers.get(_SKIP, "").lower() != "true",
    )
    return Response(200)
