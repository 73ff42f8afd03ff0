"""Users with client credentials."""

from __future__ import annotations

from lakebed.core.secrets import Secret
from lakebed.governance import Principals, User
from lakebed.governance.tokens import ClientCredentials, Clients, NewCredentials, TokenIssuer
from lakebed.meta.seam import MetaStore, Transaction

ADDRESS = "192.0.2.7"


async def with_credentials(
    store: MetaStore, principals: Principals, credentials: ClientCredentials, name: str = "bob"
) -> tuple[User, NewCredentials]:
    """A user, and its credentials."""
    user = await principals.create_user(name)
    fresh = await credentials.prepare()

    async def work(tx: Transaction) -> NewCredentials:
        return await credentials.create(tx, user, fresh)

    return user, await store.transact(work)


async def token_for(clients: Clients, issuer: TokenIssuer, made: NewCredentials, scope: str | None = None) -> Secret:
    """A token of the user with these credentials."""
    client = await clients.authenticate(made.client_id, made.secret, ADDRESS)
    return (await issuer.issue(client, scope)).token
