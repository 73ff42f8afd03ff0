"""Iceberg operations on federated catalogs: each is forwarded to the external catalog.

`wire.json.forwarding` decides which requests are forwarded.
"""

from __future__ import annotations

from collections.abc import Mapping
from typing import Any, Final

import msgspec

from lakebed.catalog.external.federation.connections import Backed
from lakebed.catalog.external.federation.documents import Registration, Rename
from lakebed.catalog.external.federation.entries import shown_again
from lakebed.catalog.external.federation.namespaces import Paging
from lakebed.catalog.external.federation.tables import ShownTable, Wanted
from lakebed.catalog.model import EntryKind
from lakebed.core.errors import InvalidInput
from lakebed.wire.http.message import Headers, Response
from lakebed.wire.json.errors import JSON
from lakebed.wire.json.forwarding import Forward, forwarding_route
from lakebed.wire.json.paging import page_parameters
from lakebed.wire.json.request import JsonRequest, split_namespace
from lakebed.wire.json.responses import identifiers, no_content, ok
from lakebed.wire.json.routing import Handler, Mount, Replay, Route, RouteTable
from lakebed.wire.json.table_access import allowed_delegation

from .delegation import HEADER, AccessMode, requested_mode
from .handlers.configuration import catalog_name
from .handlers.namespaces import NewNamespace, PropertyChanges
from .handlers.reports import KINDS, ReportHead
from .loading import replay_entry
from .services import IcebergServices

_LOCAL: Final = frozenset({"listTableBuckets", "enableTableBucket", "getTableBucket", "updateTableBucket"})
"""Operations on a catalog itself, federated or not."""

_RESPONDS_WITH_VIEW: Final = frozenset({"createView", "replaceView", "registerView"})
_NO_STORE: Final = ("Cache-Control", "no-store, private")


def forward_federated(mount: Mount[IcebergServices]) -> Mount[IcebergServices]:
    """The same routes, with requests for federated catalogs forwarded."""
    routes = mount.routes.routes
    served = frozenset(route.endpoint for route in routes if route.name in FORWARDS)
    return mount._replace(routes=RouteTable([_forwarding(route, served) for route in routes]))


def _forwarding(route: Route[IcebergServices], served: frozenset[str]) -> Route[IcebergServices]:
    if route.name == "getConfig":
        return route._replace(handle=_configuration(route.handle, served))
    if "{warehouse}" not in route.path or route.name in _LOCAL:
        return route
    return forwarding_route(route, FORWARDS.get(route.name))._replace(replay=_replaying(route))


def _replaying(route: Route[IcebergServices]) -> Replay[IcebergServices]:
    async def replay(services: IcebergServices, request: JsonRequest, entry: str) -> Response:
        identifier = shown_again(entry)
        if identifier is None:
            return await (route.replay or replay_entry)(services, request, entry)
        backed = await services.federation.connections.backed(request.catalog)
        if backed is None:
            raise InvalidInput("the catalog is not backed by another any more: make a new idempotency key")
        if route.name in _RESPONDS_WITH_VIEW:
            return ok(await services.federation.views.load_again(backed, identifier))
        return _table(await services.federation.tables.load_again(backed, identifier))

    return replay


# -- configuration ------------------------------------------------------------------------------------------------


def _configuration(get_config: Handler[IcebergServices], served: frozenset[str]) -> Handler[IcebergServices]:
    """The configuration of a federated catalog lists those of the `served` endpoints that the external catalog has."""

    async def handle(services: IcebergServices, request: JsonRequest) -> Response:
        response = await get_config(services, request)
        stated = request.http.query.get("warehouse")
        backed = None if stated is None else await services.federation.connections.backed(catalog_name(stated))
        if backed is None:
            return response
        manners = await backed.remote.manners()
        document: dict[str, Any] = msgspec.json.decode(response.body)
        document["endpoints"] = [
            endpoint
            for endpoint in document["endpoints"]
            if endpoint in served and (endpoint in manners.endpoints or endpoint in _MADE_OF_OTHERS)
        ]
        # The tables' own metadata says where their files are.
        document["defaults"].pop("warehouse-location", None)
        if not manners.keeps_keys:
            # Clients would repeat requests whose outcome is unknown.
            document.pop("idempotency-key-lifetime", None)
        return ok(document)

    return handle


# -- namespaces ---------------------------------------------------------------------------------------------------


