"""Namespaces of the catalog behind this one."""

from __future__ import annotations

from collections.abc import Mapping, Sequence
from typing import Final, NamedTuple

import msgspec

from lakebed.catalog.access.authorization import Action, CatalogAuthorizer, Privileges
from lakebed.catalog.access.granted_listing import granted_children
from lakebed.catalog.idempotency import Mutation, StoredResponse
from lakebed.catalog.identifiers import Levels, check_namespace
from lakebed.core.errors import AccessDenied, AlreadyExists, NamespaceNotEmpty, NoSuchNamespace
from lakebed.governance.rbac import OPERATIONS
from lakebed.meta.seam import MetaStore, Transaction
from lakebed.net.http import HttpResponse
from lakebed.objects.model import Caller

from ..remote.client import RemoteRequest, parsed
from ..remote.failures import Meant
from .connections import Backed
from .documents import written
from .facades import forget_namespace
from .passing import Passing

MISSING: Final = Meant(missing=NoSuchNamespace)
_ALL: Final = "namespaces"


class Paging(NamedTuple):
    """Which page of a list is asked for, in the words of the other side: its tokens are its own."""

    token: str | None = None
    size: str | None = None

    @property
    def query(self) -> dict[str, str]:
        """As it is asked for."""
        stated = {"pageToken": self.token, "pageSize": self.size}
        return {name: value for name, value in stated.items() if value is not None}


class NamespaceList(NamedTuple):
    """Namespaces of a list, and the other side's token for more."""

    namespaces: list[Levels]
    next_token: str | None


class _Listed(msgspec.Struct, rename="kebab"):
    namespaces: list[list[str]] = []
    next_page_token: str | None = None


