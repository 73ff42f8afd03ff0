"""Users with client credentials."""

from __future__ import annotations

from lakebed.core.secrets import Secret
from lakebed.governance import Principals, User
from lakebed.governance.tokens import ClientAuthenticator, ClientCredentialStore, NewClientCredentials, TokenIssuer
from lakebed.meta.seam import MetaStore, Transaction

ADDRESS = "192.0.2.7"


async def with_credentials(
    store: MetaStore, principals: Principals, credentials: ClientCredentialStore, name: str = "bob"
) -> tuple[User, NewClientCredentials]:
    """A user with client credentials."""
    user = await principals.create_user(name)
    fresh = await credentials.prepare()

    async def work(tx: Transaction) -> NewClientCredentials:
        return await credentials.create(tx, user, fresh)

    return user, await store.transact(work)


async def token_for(
    clients: ClientAuthenticator, issuer: TokenIssuer, credentials: NewClientCredentials, scope: str | None = None
) -> Secret:
    """A token for these credentials."""
    client = await clients.authenticate(credentials.client_id, credentials.secret, ADDRESS)
    return (await issuer.issue(client, scope)).token
