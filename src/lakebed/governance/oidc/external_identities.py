"""Maps the subjects of identity providers to users.

A subject's first token links it permanently to a user: the existing user that the token names, if no other subject is
linked to it, or a new user. Later tokens are matched by subject alone. So a renamed subject keeps its user, and a
name that the provider reassigns gives no access to the user of its former owner.
"""

from __future__ import annotations

from contextlib import suppress
from dataclasses import dataclass
from typing import Final

from lakebed.core.access import Principal
from lakebed.core.clock import Clock
from lakebed.core.errors import AlreadyExists, CredentialsRevoked, InvalidName, NoSuchPrincipal, Unauthenticated
from lakebed.meta.outbox import Outbox
from lakebed.meta.seam import MetaStore, Row, Transaction

from ..events import append_identity_event
from ..model import User, check_user_name
from ..principals import Principals, principal_from, user_from
from ..rbac.rows import LATEST_CHANGE
from ..tokens.model import user_key
from ..validated_cache import ValidatedCache

_LOOKUP: Final = (
    f"SELECT ({LATEST_CHANGE}), p.name, p.user_id, p.account, p.enabled, p.created_ms, g.kind, g.name, g.document"  # noqa: S608 - ours
    " FROM external_identities e JOIN principals p ON p.user_id = e.user_id"
    " LEFT JOIN principal_policies g ON g.principal = p.name"
    " WHERE e.issuer = ? AND e.subject = ? ORDER BY g.kind, g.name"
)
_LINKED: Final = "SELECT issuer, subject FROM external_identities WHERE user_id = ?"
_LINK: Final = (
    "INSERT INTO external_identities (issuer, subject, user_id, created_ms) VALUES (?, ?, ?, ?) ON CONFLICT DO NOTHING"
)


@dataclass(frozen=True, slots=True)
class UserProvisioning:
    """How an unknown subject is linked to a user."""

    name: str | None
    """The user name in the token."""
    create: bool
    """Whether to create a missing user."""


@dataclass(frozen=True, slots=True)
class IdentifiedCaller:
    """The principal, without grants, and the number of the latest grant change."""

    principal: Principal
    number: int


class ExternalIdentities:
    """Finds users by subject."""

    def __init__(self, store: MetaStore, outbox: Outbox, principals: Principals, clock: Clock) -> None:
        self._store = store
        self._outbox = outbox
        self._principals = principals
        self._clock = clock
        self._callers: ValidatedCache[list[Row], IdentifiedCaller] = ValidatedCache(4096)

    async def caller(self, issuer: str, subject: str, provisioning: UserProvisioning) -> IdentifiedCaller:
        """The subject's user, by one read. Raises Unauthenticated if it cannot be linked, CredentialsRevoked."""
        rows = await self._store.rows(_LOOKUP, issuer, subject)
        if not rows:
            await self._provision_user(issuer, subject, provisioning)
            rows = await self._store.rows(_LOOKUP, issuer, subject)
            if not rows:
                raise Unauthenticated("the user was deleted during login")
        user = user_from(rows[0][1:6])
        if not user.enabled:
            raise CredentialsRevoked("the user is disabled")
        name = f"{issuer}\0{subject}"
        cached = self._callers.get(name, rows)
        if cached is not None:
            return cached
        principal = principal_from(user, (row[6:] for row in rows), user_key(user.user_id))
        return self._callers.put(name, rows, IdentifiedCaller(principal, rows[0][0]))

    async def _provision_user(self, issuer: str, subject: str, provisioning: UserProvisioning) -> None:
        if provisioning.name is None:
            raise Unauthenticated("the token contains no user name: check name_claim of the provider")
        try:
            check_user_name(provisioning.name)
        except InvalidName as error:
            raise Unauthenticated("the user name in the token is not valid here") from error
        if provisioning.create:
            with suppress(AlreadyExists):
                await self._principals.create_user(provisioning.name)
        try:
            user = await self._principals.user(provisioning.name)
        except NoSuchPrincipal as error:
            raise Unauthenticated("no such user: create it, or enable create_users of the provider") from error
        await self._link(issuer, subject, user)

    async def _link(self, issuer: str, subject: str, user: User) -> None:
        now_ms = self._clock.now_ms()

        async def work(tx: Transaction) -> None:
            linked = await tx.row(_LINKED, user.user_id)
            if linked is not None and linked != (issuer, subject):
                raise Unauthenticated("the user is linked to another subject")
            if linked is None and await tx.run(_LINK, issuer, subject, user.user_id, now_ms):
                await append_identity_event(self._outbox, tx, user, issuer, now_ms)

        await self._store.transact(work)