def _paging(request: JsonRequest) -> Paging:
    return Paging(*page_parameters(request.http))


async def _list_namespaces(services: IcebergServices, request: JsonRequest, backed: Backed) -> Response:
    parent = request.http.query.get("parent", "")
    levels = split_namespace(parent) if parent else ()
    found = await services.federation.namespaces.list(request.caller, backed, levels, _paging(request))
    return ok({"namespaces": found.namespaces, "next-page-token": found.next_token})


async def _create_namespace(services: IcebergServices, request: JsonRequest, backed: Backed) -> Response:
    asked = await request.document(NewNamespace)
    made = await services.federation.namespaces.create(request.mutation, backed, asked.namespace, asked.properties)
    return Response(200, [JSON], made.body)


async def _load_namespace(services: IcebergServices, request: JsonRequest, backed: Backed) -> Response:
    found = await services.federation.namespaces.get(request.caller, backed, request.namespace)
    return Response(200, [JSON], found.body)


async def _namespace_exists(services: IcebergServices, request: JsonRequest, backed: Backed) -> Response:
    await services.federation.namespaces.check_exists(request.caller, backed, request.namespace)
    return no_content()


async def _drop_namespace(services: IcebergServices, request: JsonRequest, backed: Backed) -> Response:
    await services.federation.namespaces.drop(request.mutation, backed, request.namespace)
    return no_content()


async def _update_properties(services: IcebergServices, request: JsonRequest, backed: Backed) -> Response:
    asked = await request.document(PropertyChanges)
    changed = await services.federation.namespaces.set_properties(
        request.mutation, backed, request.namespace, updates=asked.updates, removals=asked.removals
    )
    return Response(200, [JSON], changed.body)


# -- tables -------------------------------------------------------------------------------------------------------


def _wanted(services: IcebergServices, request: JsonRequest, backed: Backed) -> Wanted:
    query = request.http.query
    allowed = allowed_delegation(services.access_delegation, backed.catalog)
    mode = requested_mode(request.http.headers.get(HEADER), allowed)
    return Wanted(
        {name: query[name] for name in ("snapshots", "referenced-by") if name in query},
        request.http.headers.get("if-none-match") if request.http.method == "GET" else None,
        wants_access=mode is not None,
        wants_keys=mode is AccessMode.VENDED,
    )


def _table(shown: ShownTable) -> Response:
    headers: Headers = [] if shown.tag is None else [("ETag", shown.tag)]
    if shown.status == 304:
        return Response(304, headers)
    return ok(shown.document, [*headers, _NO_STORE] if shown.with_keys else headers)


async def _list_tables(services: IcebergServices, request: JsonRequest, backed: Backed) -> Response:
    return await _list(services, request, backed, EntryKind.TABLE)


async def _list(services: IcebergServices, request: JsonRequest, backed: Backed, kind: EntryKind) -> Response:
    found = await services.federation.entries.list(request.caller, backed, request.namespace, kind, _paging(request))
    return ok({"identifiers": identifiers(found.namespace, found.names), "next-page-token": found.next_token})


async def _create_table(services: IcebergServices, request: JsonRequest, backed: Backed) -> Response:
    return _table(
        await services.federation.tables.create(
            request.mutation, backed, request.namespace, request.body, _wanted(services, request, backed)
        )
    )


async def _load_table(services: IcebergServices, request: JsonRequest, backed: Backed) -> Response:
    return _table(
        await services.federation.tables.load(request.caller, backed, request.table, _wanted(services, request, backed))
    )


async def _table_exists(services: IcebergServices, request: JsonRequest, backed: Backed) -> Response:
    await services.federation.entries.check_exists(request.caller, backed, request.table, EntryKind.TABLE)
    return no_content()


async def _update_table(services: IcebergServices, request: JsonRequest, backed: Backed) -> Response:
    return _table(await services.federation.tables.commit(request.mutation, backed, request.table, request.body))


async def _drop_table(services: IcebergServices, request: JsonRequest, backed: Backed) -> Response:
    purge = request.flag("purgeRequested")
    await services.federation.entries.drop(request.mutation, backed, request.table, EntryKind.TABLE, purge=purge)
    return no_content()


async def _rename_table(services: IcebergServices, request: JsonRequest, backed: Backed) -> Response:
    await services.federation.entries.rename(request.mutation, backed, await request.document(Rename), EntryKind.TABLE)
    return no_content()


