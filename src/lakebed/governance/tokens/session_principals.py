"""What sessions come from: an access key, client credentials, or a user who came with a token of another provider.

Keys to a table's files are sessions, and callers with tokens ask for them, too. Such a session is good for as long as
the token that asked would be, if it never expired: as long as the user may call and the secret is accepted that the
token was given for.
"""

from __future__ import annotations

from typing import Final, NamedTuple

from lakebed.core.access import Credential, LongLivedKey, Principal
from lakebed.core.errors import Unauthenticated
from lakebed.meta.seam import MetaStore, Row

from ..credentials.access_keys import AccessKeys
from ..principals import principal_from, user_from
from ..validated_cache import ValidatedCache

_USER: Final = "p.name, p.user_id, p.account, p.enabled, p.created_ms, g.kind, g.name, g.document"
_BY_CLIENT: Final = (
    f"SELECT {_USER} FROM client_credentials c JOIN principals p ON p.user_id = c.user_id"  # noqa: S608 - ours
    " LEFT JOIN principal_policies g ON g.principal = p.name"
    " WHERE c.client_id = ? AND (c.generation = ? OR (c.generation = ? AND c.secondary IS NOT NULL))"
    " ORDER BY g.kind, g.name"
)
_BY_USER: Final = (
    f"SELECT {_USER} FROM principals p LEFT JOIN principal_policies g ON g.principal = p.name"  # noqa: S608 - ours
    " WHERE p.user_id = ? ORDER BY g.kind, g.name"
)


class SessionPrincipal(NamedTuple):
    """Who a session is of."""

    principal: Principal


class SessionPrincipals:
    """Finds who a session is of. Implements `sessions.LastingKeys`."""

    def __init__(self, store: MetaStore, access_keys: AccessKeys) -> None:
        self._store = store
        self._access_keys = access_keys
        self._holders: ValidatedCache[list[Row], SessionPrincipal] = ValidatedCache(4096)

    async def lookup(self, key_id: str) -> Credential | SessionPrincipal:
        """Who holds what the session came from, if that is good now: one read. Raises Unauthenticated."""
        kind, slash, name = key_id.partition("/")
        if not slash:
            return await self._access_keys.lookup(key_id)
        if kind == "user":
            rows = await self._store.rows(_BY_USER, name)
        else:
            client_id, _, generation = name.rpartition("/")
            number = int(generation)
            # The one before the present secret has its number less one.
            rows = await self._store.rows(_BY_CLIENT, client_id, number, number + 1)
        if not rows:
            raise Unauthenticated("what the session came from is not there any more")
        user = user_from(rows[0][:5])
        if not user.enabled:
            raise Unauthenticated(f"the user is disabled. user={user.name}")
        known = self._holders.get(key_id, rows)
        if known is not None:
            return known
        principal = principal_from(user, (row[5:] for row in rows), LongLivedKey(key_id, created_ms=0))
        return self._holders.put(key_id, rows, SessionPrincipal(principal))
