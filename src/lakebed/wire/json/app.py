"""The catalog's edge: a request comes in, is routed, authenticated and answered; what goes wrong becomes its error."""

from __future__ import annotations

import logging
from collections.abc import Awaitable, Callable, Mapping, Sequence
from typing import Final

from lakebed.core.clock import Clock
from lakebed.core.errors import AlreadyAnswered, InvalidInput, LakebedError, Unauthenticated
from lakebed.objects.model import Caller
from lakebed.tables.idempotency import Answer, RequestKey
from lakebed.wire.audit.refusals import OnRefusal
from lakebed.wire.aws.authentication import Authenticated
from lakebed.wire.http.message import HeadFault, Request, Response

from ..iceberg.loading import replayed
from ..iceberg.services import IcebergServices
from .errors import ERROR_MODELS, JSON, ApiFault, ErrorModel, error_document, error_model, error_response
from .path_names import OperationSubject, subject_of_path
from .request import JsonRequest, read_body
from .routing import MatchedRoute, Mount

log = logging.getLogger("lakebed.catalog")

Observe = Callable[[str, Request, Response, float], None]
"""Told of every answer: the operation's name, the request, the answer, the seconds it took to make."""

Around = Callable[[str, JsonRequest, Callable[[], Awaitable[Response]]], Awaitable[Response]]
"""Given a route's name, a request and what handles it: has it handled, between those who want to know of it."""

_KEPT_REFUSALS: Final = frozenset({400, 404, 406, 409, 422})
"""Refusals that the same request would get again, so that a key may keep them."""

_HEAD_FAULTS: Final = {
    500: ErrorModel(500, "RESTException"),
    501: ErrorModel(406, "UnsupportedOperationException"),
    503: ErrorModel(503, "ServiceUnavailableException"),
}
"""The catalog's answers to heads that could not be read, by HTTP's status; every other one is a bad request."""

_CRASHED: Final = "internal error; whether anything was changed is unknown"


