"""Requests for federated catalogs: forwarded to the external catalog, or refused.

No route looks for a connection first: its handler resolves the catalog's name, and `tables.backing` refuses the name of
a federated catalog. So no route forgets the check, and requests for other catalogs pay nothing for it.
"""

from __future__ import annotations

from collections.abc import Awaitable, Callable, Mapping
from typing import Protocol, TypeAlias, TypeVar

from lakebed.catalog.external.federation.connections import Backed
from lakebed.catalog.external.federation.service import Federation
from lakebed.catalog.idempotency import IdempotencyKeys, StoredResponse
from lakebed.core.errors import InvalidInput, NotSupported, Unavailable
from lakebed.wire.http.message import Response

from .errors import error_document, error_model
from .request import JsonRequest
from .responses import ok
from .routing import Mount, Route, RouteTable


class ForwardingServices(Protocol):
    """What forwarding needs of an API's services."""

    @property
    def federation(self) -> Federation:
        """The federated catalogs and their connections."""
        ...

    @property
    def keys(self) -> IdempotencyKeys:
        """The responses by idempotency key."""
        ...


F = TypeVar("F", bound=ForwardingServices)

Forward: TypeAlias = Callable[[F, JsonRequest, Backed], Awaitable[Response]]
"""Serves a request from the external catalog."""


def forwarding_mount(mount: Mount[F], forwards: Mapping[str, Forward[F]]) -> Mount[F]:
    """The same routes, with requests for federated catalogs forwarded."""
    routes = [forwarding_route(route, forwards.get(route.name)) for route in mount.routes.routes]
    return mount._replace(routes=RouteTable(routes))


def forwarding_route(route: Route[F], forward: Forward[F] | None) -> Route[F]:
    """The route of a catalog with its requests for federated catalogs forwarded; without `forward` they are refused."""
    if "{warehouse}" not in route.path:
        return route

    async def handle(services: F, request: JsonRequest) -> Response:
        try:
            return await route.handle(services, request)
        except (InvalidInput, NotSupported):
            # Refused by the look-up of the name, or before it: what is invalid here may be valid for the other catalog.
            backed = await services.federation.connections.backed(request.catalog)
            if backed is None:
                raise
        if forward is None:
            raise NotSupported(
                f"the catalog is backed by another, to which this is not passed on. operation={route.name}"
            )
        if not route.changes:
            return await forward(services, request, backed)
        return await _forward_change(services, request, backed, forward)

    return route._replace(handle=handle)


async def _forward_change(services: F, request: JsonRequest, backed: Backed, forward: Forward[F]) -> Response:
    """Forward a change. An undecided outcome is kept for its key, unless the external catalog keeps keys too."""
    try:
        return await forward(services, request, backed)
    except Unavailable as error:
        key = request.mutation.key
        if key is not None and error.undecided and not backed.remote.keeps_keys:
            model = error_model(error)
            await services.keys.keep_refusal(key, StoredResponse(model.status, body=error_document(model, str(error))))
        raise


async def list_nothing(services: ForwardingServices, request: JsonRequest, backed: Backed) -> Response:
    """An empty list if the caller may see the namespace, for clients that list entities of every kind."""
    await services.federation.namespaces.check_exists(request.caller, backed, request.namespace)
    return ok({"identifiers": [], "next-page-token": None})
