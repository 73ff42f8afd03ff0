"""Principal roles and their assignment to principals. Each change commits with its events."""

from __future__ import annotations

from collections.abc import Sequence
from dataclasses import replace

from lakebed.core.access import Principal
from lakebed.core.clock import Clock
from lakebed.core.errors import AlreadyExists, InvalidInput, NoSuchPrincipal
from lakebed.meta.outbox import Outbox
from lakebed.meta.seam import MetaStore, Reader, Transaction

from . import rows
from .administrator import Administrator
from .events import RoleEventWriter
from .model import (
    ROOT,
    SERVICE_ADMIN,
    PrincipalRole,
    Properties,
    check_principal_role_name,
    check_properties,
    check_version,
    pack_properties,
)


class PrincipalRoles:
    """The operations on principal roles, each authorized."""

    def __init__(self, store: MetaStore, outbox: Outbox, clock: Clock) -> None:
        self._store = store
        self._outbox = outbox
        self._clock = clock

    async def create(
        self, by: Administrator, name: str, *, properties: Properties, federated: bool = False
    ) -> PrincipalRole:
        """Create a role. Raises InvalidName, InvalidInput, AlreadyExists, AccessDenied."""
        await by.authorize("createPrincipalRole")
        check_principal_role_name(name)
        checked = check_properties(properties)
        now_ms = self._clock.now_ms()

        async def work(tx: Transaction) -> PrincipalRole:
            if not await tx.run(
                rows.INSERT_PRINCIPAL_ROLE, name, int(federated), pack_properties(checked), now_ms, now_ms
            ):
                raise AlreadyExists(f"the principal role exists. name={name}")
            role = await find_principal_role(tx, name)
            await RoleEventWriter(self._outbox, tx, by.principal, now_ms).principal_role("Created", name)
            return role

        return await self._store.transact(work)

    async def list(self, by: Administrator) -> list[PrincipalRole]:
        """All roles, ordered by name."""
        await by.authorize("listPrincipalRoles")
        return [rows.principal_role_from(row) for row in await self._store.rows(rows.PRINCIPAL_ROLES)]

    async def get(self, by: Administrator, name: str) -> PrincipalRole:
        """A role. Raises NoSuchPrincipal."""
        await by.authorize("getPrincipalRole")
        return await find_principal_role(self._store, name)

    async def update(self, by: Administrator, name: str, *, properties: Properties, version: int) -> PrincipalRole:
        """Replace the properties if the version matches. Raises NoSuchPrincipal, PreconditionFailed."""
        await by.authorize("updatePrincipalRole")
        checked = check_properties(properties)
        now_ms = self._clock.now_ms()

        async def work(tx: Transaction) -> PrincipalRole:
            role = await find_principal_role(tx, name)
            check_version(role.version, version)
            await tx.run(rows.UPDATE_PRINCIPAL_ROLE, pack_properties(checked), now_ms, role.id)
            await RoleEventWriter(self._outbox, tx, by.principal, now_ms).principal_role("Configured", name)
            return replace(role, properties=checked, version=role.version + 1, updated_ms=now_ms)

        return await self._store.transact(work)

    async def delete(self, by: Administrator, name: str) -> None:
        """Delete a role with its assignments. Raises NoSuchPrincipal; InvalidInput for `service_admin`."""
        await by.authorize("deletePrincipalRole")
        if name == SERVICE_ADMIN:
            raise InvalidInput(f"the service's administration role cannot be deleted. name={name}", argument="name")
        now_ms = self._clock.now_ms()

        async def work(tx: Transaction) -> None:
            role = await find_principal_role(tx, name)
            members = await tx.rows(rows.MEMBERS_OF_ROLE, role.id)
            catalog_roles = await tx.rows(rows.ASSIGNED_CATALOG_ROLES, role.id)
            # Also deletes its assignments.
            await tx.run(rows.DELETE_PRINCIPAL_ROLE, role.id)
            await tx.run(rows.INVALIDATE_GRANTS)
            writer = RoleEventWriter(self._outbox, tx, by.principal, now_ms)
            for (user,) in members:
                await writer.membership("Revoked", name, user)
            for catalog, catalog_role in catalog_roles:
                await writer.assignment("Revoked", catalog, catalog_role, name)
            await writer.principal_role("Deleted", name)

        await self._store.transact(work)

    async def assign(self, by: Administrator, principal: str, role_name: str) -> None:
        """Assign a role to a principal. Idempotent. Raises NoSuchPrincipal; InvalidInput for a federated role."""
        await by.authorize("assignPrincipalRole")
        now_ms = self._clock.now_ms()

        async def work(tx: Transaction) -> None:
            await check_principal(tx, principal)
            role = await find_principal_role(tx, role_name)
            if role.federated:
                raise InvalidInput(
                    f"federated roles are assigned by the identity provider. name={role_name}", argument="principalRole"
                )
            if await tx.run(rows.ADD_PRINCIPAL, principal, role.id):
                await tx.run(rows.INVALIDATE_GRANTS)
                await RoleEventWriter(self._outbox, tx, by.principal, now_ms).membership(
                    "Assigned", role_name, principal
                )

        await self._store.transact(work)

    async def revoke(self, by: Administrator, principal: str, role_name: str) -> None:
        """Revoke a role from a principal. Applies to its next request on every server.

        Raises NoSuchPrincipal for an unknown principal or role, and if the role is not assigned.
        """
        await by.authorize("revokePrincipalRole")
        now_ms = self._clock.now_ms()

        async def work(tx: Transaction) -> None:
            await check_principal(tx, principal)
            role = await find_principal_role(tx, role_name)
            if not await tx.run(rows.REMOVE_PRINCIPAL, principal, role.id):
                raise NoSuchPrincipal(f"the principal does not have this role. principal={principal} role={role_name}")
            await tx.run(rows.INVALIDATE_GRANTS)
            await RoleEventWriter(self._outbox, tx, by.principal, now_ms).membership("Revoked", role_name, principal)

        await self._store.transact(work)

    async def of_principal(self, by: Administrator, principal: str) -> Sequence[PrincipalRole]:
        """The roles of a principal, ordered by name. Raises NoSuchPrincipal."""
        await by.authorize("listPrincipalRolesAssigned")
        await check_principal(self._store, principal)
        return [rows.principal_role_from(row) for row in await self._store.rows(rows.ROLES_OF_PRINCIPAL, principal)]


