"""The S3 application: authenticates, routes and handles requests, and maps errors to S3's."""

from __future__ import annotations

import logging
from collections.abc import Awaitable, Callable
from typing import Final
from urllib.parse import unquote

from lakebed.core.clock import Clock
from lakebed.core.errors import LakebedError
from lakebed.objects.model import Caller
from lakebed.wire.audit.refusals import OnRefusal
from lakebed.wire.aws.authentication import Authenticated
from lakebed.wire.aws.errors import AwsFault
from lakebed.wire.aws.request_target import parse_target
from lakebed.wire.http.message import Headers, HeadFault, Request, Response

from . import sts
from .condition_context import request_condition_keys
from .errors import RenderedError, error_response, render_error
from .handlers.cors import cors_headers, preflight_response
from .request import S3Request, log_principal
from .request_checks import EXPECTED_OWNER, NEVER_ANONYMOUS, require_owner
from .routes import find_operation
from .services import S3Services

log = logging.getLogger("lakebed.s3")

Observe = Callable[[str, Request, Response, float], None]
"""Called with every response: the operation's name, the request, the response, the duration in seconds."""

AroundDeletion = Callable[[Caller, str, Callable[[], Awaitable[Response]]], Awaitable[Response]]
"""Called with the caller, a table bucket and the handler that deletes it: runs operation hooks around the handler."""

Trace = Callable[[str, Request, Response, str, str], None]
"""Called with every response to a request with vended credentials, its bucket, and its key or prefix."""


class _Exchange:
    """The state of a request while it is handled."""

    __slots__ = ("bucket", "is_anonymous", "operation", "s3_request")

    def __init__(self) -> None:
        self.operation = "Unknown"
        self.bucket = ""
        self.is_anonymous = False
        self.s3_request: S3Request | None = None

    def log_fields(self, request: Request) -> dict[str, str]:
        return {"request_id": request.request_id, "operation": self.operation}

    def key_or_prefix(self, request: Request) -> str:
        """The key, or the prefix of a listing."""
        if self.s3_request is None:
            return ""
        return self.s3_request.key or request.query.get("prefix", "")


_DELETE_BUCKET: Final = "DeleteBucket"

_HEAD_FAULTS: Final = {
    431: (400, "RequestHeaderSectionTooLarge"),
    500: (500, "InternalError"),
    501: (501, "NotImplemented"),
    503: (503, "SlowDown"),
}
"""S3's status and code for rejected request heads, by HTTP status."""


