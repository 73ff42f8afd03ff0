"""Catalog roles and their assignment to principal roles. Each change commits with its events."""

from __future__ import annotations

from collections.abc import Sequence
from dataclasses import replace

from lakebed.core.access import Principal
from lakebed.core.clock import Clock
from lakebed.core.errors import AlreadyExists, Corrupted, InvalidInput, NoSuchPrincipal
from lakebed.meta.outbox import Outbox
from lakebed.meta.seam import MetaStore, Reader, Transaction

from . import rows
from .administrator import Administrator
from .catalogs import find_catalog
from .events import RoleEventWriter
from .model import (
    CATALOG_ADMIN,
    SERVICE_ADMIN,
    CatalogRole,
    GrantTarget,
    ManagedCatalog,
    PrincipalRole,
    Properties,
    RoleGrant,
    check_properties,
    check_role_name,
    check_version,
    pack_properties,
)
from .principal_roles import find_principal_role
from .privileges import GrantKind, Privilege
from .securables import catalog_key, catalog_securable


class CatalogRoles:
    """The operations on catalog roles, each authorized. All raise NoSuchCatalog for an unknown catalog."""

    def __init__(self, store: MetaStore, outbox: Outbox, clock: Clock) -> None:
        self._store = store
        self._outbox = outbox
        self._clock = clock

    async def create(self, by: Administrator, catalog_name: str, name: str, *, properties: Properties) -> CatalogRole:
        """Create a role. Raises InvalidName, InvalidInput, AlreadyExists, AccessDenied."""
        catalog = await self._authorized(by, "createCatalogRole", catalog_name)
        check_role_name(name)
        checked = check_properties(properties)
        now_ms = self._clock.now_ms()

        async def work(tx: Transaction) -> CatalogRole:
            if not await tx.run(rows.INSERT_CATALOG_ROLE, catalog.id, name, pack_properties(checked), now_ms, now_ms):
                raise AlreadyExists(f"the catalog role exists. catalog={catalog.name} name={name}")
            role = await find_catalog_role(tx, catalog, name)
            await RoleEventWriter(self._outbox, tx, by.principal, now_ms).catalog_role("Created", catalog.name, name)
            return role

        return await self._store.transact(work)

    async def list(self, by: Administrator, catalog_name: str) -> list[CatalogRole]:
        """The roles of a catalog, ordered by name."""
        catalog = await self._authorized(by, "listCatalogRoles", catalog_name)
        return [rows.catalog_role_from(row) for row in await self._store.rows(rows.CATALOG_ROLES, catalog.id)]

    async def get(self, by: Administrator, catalog_name: str, name: str) -> CatalogRole:
        """A role. Raises NoSuchPrincipal."""
        catalog = await self._authorized(by, "getCatalogRole", catalog_name)
        return await find_catalog_role(self._store, catalog, name)

    async def update(
        self, by: Administrator, catalog_name: str, name: str, *, properties: Properties, version: int
    ) -> CatalogRole:
        """Replace the properties if the version matches. Raises NoSuchPrincipal, PreconditionFailed."""
        catalog = await self._authorized(by, "updateCatalogRole", catalog_name)
        checked = check_properties(properties)
        now_ms = self._clock.now_ms()

        async def work(tx: Transaction) -> CatalogRole:
            role = await find_catalog_role(tx, catalog, name)
            check_version(role.version, version)
            await tx.run(rows.UPDATE_CATALOG_ROLE, pack_properties(checked), now_ms, role.id)
            await RoleEventWriter(self._outbox, tx, by.principal, now_ms).catalog_role("Configured", catalog.name, name)
            return replace(role, properties=checked, version=role.version + 1, updated_ms=now_ms)

        return await self._store.transact(work)

    async def delete(self, by: Administrator, catalog_name: str, name: str) -> None:
        """Delete a role with its grants. Raises NoSuchPrincipal; InvalidInput for `catalog_admin`."""
        catalog = await self._authorized(by, "deleteCatalogRole", catalog_name)
        if name == CATALOG_ADMIN:
            raise InvalidInput(f"the catalog's administration role cannot be deleted. name={name}", argument="name")
        now_ms = self._clock.now_ms()

        async def work(tx: Transaction) -> None:
            role = await find_catalog_role(tx, catalog, name)
            assignees = await tx.rows(rows.PRINCIPAL_ROLES_OF_CATALOG_ROLE, role.id)
            grants = await tx.rows(rows.GRANTS_OF_ROLE, role.id)
            # Also deletes its grants and assignments.
            await tx.run(rows.DELETE_CATALOG_ROLE, role.id)
            await tx.run(rows.INVALIDATE_GRANTS)
            writer = RoleEventWriter(self._outbox, tx, by.principal, now_ms)
            for stored in rows.grants_from(grants):
                await writer.grant("Revoked", catalog.name, name, stored.grant)
            for row in assignees:
                await writer.assignment("Revoked", catalog.name, name, rows.principal_role_from(row).name)
            await writer.catalog_role("Deleted", catalog.name, name)

        await self._store.transact(work)

    async def assign(self, by: Administrator, principal_role: str, catalog_name: str, name: str) -> None:
        """Assign a catalog role to a principal role. Idempotent. Raises NoSuchPrincipal."""
        catalog = await self._authorized(by, "assignCatalogRoleToPrincipalRole", catalog_name)
        now_ms = self._clock.now_ms()

        async def work(tx: Transaction) -> None:
            grantee = await find_principal_role(tx, principal_role)
            role = await find_catalog_role(tx, catalog, name)
            if await tx.run(rows.ADD_PRINCIPAL_ROLE, grantee.id, role.id):
                await tx.run(rows.INVALIDATE_GRANTS)
                writer = RoleEventWriter(self._outbox, tx, by.principal, now_ms)
                await writer.assignment("Assigned", catalog.name, name, principal_role)

        await self._store.transact(work)

    async def revoke(self, by: Administrator, principal_role: str, catalog_name: str, name: str) -> None:
        """Revoke a catalog role from a principal role. Raises NoSuchPrincipal, also if it is not assigned."""
        catalog = await self._authorized(by, "revokeCatalogRoleFromPrincipalRole", catalog_name)
        now_ms = self._clock.now_ms()

        async def work(tx: Transaction) -> None:
            grantee = await find_principal_role(tx, principal_role)
            role = await find_catalog_role(tx, catalog, name)
            if not await tx.run(rows.REMOVE_PRINCIPAL_ROLE, grantee.id, role.id):
                raise NoSuchPrincipal(
                    f"the principal role does not have this catalog role. principal_role={principal_role}"
                    f" catalog={catalog.name} role={name}"
                )
            await tx.run(rows.INVALIDATE_GRANTS)
            writer = RoleEventWriter(self._outbox, tx, by.principal, now_ms)
            await writer.assignment("Revoked", catalog.name, name, principal_role)

        await self._store.transact(work)

    async def of_principal_role(
        self, by: Administrator, principal_role: str, catalog_name: str
    ) -> Sequence[CatalogRole]:
        """The roles of a catalog that are assigned to a principal role, ordered by name. Raises NoSuchPrincipal."""
        await by.authorize("listCatalogRolesForPrincipalRole")
        catalog = await find_catalog(self._store, catalog_name)
        grantee = await find_principal_role(self._store, principal_role)
        found = await self._store.rows(rows.CATALOG_ROLES_OF_PRINCIPAL_ROLE, grantee.id, catalog.id)
        return [rows.catalog_role_from(row) for row in found]

    async def assignees(self, by: Administrator, catalog_name: str, name: str) -> Sequence[PrincipalRole]:
        """The principal roles with a catalog role, ordered by name. Raises NoSuchPrincipal."""
        catalog = await self._authorized(by, "listAssigneePrincipalRolesForCatalogRole", catalog_name)
        role = await find_catalog_role(self._store, catalog, name)
        found = await self._store.rows(rows.PRINCIPAL_ROLES_OF_CATALOG_ROLE, role.id)
        return [rows.principal_role_from(row) for row in found]

    async def _authorized(self, by: Administrator, operation: str, catalog_name: str) -> ManagedCatalog:
        catalog = await find_catalog(self._store, catalog_name)
        await by.authorize(operation, catalog_securable(catalog.id), resource=catalog.arn)
        return catalog


