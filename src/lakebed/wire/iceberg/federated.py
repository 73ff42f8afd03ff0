"""Iceberg operations on federated catalogs: handlers that forward to the external catalog.

`wire.json.federation` selects them.
"""

from __future__ import annotations

from collections.abc import Mapping
from typing import Any, Final

import msgspec

from lakebed.catalog.external.federation.documents import ForwardedRegistration
from lakebed.catalog.external.federation.entries import replayed_identifier
from lakebed.catalog.external.federation.filtered_lists import RemotePaging
from lakebed.catalog.external.federation.model import FederatedCatalog, FederatedEntry
from lakebed.catalog.external.federation.tables import LoadOptions, TableResponse
from lakebed.catalog.model import EntryKind
from lakebed.core.errors import InvalidInput
from lakebed.wire.http.message import Headers, Response
from lakebed.wire.json.errors import JSON
from lakebed.wire.json.federation import FederatedHandler, federated_route
from lakebed.wire.json.paging import page_parameters
from lakebed.wire.json.request import JsonRequest, split_namespace
from lakebed.wire.json.responses import identifiers, no_content, ok
from lakebed.wire.json.routing import Handler, Mount, Replay, Route, RouteTable
from lakebed.wire.json.table_access import allowed_delegation

from .delegation import HEADER, AccessMode, requested_mode
from .handlers.configuration import catalog_name
from .handlers.namespaces import NewNamespace, PropertyChanges
from .handlers.reports import read_report_type
from .handlers.tables import RenameDocument
from .loading import replay_entry
from .services import IcebergServices

_CATALOG_OPERATIONS: Final = frozenset({"listTableBuckets", "enableTableBucket", "getTableBucket", "updateTableBucket"})
"""Operations on a catalog itself: served here for federated catalogs too."""

_RESPONDS_WITH_VIEW: Final = frozenset({"createView", "replaceView", "registerView"})
_NO_STORE: Final = ("Cache-Control", "no-store, private")


def with_federated_catalogs(mount: Mount[IcebergServices]) -> Mount[IcebergServices]:
    """The same routes, each with its federated handler."""
    routes = mount.routes.routes
    supported = frozenset(route.endpoint for route in routes if route.name in FEDERATED_HANDLERS)
    return mount._replace(routes=RouteTable([_federated(route, supported) for route in routes]))


def _federated(route: Route[IcebergServices], supported: frozenset[str]) -> Route[IcebergServices]:
    if route.name == "getConfig":
        return route._replace(handle=_configuration(route.handle, supported))
    if "{warehouse}" not in route.path or route.name in _CATALOG_OPERATIONS:
        return route
    return federated_route(route, FEDERATED_HANDLERS.get(route.name))._replace(replay=_replay(route))


def _replay(route: Route[IcebergServices]) -> Replay[IcebergServices]:
    async def replay(services: IcebergServices, request: JsonRequest, entry: str) -> Response:
        identifier = replayed_identifier(entry)
        if identifier is None:
            return await (route.replay or replay_entry)(services, request, entry)
        catalog = await services.federation.connections.find(request.catalog)
        if catalog is None:
            raise InvalidInput("the catalog is no longer federated: repeat the request with a new idempotency key")
        if route.name in _RESPONDS_WITH_VIEW:
            return ok(await services.federation.views.replay(FederatedEntry(catalog, identifier, EntryKind.VIEW)))
        table = FederatedEntry(catalog, identifier, EntryKind.TABLE)
        return _table_response(await services.federation.tables.replay(table))

    return replay


# -- configuration ------------------------------------------------------------------------------------------------


def _configuration(get_config: Handler[IcebergServices], supported: frozenset[str]) -> Handler[IcebergServices]:
    """The configuration of a federated catalog lists the `supported` endpoints that the external catalog has."""

    async def handle(services: IcebergServices, request: JsonRequest) -> Response:
        response = await get_config(services, request)
        warehouse = request.http.query.get("warehouse")
        catalog = None if warehouse is None else await services.federation.connections.find(catalog_name(warehouse))
        if catalog is None:
            return response
        remote = await catalog.remote.config()
        document: dict[str, Any] = msgspec.json.decode(response.body)
        document["endpoints"] = [
            endpoint
            for endpoint in document["endpoints"]
            if endpoint in supported and (endpoint in remote.endpoints or endpoint in _DERIVED)
        ]
        # Locations are in the metadata of tables.
        document["defaults"].pop("warehouse-location", None)
        if not remote.keeps_idempotency_keys:
            # With it, clients would retry requests with an unknown outcome.
            document.pop("idempotency-key-lifetime", None)
        return ok(document)

    return handle


