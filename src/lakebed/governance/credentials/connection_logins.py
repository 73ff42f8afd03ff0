"""Logins on long-lived connections, by an access key or by client credentials.

The secret is verified once. The principal and its grants are looked up again for every request, so that revoked keys
and changed grants take effect on open connections.
"""

from __future__ import annotations

from dataclasses import dataclass, replace
from typing import Final

from lakebed.core.access import Principal
from lakebed.core.errors import Unauthenticated
from lakebed.core.secrets import Secret
from lakebed.governance.rbac.rows import CHANGE_NUMBER
from lakebed.governance.tokens import AuthenticatedClient, ClientAuthenticator, SessionPrincipals
from lakebed.governance.tokens.clients import is_generation
from lakebed.governance.tokens.model import client_key
from lakebed.meta.seam import MetaStore

from ..rbac.caller_grants import CallerGrants
from .access_keys import AccessKeys
from .vault import MasterKeys

_CLIENT_STATE: Final = (
    f"SELECT {CHANGE_NUMBER}, c.rotate_only FROM client_credentials c"  # noqa: S608 - constants only
    " JOIN principals p ON p.user_id = c.user_id WHERE c.client_id = ?"
)


class ConnectionLogins:
    """Verifies names and secrets."""

    def __init__(
        self, meta: MetaStore, clients: ClientAuthenticator, access_keys: AccessKeys, master: MasterKeys
    ) -> None:
        self._meta = meta
        self._master = master
        self._clients = clients
        self._access_keys = access_keys
        self._identities = SessionPrincipals(meta, access_keys)
        self._grants = CallerGrants(meta)

    async def authenticate(self, name: str, secret: Secret, address: str) -> VerifiedLogin:
        """Verify a secret. Raises Unauthenticated, CredentialsExpired, Throttled."""
        return VerifiedLogin(self, await self._clients.authenticate(name, secret, address))

    async def principal(self, client: AuthenticatedClient) -> Principal:
        """The principal with its current grants. Raises Unauthenticated if the secret was replaced or revoked."""
        if not client.generation.isdecimal():
            found = await self._access_keys.lookup(client.client_id)
            if not is_generation(self._master, client.generation, client.client_id, found.secret):
                raise Unauthenticated("the secret of the access key was replaced")
            return found.principal
        principal = (await self._identities.lookup(client_key(client.client_id, client.generation).id)).principal
        row = await self._meta.row(_CLIENT_STATE, client.client_id)
        if row is None:
            raise Unauthenticated("the client was deleted")
        number, rotate_only = row
        grants = await self._grants.of(principal.name, number)
        return replace(principal, grants=grants, must_rotate=int(client.generation) == rotate_only)


@dataclass(frozen=True, slots=True)
class VerifiedLogin:
    """A secret that was verified."""

    logins: ConnectionLogins
    client: AuthenticatedClient

    async def principal(self) -> Principal:
        """The principal with its current grants. Raises Unauthenticated if the secret was replaced or revoked."""
        return await self.logins.principal(self.client)
