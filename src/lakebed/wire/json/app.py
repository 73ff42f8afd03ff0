"""The application of a JSON API: routes, authenticates and handles requests, and maps errors to responses."""

from __future__ import annotations

import logging
from collections.abc import Awaitable, Callable, Mapping, Sequence
from dataclasses import dataclass
from typing import Any, Final

from lakebed.catalog.access.authorization import Action
from lakebed.catalog.idempotency import IdempotencyKeys
from lakebed.core.access import Principal
from lakebed.core.clock import Clock
from lakebed.core.errors import InvalidInput, LakebedError, Unauthenticated
from lakebed.objects.model import Caller
from lakebed.wire.audit.refusals import OnRefusal
from lakebed.wire.http.message import HeadFault, Request, Response

from .authentication import RequestAuthenticator
from .errors import ERROR_MODELS, INTERNAL_ERROR, ApiFault, ErrorModel, client_message, error_model, error_response
from .idempotency import respond_once
from .path_names import OperationSubject, subject_of_path
from .request import JsonRequest, read_body
from .routing import MatchedRoute, ServedMount

log = logging.getLogger("lakebed.catalog")

Observe = Callable[[str, Request, Response, float], None]
"""Called with every response: the operation's name, the request, the response, the duration in seconds."""

Around = Callable[[str, JsonRequest, Callable[[], Awaitable[Response]]], Awaitable[Response]]
"""Called with a route's name, a request and its handler: runs the operation hooks around the handler."""

Precheck = Callable[[Caller, str, Sequence[Action]], Awaitable[None]]
"""Raises AccessDenied for a caller that has permission for none of the actions in a warehouse."""

_HEAD_FAULTS: Final = {
    500: ErrorModel(500, "RESTException"),
    501: ErrorModel(406, "UnsupportedOperationException"),
    503: ErrorModel(503, "ServiceUnavailableException"),
}
"""Errors for rejected request heads, by HTTP status; all others are bad requests."""


@dataclass(frozen=True, slots=True)
class JsonServices:
    """The services that all JSON APIs use."""

    clock: Clock
    authenticator: RequestAuthenticator
    keys: IdempotencyKeys
    precheck: Precheck
    around: Around | None = None


class JsonApplication:
    """Serves the requests of one or several JSON APIs."""

    def __init__(
        self,
        services: JsonServices,
        mounts: Sequence[ServedMount],
        *,
        observe: Observe | None = None,
        on_refusal: OnRefusal | None = None,
    ) -> None:
        self._services = services
        self._clock = services.clock
        self.mounts = tuple(mounts)
        self._observe = observe
        self._on_refusal = on_refusal

    async def __call__(self, request: Request) -> Response:
        """Respond to a request. Raises nothing but cancellation."""
        started = self._clock.monotonic()
        edge, operation = "", "Unknown"
        found: MatchedRoute[Any] | None = None
        try:
            mount, services = self._mount_of(request.raw_path)
            edge = mount.edge
            found = mount.routes.find(request.method, request.raw_path[len(mount.base) :])
            operation = found.route.name
            response = await self._respond(request, mount.base, services, found)
        except (LakebedError, RecursionError) as caught:
            error = caught if isinstance(caught, LakebedError) else _nested_too_deeply(caught)
            model = error_model(error)
            if self._on_refusal is not None:
                subject = subject_of_path(found.names).path if found is not None else request.raw_path
                self._on_refusal(request, operation, subject, model.status, error)
            response = error_response(model, client_message(error, model), is_head=request.method == "HEAD")
            if model.status >= 500:
                log.warning("request failed", extra=_log_fields(request, operation), exc_info=error)
        except Exception:
            log.exception("request crashed", extra=_log_fields(request, operation))
            response = error_response(ERROR_MODELS[LakebedError], INTERNAL_ERROR, is_head=request.method == "HEAD")
        response.headers.append(("x-request-id", request.request_id))
        if request.record is not None:
            resource = OperationSubject() if found is None else subject_of_path(found.names)
            request.record.name(edge, operation, resource.catalog, resource.path_in_catalog)
        if self._observe is not None:
            self._observe(operation, request, response, self._clock.monotonic() - started)
        return response

    def _mount_of(self, path: str) -> ServedMount:
        """The mount that serves a path. Raises ApiFault."""
        for served in self.mounts:
            if path.startswith(served.mount.prefix):
                return served
        raise ApiFault(404, "NoSuchResourceException", f"no such path on this server: {path}")

    async def _respond(self, http: Request, base: str, services: Any, found: MatchedRoute[Any]) -> Response:
        authenticated = await self._services.authenticator.authenticate(http)
        if authenticated.principal.is_anonymous:
            raise Unauthenticated(
                "the request has no token and no signature: send a bearer token, or sign it with SigV4"
            )
        http.principal = authenticated.principal.name
        caller, route = _caller(http, authenticated.principal), found.route
        if route.actions:
            await self._services.precheck(caller, found.names["warehouse"], route.actions)
        body = await read_body(http, authenticated, is_large=route.is_large)
        request = JsonRequest(http, caller, base, found.names, body)

        async def handle() -> Response:
            if self._services.around is None:
                return await route.handle(services, request)
            return await self._services.around(route.name, request, lambda: route.handle(services, request))

        async def replay(entry_id: str) -> Response:
            if route.replay is None:
                raise TypeError(f"route stores entries for idempotency keys but has no replay. route={route.name}")
            return await route.replay(services, request, entry_id)

        key = request.mutation.key if route.changes else None
        return await handle() if key is None else await respond_once(self._services.keys, key, handle, replay)


def _nested_too_deeply(error: RecursionError) -> InvalidInput:
    """The error for a document that is within the bounds of JSON but too deep for a recursive handler."""
    log.warning("request document is nested too deeply", exc_info=error)
    rejected = InvalidInput("the request document is nested too deeply")
    rejected.__cause__ = error
    return rejected


def reject_head(fault: HeadFault, request_id: str) -> Response:
    """The response to a rejected request head."""
    model = _HEAD_FAULTS.get(fault.status, ErrorModel(fault.status, "BadRequestException"))
    response = error_response(model, fault.reason, is_head=False)
    response.headers.append(("x-request-id", request_id))
    return response


def _caller(request: Request, principal: Principal) -> Caller:
    headers = request.headers

    def conditions() -> Mapping[str, str | tuple[str, ...]]:
        context: dict[str, str | tuple[str, ...]] = {}
        if "user-agent" in headers:
            context["aws:UserAgent"] = headers["user-agent"]
        if "referer" in headers:
            context["aws:Referer"] = headers["referer"]
        return context

    return Caller(
        principal,
        request.request_id,
        request.peer,
        request.scheme == "https",
        conditions,
        user_agent=headers.get("user-agent", ""),
        host=headers.get("host", ""),
    )


def _log_fields(request: Request, operation: str) -> dict[str, str]:
    return {"request_id": request.request_id, "operation": operation}
