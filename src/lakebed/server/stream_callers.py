"""Who stream clients are: whoever shows an access key and its secret, or client credentials."""

from __future__ import annotations

from dataclasses import dataclass, replace
from typing import Final

from lakebed.core.access import Principal
from lakebed.core.errors import Unauthenticated
from lakebed.core.secrets import Secret
from lakebed.governance.access_keys import AccessKeys
from lakebed.governance.rbac.loading import CallerGrants
from lakebed.governance.rbac.rows import CHANGE_NUMBER
from lakebed.governance.tokens import Client, Clients, LastingIdentities
from lakebed.governance.tokens.clients import is_generation
from lakebed.governance.tokens.model import client_key
from lakebed.governance.vault import MasterKeys
from lakebed.meta.seam import MetaStore
from lakebed.wire.fluss.sasl import Proof

_HELD_BY_CLIENT: Final = (
    f"SELECT {CHANGE_NUMBER}, c.rotate_only FROM client_credentials c"  # noqa: S608 - constants only
    " JOIN principals p ON p.user_id = c.user_id WHERE c.client_id = ?"
)


class StreamCallers:
    """Implements `sasl.Authenticator`."""

    def __init__(self, meta: MetaStore, clients: Clients, access_keys: AccessKeys, master: MasterKeys) -> None:
        self._meta = meta
        self._master = master
        self._clients = clients
        self._access_keys = access_keys
        self._identities = LastingIdentities(meta, access_keys)
        self._grants = CallerGrants(meta)

    async def authenticate(self, name: str, secret: Secret, address: str) -> Proof:
        """Raises Unauthenticated, Throttled."""
        return _Shown(self, await self._clients.authenticate(name, secret, address))

    async def principal(self, client: Client) -> Principal:
        """Who that is, with the rights of now. Raises Unauthenticated."""
        if not client.generation.isdecimal():
            found = await self._access_keys.lookup(client.client_id)
            if not is_generation(self._master, client.generation, client.client_id, found.secret):
                raise Unauthenticated("the access key has another secret by now")
            return found.principal
        principal = (await self._identities.lookup(client_key(client.client_id, client.generation).id)).principal
        row = await self._meta.row(_HELD_BY_CLIENT, client.client_id)
        if row is None:
            raise Unauthenticated("the client is not there any more")
        number, rotate_only = row
        grants = await self._grants.of(principal.name, number)
        return replace(principal, grants=grants, must_rotate=int(client.generation) == rotate_only)


@dataclass(frozen=True, slots=True)
class _Shown:
    """A secret that was right. Implements `sasl.Proof`."""

    callers: StreamCallers
    client: Client

    async def principal(self) -> Principal:
        """Raises Unauthenticated."""
        return await self.callers.principal(self.client)
