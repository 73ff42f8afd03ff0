"""What happened to roles, who has them and what they hold, as the outbox keeps it: written with the change itself.

Every row that came, went or changed has an event of its own, those of memberships and grants too when they go with a
role or a user. Not so what goes with a table, a namespace or a catalog: the event of that says so. What changed nothing
tells nothing.

    PrincipalRole   Created, Configured, Deleted; Assigned, Revoked (to and from a user)
    CatalogRole     Created, Configured, Deleted; Assigned, Revoked (to and from a principal role)
    Grant           Added, Revoked
"""

from __future__ import annotations

import msgspec

from lakebed.core.access import Principal
from lakebed.meta.outbox import Outbox, OutboxEvent
from lakebed.meta.seam import Transaction

from .model import HeldGrant
from .privileges import Privilege


class RoleEvent(msgspec.Struct, frozen=True, omit_defaults=True, kw_only=True):
    """The payload, by names."""

    role: str
    """The principal role, or the catalog role where `catalog` is told; empty for a grant on streams to a user."""

    catalog: str = ""
    user: str = ""
    """Who was given a principal role or a privilege on streams, or lost it."""

    principal_role: str = ""
    """Which principal role was given a catalog role, or lost it."""

    securable: str = ""
    """What a grant is on: `table ns.t`."""

    privilege: str = ""
    principal: str = ""
    """Who made the change."""

    account: str = ""


_encode = msgspec.msgpack.Encoder().encode
decode_role_event = msgspec.msgpack.Decoder(RoleEvent).decode


class RoleEventWriter:
    """Appends the events of one change: who makes it, and when, is told once."""

    __slots__ = ("_caller", "_now_ms", "_outbox", "_tx")

    def __init__(self, outbox: Outbox, tx: Transaction, caller: Principal, now_ms: int) -> None:
        self._outbox = outbox
        self._tx = tx
        self._caller = caller
        self._now_ms = now_ms

    async def principal_role(self, what: str, role: str) -> None:
        """A principal role was `Created`, `Configured` or `Deleted`."""
        await self._tell(f"PrincipalRole{what}", role, RoleEvent(role=role))

    async def membership(self, what: str, role: str, user: str) -> None:
        """A principal role was `Assigned` to a user, or `Revoked`."""
        await self._tell(f"PrincipalRole{what}", f"{user}/{role}", RoleEvent(role=role, user=user))

    async def catalog_role(self, what: str, catalog: str, role: str) -> None:
        """A catalog role was `Created`, `Configured` or `Deleted`."""
        await self._tell(f"CatalogRole{what}", f"{catalog}/{role}", RoleEvent(role=role, catalog=catalog))

    async def assignment(self, what: str, catalog: str, role: str, principal_role: str) -> None:
        """A catalog role was `Assigned` to a principal role, or `Revoked`."""
        event = RoleEvent(role=role, catalog=catalog, principal_role=principal_role)
        await self._tell(f"CatalogRole{what}", f"{principal_role}/{catalog}/{role}", event)

    async def grant(self, what: str, catalog: str, role: str, grant: HeldGrant) -> None:
        """A privilege was `Added` to a catalog role, or `Revoked`."""
        event = RoleEvent(role=role, catalog=catalog, securable=str(grant.target), privilege=grant.privilege.name)
        await self._tell(f"Grant{what}", f"{catalog}/{role}", event)

    async def stream_grant(self, what: str, kind: str, name: str, securable: str, privilege: Privilege) -> None:
        """A privilege on streams was `Added` to a user or a principal role, or `Revoked`."""
        held = RoleEvent(role="", user=name) if kind == "User" else RoleEvent(role=name)
        event = msgspec.structs.replace(held, securable=securable, privilege=privilege.name)
        await self._tell(f"Grant{what}", f"{securable}/{name}", event)

    async def _tell(self, kind: str, subject: str, event: RoleEvent) -> None:
        told = msgspec.structs.replace(event, principal=self._caller.name, account=self._caller.account)
        await self._outbox.append(self._tx, OutboxEvent(kind, subject, _encode(told), self._now_ms))
