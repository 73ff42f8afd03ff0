"""The S3 edge: a request comes in, is authenticated, routed and answered; whatever goes wrong becomes an S3 error."""

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
from .handlers.cors import answer_preflight, cors_headers
from .request import S3Request, log_principal
from .request_checks import EXPECTED_OWNER, NEVER_ANONYMOUS, require_owner
from .routes import find_operation
from .services import S3Services

log = logging.getLogger("lakebed.s3")

Observe = Callable[[str, Request, Response, float], None]
"""Told of every answer: the operation's name, the request, the answer, the seconds it took to make."""

AroundDeletion = Callable[[Caller, str, Callable[[], Awaitable[Response]]], Awaitable[Response]]
"""Given who asks, a table bucket and what deletes it: has it deleted, between those who want to know of it."""


Trace = Callable[[str, Request, Response, str, str], None]
"""Told of every answer to who came with keys that the catalog handed out: also the bucket, and the key or prefix."""


class _Exchange:
    """What became known of a request while it was answered."""

    __slots__ = ("asked", "bucket", "is_anonymous", "operation")

    def __init__(self) -> None:
        self.operation = "Unknown"
        self.bucket = ""
        self.is_anonymous = False
        self.asked: S3Request | None = None

    def facts(self, request: Request) -> dict[str, str]:
        """For the log."""
        return {"request_id": request.request_id, "operation": self.operation}

    def place(self, request: Request) -> str:
        """For the trace: the key, or the prefix that is listed."""
        if self.asked is None:
            return ""
        return self.asked.key or request.query.get("prefix", "")


_DELETE_BUCKET: Final = "DeleteBucket"

_HEAD_FAULTS: Final = {
    431: (400, "RequestHeaderSectionTooLarge"),
    500: (500, "InternalError"),
    501: (501, "NotImplemented"),
    503: (503, "SlowDown"),
}
"""S3's status and code for heads that could not be read, by HTTP's status."""


class S3Application:
    """Answers S3 requests."""

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
        refused: OnRefusal | None = None,
    ) -> None:
        self._services = services
        self._around_deletion = around_deletion
        self._refused = refused
        self._tokens = tokens
        self._clock = clock
        self._domains = domains
        self._host_id = host_id
        self._observe = observe
        self._trace = trace

    async def __call__(self, request: Request) -> Response:
        """Answer one request; never raises but for cancellation."""
        started = self._clock.monotonic()
        exchange = _Exchange()
        try:
            response = await self._answer(request, exchange)
        except LakebedError as error:
            response = self._answer_error(request, render_error(error, is_anonymous=exchange.is_anonymous))
            if self._refused is not None:
                subject = unquote(request.raw_path, errors="replace").strip("/")
                self._refused(request, exchange.operation, subject, response.status, error)
            if response.status >= 500 and response.status != 501:
                log.warning("request failed", extra=exchange.facts(request), exc_info=error)
        except Exception:
            log.exception("request crashed", extra=exchange.facts(request))
            response = self._answer_error(request, render_error(LakebedError()))
        if "origin" in request.headers and exchange.bucket and request.method != "OPTIONS":
            # On errors too: without these a browser hides the error from the page that asked.
            response.headers += await self._cors(request, exchange)
        response.headers.append(("x-amz-request-id", request.request_id))
        response.headers.append(("x-amz-id-2", self._host_id))
        if request.record is not None:
            key = "" if exchange.asked is None else exchange.asked.key
            request.record.name("s3", exchange.operation, exchange.bucket, key)
        if self._observe is not None:
            self._observe(exchange.operation, request, response, self._clock.monotonic() - started)
        if request.delegated is not None and self._trace is not None:
            self._trace(exchange.operation, request, response, exchange.bucket, exchange.place(request))
        return response

    async def _answer(self, request: Request, exchange: _Exchange) -> Response:
        target = parse_target(request.raw_path, request.headers.get("host", ""), self._domains)
        exchange.bucket = target.bucket
        if request.method == "OPTIONS":
            exchange.operation = "Preflight"
            return await answer_preflight(self._services, request, target.bucket)
        is_for_tokens = not target.bucket and request.method == "POST"
        if is_for_tokens:
            exchange.operation = "SecurityToken"
        try:
            who = await self._services.authenticator.authenticate(request)
        except AwsFault as fault:
            if is_for_tokens:
                return sts.refuse_unknown(fault, request.request_id)
            raise
        log_principal(request, who.principal)
        if is_for_tokens:
            return await self._tokens.answer(request, who, _caller(request, who, self._clock))
        exchange.is_anonymous = who.principal.is_anonymous
        s3_request = exchange.asked = S3Request(request, target, who, _caller(request, who, self._clock))
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
            log.warning("cors could not be looked up", extra=exchange.facts(request), exc_info=error)
            return []

    def reject(self, fault: HeadFault, request_id: str) -> Response:
        """Answer a request head that could not be read."""
        status, code = _HEAD_FAULTS.get(fault.status, (fault.status, "BadRequest"))
        rendered = RenderedError(status, code, fault.reason)
        response = error_response(rendered, resource="", request_id=request_id, host_id=self._host_id, is_head=False)
        response.headers.append(("x-amz-request-id", request_id))
        response.headers.append(("x-amz-id-2", self._host_id))
        return response

    def _answer_error(self, request: Request, rendered: RenderedError) -> Response:
        return error_response(
            rendered,
            resource=request.raw_path,
            request_id=request.request_id,
            host_id=self._host_id,
            is_head=request.method == "HEAD",
        )


def _caller(request: Request, who: Authenticated, clock: Clock) -> Caller:
    return Caller(
        who.principal,
        request.request_id,
        request.peer,
        request.scheme == "https",
        lambda: request_condition_keys(request, who, clock.now_ms()),
        request.headers.get("x-amz-bypass-governance-retention", "").lower() == "true",
        request.headers.get("user-agent", ""),
        request.headers.get("host", ""),
    )
