"""Tables: list, create, load, test, commit, drop, rename, register."""

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
"""What commits are asked about, by whether they create their table."""


class IdentifierDocument(msgspec.Struct):
    """A table or view by name, as documents have it."""

    namespace: list[str]
    name: str

    @property
    def identifier(self) -> Identifier:
        """The name, checked. Raises InvalidName."""
        return check_identifier(self.namespace, self.name)


class CommitDocument(msgspec.Struct, rename="kebab"):
    """The body of updateTable, with what table buckets add to it."""

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
    """The tables of a namespace."""
    return await list_entries(services.entries, request, EntryKind.TABLE)


async def create_table(services: IcebergServices, request: JsonRequest) -> Response:
    """Make a table, or say what it would be."""
    asked = await parse_body(parse_create_table, request.body)
    if asked.stage_create:
        staged = await services.creation.stage(request.mutation, request.catalog, request.namespace, asked)
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
    made = await services.creation.create(request.mutation, request.catalog, request.namespace, asked)
    return await table_response(services, request, made.found.catalog, made.identifier, made.entry, made.metadata)


async def load_table(services: IcebergServices, request: JsonRequest) -> Response:
    """A table with its metadata."""
    found = await services.entries.load(
        request.caller, request.catalog, request.table, EntryKind.TABLE, Action.GET_METADATA_LOCATION
    )
    return await table_response(services, request, found.catalog, found.identifier, found.entry, found.metadata)


async def table_exists(services: IcebergServices, request: JsonRequest) -> Response:
    """Whether it is there."""
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
    """The body of a commit, and the change in it; None for one that names the new metadata file instead."""
    asked = parse_document(body, CommitDocument)
    if asked.identifier is not None and asked.identifier.identifier != identifier:
        raise InvalidInput("the identifier in the document is not the one in the path", argument="identifier")
    if asked.new_metadata_location is not None:
        return asked, None
    if not bytes(asked.requirements) or not bytes(asked.updates):
        raise InvalidInput("a commit has requirements and updates, both of them lists")
    return asked, read_change(identifier, bytes(asked.requirements), bytes(asked.updates))


async def update_table(services: IcebergServices, request: JsonRequest) -> Response:
    """Commit to a table."""
    identifier = request.table
    asked, change = await parse_body(partial(_read_commit, identifier), request.body)
    if change is None:
        return await _move_pointer(services, request, identifier, asked)
    commit_id = asked.commit_id or asked.idempotency_key
    committed = await services.commits.commit(
        request.mutation, request.catalog, change, CommitOptions(commit_id, asked.operation, asked.writer)
    )
    return commit_response(committed.entry, committed.metadata, asked.commit_id)


async def _move_pointer(
    services: IcebergServices, request: JsonRequest, identifier: Identifier, asked: CommitDocument
) -> Response:
    """A commit that names the new metadata file instead of changes."""
    if any(bytes(one) not in (b"", b"[]") for one in (asked.requirements, asked.updates)):
        raise InvalidInput("a commit has either a new-metadata-location, or requirements and updates")
    if asked.expected_version_token is None or asked.new_metadata_location is None:
        raise InvalidInput("expected-version-token is missing", argument="expected-version-token")
    committed = await services.extensions.pointers.move(
        request.mutation,
        request.catalog,
        identifier,
        asked.new_metadata_location,
        expected_token=asked.expected_version_token,
        expected_at=asked.expected_metadata_location,
        operation=asked.operation or "commit",
        commit_id=asked.commit_id or asked.idempotency_key,
    )
    return commit_response(committed.entry, committed.metadata, asked.commit_id)


async def drop_table(services: IcebergServices, request: JsonRequest) -> Response:
    """Drop a table, and its files if the client asks for it."""
    purge = request.flag("purgeRequested")
    await services.dropping.drop(request.mutation, request.catalog, request.table, EntryKind.TABLE, purge=purge)
    return no_content()


async def unregister_table(services: IcebergServices, request: JsonRequest) -> Response:
    """Take the name off a table and say where it was."""

    def show(entry: Entry, document: bytes) -> bytes:
        return msgspec.json.encode({"metadata-location": entry.metadata_at, "metadata": msgspec.Raw(document)})

    return Response(
        200, [JSON], await services.dropping.unregister(request.mutation, request.catalog, request.table, show)
    )


async def rename_table(services: IcebergServices, request: JsonRequest) -> Response:
    """Give a table another name."""
    asked = await request.document(RenameDocument)
    await services.renaming.rename(
        request.mutation, request.catalog, asked.source.identifier, asked.destination.identifier, EntryKind.TABLE
    )
    return no_content()


async def register_table(services: IcebergServices, request: JsonRequest) -> Response:
    """Give a metadata file a name."""
    asked = await request.document(RegisterDocument)
    identifier = check_identifier(request.namespace, asked.name)
    made = await services.registration.register_table(
        request.mutation, request.catalog, identifier, asked.metadata_location, overwrite=asked.overwrite
    )
    return await table_response(services, request, made.found.catalog, identifier, made.entry, made.metadata)


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
