"""Grants of privileges to catalog roles. Each change commits with its events."""

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
from .model import GrantTarget, ManagedCatalog, RoleGrant
from .privileges import GrantKind, Privilege, check_grantable
from .securables import catalog_securable


class ExternalEntryRecorder(Protocol):
    """Records tables of federated catalogs here, so that they can have grants."""

    async def record(self, catalog: ManagedCatalog, target: GrantTarget) -> bool:
        """Record the target of a grant. False if the catalog is not federated. Raises NotFound."""
        ...


class CatalogGrants:
    """The operations on grants, each authorized. All raise NoSuchCatalog for an unknown catalog."""

    def __init__(
        self, store: MetaStore, outbox: Outbox, clock: Clock, external: ExternalEntryRecorder | None = None
    ) -> None:
        self._store = store
        self._outbox = outbox
        self._clock = clock
        self._external = external

    async def list(self, by: Administrator, catalog_name: str, role_name: str) -> list[RoleGrant]:
        """The grants of a role. Raises NoSuchPrincipal."""
        catalog = await find_catalog(self._store, catalog_name)
        await by.authorize("listGrantsForCatalogRole", catalog_securable(catalog.id), resource=catalog.arn)
        role = await find_catalog_role(self._store, catalog, role_name)
        found = await self._store.rows(rows.GRANTS_OF_ROLE, role.id)
        return [stored.grant for stored in rows.grants_from(found) if not stored.is_hidden]

    async def add(
        self, by: Administrator, catalog_name: str, role_name: str, target: GrantTarget, privilege: Privilege
    ) -> None:
        """Grant a privilege to a role. Idempotent.

        Raises NotFound for an unknown role or target; InvalidInput for a privilege that the target cannot have.
        """
        check_target(target)
        check_grantable(target.kind, privilege)
        catalog = await find_catalog(self._store, catalog_name)
        try:
            await self._add(by, catalog, role_name, target, privilege)
        except (NoSuchNamespace, NoSuchTable, NoSuchView):
            # Only raised to callers who may grant there; now the external catalog may be queried.
            if self._external is None or not await self._external.record(catalog, target):
                raise
            await self._add(by, catalog, role_name, target, privilege)

    async def _add(
        self, by: Administrator, catalog: ManagedCatalog, role_name: str, target: GrantTarget, privilege: Privilege
    ) -> None:
        now_ms = self._clock.now_ms()
        authorized = (await resolve_target(self._store, catalog, target)).securable
        await by.authorize(f"addGrantToCatalogRole {target.kind}", authorized, resource=catalog.arn)

        async def work(tx: Transaction) -> None:
            resolved = await _resolve_again(tx, catalog, target, authorized)
            if resolved.missing is not None:
                raise resolved.missing
            role = await find_catalog_role(tx, catalog, role_name)
            columns = (resolved.namespace, resolved.entry, resolved.policy)
            if await tx.run(rows.ADD_GRANT, role.id, resolved.key, int(privilege), *columns, now_ms):
                await tx.run(rows.INVALIDATE_GRANTS)
                writer = RoleEventWriter(self._outbox, tx, by.principal, now_ms)
                await writer.grant("Added", catalog.name, role_name, RoleGrant(target, privilege))

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
        """Revoke a privilege from a role; with `cascade`, also on everything inside the target.

        Revokes only the privilege itself: one that another privilege includes is held as long as that. Raises NotFound,
        also if the role does not have the grant, so that a mistaken revocation does not look successful.
        """
        check_target(target)
        now_ms = self._clock.now_ms()
        catalog = await find_catalog(self._store, catalog_name)
        authorized = (await resolve_target(self._store, catalog, target)).securable
        await by.authorize(
            f"revokeGrantFromCatalogRole {target.kind}",
            authorized,
            resource=catalog.arn,
            secondary=catalog_securable(catalog.id),
        )

        async def work(tx: Transaction) -> None:
            resolved = await _resolve_again(tx, catalog, target, authorized)
            if resolved.missing is not None:
                raise resolved.missing
            role = await find_catalog_role(tx, catalog, role_name)
            revoked: list[RoleGrant] = []
            for stored in rows.grants_from(await tx.rows(rows.GRANTS_OF_ROLE, role.id)):
                if stored.grant.privilege is not privilege:
                    continue
                if stored.key == resolved.key or (cascade and target.contains(stored.grant.target)):
                    await tx.run(rows.REMOVE_GRANT, role.id, stored.key, int(privilege))
                    revoked.append(stored.grant)
            if not revoked:
                raise NotFound(f"the role has no such grant. role={role_name} on={target} privilege={privilege.name}")
            await tx.run(rows.INVALIDATE_GRANTS)
            writer = RoleEventWriter(self._outbox, tx, by.principal, now_ms)
            for grant in revoked:
                await writer.grant("Revoked", catalog.name, role_name, grant)

        await self._store.transact(work)


async def _resolve_again(
    tx: Transaction, catalog: ManagedCatalog, target: GrantTarget, authorized: Securable
) -> ResolvedTarget:
    """Resolve the target in the transaction. Raises WriteConflict if it is not the authorized one.

    Authorization happens before the transaction: it may call a decision point while other writers would wait (ADR 23).
    """
    resolved = await resolve_target(tx, catalog, target)
    if resolved.securable != authorized:
        raise WriteConflict(f"the grant's target changed concurrently: {target}")
    return resolved


def check_target(target: GrantTarget) -> None:
    """Raise InvalidInput unless the target is complete."""
    if target.kind is GrantKind.CATALOG:
        return
    if not target.namespace:
        raise InvalidInput(f"a grant on a {target.kind} requires its namespace", argument="namespace")
    if target.kind is not GrantKind.NAMESPACE and not target.name:
        raise InvalidInput(f"a grant on a {target.kind} requires its name", argument=f"{target.kind}Name")