async def _register_table(services: IcebergServices, request: JsonRequest, backed: Backed) -> Response:
    asked = await request.document(Registration)
    return _table(await services.federation.tables.register(request.mutation, backed, request.namespace, asked))


async def _commit_transaction(services: IcebergServices, request: JsonRequest, backed: Backed) -> Response:
    await services.federation.tables.commit_all(request.mutation, backed, request.body)
    return no_content()


async def _load_credentials(services: IcebergServices, request: JsonRequest, backed: Backed) -> Response:
    # The parameters that the external catalog requires, without the caller's: a signature may be in the query.
    query = {name: value for name, value in request.http.query.items() if not name.lower().startswith("x-amz-")}
    if not allowed_delegation(services.access_delegation, backed.catalog).vends:
        return ok({"storage-credentials": []}, [_NO_STORE])
    found = await services.federation.tables.credentials(request.caller, backed, request.table, query)
    return ok({"storage-credentials": found}, [_NO_STORE])


async def _report_metrics(services: IcebergServices, request: JsonRequest, backed: Backed) -> Response:
    head = await request.document(ReportHead)
    if head.report_type not in KINDS:
        raise InvalidInput(f"report-type is one of {', '.join(KINDS)}", argument="report-type", value=head.report_type)
    await services.federation.tables.report(request.caller, backed, request.table, head.report_type, request.body)
    return no_content()


# -- views --------------------------------------------------------------------------------------------------------


async def _list_views(services: IcebergServices, request: JsonRequest, backed: Backed) -> Response:
    return await _list(services, request, backed, EntryKind.VIEW)


async def _create_view(services: IcebergServices, request: JsonRequest, backed: Backed) -> Response:
    return ok(await services.federation.views.create(request.mutation, backed, request.namespace, request.body))


async def _load_view(services: IcebergServices, request: JsonRequest, backed: Backed) -> Response:
    return ok(await services.federation.views.load(request.caller, backed, request.view))


async def _view_exists(services: IcebergServices, request: JsonRequest, backed: Backed) -> Response:
    await services.federation.entries.check_exists(request.caller, backed, request.view, EntryKind.VIEW)
    return no_content()


async def _replace_view(services: IcebergServices, request: JsonRequest, backed: Backed) -> Response:
    return ok(await services.federation.views.replace(request.mutation, backed, request.view, request.body))


async def _drop_view(services: IcebergServices, request: JsonRequest, backed: Backed) -> Response:
    await services.federation.entries.drop(request.mutation, backed, request.view, EntryKind.VIEW)
    return no_content()


async def _rename_view(services: IcebergServices, request: JsonRequest, backed: Backed) -> Response:
    await services.federation.entries.rename(request.mutation, backed, await request.document(Rename), EntryKind.VIEW)
    return no_content()


async def _register_view(services: IcebergServices, request: JsonRequest, backed: Backed) -> Response:
    asked = await request.document(Registration)
    return ok(await services.federation.views.register(request.mutation, backed, request.namespace, asked))


FORWARDS: Final[Mapping[str, Forward[IcebergServices]]] = {
    "listNamespaces": _list_namespaces,
    "createNamespace": _create_namespace,
    "loadNamespaceMetadata": _load_namespace,
    "namespaceExists": _namespace_exists,
    "dropNamespace": _drop_namespace,
    "updateProperties": _update_properties,
    "listTables": _list_tables,
    "createTable": _create_table,
    "loadTable": _load_table,
    "tableExists": _table_exists,
    "updateTable": _update_table,
    "dropTable": _drop_table,
    "renameTable": _rename_table,
    "registerTable": _register_table,
    "commitTransaction": _commit_transaction,
    "loadCredentials": _load_credentials,
    "reportMetrics": _report_metrics,
    "listViews": _list_views,
    "createView": _create_view,
    "loadView": _load_view,
    "viewExists": _view_exists,
    "replaceView": _replace_view,
    "dropView": _drop_view,
    "renameView": _rename_view,
    "registerView": _register_view,
}
"""Forwarded operations, by their id in the specification."""

_NAMESPACE: Final = "/v1/{prefix}/namespaces/{namespace}"
_MADE_OF_OTHERS: Final = frozenset({f"HEAD {_NAMESPACE}", f"HEAD {_NAMESPACE}/tables/{{table}}"})
"""Served even if the external catalog lacks them: a GET gives the same result."""