class S3Application:
    """Serves S3 requests."""

    def __init__(
        self,
        services: S3Services,
        tokens: sts.SecurityTokenService,
        *,
        clock: Clock,
        domains: tuple[str, ...] = (),
        host_id: str = "lakebed",
        observe: Observe | None = None,
        trace: Trace | None = None,
        around_deletion: AroundDeletion | None = None,
        on_refusal: OnRefusal | None = None,
    ) -> None:
        self._services = services
        self._around_deletion = around_deletion
        self._on_refusal = on_refusal
        self._tokens = tokens
        self._clock = clock
        self._domains = domains
        self._host_id = host_id
        self._observe = observe
        self._trace = trace

    async def __call__(self, request: Request) -> Response:
        """Respond to a request. Raises nothing but cancellation."""
        started = self._clock.monotonic()
        exchange = _Exchange()
        try:
            response = await self._respond(request, exchange)
        except LakebedError as error:
            response = self._error_response(request, render_error(error, is_anonymous=exchange.is_anonymous))
            if self._on_refusal is not None:
                subject = unquote(request.raw_path, errors="replace").strip("/")
                self._on_refusal(request, exchange.operation, subject, response.status, error)
            if response.status >= 500 and response.status != 501:
                log.warning("request failed", extra=exchange.log_fields(request), exc_info=error)
        except Exception:
            log.exception("request crashed", extra=exchange.log_fields(request))
            response = self._error_response(request, render_error(LakebedError()))
        if "origin" in request.headers and exchange.bucket and request.method != "OPTIONS":
            # Also on errors: without these headers a browser hides the error from the page.
            response.headers += await self._cors(request, exchange)
        response.headers.append(("x-amz-request-id", request.request_id))
        response.headers.append(("x-amz-id-2", self._host_id))
        if request.record is not None:
            key = "" if exchange.s3_request is None else exchange.s3_request.key
            request.record.name("s3", exchange.operation, exchange.bucket, key)
        if self._observe is not None:
            self._observe(exchange.operation, request, response, self._clock.monotonic() - started)
        if request.delegated is not None and self._trace is not None:
            self._trace(exchange.operation, request, response, exchange.bucket, exchange.key_or_prefix(request))
        return response

    async def _respond(self, request: Request, exchange: _Exchange) -> Response:
        target = parse_target(request.raw_path, request.headers.get("host", ""), self._domains)
        exchange.bucket = target.bucket
        if request.method == "OPTIONS":
            exchange.operation = "Preflight"
            return await preflight_response(self._services, request, target.bucket)
        is_sts = not target.bucket and request.method == "POST"
        if is_sts:
            exchange.operation = "SecurityToken"
        try:
            authenticated = await self._services.authenticator.authenticate(request)
        except AwsFault as fault:
            if is_sts:
                return sts.authentication_error(fault, request.request_id)
            raise
        log_principal(request, authenticated.principal)
        if is_sts:
            return await self._tokens.handle(request, authenticated, _caller(request, authenticated, self._clock))
        exchange.is_anonymous = authenticated.principal.is_anonymous
        s3_request = exchange.s3_request = S3Request(
            request, target, authenticated, _caller(request, authenticated, self._clock)
        )
        found = find_operation(s3_request)
        exchange.operation = found.name
        if exchange.is_anonymous and found.name in NEVER_ANONYMOUS:
            raise AwsFault(403, "AccessDenied", NEVER_ANONYMOUS[found.name])
        if target.bucket and EXPECTED_OWNER in request.headers:
            await require_owner(self._services, target.bucket, request.headers[EXPECTED_OWNER])
        if (
            found.name == _DELETE_BUCKET
            and self._around_deletion is not None
            and (await self._services.buckets.find(target.bucket)).holds_tables
        ):
            return await self._around_deletion(
                s3_request.caller, target.bucket, lambda: found.handle(self._services, s3_request)
            )
        return await found.handle(self._services, s3_request)

    async def _cors(self, request: Request, exchange: _Exchange) -> Headers:
        try:
            return await cors_headers(self._services, request, exchange.bucket)
        except LakebedError as error:
            log.warning("reading the CORS configuration failed", extra=exchange.log_fields(request), exc_info=error)
            return []

    def reject(self, fault: HeadFault, request_id: str) -> Response:
        """The response to a rejected request head."""
        status, code = _HEAD_FAULTS.get(fault.status, (fault.status, "BadRequest"))
        rendered = RenderedError(status, code, fault.reason)
        response = error_response(rendered, resource="", request_id=request_id, host_id=self._host_id, is_head=False)
        response.headers.append(("x-amz-request-id", request_id))
        response.headers.append(("x-amz-id-2", self._host_id))
        return response

    def _error_response(self, request: Request, rendered: RenderedError) -> Response:
        return error_response(
            rendered,
            resource=request.raw_path,
            request_id=request.request_id,
            host_id=self._host_id,
            is_head=request.method == "HEAD",
        )


def _caller(request: Request, authenticated: Authenticated, clock: Clock) -> Caller:
    return Caller(
        authenticated.principal,
        request.request_id,
        request.peer,
        request.scheme == "https",
        lambda: request_condition_keys(request, authenticated, clock.now_ms()),
        request.headers.get("x-amz-bypass-governance-retention", "").lower() == "true",
        request.headers.get("user-agent", ""),
        request.headers.get("host", ""),
    )
