"""Policy types of a table bucket: system types, and those that users define."""

from __future__ import annotations

from collections.abc import Callable

from lakebed.core.errors import AlreadyExists, InvalidInput, NoSuchPolicyType, PolicyInUse
from lakebed.governance.policies import SYSTEM_TYPES, PolicyType, rows
from lakebed.meta.seam import Reader, Transaction
from lakebed.objects.context import ObjectContext
from lakebed.objects.model import Caller

from ..access.authorization import Action, CatalogAuthorizer
from ..catalogs.service import CatalogService
from ..events import append_catalog_event
from ..idempotency import IdempotencyKeys, Mutation, StoredResponse
from ..model import Catalog, Page

__all__ = ["PolicyTypes"]


class PolicyTypes:
    """The use cases of types."""

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

    async def find(self, reader: Reader, catalog: Catalog, name: str) -> PolicyType:
        """The type of that name, without authorization. Raises NoSuchPolicyType."""
        found = SYSTEM_TYPES.get(name)
        if found is not None:
            return found
        row = await reader.row(rows.TYPE, catalog.id, name)
        if row is None:
            raise NoSuchPolicyType(f"no such policy type. type={name[:80]} system={','.join(SYSTEM_TYPES)}")
        return rows.type_from(row)

    async def stated(self, reader: Reader, catalog: Catalog, name: str) -> PolicyType:
        """The type that a request names as an argument. Raises InvalidInput if it does not exist."""
        try:
            return await self.find(reader, catalog, name)
        except NoSuchPolicyType as error:
            raise InvalidInput(str(error), argument="type", value=name[:80]) from error

    async def create(
        self, mutation: Mutation, catalog_name: str, made: PolicyType, show: Callable[[PolicyType], bytes]
    ) -> PolicyType:
        """Add a type that `define_type` has made. Raises AlreadyExists.

        `show` renders the response that is stored for repeated requests with the same idempotency key.
        """
        f, caller = self._f, mutation.caller
        now_ms = f.clock.now_ms()
        await self._authorizer.check(caller, await self._catalogs.find(f.meta, catalog_name), Action.CREATE_POLICY_TYPE)

        async def work(tx: Transaction) -> PolicyType:
            await self._keys.keep(tx, mutation.key, StoredResponse(200, body=show(made)))
            catalog = await self._catalogs.find(tx, catalog_name)
            if await tx.row(rows.INSERT_TYPE, catalog.id, *rows.type_columns(made)) is None:
                raise AlreadyExists(f"policy type already exists. type={made.name}")
            await append_catalog_event(
                f.outbox, tx, "CatalogPolicyTypeCreated", caller, now_ms, catalog_name, facts={"type": made.name}
            )
            return made

        return await f.meta.transact(work)

    async def get(self, caller: Caller, catalog_name: str, name: str) -> PolicyType:
        """The type, if the caller can read it. Raises NoSuchPolicyType."""
        catalog = await self._catalogs.find(self._f.meta, catalog_name)
        await self._authorizer.check(caller, catalog, Action.LIST_POLICIES)
        return await self.find(self._f.meta, catalog, name)

    async def list(self, caller: Caller, catalog_name: str, *, after: str, limit: int) -> Page[PolicyType]:
        """All types by name, including system types."""
        catalog = await self._catalogs.find(self._f.meta, catalog_name)
        await self._authorizer.check(caller, catalog, Action.LIST_POLICIES)
        found = await self._f.meta.rows(rows.TYPES_AFTER, catalog.id, after, limit + 1)
        types = [*map(rows.type_from, found), *(one for one in SYSTEM_TYPES.values() if one.name > after)]
        types.sort(key=lambda one: one.name)
        return Page.of(types, limit)

    async def drop(self, mutation: Mutation, catalog_name: str, name: str) -> None:
        """Remove a type that has no policies. Raises NoSuchPolicyType, PolicyInUse."""
        f, caller = self._f, mutation.caller
        now_ms = f.clock.now_ms()
        await self._authorizer.check(caller, await self._catalogs.find(f.meta, catalog_name), Action.DROP_POLICY_TYPE)

        async def work(tx: Transaction) -> None:
            await self._keys.keep(tx, mutation.key, StoredResponse(204))
            catalog = await self._catalogs.find(tx, catalog_name)
            if (await self.find(tx, catalog, name)).is_system:
                raise PolicyInUse(f"system policy types cannot be dropped. type={name}")
            if await tx.row(rows.TYPE_HAS_POLICIES, catalog.id, name) is not None:
                raise PolicyInUse(f"policy type has policies; drop them first. type={name}")
            await tx.run(rows.DELETE_TYPE, catalog.id, name)
            await append_catalog_event(
                f.outbox, tx, "CatalogPolicyTypeDropped", caller, now_ms, catalog_name, facts={"type": name}
            )

        await f.meta.transact(work)