class JsonApplication:
    """Answers catalog requests."""

    def __init__(
        self,
        services: IcebergServices,
        mounts: Sequence[Mount],
        *,
        clock: Clock,
        observe: Observe | None = None,
        around: Around | None = None,
        refused: OnRefusal | None = None,
    ) -> None:
        self._services = services
        self._around = around
        self._refused = refused
        self._mounts = tuple(mounts)
        self._clock = clock
        self._observe = observe

    async def __call__(self, request: Request) -> Response:
        """Answer one request; never raises but for cancellation."""
        started = self._clock.monotonic()
        edge, operation = "", "Unknown"
        found: MatchedRoute | None = None
        try:
            mount = self._mount_of(request.raw_path)
            edge = mount.edge
            found = mount.routes.find(request.method, request.raw_path[len(mount.base) :])
            operation = found.route.name
            response = await self._answer(request, mount.base, found)
        except (LakebedError, RecursionError) as caught:
            error = caught if isinstance(caught, LakebedError) else _nested_too_deeply(caught)
            refusal = error_model(error)
            if self._refused is not None:
                subject = subject_of_path(found.names).subject if found is not None else request.raw_path
                self._refused(request, operation, subject, refusal.status, error)
            response = error_response(refusal, _told(error, refusal), is_head=request.method == "HEAD")
            if refusal.status >= 500:
                log.warning("request failed", extra=_facts(request, operation), exc_info=error)
        except Exception:
            log.exception("request crashed", extra=_facts(request, operation))
            response = error_response(ERROR_MODELS[LakebedError], _CRASHED, is_head=request.method == "HEAD")
        response.headers.append(("x-request-id", request.request_id))
        if request.testimony is not None:
            named = OperationSubject() if found is None else subject_of_path(found.names)
            request.testimony.name(edge, operation, named.catalog, named.inside)
        if self._observe is not None:
            self._observe(operation, request, response, self._clock.monotonic() - started)
        return response

    def _mount_of(self, path: str) -> Mount:
        """The mount that a path comes by. Raises CatalogFault."""
        for mount in self._mounts:
            if path.startswith(mount.prefix):
                return mount
        raise ApiFault(404, "NoSuchResourceException", f"no such path on this server: {path}")

    async def _answer(self, request: Request, mount: str, found: MatchedRoute) -> Response:
        who = await self._services.authenticator.authenticate(request)
        if who.principal.is_anonymous:
            raise Unauthenticated(
                "the request has no token and no signature: send a bearer token, or sign it with SigV4"
            )
        request.principal = who.principal.name
        caller = _caller(request, who)
        if found.route.actions:
            await self._services.warehouses.precheck(caller, found.names["warehouse"], found.route.actions)
        body = await read_body(request, who, is_large=found.route.is_large)
        asked = JsonRequest(request, caller, mount, found.names, body)
        key = asked.mutation.key if found.route.changes else None
        if key is None:
            return await self._handle(asked, found)
        return await self._answer_once(asked, found, key)

    async def _handle(self, asked: JsonRequest, found: MatchedRoute) -> Response:
        if self._around is None:
            return await found.route.handle(self._services, asked)
        return await self._around(found.route.name, asked, lambda: found.route.handle(self._services, asked))

    async def _answer_once(self, asked: JsonRequest, found: MatchedRoute, key: RequestKey) -> Response:
        """Answer a request that may have been sent before."""
        keys = self._services.keys
        answer = await keys.find(key)
        if answer is None:
            try:
                return await self._handle(asked, found)
            except LakebedError as error:
                # A request with the same key may have been first, at any point before ours was refused.
                answer = await keys.find(key)
                if answer is None:
                    await self._keep_refusal(key, error)
                    raise
        if answer.entry:
            return await (found.route.replay or replayed)(self._services, asked, answer.entry)
        return Response(answer.status, [JSON] if answer.body else [], answer.body)

    async def _keep_refusal(self, key: RequestKey, error: LakebedError) -> None:
        refusal = error_model(error)
        if refusal.status in _KEPT_REFUSALS and not isinstance(error, AlreadyAnswered):
            document = error_document(refusal, _told(error, refusal))
            await self._services.keys.keep_refusal(key, Answer(refusal.status, body=document))


def _nested_too_deeply(error: RecursionError) -> InvalidInput:
    """A document within the bounds of its text can still be deeper than the code that walks it goes."""
    log.warning("request document is nested too deeply", exc_info=error)
    refused = InvalidInput("the request document is nested too deeply")
    refused.__cause__ = error
    return refused


def reject_head(fault: HeadFault, request_id: str) -> Response:
    """Answer a request head that could not be read."""
    refusal = _HEAD_FAULTS.get(fault.status, ErrorModel(fault.status, "BadRequestException"))
    response = error_response(refusal, fault.reason, is_head=False)
    response.headers.append(("x-request-id", request_id))
    return response


def _caller(request: Request, who: Authenticated) -> Caller:
    headers = request.headers

    def conditions() -> Mapping[str, str | tuple[str, ...]]:
        facts: dict[str, str | tuple[str, ...]] = {}
        if "user-agent" in headers:
            facts["aws:UserAgent"] = headers["user-agent"]
        if "referer" in headers:
            facts["aws:Referer"] = headers["referer"]
        return facts

    return Caller(
        who.principal,
        request.request_id,
        request.peer,
        request.scheme == "https",
        conditions,
        user_agent=headers.get("user-agent", ""),
        host=headers.get("host", ""),
    )


def _told(error: LakebedError, refusal: ErrorModel) -> str:
    """What the client learns: of failures of ours no more than that they happened."""
    if refusal.status == 500:
        return str(error) or _CRASHED
    return str(error) or refusal.type


def _facts(request: Request, operation: str) -> dict[str, str]:
    return {"request_id": request.request_id, "operation": operation}
