"""Operations that tables and views of federated catalogs share."""

from __future__ import annotations

from collections.abc import Sequence
from typing import Final

import msgspec

from lakebed.catalog.access.authorization import Action, CatalogAuthorizer
from lakebed.catalog.access.granted_listing import GrantedEntries
from lakebed.catalog.idempotency import Mutation, StoredResponse
from lakebed.catalog.identifiers import Identifier, Levels, check_namespace, levels_of, path_of
from lakebed.catalog.model import EntryKind
from lakebed.catalog.rows import NAMESPACE, namespace_from
from lakebed.core.errors import AlreadyExists, NoSuchNamespace
from lakebed.governance.rbac import OPERATIONS
from lakebed.meta.seam import MetaStore, Transaction
from lakebed.net.http import HttpResponse
from lakebed.objects.model import Caller

from ..remote.client import RemoteRequest, decode_response
from ..remote.errors import StatusMapping
from .authorization import FederatedAuthorization
from .documents import EntryName, EntrySummary, ForwardedRegistration, encode_document
from .filtered_lists import FilteredList, RemotePage, RemotePaging
from .forwarding import Forwarder, RecordChange
from .model import FederatedCatalog, FederatedEntry
from .namespaces import NAMESPACE_STATUS
from .synthetic_entities import drop_synthetic_entry, rename_synthetic_entry

_GRANTED_BATCH: Final = 1_000

_REPLAYED: Final = "remote\n"
"""Starts the entry that an idempotency key stores for a change whose response is the table or view: loaded again."""


class _ListDocument(msgspec.Struct, rename="kebab"):
    identifiers: list[EntryName] = []
    next_page_token: str | None = None