async def find_catalog_role(reader: Reader, catalog: ManagedCatalog, name: str) -> CatalogRole:
    """A catalog role by name. Raises NoSuchPrincipal."""
    row = await reader.row(rows.CATALOG_ROLE, catalog.id, name)
    if row is None:
        raise NoSuchPrincipal(f"no such catalog role. catalog={catalog.name} name={name}")
    return rows.catalog_role_from(row)


ADMIN_PRIVILEGES = (Privilege.CATALOG_MANAGE_ACCESS, Privilege.CATALOG_MANAGE_METADATA)
"""No data privileges. Administrators can grant them, also to themselves, which emits an event."""


async def create_catalog_admin(
    tx: Transaction, outbox: Outbox, catalog: int, name: str, caller: Principal, now_ms: int
) -> None:
    """Create a catalog's `catalog_admin` in the transaction that creates the catalog. Idempotent.

    Call it before other events are appended. Raises Corrupted without `service_admin`, which the schema creates.
    """
    if not await tx.run(rows.INSERT_CATALOG_ROLE, catalog, CATALOG_ADMIN, None, now_ms, now_ms):
        return
    role = await tx.row(rows.CATALOG_ROLE, catalog, CATALOG_ADMIN)
    administrators = await tx.row(rows.PRINCIPAL_ROLE, SERVICE_ADMIN)
    if role is None or administrators is None:
        raise Corrupted(f"the administration role of the service is missing. role={SERVICE_ADMIN}")
    for privilege in ADMIN_PRIVILEGES:
        await tx.run(rows.ADD_GRANT, role[0], catalog_key(catalog), privilege, None, None, None, now_ms)
    await tx.run(rows.ADD_PRINCIPAL_ROLE, administrators[0], role[0])
    await tx.run(rows.INVALIDATE_GRANTS)
    writer = RoleEventWriter(outbox, tx, caller, now_ms)
    await writer.catalog_role("Created", name, CATALOG_ADMIN)
    for privilege in ADMIN_PRIVILEGES:
        await writer.grant("Added", name, CATALOG_ADMIN, RoleGrant(GrantTarget(GrantKind.CATALOG), privilege))
    await writer.assignment("Assigned", name, CATALOG_ADMIN, SERVICE_ADMIN)