async def find_principal_role(reader: Reader, name: str) -> PrincipalRole:
    """A principal role by name. Raises NoSuchPrincipal."""
    row = await reader.row(rows.PRINCIPAL_ROLE, name)
    if row is None:
        raise NoSuchPrincipal(f"no such principal role. name={name}")
    return rows.principal_role_from(row)


async def check_principal(reader: Reader, name: str) -> None:
    """Raise NoSuchPrincipal unless the user exists or is root."""
    if name != ROOT and await reader.row(rows.HAS_PRINCIPAL, name) is None:
        raise NoSuchPrincipal(f"no such principal. name={name}")


async def revoke_all_roles(tx: Transaction, principal: str) -> list[str]:
    """Revoke all roles of a user that is deleted. Returns their names for `append_revocation_events`."""
    roles = [rows.principal_role_from(row) for row in await tx.rows(rows.ROLES_OF_PRINCIPAL, principal)]
    for role in roles:
        await tx.run(rows.REMOVE_PRINCIPAL, principal, role.id)
    if roles:
        await tx.run(rows.INVALIDATE_GRANTS)
    return [role.name for role in roles]


async def append_revocation_events(
    outbox: Outbox, tx: Transaction, principal: str, roles: list[str], caller: Principal, now_ms: int
) -> None:
    """Append the events of `revoke_all_roles`."""
    writer = RoleEventWriter(outbox, tx, caller, now_ms)
    for role in roles:
        await writer.membership("Revoked", role, principal)