class FederatedEntries:
    """Operations on tables and views alike. All raise the external catalog's errors."""

    def __init__(
        self,
        meta: MetaStore,
        authorizer: CatalogAuthorizer,
        authorization: FederatedAuthorization,
        forwarder: Forwarder,
    ) -> None:
        self._meta = meta
        self._authorizer = authorizer
        self._authorization = authorization
        self._forwarder = forwarder

    async def list(
        self, caller: Caller, catalog: FederatedCatalog, levels: Sequence[str], kind: EntryKind, paging: RemotePaging
    ) -> RemotePage[str]:
        """The tables or views of a namespace that the caller may see."""
        namespace, entity = check_namespace(levels), catalog.entity
        listing: FilteredList[str] = FilteredList(
            authorize=lambda: self._authorizer.check(
                caller, entity, Action.LIST_TABLES, namespace=namespace, kind=kind
            ),
            granted=lambda: self._granted(caller, catalog, namespace, kind),
            load=lambda page: self._load_page(catalog, namespace, kind, page),
            visible=lambda names: self._authorizer.visible_names(caller, entity, namespace, names),
        )
        return await listing.page(paging)

    async def _granted(
        self, caller: Caller, catalog: FederatedCatalog, namespace: Levels, kind: EntryKind
    ) -> frozenset[str] | None:
        row = await self._meta.row(NAMESPACE, catalog.id, path_of(namespace))
        if caller.principal.grants is None or row is None:
            return None
        held = GrantedEntries(self._meta, caller, catalog.entity, namespace_from(row), kind)
        securable = await held.one()
        if securable is None:
            return None
        await self._authorizer.check(
            caller, catalog.entity, Action.LIST_TABLES, namespace=namespace, kind=kind, securable=securable
        )
        names = await held.names("", _GRANTED_BATCH)
        found = set(names)
        while len(names) == _GRANTED_BATCH:
            names = await held.names(names[-1], _GRANTED_BATCH)
            found.update(names)
        return frozenset(found)

    async def _load_page(
        self, catalog: FederatedCatalog, namespace: Levels, kind: EntryKind, paging: RemotePaging
    ) -> RemotePage[str]:
        await self._forwarder.require_endpoint(catalog, f"GET /v1/{{prefix}}/namespaces/{{namespace}}/{kind}s")
        path = ("namespaces", await catalog.remote.namespace(namespace), f"{kind}s")
        response = await self._forwarder.read(catalog, RemoteRequest("GET", path, paging.query), NAMESPACE_STATUS)
        document = decode_response(response, _ListDocument, catalog.remote.host)
        names = [one.name for one in document.identifiers if tuple(one.namespace) == namespace]
        return RemotePage(names, document.next_page_token)

    async def check_exists(self, caller: Caller, entry: FederatedEntry) -> None:
        """Return if it exists. Raises NoSuchTable, NoSuchView."""
        privileges = OPERATIONS[f"{entry.kind}Exists"].target
        await self._authorization.check(caller, entry, Action.GET_TABLE, privileges=privileges)
        endpoints = (await entry.catalog.remote.config()).endpoints
        method = "HEAD" if f"HEAD {entry.endpoint}" in endpoints else "GET"
        await self._forwarder.require_endpoint(entry.catalog, f"{method} {entry.endpoint}")
        await self._forwarder.read(entry.catalog, RemoteRequest(method, await entry.path()), entry.status_mapping)

    async def drop(self, mutation: Mutation, entry: FederatedEntry, *, purge: bool = False) -> None:
        """Drop it, with `purge` its files too. Raises NoSuchTable, NoSuchView."""
        privileges = OPERATIONS["dropTable purge"].target if purge and entry.kind is EntryKind.TABLE else None
        catalog, caller = entry.catalog, mutation.caller
        await self._authorization.check(caller, entry, Action.DELETE_TABLE, privileges=privileges)
        await self._forwarder.require_endpoint(catalog, f"DELETE {entry.endpoint}")

        async def record(tx: Transaction, response: HttpResponse, now_ms: int) -> None:
            await drop_synthetic_entry(tx, catalog.id, entry.identifier)
            facts = {"purge": "true" if purge else "false"}
            await self._forwarder.emit_entry(tx, "Dropped", caller, entry, now_ms, facts=facts)

        query = {"purgeRequested": "true"} if purge else {}
        request = RemoteRequest("DELETE", await entry.path(), query)
        await self._forwarder.change(mutation, catalog, request, entry.status_mapping, record, StoredResponse(204))

    async def rename(
        self,
        mutation: Mutation,
        catalog: FederatedCatalog,
        source: Identifier,
        target: Identifier,
        kind: EntryKind,
    ) -> None:
        """Rename it; its grants follow. Raises NoSuchTable, NoSuchView, AlreadyExists."""
        old, new = FederatedEntry(catalog, source, kind), FederatedEntry(catalog, target, kind)
        caller, needed = mutation.caller, OPERATIONS[f"rename{kind.capitalize()}"]
        await self._authorization.check(caller, old, Action.RENAME_TABLE)
        await self._authorization.check(caller, new, Action.CREATE_TABLE, privileges=needed.secondary)
        await self._forwarder.require_endpoint(catalog, f"POST /v1/{{prefix}}/{kind}s/rename")
        for one in (source, target):
            await catalog.remote.namespace(one.namespace)

        async def record(tx: Transaction, response: HttpResponse, now_ms: int) -> None:
            await rename_synthetic_entry(tx, catalog.id, source, target, kind, now_ms)
            facts = {"from": str(source)}
            await self._forwarder.emit_entry(tx, "Renamed", caller, new, now_ms, facts=facts)

        document = {"source": source._asdict(), "destination": target._asdict()}
        request = RemoteRequest("POST", (f"{kind}s", "rename"), body=encode_document(document))
        mapping = StatusMapping(old.status_mapping.missing, AlreadyExists)
        await self._forwarder.change(mutation, catalog, request, mapping, record, StoredResponse(204))

    async def register(
        self, mutation: Mutation, entry: FederatedEntry, document: ForwardedRegistration
    ) -> HttpResponse:
        """Register a metadata file under a name. Raises AlreadyExists.

        The external catalog reads the file with its own permissions, and the file can belong to any table. So this
        requires permission to read the data of all tables of the catalog.
        """
        catalog, caller = entry.catalog, mutation.caller
        is_table = entry.kind is EntryKind.TABLE
        if document.overwrite:
            privileges = OPERATIONS["registerTable overwrite"].target if is_table else None
            await self._authorization.check(caller, entry, Action.UPDATE_METADATA_LOCATION, privileges=privileges)
        await self._authorization.check(caller, entry, Action.CREATE_TABLE)
        await self._authorizer.check(caller, catalog.entity, Action.GET_TABLE_DATA)
        route = "register" if is_table else "register-view"
        await self._forwarder.require_endpoint(catalog, f"POST /v1/{{prefix}}/namespaces/{{namespace}}/{route}")
        return await self.create(mutation, entry, encode_document(document), route=route, change="Registered")

    async def create(
        self,
        mutation: Mutation,
        entry: FederatedEntry,
        body: bytes,
        headers: dict[str, str] | None = None,
        *,
        route: str = "",
        change: str = "Created",
    ) -> HttpResponse:
        """Forward an authorized creation. Raises AlreadyExists, NoSuchNamespace."""
        request = await creation_request(entry, body, headers, route=route)
        return await self._change(mutation, entry, request, CREATION_STATUS, change)

    async def commit(self, mutation: Mutation, entry: FederatedEntry, body: bytes, *, creates: bool) -> HttpResponse:
        """Forward an authorized commit. Raises CommitConflict, NoSuchTable, NoSuchView, AlreadyExists."""
        request = RemoteRequest("POST", await entry.path(), body=body)
        return await self._change(mutation, entry, request, entry.status_mapping, "Created" if creates else "Committed")

    async def _change(
        self, mutation: Mutation, entry: FederatedEntry, request: RemoteRequest, mapping: StatusMapping, change: str
    ) -> HttpResponse:
        recorder = self.recorder(mutation.caller, entry, change)
        answer = replayable_answer(entry.identifier)
        return await self._forwarder.change(mutation, entry.catalog, request, mapping, recorder, answer)

    def recorder(self, caller: Caller, entry: FederatedEntry, change: str) -> RecordChange:
        """Records the creation or change of a table or view from the response."""
        is_commit = change == "Committed"

        async def record(tx: Transaction, response: HttpResponse, now_ms: int) -> None:
            summary = EntrySummary()
            if response.status != 204:
                summary = decode_response(response, EntrySummary, entry.catalog.remote.host, changes=True)
            if not is_commit:
                # An earlier entry of this name may have been dropped directly in the external catalog.
                await drop_synthetic_entry(tx, entry.catalog.id, entry.identifier)
            snapshot = max(summary.metadata.current_snapshot_id or 0, 0) if is_commit else 0
            await self._forwarder.emit_entry(tx, change, caller, entry, now_ms, summary, snapshot=snapshot)

        return record


CREATION_STATUS: Final = StatusMapping(NoSuchNamespace, AlreadyExists)


async def creation_request(
    entry: FederatedEntry, body: bytes, headers: dict[str, str] | None = None, *, route: str = ""
) -> RemoteRequest:
    """The request that creates a table or view in its namespace."""
    namespace = await entry.catalog.remote.namespace(entry.identifier.namespace)
    return RemoteRequest("POST", ("namespaces", namespace, route or f"{entry.kind}s"), body=body, headers=headers or {})


def replayable_answer(identifier: Identifier) -> StoredResponse:
    """The answer stored for a change whose response is the table or view: its name."""
    return StoredResponse(200, entry=f"{_REPLAYED}{path_of(identifier.namespace)}\n{identifier.name}")


def replayed_identifier(entry: str) -> Identifier | None:
    """The name in a stored answer, if the change was made in a federated catalog."""
    if not entry.startswith(_REPLAYED):
        return None
    path, _, name = entry.removeprefix(_REPLAYED).partition("\n")
    return Identifier(levels_of(path), name)
