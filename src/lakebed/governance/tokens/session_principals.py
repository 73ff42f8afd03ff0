"""Finds the principals of sessions whose parent is an access key, client credentials or an external identity.

Callers with tokens can obtain sessions too, such as vended credentials. Those are valid while the user is enabled and
the client secret of the token is accepted, even after the token expires.
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
    """The principal of a session."""

    principal: Principal


class SessionPrincipals:
    """Finds principals of sessions. Implements `sessions.LongLivedKeys`."""

    def __init__(self, store: MetaStore, access_keys: AccessKeys) -> None:
        self._store = store
        self._access_keys = access_keys
        self._cache: ValidatedCache[list[Row], SessionPrincipal] = ValidatedCache(4096)

    async def lookup(self, key_id: str) -> Credential | SessionPrincipal:
        """The principal of a valid parent key: one read. Raises Unauthenticated."""
        kind, slash, name = key_id.partition("/")
        if not slash:
            return await self._access_keys.lookup(key_id)
        if kind == "user":
            rows = await self._store.rows(_BY_USER, name)
        else:
            client_id, _, generation = name.rpartition("/")
            number = int(generation)
            # A secondary secret has the generation before the current one.
            rows = await self._store.rows(_BY_CLIENT, client_id, number, number + 1)
        if not rows:
            raise Unauthenticated("the parent credentials of the session were replaced or deleted")
        user = user_from(rows[0][:5])
        if not user.enabled:
            raise Unauthenticated(f"the user is disabled. user={user.name}")
        cached = self._cache.get(key_id, rows)
        if cached is not None:
            return cached
        principal = principal_from(user, (row[5:] for row in rows), LongLivedKey(key_id, created_ms=0))
        return self._cache.put(key_id, rows, SessionPrincipal(principal))
