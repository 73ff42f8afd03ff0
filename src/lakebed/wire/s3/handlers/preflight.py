"""What a browser is told of other origins: an answer when it asks first, headers on the answers to what it asks for."""

from __future__ import annotations

from typing import Final

from lakebed.objects.config.cors import grant, preflight
from lakebed.wire.http.message import Headers, Request, Response

from ..errors import S3Fault
from ..services import S3Services

__all__ = ["answer_preflight", "cors_headers"]

_ORIGIN: Final = "origin"
_METHOD: Final = "access-control-request-method"
_HEADERS: Final = "access-control-request-headers"


async def answer_preflight(services: S3Services, request: Request, bucket: str) -> Response:
    """OPTIONS: whether a page may send the request it has in mind. Raises S3Fault when it may not."""
    origin, method = request.headers.get(_ORIGIN), request.headers.get(_METHOD)
    if not origin:
        raise S3Fault(400, "BadRequest", "Insufficient information. Origin request header needed.")
    if not method:
        raise S3Fault(400, "BadRequest", "Insufficient information. Access-Control-Request-Method header needed.")
    rules = await services.buckets.cors(bucket)
    if rules is None:
        # Said of absent buckets too: nobody was authenticated, so nobody learns which names exist.
        raise _forbidden("CORS is not enabled for this bucket.", method)
    granted = preflight(rules, origin, method, request.headers.get(_HEADERS))
    if granted is None:
        raise _forbidden(
            "This CORS request is not allowed: no rule of the bucket allows its origin, method and headers together.",
            method,
        )
    return Response(200, granted.response_headers())


async def cors_headers(services: S3Services, request: Request, bucket: str) -> Headers:
    """The headers for a request that names its origin; none where no rule of the bucket allows it."""
    origin = request.headers.get(_ORIGIN)
    if not origin:
        return []
    # As S3 does: a request that names the method it means to ask for is judged by that one.
    method = request.headers.get(_METHOD) or request.method
    granted = grant(await services.buckets.cors(bucket), origin, method)
    return [] if granted is None else granted.response_headers()


def _forbidden(reason: str, method: str) -> S3Fault:
    return S3Fault(403, "AccessForbidden", f"CORSResponse: {reason}", Method=method)
