"""SelectObjectContent: a question in SQL about one object, answered as a stream of messages."""

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
    """Run the query; its first records, or what is wrong with it, are there before the answer begins."""

    async def begin(selects: QueryRunner, asked: SelectRequest) -> RunningQuery:
        return await selects.open(request.caller, request.bucket, request.key, asked, version=request.version)

    action = "s3:GetObject" if request.version is None else "s3:GetObjectVersion"
    return await _answer(services, request, action, begin)


async def select_objects(services: S3Services, request: S3Request) -> Response:
    """The same about all objects under a prefix, as one: an extension."""
    prefix = request.query.get("prefix", "")

    async def begin(selects: QueryRunner, asked: SelectRequest) -> RunningQuery:
        return await selects.open_prefix(request.caller, request.bucket, prefix, asked)

    return await _answer(services, request, "s3:ListBucket", begin)


def _read_checked(body: bytes) -> SelectRequest:
    asked = read_select(body)
    check_request(asked)
    return asked


async def _answer(
    services: S3Services,
    request: S3Request,
    action: str,
    begin: Callable[[QueryRunner, SelectRequest], Awaitable[RunningQuery]],
) -> Response:
    """Check the caller by the action that the select takes, then read the document and run it."""
    if services.selects is None:
        raise NotSupported("SelectObjectContent is not supported by this server.")
    if request.query.get("select-type") != "2":
        raise AwsFault(
            400,
            "InvalidArgument",
            "select-type has to be 2.",
            ArgumentName="select-type",
            ArgumentValue=request.query.get("select-type", "")[:100],
        )
    if "range" in request.headers:
        raise failure(SelectCode.UNSUPPORTED_RANGE_HEADER, "Range header is not supported for this operation.")
    if any(name.startswith(CUSTOMER_KEY) for name in request.headers):
        raise customer_key_fault()
    await services.buckets.precheck(request.caller, request.bucket, action, key=request.key)
    # Checked here, so that what is wrong with a request is answered before anything is said of the object.
    asked = await read_parsed(request.http, request.who, _read_checked)
    try:
        running = await begin(services.selects, asked)
        answer = SelectResponse(running, services.clock, progress=asked.progress, ended=services.select_ended)
        await answer.begin()
    except Unavailable as error:
        busy = render_failure(error)
        raise AwsFault(busy.status, busy.code, busy.message, busy.headers) from error
    return Response(200, [("Content-Type", _EVENT_STREAM), *_headers(running.found)], stream=answer)


def _headers(found: FoundObject | None) -> Headers:
    if found is None:
        return []
    headers = encryption_headers(found.object.attributes.encrypted)
    if found.bucket.keeps_versions:
        headers.append(("x-amz-version-id", found.object.version))
    return headers
