"""Namespaces of federated catalogs."""

from __future__ import annotations

from collections.abc import Mapping, Sequence
from typing import Final

import msgspec

from lakebed.catalog.access.authorization import Action, CatalogAuthorizer, Privileges
from lakebed.catalog.access.granted_listing import granted_children
from lakebed.catalog.idempotency import Mutation, StoredResponse
from lakebed.catalog.identifiers import Levels, check_namespace
from lakebed.core.errors import AlreadyExists, NamespaceNotEmpty, NoSuchNamespace
from lakebed.governance.rbac import OPERATIONS
from lakebed.meta.seam import MetaStore, Transaction
from lakebed.net.http import HttpResponse
from lakebed.objects.model import Caller

from ..remote.client import RemoteRequest, decode_response
from ..remote.errors import StatusMapping
from .documents import encode_document
from .filtered_lists import FilteredList, RemotePage, RemotePaging
from .forwarding import Forwarder
from .model import FederatedCatalog
from .synthetic_entities import drop_synthetic_namespace

NAMESPACE_STATUS: Final = StatusMapping(missing=NoSuchNamespace)
_NAMESPACES: Final = "namespaces"


class _ListDocument(msgspec.Struct, rename="kebab"):
    namespaces: list[list[str]] = []
    next_page_token: str | None = None


