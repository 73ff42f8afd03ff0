"""Namespaces: create, list, load, update, drop.

Missing parents are created with their children: clients that know only one level never create them.
"""

from __future__ import annotations

from collections.abc import Mapping, Sequence

import msgspec

from lakebed.core.errors import AccessDenied, AlreadyExists, NamespaceNotEmpty, NoSuchNamespace
from lakebed.governance.rbac.grant_cleanup import invalidate_namespace_grants
from lakebed.meta.seam import Reader, Transaction
from lakebed.objects.context import ObjectContext
from lakebed.objects.model import Caller

from . import rows
from .access.authorization import Action, CatalogAuthorizer, Privileges
from .access.granted_listing import granted_children
from .catalogs.properties import PropertiesChange, changed_properties, check_properties
from .catalogs.service import CatalogService
from .events import append_catalog_event
from .idempotency import IdempotencyKeys, Mutation, StoredResponse
from .identifiers import Levels, check_namespace, display, path_of
from .model import Catalog, Namespace, Page, pack_properties
from .rows import namespace_from


class Namespaces:
    """The use cases of namespaces."""

    def __init__(
        self,
        object_context: ObjectContext,
        authorizer: CatalogAuthorizer,
        catalogs: CatalogService,
        keys: IdempotencyKeys,
    ) -> None:
        self._f = object_context
        self._authorizer = authorizer
        self._catalogs = catalogs
        self._keys = keys

    async def create(
        self, mutation: Mutation, catalog_name: str, levels: Sequence[str], properties: Mapping[str, str]
    ) -> Namespace:
        """Create a namespace and its missing parents. Raises AlreadyExists, InvalidName."""
        f, caller = self._f, mutation.caller
        name = check_namespace(levels)
        check_properties(properties)
        now_ms = f.clock.now_ms()
        catalog = await self._catalogs.find(f.meta, catalog_name)
        await self._authorizer.check(caller, catalog, Action.CREATE_NAMESPACE, namespace=name)
        answer = msgspec.json.encode({"namespace": name, "properties": dict(properties)})

        async def work(tx: Transaction) -> Namespace:
            await self._keys.keep(tx, mutation.key, StoredResponse(200, body=answer))
            catalog = await self._catalogs.find(tx, catalog_name)
            for depth in range(1, len(name)):
                await _insert(tx, catalog, name[:depth], {}, now_ms)
            if await _insert(tx, catalog, name, properties, now_ms) is None:
                raise AlreadyExists(f"Namespace already exists: {display(name)}")
            made = await self.find(tx, catalog, name)
            await append_catalog_event(f.outbox, tx, "NamespaceCreated", caller, now_ms, catalog_name, name)
            return made

        return await f.meta.transact(work)

    async def ensure(self, caller: Caller, catalog_name: str, levels: Levels) -> None:
        """Create missing namespaces for an authorized caller, with an event for each."""
        f, now_ms = self._f, self._f.clock.now_ms()

        async def work(tx: Transaction) -> None:
            catalog = await self._catalogs.find(tx, catalog_name)
            for depth in range(1, len(levels) + 1):
                if await _insert(tx, catalog, levels[:depth], {}, now_ms) is not None:
                    await append_catalog_event(
                        f.outbox, tx, "NamespaceCreated", caller, now_ms, catalog_name, levels[:depth]
                    )

        await f.meta.transact(work)

    async def find(self, reader: Reader, catalog: Catalog, levels: Levels) -> Namespace:
        """The namespace, without authorization. Raises NoSuchNamespace."""
        row = await reader.row(rows.NAMESPACE, catalog.id, path_of(levels))
        if row is None:
            raise no_such_namespace(levels)
        return namespace_from(row)

    async def get(
        self,
        caller: Caller,
        catalog_name: str,
        levels: Sequence[str],
        *,
        privileges: Privileges | None = None,
    ) -> Namespace:
        """The namespace. `privileges` replaces the required privileges. Raises NoSuchNamespace, AccessDenied."""
        return (await self.load(caller, catalog_name, levels, privileges=privileges))[1]

    async def load(
        self,
        caller: Caller,
        catalog_name: str,
        levels: Sequence[str],
        *,
        privileges: Privileges | None = None,
    ) -> tuple[Catalog, Namespace]:
        """The same with its catalog."""
        name = check_namespace(levels)
        catalog = await self._catalogs.find(self._f.meta, catalog_name)
        await self._authorizer.check(caller, catalog, Action.GET_NAMESPACE, namespace=name, privileges=privileges)
        return catalog, await self.find(self._f.meta, catalog, name)

    async def list(
        self, caller: Caller, catalog_name: str, parent: Sequence[str], *, after: str, limit: int
    ) -> Page[Namespace]:
        """The direct children of `parent`, or of the catalog itself, by name. Raises NoSuchNamespace, AccessDenied.

        Callers that may not list the parent get the namespaces granted to them.
        """
        catalog = await self._catalogs.find(self._f.meta, catalog_name)
        parent_name = check_namespace(parent) if parent else ()
        try:
            await self._authorizer.check(caller, catalog, Action.LIST_NAMESPACES, namespace=parent_name)
        except AccessDenied:
            held = await self._held(caller, catalog, parent_name)
            if held is None:
                raise
            some = await self._visible(caller, catalog, parent_name, [one for one in held if one.path > after])
            return Page.of(some, limit)
        if parent_name:
            await self.find(self._f.meta, catalog, parent_name)
        visible: list[Namespace] = []
        while True:
            found = await self._f.meta.rows(rows.CHILD_NAMESPACES, catalog.id, path_of(parent_name), after, limit + 1)
            children = [namespace_from(row) for row in found]
            visible += await self._visible(caller, catalog, parent_name, children)
            # As for tables: a second query is needed only if some namespaces are not visible to the caller.
            if len(visible) > limit or len(children) <= limit:
                return Page.of(visible, limit)
            after = children[-1].path

    async def _visible(
        self, caller: Caller, catalog: Catalog, parent: Levels, children: Sequence[Namespace]
    ) -> Sequence[Namespace]:
        """The children in the response to a caller that may list the parent."""
        by_levels = {one.levels: one for one in children}
        seen = await self._authorizer.visible_children(caller, catalog, parent, list(by_levels))
        return [by_levels[levels] for levels in seen]

    async def _held(self, caller: Caller, catalog: Catalog, parent: Levels) -> Sequence[Namespace] | None:
        """The children granted to a caller that may not list the parent; None without any. Raises AccessDenied."""
        if caller.principal.grants is None:
            return None
        found = await granted_children(self._f.meta, caller, catalog, parent)
        if found is None:
            return None
        namespaces, one = found
        await self._authorizer.check(caller, catalog, Action.LIST_NAMESPACES, namespace=parent, securable=one)
        return namespaces

    async def set_properties(
        self,
        mutation: Mutation,
        catalog_name: str,
        levels: Sequence[str],
        *,
        updates: Mapping[str, str],
        removals: Sequence[str],
    ) -> PropertiesChange:
        """Set and remove properties. Raises NoSuchNamespace, ConflictingProperties."""
        f, caller = self._f, mutation.caller
        name = check_namespace(levels)
        now_ms = f.clock.now_ms()
        catalog = await self._catalogs.find(f.meta, catalog_name)
        await self._authorizer.check(caller, catalog, Action.UPDATE_NAMESPACE, namespace=name)

        async def work(tx: Transaction) -> PropertiesChange:
            catalog = await self._catalogs.find(tx, catalog_name)
            namespace = await self.find(tx, catalog, name)
            properties, change = changed_properties(namespace.properties, updates, removals)
            check_properties(properties)
            await tx.run(rows.SET_NAMESPACE_PROPERTIES, pack_properties(properties), namespace.id)
            await self._keys.keep(tx, mutation.key, StoredResponse(200, body=msgspec.json.encode(change)))
            await append_catalog_event(f.outbox, tx, "NamespaceConfigured", caller, now_ms, catalog_name, name)
            return change

        return await f.meta.transact(work)

    async def drop(self, mutation: Mutation, catalog_name: str, levels: Sequence[str]) -> None:
        """Drop an empty namespace. Raises NoSuchNamespace, NamespaceNotEmpty."""
        f, caller = self._f, mutation.caller
        name = check_namespace(levels)
        now_ms = f.clock.now_ms()
        catalog = await self._catalogs.find(f.meta, catalog_name)
        await self._authorizer.check(caller, catalog, Action.DELETE_NAMESPACE, namespace=name)

        async def work(tx: Transaction) -> None:
            await self._keys.keep(tx, mutation.key, StoredResponse(204))
            catalog = await self._catalogs.find(tx, catalog_name)
            namespace = await self.find(tx, catalog, name)
            if await tx.row(rows.NAMESPACE_HAS_ENTRIES, namespace.id) is not None:
                raise _not_empty(name, "tables or views, or dropped ones that can be restored")
            if await tx.row(rows.NAMESPACE_HAS_CHILDREN, catalog.id, namespace.path) is not None:
                raise _not_empty(name, "namespaces")
            if await tx.row(rows.NAMESPACE_HAS_POLICIES, namespace.id) is not None:
                # They may be attached outside the namespace: detach and drop them explicitly.
                raise _not_empty(name, "policies")
            await invalidate_namespace_grants(tx, namespace.id)
            await tx.run(rows.DELETE_NAMESPACE, namespace.id)
            await append_catalog_event(f.outbox, tx, "NamespaceDropped", caller, now_ms, catalog_name, name)

        await f.meta.transact(work)


def no_such_namespace(levels: Levels) -> NoSuchNamespace:
    """The error for a namespace that does not exist."""
    return NoSuchNamespace(f"Namespace does not exist: {display(levels)}")


def _not_empty(levels: Levels, held: str) -> NamespaceNotEmpty:
    return NamespaceNotEmpty(f"Namespace {display(levels)} is not empty: it contains {held}")


async def _insert(
    tx: Transaction, catalog: Catalog, levels: Levels, properties: Mapping[str, str], now_ms: int
) -> int | None:
    row = await tx.row(
        rows.INSERT_NAMESPACE,
        catalog.id,
        path_of(levels),
        path_of(levels[:-1]),
        pack_properties(dict(properties)),
        now_ms,
    )
    return None if row is None else int(row[0])
