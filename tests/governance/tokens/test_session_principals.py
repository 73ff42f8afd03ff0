"""Keys to files that callers with tokens ask for: good as long as what the token was given for."""

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

from .people import ADDRESS, token_for, with_credentials


@pytest.fixture
def vending(store: MetaStore, access_keys: AccessKeys, master_keys: MasterKeys, clock: ManualClock) -> Sessions:
    return Sessions(master_keys, SessionPrincipals(store, access_keys), clock)


def vend(sessions: Sessions, caller: Principal) -> TemporaryKey:
    policy = directory_policy("lake", ["t/"], writes=False)
    return sessions.delegate(caller, table="t", policy=policy, duration_seconds=900)


async def opened(sessions: Sessions, key: TemporaryKey) -> Principal:
    return (await sessions.credential(key.session_token.reveal(), key.access_key_id)).principal


async def test_keys_for_a_caller_with_a_token_are_the_user_s_and_end_with_it(
    store: MetaStore,
    principals: Principals,
    client_credentials: ClientCredentialStore,
    clients: ClientAuthenticator,
    issuer: TokenIssuer,
    verifier: TokenVerifier,
    vending: Sessions,
) -> None:
    user, made = await with_credentials(store, principals, client_credentials)
    caller = await verifier.principal(await token_for(clients, issuer, made))
    key = vend(vending, caller)
    found = await opened(vending, key)
    assert (found.user_id, found.arn) == (user.user_id, user.arn)
    assert found.session is not None
    assert found.session.delegated_for == "t"
    await principals.set_user_enabled("bob", enabled=False)
    with pytest.raises(CredentialsRevoked):
        await opened(vending, key)
    await principals.set_user_enabled("bob", enabled=True)
    await opened(vending, key)
    await principals.delete_user("bob")
    with pytest.raises(CredentialsRevoked):
        await opened(vending, key)


async def test_keys_end_with_the_secret_that_the_token_was_given_for(
    store: MetaStore,
    principals: Principals,
    client_credentials: ClientCredentialStore,
    clients: ClientAuthenticator,
    issuer: TokenIssuer,
    verifier: TokenVerifier,
    vending: Sessions,
) -> None:
    user, made = await with_credentials(store, principals, client_credentials)
    key = vend(vending, await verifier.principal(await token_for(clients, issuer, made)))
    await client_credentials.rotate(user)
    await opened(vending, key)
    await client_credentials.rotate(user)
    with pytest.raises(CredentialsRevoked):
        await opened(vending, key)
    fresh = await client_credentials.reset(user)
    key = vend(vending, await verifier.principal(await token_for(clients, issuer, fresh)))
    await opened(vending, key)
    await client_credentials.reset(user)
    with pytest.raises(CredentialsRevoked):
        await opened(vending, key)


async def test_keys_for_root_with_a_token_are_as_those_for_its_key(
    clients: ClientAuthenticator, issuer: TokenIssuer, verifier: TokenVerifier, vending: Sessions, root: Credential
) -> None:
    client = await clients.authenticate("ROOTKEY", root.secret, ADDRESS)
    caller = await verifier.principal((await issuer.issue(client, None)).token)
    assert (await opened(vending, vend(vending, caller))).is_root