class RemoteNamespaces:
    """The use cases of namespaces. All of them raise what the other side refuses with."""

    def __init__(self, meta: MetaStore, authorizer: CatalogAuthorizer, passing: Passing) -> None:
        self._meta = meta
        self._authorizer = authorizer
        self._passing = passing

    async def list(self, caller: Caller, backed: Backed, parent: Levels, paging: Paging) -> NamespaceList:
        """The direct children of `parent`, or of the catalog itself: only those that are held of who holds some."""
        name = check_namespace(parent) if parent else ()
        try:
            await self._authorizer.check(caller, backed.catalog, Action.LIST_NAMESPACES, namespace=name)
        except AccessDenied:
            held = await self._held(caller, backed, name)
            if held is None:
                raise
            there = sorted(one for one in await self._every(backed, name) if one in held)
            return NamespaceList([*await self._authorizer.visible_children(caller, backed.catalog, name, there)], None)
        while True:
            page = await self._page(backed, name, paging)
            shown = [*await self._authorizer.visible_children(caller, backed.catalog, name, page.namespaces)]
            # As with the names of tables: a page that nothing is left of is not shown.
            if shown or not page.next_token or page.next_token == paging.token:
                return page._replace(namespaces=shown)
            paging = paging._replace(token=page.next_token)

    async def _held(self, caller: Caller, backed: Backed, parent: Levels) -> frozenset[Levels] | None:
        if caller.principal.grants is None:
            return None
        found = await granted_children(self._meta, caller, backed.catalog, parent)
        if found is None:
            return None
        namespaces, one = found
        await self._authorizer.check(caller, backed.catalog, Action.LIST_NAMESPACES, namespace=parent, securable=one)
        return frozenset(namespace.levels for namespace in namespaces)

    async def _every(self, backed: Backed, parent: Levels) -> Sequence[Levels]:
        found: list[Levels] = []
        paging = Paging()
        while True:
            page = await self._page(backed, parent, paging)
            found += page.namespaces
            if not page.next_token or page.next_token == paging.token:
                return found
            paging = Paging(page.next_token)

    async def _page(self, backed: Backed, parent: Levels, paging: Paging) -> NamespaceList:
        query = dict(paging.query)
        if parent:
            query["parent"] = await backed.remote.namespace(parent)
        answer = await self._passing.read(backed, RemoteRequest("GET", (_ALL,), query), MISSING)
        listed = parsed(answer, _Listed, backed.remote.host)
        # Some servers list all levels below: only children are asked for.
        depth = len(parent) + 1
        children = [tuple(one) for one in listed.namespaces if len(one) == depth and tuple(one[:-1]) == parent]
        return NamespaceList(children, listed.next_page_token)

    async def create(
        self, mutation: Mutation, backed: Backed, levels: Sequence[str], properties: Mapping[str, str]
    ) -> HttpResponse:
        """Make a namespace. Raises AlreadyExists, InvalidName."""
        name = check_namespace(levels)
        await self._authorizer.check(mutation.caller, backed.catalog, Action.CREATE_NAMESPACE, namespace=name)
        await backed.remote.namespace(name)
        document = {"namespace": name, "properties": dict(properties)}

        async def record(tx: Transaction, answer: HttpResponse, now_ms: int) -> None:
            await self._passing.tell(tx, "NamespaceCreated", mutation.caller, backed, now_ms, name)

        return await self._passing.change(
            mutation,
            backed,
            RemoteRequest("POST", (_ALL,), body=written(document)),
            Meant(missing=NoSuchNamespace, conflict=AlreadyExists),
            record,
            StoredResponse(200, body=written(document)),
        )

    async def get(self, caller: Caller, backed: Backed, levels: Sequence[str]) -> HttpResponse:
        """A namespace and its properties. Raises NoSuchNamespace."""
        path = await self._admitted(caller, backed, levels, Action.GET_NAMESPACE)
        return await self._passing.read(backed, RemoteRequest("GET", (_ALL, path)), MISSING)

    async def check_exists(self, caller: Caller, backed: Backed, levels: Sequence[str]) -> None:
        """Return if it is there. Raises NoSuchNamespace."""
        privileges = OPERATIONS["namespaceExists"].target
        path = await self._admitted(caller, backed, levels, Action.GET_NAMESPACE, privileges)
        endpoints = (await backed.remote.manners()).endpoints
        method = "HEAD" if "HEAD /v1/{prefix}/namespaces/{namespace}" in endpoints else "GET"
        await self._passing.read(backed, RemoteRequest(method, (_ALL, path)), MISSING)

    async def set_properties(
        self,
        mutation: Mutation,
        backed: Backed,
        levels: Sequence[str],
        *,
        updates: Mapping[str, str],
        removals: Sequence[str],
    ) -> HttpResponse:
        """Set and remove properties. Raises NoSuchNamespace, ConflictingProperties."""
        path = await self._admitted(mutation.caller, backed, levels, Action.UPDATE_NAMESPACE)
        document = {"updates": dict(updates), "removals": list(removals)}

        async def record(tx: Transaction, answer: HttpResponse, now_ms: int) -> None:
            await self._passing.tell(tx, "NamespaceConfigured", mutation.caller, backed, now_ms, tuple(levels))

        # What its key keeps: the other side may say it otherwise, and every client reads no more than this.
        kept = {"updated": sorted(updates), "removed": sorted(removals), "missing": []}
        return await self._passing.change(
            mutation,
            backed,
            RemoteRequest("POST", (_ALL, path, "properties"), body=written(document)),
            MISSING,
            record,
            StoredResponse(200, body=written(kept)),
        )

    async def drop(self, mutation: Mutation, backed: Backed, levels: Sequence[str]) -> None:
        """Remove an empty namespace. Raises NoSuchNamespace, NamespaceNotEmpty."""
        path = await self._admitted(mutation.caller, backed, levels, Action.DELETE_NAMESPACE)

        async def record(tx: Transaction, answer: HttpResponse, now_ms: int) -> None:
            await forget_namespace(tx, backed.catalog_id, tuple(levels))
            await self._passing.tell(tx, "NamespaceDropped", mutation.caller, backed, now_ms, tuple(levels))

        await self._passing.change(
            mutation,
            backed,
            RemoteRequest("DELETE", (_ALL, path)),
            Meant(missing=NoSuchNamespace, conflict=NamespaceNotEmpty),
            record,
            StoredResponse(204),
        )

    async def _admitted(
        self,
        caller: Caller,
        backed: Backed,
        levels: Sequence[str],
        action: Action,
        privileges: Privileges | None = None,
    ) -> str:
        """The namespace as the other side's paths have it, if the caller may. Raises AccessDenied, InvalidName."""
        name = check_namespace(levels)
        await self._authorizer.check(caller, backed.catalog, action, namespace=name, privileges=privileges)
        return await backed.remote.namespace(name)
