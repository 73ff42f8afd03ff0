"""Users by what a provider of identities calls them.

A provider's subject becomes a user once and stays that user: by its first token, which names a user that is here and
that no subject has yet, or that is made then. From then on the name in the token means nothing: a subject whose name
changed is the same user, and a name that the provider has given to somebody else does not open the first one's door.
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
    """How a subject that was never here before becomes a user."""

    name: str | None
    """The name of the user, as the token says it."""
    create: bool
    """Whether a user of that name is made if there is none."""


@dataclass(frozen=True, slots=True)
class IdentifiedCaller:
    """Who calls, without grants, and the number of the latest change of those."""

    principal: Principal
    number: int


class ExternalIdentities:
    """Finds users by their subject."""

    def __init__(self, store: MetaStore, outbox: Outbox, principals: Principals, clock: Clock) -> None:
        self._store = store
        self._outbox = outbox
        self._principals = principals
        self._clock = clock
        self._callers: ValidatedCache[list[Row], IdentifiedCaller] = ValidatedCache(4096)

    async def caller(self, issuer: str, subject: str, provisioning: UserProvisioning) -> IdentifiedCaller:
        """The user that a subject is: one read. Raises Unauthenticated if it is none; CredentialsRevoked."""
        rows = await self._store.rows(_LOOKUP, issuer, subject)
        if not rows:
            await self._provision_user(issuer, subject, provisioning)
            rows = await self._store.rows(_LOOKUP, issuer, subject)
            if not rows:
                raise Unauthenticated("the user was removed as it came")
        user = user_from(rows[0][1:6])
        if not user.enabled:
            raise CredentialsRevoked("the user is disabled")
        name = f"{issuer}\0{subject}"
        known = self._callers.get(name, rows)
        if known is not None:
            return known
        principal = principal_from(user, (row[6:] for row in rows), user_key(user.user_id))
        return self._callers.put(name, rows, IdentifiedCaller(principal, rows[0][0]))

    async def _provision_user(self, issuer: str, subject: str, provisioning: UserProvisioning) -> None:
        if provisioning.name is None:
            raise Unauthenticated("the token does not name a user: see the provider's name_claim")
        try:
            check_user_name(provisioning.name)
        except InvalidName as error:
            raise Unauthenticated("the token names a user as none can be called") from error
        if provisioning.create:
            with suppress(AlreadyExists):
                await self._principals.create_user(provisioning.name)
        try:
            user = await self._principals.user(provisioning.name)
        except NoSuchPrincipal as error:
            raise Unauthenticated("no such user here: make one, or have the provider's users made") from error
        await self._link(issuer, subject, user)

    async def _link(self, issuer: str, subject: str, user: User) -> None:
        now_ms = self._clock.now_ms()

        async def work(tx: Transaction) -> None:
            linked = await tx.row(_LINKED, user.user_id)
            if linked is not None and linked != (issuer, subject):
                raise Unauthenticated("the user of that name is somebody else's")
            if linked is None and await tx.run(_LINK, issuer, subject, user.user_id, now_ms):
                await append_identity_event(self._outbox, tx, user, issuer, now_ms)

        await self._store.transact(work)
