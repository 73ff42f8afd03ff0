"""Grants: privileges given to catalog roles and taken away. Each change commits with its events."""

from __future__ import annotations

from typing import Protocol

from lakebed.core.access import Securable
from lakebed.core.clock import Clock
from lakebed.core.errors import InvalidInput, NoSuchNamespace, NoSuchTable, NoSuchView, NotFound, WriteConflict
from lakebed.meta.outbox import Outbox
from lakebed.meta.seam import MetaStore, Transaction

from . import rows
from .administrator import Administrator
from .catalog_roles import find_catalog_role
from .catalogs import ResolvedTarget, find_catalog, resolve_target
from .events import RoleEventWriter
from .model import GrantTarget, HeldGrant, ManagedCatalog
from .privileges import GrantKind, Privilege, check_grantable
from .securables import catalog_securable


class ExternalEntryRecorder(Protocol):
    """Knows of catalogs that are backed by others, whose things are recorded here when something is granted on them."""

    async def record(self, catalog: ManagedCatalog, target: GrantTarget) -> bool:
        """Make known what a grant is to be on; False if it is of no such catalog. Raises NotFound."""
        ...


class CatalogGrants:
    """The use cases of grants. All of them raise NoSuchCatalog for a catalog that is not there."""

    def __init__(
        self, store: MetaStore, outbox: Outbox, clock: Clock, elsewhere: ExternalEntryRecorder | None = None
    ) -> None:
        self._store = store
        self._outbox = outbox
        self._clock = clock
        self._elsewhere = elsewhere

    async def list(self, by: Administrator, catalog_name: str, role_name: str) -> list[HeldGrant]:
        """What a role holds. Raises NoSuchPrincipal."""
        catalog = await find_catalog(self._store, catalog_name)
        await by.authorize("listGrantsForCatalogRole", catalog_securable(catalog.id), resource=catalog.arn)
        role = await find_catalog_role(self._store, catalog, role_name)
        found = await self._store.rows(rows.GRANTS_OF_ROLE, role.id)
        return [stored.grant for stored in rows.grants_from(found) if not stored.is_hidden]

    async def add(
        self, by: Administrator, catalog_name: str, role_name: str, target: GrantTarget, privilege: Privilege
    ) -> None:
        """Give a privilege to a role. Idempotent.

        Raises NotFound for a role, namespace, table, view or policy that is not there; InvalidInput for a privilege
        that does not go with it.
        """
        check_target(target)
        check_grantable(target.kind, privilege)
        catalog = await find_catalog(self._store, catalog_name)
        try:
            await self._add(by, catalog, role_name, target, privilege)
        except (NoSuchNamespace, NoSuchTable, NoSuchView):
            # Told only to who may grant there: now it may be looked for where else it could be.
            if self._elsewhere is None or not await self._elsewhere.record(catalog, target):
                raise
            await self._add(by, catalog, role_name, target, privilege)

    async def _add(
        self, by: Administrator, catalog: ManagedCatalog, role_name: str, target: GrantTarget, privilege: Privilege
    ) -> None:
        now_ms = self._clock.now_ms()
        asked = (await resolve_target(self._store, catalog, target)).securable
        await by.authorize(f"addGrantToCatalogRole {target.kind}", asked, resource=catalog.arn)

        async def work(tx: Transaction) -> None:
            place = await _found_again(tx, catalog, target, asked)
            if place.missing is not None:
                raise place.missing
            role = await find_catalog_role(tx, catalog, role_name)
            columns = (place.namespace, place.entry, place.policy)
            if await tx.run(rows.ADD_GRANT, role.id, place.key, int(privilege), *columns, now_ms):
                await tx.run(rows.INVALIDATE_GRANTS)
                teller = RoleEventWriter(self._outbox, tx, by.principal, now_ms)
                await teller.grant("Added", catalog.name, role_name, HeldGrant(target, privilege))

        await self._store.transact(work)

    async def revoke(
        self,
        by: Administrator,
        catalog_name: str,
        role_name: str,
        target: GrantTarget,
        privilege: Privilege,
        *,
        cascade: bool = False,
    ) -> None:
        """Take a privilege from a role; with `cascade`, on all that is inside the target as well.

        Only the privilege itself goes: one that comes with another is held for as long as that is. Raises NotFound,
        also if the role has no such grant: who believes it is gone must not be told so by mistake.
        """
        check_target(target)
        now_ms = self._clock.now_ms()
        catalog = await find_catalog(self._store, catalog_name)
        asked = (await resolve_target(self._store, catalog, target)).securable
        await by.authorize(
            f"revokeGrantFromCatalogRole {target.kind}",
            asked,
            resource=catalog.arn,
            secondary=catalog_securable(catalog.id),
        )

        async def work(tx: Transaction) -> None:
            place = await _found_again(tx, catalog, target, asked)
            if place.missing is not None:
                raise place.missing
            role = await find_catalog_role(tx, catalog, role_name)
            gone: list[HeldGrant] = []
            for stored in rows.grants_from(await tx.rows(rows.GRANTS_OF_ROLE, role.id)):
                if stored.grant.privilege is not privilege:
                    continue
                if stored.key == place.key or (cascade and target.holds(stored.grant.target)):
                    await tx.run(rows.REMOVE_GRANT, role.id, stored.key, int(privilege))
                    gone.append(stored.grant)
            if not gone:
                raise NotFound(f"the role has no such grant. role={role_name} on={target} privilege={privilege.name}")
            await tx.run(rows.INVALIDATE_GRANTS)
            teller = RoleEventWriter(self._outbox, tx, by.principal, now_ms)
            for grant in gone:
                await teller.grant("Revoked", catalog.name, role_name, grant)

        await self._store.transact(work)


async def _found_again(
    tx: Transaction, catalog: ManagedCatalog, target: GrantTarget, asked: Securable
) -> ResolvedTarget:
    """What a grant is on, inside the transaction. Raises WriteConflict if it is not what was asked about before it.

    No question is put within a transaction: the answer may come from elsewhere, and all writers would wait (ADR 23).
    """
    place = await resolve_target(tx, catalog, target)
    if place.securable != asked:
        raise WriteConflict(f"what is granted on was changed meanwhile: {target}")
    return place


def check_target(target: GrantTarget) -> None:
    """Raise InvalidInput unless the target is named in full."""
    if target.kind is GrantKind.CATALOG:
        return
    if not target.namespace:
        raise InvalidInput(f"a grant on a {target.kind} names its namespace", argument="namespace")
    if target.kind is not GrantKind.NAMESPACE and not target.name:
        raise InvalidInput(f"a grant on a {target.kind} names it", argument=f"{target.kind}Name")
