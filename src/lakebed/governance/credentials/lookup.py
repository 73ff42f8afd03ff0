"""Looks up credentials by access key id, long-lived and temporary."""

from __future__ import annotations

from lakebed.core.access import Credential
from lakebed.core.errors import Unauthenticated

from ..model import TEMPORARY_KEY_PREFIX
from .access_keys import AccessKeys
from .sessions import Sessions


class CredentialLookup:
    """Implements `core.access.CredentialResolver`."""

    __slots__ = ("_access_keys", "_sessions")

    def __init__(self, access_keys: AccessKeys, sessions: Sessions) -> None:
        self._access_keys = access_keys
        self._sessions = sessions

    async def credential(self, access_key_id: str, session_token: str | None = None) -> Credential:
        """The credential of a valid key. Raises Unauthenticated, CredentialsExpired, CredentialsRevoked."""
        is_temporary = access_key_id.startswith(TEMPORARY_KEY_PREFIX)
        if session_token is None:
            if is_temporary:
                raise Unauthenticated("a temporary key needs its session token")
            return await self._access_keys.lookup(access_key_id)
        if not is_temporary:
            raise Unauthenticated("only a temporary key can have a session token")
        return await self._sessions.credential(session_token, access_key_id)
