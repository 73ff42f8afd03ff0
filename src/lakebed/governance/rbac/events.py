"""Events of roles, their assignments and grants, appended in the transaction of the change.

Every created, changed or deleted row has an event, including assignments and grants that are deleted with a role or a
user. Grants that are deleted with a table, namespace or catalog have none of their own, and neither has a call that
changes nothing.

    PrincipalRole   Created, Configured, Deleted; Assigned, Revoked (to and from a user)
    CatalogRole     Created, Configured, Deleted; Assigned, Revoked (to and from a principal role)
    Grant           Added, Revoked
"""

from __future__ import annotations

import msgspec

from lakebed.core.access import Principal
from lakebed.meta.outbox import Outbox, OutboxEvent
from lakebed.meta.seam import Transaction

from .model import RoleGrant
from .privileges import Privilege


class RoleEvent(msgspec.Struct, frozen=True, omit_defaults=True, kw_only=True):
    """The payload, with names."""

    role: str
    """The principal role, or the catalog role if `catalog` is set; empty for a grant on streams to a user."""

    catalog: str = ""
    user: str = ""
    """The grantee of a principal role or of a privilege on streams."""

    principal_role: str = ""
    """The grantee of a catalog role."""

    securable: str = ""
    """The target of a grant, such as `table ns.t`."""

    privilege: str = ""
    principal: str = ""
    """The caller."""

    account: str = ""


_encode = msgspec.msgpack.Encoder().encode


class RoleEventWriter:
    """Appends the events of one change."""

    __slots__ = ("_caller", "_now_ms", "_outbox", "_tx")

    def __init__(self, outbox: Outbox, tx: Transaction, caller: Principal, now_ms: int) -> None:
        self._outbox = outbox
        self._tx = tx
        self._caller = caller
        self._now_ms = now_ms

    async def principal_role(self, change: str, role: str) -> None:
        """A principal role was `Created`, `Configured` or `Deleted`."""
        await self._append(f"PrincipalRole{change}", role, RoleEvent(role=role))

    async def membership(self, change: str, role: str, user: str) -> None:
        """A principal role was `Assigned` to a user, or `Revoked`."""
        await self._append(f"PrincipalRole{change}", f"{user}/{role}", RoleEvent(role=role, user=user))

    async def catalog_role(self, change: str, catalog: str, role: str) -> None:
        """A catalog role was `Created`, `Configured` or `Deleted`."""
        await self._append(f"CatalogRole{change}", f"{catalog}/{role}", RoleEvent(role=role, catalog=catalog))

    async def assignment(self, change: str, catalog: str, role: str, principal_role: str) -> None:
        """A catalog role was `Assigned` to a principal role, or `Revoked`."""
        event = RoleEvent(role=role, catalog=catalog, principal_role=principal_role)
        await self._append(f"CatalogRole{change}", f"{principal_role}/{catalog}/{role}", event)

    async def grant(self, change: str, catalog: str, role: str, grant: RoleGrant) -> None:
        """A privilege was `Added` to a catalog role, or `Revoked`."""
        event = RoleEvent(role=role, catalog=catalog, securable=str(grant.target), privilege=grant.privilege.name)
        await self._append(f"Grant{change}", f"{catalog}/{role}", event)

    async def stream_grant(self, change: str, kind: str, name: str, securable: str, privilege: Privilege) -> None:
        """A privilege on streams was `Added` to a user or a principal role, or `Revoked`."""
        granted = RoleEvent(role="", user=name) if kind == "User" else RoleEvent(role=name)
        event = msgspec.structs.replace(granted, securable=securable, privilege=privilege.name)
        await self._append(f"Grant{change}", f"{securable}/{name}", event)

    async def _append(self, kind: str, subject: str, event: RoleEvent) -> None:
        event = msgspec.structs.replace(event, principal=self._caller.name, account=self._caller.account)
        await self._outbox.append(self._tx, OutboxEvent(kind, subject, _encode(event), self._now_ms))