class FederatedNamespaces:
    """The use cases of namespaces. All raise the external catalog's errors."""

    def __init__(self, meta: MetaStore, authorizer: CatalogAuthorizer, forwarder: Forwarder) -> None:
        self._meta = meta
        self._authorizer = authorizer
        self._forwarder = forwarder

    async def list(
        self, caller: Caller, catalog: FederatedCatalog, parent: Levels, paging: RemotePaging
    ) -> RemotePage[Levels]:
        """The direct children of `parent`, or of the catalog itself, that the caller may see."""
        namespace, entity = check_namespace(parent) if parent else (), catalog.entity
        listing: FilteredList[Levels] = FilteredList(
            authorize=lambda: self._authorizer.check(caller, entity, Action.LIST_NAMESPACES, namespace=namespace),
            granted=lambda: self._granted(caller, catalog, namespace),
            load=lambda page: self._load_page(catalog, namespace, page),
            visible=lambda names: self._authorizer.visible_children(caller, entity, namespace, names),
        )
        return await listing.page(paging)

    async def _granted(self, caller: Caller, catalog: FederatedCatalog, parent: Levels) -> frozenset[Levels] | None:
        if caller.principal.grants is None:
            return None
        found = await granted_children(self._meta, caller, catalog.entity, parent)
        if found is None:
            return None
        namespaces, securable = found
        await self._authorizer.check(
            caller, catalog.entity, Action.LIST_NAMESPACES, namespace=parent, securable=securable
        )
        return frozenset(namespace.levels for namespace in namespaces)

    async def _load_page(self, catalog: FederatedCatalog, parent: Levels, paging: RemotePaging) -> RemotePage[Levels]:
        query = dict(paging.query)
        if parent:
            query["parent"] = await catalog.remote.namespace(parent)
        response = await self._forwarder.read(catalog, RemoteRequest("GET", (_NAMESPACES,), query), NAMESPACE_STATUS)
        document = decode_response(response, _ListDocument, catalog.remote.host)
        # Some servers list descendants of all depths: only children are requested.
        depth = len(parent) + 1
        children = [tuple(one) for one in document.namespaces if len(one) == depth and tuple(one[:-1]) == parent]
        return RemotePage(children, document.next_page_token)

    async def create(
        self, mutation: Mutation, catalog: FederatedCatalog, levels: Sequence[str], properties: Mapping[str, str]
    ) -> HttpResponse:
        """Create a namespace. Raises AlreadyExists, InvalidName."""
        namespace = check_namespace(levels)
        await self._authorizer.check(mutation.caller, catalog.entity, Action.CREATE_NAMESPACE, namespace=namespace)
        await catalog.remote.namespace(namespace)
        document = encode_document({"namespace": namespace, "properties": dict(properties)})

        async def record(tx: Transaction, response: HttpResponse, now_ms: int) -> None:
            await self._forwarder.emit(tx, "NamespaceCreated", mutation.caller, catalog, now_ms, namespace)

        request = RemoteRequest("POST", (_NAMESPACES,), body=document)
        mapping = StatusMapping(missing=NoSuchNamespace, conflict=AlreadyExists)
        return await self._forwarder.change(
            mutation, catalog, request, mapping, record, StoredResponse(200, body=document)
        )

    async def get(self, caller: Caller, catalog: FederatedCatalog, levels: Levels) -> HttpResponse:
        """A namespace and its properties. Raises NoSuchNamespace."""
        path = await self._authorized_path(caller, catalog, levels, Action.GET_NAMESPACE)
        return await self._forwarder.read(catalog, RemoteRequest("GET", (_NAMESPACES, path)), NAMESPACE_STATUS)

    async def check_exists(self, caller: Caller, catalog: FederatedCatalog, levels: Levels) -> None:
        """Return if it exists. Raises NoSuchNamespace."""
        privileges = OPERATIONS["namespaceExists"].target
        path = await self._authorized_path(caller, catalog, levels, Action.GET_NAMESPACE, privileges)
        endpoints = (await catalog.remote.config()).endpoints
        method = "HEAD" if "HEAD /v1/{prefix}/namespaces/{namespace}" in endpoints else "GET"
        await self._forwarder.read(catalog, RemoteRequest(method, (_NAMESPACES, path)), NAMESPACE_STATUS)

    async def set_properties(
        self,
        mutation: Mutation,
        catalog: FederatedCatalog,
        levels: Levels,
        *,
        updates: Mapping[str, str],
        removals: Sequence[str],
    ) -> HttpResponse:
        """Set and remove properties. Raises NoSuchNamespace, ConflictingProperties."""
        path = await self._authorized_path(mutation.caller, catalog, levels, Action.UPDATE_NAMESPACE)
        document = {"updates": dict(updates), "removals": list(removals)}

        async def record(tx: Transaction, response: HttpResponse, now_ms: int) -> None:
            await self._forwarder.emit(tx, "NamespaceConfigured", mutation.caller, catalog, now_ms, levels)

        # Stored for the key: the external catalog may word it differently, and clients read no more than this.
        answer = {"updated": sorted(updates), "removed": sorted(removals), "missing": []}
        return await self._forwarder.change(
            mutation,
            catalog,
            RemoteRequest("POST", (_NAMESPACES, path, "properties"), body=encode_document(document)),
            NAMESPACE_STATUS,
            record,
            StoredResponse(200, body=encode_document(answer)),
        )

    async def drop(self, mutation: Mutation, catalog: FederatedCatalog, levels: Levels) -> None:
        """Drop an empty namespace. Raises NoSuchNamespace, NamespaceNotEmpty."""
        path = await self._authorized_path(mutation.caller, catalog, levels, Action.DELETE_NAMESPACE)

        async def record(tx: Transaction, response: HttpResponse, now_ms: int) -> None:
            await drop_synthetic_namespace(tx, catalog.id, levels)
            await self._forwarder.emit(tx, "NamespaceDropped", mutation.caller, catalog, now_ms, levels)

        request = RemoteRequest("DELETE", (_NAMESPACES, path))
        mapping = StatusMapping(missing=NoSuchNamespace, conflict=NamespaceNotEmpty)
        await self._forwarder.change(mutation, catalog, request, mapping, record, StoredResponse(204))

    async def _authorized_path(
        self,
        caller: Caller,
        catalog: FederatedCatalog,
        levels: Levels,
        action: Action,
        privileges: Privileges | None = None,
    ) -> str:
        """The namespace's path segment in the external catalog. Raises AccessDenied, InvalidName."""
        namespace = check_namespace(levels)
        await self._authorizer.check(caller, catalog.entity, action, namespace=namespace, privileges=privileges)
        return await catalog.remote.namespace(namespace)
