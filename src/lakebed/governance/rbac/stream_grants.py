"""Grants on streams to users and principal roles.

Streams belong to no catalog, so no catalog role is involved; Fluss clients grant to users. A grantee is a user, any
user, or a principal role. The grants are cached and authorized together with all others (ADR 31).
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
    """The kinds of grantees."""

    USER = "User"
    ROLE = _ROLE


class StreamGrant(NamedTuple):
    """A privilege on streams of one grantee."""

    kind: GranteeKind
    name: str
    """Of the user, `*` for any, or of the principal role."""

    securable: str
    """The key of the securable."""

    privilege: Privilege


class StreamGrants:
    """The operations on stream grants. Callers authorize."""

    def __init__(self, store: MetaStore, outbox: Outbox, clock: Clock) -> None:
        self._store = store
        self._outbox = outbox
        self._clock = clock

    async def all(self) -> list[StreamGrant]:
        """All grants, in a stable order."""
        return [grant for grant in map(_grant, await self._store.rows(rows.STREAM_GRANTS)) if grant is not None]

    async def add(self, grant: StreamGrant, caller: Principal) -> bool:
        """Add a grant. Returns whether it is new. Raises NoSuchPrincipal."""
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
                    # Root has no row. It needs no grants, but may have some.
                    principal = None if grant.name == ROOT else grant.name
            added = await tx.run(
                rows.ADD_STREAM_GRANT, grantee, grant.securable, int(grant.privilege), principal, role, now_ms
            )
            if added:
                await tx.run(rows.INVALIDATE_GRANTS)
                await _append_event(RoleEventWriter(self._outbox, tx, caller, now_ms), "Added", grant)
            return bool(added)

        return await self._store.transact(work)

    async def remove(self, grants: Iterable[StreamGrant], caller: Principal) -> list[StreamGrant]:
        """Revoke grants in one transaction. Returns those that existed."""
        wanted = frozenset(grants)
        now_ms = self._clock.now_ms()

        async def work(tx: Transaction) -> list[StreamGrant]:
            revoked: list[StreamGrant] = []
            for row in await tx.rows(rows.STREAM_GRANTS):
                grant = _grant(row)
                if grant is not None and grant in wanted:
                    await tx.run(rows.REMOVE_STREAM_GRANT, row[0], grant.securable, int(grant.privilege))
                    revoked.append(grant)
            if revoked:
                await tx.run(rows.INVALIDATE_GRANTS)
                writer = RoleEventWriter(self._outbox, tx, caller, now_ms)
                for grant in revoked:
                    await _append_event(writer, "Revoked", grant)
            return revoked

        return await self._store.transact(work)


async def _append_event(writer: RoleEventWriter, change: str, grant: StreamGrant) -> None:
    await writer.stream_grant(change, grant.kind, grant.name, grant.securable, grant.privilege)


def _grant(row: Row) -> StreamGrant | None:
    """None for a privilege of a later release, which is ignored."""
    grantee, role, securable, number = row
    if number not in MASKS:
        return None
    privilege = Privilege(number)
    if role is not None:
        return StreamGrant(GranteeKind.ROLE, role, securable, privilege)
    return StreamGrant(GranteeKind.USER, grantee.removeprefix(f"{GranteeKind.USER} "), securable, privilege)
