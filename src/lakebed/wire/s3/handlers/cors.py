"""CORS: responses to preflight requests, and headers on the responses to cross-origin requests."""

from __future__ import annotations

from typing import Final

from lakebed.objects.config.cors import METHODS, grant, is_header_name, preflight
from lakebed.wire.aws.errors import AwsFault
from lakebed.wire.http.message import Headers, Request, Response

from ..services import S3Services

__all__ = ["cors_headers", "preflight_response"]

_ORIGIN: Final = "origin"
_METHOD: Final = "access-control-request-method"
_HEADERS: Final = "access-control-request-headers"


async def preflight_response(services: S3Services, request: Request, bucket: str) -> Response:
    """The response to an OPTIONS request. Raises AwsFault if no rule allows the requested method and headers."""
    origin, method = request.headers.get(_ORIGIN), request.headers.get(_METHOD)
    if not origin:
        raise AwsFault(400, "BadRequest", "Insufficient information. Origin request header needed.")
    if not method:
        raise AwsFault(400, "BadRequest", "Insufficient information. Access-Control-Request-Method header needed.")
    if method not in METHODS:
        raise AwsFault(400, "BadRequest", f"Invalid Access-Control-Request-Method: {method[:100]}")
    requested = request.headers.get(_HEADERS)
    for name in (requested or "").split(","):
        if name.strip() and not is_header_name(name.strip()):
            raise AwsFault(
                400, "BadRequest", f'Access-Control-Request-Headers "{name[:100]}" contains invalid character.'
            )
    rules = await services.buckets.cors(bucket)
    if rules is None:
        # The same error as for missing buckets: unauthenticated clients must not learn which names exist.
        raise _forbidden("CORS is not enabled for this bucket.", method)
    granted = preflight(rules, origin, method, requested)
    if granted is None:
        raise _forbidden(
            # The misspelling is S3's.
            "This CORS request is not allowed. This is usually because the evalution of Origin, request method /"
            " Access-Control-Request-Method or Access-Control-Request-Headers are not whitelisted by the resource's"
            " CORS spec.",
            method,
        )
    return Response(200, granted.response_headers())


async def cors_headers(services: S3Services, request: Request, bucket: str) -> Headers:
    """The CORS headers of a response; none if the request has no origin or no rule of the bucket allows it."""
    origin = request.headers.get(_ORIGIN)
    if not origin:
        return []
    # Like S3: Access-Control-Request-Method has precedence over the request's method.
    method = request.headers.get(_METHOD) or request.method
    granted = grant(await services.buckets.cors(bucket), origin, method, _names(request.headers.get(_HEADERS)))
    return [] if granted is None else granted.response_headers()


def _names(headers: str | None) -> list[str]:
    return [name for name in map(str.strip, (headers or "").split(",")) if name]


def _forbidden(reason: str, method: str) -> AwsFault:
    return AwsFault(403, "AccessForbidden", f"CORSResponse: {reason}", Method=method)
