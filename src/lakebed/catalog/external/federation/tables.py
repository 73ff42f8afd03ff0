"""Tables of federated catalogs: created, loaded, committed to alone or in transactions; vended credentials."""

from __future__ import annotations

from collections.abc import Mapping
from dataclasses import dataclass, field
from functools import partial
from typing import Final
from urllib.parse import quote

from msgspec import Raw

from lakebed.catalog.access.authorization import Action
from lakebed.catalog.idempotency import Mutation, StoredResponse
from lakebed.catalog.identifiers import SEPARATOR, Identifier, Levels, check_identifier
from lakebed.catalog.model import EntryKind
from lakebed.core.errors import AccessDenied, CommitConflict, NoSuchTable
from lakebed.core.json.parsing import parse_body
from lakebed.governance.rbac import OPERATIONS, commit_privileges
from lakebed.meta.seam import Transaction
from lakebed.net.http import HttpResponse
from lakebed.objects.model import Caller

from ..remote.client import RemoteRequest, decode_response
from ..remote.errors import StatusMapping
from .authorization import FederatedAuthorization, receives_credentials
from .documents import (
    Fields,
    ForwardedCommit,
    ForwardedRegistration,
    encode_document,
    filter_credentials,
    filter_table,
    mark_etag,
    read_commit,
    read_creation,
    read_transaction,
    unmark_etags,
)
from .entries import CREATION_STATUS, FederatedEntries, creation_request
from .forwarding import Forwarder
from .model import FederatedCatalog, FederatedEntry

DELEGATION: Final = "x-iceberg-access-delegation"
VENDED: Final = "vended-credentials"


@dataclass(frozen=True, slots=True)
class LoadOptions:
    """What a client requests beside a table's metadata."""

    query: Mapping[str, str] = field(default_factory=dict)
    """Query parameters for the external catalog."""
    if_none_match: str | None = None
    wants_access: bool = False
    """Whether it requests access to the table's files."""
    wants_credentials: bool = False
    """Whether it accepts vended credentials for that."""


@dataclass(frozen=True, slots=True)
class TableResponse:
    """A table for the client; status 304 if the client has it already."""

    status: int
    document: Fields = field(default_factory=dict, repr=False)
    etag: str | None = None
    has_credentials: bool = False


