"""Vended credentials of callers with tokens are valid as long as the token's client secret."""

from __future__ import annotations

import pytest

from lakebed.core.access import Credential, Principal
from lakebed.core.clock import ManualClock
from lakebed.core.errors import CredentialsRevoked
from lakebed.governance import AccessKeys, MasterKeys, Principals, Sessions, TemporaryKey
from lakebed.governance.delegation.vending import directory_policy
from lakebed.governance.tokens import (
    ClientAuthenticator,
    ClientCredentialStore,
    SessionPrincipals,
    TokenIssuer,
    TokenVerifier,
)
from lakebed.meta.seam import MetaStore

from .users import ADDRESS, token_for, with_credentials


@pytest.fixture
def vending(store: MetaStore, access_keys: AccessKeys, master_keys: MasterKeys, clock: ManualClock) -> Sessions:
    return Sessions(master_keys, SessionPrincipals(store, access_keys), clock)


def vend(sessions: Sessions, caller: Principal) -> TemporaryKey:
    policy = directory_policy("lake", ["t/"], writes=False)
    return sessions.delegate(caller, table="t", policy=policy, duration_seconds=900)


async def principal_of(sessions: Sessions, key: TemporaryKey) -> Principal:
    return (await sessions.credential(key.session_token.reveal(), key.access_key_id)).principal


async def test_vended_credentials_have_the_user_and_end_with_it(
    store: MetaStore,
    principals: Principals,
    client_credentials: ClientCredentialStore,
    clients: ClientAuthenticator,
    issuer: TokenIssuer,
    verifier: TokenVerifier,
    vending: Sessions,
) -> None:
    user, credentials = await with_credentials(store, principals, client_credentials)
    caller = await verifier.principal(await token_for(clients, issuer, credentials))
    key = vend(vending, caller)
    found = await principal_of(vending, key)
    assert (found.user_id, found.arn) == (user.user_id, user.arn)
    assert found.session is not None
    assert found.session.delegated_for == "t"
    await principals.set_user_enabled("bob", enabled=False)
    with pytest.raises(CredentialsRevoked):
        await principal_of(vending, key)
    await principals.set_user_enabled("bob", enabled=True)
    await principal_of(vending, key)
    await principals.delete_user("bob")
    with pytest.raises(CredentialsRevoked):
        await principal_of(vending, key)


async def test_vended_credentials_end_with_the_tokens_secret(
    store: MetaStore,
    principals: Principals,
    client_credentials: ClientCredentialStore,
    clients: ClientAuthenticator,
    issuer: TokenIssuer,
    verifier: TokenVerifier,
    vending: Sessions,
) -> None:
    user, credentials = await with_credentials(store, principals, client_credentials)
    key = vend(vending, await verifier.principal(await token_for(clients, issuer, credentials)))
    await client_credentials.rotate(user)
    await principal_of(vending, key)
    await client_credentials.rotate(user)
    with pytest.raises(CredentialsRevoked):
        await principal_of(vending, key)
    fresh = await client_credentials.reset(user)
    key = vend(vending, await verifier.principal(await token_for(clients, issuer, fresh)))
    await principal_of(vending, key)
    await client_credentials.reset(user)
    with pytest.raises(CredentialsRevoked):
        await principal_of(vending, key)


async def test_vended_credentials_of_root_with_a_token(
    clients: ClientAuthenticator, issuer: TokenIssuer, verifier: TokenVerifier, vending: Sessions, root: Credential
) -> None:
    client = await clients.authenticate("ROOTKEY", root.secret, ADDRESS)
    caller = await verifier.principal((await issuer.issue(client, None)).token)
    assert (await principal_of(vending, vend(vending, caller))).is_root
