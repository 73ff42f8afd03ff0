"""Namespaces: list, create, load, check, drop, and update properties."""

from __future__ import annotations

from urllib.parse import unquote_plus

import msgspec

from lakebed.catalog.identifiers import Levels
from lakebed.catalog.locations.directories import namespace_location
from lakebed.catalog.model import Namespace, Page
from lakebed.core.errors import NoSuchNamespace
from lakebed.governance.rbac import OPERATIONS
from lakebed.wire.http.message import Response
from lakebed.wire.json.paging import read_page
from lakebed.wire.json.request import JsonRequest, split_namespace
from lakebed.wire.json.responses import no_content, ok, page_response
from lakebed.wire.json.routing import Route

from ..services import IcebergServices


class NewNamespace(msgspec.Struct):
    """The body of createNamespace."""

    namespace: list[str]
    properties: dict[str, str] = {}


class PropertyChanges(msgspec.Struct):
    """The body of updateProperties."""

    removals: list[str] = []
    updates: dict[str, str] = {}


async def list_namespaces(services: IcebergServices, request: JsonRequest) -> Response:
    """List the direct children of a namespace, or the top-level namespaces."""
    parent = request.http.query.get("parent", "")
    page = read_page(request.http, f"namespaces {request.catalog} {parent}")
    levels = split_namespace(parent) if parent else ()

    async def children(levels: Levels) -> Page[Namespace]:
        return await services.namespaces.list(
            request.caller, request.catalog, levels, after=page.after, limit=page.limit
        )

    try:
        found = await children(levels)
    except NoSuchNamespace:
        # Iceberg 1.7.0 and PyIceberg 0.12 encode the namespace twice.
        decoded = unquote_plus(parent)
        if decoded == parent:
            raise
        found = await children(split_namespace(decoded))
    last = found.items[-1].path if found.truncated else None
    return page_response(page, {"namespaces": [namespace.levels for namespace in found.items]}, last)


async def create_namespace(services: IcebergServices, request: JsonRequest) -> Response:
    """Create a namespace."""
    document = await request.document(NewNamespace)
    namespace = await services.namespaces.create(
        request.mutation, request.catalog, document.namespace, document.properties
    )
    return ok({"namespace": namespace.levels, "properties": namespace.properties})


async def load_namespace(services: IcebergServices, request: JsonRequest) -> Response:
    """A namespace with its properties, and the default location for its tables."""
    catalog, found = await services.namespaces.load(request.caller, request.catalog, request.namespace)
    properties = {"location": namespace_location(catalog, found)} | found.properties
    return ok({"namespace": found.levels, "properties": properties})


async def namespace_exists(services: IcebergServices, request: JsonRequest) -> Response:
    """Check whether a namespace exists."""
    await services.namespaces.get(
        request.caller, request.catalog, request.namespace, privileges=OPERATIONS["namespaceExists"].target
    )
    return no_content()


async def drop_namespace(services: IcebergServices, request: JsonRequest) -> Response:
    """Drop an empty namespace."""
    await services.namespaces.drop(request.mutation, request.catalog, request.namespace)
    return no_content()


async def update_properties(services: IcebergServices, request: JsonRequest) -> Response:
    """Set and remove properties."""
    document = await request.document(PropertyChanges)
    change = await services.namespaces.set_properties(
        request.mutation, request.catalog, request.namespace, updates=document.updates, removals=document.removals
    )
    return ok(change)


_ALL = "/v1/{warehouse}/namespaces"
_ONE = "/v1/{warehouse}/namespaces/{namespace}"

ROUTES = (
    Route("listNamespaces", "GET", _ALL, list_namespaces),
    Route("createNamespace", "POST", _ALL, create_namespace, changes=True),
    Route("loadNamespaceMetadata", "GET", _ONE, load_namespace),
    Route("namespaceExists", "HEAD", _ONE, namespace_exists),
    Route("dropNamespace", "DELETE", _ONE, drop_namespace, changes=True),
    Route("updateProperties", "POST", _ONE + "/properties", update_properties, changes=True),
)
