"""Grants on streams: what users and principal roles hold there, with no catalog role between.

Streams are in no catalog, and their clients speak of users and of what these may do. So a grant is to a user, to any
user, or to a principal role. It is compiled with all the others and asked for by the one authorizer (ADR 31).
"""

from __future__ import annotations

from collections.abc import Iterable
from enum import StrEnum
from typing import Final, NamedTuple

from lakebed.core.access import Principal
from lakebed.core.clock import Clock
from lakebed.meta.outbox import Outbox
from lakebed.meta.seam import MetaStore, Row, Transaction

from . import rows
from .events import RoleEventWriter
from .model import ROOT
from .principal_roles import check_principal, find_principal_role
from .privileges import MASKS, Privilege
from .securables import ANY_NAME

_ROLE: Final = "Role"


class GranteeKind(StrEnum):
    """Who a grant on streams is to."""

    USER = "User"
    ROLE = _ROLE


class StreamGrant(NamedTuple):
    """A privilege that somebody holds on streams."""

    kind: GranteeKind
    name: str
    """Of the user, `*` for any; or of the principal role."""

    securable: str
    """The key of what it is on."""

    privilege: Privilege


class StreamGrants:
    """The use cases. Who may is asked before, by who knows the words of the caller."""

    def __init__(self, store: MetaStore, outbox: Outbox, clock: Clock) -> None:
        self._store = store
        self._outbox = outbox
        self._clock = clock

    async def all(self) -> list[StreamGrant]:
        """All of them, in an order of their own."""
        return [grant for grant in map(_grant, await self._store.rows(rows.STREAM_GRANTS)) if grant is not None]

    async def add(self, grant: StreamGrant, caller: Principal) -> bool:
        """Give it; whether it was not held before. Raises NoSuchPrincipal."""
        now_ms = self._clock.now_ms()

        async def work(tx: Transaction) -> bool:
            role = principal = None
            if grant.kind is GranteeKind.ROLE:
                role = (await find_principal_role(tx, grant.name)).id
                grantee = f"{_ROLE} {role}"
            else:
                grantee = f"{grant.kind} {grant.name}"
                if grant.name != ANY_NAME:
                    await check_principal(tx, grant.name)
                    # Root is in no table. It needs no grant either, and may be given one as it may be given a role.
                    principal = None if grant.name == ROOT else grant.name
            added = await tx.run(
                rows.ADD_STREAM_GRANT, grantee, grant.securable, int(grant.privilege), principal, role, now_ms
            )
            if added:
                await tx.run(rows.INVALIDATE_GRANTS)
                await _tell(RoleEventWriter(self._outbox, tx, caller, now_ms), "Added", grant)
            return bool(added)

        return await self._store.transact(work)

    async def remove(self, grants: Iterable[StreamGrant], caller: Principal) -> list[StreamGrant]:
        """Take these away, all at once; those that were held."""
        wanted = frozenset(grants)
        now_ms = self._clock.now_ms()

        async def work(tx: Transaction) -> list[StreamGrant]:
            gone: list[StreamGrant] = []
            for row in await tx.rows(rows.STREAM_GRANTS):
                grant = _grant(row)
                if grant is not None and grant in wanted:
                    await tx.run(rows.REMOVE_STREAM_GRANT, row[0], grant.securable, int(grant.privilege))
                    gone.append(grant)
            if gone:
                await tx.run(rows.INVALIDATE_GRANTS)
                teller = RoleEventWriter(self._outbox, tx, caller, now_ms)
                for grant in gone:
                    await _tell(teller, "Revoked", grant)
            return gone

        return await self._store.transact(work)


async def _tell(teller: RoleEventWriter, what: str, grant: StreamGrant) -> None:
    await teller.stream_grant(what, grant.kind, grant.name, grant.securable, grant.privilege)


def _grant(row: Row) -> StreamGrant | None:
    """None for a privilege that this build does not know, which is passed over as everywhere."""
    grantee, role, securable, number = row
    if number not in MASKS:
        return None
    privilege = Privilege(number)
    if role is not None:
        return StreamGrant(GranteeKind.ROLE, role, securable, privilege)
    return StreamGrant(GranteeKind.USER, grantee.removeprefix(f"{GranteeKind.USER} "), securable, privilege)
