"""Views: list, create, load, test, replace, drop, rename, register."""

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
    """The views of a namespace."""
    return await list_entries(services.entries, request, EntryKind.VIEW)


async def create_view(services: IcebergServices, request: JsonRequest) -> Response:
    """Make a view."""
    asked = await parse_body(parse_create_view, request.body)
    made = await services.views.create(request.mutation, request.catalog, request.namespace, asked)
    return view_response(made.entry, made.metadata)


async def load_view(services: IcebergServices, request: JsonRequest) -> Response:
    """A view with its metadata."""
    found = await services.entries.load(
        request.caller, request.catalog, request.view, EntryKind.VIEW, Action.GET_METADATA_LOCATION
    )
    return view_response(found.entry, found.metadata)


async def view_exists(services: IcebergServices, request: JsonRequest) -> Response:
    """Whether it is there."""
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
    asked = parse_document(body, ReplaceDocument)
    if asked.identifier is not None and asked.identifier.identifier != identifier:
        raise InvalidInput("the identifier in the document is not the one in the path", argument="identifier")
    return parse_view_requirements(asked.requirements), parse_view_updates(asked.updates)


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
    """Give a view another name."""
    asked = await request.document(RenameDocument)
    await services.renaming.rename(
        request.mutation, request.catalog, asked.source.identifier, asked.destination.identifier, EntryKind.VIEW
    )
    return no_content()


async def register_view(services: IcebergServices, request: JsonRequest) -> Response:
    """Give a view's metadata file a name."""
    asked = await request.document(RegisterDocument)
    identifier = check_identifier(request.namespace, asked.name)
    made = await services.registration.register_view(
        request.mutation, request.catalog, identifier, asked.metadata_location
    )
    return view_response(made.entry, made.metadata)


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
