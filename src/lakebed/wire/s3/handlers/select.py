"""SelectObjectContent: SQL over an object, with an event stream as the response."""

from __future__ import annotations

from collections.abc import Awaitable, Callable
from typing import Final

from lakebed.core.errors import NotSupported, Unavailable
from lakebed.objects.reading import FoundObject
from lakebed.select.errors import SelectCode, failure
from lakebed.select.model import SelectRequest
from lakebed.select.request_checks import check_request
from lakebed.select.seam import QueryRunner, RunningQuery
from lakebed.wire.aws.errors import AwsFault
from lakebed.wire.http.message import Headers, Response

from ..object_headers import CUSTOMER_KEY, customer_key_fault, encryption_headers
from ..payload import read_parsed
from ..request import S3Request
from ..select.document import read_select
from ..select.response import SelectResponse, render_failure
from ..services import S3Services

_EVENT_STREAM: Final = "application/vnd.amazon.eventstream"


async def select_object_content(services: S3Services, request: S3Request) -> Response:
    """SelectObjectContent. The response starts when the query has its first records or fails."""

    async def begin(selects: QueryRunner, query: SelectRequest) -> RunningQuery:
        return await selects.open(request.caller, request.bucket, request.key, query, version=request.version)

    action = "s3:GetObject" if request.version is None else "s3:GetObjectVersion"
    return await _respond(services, request, action, begin)


async def select_objects(services: S3Services, request: S3Request) -> Response:
    """SelectObjects, an extension: SQL over all objects with a prefix."""
    prefix = request.query.get("prefix", "")

    async def begin(selects: QueryRunner, query: SelectRequest) -> RunningQuery:
        return await selects.open_prefix(request.caller, request.bucket, prefix, query)

    return await _respond(services, request, "s3:ListBucket", begin)


def _read_checked(body: bytes) -> SelectRequest:
    query = read_select(body)
    check_request(query)
    return query


async def _respond(
    services: S3Services,
    request: S3Request,
    action: str,
    begin: Callable[[QueryRunner, SelectRequest], Awaitable[RunningQuery]],
) -> Response:
    """Authorize the caller for the action, then read the document and run the query."""
    if services.selects is None:
        raise NotSupported("SelectObjectContent is not supported by this server.")
    if request.query.get("select-type") != "2":
        raise AwsFault(
            400,
            "InvalidArgument",
            "select-type must be 2.",
            ArgumentName="select-type",
            ArgumentValue=request.query.get("select-type", "")[:100],
        )
    if "range" in request.headers:
        raise failure(SelectCode.UNSUPPORTED_RANGE_HEADER, "Range header is not supported for this operation.")
    if any(name.startswith(CUSTOMER_KEY) for name in request.headers):
        raise customer_key_fault()
    await services.buckets.precheck(request.caller, request.bucket, action, key=request.key)
    # An invalid request fails before the object is looked up.
    query = await read_parsed(request, _read_checked)
    try:
        running = await begin(services.selects, query)
        response = SelectResponse(running, services.clock, progress=query.progress, ended=services.select_ended)
        await response.begin()
    except Unavailable as error:
        busy = render_failure(error)
        raise AwsFault(busy.status, busy.code, busy.message, busy.headers) from error
    return Response(200, [("Content-Type", _EVENT_STREAM), *_headers(running.found)], stream=response)


def _headers(found: FoundObject | None) -> Headers:
    if found is None:
        return []
    headers = encryption_headers(found.object.attributes.encrypted)
    if found.bucket.keeps_versions:
        headers.append(("x-amz-version-id", found.object.version))
    return headers
