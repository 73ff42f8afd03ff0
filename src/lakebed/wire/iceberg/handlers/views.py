"""Views: list, create, load, check, replace, drop, rename, register."""

from __future__ import annotations

from functools import partial

import msgspec

from lakebed.catalog.access.authorization import Action
from lakebed.catalog.identifiers import Identifier, check_identifier
from lakebed.catalog.model import EntryKind
from lakebed.core.errors import InvalidInput
from lakebed.core.json.parsing import parse_body
from lakebed.governance.rbac import OPERATIONS
from lakebed.iceberg.commits import Requirement, Update, parse_create_view, parse_view_requirements, parse_view_updates
from lakebed.wire.http.message import Response
from lakebed.wire.json.request import JsonRequest, parse_document
from lakebed.wire.json.responses import list_entries, no_content
from lakebed.wire.json.routing import Route

from ..loading import view_response
from ..services import IcebergServices
from .tables import IdentifierDocument, RegisterDocument, RenameDocument


class ReplaceDocument(msgspec.Struct):
    """The body of replaceView."""

    updates: msgspec.Raw
    requirements: msgspec.Raw = msgspec.Raw(b"[]")
    identifier: IdentifierDocument | None = None


async def list_views(services: IcebergServices, request: JsonRequest) -> Response:
    """List the views of a namespace."""
    return await list_entries(services.entries, request, EntryKind.VIEW)


async def create_view(services: IcebergServices, request: JsonRequest) -> Response:
    """Create a view."""
    document = await parse_body(parse_create_view, request.body)
    created = await services.views.create(request.mutation, request.catalog, request.namespace, document)
    return view_response(created.entry, created.metadata)


async def load_view(services: IcebergServices, request: JsonRequest) -> Response:
    """Load a view with its metadata."""
    found = await services.entries.load(
        request.caller, request.catalog, request.view, EntryKind.VIEW, Action.GET_METADATA_LOCATION
    )
    return view_response(found.entry, found.metadata)


async def view_exists(services: IcebergServices, request: JsonRequest) -> Response:
    """Check whether a view exists."""
    await services.entries.get(
        request.caller,
        request.catalog,
        request.view,
        EntryKind.VIEW,
        Action.GET_TABLE,
        privileges=OPERATIONS["viewExists"].target,
    )
    return no_content()


def _read_replacement(identifier: Identifier, body: bytes) -> tuple[tuple[Requirement, ...], tuple[Update, ...]]:
    document = parse_document(body, ReplaceDocument)
    if document.identifier is not None and document.identifier.identifier != identifier:
        raise InvalidInput("identifier in the document differs from the path", argument="identifier")
    return parse_view_requirements(document.requirements), parse_view_updates(document.updates)


async def replace_view(services: IcebergServices, request: JsonRequest) -> Response:
    """Commit to a view."""
    identifier = request.view
    requirements, updates = await parse_body(partial(_read_replacement, identifier), request.body)
    replaced = await services.views.replace(request.mutation, request.catalog, identifier, requirements, updates)
    return view_response(replaced.entry, replaced.metadata)


async def drop_view(services: IcebergServices, request: JsonRequest) -> Response:
    """Drop a view."""
    await services.dropping.drop(request.mutation, request.catalog, request.view, EntryKind.VIEW)
    return no_content()


async def rename_view(services: IcebergServices, request: JsonRequest) -> Response:
    """Rename a view."""
    document = await request.document(RenameDocument)
    await services.renaming.rename(
        request.mutation, request.catalog, document.source.identifier, document.destination.identifier, EntryKind.VIEW
    )
    return no_content()


async def register_view(services: IcebergServices, request: JsonRequest) -> Response:
    """Register a view by its metadata file."""
    document = await request.document(RegisterDocument)
    identifier = check_identifier(request.namespace, document.name)
    registered = await services.registration.register_view(
        request.mutation, request.catalog, identifier, document.metadata_location
    )
    return view_response(registered.entry, registered.metadata)


_ALL = "/v1/{warehouse}/namespaces/{namespace}/views"
_ONE = _ALL + "/{view}"

ROUTES = (
    Route("listViews", "GET", _ALL, list_views),
    Route("createView", "POST", _ALL, create_view, changes=True, is_large=True, actions=(Action.CREATE_TABLE,)),
    Route("loadView", "GET", _ONE, load_view),
    Route("viewExists", "HEAD", _ONE, view_exists),
    Route(
        "replaceView",
        "POST",
        _ONE,
        replace_view,
        changes=True,
        is_large=True,
        actions=(Action.UPDATE_METADATA_LOCATION,),
    ),
    Route("dropView", "DELETE", _ONE, drop_view, changes=True),
    Route("renameView", "POST", "/v1/{warehouse}/views/rename", rename_view, changes=True),
    Route("registerView", "POST", "/v1/{warehouse}/namespaces/{namespace}/register-view", register_view, changes=True),
)
