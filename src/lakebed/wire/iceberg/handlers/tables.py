"""Tables: list, create, load, check, commit, drop, unregister, rename, register."""

from __future__ import annotations

from functools import partial
from typing import Final

import msgspec

from lakebed.catalog.access.authorization import Action
from lakebed.catalog.commits.service import CommitOptions, TableChange, read_change
from lakebed.catalog.identifiers import Identifier, check_identifier
from lakebed.catalog.model import Entry, EntryKind
from lakebed.core.errors import InvalidInput
from lakebed.core.json.parsing import parse_body
from lakebed.governance.rbac import OPERATIONS
from lakebed.iceberg.commits import parse_create_table
from lakebed.wire.http.message import Response
from lakebed.wire.json.documents import Location, Word
from lakebed.wire.json.errors import JSON
from lakebed.wire.json.request import JsonRequest, parse_document
from lakebed.wire.json.responses import list_entries, no_content, ok
from lakebed.wire.json.routing import Route

from ..delegation import delegate_access
from ..loading import commit_response, table_response
from ..services import IcebergServices

TABLE_PATH: Final = "/v1/{warehouse}/namespaces/{namespace}/tables/{table}"

COMMITTING: Final = (Action.CREATE_TABLE, Action.UPDATE_METADATA_LOCATION)
"""Authorized actions of commits: the first for commits that create the table."""


class IdentifierDocument(msgspec.Struct):
    """A table or view by name."""

    namespace: list[str]
    name: str

    @property
    def identifier(self) -> Identifier:
        """The name, checked. Raises InvalidName."""
        return check_identifier(self.namespace, self.name)


class CommitDocument(msgspec.Struct, rename="kebab"):
    """The body of updateTable, with extensions for table buckets."""

    requirements: msgspec.Raw = msgspec.Raw(b"")
    updates: msgspec.Raw = msgspec.Raw(b"")
    identifier: IdentifierDocument | None = None
    commit_id: Word = ""
    idempotency_key: Word = ""
    operation: Word = ""
    writer: Word = ""
    expected_version_token: Word | None = None
    expected_metadata_location: Location | None = None
    new_metadata_location: Location | None = None


class RenameDocument(msgspec.Struct):
    """The body of renameTable and renameView."""

    source: IdentifierDocument
    destination: IdentifierDocument


class RegisterDocument(msgspec.Struct, rename="kebab"):
    """The body of registerTable and registerView."""

    name: str
    metadata_location: Location
    overwrite: bool = False


async def list_tables(services: IcebergServices, request: JsonRequest) -> Response:
    """List the tables of a namespace."""
    return await list_entries(services.entries, request, EntryKind.TABLE)


async def create_table(services: IcebergServices, request: JsonRequest) -> Response:
    """Create or stage a table."""
    document = await parse_body(parse_create_table, request.body)
    if document.stage_create:
        staged = await services.creation.stage(request.mutation, request.catalog, request.namespace, document)
        granted = await delegate_access(
            services,
            request,
            staged.found.catalog,
            staged.identifier,
            staged.metadata.location,
            lambda: staged.metadata.properties,
            entry_id=staged.entry_id,
        )
        return ok(
            {
                "metadata-location": None,
                "metadata": msgspec.Raw(staged.document),
                "config": granted.config,
                "storage-credentials": granted.credentials,
            }
        )
    created = await services.creation.create(request.mutation, request.catalog, request.namespace, document)
    return await table_response(services, request, created.catalog, created.identifier, created.entry, created.metadata)


async def load_table(services: IcebergServices, request: JsonRequest) -> Response:
    """Load a table with its metadata."""
    found = await services.entries.load(
        request.caller, request.catalog, request.table, EntryKind.TABLE, Action.GET_METADATA_LOCATION
    )
    return await table_response(services, request, found.catalog, found.identifier, found.entry, found.metadata)


async def table_exists(services: IcebergServices, request: JsonRequest) -> Response:
    """Check whether a table exists."""
    await services.entries.get(
        request.caller,
        request.catalog,
        request.table,
        EntryKind.TABLE,
        Action.GET_TABLE,
        privileges=OPERATIONS["tableExists"].target,
    )
    return no_content()