# -- namespaces ---------------------------------------------------------------------------------------------------


def _paging(request: JsonRequest) -> RemotePaging:
    return RemotePaging(*page_parameters(request.http))


async def _list_namespaces(services: IcebergServices, request: JsonRequest, catalog: FederatedCatalog) -> Response:
    parent = request.http.query.get("parent", "")
    levels = split_namespace(parent) if parent else ()
    page = await services.federation.namespaces.list(request.caller, catalog, levels, _paging(request))
    return ok({"namespaces": page.items, "next-page-token": page.next_token})


async def _create_namespace(services: IcebergServices, request: JsonRequest, catalog: FederatedCatalog) -> Response:
    document = await request.document(NewNamespace)
    response = await services.federation.namespaces.create(
        request.mutation, catalog, document.namespace, document.properties
    )
    return Response(200, [JSON], response.body)


async def _load_namespace(services: IcebergServices, request: JsonRequest, catalog: FederatedCatalog) -> Response:
    response = await services.federation.namespaces.get(request.caller, catalog, request.namespace)
    return Response(200, [JSON], response.body)


async def _namespace_exists(services: IcebergServices, request: JsonRequest, catalog: FederatedCatalog) -> Response:
    await services.federation.namespaces.check_exists(request.caller, catalog, request.namespace)
    return no_content()


async def _drop_namespace(services: IcebergServices, request: JsonRequest, catalog: FederatedCatalog) -> Response:
    await services.federation.namespaces.drop(request.mutation, catalog, request.namespace)
    return no_content()


async def _update_properties(services: IcebergServices, request: JsonRequest, catalog: FederatedCatalog) -> Response:
    document = await request.document(PropertyChanges)
    response = await services.federation.namespaces.set_properties(
        request.mutation, catalog, request.namespace, updates=document.updates, removals=document.removals
    )
    return Response(200, [JSON], response.body)


# -- tables and views -----------------------------------------------------------------------------------------------


def _entry(request: JsonRequest, catalog: FederatedCatalog, kind: EntryKind) -> FederatedEntry:
    return FederatedEntry(catalog, request.table if kind is EntryKind.TABLE else request.view, kind)


def _list(kind: EntryKind) -> FederatedHandler[IcebergServices]:
    async def handle(services: IcebergServices, request: JsonRequest, catalog: FederatedCatalog) -> Response:
        namespace = request.namespace
        page = await services.federation.entries.list(request.caller, catalog, namespace, kind, _paging(request))
        return ok({"identifiers": identifiers(namespace, page.items), "next-page-token": page.next_token})

    return handle


def _rename(kind: EntryKind) -> FederatedHandler[IcebergServices]:
    async def handle(services: IcebergServices, request: JsonRequest, catalog: FederatedCatalog) -> Response:
        document = await request.document(RenameDocument)
        source, target = document.source.identifier, document.destination.identifier
        await services.federation.entries.rename(request.mutation, catalog, source, target, kind)
        return no_content()

    return handle


def _exists(kind: EntryKind) -> FederatedHandler[IcebergServices]:
    async def handle(services: IcebergServices, request: JsonRequest, catalog: FederatedCatalog) -> Response:
        await services.federation.entries.check_exists(request.caller, _entry(request, catalog, kind))
        return no_content()

    return handle


def _drop(kind: EntryKind) -> FederatedHandler[IcebergServices]:
    async def handle(services: IcebergServices, request: JsonRequest, catalog: FederatedCatalog) -> Response:
        purge = kind is EntryKind.TABLE and request.flag("purgeRequested")
        await services.federation.entries.drop(request.mutation, _entry(request, catalog, kind), purge=purge)
        return no_content()

    return handle


# -- tables -------------------------------------------------------------------------------------------------------


def _options(services: IcebergServices, request: JsonRequest, catalog: FederatedCatalog) -> LoadOptions:
    query = request.http.query
    allowed = allowed_delegation(services.access.of_server, catalog.entity)
    mode = requested_mode(request.http.headers.get(HEADER), allowed)
    return LoadOptions(
        {name: query[name] for name in ("snapshots", "referenced-by") if name in query},
        request.http.headers.get("if-none-match") if request.http.method == "GET" else None,
        wants_access=mode is not None,
        wants_credentials=mode is AccessMode.VENDED,
    )


def _table_response(table: TableResponse) -> Response:
    headers: Headers = [] if table.etag is None else [("ETag", table.etag)]
    if table.status == 304:
        return Response(304, headers)
    return ok(table.document, [*headers, _NO_STORE] if table.has_credentials else headers)


