"""Selects the backend of requests that name a catalog: the internal handler or the federated one (ADR 55).

The catalog in the path is looked up once, before the handler runs, after authentication and inside the operation hooks.
If a catalog becomes federated between the lookup and the handler, resolving its name fails (`catalog.external.checks`).
"""

from __future__ import annotations

from collections.abc import Awaitable, Callable, Mapping
from typing import Protocol, TypeAlias, TypeVar

from lakebed.catalog.external.federation.model import FederatedCatalog
from lakebed.catalog.external.federation.service import Federation
from lakebed.catalog.idempotency import IdempotencyKeys, StoredResponse
from lakebed.core.errors import NotSupported, Unavailable
from lakebed.wire.http.message import Response

from .errors import error_document, error_model
from .request import JsonRequest
from .responses import ok
from .routing import Mount, Route, RouteTable


class FederationServices(Protocol):
    """The services of an API with federated catalogs."""

    @property
    def federation(self) -> Federation:
        """The federated catalogs and their connections."""
        ...

    @property
    def keys(self) -> IdempotencyKeys:
        """The responses by idempotency key."""
        ...


F = TypeVar("F", bound=FederationServices)

FederatedHandler: TypeAlias = Callable[[F, JsonRequest, FederatedCatalog], Awaitable[Response]]
"""Serves a request for a federated catalog."""


def federated_mount(mount: Mount[F], handlers: Mapping[str, FederatedHandler[F]]) -> Mount[F]:
    """The same routes, each with its federated handler by operation name."""
    routes = [federated_route(route, handlers.get(route.name)) for route in mount.routes.routes]
    return mount._replace(routes=RouteTable(routes))


def federated_route(route: Route[F], handler: FederatedHandler[F] | None) -> Route[F]:
    """The route with its federated handler; without one, requests for federated catalogs fail with 406."""
    if "{warehouse}" not in route.path:
        return route

    async def handle(services: F, request: JsonRequest) -> Response:
        catalog = await services.federation.connections.find(request.catalog)
        if catalog is None:
            return await route.handle(services, request)
        if handler is None:
            raise NotSupported(f"operation is not supported for federated catalogs. operation={route.name}")
        if not route.changes:
            return await handler(services, request, catalog)
        return await _handle_change(services, request, catalog, handler)

    return route._replace(handle=handle)


async def _handle_change(
    services: F, request: JsonRequest, catalog: FederatedCatalog, handler: FederatedHandler[F]
) -> Response:
    """Forward a change. An undecided outcome is stored for its key, unless the external catalog stores keys too."""
    try:
        return await handler(services, request, catalog)
    except Unavailable as error:
        key = request.mutation.key
        if key is not None and error.undecided and not catalog.remote.keeps_idempotency_keys:
            model = error_model(error)
            await services.keys.store_error(key, StoredResponse(model.status, body=error_document(model, str(error))))
        raise


async def list_nothing(services: FederationServices, request: JsonRequest, catalog: FederatedCatalog) -> Response:
    """An empty list if the caller may read the namespace, for clients that list entities of every kind."""
    await services.federation.namespaces.check_exists(request.caller, catalog, request.namespace)
    return ok({"identifiers": [], "next-page-token": None})