class FederatedTables:
    """The use cases of tables. All raise the external catalog's errors."""

    def __init__(self, entries: FederatedEntries, authorization: FederatedAuthorization, forwarder: Forwarder) -> None:
        self._entries = entries
        self._authorization = authorization
        self._forwarder = forwarder

    async def create(
        self, mutation: Mutation, catalog: FederatedCatalog, levels: Levels, body: bytes, options: LoadOptions
    ) -> TableResponse:
        """Create or stage a table. Raises AlreadyExists, NoSuchNamespace."""
        name, is_staged, document = await parse_body(read_creation, body)
        table, caller = FederatedEntry(catalog, check_identifier(levels, name), EntryKind.TABLE), mutation.caller
        await self._authorization.check(caller, table, Action.CREATE_TABLE)
        vends = options.wants_credentials and receives_credentials(
            catalog, await self._authorization.data_permission(caller, table)
        )
        headers = _delegation(vends=vends)
        if is_staged:
            # Nothing is created yet: the commit emits the event, and there is no answer to store for a key.
            request = await creation_request(table, document, headers)
            response = await self._forwarder.read(catalog, request, CREATION_STATUS)
        else:
            response = await self._entries.create(mutation, table, document, headers)
        return _response(table, response, vends=vends, changes=True)

    async def load(self, caller: Caller, table: FederatedEntry, options: LoadOptions) -> TableResponse:
        """A table with its metadata. Raises NoSuchTable, AccessDenied."""
        await self._authorization.check(caller, table, Action.GET_METADATA_LOCATION)
        vends = False
        if options.wants_access:
            permission = await self._authorization.require_data_permission(caller, table)
            vends = options.wants_credentials and receives_credentials(table.catalog, permission)
        return await self._load(table, options, vends=vends)

    async def replay(self, table: FederatedEntry) -> TableResponse:
        """A table for a caller that was authorized before and repeats a request: no credentials. Raises NoSuchTable."""
        return await self._load(table, LoadOptions(), vends=False)

    async def _load(self, table: FederatedEntry, options: LoadOptions, *, vends: bool) -> TableResponse:
        headers = _delegation(vends=vends)
        known = unmark_etags(options.if_none_match or "", _etag_mark(vends=vends))
        if known:
            headers["if-none-match"] = known
        request = RemoteRequest("GET", await table.path(), options.query, headers=headers)
        return _response(table, await self._forwarder.read(table.catalog, request, table.status_mapping), vends=vends)

    async def register(
        self, mutation: Mutation, catalog: FederatedCatalog, levels: Levels, document: ForwardedRegistration
    ) -> TableResponse:
        """Register a metadata file under a name. Raises AlreadyExists."""
        table = FederatedEntry(catalog, check_identifier(levels, document.name), EntryKind.TABLE)
        return _response(table, await self._entries.register(mutation, table, document), vends=False, changes=True)

    async def commit(self, mutation: Mutation, table: FederatedEntry, body: bytes) -> TableResponse:
        """Commit to a table, or create a staged one. Raises CommitConflict, NoSuchTable, AlreadyExists."""
        commit = await parse_body(partial(read_commit, identifier=table.identifier), body)
        await self._authorize(mutation.caller, table, commit, in_transaction=False)
        document = encode_document(commit.document)
        response = await self._entries.commit(mutation, table, document, creates=commit.creates)
        return _response(table, response, vends=False, changes=True)

    async def commit_all(self, mutation: Mutation, catalog: FederatedCatalog, body: bytes) -> None:
        """Commit to several tables atomically. Raises CommitConflict, NoSuchTable."""
        caller = mutation.caller
        commits = [
            (FederatedEntry(catalog, one.identifier, EntryKind.TABLE), one)
            for one in await parse_body(read_transaction, body)
        ]
        for table, commit in commits:
            await self._authorize(caller, table, commit, in_transaction=True)
        await self._forwarder.require_endpoint(catalog, "POST /v1/{prefix}/transactions/commit")
        for table, _ in commits:
            await catalog.remote.namespace(table.identifier.namespace)

        async def record(tx: Transaction, response: HttpResponse, now_ms: int) -> None:
            for table, commit in commits:
                recorder = self._entries.recorder(caller, table, "Created" if commit.creates else "Committed")
                await recorder(tx, HttpResponse(204, b""), now_ms)

        document = {"table-changes": [commit.document for _, commit in commits]}
        request = RemoteRequest("POST", ("transactions", "commit"), body=encode_document(document))
        mapping = StatusMapping(NoSuchTable, CommitConflict)
        await self._forwarder.change(mutation, catalog, request, mapping, record, StoredResponse(204))

    async def credentials(self, caller: Caller, table: FederatedEntry, query: Mapping[str, str]) -> Raw:
        """Vended credentials for the files of a table. Raises AccessDenied, NoSuchTable."""
        catalog = table.catalog
        permission = await self._authorization.require_data_permission(caller, table)
        if not receives_credentials(catalog, permission):
            raise AccessDenied(
                "the connection of the catalog limits who receives vended credentials."
                f" table={table.identifier} credentials-for={catalog.connection.config.credentials_for}"
            )
        await self._forwarder.require_endpoint(catalog, f"GET {table.endpoint}/credentials")
        request = RemoteRequest("GET", await table.path("credentials"), query)
        response = await self._forwarder.read(catalog, request, table.status_mapping)
        fields = decode_response(response, Fields, catalog.remote.host)
        path = credentials_path(catalog.name, table.identifier)
        return filter_credentials(fields.get("storage-credentials", Raw(b"[]")), path)

    async def report(self, caller: Caller, table: FederatedEntry, kind: str, body: bytes) -> None:
        """Forward an engine's metrics report on a scan or commit. Raises NoSuchTable."""
        action, operation = (
            (Action.PUT_TABLE_DATA, "reportMetrics commit")
            if kind == "commit-report"
            else (Action.GET_TABLE_DATA, "reportMetrics scan")
        )
        await self._authorization.check(caller, table, action, privileges=OPERATIONS[operation].target)
        await self._forwarder.require_endpoint(table.catalog, f"POST {table.endpoint}/metrics")
        request = RemoteRequest("POST", await table.path("metrics"), body=body)
        await self._forwarder.read(table.catalog, request, table.status_mapping)

    async def _authorize(
        self, caller: Caller, table: FederatedEntry, commit: ForwardedCommit, *, in_transaction: bool
    ) -> None:
        """Return if the caller may make the commit. Raises AccessDenied."""
        if in_transaction:
            privileges = OPERATIONS["commitTransaction"].target
        elif commit.creates:
            privileges = OPERATIONS["updateTable create"].target
        else:
            privileges = commit_privileges(commit.kinds)
        changes = (Action.UPDATE_METADATA_LOCATION, Action.PUT_TABLE_DATA)
        for action in (Action.CREATE_TABLE,) if commit.creates else changes:
            await self._authorization.check(caller, table, action, privileges=privileges)


def credentials_path(catalog: str, identifier: Identifier) -> str:
    """The endpoint that renews credentials, relative to the URI of this server's catalog API."""
    namespace = quote(SEPARATOR.join(identifier.namespace), safe="")
    table = quote(identifier.name, safe="")
    return f"v1/{quote(catalog, safe='')}/namespaces/{namespace}/tables/{table}/credentials"


def _response(table: FederatedEntry, response: HttpResponse, *, vends: bool, changes: bool = False) -> TableResponse:
    """The response for the client, with credentials only if `vends`."""
    tag = response.headers.get("etag")
    etag = None if tag is None else mark_etag(tag, _etag_mark(vends=vends))
    if response.status == 304:
        return TableResponse(304, etag=etag)
    fields = decode_response(response, Fields, table.catalog.remote.host, changes=changes)
    path = credentials_path(table.catalog.name, table.identifier)
    document = filter_table(fields, with_credentials=vends, credentials_path=path)
    return TableResponse(200, document, etag, vends and "storage-credentials" in document)


def _delegation(*, vends: bool) -> dict[str, str]:
    return {DELEGATION: VENDED} if vends else {}


def _etag_mark(*, vends: bool) -> str:
    """Distinguishes responses with and without credentials: a 304 for one must not confirm the other."""
    return "k" if vends else "n"