async def _create_table(services: IcebergServices, request: JsonRequest, catalog: FederatedCatalog) -> Response:
    options = _options(services, request, catalog)
    return _table_response(
        await services.federation.tables.create(request.mutation, catalog, request.namespace, request.body, options)
    )


async def _load_table(services: IcebergServices, request: JsonRequest, catalog: FederatedCatalog) -> Response:
    table, options = _entry(request, catalog, EntryKind.TABLE), _options(services, request, catalog)
    return _table_response(await services.federation.tables.load(request.caller, table, options))


async def _update_table(services: IcebergServices, request: JsonRequest, catalog: FederatedCatalog) -> Response:
    table = _entry(request, catalog, EntryKind.TABLE)
    return _table_response(await services.federation.tables.commit(request.mutation, table, request.body))


async def _register_table(services: IcebergServices, request: JsonRequest, catalog: FederatedCatalog) -> Response:
    document = await request.document(ForwardedRegistration)
    return _table_response(
        await services.federation.tables.register(request.mutation, catalog, request.namespace, document)
    )


async def _commit_transaction(services: IcebergServices, request: JsonRequest, catalog: FederatedCatalog) -> Response:
    await services.federation.tables.commit_all(request.mutation, catalog, request.body)
    return no_content()


async def _load_credentials(services: IcebergServices, request: JsonRequest, catalog: FederatedCatalog) -> Response:
    # Without parameters of the caller's signature.
    query = {name: value for name, value in request.http.query.items() if not name.lower().startswith("x-amz-")}
    if not allowed_delegation(services.access.of_server, catalog.entity).vends:
        return ok({"storage-credentials": []}, [_NO_STORE])
    credentials = await services.federation.tables.credentials(
        request.caller, _entry(request, catalog, EntryKind.TABLE), query
    )
    return ok({"storage-credentials": credentials}, [_NO_STORE])


async def _report_metrics(services: IcebergServices, request: JsonRequest, catalog: FederatedCatalog) -> Response:
    kind = await read_report_type(request)
    table = _entry(request, catalog, EntryKind.TABLE)
    await services.federation.tables.report(request.caller, table, kind, request.body)
    return no_content()


# -- views --------------------------------------------------------------------------------------------------------


async def _create_view(services: IcebergServices, request: JsonRequest, catalog: FederatedCatalog) -> Response:
    return ok(await services.federation.views.create(request.mutation, catalog, request.namespace, request.body))


async def _load_view(services: IcebergServices, request: JsonRequest, catalog: FederatedCatalog) -> Response:
    return ok(await services.federation.views.load(request.caller, _entry(request, catalog, EntryKind.VIEW)))


async def _replace_view(services: IcebergServices, request: JsonRequest, catalog: FederatedCatalog) -> Response:
    return ok(
        await services.federation.views.replace(
            request.mutation, _entry(request, catalog, EntryKind.VIEW), request.body
        )
    )


async def _register_view(services: IcebergServices, request: JsonRequest, catalog: FederatedCatalog) -> Response:
    document = await request.document(ForwardedRegistration)
    return ok(await services.federation.views.register(request.mutation, catalog, request.namespace, document))


FEDERATED_HANDLERS: Final[Mapping[str, FederatedHandler[IcebergServices]]] = {
    "listNamespaces": _list_namespaces,
    "createNamespace": _create_namespace,
    "loadNamespaceMetadata": _load_namespace,
    "namespaceExists": _namespace_exists,
    "dropNamespace": _drop_namespace,
    "updateProperties": _update_properties,
    "listTables": _list(EntryKind.TABLE),
    "createTable": _create_table,
    "loadTable": _load_table,
    "tableExists": _exists(EntryKind.TABLE),
    "updateTable": _update_table,
    "dropTable": _drop(EntryKind.TABLE),
    "renameTable": _rename(EntryKind.TABLE),
    "registerTable": _register_table,
    "commitTransaction": _commit_transaction,
    "loadCredentials": _load_credentials,
    "reportMetrics": _report_metrics,
    "listViews": _list(EntryKind.VIEW),
    "createView": _create_view,
    "loadView": _load_view,
    "viewExists": _exists(EntryKind.VIEW),
    "replaceView": _replace_view,
    "dropView": _drop(EntryKind.VIEW),
    "renameView": _rename(EntryKind.VIEW),
    "registerView": _register_view,
}
"""The handlers of forwarded operations, by their id in the Iceberg REST specification."""

_NAMESPACE: Final = "/v1/{prefix}/namespaces/{namespace}"
_DERIVED: Final = frozenset({f"HEAD {_NAMESPACE}", f"HEAD {_NAMESPACE}/tables/{{table}}"})
"""Supported even if the external catalog lacks them: a GET gives the same result."""