def _read_commit(identifier: Identifier, body: bytes) -> tuple[CommitDocument, TableChange | None]:
    """The body of a commit and its change; None for a commit with a `new-metadata-location` instead."""
    document = parse_document(body, CommitDocument)
    if document.identifier is not None and document.identifier.identifier != identifier:
        raise InvalidInput("identifier in the document differs from the path", argument="identifier")
    if document.new_metadata_location is not None:
        return document, None
    if not bytes(document.requirements) or not bytes(document.updates):
        raise InvalidInput("a commit requires the lists requirements and updates")
    return document, read_change(identifier, bytes(document.requirements), bytes(document.updates))


async def update_table(services: IcebergServices, request: JsonRequest) -> Response:
    """Commit to a table."""
    identifier = request.table
    document, change = await parse_body(partial(_read_commit, identifier), request.body)
    if change is None:
        return await _move_pointer(services, request, identifier, document)
    commit_id = document.commit_id or document.idempotency_key
    committed = await services.commits.commit(
        request.mutation, request.catalog, change, CommitOptions(commit_id, document.operation, document.writer)
    )
    return commit_response(committed.entry, committed.metadata, document.commit_id)


async def _move_pointer(
    services: IcebergServices, request: JsonRequest, identifier: Identifier, document: CommitDocument
) -> Response:
    """Commit a new metadata file instead of changes."""
    if any(bytes(one) not in (b"", b"[]") for one in (document.requirements, document.updates)):
        raise InvalidInput("a commit must have either a new-metadata-location, or requirements and updates")
    if document.expected_version_token is None or document.new_metadata_location is None:
        raise InvalidInput("expected-version-token is required", argument="expected-version-token")
    committed = await services.extensions.pointers.move(
        request.mutation,
        request.catalog,
        identifier,
        document.new_metadata_location,
        expected_token=document.expected_version_token,
        expected_at=document.expected_metadata_location,
        operation=document.operation or "commit",
        commit_id=document.commit_id or document.idempotency_key,
    )
    return commit_response(committed.entry, committed.metadata, document.commit_id)


async def drop_table(services: IcebergServices, request: JsonRequest) -> Response:
    """Drop a table, with its files if `purgeRequested` is true."""
    purge = request.flag("purgeRequested")
    await services.dropping.drop(request.mutation, request.catalog, request.table, EntryKind.TABLE, purge=purge)
    return no_content()


async def unregister_table(services: IcebergServices, request: JsonRequest) -> Response:
    """Remove a table from the catalog and return its metadata; its files stay."""

    def encode(entry: Entry, document: bytes) -> bytes:
        return msgspec.json.encode({"metadata-location": entry.metadata_at, "metadata": msgspec.Raw(document)})

    return Response(
        200, [JSON], await services.dropping.unregister(request.mutation, request.catalog, request.table, encode)
    )


async def rename_table(services: IcebergServices, request: JsonRequest) -> Response:
    """Rename a table."""
    document = await request.document(RenameDocument)
    await services.renaming.rename(
        request.mutation, request.catalog, document.source.identifier, document.destination.identifier, EntryKind.TABLE
    )
    return no_content()


async def register_table(services: IcebergServices, request: JsonRequest) -> Response:
    """Register a table by its metadata file."""
    document = await request.document(RegisterDocument)
    identifier = check_identifier(request.namespace, document.name)
    registered = await services.registration.register_table(
        request.mutation, request.catalog, identifier, document.metadata_location, overwrite=document.overwrite
    )
    return await table_response(
        services, request, registered.catalog, identifier, registered.entry, registered.metadata
    )


_ALL = "/v1/{warehouse}/namespaces/{namespace}/tables"
_ONE = _ALL + "/{table}"

ROUTES = (
    Route("listTables", "GET", _ALL, list_tables),
    Route("createTable", "POST", _ALL, create_table, changes=True, is_large=True, actions=(Action.CREATE_TABLE,)),
    Route("loadTable", "GET", _ONE, load_table),
    Route("tableExists", "HEAD", _ONE, table_exists),
    Route("updateTable", "POST", _ONE, update_table, changes=True, is_large=True, actions=COMMITTING),
    Route("dropTable", "DELETE", _ONE, drop_table, changes=True),
    Route("unregisterTable", "POST", _ONE + "/unregister", unregister_table, changes=True),
    Route("renameTable", "POST", "/v1/{warehouse}/tables/rename", rename_table, changes=True),
    Route("registerTable", "POST", "/v1/{warehouse}/namespaces/{namespace}/register", register_table, changes=True),
)
